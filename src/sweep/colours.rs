//! A pool of real pages, between which single copies are timed.

use crate::report::{Fact, PAGE, Pair, PathName};
use crate::sys::block::{Block, Memory};
use crate::sys::routines::Routine;
use crate::sys::{clock, pagemap};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Pages of a pool: 12 of each of 340 colours.
pub const POOL: usize = 4096;

/// A sample lasts at least this many times the clock's precision, and holds no more copies than that.
const PRECISIONS: u64 = 50;
const MOST_COPIES: u32 = 1024;

/// Times copies between the pages of a pool, real or simulated.
pub trait PairTimer {
    /// Nanoseconds of one copy by `rep movsb`.
    fn time(&mut self, pair: Pair) -> f64;

    /// The frame number of each page.
    fn frames(&self) -> Fact<Vec<u64>>;
}

/// Real pages of 4 KiB, in random order.
pub struct Pages {
    memory: Memory,
    pages: Vec<usize>,
    routine: Routine,
    /// Nanoseconds that a sample lasts at least.
    least_ns: u64,
    /// Copies that last so long on a fast pair.
    copies: u32,
}

impl Pages {
    /// Maps and fills a pool; `seed` decides the pages' order.
    ///
    /// # Errors
    /// The reason, for people, where there is not that much memory.
    pub fn new(seed: u64) -> Result<Pages, String> {
        let size = POOL * usize::from(PAGE);
        let needed = format!("page colours need {} MiB of memory", size >> 20);
        let memory = Block::small_pages(size, &needed)?;
        let mut pages: Vec<usize> = (0..POOL).collect();
        pages.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
        let routine = Routine::of(PathName::RepMovsb)?;
        let mut pool =
            Pages { memory, pages, routine, least_ns: PRECISIONS * clock::precision_ns(), copies: 8 };
        let far = Pair { dst: 0, src: 1, distance: 0x740, len: 2048 };
        let one = (0..3).map(|_| pool.time(far)).fold(f64::INFINITY, f64::min).max(1.0);
        pool.copies = ((pool.least_ns as f64 / one).ceil() as u32).clamp(1, MOST_COPIES);
        Ok(pool)
    }

    /// Both sides of a pair.
    fn sides(&mut self, pair: Pair) -> (&mut [u8], &[u8]) {
        let page = usize::from(PAGE);
        let (dst, src) = (self.pages[pair.dst] * page, self.pages[pair.src] * page);
        let (first, rest) = self.memory.bytes().split_at_mut(dst.max(src));
        let (to, from) = if dst > src { (rest, &first[src..]) } else { (&mut first[dst..], &*rest) };
        let start = usize::from(pair.distance);
        (&mut to[start..start + pair.len], &from[..pair.len])
    }
}

impl PairTimer for Pages {
    fn time(&mut self, pair: Pair) -> f64 {
        let (routine, copies, least_ns) = (self.routine, self.copies, self.least_ns);
        // a slow pair has lasted long enough after a part of the copies
        let first = copies.div_ceil(8);
        let (dst, src) = self.sides(pair);
        // untimed: brings both sides into L1 and their translations into the TLB
        routine.copy(dst, src);
        let before = clock::now_ns();
        (0..first).for_each(|_| routine.copy(dst, src));
        let ns = clock::now_ns().saturating_sub(before);
        if ns >= least_ns {
            return ns as f64 / f64::from(first);
        }
        (first..copies).for_each(|_| routine.copy(dst, src));
        clock::now_ns().saturating_sub(before) as f64 / f64::from(copies)
    }

    fn frames(&self) -> Fact<Vec<u64>> {
        let start = self.memory.address();
        pagemap::frames(self.pages.iter().map(|page| start + page * usize::from(PAGE)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_lies_where_it_was_asked_to() {
        let mut pool = Pages::new(3).unwrap();
        let start = pool.memory.address();
        for (dst, src) in [(0, 1), (1, 0), (4095, 7), (7, 4095)] {
            let pair = Pair { dst, src, distance: 0x030, len: 2048 };
            let [to, from] = [pool.pages[dst], pool.pages[src]].map(|page| start + page * 4096);
            let (dst, src) = pool.sides(pair);
            assert_eq!((dst.as_ptr() as usize, src.as_ptr() as usize), (to + 0x030, from));
            assert_eq!((dst.len(), src.len()), (2048, 2048));
            assert!(pool.time(pair) > 0.0);
        }
        let mut pages = pool.pages.clone();
        assert!(!pages.is_sorted());
        pages.sort_unstable();
        assert_eq!(pages, (0..POOL).collect::<Vec<_>>());
    }
}
