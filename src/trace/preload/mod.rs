//! Watching through a shared object between the program and its C library: exact counts at next to no cost.
//!
//! The object is C (preload/), built by build.rs and held in this binary. It is written to a private folder
//! together with the memory that it counts in, and named in LD_PRELOAD; in each process it takes itself out
//! of the environment again and adds itself where another program is started. When the command has ended,
//! no program is started with it any more, and the folder goes; processes that still run keep what they
//! have mapped and notice nothing.

mod counts;
mod files;
mod looks;
mod place;
mod program;
mod unseen;

use super::job::Job;
use super::sample::Beside;
use super::{BY_PTRACE, Done, Launch, TraceError};
use crate::report::{Unseen, Watched};
use crate::sys::child::Preparation;
use crate::sys::{clock, proc, sandbox, usage};
use counts::{Counts, Setting};
use looks::Looks;
use place::Place;
pub use program::gains;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, waitid};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;
use unseen::{Io, Known};

/// The object; empty where this fsprobe was built without.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));

/// Why it is empty.
const MISSING: &str = env!("FSPROBE_NO_PRELOAD");

const VARIABLE: &str = "LD_PRELOAD";

/// How often signals to be passed on are looked for.
const TURN: Duration = Duration::from_millis(20);

/// The window of lengths where the loader does not tell it, which is said: glibc's lowest threshold with AVX2 and no
/// end.
const USUAL_WINDOW: (u64, u64) = (2048, u64::MAX);

/// Runs a command with the object, and tells what its calls moved.
///
/// # Errors
/// Where the command cannot be started, cannot be watched in this way, or no private folder can be made.
pub fn watch(launch: &Launch, on_signal: &dyn Fn() -> Option<i32>) -> Result<Done, TraceError> {
    if OBJECT.is_empty() {
        let way_out = "use --via ptrace or --via sample";
        return Err(TraceError::Closed(format!(
            "this fsprobe was built {MISSING}, so it has no object to put into programs ({way_out})"
        )));
    }
    let loader = program::own_loader();
    program::watchable(launch, &loader).map_err(TraceError::Closed)?;
    outlives_sandbox()?;
    let window = crate::host::rep_movsb_window(&loader, &launch.environment);
    let setting =
        Setting { window: window.clone().unwrap_or(USUAL_WINDOW), loader: program::identity(&loader) };
    let place = Place::make(OBJECT, &setting)?;
    let mut launch = launch.clone();
    launch.environment.push((VARIABLE.into(), preloaded(&launch, place.object())));

    let mut beside = Beside::open(&launch);
    let (began, before) = (clock::now_ns(), usage::children_ns());
    let job = Job::begin();
    let mut child = launch.start(Preparation::default())?;
    // what it starts begins no sooner; where it has ended already, that was just now
    let began_tick = proc::began(child.id()).or_else(|| proc::began(std::process::id()));
    let mut looks = Looks::new();
    Beside::during(&mut beside, |drain| {
        wait_until_ended(child.id(), &job, on_signal, &mut || {
            looks.turn(child.id(), &place);
            drain(true);
        });
    });
    let wall_ns = clock::now_ns().saturating_sub(began);
    let pid = child.id();
    let io = Io::of(pid);
    let status =
        child.wait().map_err(|error| TraceError::Broken { what: "cannot wait for the command", error })?;
    let spent_ns = usage::children_ns()
        .zip(before)
        .map(|(after, before)| [0, 1].map(|part| after[part].saturating_sub(before[part])));
    let broken = |error| TraceError::Broken { what: "cannot read what was counted", error };
    let folder = place.object().to_owned();
    let counts = Counts::of(&place.close().map_err(broken)?).map_err(broken)?;
    // an ordinary user is not told of a process that has ended, but it has told itself
    let io = io.or_else(|| Io::told_by(&counts, pid));
    // the kernel tells of those alone that somebody waited for
    let told_ns = counts.spent_ns();
    let spent_ns = spent_ns.map(|spent_ns| [0, 1].map(|part| spent_ns[part].max(told_ns[part])));
    let left = unseen::left(&counts, &folder, began_tick);
    let known = Known { io, spent_ns, looks: looks.seen() };
    let mut unseen = unseen::tell(&counts, &known, &left);
    let inside = unseen::inside(&counts, &known);
    let mut copies = counts.copies();
    let user_ns = spent_ns.map_or(0, |[user, _]| user);
    let has_samples = beside.is_some();
    let own = beside.and_then(|beside| beside.end(user_ns, &copies));
    let own = own.filter(|(own, _)| inside.is_some() || !own.samples.inside.is_empty());
    if !has_samples && inside.is_none() {
        unseen.extend(unseen::past_what_is_counted(user_ns));
    }
    unseen.extend(inside.filter(|_| own.is_none()));
    unseen.extend(ended_by_sandbox(status));
    if let Err(why) = &window {
        unseen.push(unseen::thresholds(why));
        counts::without_distances(&mut copies);
    }
    let cpu_ns = super::all_of(spent_ns.map(|[user, system]| user + system), wall_ns, !left.is_empty());
    Ok(Done {
        watched: Watched {
            wall_ns,
            cpu_ns,
            copies,
            own: own.map(|(own, _)| own),
            unseen,
            ..Watched::default()
        },
        status: Some(status),
    })
}

