//! Control: splice(2) from the file through a pipe to /dev/null, which passes pages on and copies
//! nothing. Not one byte arrives in the allocator's memory.

use super::channel::wide_pipe;
use super::{Copy, CopyPath, PathError};
use crate::report::PathName;
use crate::sys::{clock, reason, transfer};
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsFd;
use std::sync::Arc;

/// The path.
pub(super) struct Splice {
    file: Arc<File>,
    reader: PipeReader,
    writer: PipeWriter,
    null: File,
}

impl Splice {
    /// Makes the pipe and tries one byte, which some file systems refuse.
    pub(super) fn new(file: Arc<File>, max_len: usize) -> Result<Self, String> {
        let (reader, writer, _) = wide_pipe(max_len)?;
        let null = OpenOptions::new().write(true).open("/dev/null");
        let null = null.map_err(|error| format!("cannot open /dev/null: {}", reason(&error)))?;
        let mut path = Splice { file, reader, writer, null };
        path.pass_on(0, 1).map_err(|error| error.to_string())?;
        Ok(path)
    }

    /// Into the pipe as much as it takes, out of it all that, until `len` bytes have passed.
    fn pass_on(&mut self, start: u64, len: usize) -> Result<(), PathError> {
        let (pipe_in, pipe_out) = (self.writer.as_fd(), self.reader.as_fd());
        super::move_all(
            "splice",
            len,
            || PathError::SourceShort,
            |done| {
                let inside =
                    transfer::splice_in(self.file.as_fd(), start + done as u64, pipe_in, len - done)?;
                let mut out = 0;
                while out < inside {
                    match transfer::splice_out(pipe_out, self.null.as_fd(), inside - out) {
                        Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        passed => out += passed?,
                    }
                }
                Ok(inside)
            },
        )
    }
}

impl CopyPath for Splice {
    fn name(&self) -> PathName {
        PathName::Splice
    }

    fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError> {
        let before = clock::now_ns();
        for _ in 0..copy.repeat {
            self.pass_on(copy.from.position(), copy.len)?;
        }
        Ok(clock::now_ns().saturating_sub(before))
    }
}
