//! pread(2) and preadv(2) from the page cache. They need no seek, so one timing holds all copies of a
//! sample.

use super::{Copy, CopyPath, PathError, complete};
use crate::report::PathName;
use crate::sys::{clock, transfer};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The path.
pub(super) struct ReadAt {
    name: PathName,
    file: Arc<File>,
    call: fn(&File, &mut [u8], u64) -> io::Result<usize>,
}

impl ReadAt {
    /// By pread(2).
    pub(super) fn plain(file: Arc<File>) -> Self {
        ReadAt { name: PathName::Pread, file, call: File::read_at }
    }

    /// By preadv(2) with one part, so that nothing but the call differs.
    pub(super) fn vectored(file: Arc<File>) -> Self {
        let call = |file: &File, dst: &mut [u8], position| transfer::preadv(file.as_fd(), dst, position);
        ReadAt { name: PathName::Preadv, file, call }
    }
}

impl CopyPath for ReadAt {
    fn name(&self) -> PathName {
        self.name
    }

    fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError> {
        let start = copy.from.position();
        let before = clock::now_ns();
        for _ in 0..copy.repeat {
            complete(self.name.word(), copy.memory, |rest, done| {
                (self.call)(&self.file, rest, start + done as u64)
            })?;
        }
        Ok(clock::now_ns().saturating_sub(before))
    }
}
