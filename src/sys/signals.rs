//! Signals that ask a run to end, noted so that what was measured is kept, and those that stop a job.

use super::clock::now_ns;
use signal_hook::consts::{SIGXCPU, SIGXFSZ};
use signal_hook::{flag, low_level};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

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
        // the time decides, since another handler may run between two steps of this one
        match self.at_ns.compare_exchange(0, now_ns.max(1), Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => self.signal.store(number, Ordering::SeqCst),
            Err(first) => return now_ns.saturating_sub(first) > SAME_WISH_NS,
        }
        false
    }
}

/// Notes these signals from now on, but those that are ignored already, as `nohup` has SIGHUP, and shells without
/// job control have what the terminal sends for what runs in the background.
///
/// # Errors
/// Where the system refuses a handler.
pub fn note(signals: &[i32]) -> io::Result<Arc<Caught>> {
    let caught = Arc::new(Caught::default());
    for &number in signals.iter().filter(|number| !is_ignored(**number)) {
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

/// Raises `any` whenever a signal comes from now on, and `sent` where another process sent it: not the terminal, nor the
/// kernel for another reason, which tell the whole process group.
///
/// # Errors
/// Where the system refuses a handler.
pub fn note_sender(number: i32, any: Arc<AtomicBool>, sent: Arc<AtomicBool>) -> io::Result<()> {
    let handler = move |info: &libc::siginfo_t| {
        any.store(true, Ordering::SeqCst);
        // SI_USER, SI_QUEUE and SI_TKILL are not above 0, SI_KERNEL is (sigaction(2))
        if info.si_code <= 0 {
            sent.store(true, Ordering::SeqCst);
        }
    };
    // SAFETY: the handler makes atomic stores only; it allocates nothing and cannot panic.
    unsafe { signal_hook_registry::register_sigaction(number, handler) }.map(drop)
}

/// From now on a write past the limit of file size (`ulimit -f`) fails as one to a full disk does, and does not end
/// the process.
///
/// # Errors
/// Where the system refuses a handler.
pub fn write_past_the_limit_fails() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// From now on the soft limit of CPU time (`ulimit -St`) does not end this process; it holds for what it starts.
///
/// # Errors
/// Where the system refuses a handler.
pub fn outlive_the_limit_of_time() -> io::Result<()> {
    if is_ignored(SIGXCPU) { Ok(()) } else { flag::register(SIGXCPU, Arc::default()).map(drop) }
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

/// A signal that does nothing while this is held, unlike with SIG_IGN also in programs started meanwhile; what it
/// did before it does again afterwards. Nothing changes where it is ignored or handled already.
#[derive(Debug)]
pub struct Outlived {
    signal: i32,
    before: Option<libc::sigaction>,
}

impl Outlived {
    /// From now on.
    pub fn begin(signal: i32) -> Outlived {
        // SAFETY: sigaction is plain numbers, for which all zeros are a value.
        let (mut before, mut action): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
        // SAFETY: `before` is valid and writable, and nothing is set.
        let known = unsafe { libc::sigaction(signal, std::ptr::null(), &mut before) } == 0;
        if !known || before.sa_sigaction != libc::SIG_DFL {
            return Outlived { signal, before: None };
        }
        action.sa_sigaction = nothing as extern "C" fn(i32) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: the handler does nothing, so it is async-signal-safe.
        let set = unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } == 0;
        Outlived { signal, before: set.then_some(before) }
    }
}

impl Drop for Outlived {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // SAFETY: what was in force before, as the kernel told it.
            unsafe { libc::sigaction(self.signal, before, std::ptr::null_mut()) };
        }
    }
}

extern "C" fn nothing(_signal: i32) {}

/// Stops this process by one of the signals that do that by default, also where it is handled, until it is continued.
pub fn stop_here(signal: i32) {
    // SAFETY: sigaction is plain numbers, for which all zeros are a value, and the default action.
    let (mut before, default): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    // SAFETY: both are valid, and `before` is writable. What raise(3) sends to the calling thread has stopped the process
    // before it returns, so that what was in force before comes back afterwards. SIGSTOP has no action to be set.
    unsafe {
        let set = libc::sigaction(signal, &default, &mut before) == 0;
        libc::raise(signal);
        if set {
            libc::sigaction(signal, &before, std::ptr::null_mut());
        }
    }
}

/// Whether a shell watches this process for stops, as a job on a terminal: its parent is of the same session, and of another
/// process group.
pub fn is_watched_job() -> bool {
    // SAFETY: plain numbers.
    let is_apart = unsafe {
        let parent = libc::getppid();
        libc::getsid(parent) == libc::getsid(0) && libc::getpgid(parent) != libc::getpgrp()
    };
    is_apart && std::fs::File::open("/dev/tty").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlived_signal_does_nothing_and_then_what_it_did() {
        let action = || {
            // SAFETY: sigaction is plain numbers; the kernel writes one, and nothing is set.
            unsafe {
                let mut now: libc::sigaction = std::mem::zeroed();
                libc::sigaction(libc::SIGTSTP, std::ptr::null(), &mut now);
                now.sa_sigaction
            }
        };
        let before = action();
        {
            let _outlived = Outlived::begin(libc::SIGTSTP);
            assert!(before != libc::SIG_DFL || action() != before);
            // SAFETY: the signal is handled, so nothing happens.
            unsafe { libc::raise(libc::SIGTSTP) };
        }
        assert_eq!(action(), before);
    }

    #[test]
    fn a_signal_of_a_process_is_told_from_others() {
        let [any, sent] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        note_sender(libc::SIGWINCH, Arc::clone(&any), Arc::clone(&sent)).unwrap();
        // SAFETY: the signal is handled.
        unsafe { libc::kill(libc::getpid(), libc::SIGWINCH) };
        while !any.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        assert!(sent.load(Ordering::SeqCst));
    }

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
