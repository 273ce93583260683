//! Yardstick: one thread that reads memory in order, and does nothing with it but add.

use super::end::timed;
use super::job::{Counts, Ended, Job};
use crate::sys::region::Region;
use std::hint::black_box;

/// The most memory that is read: larger than the caches of most machines.
pub const MOST: u64 = 256 << 20;

/// Reads as many bytes as each segment says, over and over from the memory's start.
pub fn read(job: &Job) -> Result<Vec<Counts>, Ended> {
    let longest = job.segments.iter().map(|s| s.bytes).max().unwrap_or(0).min(MOST);
    let mut region =
        Region::new(longest as usize, false).map_err(|e| Ended::refused("memory to read", &e))?;
    region.bytes().fill(1);
    let count = |bytes: u64| {
        timed(bytes, || {
            let mut left = bytes;
            while left > 0 {
                let len = left.min(region.read().len() as u64);
                black_box(sum(&region.read()[..len as usize]));
                left -= len;
            }
            Ok(())
        })
    };
    job.segments.iter().map(|s| count(s.bytes)).collect()
}

/// The sum of the words, several at a time as the compiler sees fit.
fn sum(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().fold(0, |sum: u64, word| sum.wrapping_add(u64::from_ne_bytes(*word)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_word_is_read() {
        assert_eq!(super::sum(&[1u64, 2, 40].map(u64::to_ne_bytes).concat()), 43);
    }
}
