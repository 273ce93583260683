//! Where an allocator puts buffers when nobody asks for an offset.

use super::{AllocatorError, pool::present};
use crate::report::{Allocator, offset_of};
use crate::sys::block::Block;

/// Page offsets of `count` fresh allocations of `len` bytes, held together and then freed; their
/// memory is not touched.
///
/// Ask for lengths in rising order and before pools are opened: glibc serves a length from its heap,
/// at other offsets, once a mapped chunk of that length has been freed.
pub fn natural(allocator: Allocator, len: usize, count: usize) -> Result<Vec<u16>, AllocatorError> {
    present(allocator)?;
    let refused = |reason| AllocatorError::Refused { allocator, needed: len as u64, reason };
    let blocks: Result<Vec<Block>, _> = (0..count).map(|_| Block::allocate(allocator, len)).collect();
    Ok(blocks.map_err(refused)?.iter().map(|block| offset_of(block.address() as u64)).collect())
}
