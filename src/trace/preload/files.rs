//! What a file is, as far as copies go, from what the object noted of it.

use crate::report::FileKind;
use crate::sys::file_system::{self, Keeps};
use crate::trace::files::of_regular;
use rustix::fs::FileType;

/// The kind, by mode, file system and whether it was opened with O_DIRECT.
pub fn kind(mode: u32, system: u64, is_direct: bool) -> FileKind {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => of_regular(keeps(system), is_direct),
        FileType::BlockDevice if is_direct => FileKind::Direct,
        FileType::BlockDevice => FileKind::PageCache,
        FileType::Fifo => FileKind::Pipe,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice => FileKind::Device,
        _ => FileKind::Unknown,
    }
}

/// Where a file system keeps its files. How a 9p was mounted is not known here.
fn keeps(system: u64) -> Keeps {
    match file_system::by_magic(system) {
        _ if system == file_system::V9FS => Keeps::MadeUp,
        known => known.map_or(Keeps::Cached, |known| known.keeps),
    }
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
        assert_eq!(kind(0o100_644, 0x0102_1994, true), FileKind::PageCache, "a tmpfs is in memory itself");
        assert_eq!(kind(0o060_660, 0x0102_1994, false), FileKind::PageCache);
        assert_eq!(kind(0o060_660, 0x0102_1994, true), FileKind::Direct);
        assert_eq!(kind(0o010_600, 0, false), FileKind::Pipe);
        assert_eq!(kind(0o140_777, 0, false), FileKind::Socket);
        assert_eq!(kind(0o020_620, 0, false), FileKind::Device);
        assert_eq!(kind(0o000_600, 0, false), FileKind::Unknown);
    }
}
