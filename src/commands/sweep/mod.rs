//! `fsprobe sweep`: the page-offset throughput matrix of copy paths, its slow bands flagged to the byte.

mod colours;
mod record;
mod room;
mod setup;
mod simulated;
mod watch;

pub(in crate::commands) use record::Recorder;
pub use record::{Budget, Cost, record};
pub(super) use setup::{RealClock, fresh_report, note, pin, seed_from_clock};
pub use simulated::{simulated, simulated_with};
pub(super) use watch::stopped_by;

use super::destination::Destination;
use super::{Failure, Outcome};
use crate::cli::{Format, SweepArgs};
use crate::judge;
use crate::render::terminal;
use crate::report::{Report, State, to_json};
use crate::sweep::{Stop, Unwatched};
use crate::sys::reserve;
use std::io::{IsTerminal, Write};
use std::path::Path;
use watch::Watch;

/// Seconds that measuring may take without `--time`: the long lengths adapt to it.
const USUAL_SECONDS: f64 = 15.0;

/// Runs the verb.
pub fn run(args: &SweepArgs) -> Result<Outcome, Failure> {
    let mut watch = Watch::new(args).map_err(Failure::line)?;
    let destination = match &args.output {
        _ if args.no_output => Destination::Nowhere,
        Some(path) => Destination::named(path, args.force, &inputs(args))?,
        None => Destination::own()?,
    };
    if !reserve::hold() {
        return Err(Failure::line("not enough memory for a sweep (see ulimit -v)"));
    }
    let (mut report, stop) = match &args.simulate {
        _ if args.colours => colours::run(args, &mut watch)?,
        Some(model) => simulated::run(args, model, &mut watch)?,
        None => setup::run(args, &mut watch).map(|(report, stop, _)| (report, stop))?,
    };
    report.run.complete = stop.is_none();
    report.run.stopped_by = stop.as_ref().map(Stop::word);
    let judged = judge::judge(&report);
    (report.verdict, report.noise.floors) = (judged.verdict, judged.floors);
    watch.finish();
    show(args, &report, &destination)?;
    match stop {
        Some(Stop::Signal(_)) => Ok(Outcome::Interrupted),
        Some(Stop::Fault(reason)) => {
            Err(Failure::line(format!("{reason}: what was measured until then is above")))
        }
        Some(Stop::Time) | None => Ok(outcome(args, report.verdict.state)),
    }
}

/// The files that are read.
fn inputs(args: &SweepArgs) -> Vec<&Path> {
    args.file.as_deref().into_iter().chain(args.simulate.as_deref().map(Path::new)).collect()
}

/// Sweeps this machine, unwatched and with nothing judged or saved, and tells what the sampling itself
/// cost: for benchmarks. Pins the calling thread.
pub fn measure(args: &SweepArgs) -> Result<(Report, Cost), Failure> {
    let (report, stop, cost) = setup::run(args, &mut Unwatched)?;
    match stop {
        Some(stop) => Err(Failure::line(format!("stopped early: {}", stop.word()))),
        None => Ok((report, cost)),
    }
}

fn outcome(args: &SweepArgs, state: State) -> Outcome {
    if args.exit_code { Outcome::of_state(state) } else { Outcome::Done }
}

/// Writes the report first, so that nothing is lost, then what people read; data goes to stdout alone.
fn show(args: &SweepArgs, report: &Report, destination: &Destination) -> Result<(), Failure> {
    let saved = destination.save(report);
    let data_on_stdout = args.format == Format::Json || destination.is_stdout();
    let last_line =
        saved.as_ref().ok().and_then(Option::as_ref).map(|line| format!("\n{line}\n")).unwrap_or_default();
    let table = |is_terminal| terminal::sweep(report, super::style(is_terminal)) + &last_line;
    if data_on_stdout {
        // a reader of the data who closes stderr loses nothing
        let _ = std::io::stderr().write_all(table(std::io::stderr().is_terminal()).as_bytes());
        super::print(&to_json(report))?;
    } else {
        super::print(&table(std::io::stdout().is_terminal()))?;
    }
    saved.map(drop)
}
