//! What stands at one end: a file, a pipe, a socket, a terminal or something else.

use super::transfer::Ending;
use rustix::fs::{FileType, OFlags, SeekFrom, fcntl_getfl, fstat, seek};
use rustix::net::{SocketType, sockopt::socket_type};
use std::io::{self, IsTerminal};
use std::os::fd::BorrowedFd;

/// What a descriptor leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// A regular file.
    File,
    /// A pipe or FIFO.
    Pipe,
    /// A stream socket.
    Stream,
    /// A terminal.
    Terminal,
    /// A block device.
    Disk,
    /// Any other device, a socket of datagrams, a directory, or what has no name: read(2) and write(2)
    /// in whole buffers keep their messages whole.
    Other,
}

/// One end of a passage, as it was before the first byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// What it is.
    pub sort: Sort,
    /// Bytes of a file; 0 for those in /proc, whatever they hold.
    pub size: u64,
    /// Device and inode: two ends of equal identity are one file.
    pub identity: (u64, u64),
    /// Whether every write goes to the end (O_APPEND).
    pub append: bool,
    /// Where a file stands.
    pub position: u64,
}

impl End {
    /// Looks at a descriptor.
    ///
    /// # Errors
    /// Where it is not open.
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<End> {
        let stat = fstat(fd)?;
        let sort = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Sort::File,
            FileType::Fifo => Sort::Pipe,
            FileType::Socket if socket_type(fd) == Ok(SocketType::STREAM) => Sort::Stream,
            FileType::CharacterDevice if fd.is_terminal() => Sort::Terminal,
            FileType::BlockDevice => Sort::Disk,
            _ => Sort::Other,
        };
        Ok(End {
            sort,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            identity: (stat.st_dev, stat.st_ino),
            append: fcntl_getfl(fd)?.contains(OFlags::APPEND),
            position: position(fd),
        })
    }

    /// Whether passing this file to `output` would never end, because it is the same file and what is
    /// written lies ahead of what is read.
    pub fn would_feed_itself(&self, output: &End) -> bool {
        let one_file = self.sort == Sort::File && self.identity == output.identity;
        let ahead = output.append || self.position < output.position;
        one_file && self.left() > 0 && ahead
    }

    /// Bytes of a file from where it stands.
    pub(super) fn left(&self) -> u64 {
        self.size.saturating_sub(self.position)
    }

    /// What is known of its end. A device tells no size.
    pub(super) fn ending(&self) -> Ending {
        match self.sort {
            Sort::Pipe | Sort::Stream => Ending::Once,
            Sort::File => Ending::After(self.left()),
            _ => Ending::After(u64::MAX),
        }
    }
}

/// Where a descriptor stands; 0 where it has no position.
pub(super) fn position(fd: BorrowedFd<'_>) -> u64 {
    seek(fd, SeekFrom::Current(0)).unwrap_or(0)
}
