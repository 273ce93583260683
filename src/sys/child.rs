//! Child processes with what the standard library cannot set, and what the kernel counted for them.

use super::seccomp::Filter;
use super::started;
use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};

/// How a child process ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// Its status.
    pub status: ExitStatus,
    /// Page faults, minor and major, of it and the children that it waited for.
    pub faults: u64,
}

/// What is set between fork and exec.
#[derive(Debug, Clone, Copy, Default)]
pub struct Preparation {
    /// Whether the calling thread is to be its tracer ([`super::tracer::follow`]).
    pub traced: bool,
    /// Whether the child ends at once when the thread that starts it does, however that comes.
    pub ends_with_parent: bool,
    /// Whether transparent huge pages are refused to it, or allowed again; none leaves that as it is.
    pub refuse_huge_pages: Option<bool>,
    /// Where the child waits for its tracer, and the filter that it sets then.
    pub gate: Option<Gate>,
}

/// Where a child waits until another thread of its parent has become its tracer ([`super::ptrace::seize`]), with
/// the descriptors of a pair of sockets: it tells its number (four bytes) and waits for a byte. Where none
/// comes, or the filter cannot be set, its start fails.
#[derive(Debug, Clone, Copy)]
pub struct Gate {
    /// The child's end.
    pub own: RawFd,
    /// The tracer's end, which the child closes.
    pub other: RawFd,
    /// The filter.
    pub filter: &'static Filter,
}

/// What the child tells at its gate, after its number, where the filter cannot be set; it has ended then.
pub const NO_FILTER: u8 = b'!';

impl Gate {
    fn pass(self) -> io::Result<()> {
        let (mut go, failed, number) = (0u8, NO_FILTER, std::process::id().to_ne_bytes());
        // SAFETY: descriptors that the child has from its parent and uses nowhere else; `number` and `go` are
        // as long as said.
        let read = unsafe {
            libc::close(self.other);
            libc::write(self.own, number.as_ptr().cast(), number.len());
            libc::read(self.own, (&raw mut go).cast(), 1)
        };
        if read != 1 {
            return Err(io::Error::from_raw_os_error(libc::ECANCELED));
        }
        if self.filter.install().is_err() {
            // SAFETY: one byte is written; _exit ends the child, which its tracer waits for from here on.
            unsafe {
                libc::write(self.own, (&raw const failed).cast(), 1);
                libc::_exit(126);
            }
        }
        Ok(())
    }
}

impl Preparation {
    /// Has the command prepared so. Where the kernel refuses, `spawn` fails with its reason.
    pub fn of(self, command: &mut Command) {
        let parent = std::process::id() as libc::pid_t;
        // SAFETY: between fork and exec the closure makes only system calls, which are async-signal-safe; it
        // allocates nothing (an error by number is none) and touches no lock.
        unsafe { command.pre_exec(move || self.apply(parent)) };
    }

    fn apply(self, parent: libc::pid_t) -> io::Result<()> {
        if self.ends_with_parent {
            // SAFETY: plain numbers.
            answer(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
            // It may have ended before that was asked for.
            // SAFETY: getppid involves no memory.
            if unsafe { libc::getppid() } != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
        }
        if let Some(refused) = self.refuse_huge_pages {
            // SAFETY: plain numbers.
            answer(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, usize::from(refused), 0, 0, 0) })?;
        }
        if self.traced {
            let null = std::ptr::null_mut::<libc::c_void>();
            // SAFETY: PTRACE_TRACEME uses none of its other arguments.
            answer(unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, null, null) } as libc::c_int)?;
        }
        // Last, since from there on calls stop for the tracer.
        self.gate.map_or(Ok(()), Gate::pass)
    }
}

