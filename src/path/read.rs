//! read(2) and readv(2) from the page cache. The seek back to the source stays outside of the sample.

use super::{Copy, CopyPath, PathError, complete};
use crate::report::{PAGE, PathName};
use crate::sys::clock;
use rustix::fs::{SeekFrom, seek};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::sync::Arc;

/// The path; `C` is its call, a type so that it is compiled into the loop.
pub(super) struct Read<C> {
    name: PathName,
    file: Arc<File>,
    size: u64,
    call: C,
    /// Where the last copy started and ended, while the next may go on from there.
    last: Option<[u64; 2]>,
}

/// By read(2).
pub(super) fn read(file: Arc<File>) -> Read<impl Call> {
    Read::by(PathName::Read, file, |file: &File, dst: &mut [u8]| Ok(rustix::io::read(file, dst)?))
}

/// By readv(2) with one part, so that nothing but the call differs.
pub(super) fn readv(file: Arc<File>) -> Read<impl Call> {
    let call = |file: &File, dst: &mut [u8]| Ok(rustix::io::readv(file, &mut [IoSliceMut::new(dst)])?);
    Read::by(PathName::Readv, file, call)
}

/// A system call that reads from where the file stands.
pub(super) trait Call: Fn(&File, &mut [u8]) -> io::Result<usize> {}
impl<C: Fn(&File, &mut [u8]) -> io::Result<usize>> Call for C {}

impl<C: Call> Read<C> {
    fn by(name: PathName, file: Arc<File>, call: C) -> Self {
        let size = file.metadata().map_or(0, |meta| meta.len());
        Read { name, file, size, call, last: None }
    }

    /// Brings the file to `start`, or leaves it where it is if that is one length further at the same
    /// page offset: a seek costs a third of a 64 KiB copy's system call, and every second one will do.
    #[inline]
    fn rewind(&mut self, start: u64, len: u64) -> Result<u64, PathError> {
        let goes_on = self.last.take() == Some([start, start + len]);
        if goes_on && len.is_multiple_of(u64::from(PAGE)) && start + 2 * len <= self.size {
            return Ok(start + len);
        }
        seek(&*self.file, SeekFrom::Start(start))
            .map_err(|error| PathError::Call { call: "lseek", reason: error.into() })?;
        Ok(start)
    }
}

impl<C: Call> CopyPath for Read<C> {
    fn name(&self) -> PathName {
        self.name
    }

    fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError> {
        let (start, len) = (copy.from.position(), copy.len as u64);
        let mut ns = 0;
        for _ in 0..copy.repeat {
            let at = self.rewind(start, len)?;
            let before = clock::now_ns();
            complete(self.name, copy.memory, |rest, _| (self.call)(&self.file, rest))?;
            ns += clock::now_ns().saturating_sub(before);
            self.last = Some([at, at + len]);
        }
        Ok(ns)
    }
}
