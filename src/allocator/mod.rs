//! Buffers from each allocator, at an exact page offset.
//!
//! A [`Pool`] is one allocation, large enough that a buffer of the longest length can start on any of
//! its pages at any page offset. This room may use `sys` and the report's words, nothing else.

mod error;
mod natural;
mod pool;

pub use error::AllocatorError;
pub use natural::natural;
pub use pool::{open, present};

use crate::report::Allocator;

/// Start pages that a pool must offer at least: a cell is a distribution over places, not one place.
pub const POOL_PAGES: u64 = 64;

/// How pages back a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageKind {
    /// Pages of 4 KiB, transparent huge pages refused.
    Small,
    /// Transparent huge pages asked for.
    Transparent,
    /// Reserved huge pages, with the control `pages` only.
    Reserved,
}

impl PageKind {
    /// The word as written everywhere: `4k`, `thp` or `hugetlb`.
    pub const fn word(self) -> &'static str {
        match self {
            PageKind::Small => "4k",
            PageKind::Transparent => "thp",
            PageKind::Reserved => "hugetlb",
        }
    }
}

/// What a pool must offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSpec {
    /// The longest buffer, in bytes.
    pub max_len: usize,
    /// How pages back it.
    pub pages: PageKind,
    /// Whether each buffer's whole pages are dropped before it is handed out, so that page faults are
    /// part of the sample.
    pub first_touch: bool,
    /// Pools like this one that are yet to be opened, itself among them: room is looked for once, before
    /// any of them is touched.
    pub to_come: u64,
}

/// The buffers of one allocator.
pub trait Pool {
    /// Who placed them.
    fn allocator(&self) -> Allocator;

    /// How many start pages a buffer of `len` bytes can have; at least [`POOL_PAGES`] for the longest.
    fn pages(&self, len: usize) -> u64;

    /// The buffer of `len` bytes at page offset `offset` (0x000..=0x1000) after the start of page
    /// `page`, faulted in unless the pool renews its pages. A simulated pool has no memory and gives an empty slice.
    ///
    /// # Panics
    /// Never within `pages(len)`; the caller stays within it.
    fn buffer(&mut self, page: u64, offset: u16, len: usize) -> &mut [u8];

    /// All of the pool's memory from its first page on; empty for a simulated pool.
    fn memory(&mut self) -> &mut [u8];

    /// Whether each sample needs a fresh [`Pool::buffer`], since its pages are dropped before.
    fn renews(&self) -> bool {
        false
    }

    /// What of the pool is not as it was asked for, for people.
    fn note(&self) -> Option<String> {
        None
    }
}
