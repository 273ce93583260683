//! Signals that ask a run to end, noted so that what was measured is kept.

use super::clock::now_ns;
use signal_hook::low_level;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// A further signal within this time is the same wish, as `timeout` and terminals send to a process and its
/// group; a later one ends the process at once.
const SAME_WISH_NS: u64 = 1_000_000_000;

/// Exit code of a process that a second signal ended: interrupted.
const INTERRUPTED: i32 = 130;

/// The first signal that came.
#[derive(Debug, Default)]
pub struct Caught {
    signal: AtomicI32,
    at_ns: AtomicU64,
}

impl Caught {
    /// Its number, if any came.
    pub fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::Relaxed)).filter(|number| *number != 0)
    }

    /// Notes a signal; true where it is a second wish.
    fn is_second(&self, number: i32, now_ns: u64) -> bool {
        match self.signal.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => self.at_ns.store(now_ns, Ordering::Relaxed),
            Err(_) => return now_ns.saturating_sub(self.at_ns.load(Ordering::Relaxed)) > SAME_WISH_NS,
        }
        false
    }
}

/// Notes these signals from now on.
///
/// # Errors
/// Where the system refuses a handler.
pub fn note(signals: &[i32]) -> io::Result<Arc<Caught>> {
    let caught = Arc::new(Caught::default());
    for &number in signals {
        let seen = caught.clone();
        let handler = move || {
            if seen.is_second(number, now_ns()) {
                low_level::exit(INTERRUPTED);
            }
        };
        // SAFETY: the handler does nothing but atomic loads and stores, clock_gettime and _exit, all of which
        // are async-signal-safe; it allocates nothing and cannot panic.
        unsafe { low_level::register(number, handler) }?;
    }
    Ok(caught)
}

/// Whether this process ignores a signal, as `nohup` and background jobs have it: what it starts is to ignore it
/// too, and a handler here would undo that.
pub fn is_ignored(number: i32) -> bool {
    // SAFETY: sigaction is plain numbers and a function's address, for which all zeros are a value.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is set; `now` is valid and writable.
    let asked = unsafe { libc::sigaction(number, std::ptr::null(), &mut now) };
    asked == 0 && now.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_counts_and_only_a_late_second_is_another_wish() {
        let caught = Caught::default();
        assert_eq!(caught.signal(), None);
        assert!(!caught.is_second(15, 5_000_000_000));
        assert!(!caught.is_second(2, 5_020_000_000) && !caught.is_second(2, 6_000_000_000));
        assert!(caught.is_second(2, 6_000_000_001));
        assert_eq!(caught.signal(), Some(15));
    }
}
