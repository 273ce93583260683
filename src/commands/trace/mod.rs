//! `fsprobe trace`: do a program's copies land in a slow band, which calls, and how much time does that cost it?

mod anonymous;
mod bands;
mod live;
mod signals;
mod ways;

use super::destination::Destination;
use super::document::{Document, now};
use super::{Failure, Outcome, style};
use crate::cli::TraceArgs;
use crate::report::{Trace, TraceBands, Via, Watched, printable, write_whole};
use crate::sys::reserve;
use crate::trace::sample::Target;
use crate::trace::{Done, TraceError};
use crate::{host, judge, render};
use live::View;
use serde::Serialize;
use signals::Signals;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Instant;
use ways::Watching;

/// Characters of the program's words.
const LONGEST: usize = 300;

/// Runs the verb.
///
/// # Errors
/// Where nothing, or two things, are to be watched, none of the ways is open, or output cannot be written.
pub fn run(args: &TraceArgs) -> Result<Outcome, Failure> {
    let target = ways::target(args)?;
    if !keeps_status(args) {
        return traced(args, &target);
    }
    reserve::end_with(125);
    traced(args, &target).map_err(Failure::beside_a_command)
}

/// Whether the codes 0 to 124 are the command's.
fn keeps_status(args: &TraceArgs) -> bool {
    !args.command.is_empty() && !args.exit_code
}

fn traced(args: &TraceArgs, target: &Target) -> Result<Outcome, Failure> {
    let (recorded_at, began) = (now(), Instant::now());
    let destination = match &args.output {
        Some(file) => {
            Destination::named(file, args.force, &args.report.as_deref().into_iter().collect::<Vec<_>>())?
        }
        None => Destination::Nowhere,
    };
    // a report may be a pipe that nobody writes to yet, and a signal ends that wait
    let named = bands::named(args)?;
    let signals = if args.command.is_empty() { Signals::ending()? } else { Signals::of_command()? };
    let bands = named.unwrap_or_else(bands::of_this_machine);
    if let Some(signal) = signals.end_before() {
        let line = format!("ended by signal {signal} before the command was started");
        return Err(Failure::Command { code: u8::try_from(128 + signal).unwrap_or(125), line });
    }
    if signals.ended() {
        return Ok(Outcome::Interrupted);
    }
    let subject = Subject::of(args);
    let (via, via_reason, done) = watched(args, target, &subject, &bands, &signals)?;
    if let (Some(status), true) = (done.status, keeps_status(args)) {
        reserve::end_with(Outcome::of(status).code());
    }
    let cut_short = args.time.is_some() && signals.ended();
    let bands = bands::with_here(bands, &done.watched);
    let bands = if cut_short { bands } else { bands::with_lengths(bands, args, &done.watched) };
    let watched = if args.anonymous { anonymous::of(done.watched) } else { done.watched };
    let answer = judge::trace::conclude(&watched, &bands, &subject.who);
    let trace = Trace { watched, answer, ..subject.unwatched(via, via_reason, bands) };
    let run = Run {
        command: "trace",
        options: RunOptions::of(args),
        duration_s: began.elapsed().as_secs_f64(),
        complete: !cut_short,
    };
    show(args, &destination, &trace, run, &recorded_at)?;
    Ok(match (trace.answer.state, done.status) {
        (_, None) if cut_short => Outcome::Interrupted,
        (state, _) if args.exit_code => Outcome::of_state(state),
        (_, Some(status)) => Outcome::of(status),
        (_, None) => Outcome::Done,
    })
}

/// Watches in the way that was asked for, or else in the first that is open.
fn watched(
    args: &TraceArgs,
    target: &Target,
    subject: &Subject,
    bands: &TraceBands,
    signals: &Signals,
) -> Result<(Via, String, Done), Failure> {
    let ways = ways::choose(args, target, bands.elsewhere);
    let mut closed = Closed { ways: vec![], anonymous: args.anonymous };
    for (via, reason) in ways {
        let reason = if closed.ways.is_empty() { reason } else { format!("{reason} ({})", closed.each()) };
        let began = subject.unwatched(via, reason.clone(), bands.clone());
        let mut view =
            if args.live { View::open(began, &subject.who, !args.command.is_empty()) } else { None };
        hint(args);
        let watching = Watching { target, seconds: args.time, signals };
        let done = watching.by(via, &mut |watched: &Watched| {
            if let Some(view) = &mut view {
                view.show(watched);
            }
        });
        if let Some(view) = &mut view {
            view.close();
        }
        match done {
            Ok(done) => return Ok((via, reason, done)),
            Err(TraceError::Refused(refused)) => {
                return Err(Failure::Command {
                    code: refused.code(),
                    line: printable(&refused.to_string(), 4000),
                });
            }
            Err(TraceError::Closed(why)) => closed.ways.push((via, why)),
            Err(broken @ TraceError::Broken { .. }) => return Err(Failure::line(broken)),
        }
    }
    Err(Failure::line(closed.all()))
}

