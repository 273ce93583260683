//! The system calls of another program, seen by ptrace(2): which, with what, and how long each took.
//!
//! Each call stops the program twice, so a time here holds two switches between the processes; what
//! that costs shows in the calls that do next to nothing.

use super::child::{Ended, reaped};
use super::clock;
use super::ptrace::{self, At};
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::process::ExitStatusExt;

/// A system call as it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The thread.
    pub thread: u32,
    /// The call's number.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// What looks on.
pub trait Observer {
    /// A call begins; the thread waits for this to return.
    fn begins(&mut self, call: &Call);
    /// It has ended with this result (negative: an error) after so many nanoseconds.
    fn ended(&mut self, call: &Call, result: i64, ns: u64);
}

/// A call that has not ended yet.
struct Pending {
    call: Call,
    at_ns: u64,
}

/// Follows a child spawned as `traced` by this thread, and whatever it starts, until the child ends. What
/// it leaves running is ended then.
///
/// # Errors
/// Where the kernel cannot tell system calls (before Linux 5.3, or a sandbox); the child is ended then.
pub fn follow(child: u32, observer: &mut dyn Observer) -> io::Result<Ended> {
    let root = child as libc::pid_t;
    let mut threads = HashSet::new();
    let followed = serve(root, &mut threads, observer);
    for &thread in threads.iter().filter(|&&thread| thread != root || followed.is_err()) {
        super::child::kill(thread as u32);
    }
    // Reaped, so that none stays behind as a zombie.
    while !threads.is_empty() {
        match reaped(-1, libc::__WALL | libc::__WNOTHREAD) {
            Ok((thread, ended)) if ended.status.code().or(ended.status.signal()).is_some() => {
                threads.remove(&thread);
            }
            Ok((thread, _)) => ptrace::to_end_of_call(thread as u32, 0),
            Err(_) => break,
        }
    }
    followed
}

fn serve(
    root: libc::pid_t,
    threads: &mut HashSet<libc::pid_t>,
    observer: &mut dyn Observer,
) -> io::Result<Ended> {
    let mut pending: HashMap<libc::pid_t, Pending> = HashMap::new();
    threads.insert(root);
    let mut has_options = false;
    loop {
        let (thread, ended) = reaped(-1, libc::__WALL | libc::__WNOTHREAD)?;
        let now_ns = clock::now_ns();
        let raw = ended.status.into_raw();
        let Some(signal) = ended.status.stopped_signal() else {
            pending.remove(&thread);
            threads.remove(&thread);
            if thread == root {
                return Ok(ended);
            }
            continue;
        };
        let is_new = threads.insert(thread);
        let event = raw >> 16;
        if [libc::PTRACE_EVENT_FORK, libc::PTRACE_EVENT_VFORK, libc::PTRACE_EVENT_CLONE].contains(&event)
            && let Some(started) = ptrace::message(thread as u32)
        {
            // should the root end before its first stop, it is to be ended too
            threads.insert(started as libc::pid_t);
        }
        let mut deliver = 0;
        if signal == libc::SIGTRAP | 0x80 {
            match ptrace::call(thread as u32)? {
                Some(At::Entry { number, arguments }) => {
                    let call = Call { thread: thread as u32, number, arguments };
                    observer.begins(&call);
                    pending.insert(thread, Pending { call, at_ns: clock::now_ns() });
                }
                Some(At::Exit { result }) => {
                    if let Some(Pending { call, at_ns }) = pending.remove(&thread) {
                        observer.ended(&call, result, now_ns.saturating_sub(at_ns));
                    }
                }
                None => {}
            }
        } else if !has_options && thread == root && signal == libc::SIGTRAP {
            ptrace::request(libc::PTRACE_SETOPTIONS as libc::c_uint, root as u32, ptrace::FOLLOW as usize)?;
            has_options = true;
        } else if event == 0 && !(is_new && signal == libc::SIGSTOP) {
            // A signal of the program's own; new threads begin with a stop that is the tracer's.
            deliver = signal;
        }
        ptrace::to_end_of_call(thread as u32, deliver);
    }
}

#[cfg(test)]
mod tests {
    use super::super::child::Preparation;
    use super::*;
    use std::process::Command;

    #[derive(Default)]
    struct Writes {
        begun: u64,
        bytes: i64,
        ns: u64,
    }

    impl Observer for Writes {
        fn begins(&mut self, call: &Call) {
            self.begun += u64::from(call.number == libc::SYS_write);
        }
        fn ended(&mut self, call: &Call, result: i64, ns: u64) {
            if call.number == libc::SYS_write {
                self.bytes += result;
                self.ns += ns;
            }
        }
    }

    /// Runs a shell script traced; none where tracing is forbidden.
    fn traced(script: &str) -> Option<(Writes, Ended)> {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(std::process::Stdio::null());
        Preparation { traced: true, ends_with_parent: true, ..Preparation::default() }.of(&mut command);
        let Ok(child) = command.spawn() else {
            eprintln!("skipped: ptrace is forbidden here");
            return None;
        };
        let mut writes = Writes::default();
        let ended = follow(child.id(), &mut writes).unwrap();
        Some((writes, ended))
    }

    #[test]
    fn calls_of_the_child_and_of_its_children_are_seen() {
        let Some((writes, ended)) = traced("printf 12345; (printf 678; sh -c 'printf 90'); exit 5") else {
            return;
        };
        assert_eq!((writes.begun, writes.bytes, ended.status.code()), (3, 10, Some(5)));
        assert!(writes.ns > 0);
    }

    #[test]
    fn signals_reach_the_program() {
        let Some((writes, ended)) = traced("trap 'printf caught' USR1; kill -USR1 $$; kill -TERM $$") else {
            return;
        };
        assert_eq!((writes.bytes, ended.status.signal()), (6, Some(15)));
    }

    #[test]
    fn what_is_left_running_is_ended() {
        // the last one is started the moment before the end
        for script in ["sleep 1234.5 & exit 0", "true | exec sh -c 'sleep 1234.5 & exit 0'"] {
            let Some((_, ended)) = traced(script) else { return };
            assert!(ended.status.success());
            let is_left = |entry: std::io::Result<std::fs::DirEntry>| {
                let words = entry.ok().and_then(|entry| std::fs::read(entry.path().join("cmdline")).ok());
                words.is_some_and(|words| words == b"sleep\x001234.5\x00")
            };
            assert!(!std::fs::read_dir("/proc").unwrap().any(is_left), "{script}");
        }
    }
}
