//! write(2) and pwrite(2) into the page cache: over pages of a file of fsprobe's own that are there
//! already. The allocator's memory is the source; dst is the file offset mod 4096.

use super::{Copy, CopyPath, PathError, complete_write, start_pages};
use crate::report::PathName;
use crate::sys::clock;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write as _};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A file to write to, and its size in bytes, which never changes.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) file: Arc<File>,
    pub(super) size: u64,
}

/// By write(2), with the seek outside of the sample.
pub(super) struct Write(pub(super) Target);

/// By pwrite(2), all copies of a sample in one timing.
pub(super) struct Pwrite(pub(super) Target);

impl CopyPath for Write {
    fn name(&self) -> PathName {
        PathName::Write
    }

    fn own_pages(&self, len: u64, offset: u16) -> Option<u64> {
        Some(start_pages(self.0.size, len, offset))
    }

    fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError> {
        let start = SeekFrom::Start(copy.to.position());
        let mut file = &*self.0.file;
        let mut ns = 0;
        for _ in 0..copy.repeat {
            file.seek(start).map_err(|reason| PathError::Call { call: "lseek", reason })?;
            let before = clock::now_ns();
            complete_write("write", copy.memory, |rest, _| file.write(rest))?;
            ns += clock::since_ns(before);
        }
        Ok(ns)
    }
}

impl CopyPath for Pwrite {
    fn name(&self) -> PathName {
        PathName::Pwrite
    }

    fn own_pages(&self, len: u64, offset: u16) -> Option<u64> {
        Some(start_pages(self.0.size, len, offset))
    }

    fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError> {
        let start = copy.to.position();
        let before = clock::now_ns();
        for _ in 0..copy.repeat {
            complete_write("pwrite", copy.memory, |rest, done| {
                self.0.file.write_at(rest, start + done as u64)
            })?;
        }
        Ok(clock::now_ns().saturating_sub(before))
    }
}
