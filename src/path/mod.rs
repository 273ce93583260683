//! The copy paths: one small file each behind [`CopyPath`].
//!
//! A path copies bytes and tells how long that took; it knows nothing of cells, rounds or judging.
//! It may use `sys` and the report's words, nothing else.

mod batch;
mod channel;
mod io_uring;
mod mmap;
mod open;
mod own_file;
mod own_memory;
mod process_vm;
mod read;
mod read_at;
mod routine;
mod source;
mod splice;
#[cfg(test)]
mod tests;
mod write;
mod zero;

pub use batch::{Batch, Job, Kind, Pages};
pub use open::Opener;
pub use source::{Source, SourceError, open_at_once};

use crate::report::{CellSpec, PAGE, PathName};
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
        self.page * u64::from(PAGE) + u64::from(self.offset)
    }
}

/// One sample to take.
#[derive(Debug)]
pub struct Copy<'a> {
    /// The allocator's memory, `len` bytes at the page offset asked for: at `to`, or at `from` where
    /// [`PathName::own_scan`] is the source, which is only read. Empty on a simulated machine.
    pub memory: &'a mut [u8],
    /// Where the destination lies: in its pool, or on the path's own side.
    pub to: Spot,
    /// Where the source lies: on the path's own side (the source file, say), or in its pool.
    pub from: Spot,
    /// Bytes of one copy.
    pub len: usize,
    /// Copies in this sample.
    pub repeat: u32,
    /// Whether `memory` was dropped just now, so that the sample's first copy is to fault its pages in.
    pub first_touch: bool,
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

    /// Whether it can take a cell's page offsets and length.
    ///
    /// # Errors
    /// The reason, for people, where the kernel leaves no choice.
    fn can(&self, _cell: &CellSpec) -> Result<(), String> {
        Ok(())
    }

    /// On how many start pages of the path's own side `len` bytes at page offset `offset` fit; 0 if on
    /// none. None where that side is the source file, of which the caller knows how much is ready.
    fn own_pages(&self, _len: u64, _offset: u16) -> Option<u64> {
        None
    }

    /// Copies `copy.len` bytes `copy.repeat` times and returns the nanoseconds that the copies took,
    /// preparations (a seek, say) left out.
    fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError>;

    /// Takes the samples of a batch, in order. Provided here, so that each path's own loop is compiled
    /// with its `sample` inside.
    fn samples(&mut self, batch: &mut Batch<'_, '_>) -> Result<(), PathError> {
        batch.each(|copy| self.sample(copy))
    }
}

/// Start pages of a path's own side that has none to choose from: so many that they limit nobody.
const ANY_PAGES: u64 = 1 << 32;

/// On how many start pages of `size` bytes a copy of `len` bytes at page offset `offset` fits.
pub fn start_pages(size: u64, len: u64, offset: u16) -> u64 {
    let rest = len.checked_add(u64::from(offset)).and_then(|needed| size.checked_sub(needed));
    rest.map_or(0, |rest| rest / u64::from(PAGE) + 1)
}

/// Fills `dst` by as many calls as it takes: `read` gets the rest and how much is done. Interrupted
/// calls are repeated. A short read is completed within the sample, since the copy is what is timed.
#[inline(always)]
fn complete(
    call: impl Into<&'static str>,
    dst: &mut [u8],
    mut read: impl FnMut(&mut [u8], usize) -> io::Result<usize>,
) -> Result<(), PathError> {
    move_all(call, dst.len(), || PathError::SourceShort, |done| read(&mut dst[done..], done))
}

/// As [`complete`], for calls that take bytes: `write` gets the rest and how much is done.
#[inline(always)]
fn complete_write(
    call: &'static str,
    src: &[u8],
    mut write: impl FnMut(&[u8], usize) -> io::Result<usize>,
) -> Result<(), PathError> {
    let nothing = || PathError::Call { call, reason: io::ErrorKind::WriteZero.into() };
    move_all(call, src.len(), nothing, |done| write(&src[done..], done))
}

/// Moves `len` bytes by as many calls as it takes; a call that moves none gives `at_end`.
#[inline(always)]
fn move_all(
    call: impl Into<&'static str>,
    len: usize,
    at_end: impl FnOnce() -> PathError,
    mut part: impl FnMut(usize) -> io::Result<usize>,
) -> Result<(), PathError> {
    let mut done = 0;
    while done < len {
        match part(done) {
            Ok(0) => return Err(at_end()),
            Ok(bytes) => done += bytes,
            Err(reason) if reason.kind() == io::ErrorKind::Interrupted => {}
            Err(reason) => return Err(PathError::Call { call: call.into(), reason }),
        }
    }
    Ok(())
}
