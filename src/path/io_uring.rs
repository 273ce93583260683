//! A read through io_uring: entry made, submitted and awaited within the sample.

use super::{Copy, CopyPath, PathError, complete};
use crate::report::PathName;
use crate::sys::ring::Ring;
use crate::sys::{clock, reason};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

/// The path.
pub(super) struct IoUringRead {
    ring: Ring,
    file: Arc<File>,
}

impl IoUringRead {
    /// Makes a ring and tries a read of one byte, which kernels before 5.6 do not know.
    pub(super) fn new(file: Arc<File>) -> Result<Self, String> {
        let refused = |error| format!("the kernel or a sandbox refuses io_uring: {}", reason(&error));
        let mut ring = Ring::new().map_err(refused)?;
        ring.read(file.as_fd(), &mut [0], 0).map_err(refused)?;
        Ok(IoUringRead { ring, file })
    }
}

impl CopyPath for IoUringRead {
    fn name(&self) -> PathName {
        PathName::IoUringRead
    }

    fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError> {
        let start = copy.from.position();
        let before = clock::now_ns();
        for _ in 0..copy.repeat {
            complete("io_uring read", copy.memory, |rest, done| {
                self.ring.read(self.file.as_fd(), rest, start + done as u64)
            })?;
        }
        Ok(clock::now_ns().saturating_sub(before))
    }
}
