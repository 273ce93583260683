//! read(2) from the page cache. The seek back to the source stays outside of the sample.

use super::{Copy, CopyPath, PathError, complete};
use crate::report::PathName;
use crate::sys::clock;
use std::fs::File;
use std::io::{Read as _, Seek, SeekFrom};
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
        let mut file = &*self.file;
        let mut ns = 0;
        for _ in 0..copy.repeat {
            file.seek(start).map_err(|reason| PathError::Call { call: "lseek", reason })?;
            let before = clock::now_ns();
            complete("read", copy.dst, |rest, _| file.read(rest))?;
            ns += clock::now_ns().saturating_sub(before);
        }
        Ok(ns)
    }
}
