//! The exact way for static programs and raw system calls: a seccomp filter stops every thread at the calls that
//! copy, and nowhere else of weight, and ptrace(2) tells what they were asked and what came of it.
//!
//! The command runs in fsprobe's process group, on its terminal and streams. One thread of fsprobe is the
//! tracer of everything that comes of the command, and stays so until the last of it has ended, since a
//! filter without its tracer would fail those calls; the calling thread starts the command and passes signals on.
//! Should fsprobe be killed, the kernel ends what it watched (PTRACE_O_EXITKILL). Threads are seized, not
//! attached to, so that a stop of the job stays one.

mod calls;
mod copying;
mod processes;
mod turns;
mod unseen;
mod waiting;
mod watcher;

use super::sample::Beside;
use super::{Done, Launch, TraceError};
use crate::report::Watched;
use crate::sys::child::{Gate, NO_FILTER, Preparation};
use crate::sys::seccomp::{self, Filter};
use crate::sys::signals::Outlived;
use crate::sys::{clock, ptrace, reason, usage};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{OnceLock, PoisonError};
use std::thread;
use std::time::Duration;
use watcher::{Alive, Seen, Watcher};

/// CPU time that a stop costs the program at most: 1 µs was measured on an idle machine, 14 µs on a busy one.
const STOP_NS: u64 = 15_000;

/// From so many stops on that follow each other within so many nanoseconds, most of the time is that of the stops, and samples
/// would add as much again: at every switch the CPU sets its timer anew, which in a virtual machine was measured to cost a call
/// 27 µs beside its own 17 (Zen 5 under KVM). Then the calls are counted alone.
const MANY_STOPS: u64 = 4000;
const DENSE_NS: u64 = 60_000;

/// How often it is looked for a signal to pass on.
const LOOK: Duration = Duration::from_millis(50);

/// Runs a command and counts its copies by system calls, exactly, until the last process that came of it has
/// ended; the status is the command's. `on_signal` tells of a signal that fsprobe was sent alone, which is
/// passed on to the command.
///
/// # Errors
/// Where the command cannot be started, or ptrace(2) or seccomp(2) is forbidden here.
pub fn watch(launch: &Launch, on_signal: &dyn Fn() -> Option<i32>) -> Result<Done, TraceError> {
    seccomp::available().map_err(|error| closed("seccomp(2)", &error))?;
    let (own, other) = UnixStream::pair().map_err(|error| broken("socketpair(2)", error))?;
    let gate = Gate { own: own.as_raw_fd(), other: other.as_raw_fd(), filter: filter() };
    let _outlived = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].map(Outlived::begin);
    let mut beside = Beside::open(launch);
    let before_ns = usage::children_ns();
    let stops = AtomicU64::new(0);
    let (traced, started) = thread::scope(|scope| -> io::Result<_> {
        let alive = Alive::default();
        let seen_alive = Alive::clone(&alive);
        let (stops, began_ns) = (&stops, clock::now_ns());
        let (sender, receiver) = mpsc::channel();
        // Where the receiver is gone, so is whoever wanted to know.
        thread::Builder::new()
            .spawn_scoped(scope, move || drop(sender.send(trace(other, seen_alive, stops))))?;
        let started = launch.start(Preparation { gate: Some(gate), ..Preparation::default() });
        drop(own);
        let ended = Beside::during(&mut beside, |drain| {
            let turn = &mut || drain(!are_dense(stops.load(Relaxed), clock::now_ns() - began_ns));
            traced(&receiver, started.as_ref().ok(), &alive, on_signal, turn)
        });
        Ok((ended, started))
    })
    .map_err(|error| closed("a further thread", &error))?;
    let (mut done, has_outlived) = match (traced, started) {
        (Err(Failed::Seize(error)), _) => return Err(closed("ptrace(2)", &error)),
        (Err(Failed::NoFilter), _) => {
            return Err(closed("seccomp(2)", &io::ErrorKind::PermissionDenied.into()));
        }
        (_, Err(refused)) => return Err(refused.into()),
        (Err(Failed::Broken(error)), _) => return Err(broken("ptrace(2)", error)),
        (Ok(done), Ok(_)) => done,
    };
    if let (Some(after), Some(before)) = (usage::children_ns(), before_ns) {
        let [user, system] = [0, 1].map(|part| after[part].saturating_sub(before[part]));
        done.watched.cpu_ns = super::all_of(Some(user + system), done.watched.wall_ns, has_outlived);
        // of those that outlived their parents the kernel tells nothing: they may have run all the time
        let within_ns = if has_outlived { user.max(done.watched.wall_ns) } else { user };
        match beside.and_then(|beside| beside.end(user, &[])) {
            Some((own, ran_ns)) => {
                // those that outlived their parents are among it
                done.watched.cpu_ns = Some(ran_ns.max(user + system));
                done.watched.own = Some(own);
            }
            None => done.watched.unseen.push(unseen::inside(within_ns)),
        }
        done.watched.unseen.sort();
    }
    Ok(done)
}

