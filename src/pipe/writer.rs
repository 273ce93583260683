//! The writer's side of a pipe: write(2) or vmsplice(2), whole segments at a time.

use super::buffers::{Buffers, write_pages};
use super::end::{Stream, complete, timed};
use super::job::{Counts, Ended, Job, Put, Segment, Touch};
use super::pattern;
use super::step::{Counter, meet};
use crate::report::HugeFound;
use crate::sys::shared::Shared;
use crate::sys::transfer;
use rustix::pipe::SpliceFlags;
use std::os::fd::AsFd;

/// Sends all segments, then closes the pipe.
pub fn write(job: &Job, shared: &Shared, stream: Stream) -> Result<(Vec<Counts>, Option<HugeFound>), Ended> {
    let buffers = Buffers::of_writer(job).map_err(|e| Ended::refused("the writer's memory", &e))?;
    let mut writer = Writer { job, stream, buffers };
    let mut counts = Vec::with_capacity(job.segments.len());
    for (index, segment) in job.segments.iter().enumerate() {
        writer.prepare(index, segment);
        meet(job, shared, Counter::Writer, Counter::Reader, index);
        counts.push(timed(segment.bytes, || writer.send(index, segment))?);
    }
    Ok((counts, writer.buffers.huge()))
}

struct Writer<'a> {
    job: &'a Job,
    stream: Stream,
    buffers: Buffers,
}

impl Writer<'_> {
    /// What is not to be timed: the place, and the one buffer's pattern.
    fn prepare(&mut self, index: usize, segment: &Segment) {
        self.buffers.move_to(segment.src);
        if let Some(seed) = self.job.verify.filter(|_| self.job.same_buffer) {
            pattern::fill(seed ^ index as u64, 0, self.buffers.turn());
        }
    }

    fn send(&mut self, index: usize, segment: &Segment) -> Result<(), Ended> {
        let job = self.job;
        let mut sent = 0;
        while sent < segment.bytes {
            let left = usize::try_from(segment.bytes - sent).unwrap_or(usize::MAX);
            let bytes = self.buffers.turn();
            let bytes = &mut bytes[..job.buffer.min(left)];
            match job.verify {
                Some(seed) if !job.same_buffer => pattern::fill(seed ^ index as u64, sent, bytes),
                None if job.touch == Touch::Each => write_pages(bytes),
                _ => {}
            }
            push(job, &self.stream, bytes)?;
            sent += bytes.len() as u64;
        }
        Ok(())
    }
}

/// Sends all of one buffer, in as many calls as the pipe makes of it.
fn push(job: &Job, stream: &Stream, bytes: &[u8]) -> Result<(), Ended> {
    match job.way.put {
        Put::Vmsplice => {
            let flags =
                splice_flags(stream) | if job.gift { SpliceFlags::GIFT } else { SpliceFlags::empty() };
            complete(stream, "vmsplice", bytes.len(), |done| {
                transfer::vmsplice(stream.pipe.as_fd(), &bytes[done..], flags)
            })
        }
        _ => complete(stream, "write", bytes.len(), |done| rustix::io::write(&stream.pipe, &bytes[done..])),
    }
}

/// SPLICE_F_NONBLOCK unless calls are to wait.
pub fn splice_flags(stream: &Stream) -> SpliceFlags {
    if stream.returns_at_once() { SpliceFlags::NONBLOCK } else { SpliceFlags::empty() }
}
