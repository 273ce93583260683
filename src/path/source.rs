//! The file that copies read from: the user's, never opened for writing, or one of fsprobe's own.

use super::own_file;
use crate::report::{Fact, PAGE};
use crate::sys::file_system::{self, Keeps};
use crate::sys::{file, limits, reason};
use std::fs::{File, FileType, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
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
    #[error(
        "{name} {reason}; fsprobe reads a regular file with bytes in it (omit --file and it makes its own)"
    )]
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

impl SourceError {
    /// Why there is no file of fsprobe's own, where that is what went wrong, without naming `--file`.
    pub fn own_reason(self) -> String {
        match self {
            SourceError::Own { size, folder, reason } => format!(
                "cannot make a file of {} MiB in {folder}: {reason} (set TMPDIR to another folder)",
                size.div_ceil(1 << 20)
            ),
            other => other.to_string(),
        }
    }
}

/// Characters of a file's name.
const LONGEST_NAME: usize = 4096;

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
        let failed = |error: io::Error| SourceError::Open {
            name: name.clone(),
            reason: match error.kind() {
                io::ErrorKind::NotFound => "No such file".into(),
                _ => reason(&error),
            },
        };
        let unfit = |reason| SourceError::Unfit { name: name.clone(), reason };
        // Looked at before opening too: opening a device can have effects of its own.
        fit(&std::fs::metadata(path).map_err(failed)?).map_err(unfit)?;
        // It may have become a FIFO meanwhile.
        let file = open_at_once(path).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        fit(&meta).map_err(unfit)?;
        // files of /proc seem empty
        if is_made_up(&file) {
            return Err(unfit("is made up by the kernel as it is read"));
        }
        if meta.len() == 0 {
            return Err(unfit("is empty"));
        }
        Ok(Source { file: Arc::new(file), name, kind: "file", stamp: Stamp::of(&meta) })
    }

    /// In place of a source for paths that read none.
    ///
    /// # Errors
    /// Where there is no /dev/null.
    pub fn unused() -> Result<Source, SourceError> {
        let name = "/dev/null".to_owned();
        let file = File::open(&name)
            .map_err(|error| SourceError::Open { name: name.clone(), reason: reason(&error) })?;
        Ok(Source { file: Arc::new(file), name, kind: "unused", stamp: Stamp { size: 0, modified: (0, 0) } })
    }

    /// Makes a file of `size` bytes in `$TMPDIR` (else /tmp; in memory where that is not to be had) that has no
    /// name and goes away with the process, filled with pseudo-random bytes.
    pub fn own(size: u64) -> Result<Source, SourceError> {
        let folder = std::env::temp_dir();
        let failed = |reason: String| SourceError::Own { size, folder: printable(&folder), reason };
        // Writing past the limit would end the process by a signal.
        if limits::soft(Path::new("/"), limits::FILE_SIZE).is_some_and(|most| most < size) {
            return Err(failed("larger than this process may write (ulimit -f)".into()));
        }
        let file = own_file::make(&folder, size).map_err(|error| failed(reason(&error)))?;
        let stamp = Stamp::of(&file.metadata().map_err(|error| failed(reason(&error)))?);
        Ok(Source { file: Arc::new(file), name: "fsprobe's own file".into(), kind: "own", stamp })
    }

    /// A name by which child processes open this very file, while this process holds it: also one without
    /// a name of its own.
    pub fn name_for_children(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
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
        file::fs_magic(self.file.as_fd()).ok().map(file_system::name)
    }

    /// Whether the file system keeps files in reserved huge pages.
    pub(super) fn has_huge_pages(&self) -> bool {
        file::fs_magic(self.file.as_fd()).is_ok_and(|magic| magic == libc::HUGETLBFS_MAGIC as u64)
    }

    /// Reads the first `len` bytes once, so that they are in the page cache; less where `stop` asks for an end.
    ///
    /// # Errors
    /// `Short` where the file ends before `len`.
    pub fn fault_in(&self, len: u64, stop: &mut dyn FnMut() -> bool) -> Result<(), SourceError> {
        let mut chunk = vec![0; CHUNK];
        let mut read = 0;
        while read < len && !stop() {
            let part = usize::try_from(len - read).map_or(CHUNK, |rest| rest.min(CHUNK));
            match self.file.read_at(&mut chunk[..part], read) {
                Ok(0) => return Err(SourceError::Short { name: self.name.clone(), read, wanted: len }),
                Ok(bytes) => read += bytes as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(SourceError::Read { name: self.name.clone(), reason: reason(&error) });
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
                            reason(&error)
                        )),
                    };
                }
            }
        }
        Fact::Known(true)
    }

    /// Whether size or modification time differ from when the file was opened.
    pub fn changed(&self) -> bool {
        self.kind != "unused" && self.file.metadata().map_or(true, |meta| Stamp::of(&meta) != self.stamp)
    }

    /// The open file, shared with the copy paths.
    pub(super) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }
}

