//! ptrace(2): another program's threads stopped, looked at and sent on by the one thread that is their tracer.
//!
//! Two uses share it: [`super::tracer`] stops at every call of a child that asked for it, and
//! `trace::ptrace` takes hold of a child with [`seize`] and stops where a [`super::seccomp::Filter`] says so.
//! Where a thread was killed meanwhile, sending it on does nothing, and the next wait tells of its end.

use super::sandbox;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::ptr::null_mut;

/// Calls told from other stops, what it starts followed, all of it ended should the tracer end.
pub(super) const FOLLOW: libc::c_int = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_EXITKILL;

// What the C libraries declare in different types, or not at all (<linux/ptrace.h>).
const GET_SYSCALL_INFO: libc::c_uint = 0x420e;
const EVENT_STOP: libc::c_int = 128;

/// Why a thread stopped, or that it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// A call that the filter names is about to begin.
    Chosen,
    /// A call that it was sent on into by [`to_end_of_call`] has ended.
    CallEnded,
    /// It has started a process or thread.
    Started,
    /// Another program runs in its process.
    Executed,
    /// Its process is stopped, by this signal, until it is continued ([`listen`]).
    Group(i32),
    /// It is new, or was continued after a stop of its process.
    Trap,
    /// This signal is about to be delivered.
    Signal(i32),
    /// It has ended; for the first thread of a process, this is the process's end.
    Ended(ExitStatus),
}

/// Makes the calling thread the tracer of a running thread and of all that it starts, without stopping it.
///
/// # Errors
/// Where the kernel, a security module or a sandbox refuses.
pub fn seize(thread: u32) -> io::Result<()> {
    sandbox::lets(libc::SYS_ptrace)?;
    let options = FOLLOW | libc::PTRACE_O_TRACESECCOMP;
    request(libc::PTRACE_SEIZE as libc::c_uint, thread, options as usize)
}

/// Waits for the next stop of a thread that the calling thread traces; none where there are none any more.
///
/// # Errors
/// With the system's reason.
pub fn wait() -> io::Result<Option<(u32, Stop)>> {
    waited(0)
}

/// The next stop of a thread that the calling thread traces, where there is one already.
///
/// # Errors
/// With the system's reason.
pub fn poll() -> io::Result<Option<(u32, Stop)>> {
    waited(libc::WNOHANG)
}

fn waited(flags: libc::c_int) -> io::Result<Option<(u32, Stop)>> {
    let flags = flags | libc::__WALL | libc::__WNOTHREAD;
    let mut status = 0;
    let found = loop {
        // SAFETY: `status` is valid and writable; no usage is asked for, which would cost at every stop.
        let found = unsafe { libc::wait4(-1, &mut status, flags, null_mut()) };
        if found >= 0 {
            break found as u32;
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ECHILD) => return Ok(None),
            _ => return Err(error),
        }
    };
    // 0: nobody stopped
    Ok((found != 0).then(|| (found, stop(status))))
}

/// What a status of wait(2) means for a seized thread.
fn stop(status: libc::c_int) -> Stop {
    let ended = ExitStatus::from_raw(status);
    let Some(signal) = ended.stopped_signal() else { return Stop::Ended(ended) };
    match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => Stop::CallEnded,
        0 => Stop::Signal(signal),
        libc::PTRACE_EVENT_SECCOMP => Stop::Chosen,
        libc::PTRACE_EVENT_EXEC => Stop::Executed,
        EVENT_STOP if signal == libc::SIGTRAP => Stop::Trap,
        EVENT_STOP => Stop::Group(signal),
        _ => Stop::Started,
    }
}

/// Sends a stopped thread on, with a signal where that is not 0.
pub fn go_on(thread: u32, signal: i32) {
    let _ = request(libc::PTRACE_CONT as libc::c_uint, thread, signal as usize);
}

/// Sends a stopped thread on to the next beginning or end of a call, with a signal where that is not 0.
pub fn to_end_of_call(thread: u32, signal: i32) {
    let _ = request(libc::PTRACE_SYSCALL as libc::c_uint, thread, signal as usize);
}

/// Leaves a thread in its process's stop, so that it learns when it is continued.
pub fn listen(thread: u32) {
    let _ = request(libc::PTRACE_LISTEN as libc::c_uint, thread, 0);
}

/// Lets a stopped thread go; what it was about to do happens.
pub fn let_go(thread: u32) {
    let _ = request(libc::PTRACE_DETACH as libc::c_uint, thread, 0);
}

