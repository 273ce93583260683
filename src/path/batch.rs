//! Many samples in a row, laid out so that little but the copies touches memory between them.
//!
//! A 64 KiB copy pushes everything else out of the L1 cache. A loop that reaches its buffers through
//! several tables pays for each of them after every copy; here a sample needs one line of jobs.

use super::{Copy, Spot};
use crate::report::PAGE;

/// One sample to take.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    /// Which of the batch's memories.
    pub pool: usize,
    /// Page offset of the allocator's memory, 0x000..=0x1000.
    pub offset: u16,
    /// Its start page in the pool.
    pub page: u64,
    /// The destination, as in [`Copy`].
    pub to: Spot,
    /// The source, as in [`Copy`].
    pub from: Spot,
    /// Bytes of one copy.
    pub len: usize,
    /// Copies in this sample.
    pub repeat: u32,
}

impl Job {
    /// The job as a copy into (or from) this memory.
    pub fn copy(self, memory: &mut [u8]) -> Copy<'_> {
        let Job { to, from, len, repeat, .. } = self;
        Copy { memory, to, from, len, repeat }
    }
}

/// Jobs of one path, and room for their nanoseconds.
pub struct Batch<'a, 'p> {
    memories: &'a mut [&'p mut [u8]],
    jobs: std::slice::Iter<'a, Job>,
    ns: std::slice::IterMut<'a, u64>,
}

impl<'a, 'p> Batch<'a, 'p> {
    /// A batch over pools' memories, each from its first page on; a simulated pool's is empty.
    pub fn new(memories: &'a mut [&'p mut [u8]], jobs: &'a [Job], ns: &'a mut [u64]) -> Self {
        Batch { memories, jobs: jobs.iter(), ns: ns.iter_mut() }
    }

    /// The next copy and where its nanoseconds go.
    #[inline(always)]
    pub fn next_copy(&mut self) -> Option<(Copy<'_>, &mut u64)> {
        let (job, ns) = (*self.jobs.next()?, self.ns.next()?);
        let start = (job.page * u64::from(PAGE)) as usize + usize::from(job.offset);
        let memory: &mut [u8] = match self.memories[job.pool].get_mut(start..start + job.len) {
            Some(memory) => {
                // the address really used is at the offset asked for
                assert_eq!((memory.as_ptr() as usize ^ usize::from(job.offset)) % usize::from(PAGE), 0);
                memory
            }
            None => &mut [],
        };
        Some((job.copy(memory), ns))
    }
}
