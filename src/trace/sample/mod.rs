//! Watching by interrupts that look at the registers: shares of time, at next to no cost.
//!
//! Inside a `rep movs` RDI - RSI never changes, so a timer's interrupt that hits one shows the exact distance of
//! the copy, and the share of such interrupts is the share of time spent copying. Nothing is put into the program:
//! static ones, other languages' runtimes, all threads and children are seen alike. An ordinary user sees copies
//! in user space at perf_event_paranoid 2, and those inside the kernel at 1.

mod beside;
mod copying;
mod kernel;
mod machine;
mod records;
mod session;
mod tally;
mod world;

use super::job::Job;
use super::{Done, Launch, TraceError};
use crate::report::{Samples, Unseen, Watched};
use crate::sys::child::Preparation;
use crate::sys::clock::now_ns;
use crate::sys::perf::PerfError;
use crate::sys::perf_sample::{Event, Wanted, Whose};
use crate::sys::proc::is_running;
pub use beside::Beside;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use session::Session;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ExitStatus};
use tally::Tally;

/// Nanoseconds of CPU time between two samples of a thread: 276 a second. An interrupt took 25 µs in the virtual
/// machine where that was measured, of which what it records is 1 or 2, so that this costs 0.7 % there, and less on
/// bare metal. The part beyond whole milliseconds is the golden section's, so that samples of work in step with a tick
/// of 1, 4 or 10 ms spread evenly.
pub const PERIOD_NS: u64 = 3_618_033;

/// The shortest and the longest period: the kernel takes none below 10 µs, and below 100 µs the interrupts
/// themselves are what is measured.
const PERIODS_NS: std::ops::RangeInclusive<u64> = 100_000..=1_000_000_000;

/// Nanoseconds between two calls of `live`.
const LIVE_NS: u64 = 250_000_000;

/// What is watched.
#[derive(Debug, Clone)]
pub enum Target {
    /// A command, from its first instruction to its end, with all that it starts meanwhile.
    Command(Launch),
    /// A process that runs, with what it starts from now on; until it ends.
    Process(u32),
    /// Everything that runs.
    System,
}

/// How it is watched.
pub struct SampleOptions<'a> {
    /// Nanoseconds of CPU time between two samples of a thread; 100 µs to 1 s.
    pub period_ns: u64,
    /// A signal that was sent to this process alone and has not been passed on to the command yet.
    pub on_signal: &'a dyn Fn() -> Option<i32>,
    /// Whether to leave a process or the system, asked a few times a second. A command is watched to its end.
    pub stop: &'a dyn Fn() -> bool,
}

/// What can be seen of a target, and why not.
#[derive(Debug)]
pub struct Available {
    /// Copies in user space.
    pub user: Result<(), PerfError>,
    /// Copies inside the kernel.
    pub kernel: Result<(), PerfError>,
}

/// What could be seen of a target now.
pub fn available(target: &Target) -> Available {
    let (whose, cpu) = match target {
        Target::Command(_) => (Whose::Started, None),
        Target::Process(pid) => (Whose::Thread(*pid), None),
        Target::System => (Whose::Everyone, machine::online().first().copied()),
    };
    let open = |kernel| {
        let wanted = Wanted { period_ns: PERIOD_NS, kernel, chains: false, wake_at: 1 };
        Event::open(whose, cpu, &wanted).map(drop)
    };
    let kernel = open(true);
    // Who sees the kernel sees user space.
    Available { user: if kernel.is_ok() { Ok(()) } else { open(false) }, kernel }
}

/// Watches a command until it ends, or what runs until it ends or `stop` says so. About four times a second
/// `live` is told what was seen so far, without lines of source files.
///
/// # Errors
/// [`TraceError::Closed`] where this user may not sample, or there is no such process; [`TraceError::Refused`] where
/// the command cannot be started.
pub fn watch(
    target: &Target,
    options: &SampleOptions<'_>,
    live: &mut dyn FnMut(&Watched),
) -> Result<Done, TraceError> {
    let available = available(target);
    available.user.map_err(|error| closed(target, &error))?;
    let period_ns = options.period_ns.clamp(*PERIODS_NS.start(), *PERIODS_NS.end());
    let mut watch = Watch {
        tally: Tally::new(),
        session: Session::open(target, period_ns, available.kernel.is_ok())
            .map_err(|error| closed(target, &error))?,
        period_ns,
        unseen: available.kernel.err().map(|error| kernel_unseen(&error)).into_iter().collect(),
        began_ns: now_ns(),
        is_command: matches!(target, Target::Command(_)),
    };
    let status = match target {
        Target::Command(launch) => {
            // The events are this thread's, and so inherited by what it starts.
            let job = Job::begin();
            let child = launch.start(Preparation::default())?;
            Some(watch.follow(child, &job, options, live)?)
        }
        Target::Process(pid) => {
            watch.session.attach(*pid, &mut watch.tally.world).map_err(|error| closed(target, &error))?;
            let end = Pid::from_raw(*pid as i32).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
            watch.stay(end.as_ref(), || (options.stop)() || !is_running(*pid), live);
            None
        }
        Target::System => {
            watch.stay(None, options.stop, live);
            None
        }
    };
    Ok(Done { watched: watch.end(), status })
}

struct Watch {
    session: Session,
    tally: Tally,
    period_ns: u64,
    unseen: Vec<Unseen>,
    began_ns: u64,
    /// Whether it is a command, of which something may be left running.
    is_command: bool,
}

