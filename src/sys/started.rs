//! Which standard streams were closed when this process started.
//!
//! Rust's runtime puts /dev/null in their place before `main`, so that no file takes their numbers by accident: what is
//! written would be lost without a word.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

/// A bit for each of stdin, stdout and stderr that was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Called by the loader, before `main` and the runtime.
#[used]
// SAFETY: the section holds addresses of functions that take nothing of what they are given, as this one does.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for stream in 0..3 {
        // SAFETY: asks for flags of a number that may be no descriptor; no memory is involved.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << stream, Ordering::Relaxed);
        }
    }
}

/// What reading from or writing to a standard stream (0, 1 or 2) would have given, had nothing taken its place.
///
/// # Errors
/// `EBADF` where it was closed when the process started.
pub fn open(stream: i32) -> io::Result<()> {
    match CLOSED.load(Ordering::Relaxed) & (1 << stream) {
        0 => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EBADF)),
    }
}
