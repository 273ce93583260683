//! The file that copies read from: the user's, never opened for writing, or one of fsprobe's own.

use crate::report::{Fact, PAGE};
use crate::sys::{file, limits};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// Bytes moved at a time when the file is filled or read through.
const CHUNK: usize = 1 << 20;

/// Why there is no source to read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The user's file does not open.
    #[error("cannot open {name}: {reason} (omit --file and fsprobe makes its own)")]
    Open {
        /// The file as the user named it.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The user's file is of a kind that has no page cache to copy from.
    #[error("{name} {reason}: fsprobe reads regular files (omit --file and it makes its own)")]
    Unfit {
        /// The file as the user named it.
        name: String,
        /// What it is.
        reason: &'static str,
    },
    /// The file holds less than it says, or was cut short.
    #[error("{name} ended after {read} of {wanted} bytes: it became shorter, or is made up as it is read")]
    Short {
        /// The file as the user named it.
        name: String,
        /// Bytes that it gave.
        read: u64,
        /// Bytes that it should have given.
        wanted: u64,
    },
    /// Reading failed.
    #[error("cannot read {name}: {reason}")]
    Read {
        /// The file as the user named it.
        name: String,
        /// The reason.
        reason: String,
    },
    /// No file of fsprobe's own could be made.
    #[error(
        "cannot make a file of {} MiB in {folder}: {reason} (set TMPDIR to another folder, or name a file with --file)",
        size.div_ceil(1 << 20)
    )]
    Own {
        /// Its size in bytes.
        size: u64,
        /// The folder.
        folder: String,
        /// The reason.
        reason: String,
    },
}

/// An open source file.
#[derive(Debug)]
pub struct Source {
    file: Arc<File>,
    name: String,
    kind: &'static str,
    stamp: Stamp,
}

/// What tells that a file was written to: size, and modification time in seconds and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(meta: &Metadata) -> Self {
        Stamp { size: meta.size(), modified: (meta.mtime(), meta.mtime_nsec()) }
    }
}

impl Source {
    /// Opens the user's file, for reading only.
    pub fn open(path: &Path) -> Result<Source, SourceError> {
        let name = printable(path);
        let failed = |error: io::Error| SourceError::Open { name: name.clone(), reason: plain(&error) };
        let unfit = |reason| SourceError::Unfit { name: name.clone(), reason };
        // Looked at before opening too: opening a device can have effects of its own.
        fit(&std::fs::metadata(path).map_err(failed)?).map_err(unfit)?;
        let mut options = OpenOptions::new();
        // Should it have become a FIFO meanwhile, opening it does not wait for a writer.
        let file = options.read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        fit(&meta).map_err(unfit)?;
        if file::fs_magic(file.as_fd()).is_ok_and(|magic| KERNEL_MADE.contains(&magic)) {
            return Err(unfit("is made up by the kernel as it is read"));
        }
        Ok(Source { file: Arc::new(file), name, kind: "file", stamp: Stamp::of(&meta) })
    }

    /// Makes a file of `size` bytes in `$TMPDIR` (else /tmp) that has no name and goes away with the
    /// process, filled with pseudo-random bytes.
    pub fn own(size: u64) -> Result<Source, SourceError> {
        let folder = std::env::temp_dir();
        let failed = |reason: String| SourceError::Own { size, folder: printable(&folder), reason };
        // Writing past the limit would end the process by a signal.
        if limits::soft(Path::new("/"), limits::FILE_SIZE).is_some_and(|most| most < size) {
            return Err(failed("larger than this process may write (ulimit -f)".into()));
        }
        let file = tempfile::tempfile_in(&folder).and_then(|file| fill(&file, size).map(|()| file));
        let file = file.map_err(|error| failed(plain(&error)))?;
        let stamp = Stamp::of(&file.metadata().map_err(|error| failed(plain(&error)))?);
        Ok(Source { file: Arc::new(file), name: "fsprobe's own file".into(), kind: "own", stamp })
    }

    /// Bytes in the file when it was opened.
    pub fn size(&self) -> u64 {
        self.stamp.size
    }

