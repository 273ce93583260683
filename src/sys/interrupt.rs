//! For tests: real signals that interrupt a blocked system call.

use std::mem::zeroed;

extern "C" fn ignore(_: libc::c_int) {}

/// A thread that can be interrupted.
#[derive(Clone, Copy)]
pub struct Target(libc::pthread_t);

/// The calling thread, with a handler for SIGUSR1 that does not restart system calls.
pub fn this_thread() -> Target {
    // SAFETY: sigaction is plain data for which all zeros are a value.
    let mut action: libc::sigaction = unsafe { zeroed() };
    action.sa_sigaction = ignore as *const () as usize;
    // SAFETY: the handler does nothing, so it is safe at any time; the old action is not asked for.
    assert_eq!(unsafe { libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) }, 0);
    // SAFETY: no memory involved.
    Target(unsafe { libc::pthread_self() })
}

impl Target {
    /// Sends the signal. The thread must not have ended.
    pub fn interrupt(self) {
        // SAFETY: callers join the thread only after the last signal, so its identity is valid.
        assert_eq!(unsafe { libc::pthread_kill(self.0, libc::SIGUSR1) }, 0);
    }
}
