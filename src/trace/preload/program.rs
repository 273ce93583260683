//! Whether a command can be watched through the object: which file it is, and which loader starts that.

use crate::trace::Launch;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where the x86-64 ABI puts glibc's loader.
const USUAL_LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// Scripts whose interpreter is a script again, as deep as the kernel goes.
const SCRIPTS: u32 = 5;

const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;

/// The loader of this very process, for whose C library the object was built.
pub fn own_loader() -> PathBuf {
    let own = File::open("/proc/self/exe").ok().and_then(|file| Kind::of(&file).ok());
    match own {
        Some(Kind::Dynamic(loader)) => loader,
        _ => USUAL_LOADER.into(),
    }
}

/// Device and inode; zeros where there is no such file.
pub fn identity(path: &Path) -> (u64, u64) {
    std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).unwrap_or_default()
}

/// Whether a command can be watched. One that is missing can: starting it says what is wrong.
///
/// # Errors
/// Why not, and what to use.
pub fn watchable(launch: &Launch, loader: &Path) -> Result<(), String> {
    let Some(path) = found(launch) else { return Ok(()) };
    let refused = refusal(&path, loader, SCRIPTS);
    refused.map_or(Ok(()), |why| Err(format!("{why} (use --via ptrace or --via sample)")))
}

/// The file that the command's first word means.
fn found(launch: &Launch) -> Option<PathBuf> {
    let name = launch.words.first()?;
    if name.as_bytes().contains(&b'/') {
        return Some(name.into());
    }
    let given = launch.environment.iter().rev().find(|(variable, _)| variable == "PATH");
    let path = given.map(|(_, value)| value.clone()).or_else(|| std::env::var_os("PATH"))?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| {
        let meta = std::fs::metadata(file);
        meta.is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
    })
}

/// Whether the command would start with rights that its caller has not, which a tracer without privileges takes from it.
pub fn gains(launch: &Launch) -> bool {
    let meta = |path: &PathBuf| std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
    found(launch).is_some_and(|path| meta(&path).is_some_and(|meta| gains_rights(&path, &meta)))
}

/// Why a program cannot be watched, if so. What cannot be read is not refused: exec says what is wrong
/// with it, or the loader does not mind.
fn refusal(path: &Path, loader: &Path, scripts: u32) -> Option<String> {
    // before it is opened, which would wait for whoever writes to a FIFO
    let meta = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let file = File::open(path).ok()?;
    let name = crate::report::printable(&path.display().to_string(), 200);
    match Kind::of(&file).ok()? {
        Kind::Script(interpreter) if scripts > 0 => refusal(&interpreter, loader, scripts - 1),
        Kind::Script(_) | Kind::Text => None,
        Kind::Foreign => Some(format!("{name} is not a program for 64-bit x86")),
        _ if gains_rights(path, &meta) => Some(format!(
            "{name} runs with rights that its caller has not, and the loader then ignores what it is asked to load"
        )),
        Kind::Static if identity(path) == identity(loader) => None,
        Kind::Static => {
            Some(format!("{name} is statically linked, so nothing can be put between it and its C library"))
        }
        Kind::Dynamic(own) if identity(&own) == identity(loader) => is_sanitised(file).then(|| {
            format!("{name} has its AddressSanitizer in a library, which ends it unless it is loaded first")
        }),
        Kind::Dynamic(own) => {
            let own = crate::report::printable(&own.display().to_string(), 200);
            Some(format!("{name} uses another C library than fsprobe (its loader is {own})"))
        }
    }
}

/// Whether a program needs a library that is its AddressSanitizer.
fn is_sanitised(file: File) -> bool {
    use object::elf::{DT_NEEDED, FileHeader64};
    use object::read::elf::{Dyn, FileHeader};
    let cache = object::ReadCache::new(file);
    let needed = || -> object::Result<bool> {
        let header = FileHeader64::<object::Endianness>::parse(&cache)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, &cache)?;
        let Some((entries, names)) = sections.dynamic(endian, &cache)? else { return Ok(false) };
        let names = sections.strings(endian, &cache, names)?;
        let is_sanitiser = |entry: &&object::elf::Dyn64<_>| {
            let name = entry.string(endian, names).unwrap_or_default();
            entry.tag(endian) == DT_NEEDED
                && [&b"libasan.so"[..], b"libclang_rt.asan"].iter().any(|prefix| name.starts_with(prefix))
        };
        Ok(entries.iter().find(is_sanitiser).is_some())
    };
    needed().unwrap_or(false)
}

/// Whether the kernel would start it with another user or group, or with capabilities of the file's.
fn gains_rights(path: &Path, meta: &std::fs::Metadata) -> bool {
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    (meta.mode() & SETUID != 0 && meta.uid() != user)
        || (meta.mode() & SETGID != 0 && meta.gid() != group)
        || (user != 0 && rustix::fs::getxattr(path, "security.capability", &mut [0u8; 64]).is_ok())
}