/// A request whose data is a number.
pub(super) fn request(what: libc::c_uint, thread: u32, data: usize) -> io::Result<()> {
    // SAFETY: the requests used here take a number for data; a thread that is no stopped tracee of the calling one
    // is refused.
    match unsafe { libc::ptrace(what as _, thread as libc::pid_t, null_mut::<libc::c_void>(), data) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The thread that the kernel tells of at [`Stop::Executed`]: which one of the process ran exec.
pub fn message(thread: u32) -> Option<u32> {
    let mut told: libc::c_ulong = 0;
    let request = libc::PTRACE_GETEVENTMSG as libc::c_uint;
    // SAFETY: the kernel writes one unsigned long to `told`.
    let failed = unsafe {
        libc::ptrace(request as _, thread as libc::pid_t, null_mut::<libc::c_void>(), &raw mut told)
    };
    (failed == 0).then_some(told as u32)
}

/// Which process sent the signal that a thread stopped at; none where the kernel did.
pub fn sender(thread: u32) -> Option<u32> {
    // SAFETY: siginfo is plain numbers and addresses, for which all zeros are a value.
    let mut told: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let request = libc::PTRACE_GETSIGINFO as libc::c_uint;
    // SAFETY: the kernel writes one siginfo to `told`.
    let failed = unsafe {
        libc::ptrace(request as _, thread as libc::pid_t, null_mut::<libc::c_void>(), &raw mut told)
    };
    // SI_USER, SI_QUEUE and SI_TKILL, which alone name a process, are not above 0
    // SAFETY: what the kernel wrote, or zeros.
    (failed == 0 && told.si_code <= 0).then(|| unsafe { told.si_pid() }.cast_unsigned())
}

/// Where a thread stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Before a call.
    Entry {
        /// Its number.
        number: i64,
        /// Its arguments.
        arguments: [u64; 6],
    },
    /// After one.
    Exit {
        /// What it returns; negative for an error.
        result: i64,
    },
}

/// struct ptrace_syscall_info of <linux/ptrace.h>, which not every C library declares, as words: the kind of
/// stop in the lowest byte, two words of places in the program, then what belongs to the kind.
type SyscallInfo = [u64; 11];

/// The kinds of stop that are looked at.
const ENTRY: u64 = 1;
const EXIT: u64 = 2;
const SECCOMP: u64 = 3;

/// What the kernel tells of the call that a thread stopped at; none where it was killed meanwhile, or stopped
/// elsewhere.
///
/// # Errors
/// Before Linux 5.3, and in some sandboxes.
pub fn call(thread: u32) -> io::Result<Option<At>> {
    let mut info: SyscallInfo = [0; 11];
    let (number, into) = (thread as libc::pid_t, &raw mut info);
    // SAFETY: the kernel writes at most that many bytes to `info`; a thread that is no stopped tracee of the
    // calling one is refused.
    let written = unsafe { libc::ptrace(GET_SYSCALL_INFO as _, number, size_of::<SyscallInfo>(), into) };
    if written < 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ESRCH) { Ok(None) } else { Err(error) };
    }
    let [kind, _, _, first, arguments @ .., _] = info;
    Ok(match kind & 0xff {
        ENTRY | SECCOMP => Some(At::Entry { number: first as i64, arguments }),
        EXIT => Some(At::Exit { result: first as i64 }),
        _ => None,
    })
}

/// Copies from another process's memory: as many bytes as both sides hold.
///
/// # Errors
/// Where it has none there, or does not let itself be looked into.
pub fn memory(thread: u32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    sandbox::lets(libc::SYS_process_vm_readv)?;
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: `local` names exactly the bytes of `into`; what `remote` names is the other process's.
    let copied = unsafe {
        libc::process_vm_readv(thread as libc::pid_t, &raw const local, 1, &raw const remote, 1, 0)
    };
    usize::try_from(copied).map_err(|_| io::Error::last_os_error())
}

/// Whether two processes share their table of descriptors (CLONE_FILES).
pub fn share_descriptors(one: u32, other: u32) -> bool {
    compare(one, other, KCMP_FILES, 0, 0)
}

/// Whether two descriptors are one open file, with one position.
pub fn share_position(one: (u32, i32), other: (u32, i32)) -> bool {
    compare(one.0, other.0, KCMP_FILE, one.1, other.1)
}

// <linux/kcmp.h>
const KCMP_FILE: libc::c_int = 0;
const KCMP_FILES: libc::c_int = 2;

/// kcmp(2); where the kernel has none, or a sandbox forbids it, nothing counts as shared.
fn compare(one: u32, other: u32, what: libc::c_int, first: i32, second: i32) -> bool {
    let may = sandbox::lets(libc::SYS_kcmp).is_ok();
    // SAFETY: plain numbers.
    may && unsafe { libc::syscall(libc::SYS_kcmp, one, other, what, first as usize, second as usize) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn statuses_as_the_kernel_makes_them() {
        let stopped = |signal: i32, event: i32| (event << 16) | (signal << 8) | 0x7f;
        assert_eq!(stop(stopped(libc::SIGTRAP, 7)), Stop::Chosen);
        assert_eq!(stop(stopped(libc::SIGTRAP | 0x80, 0)), Stop::CallEnded);
        for event in 1..=3 {
            assert_eq!(stop(stopped(libc::SIGTRAP, event)), Stop::Started);
        }
        assert_eq!(stop(stopped(libc::SIGTRAP, 4)), Stop::Executed);
        assert_eq!(stop(stopped(libc::SIGTRAP, 128)), Stop::Trap);
        assert_eq!(stop(stopped(libc::SIGTSTP, 128)), Stop::Group(libc::SIGTSTP));
        assert_eq!(stop(stopped(libc::SIGTRAP, 0)), Stop::Signal(libc::SIGTRAP));
        assert_eq!(stop(7 << 8), Stop::Ended(ExitStatus::from_raw(7 << 8)));
        assert_eq!(stop(9), Stop::Ended(ExitStatus::from_raw(9)));
    }

    #[test]
    fn own_memory_is_read_as_another_would_be() {
        let (bytes, mut into) = ([1u8, 2, 3], [0; 3]);
        match memory(std::process::id(), bytes.as_ptr() as u64, &mut into) {
            Ok(copied) => assert_eq!((copied, into), (3, bytes)),
            Err(reason) => assert!(reason.raw_os_error().is_some(), "forbidden here"),
        }
        assert!(memory(std::process::id(), 0, &mut into).is_err());
    }

    #[test]
    fn duplicates_share_their_position_and_others_do_not() {
        let (me, file) = (std::process::id(), tempfile::tempfile().unwrap());
        let (duplicate, another) = (file.try_clone().unwrap(), tempfile::tempfile().unwrap());
        if share_descriptors(me, me) {
            let shared =
                |other: &std::fs::File| share_position((me, file.as_raw_fd()), (me, other.as_raw_fd()));
            assert!(shared(&duplicate) && !shared(&another));
        }
        assert!(!share_descriptors(me, 0));
    }
}
