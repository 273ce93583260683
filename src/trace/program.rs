//! What kind of program a command starts, as far as it decides which ways of watching see it.

use rustix::fs::getxattr;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Scripts that name a script as their interpreter: the kernel follows four.
const MOST_SCRIPTS: usize = 4;

/// Bytes of a file that are looked at: the kernel reads 256 for a script's first line, and program headers
/// lie near the start.
const HEAD: u64 = 8192;

/// How a program is linked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Linked {
    /// With glibc's loader for x86-64, which takes preloaded objects.
    Dynamically,
    /// Without a loader.
    Statically,
    /// With another loader: of another C library, or another word size.
    Otherwise(String),
    /// It could not be looked at.
    Unknown,
}

/// What a command starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The file: of a script, its interpreter's.
    pub file: PathBuf,
    /// How it is linked.
    pub linked: Linked,
    /// Whether it is started with privileges that the caller lacks (setuid, setgid, capabilities), which the
    /// loader and the kernel keep from being watched.
    pub privileged: bool,
}

impl Program {
    /// Looks at what a command's first word names; none where there is no such file.
    pub fn of(word: &OsStr) -> Option<Program> {
        let mut file = found(word)?;
        for _ in 0..=MOST_SCRIPTS {
            let head = head(&file);
            let Some(interpreter) = interpreter(&head) else {
                return Some(Program { linked: linked(&head), privileged: is_privileged(&file), file });
            };
            file = interpreter;
        }
        Some(Program { file, linked: Linked::Unknown, privileged: false })
    }
}

/// The file that execvp(3) would take.
fn found(word: &OsStr) -> Option<PathBuf> {
    if word.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(word)).filter(|file| file.is_file());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
    std::env::split_paths(&path).map(|folder| folder.join(word)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
}

fn head(file: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    // what cannot be read (execute permission alone) is of an unknown kind
    let _ = File::open(file).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    head
}

/// The program that a script's first line names.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.split(|byte| b" \t".contains(byte)).find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsString::from_vec(word.to_vec())))
}

/// Whether execve(2) would raise privileges: root gains none by setuid.
fn is_privileged(file: &Path) -> bool {
    let Ok(meta) = file.metadata() else { return false };
    let (me, my_group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let is_set = |bit: u32, owner: u32, mine: u32| meta.mode() & bit != 0 && owner != mine;
    let has_capabilities = || {
        let mut capabilities = [0u8; 64];
        me != 0 && getxattr(file, "security.capability", &mut capabilities[..]).is_ok_and(|size| size > 0)
    };
    is_set(0o4000, meta.uid(), me) || is_set(0o2000, meta.gid(), my_group) || has_capabilities()
}

/// How an ELF file is linked, by its head.
fn linked(head: &[u8]) -> Linked {
    const X86_64: u16 = 62;
    const LOADER: u32 = 3;
    if !head.starts_with(b"\x7fELF") {
        return Linked::Unknown;
    }
    if head.get(4) != Some(&2) || number(head, 18, 2) != Some(u64::from(X86_64)) {
        return Linked::Otherwise("not a 64-bit x86 program".into());
    }
    let (Some(table), Some(size), Some(count)) =
        (number(head, 32, 8), number(head, 54, 2), number(head, 56, 2))
    else {
        return Linked::Unknown;
    };
    for entry in 0..count {
        let Some(at) =
            usize::try_from(table).ok().and_then(|table| table.checked_add((entry * size) as usize))
        else {
            return Linked::Unknown;
        };
        let Some(kind) = number(head, at, 4) else { return Linked::Unknown };
        if kind == u64::from(LOADER) {
            return loader(head, at);
        }
    }
    Linked::Statically
}

/// What a program's loader says of it.
fn loader(head: &[u8], at: usize) -> Linked {
    let place = number(head, at.saturating_add(8), 8).and_then(|at| usize::try_from(at).ok());
    let size = number(head, at.saturating_add(32), 8).and_then(|size| usize::try_from(size).ok());
    let name = place.zip(size).and_then(|(at, size)| head.get(at..at.checked_add(size)?));
    let Some(name) = name else { return Linked::Unknown };
    let name = String::from_utf8_lossy(name);
    let name = name.trim_end_matches('\0');
    match name.rsplit('/').next() {
        Some("ld-linux-x86-64.so.2") => Linked::Dynamically,
        // NixOS and others keep glibc's loader under names of their own
        _ if name.contains("ld-linux-x86-64") => Linked::Dynamically,
        _ => Linked::Otherwise(format!("its loader is {name}")),
    }
}

/// A little-endian number of the head.
fn number(head: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = head.get(at..at.checked_add(size)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn elf(kind: u32, loader: &[u8]) -> Vec<u8> {
        let mut head = vec![0; 64 + 56];
        head[..5].copy_from_slice(b"\x7fELF\x02");
        head[18] = 62;
        head[32] = 64;
        (head[54], head[56]) = (56, 1);
        head[64..68].copy_from_slice(&kind.to_le_bytes());
        head[72] = 120;
        head[96] = loader.len() as u8;
        head.extend(loader);
        head
    }

    #[test]
    fn loaders_tell_how_a_program_is_linked() {
        assert_eq!(linked(&elf(3, b"/lib64/ld-linux-x86-64.so.2\0")), Linked::Dynamically);
        assert_eq!(linked(&elf(1, b"")), Linked::Statically);
        assert!(
            matches!(linked(&elf(3, b"/lib/ld-musl-x86_64.so.1\0")), Linked::Otherwise(why) if why.contains("ld-musl"))
        );
        let mut small = elf(3, b"/lib/ld-linux.so.2\0");
        small[4] = 1;
        assert!(matches!(linked(&small), Linked::Otherwise(_)));
        assert_eq!(linked(b"no program"), Linked::Unknown);
    }

    #[test]
    fn scripts_are_their_interpreters() {
        let place = tempfile::tempdir().unwrap();
        let script = place.path().join("script");
        fs::write(&script, "#! /bin/sh -e\nexit\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let program = Program::of(script.as_os_str()).unwrap();
        assert_eq!((program.file.as_path(), program.privileged), (Path::new("/bin/sh"), false));
        fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert_eq!(Program::of(script.as_os_str()).unwrap().linked, Linked::Unknown, "itself without end");
        assert_eq!(Program::of(OsStr::new("/no/such/file")), None);
        assert!(Program::of(OsStr::new("sh")).is_some());
    }

    proptest! {
        #[test]
        fn no_head_panics(mut head in prop::collection::vec(any::<u8>(), 0..200), elf in any::<bool>()) {
            if elf && head.len() > 20 {
                head[..5].copy_from_slice(b"\x7fELF\x02");
                (head[18], head[19]) = (62, 0);
            }
            let _ = (linked(&head), interpreter(&head));
        }
    }
}
