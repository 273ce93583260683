//! A process's buffers: as many as needed so that none is written to while the pipe still holds its pages.

use super::job::{Job, Put, Take, Touch};
use crate::report::{Fact, HugeFound};
use crate::sys::region::Region;
use std::hint::black_box;
use std::io;

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// Buffers of one size, sent in turn.
pub struct Buffers {
    region: Region,
    /// Bytes of one buffer.
    len: usize,
    /// Bytes from one to the next.
    stride: usize,
    count: usize,
    next: usize,
    /// The page offset of all of them.
    offset: usize,
    huge: bool,
}

impl Buffers {
    /// The writer's. Where pages themselves are sent, the others hold more together than the pipe (and, in
    /// verification, the reader's second pipe), so that a buffer's turn comes only when it has been read.
    pub fn of_writer(job: &Job) -> io::Result<Buffers> {
        let pipes = if job.verify.is_some() && job.way.take == Take::Splice { 2 } else { 1 };
        let count = match job.way.put {
            Put::Vmsplice if !job.same_buffer => (pipes * job.pipe).div_ceil(job.buffer) + 1,
            _ => 1,
        };
        Buffers::new(job, count, job.segments.iter().any(|s| s.src > 0))
    }

    /// The reader's: one.
    pub fn of_reader(job: &Job) -> io::Result<Buffers> {
        Buffers::new(job, 1, job.segments.iter().any(|s| s.dst > 0))
    }

    fn new(job: &Job, count: usize, moved: bool) -> io::Result<Buffers> {
        let stride = job.buffer + if moved { PAGE } else { 0 };
        let mut region = Region::new(count * stride, job.way.huge)?;
        if job.touch != Touch::Never {
            region.bytes().fill(b'X');
        }
        Ok(Buffers { region, len: job.buffer, stride, count, next: 0, offset: 0, huge: job.way.huge })
    }

    /// Moves all of them to a page offset, at most 0x1000.
    pub fn move_to(&mut self, offset: u16) {
        self.offset = usize::from(offset);
    }

    /// The one whose turn it is.
    pub fn turn(&mut self) -> &mut [u8] {
        let start = self.next * self.stride + self.offset;
        self.next = (self.next + 1) % self.count;
        &mut self.region.bytes()[start..start + self.len]
    }

    /// Whether they are in huge pages, where those were asked for.
    pub fn huge(&self) -> Option<HugeFound> {
        self.huge.then(|| huge_found(&self.region))
    }
}

/// What smaps says of memory for which huge pages were asked.
pub fn huge_found(region: &Region) -> HugeFound {
    let asked = region.read().len() as u64;
    match region.huge_bytes() {
        Fact::Known(found) => HugeFound { asked, found: Some(found), unknown: None },
        Fact::Unknown(reason) => HugeFound { asked, found: None, unknown: Some(reason) },
    }
}

/// Writes a byte of each page.
pub fn write_pages(bytes: &mut [u8]) {
    bytes.chunks_mut(PAGE).for_each(|page| page[0] = black_box(page[0].wrapping_add(1)));
}

/// Reads a byte of each page.
pub fn read_pages(bytes: &[u8]) {
    black_box(bytes.iter().step_by(PAGE).fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
}
