//! How many buffers of each length are held at once: enough to judge by, within what the machine has.

use super::Wanted;
use crate::report::{Fact, HeapState, Way, buffer_length};
use crate::sys::memory;
use std::fs;
use std::path::Path;

/// The longest buffer that is asked for: 1 GiB.
pub const LONGEST: u64 = 1 << 30;

/// The lengths that are looked at: powers of two, and sizes as people write them.
pub const USUAL: [u64; 21] = [
    4 << 10,
    5000,
    8 << 10,
    16 << 10,
    20_000,
    32 << 10,
    64 << 10,
    100_000,
    128 << 10,
    256 << 10,
    512 << 10,
    1_000_000,
    1 << 20,
    2 << 20,
    4 << 20,
    8 << 20,
    10_000_000,
    16 << 20,
    32 << 20,
    50_000_000,
    64 << 20,
];

/// Buffers of one length in one process by malloc: four processes give six for each of the 64 places that
/// jemalloc chooses from, and a chi-square test wants five.
const MANY: usize = 96;

/// Buffers of one length in one process in any other way.
const SOME: usize = 32;

/// Buffers where memory is short.
const FEW: usize = 16;

/// Bytes of one length that may be touched in one process by ways that write: `calloc`, and growth by copying.
const TOUCHED: u64 = 2 << 20;

/// The longest buffer that is grown by copying.
const GROWN: u64 = 64 << 20;

/// Above this, ways that write take so long that they are looked at in one process only, growth while nothing was
/// freed.
const SLOW: u64 = 8 << 20;

/// Bytes of addresses that buffers of one length take at most, and those of all lengths together.
const HELD: u64 = 2 << 30;
const HELD_IN_ALL: u64 = 12 << 30;

/// Below this much memory left, fewer buffers are held: each takes a page or two of the allocator's own.
const SHORT: u64 = 256 << 20;

/// What the machine leaves to a child process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// Bytes of memory; none where it is not known.
    pub memory: Option<u64>,
    /// Bytes of addresses; none where nothing bounds them.
    pub addresses: Option<u64>,
}

impl Room {
    /// That of this machine and process.
    pub fn here() -> Room {
        let root = Path::new("/");
        let memory = match memory::available(root) {
            Fact::Known(left) => Some(left.bytes),
            Fact::Unknown(_) => None,
        };
        let limited = memory::available_addresses(root).map(|left| left.bytes);
        Room { memory, addresses: limited.into_iter().chain(promises_left(root)).min() }
    }
}

/// What a kernel that promises no more than it has (vm.overcommit_memory = 2) can still promise; none where it
/// promises more.
fn promises_left(root: &Path) -> Option<u64> {
    let mode = fs::read_to_string(root.join("proc/sys/vm/overcommit_memory")).ok()?;
    let meminfo = fs::read_to_string(root.join("proc/meminfo")).ok().filter(|_| mode.trim() == "2")?;
    let kib = |name: &str| {
        let rest = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    };
    kib("CommitLimit:")?.saturating_sub(kib("Committed_AS:")?).checked_mul(1024)
}

/// What is asked of each process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    lens: Vec<u64>,
    /// Most buffers of one length.
    many: usize,
    /// Bytes of addresses for each length.
    held: u64,
    /// The longest buffer grown by copying.
    grown: u64,
    /// Processes at once.
    pub at_once: usize,
    /// What is less than usual, and why.
    pub notes: Vec<String>,
}

impl Plan {
    /// The plan for these lengths, in rising order: a mapped chunk that is freed makes glibc serve later ones of up
    /// to that length from its heap.
    pub fn of(lens: &[u64], room: Room) -> Plan {
        let mut lens = lens.to_vec();
        lens.sort_unstable();
        lens.dedup();
        let mut plan = Plan { lens, many: MANY, held: HELD, grown: GROWN, at_once: 2, notes: vec![] };
        plan.within_memory(room.memory);
        plan.within_addresses(room.addresses);
        plan
    }

    fn within_memory(&mut self, left: Option<u64>) {
        // growing holds the old buffer and the new one, in two processes, and others live here too
        let left = left.unwrap_or(u64::MAX);
        self.grown = self.grown.min(left / 8);
        if left < SHORT {
            (self.many, self.at_once) = (FEW, 1);
            self.notes.push(format!(
                "only {} MiB of memory are left: fewer buffers of each length were held",
                left >> 20
            ));
        }
        if let Some(first) = self.lens.iter().find(|len| **len > self.grown) {
            let why = if self.grown < GROWN {
                "so much memory is not left"
            } else {
                "it would take too much memory"
            };
            self.notes.push(format!("growth is not looked at from {} on: {why}", buffer_length(*first)));
        }
    }

