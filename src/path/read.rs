//! read(2) and readv(2) from the page cache. The seek back to the source stays outside of the sample.

use super::{Copy, CopyPath, PathError, complete};
use crate::report::PathName;
use crate::sys::clock;
use rustix::fs::{SeekFrom, seek};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::sync::Arc;

/// The path; `C` is its call, a type so that it is compiled into the loop.
pub(super) struct Read<C> {
    name: PathName,
    file: Arc<File>,
    call: C,
}

/// By read(2).
pub(super) fn read(file: Arc<File>) -> Read<impl Call> {
    let call = |file: &File, dst: &mut [u8]| Ok(rustix::io::read(file, dst)?);
    Read { name: PathName::Read, file, call }
}

/// By readv(2) with one part, so that nothing but the call differs.
pub(super) fn readv(file: Arc<File>) -> Read<impl Call> {
    let call = |file: &File, dst: &mut [u8]| Ok(rustix::io::readv(file, &mut [IoSliceMut::new(dst)])?);
    Read { name: PathName::Readv, file, call }
}

/// A system call that reads from where the file stands.
pub(super) trait Call: Fn(&File, &mut [u8]) -> io::Result<usize> {}
impl<C: Fn(&File, &mut [u8]) -> io::Result<usize>> Call for C {}

impl<C: Call> CopyPath for Read<C> {
    fn name(&self) -> PathName {
        self.name
    }

    fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError> {
        let start = SeekFrom::Start(copy.from.position());
        let mut ns = 0;
        for _ in 0..copy.repeat {
            seek(&*self.file, start)
                .map_err(|error| PathError::Call { call: "lseek", reason: error.into() })?;
            let before = clock::now_ns();
            complete(self.name, copy.memory, |rest, _| (self.call)(&self.file, rest))?;
            ns += clock::since_ns(before);
        }
        Ok(ns)
    }
}