impl Watch {
    /// Watches a child to its end.
    fn follow(
        &mut self,
        mut child: Child,
        job: &Job,
        options: &SampleOptions<'_>,
        live: &mut dyn FnMut(&Watched),
    ) -> Result<ExitStatus, TraceError> {
        let pid = Pid::from_child(&child);
        let end = pidfd_open(pid, PidfdFlags::empty()).ok();
        let mut ended = None;
        let is_over = || {
            if let Some(signal) = (options.on_signal)().and_then(Signal::from_named_raw) {
                // Not reaped before the next line, so the number is still its own; it may have ended.
                let _ = kill_process(pid, signal);
            }
            job.follow(pid);
            ended = child.try_wait().transpose();
            ended.is_some()
        };
        self.stay(end.as_ref(), is_over, live);
        let broken = |error| TraceError::Broken { what: "waiting for the command", error };
        ended.expect("that was waited for").map_err(broken)
    }

    /// Takes what comes until it is over.
    fn stay(
        &mut self,
        end: Option<&OwnedFd>,
        mut is_over: impl FnMut() -> bool,
        live: &mut dyn FnMut(&Watched),
    ) {
        let Watch { session, tally, period_ns, unseen, began_ns, .. } = self;
        let mut told_ns = now_ns();
        session.emptied(|session, emptied| {
            while !is_over() {
                session::wait(end.map(AsFd::as_fd));
                session.drain(emptied, tally);
                if now_ns() - told_ns >= LIVE_NS {
                    told_ns = now_ns();
                    live(&watched(session, tally, *period_ns, unseen, *began_ns, false));
                }
            }
        });
    }

    /// Stops and tells.
    fn end(mut self) -> Watched {
        self.session.drain_all(&mut self.tally);
        if self.is_command {
            let left: BTreeSet<u32> = self.tally.world.running().filter(|pid| is_running(*pid)).collect();
            self.unseen.extend(super::still_running(&left));
        }
        watched(&self.session, &mut self.tally, self.period_ns, &self.unseen, self.began_ns, true)
    }
}

fn watched(
    session: &Session,
    tally: &mut Tally,
    period_ns: u64,
    unseen: &[Unseen],
    began_ns: u64,
    is_last: bool,
) -> Watched {
    let wall_ns = now_ns() - began_ns;
    let counts = session.counts(is_last);
    let samples = tally.told(period_ns, session.kernel(), is_last);
    // What the records tell of losses they tell late.
    let lost = samples.lost.max(counts.map_or(0, |counts| counts.lost));
    Watched {
        wall_ns,
        cpu_ns: counts.map(|counts| counts.ran_ns),
        samples: Some(Samples { lost, ..samples }),
        unseen: unseen.iter().cloned().chain(session.unwatched()).chain(tally.unseen()).collect(),
        ..Watched::default()
    }
}

fn kernel_unseen(error: &PerfError) -> Unseen {
    Unseen {
        what: "copies inside the kernel (read, write and their like)".into(),
        why: error.to_string(),
        remedy: error.remedy(),
        ..Unseen::default()
    }
}

/// Why nothing is seen, what would allow it, and which ways there are else.
fn closed(target: &Target, error: &PerfError) -> TraceError {
    let what = match target {
        Target::Command(_) => "a command".to_owned(),
        Target::Process(pid) => format!("process {pid}"),
        Target::System => "the whole system".to_owned(),
    };
    let remedy = error.remedy().map_or(String::new(), |command| format!("; `{command}` allows it"));
    let else_ways = match target {
        Target::Command(_) => "; --via preload and --via ptrace watch a command without it",
        Target::Process(_) if matches!(error, PerfError::Gone) => "",
        _ => {
            "; a command of your own (`-- CMD`) may be watched in other ways, --via preload and --via ptrace"
        }
    };
    TraceError::Closed(format!("{what} cannot be sampled: {error}{remedy}{else_ways}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::refuse::{self, Refusal};

    fn said(target: &Target, error: &PerfError) -> String {
        closed(target, error).to_string()
    }

    #[test]
    fn closed_doors_say_what_opens_them_and_which_others_there_are() {
        let command = Target::Command(Launch { words: vec!["true".into()], environment: vec![] });
        let text = said(&command, &PerfError::Paranoid { level: 4, needed: 2 });
        assert!(text.contains("`sudo sysctl kernel.perf_event_paranoid=2`"), "{text}");
        let text = said(&command, &PerfError::Forbidden);
        assert!(text.contains("sandbox") && text.contains("--via preload"), "{text}");
        assert!(!said(&Target::Process(7), &PerfError::Gone).contains("--via"));
        let unseen = kernel_unseen(&PerfError::Paranoid { level: 2, needed: 1 });
        assert_eq!(unseen.remedy.as_deref(), Some("sudo sysctl kernel.perf_event_paranoid=1"));
    }

    #[test]
    fn a_sandbox_is_told() {
        let target = Target::Command(Launch { words: vec!["true".into()], environment: vec![] });
        for refusal in [Refusal::Error(libc::EPERM), Refusal::Error(libc::ENOSYS), Refusal::Kill] {
            let watched = || {
                let options = SampleOptions { period_ns: 0, on_signal: &|| None, stop: &|| true };
                watch(&target, &options, &mut |_| {}).map(drop)
            };
            if let Some(watched) = refuse::in_a_thread(&[libc::SYS_perf_event_open], refusal, watched) {
                let text = watched.expect_err("refused").to_string();
                assert!(text.contains("perf_event_open") && text.contains("--via ptrace"), "{text}");
            }
        }
    }

    #[test]
    fn a_process_that_is_not_there_is_said() {
        let Err(error) = available(&Target::Process(i32::MAX as u32)).user else {
            panic!("nothing is there")
        };
        assert!(!error.to_string().is_empty());
    }
}
