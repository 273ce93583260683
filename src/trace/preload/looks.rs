//! What the memory of watched programs looks like from outside, now and then: what a program loads, makes or drops
//! while it runs is gone from where it is looked for at its end, and so is everything after its `_exit`.

use super::place::Place;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The time before the second look; each later one takes half as long again, up to [`RAREST`].
const FIRST: Duration = Duration::from_millis(15);
const RAREST: Duration = Duration::from_millis(500);

/// Processes of one look.
pub const MOST: usize = 64;

/// What was seen.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Files of which code was mapped.
    pub code: BTreeSet<String>,
    /// Whether there was code that is of no file.
    pub has_own_code: bool,
    /// Whether memory of io_uring was mapped, which bare system calls set up unseen.
    pub has_rings: bool,
    /// Whether memory of Linux's own asynchronous calls was (io_setup(2)).
    pub has_aio: bool,
}

/// Looks that are taken while a command runs.
#[derive(Debug)]
pub struct Looks {
    seen: Seen,
    next: Instant,
    gap: Duration,
}

impl Looks {
    /// None taken yet.
    pub fn new() -> Looks {
        Looks { seen: Seen::default(), next: Instant::now(), gap: FIRST }
    }

    /// Takes one if it is time.
    pub fn turn(&mut self, command: u32, place: &Place) {
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + self.gap;
        self.gap = (self.gap * 3 / 2).min(RAREST);
        for pid in [command].into_iter().chain(place.latest()) {
            let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
            self.seen.take(&String::from_utf8_lossy(&maps));
        }
    }

    /// What they saw.
    pub fn seen(self) -> Seen {
        self.seen
    }
}

impl Seen {
    /// Takes the lines of a /proc/PID/maps (proc_pid_maps(5)).
    fn take(&mut self, maps: &str) {
        for line in maps.lines() {
            let mut words = line.splitn(6, ' ');
            let is_mapping = words.next().is_some_and(|range| range.contains('-'));
            let mode = words.next().filter(|_| is_mapping).unwrap_or_default();
            let name = words.last().unwrap_or_default().trim_start();
            self.has_rings |= name.contains("[io_uring]");
            self.has_aio |= name.starts_with("/[aio]");
            if !mode.contains('x') {
                continue;
            }
            match name {
                _ if name.starts_with("[v") => {} // the kernel's own
                _ if name.starts_with('/') => drop(self.code.insert(name.into())),
                _ => self.has_own_code = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(lines: &str) -> Seen {
        let mut seen = Seen::default();
        seen.take(lines);
        seen
    }

    #[test]
    fn code_and_rings_are_told_from_the_rest() {
        let usual = seen(
            "55d0-55d1 r--p 00000000 08:01 12                         /usr/bin/a\n\
             55d1-55d2 r-xp 00001000 08:01 12                         /usr/bin/a b\n\
             7f00-7f01 rw-p 00000000 00:00 0 \n\
             7ffd-7ffe r-xp 00000000 00:00 0                          [vdso]\n\
             ffff-fff0 --xp 00000000 00:00 0                          [vsyscall]\n",
        );
        assert_eq!(usual.code.into_iter().collect::<Vec<_>>(), ["/usr/bin/a b"]);
        assert!(!usual.has_own_code && !usual.has_rings && !usual.has_aio);
        assert!(seen("7f00-7f01 rwxp 00000000 00:00 0 ").has_own_code);
        assert!(seen("7f00-7f01 rwxp 00000000 00:00 0    [heap]").has_own_code);
        assert!(seen("7f-80 rw-s 0 00:0e 1  anon_inode:[io_uring]").has_rings);
        assert!(seen("7f-80 rw-s 0 00:0e 1  /[aio] (deleted)").has_aio);
        assert!(!seen("\n x\n\u{0}").has_own_code);
    }
}