    /// `file` (the user's) or `own`.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The file system's name, with a note where it does not keep files in the page cache; its magic
    /// number where fsprobe has no name for it.
    pub fn fs_type(&self) -> Option<String> {
        let magic = file::fs_magic(self.file.as_fd()).ok()?;
        let known = FILE_SYSTEMS.iter().find(|(known, _)| *known == magic);
        Some(known.map_or_else(|| format!("{magic:#x}"), |(_, name)| (*name).to_owned()))
    }

    /// Reads the first `len` bytes once, so that they are in the page cache.
    ///
    /// # Errors
    /// `Short` where the file ends before `len`.
    pub fn fault_in(&self, len: u64) -> Result<(), SourceError> {
        let mut chunk = vec![0; CHUNK];
        let mut read = 0;
        while read < len {
            let part = usize::try_from(len - read).map_or(CHUNK, |rest| rest.min(CHUNK));
            match self.file.read_at(&mut chunk[..part], read) {
                Ok(0) => return Err(SourceError::Short { name: self.name.clone(), read, wanted: len }),
                Ok(bytes) => read += bytes as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(SourceError::Read { name: self.name.clone(), reason: plain(&error) });
                }
            }
        }
        Ok(())
    }

    /// Whether every page of the first `len` bytes is in the page cache. Asked of preadv2(RWF_NOWAIT),
    /// else of cachestat(2); not of mincore(2), which tells callers who may not write the file that all
    /// of it is cached.
    pub fn resident(&self, len: u64) -> Fact<bool> {
        let page = u64::from(PAGE);
        for position in (0..len).step_by(usize::from(PAGE)) {
            match file::read_without_waiting(self.file.as_fd(), position) {
                Ok(0) => return Fact::because("the file became shorter"),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Fact::Known(false),
                Err(_) => {
                    return match file::cached_pages(self.file.as_fd(), len) {
                        Ok(pages) => Fact::Known(pages >= len.div_ceil(page)),
                        Err(error) => Fact::because(format!(
                            "neither preadv2(RWF_NOWAIT) nor cachestat says: {}",
                            plain(&error)
                        )),
                    };
                }
            }
        }
        Fact::Known(true)
    }

    /// Whether size or modification time differ from when the file was opened.
    pub fn changed(&self) -> bool {
        self.file.metadata().map_or(true, |meta| Stamp::of(&meta) != self.stamp)
    }

    /// The open file, shared with the copy paths.
    pub(super) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }
}

/// Whether a file can be a source, or what it is instead.
fn fit(meta: &Metadata) -> Result<(), &'static str> {
    let kind: FileType = meta.file_type();
    if kind.is_dir() {
        Err("is a directory")
    } else if kind.is_fifo() {
        Err("is a FIFO")
    } else if kind.is_socket() {
        Err("is a socket")
    } else if !kind.is_file() {
        Err("is a device")
    } else if meta.len() == 0 {
        Err("is empty")
    } else {
        Ok(())
    }
}

/// Fills a file with pseudo-random bytes, which no file system can compress or share away.
fn fill(mut file: &File, size: u64) -> io::Result<()> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(size);
    let mut chunk = vec![0; CHUNK];
    let mut left = size;
    while left > 0 {
        let part = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
        random.fill_bytes(&mut chunk[..part]);
        file.write_all(&chunk[..part])?;
        left -= part as u64;
    }
    Ok(())
}

/// An error in words, without its number.
fn plain(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound {
        return "No such file".into();
    }
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.as_str(), |(words, _)| words).to_owned()
}

/// A file's name fit for one line.
fn printable(path: &Path) -> String {
    path.display().to_string().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// File systems by magic number: include/uapi/linux/magic.h and the file systems' own sources.
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

/// File systems whose files the kernel writes as they are read: proc, sysfs, debugfs, tracefs,
/// securityfs, cgroup and cgroup2 (include/uapi/linux/magic.h).
const KERNEL_MADE: &[u64] =
    &[0x9fa0, 0x6265_6572, 0x6462_6720, 0x7472_6163, 0x7363_6673, 0x0027_e0eb, 0x6367_7270];
