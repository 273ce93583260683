//! Copies from a file mapping, also while somebody cuts the file short.
//!
//! Touching a mapped page behind the end of its file raises SIGBUS, which ends the process by default.
//! The handler here puts zero pages in place of what the file has lost, notes that, and lets the copy
//! go on; the copy then tells that its source was cut.

use super::clock;
use super::routines::Routine;
use crate::report::PAGE;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The first bytes of a whole file as memory, read-only.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

/// The file no longer holds the bytes that were to be copied. The mapping shows zeros in their place
/// from now on, also should the file grow again.
#[derive(Debug, PartialEq, Eq)]
pub struct Cut;

impl Mapping {
    /// Maps the first `len` bytes of a file, at least 1. Nothing is read yet.
    pub fn new(file: BorrowedFd<'_>, len: u64) -> io::Result<Mapping> {
        handle_sigbus()?;
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: a new mapping at a place of the kernel's choice touches no existing memory; the
        // descriptor is open while borrowed.
        let start = unsafe {
            let null = std::ptr::null_mut();
            libc::mmap(null, len, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, len })
    }

    /// Copies the bytes at `position` to `dst`, `repeat` times; returns the nanoseconds that took. The
    /// pages are touched before, so that page faults stay out of it.
    ///
    /// # Errors
    /// Where the mapping ends before `dst` is full, or a page was found to be gone.
    pub fn copy(&self, routine: Routine, position: u64, dst: &mut [u8], repeat: u32) -> Result<u64, Cut> {
        let position = usize::try_from(position).map_err(|_| Cut)?;
        let end = position.checked_add(dst.len()).filter(|&end| end <= self.len).ok_or(Cut)?;
        let start = self.start.as_ptr().wrapping_add(position);
        guarded(self.address()..self.address() + self.len, || {
            for at in (position..end).step_by(usize::from(PAGE)).chain(end.checked_sub(1)) {
                // SAFETY: `at` lies inside the mapping (`position <= at < end <= len`, and where `dst` is
                // empty nothing is read but a byte before `end`, which lies inside too). No reference to
                // the mapped bytes exists, which others may change at any time; a read is volatile.
                unsafe { self.start.as_ptr().add(at).read_volatile() };
            }
            let before = clock::now_ns();
            for _ in 0..repeat {
                // SAFETY: `start` is readable for `dst.len()` bytes: they lie inside the mapping, and
                // pages that the file has lost are replaced when they are met. The mapping belongs to
                // `self` alone and overlaps nobody's buffer.
                unsafe { routine.copy_raw(dst.as_mut_ptr(), start, dst.len()) };
            }
            clock::now_ns().saturating_sub(before)
        })
    }

    /// Touches every page, which faults it in.
    ///
    /// # Errors
    /// Where a page was found to be gone.
    pub fn touch(&self) -> Result<(), Cut> {
        guarded(self.address()..self.address() + self.len, || {
            for at in (0..self.len).step_by(usize::from(PAGE)) {
                // SAFETY: `at` lies inside the mapping, to whose bytes no reference exists; others may change
                // them at any time, and a read is volatile.
                unsafe { self.start.as_ptr().add(at).read_volatile() };
            }
        })
    }

    fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `new` made (pages put in its place by the handler included),
        // of which no reference was ever given out.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// The memory that this thread copies from at the moment. A signal handler reads and writes it, so it
/// is atomics in memory that needs no making and no tidying.
struct Watched {
    start: AtomicUsize,
    end: AtomicUsize,
    lost: AtomicBool,
}

thread_local! {
    static WATCHED: Watched = const {
        Watched { start: AtomicUsize::new(0), end: AtomicUsize::new(0), lost: AtomicBool::new(false) }
    };
}

/// Runs `copy`, during which this thread may touch lost pages of `memory`.
fn guarded<R>(memory: std::ops::Range<usize>, copy: impl FnOnce() -> R) -> Result<R, Cut> {
    WATCHED.with(|watched| {
        watched.lost.store(false, Ordering::SeqCst);
        watched.start.store(memory.start, Ordering::SeqCst);
        watched.end.store(memory.end, Ordering::SeqCst);
        let result = copy();
        watched.end.store(0, Ordering::SeqCst);
        if watched.lost.load(Ordering::SeqCst) { Err(Cut) } else { Ok(result) }
    })
}

/// What SIGBUS did before.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Puts the handler in place, once.
fn handle_sigbus() -> io::Result<()> {
    static OUTCOME: OnceLock<Result<(), i32>> = OnceLock::new();
    let outcome = OUTCOME.get_or_init(|| {
        let code = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
        // SAFETY: sigaction is plain data for which all zeros are a value.
        let mut previous: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: nothing is set, and `previous` is a valid, writable sigaction.
        if unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &mut previous) } != 0 {
            return Err(code());
        }
        // Known before the handler can need it.
        PREVIOUS.get_or_init(|| previous);
        let mut action = previous;
        action.sa_sigaction = on_sigbus as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler only makes system calls and reads atomics, which is safe at any time.
        match unsafe { libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(code()),
        }
    });
    (*outcome).map_err(io::Error::from_raw_os_error)
}