/// Whether so many stops since so long are most of the time.
fn are_dense(stops: u64, since_ns: u64) -> bool {
    stops >= MANY_STOPS && since_ns / stops < DENSE_NS
}

/// The filter, made before any fork and kept for good, since the child sets it.
fn filter() -> &'static Filter {
    static FILTER: OnceLock<Filter> = OnceLock::new();
    FILTER.get_or_init(|| Filter::of(&calls::chosen()))
}

/// Waits for the tracer, passing signals on to the command, or once that has ended to what it has left.
fn traced(
    receiver: &Receiver<Traced>,
    child: Option<&Child>,
    alive: &Alive,
    on_signal: &dyn Fn() -> Option<i32>,
    turn: &mut dyn FnMut(),
) -> Traced {
    // Not by its number, which another process may have once it has ended.
    let handle: Option<OwnedFd> = child
        .and_then(|child| Pid::from_raw(child.id().cast_signed()))
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    loop {
        turn();
        match receiver.recv_timeout(LOOK) {
            Ok(traced) => return traced,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failed::Broken(io::Error::other("the tracer ended early")));
            }
            Err(RecvTimeoutError::Timeout) => {
                if let (Some(signal), Some(handle)) = (on_signal().and_then(Signal::from_named_raw), &handle)
                    && pidfd_send_signal(handle, signal).is_err()
                {
                    pass_on(alive, signal);
                }
            }
        }
    }
}

/// Sends a signal to every process that is left.
fn pass_on(alive: &Alive, signal: Signal) {
    // who is in the list has not been reaped, or ended this very moment
    for pid in alive.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
            let _ = kill_process(pid, signal);
        }
    }
}

/// What the tracer comes to, and whether processes outlived the one that had started them.
type Traced = Result<(Done, bool), Failed>;

/// Why the tracer saw nothing.
enum Failed {
    /// The child cannot be traced.
    Seize(io::Error),
    /// The child cannot set the filter.
    NoFilter,
    /// Something else.
    Broken(io::Error),
}

/// The tracer: takes hold of the child that waits at its gate, opens it, and watches.
fn trace(mut gate: UnixStream, alive: Alive, stops: &AtomicU64) -> Traced {
    let mut child = [0; 4];
    gate.read_exact(&mut child).map_err(Failed::Broken)?;
    let child = u32::from_ne_bytes(child);
    ptrace::seize(child).map_err(Failed::Seize)?;
    let before_ns = clock::now_ns();
    gate.write_all(&[1]).map_err(Failed::Broken)?;
    let seen = Watcher::of(child, alive, stops).watch().map_err(Failed::Broken)?;
    let wall_ns = clock::now_ns().saturating_sub(before_ns);
    let mut told = [0];
    if gate.read(&mut told).is_ok_and(|read| read == 1) && told == [NO_FILTER] {
        return Err(Failed::NoFilter);
    }
    let Seen { status, tally, mut notes, has_outlived } = seen;
    let stops = stops.load(Relaxed);
    if tally.is_merged() {
        notes.merged();
    }
    let (copies, unseen) = (tally.copies(), notes.unseen());
    Ok((
        Done {
            status,
            watched: Watched {
                wall_ns,
                watching_ns: Some(stops.saturating_mul(STOP_NS)),
                copies,
                unseen,
                ..Watched::default()
            },
        },
        has_outlived,
    ))
}

fn closed(call: &str, error: &io::Error) -> TraceError {
    TraceError::Closed(format!(
        "{call} is not possible here ({}); a dynamically linked program is watched without by --via preload, any by --via sample where that is open",
        reason(error)
    ))
}

fn broken(what: &'static str, error: io::Error) -> TraceError {
    TraceError::Broken { what, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_are_dense_where_there_is_little_between_them() {
        assert!(are_dense(MANY_STOPS, MANY_STOPS * (DENSE_NS - 1)));
        assert!(!are_dense(MANY_STOPS, MANY_STOPS * DENSE_NS), "a program that does something else too");
        assert!(!are_dense(MANY_STOPS - 1, 1) && !are_dense(0, 0), "too few to tell");
    }
}
