//! The copy paths: one small file each behind [`CopyPath`].
//!
//! A path copies bytes and tells how long that took; it knows nothing of cells, rounds or judging.
//! It may use `sys` and the report's words, nothing else.

mod pread;
mod read;
mod source;

pub use source::{Source, SourceError};

use crate::report::PathName;
use std::io;

/// A page and a page offset: where one side of a copy starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// Index of the page in its pool or file.
    pub page: u64,
    /// Page offset, 0x000..=0x1000.
    pub offset: u16,
}

impl Spot {
    /// The position in bytes from the start of the pool's first page, or of the file.
    pub fn position(self) -> u64 {
        self.page * u64::from(crate::report::PAGE) + u64::from(self.offset)
    }
}

/// One sample to take.
#[derive(Debug)]
pub struct Copy<'a> {
    /// The memory to copy into, `len` bytes at the page offset asked for; empty on a simulated machine.
    pub dst: &'a mut [u8],
    /// Where the destination lies in its pool.
    pub to: Spot,
    /// Where the source lies in the file (or in a path's own source memory).
    pub from: Spot,
    /// Bytes of one copy.
    pub len: usize,
    /// Copies in this sample.
    pub repeat: u32,
}

/// Why a sample was not taken.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// The source ended before `len` bytes: it was cut short.
    #[error("the file became shorter while fsprobe was reading it")]
    SourceShort,
    /// The system call failed.
    #[error("{call} failed: {reason}")]
    Call {
        /// The system call.
        call: &'static str,
        /// The system's reason.
        reason: std::io::Error,
    },
}

/// One way bytes move.
pub trait CopyPath {
    /// Its name.
    fn name(&self) -> PathName;

    /// Copies `copy.len` bytes `copy.repeat` times and returns the nanoseconds that the copies took,
    /// preparations (a seek, say) left out.
    fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError>;
}

/// Opens a copy path over a source file.
///
/// # Errors
/// The reason, for people, where this version or machine does not have the path.
pub fn open(name: PathName, source: &Source) -> Result<Box<dyn CopyPath>, String> {
    match name {
        PathName::Read => Ok(Box::new(read::Read::new(source.file()))),
        PathName::Pread => Ok(Box::new(pread::Pread::new(source.file()))),
        other => Err(format!("{other} copies no file, or is not measured by this version")),
    }
}

/// Fills `dst` by as many calls as it takes: `read` gets the rest and how much is done. Interrupted
/// calls are repeated. A short read is completed within the sample, since the copy is what is timed.
#[inline(always)]
fn complete(
    call: &'static str,
    dst: &mut [u8],
    mut read: impl FnMut(&mut [u8], usize) -> io::Result<usize>,
) -> Result<(), PathError> {
    let mut done = 0;
    while done < dst.len() {
        match read(&mut dst[done..], done) {
            Ok(0) => return Err(PathError::SourceShort),
            Ok(bytes) => done += bytes,
            Err(reason) if reason.kind() == io::ErrorKind::Interrupted => {}
            Err(reason) => return Err(PathError::Call { call, reason }),
        }
    }
    Ok(())
}
