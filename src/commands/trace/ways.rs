//! What is watched, and in which way: the best one that is open for it, with the reason.

use super::signals::Signals;
use crate::cli::TraceArgs;
use crate::commands::Failure;
use crate::report::{Via, Watched};
use crate::sys::proc;
use crate::trace::sample::{self, SampleOptions, Target};
use crate::trace::{Done, Launch, TraceError, preload, ptrace};
use std::time::{Duration, Instant};

/// The one thing that the options name.
pub fn target(args: &TraceArgs) -> Result<Target, Failure> {
    let target = match (args.command.is_empty(), args.pid, args.system) {
        (false, ..) => Target::Command(Launch { words: args.command.clone(), environment: vec![] }),
        // a thread's number stands for its process
        (true, Some(pid), _) => Target::Process(proc::process_of(pid).unwrap_or(pid)),
        (true, None, true) => Target::System,
        (true, None, false) => {
            return Err(Failure::line(
                "nothing to watch (name a command: fsprobe trace -- CMD…; or --pid PID, or --system)",
            ));
        }
    };
    let exact = args.via.filter(|via| *via != Via::Sample);
    if let (Some(via), true) = (exact, args.command.is_empty()) {
        return Err(Failure::line(format!(
            "--via {via} watches a command from its start; what runs already can be sampled (--via sample)"
        )));
    }
    if let (Some(via), true) = (exact, args.live) {
        return Err(Failure::line(format!(
            "--live shows samples, and --via {via} takes none (--via sample)"
        )));
    }
    if args.report.as_deref().is_some_and(|file| file.as_os_str() == "-") && !args.command.is_empty() {
        return Err(Failure::line(
            "--report - reads stdin, which is the command's (save the report to a file)",
        ));
    }
    Ok(target)
}

/// The ways to try, the best first, each with the reason for it. What a program would lose `elsewhere` follows from
/// its bytes, and little from the time that they take here.
pub fn choose(args: &TraceArgs, target: &Target, elsewhere: bool) -> Vec<(Via, String)> {
    match (args.via, target) {
        (Some(via), _) => vec![(via, "as asked for".into())],
        (None, Target::Process(_) | Target::System) => {
            vec![(Via::Sample, "what runs already can only be sampled".into())]
        }
        (None, Target::Command(_)) if args.live => vec![(Via::Sample, "--live shows samples".into())],
        (None, Target::Command(launch)) => {
            let unsampled = if elsewhere {
                Some("calls tell best what would be lost on another machine".into())
            } else {
                let seen = sample::available(target);
                let blind = seen.user.and(seen.kernel).err();
                blind.map(|error| format!("samples would not show every copy: {error}"))
            };
            of_command(unsampled, preload::gains(launch))
        }
    }
}

/// The ways to watch a command, of which samples are the first choice unless something speaks against them. They leave a
/// command that gains rights as it is, which `ptrace` does not.
fn of_command(unsampled: Option<String>, gains_rights: bool) -> Vec<(Via, String)> {
    let against = unsampled.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
    let sample = "its copies can be sampled here, those inside the kernel too, at next to no cost";
    let sample = unsampled.is_none().then(|| (Via::Sample, sample.into()));
    let preload = (Via::Preload, format!("every public call of its C library is counted{against}"));
    let ptrace = (Via::Ptrace, format!("every system call is counted{against}"));
    let last = |why: &str| unsampled.is_some().then(|| (Via::Sample, format!("{why}{against}")));
    if gains_rights {
        let least = last("it keeps the rights that it runs with, and is seen as far as they allow");
        return sample.into_iter().chain([preload]).chain(least).chain([ptrace]).collect();
    }
    sample.into_iter().chain([preload, ptrace]).chain(last("nothing else is open here")).collect()
}

/// How something is watched.
pub struct Watching<'a> {
    /// What.
    pub target: &'a Target,
    /// For how long, where it runs already.
    pub seconds: Option<f64>,
    /// Signals that came.
    pub signals: &'a Signals,
}

impl Watching<'_> {
    /// Watches in one way; the one that samples tells `live` what it has seen so far.
    pub fn by(&self, via: Via, live: &mut dyn FnMut(&Watched)) -> Result<Done, TraceError> {
        let on_signal = || self.signals.to_pass_on();
        match via {
            Via::Sample => {
                let end = self
                    .seconds
                    .and_then(|s| Instant::now().checked_add(Duration::from_secs_f64(s.min(1e9))));
                let stop = || self.signals.ended() || end.is_some_and(|end| Instant::now() >= end);
                let options =
                    SampleOptions { period_ns: sample::PERIOD_NS, on_signal: &on_signal, stop: &stop };
                sample::watch(self.target, &options, live)
            }
            Via::Preload => preload::watch(self.command()?, &on_signal),
            Via::Ptrace => ptrace::watch(self.command()?, &on_signal),
        }
    }

    /// The command, which the exact ways have to start themselves.
    fn command(&self) -> Result<&Launch, TraceError> {
        match self.target {
            Target::Command(launch) => Ok(launch),
            Target::Process(_) | Target::System => {
                Err(TraceError::Closed("it watches commands from their start".into()))
            }
        }
    }
}

/// What the kernel calls a process.
pub fn name_of(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    name.map_or_else(|_| format!("process {pid}"), |name| name.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_come_first_where_they_show_everything() {
        let ways = |unsampled: Option<&str>| of_command(unsampled.map(Into::into), false);
        let order = |ways: Vec<(Via, String)>| ways.into_iter().map(|(via, _)| via).collect::<Vec<_>>();
        assert_eq!(order(ways(None)), [Via::Sample, Via::Preload, Via::Ptrace]);
        assert_eq!(order(ways(Some("perf_event_paranoid=2"))), [Via::Preload, Via::Ptrace, Via::Sample]);
        assert!(ways(Some("perf_event_paranoid=2"))[0].1.contains("perf_event_paranoid=2"));
        assert_eq!(order(of_command(Some("blind".into()), true)), [Via::Preload, Via::Sample, Via::Ptrace]);
    }
}
