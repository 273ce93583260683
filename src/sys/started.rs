//! What Rust's runtime changes before `main`, as it was when this process started: which standard streams were closed (it
//! puts /dev/null in their place, so that no file takes their numbers by accident; what is written would be lost without a
//! word), and whether SIGPIPE was ignored, as it always is afterwards.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// A bit for each of stdin, stdout and stderr that was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Whether SIGPIPE was ignored.
static NO_PIPE: AtomicBool = AtomicBool::new(false);

/// Called by the loader, before `main` and the runtime.
#[used]
// SAFETY: the section holds addresses of functions that take nothing of what they are given, as this one does.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for stream in 0..3 {
        // SAFETY: asks for flags of a number that may be no descriptor; no memory is involved.
        let flags = unsafe { libc::fcntl(stream, libc::F_GETFD) };
        // a sandbox may refuse the question
        if flags == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EBADF) {
            CLOSED.fetch_or(1 << stream, Ordering::Relaxed);
        }
    }
    NO_PIPE.store(super::signals::is_ignored(libc::SIGPIPE), Ordering::Relaxed);
}

/// Whether SIGPIPE was ignored.
pub fn ignored_pipe() -> bool {
    NO_PIPE.load(Ordering::Relaxed)
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
