//! The copy paths: one small file each behind [`CopyPath`].
//!
//! A path copies bytes and tells how long that took; it knows nothing of cells, rounds or judging.
//! It may use `sys` and the report's words, nothing else.

mod file_system;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::interrupt;
    use std::io::{Read, Write};
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn short_reads_are_completed() {
        let mut dst = [0; 10];
        let mut calls = vec![];
        complete("read", &mut dst, |rest, done| {
            calls.push((rest.len(), done));
            let bytes = rest.len().min(4);
            rest[..bytes].fill(done as u8 + 1);
            Ok(bytes)
        })
        .unwrap();
        assert_eq!(calls, [(10, 0), (6, 4), (2, 8)]);
        assert_eq!(dst, [1, 1, 1, 1, 5, 5, 5, 5, 9, 9]);
    }

    #[test]
    fn the_end_of_the_source_and_failures_are_told_apart() {
        let end = complete("read", &mut [0; 4], |_, done| Ok(if done == 0 { 2 } else { 0 }));
        assert!(matches!(end, Err(PathError::SourceShort)));
        let failed = complete("pread", &mut [0; 4], |_, _| Err(io::ErrorKind::InvalidInput.into()));
        assert!(failed.unwrap_err().to_string().starts_with("pread failed: "));
    }

    #[test]
    fn calls_that_a_signal_interrupts_are_repeated() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let target = interrupt::this_thread();
        let interrupted = AtomicU32::new(0);
        let mut dst = [0; 8];
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                for part in [b"half", b"rest"] {
                    let before = interrupted.load(Ordering::SeqCst);
                    while interrupted.load(Ordering::SeqCst) == before {
                        target.interrupt();
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                    writer.write_all(part).unwrap();
                }
            });
            complete("read", &mut dst, |rest, _| {
                let read = reader.read(rest);
                if read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {
                    interrupted.fetch_add(1, Ordering::SeqCst);
                }
                read
            })
        });
        assert!(result.is_ok());
        assert_eq!(&dst, b"halfrest");
        assert!(interrupted.load(Ordering::SeqCst) >= 2);
    }

    #[test]
    fn paths_that_are_not_there_say_so() {
        let source = Source::own(4096).unwrap();
        for &name in PathName::ALL {
            match open(name, &source) {
                Ok(path) => assert_eq!(path.name(), name),
                Err(reason) => assert!(reason.starts_with(name.word()), "{reason}"),
            }
        }
    }
}
