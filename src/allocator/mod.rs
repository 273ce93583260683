//! Buffers from each allocator, at an exact page offset.
//!
//! A [`Pool`] is one allocation, large enough that a buffer of the longest length can start on any of
//! its pages at any page offset. This room may use `sys` and the report's words, nothing else.

use crate::report::Allocator;

/// Start pages that a pool must offer at least: a cell is a distribution over places, not one place.
pub const POOL_PAGES: u64 = 64;

/// The buffers of one allocator.
pub trait Pool {
    /// Who placed them.
    fn allocator(&self) -> Allocator;

    /// How many start pages a buffer of `len` bytes can have; at least [`POOL_PAGES`] for the longest.
    fn pages(&self, len: usize) -> u64;

    /// The buffer of `len` bytes at page offset `offset` (0x000..=0x1000) after the start of page
    /// `page`, faulted in and ready. A simulated pool has no memory and gives an empty slice.
    ///
    /// # Panics
    /// Never within `pages(len)`; the caller stays within it.
    fn buffer(&mut self, page: u64, offset: u16, len: usize) -> &mut [u8];
}
