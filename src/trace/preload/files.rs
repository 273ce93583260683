//! What a file is, as far as copies go, from what the object noted of it.

use crate::report::FileKind;
use rustix::fs::FileType;

/// File systems that keep nothing in the page cache, or not at the offsets that programs read: numbers of
/// <linux/magic.h>, and OpenZFS's own.
const UNCACHED: [u64; 15] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0xf97c_ff8c, // selinuxfs
    0xcafe_4a11, // bpf
    0x6265_6570, // configfs
    0xde5e_81e4, // efivarfs
    0x6165_676c, // pstore
    0x0102_1997, // 9p, which caches only where it is told to
    0x6e73_6673, // nsfs
    0x2fc1_2fc1, // ZFS, which has a cache of its own
];

/// The kind, by mode, file system and whether it was opened with O_DIRECT.
pub fn kind(mode: u32, system: u64, is_direct: bool) -> FileKind {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile if is_direct => FileKind::Direct,
        FileType::RegularFile if UNCACHED.contains(&system) => FileKind::Uncached,
        FileType::RegularFile => FileKind::PageCache,
        FileType::Fifo => FileKind::Pipe,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice | FileType::BlockDevice => FileKind::Device,
        _ => FileKind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_mode_and_file_system() {
        assert_eq!(kind(0o100_644, 0xef53, false), FileKind::PageCache);
        assert_eq!(kind(0o100_644, 0xef53, true), FileKind::Direct);
        assert_eq!(kind(0o100_444, 0x9fa0, false), FileKind::Uncached);
        assert_eq!(kind(0o010_600, 0, false), FileKind::Pipe);
        assert_eq!(kind(0o140_777, 0, false), FileKind::Socket);
        assert_eq!(kind(0o020_620, 0, false), FileKind::Device);
        assert_eq!(kind(0o000_600, 0, false), FileKind::Unknown);
    }
}
