//! File systems: the number that statfs(2) gives, the name, and where they keep the bytes of files.

/// Where a file system keeps the bytes that read(2) copies from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// In the page cache, where src is the file offset.
    Cached,
    /// In the page cache alone: also files that are opened with O_DIRECT.
    AlwaysCached,
    /// Nowhere: the kernel makes files up as they are read.
    MadeUp,
    /// In a cache of its own, where src need not be the file offset.
    OwnCache,
}

impl Keeps {
    /// Whether files have pages in the page cache.
    pub const fn is_cached(self) -> bool {
        matches!(self, Keeps::Cached | Keeps::AlwaysCached)
    }
}

/// A file system as known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystem {
    /// Its number; none where only its name is of use.
    magic: Option<u64>,
    /// Its name; of those that keep files in no page cache, or nowhere else, as /proc/self/mountinfo gives it.
    name: &'static str,
    /// Where it keeps files.
    pub keeps: Keeps,
}

/// The number of 9p, which caches only where its mount says so (Documentation/filesystems/9p.rst).
pub const V9FS: u64 = 0x0102_1997;

/// What is known of the file system with this number.
pub fn by_magic(magic: u64) -> Option<&'static FileSystem> {
    KNOWN.iter().find(|known| known.magic == Some(magic))
}

/// What is known of the file system with this name in /proc/self/mountinfo.
pub fn by_name(name: &str) -> Option<&'static FileSystem> {
    KNOWN.iter().find(|known| known.name == name)
}

/// The file system's name, with a note where it does not keep files in the page cache; the number
/// itself where fsprobe has no name for it.
pub fn name(magic: u64) -> String {
    match by_magic(magic) {
        Some(FileSystem { name, keeps: Keeps::OwnCache, .. }) => {
            format!("{name} (outside the page cache: the file offset need not be src)")
        }
        Some(known) => known.name.to_owned(),
        None => format!("{magic:#x}"),
    }
}

const fn of(magic: u64, name: &'static str, keeps: Keeps) -> FileSystem {
    FileSystem { magic: Some(magic), name, keeps }
}

const fn cached(magic: u64, name: &'static str) -> FileSystem {
    of(magic, name, Keeps::Cached)
}

/// One whose number is not published in a header.
const fn made_up(name: &'static str) -> FileSystem {
    FileSystem { magic: None, name, keeps: Keeps::MadeUp }
}

/// include/uapi/linux/magic.h, and the file systems' own sources.
const KNOWN: &[FileSystem] = &[
    cached(0xef53, "ext4"),
    cached(0x5846_5342, "xfs"),
    cached(0x9123_683e, "btrfs"),
    cached(0x794c_7630, "overlayfs"),
    cached(0xf2f5_2010, "f2fs"),
    cached(0xca45_1a4e, "bcachefs"),
    cached(0x6573_5546, "fuse"),
    cached(V9FS, "9p"),
    cached(0x6969, "nfs"),
    cached(0xff53_4d42, "cifs"),
    cached(0xfe53_4d42, "smb2"),
    cached(0x00c3_6400, "ceph"),
    cached(0x7371_7368, "squashfs"),
    cached(0xe0f5_e1e2, "erofs"),
    cached(0x9660, "iso9660"),
    cached(0x4d44, "vfat"),
    cached(0x2011_bab0, "exfat"),
    cached(0x7366_746e, "ntfs3"),
    cached(0x3153_464a, "jfs"),
    cached(0x5265_4973, "reiserfs"),
    of(0x0102_1994, "tmpfs", Keeps::AlwaysCached),
    of(0x8584_58f6, "ramfs", Keeps::AlwaysCached),
    of(0x9584_58f6, "hugetlbfs", Keeps::AlwaysCached),
    FileSystem { magic: None, name: "devtmpfs", keeps: Keeps::AlwaysCached },
    of(0x9fa0, "proc", Keeps::MadeUp),
    of(0x6265_6572, "sysfs", Keeps::MadeUp),
    of(0x0027_e0eb, "cgroup", Keeps::MadeUp),
    of(0x6367_7270, "cgroup2", Keeps::MadeUp),
    of(0x6462_6720, "debugfs", Keeps::MadeUp),
    of(0x7472_6163, "tracefs", Keeps::MadeUp),
    of(0x7363_6673, "securityfs", Keeps::MadeUp),
    of(0xf97c_ff8c, "selinuxfs", Keeps::MadeUp),
    of(0x4341_5d53, "smackfs", Keeps::MadeUp),
    of(0xcafe_4a11, "bpf", Keeps::MadeUp),
    of(0x6265_6570, "configfs", Keeps::MadeUp),
    of(0xde5e_81e4, "efivarfs", Keeps::MadeUp),
    of(0x6165_676c, "pstore", Keeps::MadeUp),
    of(0x6e73_6673, "nsfs", Keeps::MadeUp),
    of(0x4249_4e4d, "binfmt_misc", Keeps::MadeUp),
    of(0x1980_0202, "mqueue", Keeps::MadeUp),
    made_up("fusectl"),
    made_up("rpc_pipefs"),
    of(0x2fc1_2fc1, "zfs", Keeps::OwnCache),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_notes_and_numbers() {
        assert_eq!(name(libc::TMPFS_MAGIC as u64), "tmpfs");
        assert_eq!(name(libc::EXT4_SUPER_MAGIC as u64), "ext4");
        assert!(name(0x2fc1_2fc1).contains("page cache"));
        assert_eq!(name(0x1234), "0x1234");
        let keeps = |magic| by_magic(magic).map(|known| known.keeps);
        assert_eq!(keeps(libc::PROC_SUPER_MAGIC as u64), Some(Keeps::MadeUp));
        assert_eq!(keeps(libc::CGROUP2_SUPER_MAGIC as u64), Some(Keeps::MadeUp));
        assert_eq!(by_name("devtmpfs").map(|known| known.keeps), Some(Keeps::AlwaysCached));
        assert_eq!(by_name("nothing of ours"), None);
    }

    #[test]
    fn no_number_or_name_is_listed_twice() {
        let mut magics: Vec<u64> = KNOWN.iter().filter_map(|known| known.magic).collect();
        let mut names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
        let (numbers, all) = (magics.len(), names.len());
        magics.sort_unstable();
        magics.dedup();
        names.sort_unstable();
        names.dedup();
        assert_eq!((magics.len(), names.len()), (numbers, all));
    }
}
