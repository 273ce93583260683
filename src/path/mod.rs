//! The copy paths: one small file each behind [`CopyPath`].
//!
//! A path copies bytes and tells how long that took; it knows nothing of cells, rounds or judging.
//! It may use `sys` and the report's words, nothing else.

use crate::report::PathName;

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
