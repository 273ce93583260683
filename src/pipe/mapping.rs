//! What it costs to map pages into a pipe: vmsplice(2) into a drained one, which finds the pages behind
//! the addresses (get_user_pages in the kernel) and notes them. Only the calls are timed.

use super::buffers::huge_found;
use super::end::counted_since;
use super::job::{Counts, Ended, Job, Segment};
use crate::report::HugeFound;
use crate::sys::clock::now_ns;
use crate::sys::region::Region;
use crate::sys::{descriptor, sandbox, transfer, usage};
use rustix::pipe::SpliceFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsFd;

/// Maps as many bytes as each segment says. A segment's time is the sum of its calls.
pub fn map(job: &Job) -> Result<(Vec<Counts>, Option<HugeFound>), Ended> {
    let mut region =
        Region::new(job.buffer, job.way.huge).map_err(|e| Ended::refused("memory to map", &e))?;
    region.bytes().fill(1);
    let pipe = Drained::new(job.pipe).map_err(|e| Ended::refused("a pipe to map into", &e))?;
    let counts = job.segments.iter().map(|s| pipe.map(job, s, region.read()));
    let counts = counts.collect::<Result<_, _>>()?;
    Ok((counts, job.way.huge.then(|| huge_found(&region))))
}

/// A pipe that is empty between calls.
struct Drained {
    reader: PipeReader,
    writer: PipeWriter,
    null: File,
}

impl Drained {
    fn new(capacity: usize) -> io::Result<Drained> {
        sandbox::lets(libc::SYS_splice)?;
        let (reader, writer) = io::pipe()?;
        descriptor::set_pipe_capacity(writer.as_fd(), capacity)?;
        let null = OpenOptions::new().write(true).open("/dev/null")?;
        Ok(Drained { reader, writer, null })
    }

    fn map(&self, job: &Job, segment: &Segment, memory: &[u8]) -> Result<Counts, Ended> {
        let memory = &memory[..memory.len().min(job.buffer).min(job.pipe)];
        let before = usage::thread();
        let (mut ns, mut mapped) = (0, 0);
        while mapped < segment.bytes {
            let began = now_ns();
            let pages = transfer::vmsplice(self.writer.as_fd(), memory, SpliceFlags::NONBLOCK);
            ns += now_ns().saturating_sub(began);
            let inside = pages.map_err(|e| Ended::refused("vmsplice", &e.into()))?;
            self.drain(inside)?;
            mapped += inside as u64;
        }
        Ok(Counts { began_ns: 0, ended_ns: ns, bytes: mapped, counted: counted_since(before) })
    }

    fn drain(&self, inside: usize) -> Result<(), Ended> {
        let mut left = inside;
        while left > 0 {
            let passed =
                rustix::pipe::splice(&self.reader, None, &self.null, None, left, SpliceFlags::empty());
            match passed {
                Ok(0) => return Err(Ended::PeerGone),
                Ok(passed) => left -= passed,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Ended::refused("splice", &error.into())),
            }
        }
        Ok(())
    }
}
