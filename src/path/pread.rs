//! pread(2) from the page cache. It needs no seek, so one timing holds all copies of a sample.

use super::{Copy, CopyPath, PathError, complete};
use crate::report::PathName;
use crate::sys::clock;
use std::fs::File;
use std::sync::Arc;

/// The path.
pub(super) struct Pread {
    file: Arc<File>,
}

impl Pread {
    pub(super) fn new(file: Arc<File>) -> Self {
        Pread { file }
    }
}

impl CopyPath for Pread {
    fn name(&self) -> PathName {
        PathName::Pread
    }

    fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError> {
        let start = copy.from.position();
        let file = &*self.file;
        let before = clock::now_ns();
        for _ in 0..copy.repeat {
            complete("pread", copy.dst, |rest, done| {
                Ok(rustix::io::pread(file, rest, start + done as u64)?)
            })?;
        }
        Ok(clock::now_ns().saturating_sub(before))
    }
}
