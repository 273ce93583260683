//! read(2) and readv(2) from the page cache. The seek back to the source stays outside of the sample.

use super::{Copy, CopyPath, PathError, complete};
use crate::report::PathName;
use crate::sys::clock;
use std::fs::File;
use std::io::{self, IoSliceMut, Read as _, Seek, SeekFrom};
use std::sync::Arc;

/// The path.
pub(super) struct Read {
    name: PathName,
    file: Arc<File>,
    call: fn(&File, &mut [u8]) -> io::Result<usize>,
}

impl Read {
    /// By read(2).
    pub(super) fn plain(file: Arc<File>) -> Self {
        Read { name: PathName::Read, file, call: |mut file, dst| file.read(dst) }
    }

    /// By readv(2) with one part, so that nothing but the call differs.
    pub(super) fn vectored(file: Arc<File>) -> Self {
        let call = |mut file: &File, dst: &mut [u8]| file.read_vectored(&mut [IoSliceMut::new(dst)]);
        Read { name: PathName::Readv, file, call }
    }
}

impl CopyPath for Read {
    fn name(&self) -> PathName {
        self.name
    }

    fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError> {
        let start = SeekFrom::Start(copy.from.position());
        let mut file = &*self.file;
        let mut ns = 0;
        for _ in 0..copy.repeat {
            file.seek(start).map_err(|reason| PathError::Call { call: "lseek", reason })?;
            let before = clock::now_ns();
            complete(self.name.word(), copy.memory, |rest, _| (self.call)(file, rest))?;
            ns += clock::now_ns().saturating_sub(before);
        }
        Ok(ns)
    }
}
