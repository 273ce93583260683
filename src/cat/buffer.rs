//! The buffer of read(2) and write(2), placed outside of slow bands.

use crate::report::PAGE;

/// Bytes of a read: GNU cat's buffer, from where on larger ones gained nothing (its src/ioblksize.h).
const CHUNK: usize = 128 << 10;

/// Bytes of a page.
const BYTES: usize = PAGE as usize;

/// The first distance past every band known (docs/signatures.md): 0x000 is fast, and so is all from here.
const SAFE: u64 = 0x300;

/// A distance in the middle of the safe ones.
const MIDDLE: u64 = 0x900;

/// Memory for one read at any page offset, made when it is first needed.
#[derive(Debug, Default)]
pub struct Buffer {
    memory: Vec<u8>,
}

impl Buffer {
    /// Room for one read from position `read_at`, to be written at `write_at`, at the page offset that suits both.
    pub(super) fn between(&mut self, read_at: u64, write_at: u64) -> &mut [u8] {
        if self.memory.is_empty() {
            self.memory = vec![0; CHUNK + 2 * BYTES];
        }
        let address = self.memory.as_ptr() as usize;
        let start = address.next_multiple_of(BYTES) - address + page_offset(read_at, write_at);
        &mut self.memory[start..start + CHUNK]
    }
}

/// The page offset at which neither the read nor the write that follows it has a slow distance.
///
/// A read's source lies in the page cache at its position mod 4096, a write's destination likewise; pipes
/// and sockets, which have no position, begin with fresh pages, so 0 stands for theirs. The distances of
/// the two add up to that between the positions: where it is fast itself, the read takes 0 and the write
/// all of it, else the two share it with a page's length added.
fn page_offset(read_at: u64, write_at: u64) -> usize {
    let page = u64::from(PAGE);
    let distance = write_at.wrapping_sub(read_at) % page;
    let of_read = if distance == 0 || distance >= SAFE { 0 } else { MIDDLE };
    ((read_at % page + of_read) % page) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_copy_has_a_slow_distance_whatever_the_positions() {
        let fast = |to: u64, from: u64| matches!(to.wrapping_sub(from) % 4096, 0 | SAFE..);
        for read_at in (0..4096).step_by(7).chain([1, 4095, u64::MAX]) {
            for write_at in (0..4096).chain([1 << 40, u64::MAX]) {
                let at = page_offset(read_at, write_at) as u64;
                assert!(fast(at, read_at) && fast(write_at, at), "{read_at:#x} {write_at:#x} {at:#x}");
            }
        }
        assert_eq!([page_offset(0, 0), page_offset(8192, 4096), page_offset(5, 5)], [0, 0, 5]);
    }

    #[test]
    fn the_memory_lies_where_it_should() {
        let mut buffer = Buffer::default();
        for (read_at, write_at) in [(0, 0), (1, 0), (4095, 4095), (0, 1)] {
            let part = buffer.between(read_at, write_at);
            let expected = page_offset(read_at, write_at);
            assert_eq!((part.len(), part.as_ptr() as usize % BYTES), (CHUNK, expected));
        }
    }
}