/// What exec makes of a file.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// `#!` and the interpreter.
    Script(PathBuf),
    /// Nothing that exec knows; shells read it.
    Text,
    /// An ELF file for another machine.
    Foreign,
    /// An ELF file without a loader.
    Static,
    /// An ELF file with this loader.
    Dynamic(PathBuf),
}

impl Kind {
    fn of(file: &File) -> io::Result<Kind> {
        let mut head = [0; 256];
        let len = file.read_at(&mut head, 0)?;
        let head = &head[..len];
        if let Some(line) = head.strip_prefix(b"#!") {
            let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let word = line.split(|byte| b" \t".contains(byte)).find(|word| !word.is_empty());
            return Ok(Kind::Script(OsString::from_vec(word.unwrap_or_default().to_vec()).into()));
        }
        if !head.starts_with(b"\x7fELF") {
            return Ok(Kind::Text);
        }
        // ELFCLASS64 and EM_X86_64 of <elf.h>.
        if head.len() < 64 || head[4] != 2 || head[18..20] != [62, 0] {
            return Ok(Kind::Foreign);
        }
        let table = word(head, 32);
        let count = u64::from(u16::from_le_bytes([head[56], head[57]]));
        for number in 0..count {
            let mut part = [0; 56];
            file.read_exact_at(&mut part, table.saturating_add(number * 56))?;
            // PT_INTERP
            if part[..4] == [3, 0, 0, 0] {
                let mut loader = vec![0; usize::try_from(word(&part, 32)).unwrap_or(usize::MAX).min(4096)];
                file.read_exact_at(&mut loader, word(&part, 8))?;
                loader.truncate(loader.iter().position(|byte| *byte == 0).unwrap_or(loader.len()));
                return Ok(Kind::Dynamic(OsString::from_vec(loader).into()));
            }
        }
        Ok(Kind::Static)
    }
}

/// Eight bytes of an ELF header.
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(bytes: &[u8]) -> Kind {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::write(&path, bytes).unwrap();
        Kind::of(&File::open(path).unwrap()).unwrap_or(Kind::Text)
    }

    #[test]
    fn files_are_what_exec_makes_of_them() {
        assert_eq!(kind(b""), Kind::Text);
        assert_eq!(kind(b"echo"), Kind::Text);
        assert_eq!(kind(b"#! /bin/sh -e\n"), Kind::Script("/bin/sh".into()));
        assert_eq!(kind(b"#!/usr/bin/env"), Kind::Script("/usr/bin/env".into()));
        assert_eq!(kind(b"\x7fELF"), Kind::Foreign);
        let mut elf = [0; 64];
        elf[..5].copy_from_slice(b"\x7fELF\x01");
        assert_eq!(kind(&elf), Kind::Foreign);
        (elf[4], elf[18]) = (2, 62);
        assert_eq!(kind(&elf), Kind::Static);
        elf[56] = 3;
        elf[32] = 0xff;
        assert_eq!(kind(&elf), Kind::Text, "its table is missing");
    }

    #[test]
    fn the_first_word_is_looked_for_as_exec_does() {
        let launch = |word: &str, path: &str| Launch {
            words: vec![word.into()],
            environment: vec![("PATH".into(), path.into())],
        };
        assert!(found(&launch("sh", "/none:/bin")).is_some_and(|file| file.ends_with("sh")));
        assert_eq!(found(&launch("sh", "/none")), None);
        assert_eq!(found(&launch("./sh", "/bin")), Some("./sh".into()));
        assert!(watchable(&launch("no such program", "/bin"), Path::new(USUAL_LOADER)).is_ok());
    }

    #[test]
    fn rights_are_gained_by_those_who_lack_them() {
        let launch = |word: &str| Launch { words: vec![word.into()], environment: vec![] };
        assert!(!gains(&launch("sh")) && !gains(&launch("no such program")));
        let lacks = rustix::process::getuid().as_raw() != 0;
        let is_setuid = |path: &&&str| {
            let meta = std::fs::metadata(path);
            meta.is_ok_and(|meta| meta.uid() == 0 && meta.mode() & SETUID != 0)
        };
        match ["/bin/su", "/usr/bin/sudo", "/usr/bin/passwd"].iter().find(is_setuid) {
            Some(program) => assert_eq!(gains(&launch(program)), lacks, "{program}"),
            None => eprintln!("skipped: no setuid program here"),
        }
    }

    #[test]
    fn another_loader_is_refused_with_both_names() {
        let own = std::env::current_exe().unwrap();
        let why = refusal(&own, Path::new("/dev/null"), SCRIPTS).unwrap();
        assert!(why.contains("C library") && why.contains(own.to_str().unwrap()), "{why}");
        assert_eq!(refusal(Path::new("/dev/null"), Path::new("/dev/null"), SCRIPTS), None);
    }
}
