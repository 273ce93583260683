//! Which page frames back memory, as far as the kernel tells (/proc/self/pagemap, proc_pid_pagemap(5)).

use crate::report::{Fact, PAGE};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The frame number of a page is in bits 0 to 54 of its entry; bit 63 says that it is present.
const FRAME: u64 = (1 << 55) - 1;
const PRESENT: u64 = 1 << 63;

/// The frame numbers of the pages at these addresses; all zero in the kernel's answer, and unknown here,
/// for whoever lacks CAP_SYS_ADMIN.
pub fn frames(addresses: impl Iterator<Item = usize>) -> Fact<Vec<u64>> {
    let unread = |error| Fact::because(format!("/proc/self/pagemap: {}", super::reason(&error)));
    let file = match File::open("/proc/self/pagemap") {
        Ok(file) => file,
        Err(error) => return unread(error),
    };
    let mut frames = Vec::new();
    for address in addresses {
        let mut entry = [0; 8];
        if let Err(error) = file.read_exact_at(&mut entry, (address / usize::from(PAGE) * 8) as u64) {
            return unread(error);
        }
        match u64::from_le_bytes(entry) {
            entry if entry & PRESENT == 0 => return Fact::because("a page of the pool was swapped out"),
            entry if entry & FRAME == 0 => {
                return Fact::because("the kernel hides page frames (needs CAP_SYS_ADMIN, so run as root)");
            }
            entry => frames.push(entry & FRAME),
        }
    }
    Fact::Known(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_distinct_or_unknown_with_a_reason() {
        let memory = vec![1u8; 5 * 4096];
        let pages = (0..4).map(|page| memory.as_ptr() as usize + page * 4096);
        match frames(pages) {
            Fact::Known(mut frames) => {
                frames.sort_unstable();
                frames.dedup();
                assert_eq!(frames.len(), 4);
            }
            Fact::Unknown(reason) => assert!(!reason.is_empty() && !reason.contains('\n')),
        }
        assert!(matches!(frames([4096].into_iter()), Fact::Unknown(_)), "nothing is mapped there");
    }
}