/// Replaces what the file has lost by zero pages; a fault anywhere else gets what it would have got.
extern "C" fn on_sigbus(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo, which holds an address where the signal is of the kernel's own
    // making (a positive code); one that somebody sent holds their number there.
    let address = unsafe { ((*info).si_code > 0).then(|| (*info).si_addr() as usize) };
    if address.is_some_and(replace_from) {
        return;
    }
    // Returning repeats the instruction, which then meets what was in place before; a signal that was sent has
    // been spent, and the next one meets it.
    let previous = PREVIOUS.get().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `previous` is null, which changes nothing, or an action that sigaction gave.
    unsafe { libc::sigaction(signal, previous, std::ptr::null_mut()) };
}

/// Maps zero pages from the page of `address` to the end of what this thread copies from: a file that
/// has lost a page has lost all behind it.
fn replace_from(address: usize) -> bool {
    WATCHED.with(|watched| {
        let (start, end) = (watched.start.load(Ordering::SeqCst), watched.end.load(Ordering::SeqCst));
        if !(start..end).contains(&address) {
            return false;
        }
        let page = address / usize::from(PAGE) * usize::from(PAGE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: the pages lie inside a `Mapping` that is being copied from (so it is alive), to whose
        // bytes no reference exists; its start is page aligned, so `page` is not before it.
        let made = unsafe { libc::mmap(page as *mut _, end - page, libc::PROT_READ, flags, -1, 0) };
        watched.lost.store(true, Ordering::SeqCst);
        made != libc::MAP_FAILED
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::process::ExitStatusExt;

    fn file(bytes: usize) -> std::fs::File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; bytes]).unwrap();
        file
    }

    fn copy(mapping: &Mapping, position: u64, len: usize) -> Result<Vec<u8>, Cut> {
        let mut dst = vec![1; len];
        mapping.copy(Routine::memcpy(), position, &mut dst, 2).map(|_| dst)
    }

    #[test]
    fn bytes_of_the_file_up_to_its_last() {
        let mapping = Mapping::new(file(10_000).as_fd(), 10_000).unwrap();
        assert_eq!(copy(&mapping, 123, 9_877).unwrap(), vec![7; 9_877]);
        assert_eq!(copy(&mapping, 9_999, 1).unwrap(), [7]);
        for (position, len) in [(9_999, 2), (10_001, 0), (0, 10_001), (u64::MAX, 1), (u64::MAX, 0)] {
            assert_eq!(copy(&mapping, position, len), Err(Cut), "{position} {len}");
        }
    }

    #[test]
    fn a_file_cut_short_is_told_and_kills_nobody() {
        let file = file(100_000);
        let mapping = Mapping::new(file.as_fd(), 100_000).unwrap();
        assert!(copy(&mapping, 0, 100_000).is_ok() && mapping.touch().is_ok());
        file.set_len(50_000).unwrap();
        assert_eq!(Mapping::new(file.as_fd(), 100_000).unwrap().touch(), Err(Cut));
        assert_eq!(copy(&mapping, 0, 100_000), Err(Cut));
        // What lies before the cut is the file's still.
        assert_eq!(copy(&mapping, 0, 50_000).unwrap(), vec![7; 50_000]);
        drop(mapping);
        file.set_len(0).unwrap();
        let mapping = Mapping::new(file.as_fd(), 100_000).unwrap();
        assert_eq!(copy(&mapping, 0, 1), Err(Cut));
    }

    /// Set for the child process of the next test.
    const CHILD: &str = "FSPROBE_TEST_FOREIGN_FAULT";

    #[test]
    fn a_fault_anywhere_else_ends_the_process_as_ever() {
        if std::env::var_os(CHILD).is_none() {
            let test = "sys::mapping::tests::a_fault_anywhere_else_ends_the_process_as_ever";
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            let child = child.args([test, "--exact", "--nocapture"]).env(CHILD, "1").output().unwrap();
            assert_eq!(child.status.signal(), Some(libc::SIGBUS), "{child:?}");
            return;
        }
        let file = file(8192);
        let mapping = Mapping::new(file.as_fd(), 8192).unwrap();
        assert!(copy(&mapping, 0, 8192).is_ok());
        file.set_len(0).unwrap();
        // SAFETY: inside the mapping; that the file has lost the page is what is tested.
        unsafe { mapping.start.as_ptr().read_volatile() };
    }

    #[test]
    fn threads_copy_and_lose_their_own() {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    let file = file(100_000);
                    let mapping = Mapping::new(file.as_fd(), 100_000).unwrap();
                    for _ in 0..20 {
                        assert!(copy(&mapping, thread, 90_000).is_ok());
                    }
                    file.set_len(8192).unwrap();
                    assert_eq!(copy(&mapping, 0, 90_000), Err(Cut));
                    assert_eq!(copy(&mapping, 0, 8192).unwrap(), vec![7; 8192]);
                });
            }
        });
    }
}