/// Opens a file to read without waiting for anybody, as opening a FIFO waits for its writer; what is read from it
/// is waited for.
pub fn open_at_once(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    // where it stays set, some kernels fail reads by io_uring that would have to wait
    rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::empty())?;
    Ok(file)
}

/// Whether the kernel makes the file up as it is read, so that it has no pages to copy from.
fn is_made_up(file: &File) -> bool {
    let magic = file::fs_magic(file.as_fd()).ok();
    magic.and_then(file_system::by_magic).is_some_and(|known| known.keeps == Keeps::MadeUp)
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
    } else {
        Ok(())
    }
}

/// A file's name fit for one line.
fn printable(path: &Path) -> String {
    crate::report::printable(&path.display().to_string(), LONGEST_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &tempfile::TempDir, bytes: usize) -> PathBuf {
        let path = folder.path().join("source");
        std::fs::write(&path, vec![7; bytes]).unwrap();
        path
    }

    fn refused(path: &Path) -> String {
        let text = Source::open(path).unwrap_err().to_string();
        assert!(!text.contains('\n') && text.contains("--file"), "{text}");
        text
    }

    #[test]
    fn what_cannot_be_read_is_refused_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let text = refused(&folder.path().join("none\nhere"));
        assert!(text.contains("none\\nhere: No such file (omit --file and fsprobe makes its own)"), "{text}");
        assert!(refused(folder.path()).contains("is a directory"));
        assert!(refused(&file(&folder, 0)).contains("is empty"));
        assert!(refused(Path::new("/dev/null")).contains("is a device"));
        assert!(refused(&folder.path().join("source/below")).contains("Not a directory"));
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(refused(&socket).contains("is a socket"));
    }

    #[test]
    fn files_that_the_kernel_makes_up_are_refused() {
        for path in ["/proc/self/maps", "/proc/cpuinfo", "/sys/kernel/mm/transparent_hugepage/enabled"] {
            if Path::new(path).exists() {
                refused(Path::new(path));
            }
        }
    }

    #[test]
    fn a_fifo_is_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        if made.is_ok_and(|status| status.success()) {
            assert!(refused(&fifo).contains("is a FIFO"));
        }
    }

    #[test]
    fn a_file_without_read_permission_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = file(&folder, 10);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o0)).unwrap();
        // Root may read it all the same.
        if File::open(&path).is_err() {
            assert!(refused(&path).contains("Permission denied"));
        }
    }

    #[test]
    fn the_users_file_is_open_for_reading_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(&folder, 10);
        let source = Source::open(&path).unwrap();
        assert_eq!((source.kind(), source.size()), ("file", 10));
        assert!(source.file().write_at(&[1], 0).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), [7; 10]);
        let info = format!("/proc/self/fdinfo/{}", source.file().as_raw_fd());
        if let Ok(text) = std::fs::read_to_string(info) {
            let flags = text.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
            let flags = i32::from_str_radix(flags.trim(), 8).unwrap();
            assert_eq!(flags & libc::O_ACCMODE, libc::O_RDONLY);
            assert_ne!(flags & libc::O_CLOEXEC, 0);
        }
    }

    #[test]
    fn a_file_of_its_own_holds_what_it_says() {
        let size = CHUNK as u64 + 4097;
        let source = Source::own(size).unwrap();
        assert_eq!((source.kind(), source.size()), ("own", size));
        source.fault_in(size, &mut || false).unwrap();
        assert!(!source.changed());
        assert!(source.fs_type().is_some_and(|name| !name.is_empty()));
        let mut page = [0; 4096];
        source.file().read_exact_at(&mut page, CHUNK as u64).unwrap();
        let ones: u32 = page.iter().map(|byte| byte.count_ones()).sum();
        assert!((15_000..18_000).contains(&ones), "{ones} of 32768 bits");
    }

    #[test]
    fn a_file_just_read_is_resident_unless_the_kernel_does_not_say() {
        let source = Source::own(CHUNK as u64).unwrap();
        source.fault_in(CHUNK as u64, &mut || false).unwrap();
        assert_ne!(source.resident(CHUNK as u64), Fact::Known(false));
        assert!(!matches!(source.resident(2 * CHUNK as u64), Fact::Known(true)), "there is no second half");
    }

    #[test]
    fn truncation_and_growth_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(&folder, 10_000);
        let source = Source::open(&path).unwrap();
        assert!(!source.changed());
        let writer = File::options().write(true).open(&path).unwrap();
        writer.set_len(4096).unwrap();
        assert!(source.changed());
        let error = source.fault_in(source.size(), &mut || false).unwrap_err();
        assert!(matches!(error, SourceError::Short { read: 4096, wanted: 10_000, .. }), "{error}");
        writer.set_len(20_000).unwrap();
        assert!(source.changed());
        source.fault_in(source.size(), &mut || false).unwrap();
    }

    #[test]
    fn rewriting_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(&folder, 10);
        let source = Source::open(&path).unwrap();
        let writer = File::options().write(true).open(&path).unwrap();
        writer.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert!(source.changed());
    }
}
