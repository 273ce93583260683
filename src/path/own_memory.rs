//! Memory that copies come from where no file is involved: pages of 4 KiB, faulted in, pseudo-random.

use super::{PathError, start_pages};
use crate::report::PAGE;
use crate::sys::block::{Block, Memory};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::io;

/// Start pages that the longest copy has at least: a cell is a distribution over places.
pub(super) const START_PAGES: u64 = 64;

/// The memory, shared by the paths.
pub(super) struct OwnMemory(Memory);

/// Bytes that give copies of up to `max_len` bytes their start pages, at page offsets up to 0x1000.
pub(super) fn size_for(max_len: usize) -> Option<u64> {
    (max_len as u64).checked_add((START_PAGES + 1) * u64::from(PAGE))?.checked_next_multiple_of(PAGE.into())
}

impl OwnMemory {
    /// Memory for copies of up to `max_len` bytes.
    ///
    /// # Errors
    /// The reason, where there is not that much.
    pub(super) fn new(max_len: usize) -> Result<OwnMemory, String> {
        let size = size_for(max_len).and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX);
        let needed = format!("needs {} MiB of memory", size.div_ceil(1 << 20));
        let mut memory = Block::small_pages(size, &needed)?;
        Xoshiro256PlusPlus::seed_from_u64(size as u64).fill_bytes(memory.bytes());
        Ok(OwnMemory(memory))
    }

    /// The bytes at a position, which is an address mod 4096 too.
    ///
    /// # Errors
    /// Beyond its end, which `pages` keeps callers from.
    pub(super) fn at(&self, position: u64, len: usize) -> Result<&[u8], PathError> {
        let start = usize::try_from(position).ok();
        let bytes = start.and_then(|start| self.0.read().get(start..start.checked_add(len)?));
        let beyond = || PathError::Call { call: "copy", reason: io::ErrorKind::InvalidInput.into() };
        bytes.ok_or_else(beyond)
    }

    /// Start pages of `len` bytes at a page offset.
    pub(super) fn pages(&self, len: u64, offset: u16) -> u64 {
        start_pages(self.0.read().len() as u64, len, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_pages_for_the_longest_at_every_offset() {
        for max_len in [1, 4096, 65536, 100_001] {
            let memory = OwnMemory::new(max_len).unwrap();
            for offset in [0, 1, 0xfff, PAGE] {
                let pages = memory.pages(max_len as u64, offset);
                assert!(pages >= START_PAGES, "{max_len} {offset}: {pages}");
                let last = (pages - 1) * u64::from(PAGE) + u64::from(offset);
                let bytes = memory.at(last, max_len).unwrap();
                assert_eq!(bytes.as_ptr() as usize % 4096, usize::from(offset % PAGE));
                assert!(memory.at(last + u64::from(PAGE), max_len).is_err());
            }
        }
    }

    #[test]
    fn too_much_is_refused_with_a_reason() {
        for max_len in [1 << 46, isize::MAX as usize, usize::MAX] {
            let reason = OwnMemory::new(max_len).err().unwrap();
            assert!(reason.contains("MiB of memory") && !reason.contains('\n'), "{reason}");
        }
    }
}