/// System calls that the object makes in programs, but for those that the loader makes too.
const CALLS: [(libc::c_long, &str); 16] = [
    (libc::SYS_access, "access"),
    (libc::SYS_close_range, "close_range"),
    (libc::SYS_fcntl, "fcntl"),
    (libc::SYS_fstat, "fstat"),
    (libc::SYS_fstatfs, "fstatfs"),
    (libc::SYS_getgid, "getgid"),
    (libc::SYS_getpid, "getpid"),
    (libc::SYS_getrusage, "getrusage"),
    (libc::SYS_getuid, "getuid"),
    (libc::SYS_getxattr, "getxattr"),
    (libc::SYS_lseek, "lseek"),
    (libc::SYS_madvise, "madvise"),
    (libc::SYS_prctl, "prctl"),
    (libc::SYS_readlink, "readlink"),
    (libc::SYS_sched_yield, "sched_yield"),
    (libc::SYS_stat, "stat"),
];

/// Whether a sandbox that fsprobe runs in lets programs live that make the object's calls; one that a program sets for
/// itself is met by the object.
fn outlives_sandbox() -> Result<(), TraceError> {
    match CALLS.iter().find(|(number, _)| sandbox::lets(*number).is_err()) {
        None => Ok(()),
        Some((_, name)) => Err(TraceError::Closed(format!(
            "a sandbox ends programs that call {name}(2), as the object does in them (use --via ptrace or --via sample)"
        ))),
    }
}

/// That the object may be why a sandbox of the program's own has ended it, of its first process or a shell's.
fn ended_by_sandbox(status: ExitStatus) -> Option<Unseen> {
    let is_so = status.signal() == Some(libc::SIGSYS) || status.code() == Some(128 + libc::SIGSYS);
    is_so.then(|| Unseen {
        what: "what the command would have gone on to do".into(),
        why: "a sandbox ended it (SIGSYS), perhaps for a call that the object made in it".into(),
        remedy: Some(BY_PTRACE.into()),
        ..Unseen::default()
    })
}

/// LD_PRELOAD as the command would have it, and the object after that.
fn preloaded(launch: &Launch, object: &OsStr) -> OsString {
    let given = launch.environment.iter().rev().find(|(name, _)| name == VARIABLE);
    match given.map(|(_, value)| value.clone()).or_else(|| std::env::var_os(VARIABLE)) {
        None => object.to_owned(),
        Some(mut value) => {
            value.push(":");
            value.push(object);
            value
        }
    }
}

/// Returns when the child has ended, which is not waited for: /proc tells of it until it is. Passes signals on, and
/// calls `turn` now and then.
fn wait_until_ended(child: u32, job: &Job, on_signal: &dyn Fn() -> Option<i32>, turn: &mut dyn FnMut()) {
    let Some(pid) = i32::try_from(child).ok().and_then(Pid::from_raw) else { return };
    let descriptor = pidfd_open(pid, PidfdFlags::empty()).ok();
    while !has_ended(pid) {
        turn();
        job.follow(pid);
        if let Some(signal) = on_signal().and_then(Signal::from_named_raw) {
            // It has not been waited for, so the number is its own; where it has ended, nothing happens.
            let _ = kill_process(pid, signal);
        }
        match &descriptor {
            None => std::thread::sleep(Duration::from_millis(1)),
            Some(descriptor) => {
                let turn = Timespec::try_from(TURN).ok();
                // Interrupted or not, the next turn looks.
                let _ = poll(&mut [PollFd::new(descriptor, PollFlags::IN)], turn.as_ref());
            }
        }
    }
}

fn has_ended(pid: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(pid), options) {
        Ok(state) => state.is_some(),
        Err(error) => io::Error::from(error).kind() != io::ErrorKind::Interrupted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_by_a_sandbox_is_told() {
        let told = |raw| ended_by_sandbox(ExitStatus::from_raw(raw)).is_some();
        assert_eq!([libc::SIGSYS, 159 << 8, 9, 0].map(told), [true, true, false, false]);
    }

    #[test]
    fn every_call_of_the_object_is_known() {
        // made by every dynamically linked program, or where it ends anyway
        const COMMON: [&str; 7] = ["close", "exit_group", "name", "openat", "pread64", "read", "wait4"];
        for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/preload")).unwrap() {
            let source = std::fs::read_to_string(file.unwrap().path()).unwrap();
            for call in source.split("BARE(").skip(1).filter_map(|rest| rest.split([',', ')']).next()) {
                let is_known = COMMON.contains(&call) || CALLS.iter().any(|(_, known)| *known == call);
                assert!(is_known, "{call}");
            }
        }
    }
}
