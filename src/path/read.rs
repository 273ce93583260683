//! read(2) from the page cache. The seek back to the source stays outside of the sample.

use super::{Copy, CopyPath, PathError, complete};
use crate::report::PathName;
use crate::sys::clock;
use rustix::fs::{SeekFrom, seek};
use std::fs::File;
use std::sync::Arc;

/// The path.
pub(super) struct Read {
    file: Arc<File>,
}

impl Read {
    pub(super) fn new(file: Arc<File>) -> Self {
        Read { file }
    }
}

impl CopyPath for Read {
    fn name(&self) -> PathName {
        PathName::Read
    }

    fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError> {
        let start = SeekFrom::Start(copy.from.position());
        let file = &*self.file;
        let mut ns = 0;
        for _ in 0..copy.repeat {
            seek(file, start).map_err(|error| PathError::Call { call: "lseek", reason: error.into() })?;
            let before = clock::now_ns();
            complete("read", copy.dst, |rest, _| Ok(rustix::io::read(file, rest)?))?;
            ns += clock::now_ns().saturating_sub(before);
        }
        Ok(ns)
    }
}
