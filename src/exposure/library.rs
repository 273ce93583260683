//! A shared object that replaces malloc, looked at before anything is started with it.

use crate::report::printable;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Characters of a name in a message.
const LONGEST: usize = 300;

/// A shared object for the loader's LD_PRELOAD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// Where it is, absolute.
    pub path: PathBuf,
    /// Its file name, for people.
    pub name: String,
}

/// Why a file cannot be preloaded.
#[derive(Debug, thiserror::Error)]
#[error("cannot preload {name}: {reason}")]
pub struct LibraryError {
    /// The file as the user named it.
    pub name: String,
    /// Why, with the way out.
    pub reason: String,
}

impl Library {
    /// Looks at a file.
    ///
    /// # Errors
    /// Where it is missing, is no shared object for this machine, or has a name that LD_PRELOAD cannot hold.
    pub fn at(path: &Path) -> Result<Library, LibraryError> {
        let refused =
            |reason: String| LibraryError { name: printable(&path.display().to_string(), LONGEST), reason };
        let system = |error: std::io::Error| refused(crate::sys::reason(&error));
        if !cfg!(target_env = "gnu") || cfg!(target_feature = "crt-static") {
            return Err(refused("this build of fsprobe is static, and the loader has no part in it".into()));
        }
        let absolute = path.canonicalize().map_err(system)?;
        if !absolute.is_file() {
            return Err(refused("it is not a regular file".into()));
        }
        let mut head = Vec::new();
        File::open(&absolute).and_then(|file| file.take(HEAD).read_to_end(&mut head)).map_err(system)?;
        fits(&head).map_err(|reason| refused(reason.into()))?;
        let name = path.file_name().map(|name| printable(&name.to_string_lossy(), LONGEST));
        // the user's own name for it serves, unless the loader would not find it by that
        let loadable =
            [std::path::absolute(path).map_err(system)?, absolute].into_iter().find(|p| is_one_word(p));
        match loadable {
            Some(path) => Ok(Library { path, name: name.unwrap_or_default() }),
            None => Err(refused(
                "LD_PRELOAD takes no name with a space or colon (make a link to it elsewhere)".into(),
            )),
        }
    }
}

/// The loader takes spaces and colons for the ends of a name.
fn is_one_word(path: &Path) -> bool {
    !path.as_os_str().as_encoded_bytes().iter().any(|byte| [b' ', b':'].contains(byte))
}

/// Bytes of an ELF header that are looked at: up to `e_machine` (elf(5)).
const HEAD: u64 = 20;

fn fits(head: &[u8]) -> Result<(), &'static str> {
    const SHARED_OBJECT: [u8; 2] = [3, 0];
    const X86_64: [u8; 2] = [62, 0];
    match head {
        [0x7f, b'E', b'L', b'F', class, order, ..] if head.len() as u64 == HEAD => {
            if (*class, *order) != (2, 1) || head[18..20] != X86_64 {
                Err("it is made for another machine than x86-64")
            } else if head[16..18] != SHARED_OBJECT {
                Err("it is an ELF file, but no shared object")
            } else {
                Ok(())
            }
        }
        _ => Err("it is no ELF file"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_tell_what_can_be_loaded() {
        let mut head = *b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0";
        assert_eq!(fits(&head), Ok(()));
        assert!(fits(&head[..19]).is_err());
        assert!(fits(b"").is_err());
        assert_eq!(fits(b"#!/bin/sh\necho never\n"), Err("it is no ELF file"));
        head[16] = 2;
        assert!(fits(&head).unwrap_err().contains("no shared object"));
        head[18] = 3;
        assert!(fits(&head).unwrap_err().contains("another machine"));
    }

    #[test]
    fn missing_files_folders_and_names_are_refused() {
        let refused = |path: &Path| Library::at(path).unwrap_err().to_string();
        if !cfg!(target_env = "gnu") {
            assert!(refused(Path::new("/lib")).contains("static"));
            return;
        }
        assert_eq!(
            refused(Path::new("/no/such.so")),
            "cannot preload /no/such.so: No such file or directory"
        );
        assert!(refused(Path::new("/")).contains("not a regular file"));
        let folder = tempfile::tempdir().unwrap();
        let named = folder.path().join("a b.so");
        std::fs::write(&named, b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0").unwrap();
        assert!(refused(&named).contains("no name with a space"), "{}", refused(&named));
        let link = folder.path().join("link.so");
        std::os::unix::fs::symlink(&named, &link).unwrap();
        assert_eq!(Library::at(&link).unwrap(), Library { path: link, name: "link.so".into() });
    }
}