    fn within_addresses(&mut self, left: Option<u64>) {
        let most = HELD_IN_ALL.min(left.unwrap_or(u64::MAX) / 2);
        let usual = self.addresses();
        while self.addresses() > most && self.held > 1 {
            self.held /= 2;
        }
        if left.is_some() && self.addresses() < usual {
            self.notes.push(format!(
                "only {} MiB of addresses are left: fewer long buffers were held at once",
                left.unwrap_or_default() >> 20
            ));
        }
    }

    /// Bytes of addresses that one process takes at most.
    fn addresses(&self) -> u64 {
        self.lens
            .iter()
            .map(|len| len.saturating_mul(self.count(Way::Malloc, HeapState::First, *len, 0) as u64))
            .sum()
    }

    /// How many buffers of a length one process holds; 0 where it holds none.
    fn count(&self, way: Way, state: HeapState, len: u64, process: u32) -> usize {
        let fit = |bytes: u64| usize::try_from(bytes / len.max(1)).unwrap_or(usize::MAX).max(1);
        let most = self.many.min(fit(self.held));
        let is_slow = len > SLOW;
        match way {
            Way::Malloc => most,
            Way::Memalign64 | Way::Memalign4096 => most.min(SOME),
            _ if is_slow && process > 0 => 0,
            Way::Realloc | Way::Vec if len > self.grown || (is_slow && state == HeapState::AfterFrees) => 0,
            Way::Calloc | Way::Realloc | Way::Vec => most.min(SOME).min(fit(TOUCHED)),
        }
    }

    /// The lengths for a process.
    pub fn lens(&self, way: Way, process: u32) -> Vec<Wanted> {
        let wanted = self.lens.iter().map(|&len| Wanted {
            len,
            first: self.count(way, HeapState::First, len, process),
            after_frees: self.count(way, HeapState::AfterFrees, len, process),
        });
        wanted.filter(|wanted| wanted.first > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMPLE: Room = Room { memory: Some(64 << 30), addresses: None };

    #[test]
    fn ample_room_changes_nothing_and_needs_no_words() {
        let plan = Plan::of(&USUAL, AMPLE);
        assert_eq!((plan.notes.len(), plan.at_once), (0, 2));
        assert!(USUAL.is_sorted() && plan.addresses() <= HELD_IN_ALL);
        let malloc = plan.lens(Way::Malloc, 0);
        assert!(
            malloc.len() == USUAL.len() && malloc[0] == Wanted { len: 4096, first: MANY, after_frees: MANY }
        );
        assert!(
            malloc
                .iter()
                .all(|w| w.len * w.first as u64 <= HELD && w.first >= 32 && w.after_frees == w.first)
        );
        let last = |process| plan.lens(Way::Vec, process).last().copied();
        assert_eq!(last(1), Some(Wanted { len: 8 << 20, first: 1, after_frees: 1 }));
        assert_eq!(last(0), Some(Wanted { len: 64 << 20, first: 1, after_frees: 0 }));
    }

    #[test]
    fn short_memory_and_addresses_take_less_and_say_so() {
        let plan = Plan::of(&USUAL, Room { memory: Some(100 << 20), addresses: None });
        assert_eq!((plan.at_once, plan.lens(Way::Malloc, 0)[0].first), (1, FEW));
        assert!(plan.lens(Way::Realloc, 0).iter().all(|wanted| wanted.len <= 100 << 17));
        assert!(
            plan.notes[0].contains("100 MiB") && plan.notes[1].contains("from 16 MiB on"),
            "{:?}",
            plan.notes
        );
        for addresses in [0, 1 << 20, 1 << 30] {
            let plan = Plan::of(&USUAL, Room { memory: None, addresses: Some(addresses) });
            let least: u64 = USUAL.iter().sum();
            assert!(plan.addresses() <= (addresses / 2).max(least), "{addresses}");
            assert!(plan.notes[0].contains("addresses"), "{:?}", plan.notes);
        }
    }

    #[test]
    fn many_long_lengths_share_the_addresses() {
        let long: Vec<u64> = (0..64).map(|i| LONGEST - i).collect();
        let plan = Plan::of(&long, AMPLE);
        assert!(plan.lens(Way::Malloc, 3).iter().all(|wanted| wanted.first == 1));
        assert!(plan.lens(Way::Vec, 0).is_empty() && plan.notes[0].contains("growth"), "{:?}", plan.notes);
    }

    #[test]
    fn a_kernel_that_promises_no_more_than_it_has() {
        let root = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(promises_left(root.path()), None);
        file("proc/sys/vm/overcommit_memory", "2\n");
        file("proc/meminfo", "CommitLimit:    3000 kB\nCommitted_AS:   1000 kB\n");
        assert_eq!(promises_left(root.path()), Some(2_048_000));
        file("proc/sys/vm/overcommit_memory", "0\n");
        assert_eq!(promises_left(root.path()), None);
    }
}
