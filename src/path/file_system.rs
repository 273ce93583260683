//! File systems by the magic number that statfs(2) gives.

/// The file system's name, with a note where it does not keep files in the page cache; the number
/// itself where fsprobe has no name for it.
pub(super) fn name(magic: u64) -> String {
    let known = FILE_SYSTEMS.iter().find(|(known, _)| *known == magic);
    known.map_or_else(|| format!("{magic:#x}"), |(_, name)| (*name).to_owned())
}

/// Whether the kernel makes the files up as they are read, so that they have no pages to copy from.
pub(super) fn is_kernel_made(magic: u64) -> bool {
    KERNEL_MADE.contains(&magic)
}

/// Names by magic number: include/uapi/linux/magic.h and the file systems' own sources.
const FILE_SYSTEMS: &[(u64, &str)] = &[
    (0xef53, "ext4"),
    (0x0102_1994, "tmpfs"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x794c_7630, "overlayfs"),
    (0xf2f5_2010, "f2fs"),
    (0xca45_1a4e, "bcachefs"),
    (0x2fc1_2fc1, "zfs (outside the page cache: the file offset need not be src)"),
    (0x6573_5546, "fuse"),
    (0x0102_1997, "9p"),
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x00c3_6400, "ceph"),
    (0x8584_58f6, "ramfs"),
    (0x9584_58f6, "hugetlbfs"),
    (0x7371_7368, "squashfs"),
    (0xe0f5_e1e2, "erofs"),
    (0x9660, "iso9660"),
    (0x4d44, "vfat"),
    (0x2011_bab0, "exfat"),
    (0x7366_746e, "ntfs3"),
    (0x3153_464a, "jfs"),
    (0x5265_4973, "reiserfs"),
];

/// The magic numbers of proc, sysfs, debugfs, tracefs,
/// securityfs, cgroup and cgroup2 (include/uapi/linux/magic.h).
const KERNEL_MADE: &[u64] =
    &[0x9fa0, 0x6265_6572, 0x6462_6720, 0x7472_6163, 0x7363_6673, 0x0027_e0eb, 0x6367_7270];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_notes_and_numbers() {
        assert_eq!(name(libc::TMPFS_MAGIC as u64), "tmpfs");
        assert_eq!(name(libc::EXT4_SUPER_MAGIC as u64), "ext4");
        assert!(name(0x2fc1_2fc1).contains("page cache"));
        assert_eq!(name(0x1234), "0x1234");
        assert!(
            is_kernel_made(libc::PROC_SUPER_MAGIC as u64) && is_kernel_made(libc::CGROUP2_SUPER_MAGIC as u64)
        );
        assert!(!is_kernel_made(libc::TMPFS_MAGIC as u64));
    }
}
