//! pread(2) and preadv(2) from the page cache. They need no seek, so one timing holds all copies of a
//! sample.

use super::{Copy, CopyPath, PathError, complete};
use crate::report::PathName;
use crate::sys::{clock, transfer};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

/// The path; `C` is its call, a type so that it is compiled into the loop.
pub(super) struct ReadAt<C> {
    name: PathName,
    file: Arc<File>,
    call: C,
}

/// By pread(2).
pub(super) fn pread(file: Arc<File>) -> ReadAt<impl Call> {
    let call = |file: &File, dst: &mut [u8], position| Ok(rustix::io::pread(file, dst, position)?);
    ReadAt { name: PathName::Pread, file, call }
}

/// By preadv(2) with one part, so that nothing but the call differs.
pub(super) fn preadv(file: Arc<File>) -> ReadAt<impl Call> {
    let call = |file: &File, dst: &mut [u8], position| transfer::preadv(file.as_fd(), dst, position);
    ReadAt { name: PathName::Preadv, file, call }
}

/// A system call that reads at a position.
pub(super) trait Call: Fn(&File, &mut [u8], u64) -> io::Result<usize> {}
impl<C: Fn(&File, &mut [u8], u64) -> io::Result<usize>> Call for C {}

impl<C: Call> CopyPath for ReadAt<C> {
    fn name(&self) -> PathName {
        self.name
    }

    fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError> {
        let start = copy.from.position();
        let before = clock::now_ns();
        for _ in 0..copy.repeat {
            complete(self.name, copy.memory, |rest, done| {
                (self.call)(&self.file, rest, start + done as u64)
            })?;
        }
        Ok(clock::now_ns().saturating_sub(before))
    }
}
