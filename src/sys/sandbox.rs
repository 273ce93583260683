//! Sandboxes that end whoever makes a system call, instead of refusing it: SECCOMP_RET_KILL_PROCESS and its like of
//! seccomp(2), as systemd's SystemCallFilter= has it by default.
//!
//! A call that ordinary programs do not make is made by a child first where there is a filter, so that what ends
//! the child is told as a refusal, and the other ways remain.

use rustix::io::retry_on_intr;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::cell::RefCell;
use std::io;

/// Goes on where the calling thread can make this system call and live.
///
/// # Errors
/// EPERM, as from a sandbox that refuses, where it would be ended by SIGSYS; the system's reason where that could
/// not be tried. What the call itself answers is not known yet.
pub fn lets(call: libc::c_long) -> io::Result<()> {
    TRIED.with_borrow_mut(|tried| {
        let known = tried.iter().find(|(number, _)| *number == call);
        let is_deadly = match known {
            Some((_, is_deadly)) => *is_deadly,
            None => {
                let is_deadly = is_filtered() && ends_a_child(call)?;
                tried.push((call, is_deadly));
                is_deadly
            }
        };
        if is_deadly { Err(io::Error::from_raw_os_error(libc::EPERM)) } else { Ok(()) }
    })
}

thread_local! {
    /// What was tried, with whether it was deadly: each thread has filters of its own.
    static TRIED: RefCell<Vec<(libc::c_long, bool)>> = const { RefCell::new(Vec::new()) };
}

/// Whether the calling thread has a filter; what the kernel does not know of, it does not have.
fn is_filtered() -> bool {
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) > 0 }
}

/// Whether a child that makes the call is ended by SIGSYS.
fn ends_a_child(call: libc::c_long) -> io::Result<bool> {
    // SAFETY: of this process's threads the child has the calling one alone; it makes two system calls and ends,
    // without memory, locks or anything else of the parent's. Minus one is no valid descriptor, process, request, flag
    // or address to any of the calls that are asked for, so the kernel refuses them, or the filter ends the child. No
    // core is left of it.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
            libc::syscall(call, -1i64, -1i64, -1i64, -1i64, -1i64, -1i64);
            libc::_exit(0);
        }
        child
    };
    let child = Pid::from_raw(child).filter(|_| child > 0).ok_or_else(io::Error::last_os_error)?;
    let ended = retry_on_intr(|| waitid(WaitId::Pid(child), WaitIdOptions::EXITED))?;
    Ok(ended.and_then(|ended| ended.terminating_signal()) == Some(libc::SIGSYS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::refuse::{self, Refusal};

    #[test]
    fn deadly_calls_are_told_as_forbidden_and_others_are_not() {
        let calls = [libc::SYS_perf_event_open, libc::SYS_kcmp];
        let told = refuse::in_a_thread(&calls, Refusal::Kill, || {
            [calls[0], calls[1], calls[0], libc::SYS_ptrace]
                .map(|call| lets(call).map_err(|error| error.kind()))
        });
        if let Some(told) = told {
            let deadly = Err(io::ErrorKind::PermissionDenied);
            assert_eq!(told, [deadly, deadly, deadly, Ok(())]);
        }
        let refused = refuse::in_a_thread(&calls, Refusal::Error(libc::ENOSYS), || lets(calls[0]).is_ok());
        assert_ne!(refused, Some(false), "the call itself tells");
    }
}
