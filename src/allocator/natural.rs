//! Where an allocator puts buffers when nobody asks for an offset.

use super::AllocatorError;
use super::pool::{addresses_for, present};
use crate::report::{Allocator, offset_of};
use crate::sys::block::Block;

/// Page offsets of `count` fresh allocations of `len` bytes, held together and then freed; their
/// memory is not touched.
///
/// Ask for lengths in rising order and before pools are opened: glibc serves a length from its heap,
/// at other offsets, once a mapped chunk of that length has been freed.
pub fn natural(allocator: Allocator, len: usize, count: usize) -> Result<Vec<u16>, AllocatorError> {
    present(allocator)?;
    // an allocator that was refused keeps what it got before, and later there is none for the buffers
    addresses_for(allocator, len as u64, count as u64)?;
    let refused = |reason| AllocatorError::Refused { allocator, needed: len as u64, reason };
    let blocks: Result<Vec<Block>, _> = (0..count).map(|_| Block::allocate(allocator, len)).collect();
    Ok(blocks.map_err(refused)?.iter().map(|block| offset_of(block.address() as u64)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_offsets_as_asked_for() {
        for allocator in Allocator::ALL.iter().copied().filter(|&allocator| present(allocator).is_ok()) {
            for len in [1, 128, 4096, 65536, 64 << 20] {
                let offsets = natural(allocator, len, 8).unwrap();
                assert_eq!(offsets.len(), 8, "{allocator} {len}");
                assert!(offsets.iter().all(|&offset| offset < 4096), "{offsets:x?}");
            }
        }
    }

    #[test]
    fn what_is_known_of_the_allocators() {
        assert_eq!(natural(Allocator::Pages, 65536, 4).unwrap(), [0; 4]);
        // malloc aligns to 16 bytes on x86-64, and a header of 16 bytes stands before each chunk.
        if present(Allocator::Glibc).is_ok() {
            assert!(natural(Allocator::Glibc, 65536, 4).unwrap().iter().all(|offset| offset % 16 == 0));
        }
    }

    #[test]
    fn impossible_lengths_are_an_error() {
        let text = natural(Allocator::Mimalloc, usize::MAX, 1).unwrap_err().to_string();
        assert!(text.contains("--len"), "{text}");
    }
}
