//! The reader's side of a pipe: read(2) into a buffer, or splice(2) to /dev/null.

use super::buffers::{Buffers, read_pages};
use super::end::{Stream, complete, once, timed};
use super::job::{Counts, Ended, Job, Segment, Take, Touch};
use super::pattern;
use super::step::{Counter, meet};
use super::writer::splice_flags;
use crate::report::HugeFound;
use crate::sys::shared::Shared;
use crate::sys::{descriptor, sandbox};
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsFd;

/// Bytes compared at once: they stay in the first-level cache.
const SCRATCH: usize = 16 << 10;

/// Takes all segments, then waits for the end of file.
pub fn read(job: &Job, shared: &Shared, stream: Stream) -> Result<(Vec<Counts>, Option<HugeFound>), Ended> {
    let mut reader = Reader::new(job, stream)?;
    let mut counts = Vec::with_capacity(job.segments.len());
    for (index, segment) in job.segments.iter().enumerate() {
        reader.buffers.move_to(segment.dst);
        meet(job, shared, Counter::Reader, Counter::Writer, index);
        counts.push(timed(segment.bytes, || reader.take(index, segment))?);
    }
    reader.expect_end()?;
    let huge = if reader.sink.is_none() { reader.buffers.huge() } else { None };
    Ok((counts, huge))
}

struct Reader<'a> {
    job: &'a Job,
    stream: Stream,
    buffers: Buffers,
    /// Where spliced pages go.
    sink: Option<Sink>,
    scratch: Vec<u8>,
}

/// Where spliced pages go.
enum Sink {
    /// Nowhere.
    Null(File),
    /// In verification, a second pipe, out of which they are read and checked.
    Checked(PipeReader, PipeWriter),
}

impl Sink {
    fn new(job: &Job) -> io::Result<Sink> {
        sandbox::lets(libc::SYS_splice)?;
        if job.verify.is_none() {
            return OpenOptions::new().write(true).open("/dev/null").map(Sink::Null);
        }
        let (reader, writer) = io::pipe()?;
        // A narrower one makes more rounds, a wider one would outlast the writer's buffers.
        let _ = descriptor::set_pipe_capacity(writer.as_fd(), job.pipe);
        Ok(Sink::Checked(reader, writer))
    }
}

impl<'a> Reader<'a> {
    fn new(job: &'a Job, stream: Stream) -> Result<Reader<'a>, Ended> {
        let buffers = Buffers::of_reader(job).map_err(|e| Ended::refused("the reader's memory", &e))?;
        let sink = match job.way.take {
            Take::Splice => Some(Sink::new(job).map_err(|e| Ended::refused("where spliced pages go", &e))?),
            _ => None,
        };
        let scratch = vec![0; if job.verify.is_some() { SCRATCH } else { 0 }];
        Ok(Reader { job, stream, buffers, sink, scratch })
    }

    fn take(&mut self, index: usize, segment: &Segment) -> Result<(), Ended> {
        let mut taken = 0;
        while taken < segment.bytes {
            let left = usize::try_from(segment.bytes - taken).unwrap_or(usize::MAX).min(self.job.buffer);
            taken += match self.sink {
                Some(_) => self.splice(index, taken, left)?,
                None => self.read(index, taken, left)?,
            } as u64;
        }
        Ok(())
    }

    /// One read, from the buffer's start: every one meets the page offset asked for.
    fn read(&mut self, index: usize, position: u64, left: usize) -> Result<usize, Ended> {
        let bytes = &mut self.buffers.turn()[..left];
        let read = once(&self.stream, "read", || rustix::io::read(&self.stream.pipe, &mut *bytes))?;
        let bytes = &bytes[..read];
        if self.job.touch == Touch::Each {
            read_pages(bytes);
        }
        check(self.job, &mut self.scratch, index, position, bytes)?;
        Ok(read)
    }

    /// One splice, and what verification makes of it.
    fn splice(&mut self, index: usize, position: u64, left: usize) -> Result<usize, Ended> {
        let flags = splice_flags(&self.stream);
        let from = &self.stream.pipe;
        match &self.sink {
            Some(Sink::Checked(reader, writer)) => {
                let passed = once(&self.stream, "splice", || {
                    rustix::pipe::splice(from, None, writer, None, left, flags)
                })?;
                let bytes = &mut self.buffers.turn()[..passed];
                complete(&self.stream, "read", passed, |done| rustix::io::read(reader, &mut bytes[done..]))?;
                check(self.job, &mut self.scratch, index, position, bytes)?;
                Ok(passed)
            }
            Some(Sink::Null(null)) => {
                once(&self.stream, "splice", || rustix::pipe::splice(from, None, null, None, left, flags))
            }
            None => Ok(0),
        }
    }

    /// After the last byte comes the end of file, and nothing else.
    fn expect_end(&mut self) -> Result<(), Ended> {
        let mut byte = [0];
        match once(&self.stream, "read", || rustix::io::read(&self.stream.pipe, &mut byte)) {
            Err(Ended::PeerGone) => Ok(()),
            Err(other) => Err(other),
            Ok(_) => Err(Ended::Mismatch { segment: self.job.segments.len(), at: 0 }),
        }
    }
}

/// Compares what arrived with what was sent.
fn check(job: &Job, scratch: &mut [u8], index: usize, position: u64, bytes: &[u8]) -> Result<(), Ended> {
    let Some(seed) = job.verify else { return Ok(()) };
    let period = if job.same_buffer { job.buffer as u64 } else { u64::MAX };
    match pattern::first_wrong(seed ^ index as u64, position, period, bytes, scratch) {
        Some(at) => Err(Ended::Mismatch { segment: index, at }),
        None => Ok(()),
    }
}
