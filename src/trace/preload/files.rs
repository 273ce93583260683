//! What a file is, as far as copies go, from what the object noted of it.

use crate::report::FileKind;
use crate::sys::file_system;
use rustix::fs::FileType;

/// The kind, by mode, file system and whether it was opened with O_DIRECT.
pub fn kind(mode: u32, system: u64, is_direct: bool) -> FileKind {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile if is_direct => FileKind::Direct,
        FileType::RegularFile if !is_cached(system) => FileKind::Uncached,
        FileType::RegularFile => FileKind::PageCache,
        FileType::Fifo => FileKind::Pipe,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice | FileType::BlockDevice => FileKind::Device,
        _ => FileKind::Unknown,
    }
}

/// Whether files of this file system are read from the page cache. How a 9p was mounted is not known here.
fn is_cached(system: u64) -> bool {
    system != file_system::V9FS && file_system::by_magic(system).is_none_or(|known| known.keeps.is_cached())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_mode_and_file_system() {
        assert_eq!(kind(0o100_644, 0xef53, false), FileKind::PageCache);
        assert_eq!(kind(0o100_644, 0xef53, true), FileKind::Direct);
        assert_eq!(kind(0o100_644, 0x1234, false), FileKind::PageCache);
        assert_eq!(kind(0o100_644, 0x0102_1997, false), FileKind::Uncached);
        assert_eq!(kind(0o100_444, 0x9fa0, false), FileKind::Uncached);
        assert_eq!(kind(0o010_600, 0, false), FileKind::Pipe);
        assert_eq!(kind(0o140_777, 0, false), FileKind::Socket);
        assert_eq!(kind(0o020_620, 0, false), FileKind::Device);
        assert_eq!(kind(0o000_600, 0, false), FileKind::Unknown);
    }
}
