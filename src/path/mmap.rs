//! memcpy from a mapping of the file: no system call in the sample, and page faults before it.

use super::{Copy, CopyPath, PathError};
use crate::report::PathName;
use crate::sys::mapping::Mapping;
use crate::sys::reason;
use crate::sys::routines::Routine;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

/// The path.
pub(super) struct Mmap {
    file: Arc<File>,
    size: u64,
    memcpy: Routine,
    /// None after pages of it were found to be gone: made anew when needed.
    mapping: Option<Mapping>,
}

impl Mmap {
    /// Maps the first `size` bytes of a file whose pages are of 4 KiB.
    pub(super) fn new(file: Arc<File>, size: u64) -> Result<Self, String> {
        let refused = |error| format!("the file cannot be mapped: {}", reason(&error));
        let mapping = Some(Mapping::new(file.as_fd(), size).map_err(refused)?);
        Ok(Mmap { file, size, memcpy: Routine::memcpy(), mapping })
    }

    fn mapping(&mut self) -> io::Result<&Mapping> {
        let mapping = match self.mapping.take() {
            Some(mapping) => mapping,
            None => Mapping::new(self.file.as_fd(), self.size)?,
        };
        Ok(self.mapping.insert(mapping))
    }

    /// Whether the file still holds `end` bytes: the rest of its last page is zeros and faults nobody.
    fn holds(&self, end: u64) -> Result<bool, PathError> {
        let meta = self.file.metadata().map_err(|reason| PathError::Call { call: "fstat", reason })?;
        Ok(meta.len() >= end)
    }
}

impl CopyPath for Mmap {
    fn name(&self) -> PathName {
        PathName::Mmap
    }

    fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError> {
        let start = copy.from.position();
        let memcpy = self.memcpy;
        let mapping = self.mapping().map_err(|reason| PathError::Call { call: "mmap", reason })?;
        let copied = mapping.copy(memcpy, start, copy.memory, copy.repeat);
        match copied {
            Ok(ns) if self.holds(start + copy.len as u64)? => Ok(ns),
            _ => {
                self.mapping = None;
                Err(PathError::SourceShort)
            }
        }
    }
}
