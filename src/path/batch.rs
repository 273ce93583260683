//! Many samples in a row, laid out so that little but the copies touches memory between them.
//!
//! A 64 KiB copy pushes everything else out of the L1 cache, so a loop pays for each table that it
//! looks into after every copy. Here a sample needs a quarter of a line of jobs and two small tables.

use super::{Copy, Spot};
use crate::report::{PAGE, Scan};

/// One sample to take, small so that a schedule of thousands stays out of the copies' cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Where its nanoseconds go.
    pub slot: u32,
    /// Page offset of the destination.
    pub dst: u16,
    /// Page offset of the source.
    pub src: u16,
    /// Index of the pool.
    pub pool: u8,
    /// Whether it starts on the pool's second page.
    pub second_page: bool,
    /// Index of what it shares with others.
    pub kind: u16,
}

/// What jobs of one path and length share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Bytes of one copy.
    pub len: usize,
    /// Copies in one sample.
    pub repeat: u32,
    /// Which side of the copy lies in the pool: the source of what is written into the kernel, the destination
    /// of everything else.
    pub side: Scan,
    /// Whether the pool drops each buffer's pages before it hands them out.
    pub first_touch: bool,
}

/// The start pages of one block: two a pool, one on the path's own side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pages {
    /// By pool.
    pub pools: Vec<[u64; 2]>,
    /// On the path's own side: of the source file, mostly.
    pub own: u64,
}

impl Job {
    /// The start page in its pool.
    #[inline(always)]
    pub fn page(&self, pages: &Pages) -> u64 {
        pages.pools[usize::from(self.pool)][usize::from(self.second_page)]
    }

    /// The page offset in its pool.
    #[inline(always)]
    pub fn offset(&self, kind: &Kind) -> u16 {
        match kind.side {
            Scan::Dst => self.dst,
            Scan::Src => self.src,
        }
    }

    /// The copy that it stands for, with the allocator's memory on its side.
    #[inline(always)]
    pub fn copy<'m>(&self, kind: &Kind, pages: &Pages, memory: &'m mut [u8]) -> Copy<'m> {
        let (to, from) = match kind.side {
            Scan::Dst => (self.page(pages), pages.own),
            Scan::Src => (pages.own, self.page(pages)),
        };
        Copy {
            memory,
            to: Spot { page: to, offset: self.dst },
            from: Spot { page: from, offset: self.src },
            len: kind.len,
            repeat: kind.repeat,
            first_touch: kind.first_touch,
        }
    }
}

/// Jobs of one path, and room for their nanoseconds.
pub struct Batch<'a, 'p> {
    /// The pools' memories, each from its first page on; a simulated pool's is empty.
    pub memories: &'a mut [&'p mut [u8]],
    /// The jobs, in order.
    pub jobs: &'a [Job],
    /// What they share.
    pub kinds: &'a [Kind],
    /// Where they lie in this block.
    pub pages: &'a Pages,
    /// Nanoseconds by slot.
    pub ns: &'a mut [u64],
}

impl Batch<'_, '_> {
    /// Takes every sample by `sample`.
    #[inline(always)]
    pub fn each<E>(&mut self, mut sample: impl FnMut(Copy<'_>) -> Result<u64, E>) -> Result<(), E> {
        for job in self.jobs {
            let kind = &self.kinds[usize::from(job.kind)];
            let offset = usize::from(job.offset(kind));
            let start = job.page(self.pages) as usize * usize::from(PAGE) + offset;
            let memory = match self.memories[usize::from(job.pool)].get_mut(start..start + kind.len) {
                Some(memory) => {
                    // the address really used is at the offset asked for
                    assert_eq!((memory.as_ptr() as usize ^ offset) % usize::from(PAGE), 0);
                    memory
                }
                None => &mut [],
            };
            self.ns[job.slot as usize] = sample(job.copy(kind, self.pages, memory))?;
        }
        Ok(())
    }
}
