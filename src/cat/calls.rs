//! The system calls of each way, between two descriptors, from where both stand.

use super::end::position;
use super::way::Way;
use crate::sys::sandbox;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, SeekFrom, copy_file_range, fcntl_getfl, seek, sendfile};
use rustix::pipe::{SpliceFlags, splice};
use std::io;
use std::os::fd::BorrowedFd;

/// The most bytes of one call: it is over soon, and what calls cost does not show.
const MOST: usize = 16 << 20;

/// Bytes of one call of [`Way::SpliceSmall`], as in fastcat.
const SMALL: usize = 16 << 10;

/// What a call that would not wait is to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// Bytes to read.
    Input,
    /// Room to write.
    Output,
    /// Both: the call did not say which side was not ready.
    Both,
}

/// What moves bytes: the kernel, or in tests something with its moods.
pub(super) trait Calls {
    /// One call of a way that is not read/write: as many bytes as it likes, 0 at the input's end.
    fn pass(&mut self, way: Way) -> io::Result<usize>;
    /// read(2).
    fn read(&mut self, dst: &mut [u8]) -> io::Result<usize>;
    /// write(2).
    fn write(&mut self, src: &[u8]) -> io::Result<usize>;
    /// Waits for a side that would not.
    fn wait(&mut self, on: Wait) -> io::Result<()>;
    /// Where the next read and write happen, 0 where there is no position.
    fn positions(&self) -> (u64, u64);
}

/// Two open descriptors.
pub(super) struct Descriptors<'a> {
    pub(super) input: BorrowedFd<'a>,
    pub(super) output: BorrowedFd<'a>,
}

impl Calls for Descriptors<'_> {
    fn pass(&mut self, way: Way) -> io::Result<usize> {
        let (input, output) = (self.input, self.output);
        let spliced = |len| {
            sandbox::lets(libc::SYS_splice)?;
            Ok(splice(input, None, output, None, len, SpliceFlags::empty())?)
        };
        match way {
            Way::CopyFileRange => {
                sandbox::lets(libc::SYS_copy_file_range)?;
                Ok(copy_file_range(input, None, output, None, MOST)?)
            }
            Way::SendFile => {
                sandbox::lets(libc::SYS_sendfile)?;
                Ok(sendfile(output, input, None, MOST)?)
            }
            Way::Splice => spliced(MOST),
            Way::SpliceSmall => spliced(SMALL),
            Way::ReadWrite => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn read(&mut self, dst: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.input, dst)?)
    }

    fn write(&mut self, src: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(self.output, src)?)
    }

    fn wait(&mut self, on: Wait) -> io::Result<()> {
        let input = || PollFd::from_borrowed_fd(self.input, PollFlags::IN);
        let output = || PollFd::from_borrowed_fd(self.output, PollFlags::OUT);
        match on {
            Wait::Input => wait_for(input()),
            Wait::Output => wait_for(output()),
            Wait::Both => wait_for(input()).and_then(|()| wait_for(output())),
        }
    }

    fn positions(&self) -> (u64, u64) {
        let append = fcntl_getfl(self.output).is_ok_and(|flags| flags.contains(OFlags::APPEND));
        let end = append.then(|| seek(self.output, SeekFrom::End(0)).unwrap_or(0));
        (position(self.input), end.unwrap_or_else(|| position(self.output)))
    }
}

/// Waits until a descriptor is ready, or in a state that the next call will tell.
fn wait_for(fd: PollFd<'_>) -> io::Result<()> {
    let forever: Option<&Timespec> = None;
    match poll(&mut [fd], forever) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