/// The ways that are closed, with their reasons.
struct Closed {
    ways: Vec<(Via, String)>,
    /// Whether nothing is to be named.
    anonymous: bool,
}

impl Closed {
    /// Each without its advice to use another, which is what happens.
    fn each(&self) -> String {
        let each = |(via, why): &(Via, String)| match why.split(" (use --via").next() {
            Some(why) if !self.anonymous => format!("not by {via}: {why}"),
            _ => format!("not by {via}"),
        };
        self.ways.iter().map(each).collect::<Vec<_>>().join("; ")
    }

    /// That nothing can be watched.
    fn all(&self) -> String {
        match &self.ways[..] {
            // the one that was asked for, or the only one for what runs already
            [(via, why)] if !self.anonymous => format!("cannot watch by {via}: {why}"),
            _ => format!("cannot watch here: {}", self.each()),
        }
    }
}

/// What ends the watching of something that runs on by itself.
fn hint(args: &TraceArgs) {
    if args.command.is_empty()
        && args.time.is_none()
        && !args.quiet
        && !args.live
        && io::stderr().is_terminal()
    {
        let _ = writeln!(io::stderr(), "fsprobe: watching (Ctrl-C ends it)");
    }
}

/// What is watched, as it is called before it ends.
struct Subject {
    /// Its words, or its name; none where it is not to be named.
    program: Option<String>,
    pid: Option<u32>,
    /// What the verdict calls it.
    who: String,
}

impl Subject {
    fn of(args: &TraceArgs) -> Subject {
        let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
        let name = match args.pid {
            Some(pid) => Some(ways::name_of(pid)),
            None => args.command.first().map(|word| {
                let name = Path::new(word).file_name().unwrap_or(word);
                name.to_string_lossy().into_owned()
            }),
        };
        let name = name.filter(|_| !args.anonymous);
        let who = match &name {
            _ if args.system => "this system".into(),
            Some(name) => format!("`{name}`"),
            None => "the program".into(),
        };
        let program = if words.is_empty() { name } else { name.map(|_| words.join(" ")) };
        Subject { program: program.map(|program| printable(&program, LONGEST)), pid: args.pid, who }
    }

    /// A trace before anything was seen.
    fn unwatched(&self, via: Via, via_reason: String, bands: TraceBands) -> Trace {
        let watched = Watched::default();
        let answer = judge::trace::conclude(&watched, &bands, &self.who);
        Trace { via, via_reason, program: self.program.clone(), pid: self.pid, watched, bands, answer }
    }
}

/// Writes text or JSON: to stderr where a command's own output is on stdout.
fn show(
    args: &TraceArgs,
    destination: &Destination,
    trace: &Trace,
    run: Run,
    at: &str,
) -> Result<(), Failure> {
    let text = |is_terminal: bool| match args.json {
        true => {
            let host = &host::gather(true);
            Document { verb: "trace", recorded_at: at, run: &run, host, body: trace }.json()
        }
        false => Ok(render::trace::text(trace, style(is_terminal))),
    };
    match destination {
        Destination::File { path, force } => {
            write_whole(text(false)?.as_bytes(), path, *force).map_err(Failure::line)
        }
        Destination::Nowhere if !args.command.is_empty() => {
            // where stderr is closed or full, the exit code has to do
            let _ = io::stderr().write_all(text(io::stderr().is_terminal())?.as_bytes());
            Ok(())
        }
        Destination::Nowhere | Destination::Stdout | Destination::Own(_) => {
            super::print(&text(io::stdout().is_terminal())?)
        }
    }
}

#[derive(Serialize)]
struct Run {
    command: &'static str,
    options: RunOptions,
    duration_s: f64,
    complete: bool,
}

#[derive(Serialize)]
struct RunOptions {
    command: Option<&'static str>,
    pid: Option<u32>,
    system: bool,
    time_s: Option<f64>,
    via: Option<Via>,
    report: Option<&'static str>,
    simulate: Option<String>,
    live: bool,
    json: bool,
    anonymous: bool,
    exit_code: bool,
}

impl RunOptions {
    fn of(args: &TraceArgs) -> RunOptions {
        RunOptions {
            command: (!args.command.is_empty()).then_some("<command>"),
            pid: args.pid,
            system: args.system,
            time_s: args.time,
            via: args.via,
            report: args.report.as_ref().map(|_| "<file>"),
            simulate: args.simulate.clone(),
            live: args.live,
            json: args.json,
            anonymous: args.anonymous,
            exit_code: args.exit_code,
        }
    }
}