/// Leaves those standard streams closed to the command that were so when this process started, which has had something
/// else in their place since ([`super::started`]).
pub fn leave_closed(command: &mut Command) {
    let close = || {
        for stream in 0..3 {
            if started::open(stream).is_err() {
                // SAFETY: no memory is involved; the child has nothing of its own there.
                unsafe { libc::close(stream) };
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec descriptors are closed.
    unsafe { command.pre_exec(close) };
}

/// Whether SIGCHLD was ignored when this process started.
static WAS_DEAF: AtomicBool = AtomicBool::new(false);

/// Has this process told how its children end, also where it was started with SIGCHLD ignored, which has the kernel forget
/// them. [`leave_deaf`] gives that to a command as it was.
pub fn hear_of_children() {
    if super::signals::is_ignored(libc::SIGCHLD) {
        WAS_DEAF.store(true, Ordering::Relaxed);
        // SAFETY: sets no handler, only one of the kernel's own dispositions; no memory is involved.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
}

/// Leaves SIGCHLD and SIGPIPE ignored to the command where they were so when this process started; the standard library
/// would have it end by SIGPIPE.
pub fn leave_deaf(command: &mut Command) {
    let ignored =
        [(libc::SIGCHLD, WAS_DEAF.load(Ordering::Relaxed)), (libc::SIGPIPE, started::ignored_pipe())];
    if ignored.iter().all(|(_, is_ignored)| !is_ignored) {
        return;
    }
    let ignore = move || {
        for (signal, _) in ignored.iter().filter(|(_, is_ignored)| *is_ignored) {
            // SAFETY: sets no handler, only one of the kernel's own dispositions; no memory is involved.
            unsafe { libc::signal(*signal, libc::SIG_IGN) };
        }
        Ok(())
    };
    // SAFETY: between fork and exec a system call is made that is async-signal-safe.
    unsafe { command.pre_exec(ignore) };
}

/// What a program finds in its environment, in this order: the standard library would sort what it changes.
#[derive(Debug)]
pub struct Environment {
    /// Ends with a null pointer; points into `entries`.
    pointers: Vec<*const libc::c_char>,
    /// `NAME=value`, each.
    entries: Vec<CString>,
}

// SAFETY: the pointers lead to memory of its own on the heap, which nobody changes.
unsafe impl Send for Environment {}
// SAFETY: as above.
unsafe impl Sync for Environment {}

impl Environment {
    /// This process's own with these variables, in the place where they stand already, else at the end.
    pub fn with(changes: &[(OsString, OsString)]) -> Environment {
        let changed = |name: &OsString| changes.iter().rev().find(|(other, _)| other == name);
        let own: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        let is_new = |(name, _): &&(OsString, OsString)| own.iter().all(|(other, _)| other != name);
        let all =
            own.iter().map(|pair| changed(&pair.0).unwrap_or(pair)).chain(changes.iter().filter(is_new));
        let entry = |(name, value): &(OsString, OsString)| {
            CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
        };
        let entries: Vec<CString> = all.filter_map(entry).collect();
        let pointers = entries.iter().map(|entry| entry.as_ptr()).chain([std::ptr::null()]).collect();
        Environment { pointers, entries }
    }

    /// Has the command find it, whose own settings of variables are then without effect.
    pub fn of(self, command: &mut Command) {
        // SAFETY: between fork and exec one pointer is set.
        unsafe { command.pre_exec(move || self.set()) };
    }

    fn set(&self) -> io::Result<()> {
        debug_assert_eq!(self.pointers.len(), self.entries.len() + 1);
        // SAFETY: the child has one thread, and its exec reads the array, which lives as long as the closure that calls
        // this; execve(2) takes it for const.
        unsafe { environ = self.pointers.as_ptr() };
        Ok(())
    }
}

unsafe extern "C" {
    /// environ(7)
    static mut environ: *const *const libc::c_char;
}

fn answer(returned: libc::c_int) -> io::Result<()> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether transparent huge pages are refused to this process already; none where the kernel does not say.
pub fn huge_pages_refused() -> Option<bool> {
    // SAFETY: plain numbers.
    match unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) } {
        returned if returned < 0 => None,
        returned => Some(returned != 0),
    }
}

/// Waits for a child to end.
///
/// # Errors
/// Where it is no child of this process that has not been waited for.
pub fn wait(child: u32) -> io::Result<Ended> {
    // A process id is a positive pid_t.
    reaped(child as libc::pid_t, 0).map(|(_, ended)| ended)
}

/// wait4(2), again after an interruption: which process, and how it ended or stopped.
pub(super) fn reaped(child: libc::pid_t, flags: libc::c_int) -> io::Result<(libc::pid_t, Ended)> {
    loop {
        let mut status = 0;
        // SAFETY: rusage is plain numbers, for which all zeros are a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `status` and `usage` are valid and writable.
        let which = unsafe { libc::wait4(child, &mut status, flags, &mut usage) };
        if which >= 0 {
            let faults = (usage.ru_minflt + usage.ru_majflt) as u64;
            return Ok((which, Ended { status: ExitStatus::from_raw(status), faults }));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Ends a child at once. Nothing happens where it has ended already.
pub fn kill(child: u32) {
    let child = child as libc::pid_t;
    if child > 0 {
        // SAFETY: no memory involved; a positive number names one process.
        unsafe { libc::kill(child, libc::SIGKILL) };
    }
}

/// Sends a signal to the process group that a child leads. Nothing happens where it is gone, or for number 0.
pub fn signal_group(leader: u32, number: i32) {
    let leader = leader as libc::pid_t;
    if leader > 1 {
        // SAFETY: no memory involved; below -1 a number names one group.
        unsafe { libc::kill(-leader, number) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, preparation: Preparation) -> Ended {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        preparation.of(&mut command);
        wait(command.spawn().unwrap().id()).unwrap()
    }

    #[test]
    fn ends_are_told_with_their_faults() {
        let ended = sh("exit 7", Preparation::default());
        assert_eq!(ended.status.code(), Some(7));
        assert!(ended.faults > 0);
        assert_eq!(sh("kill -9 $$", Preparation::default()).status.signal(), Some(9));
        assert!(wait(1).is_err(), "not a child");
    }

    #[test]
    fn huge_pages_are_refused_across_exec() {
        if huge_pages_refused().is_none() {
            eprintln!("skipped: this kernel cannot refuse huge pages to a process");
            return;
        }
        for (refused, shown) in [(true, "0"), (false, "1")] {
            let script = format!("grep -q 'THP_enabled:.*{shown}' /proc/self/status");
            let told = sh("grep -q THP_enabled /proc/self/status", Preparation::default()).status.success();
            let preparation = Preparation { refuse_huge_pages: Some(refused), ..Preparation::default() };
            assert!(!told || sh(&script, preparation).status.success(), "{refused}");
        }
    }

    #[test]
    fn kills_and_signals_arrive() {
        let sleep = || Command::new("sleep").arg("100").process_group(0).spawn().unwrap().id();
        let child = sleep();
        kill(child);
        assert_eq!(wait(child).unwrap().status.signal(), Some(9));
        let leader = sleep();
        signal_group(leader, libc::SIGTERM);
        assert_eq!(wait(leader).unwrap().status.signal(), Some(15));
        signal_group(0, libc::SIGKILL);
    }
}
