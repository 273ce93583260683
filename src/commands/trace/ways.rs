//! What is watched, and in which way: the best one that is open for it, with the reason.

use super::signals::Signals;
use crate::cli::TraceArgs;
use crate::commands::Failure;
use crate::report::{Via, Watched};
use crate::trace::program::{Linked, Program};
use crate::trace::{Done, Launch, TraceError};

/// What is watched.
#[derive(Debug)]
pub enum Target {
    /// A command, from its start.
    Command(Launch),
    /// A process that runs already.
    Process(u32),
    /// Everything.
    System,
}

impl Target {
    /// The one thing that the options name.
    pub fn of(args: &TraceArgs) -> Result<Target, Failure> {
        let target = match (args.command.is_empty(), args.pid, args.system) {
            (false, ..) => Target::Command(Launch { words: args.command.clone(), environment: vec![] }),
            (true, Some(pid), _) => Target::Process(pid),
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
}

/// The ways to try, the best first, each with the reason for it.
pub fn choose(args: &TraceArgs, target: &Target) -> Vec<(Via, String)> {
    let launch = match (args.via, target) {
        (Some(via), _) => return vec![(via, "as asked for".into())],
        (None, Target::Process(_) | Target::System) => {
            return vec![(Via::Sample, "what runs already can only be sampled".into())];
        }
        (None, Target::Command(_)) if args.live => return vec![(Via::Sample, "--live shows samples".into())],
        (None, Target::Command(launch)) => launch,
    };
    let exact = exact(Program::of(&launch.words[0]).as_ref());
    match sampling(target) {
        Ok(()) => {
            let reason = "its copies can be sampled here, those of the kernel too, at next to no cost";
            [(Via::Sample, reason.into())].into_iter().chain(exact).collect()
        }
        Err(why) => {
            exact.into_iter().map(|(via, reason)| (via, format!("{reason}; sampling: {why}"))).collect()
        }
    }
}

/// The ways that count calls one by one and see this program.
fn exact(program: Option<&Program>) -> Vec<(Via, String)> {
    let ptrace = |why: String| vec![(Via::Ptrace, why)];
    match program {
        Some(program) if program.privileged => {
            ptrace("it is setuid, which no preloaded object reaches; it runs without that privilege".into())
        }
        Some(Program { linked: Linked::Statically, .. }) => {
            ptrace("it is statically linked, which no preloaded object reaches".into())
        }
        Some(Program { linked: Linked::Otherwise(why), .. }) => {
            ptrace(format!("no preloaded object reaches it: {why}"))
        }
        Some(Program { linked: Linked::Dynamically, .. }) => vec![
            (
                Via::Preload,
                "it is dynamically linked, so that every call is counted at next to no cost".into(),
            ),
            (Via::Ptrace, "system calls are counted, since nothing can be preloaded here".into()),
        ],
        Some(Program { linked: Linked::Unknown, .. }) | None => vec![
            (Via::Preload, "every call is counted at next to no cost".into()),
            (Via::Ptrace, "system calls are counted, since nothing can be preloaded here".into()),
        ],
    }
}

/// Whether samples see all copies of a target, or why not.
fn sampling(_target: &Target) -> Result<(), String> {
    Err("not in this build".into())
}

/// How something is watched.
pub struct Watching<'a> {
    pub target: &'a Target,
    /// For how long, where it runs already.
    pub seconds: Option<f64>,
    pub signals: &'a Signals,
}

impl Watching<'_> {
    /// Watches in one way.
    pub fn by(&self, via: Via, _live: &mut dyn FnMut(&Watched)) -> Result<Done, TraceError> {
        let _ = (self.seconds, self.signals.to_pass_on());
        Err(TraceError::Closed(format!("{via} is not in this build")))
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
    fn programs_that_cannot_be_preloaded_are_ptraced() {
        let program = |linked, privileged| Program { file: "/bin/app".into(), linked, privileged };
        let first = |program: &Program| exact(Some(program))[0].clone();
        assert_eq!(first(&program(Linked::Dynamically, false)).0, Via::Preload);
        for (program, word) in [
            (program(Linked::Dynamically, true), "setuid"),
            (program(Linked::Statically, false), "statically"),
            (program(Linked::Otherwise("its loader is ld-musl".into()), false), "ld-musl"),
        ] {
            let (via, reason) = first(&program);
            assert!(via == Via::Ptrace && reason.contains(word), "{via} {reason}");
        }
        assert_eq!(exact(None).len(), 2, "what is not there is refused by whoever starts it");
    }
}
