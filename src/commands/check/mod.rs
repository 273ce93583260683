//! `fsprobe check`: the verdict in a blink, per copy path, with cause and remedies.

mod cost;
mod machine;
mod plan;
mod record;
mod remedies;

use super::destination::Destination;
use super::document::Document;
use super::sweep::{fresh_report, note, seed_from_clock, stopped_by};
use super::{Failure, Outcome};
use crate::cli::{CheckArgs, PathChoice};
use crate::judge::{self, Profile};
use crate::path::CopyPath;
use crate::render::check::text;
use crate::report::{
    Host, Options, PathName, PathVerdict, Pmu, Remedy, Report, Skipped, State, Verdict, to_json,
};
use crate::simulate::Model;
use crate::sweep::{Stop, Unwatched, Watcher, disturbance, evidence};
use crate::sys::signals::{self, Caught};
pub use cost::{BandCost, STREAMED, measured as cost};
use machine::Ready;
use plan::Group;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Instant;

/// Runs the verb.
///
/// # Errors
/// Where nothing can be measured here, a model is not known, or output cannot be written.
pub fn run(args: &CheckArgs) -> Result<Outcome, Failure> {
    let mut watch = Signals::new().map_err(Failure::line)?;
    let destination = match &args.output {
        Some(path) => Destination::named(path, args.force, &[])?,
        None => Destination::Nowhere,
    };
    let (mut report, stop) = measured(args, &mut watch)?;
    if args.remedies && stop.is_none() {
        report.placements = remedies::placements(&report);
        report.remedies = remedies::try_all(args, &report, &watch);
        if let Some(stop) = watch.stop() {
            (report.run.complete, report.run.stopped_by) = (false, Some(stop.word()));
        }
    }
    show(args, &report, &destination)?;
    match stop.or_else(|| watch.stop()) {
        Some(Stop::Fault(reason)) => {
            Err(Failure::line(format!("{reason}: what was measured until then is above")))
        }
        Some(_) => Ok(Outcome::Interrupted),
        None => Ok(Outcome::of_state(report.verdict.state)),
    }
}

/// A check of a model with the defaults of the command line, for tests and error rates.
pub fn simulated(model: &Model, seed: u64) -> Result<Report, Failure> {
    let args = CheckArgs { seed: Some(seed), simulate: Some(model.name.clone()), ..usual() };
    measured(&args, &mut Unwatched).map(|(report, _)| report)
}

/// A quick look, unwatched and with nothing shown or saved, at the paths that programs copy by, for what their
/// copies are compared with. Pins the calling thread.
///
/// # Errors
/// Where nothing can be measured here, or a model is not known.
pub fn quick(simulate: Option<&str>) -> Result<Report, Failure> {
    let args = CheckArgs { simulate: simulate.map(str::to_owned), ..usual() };
    measured_at(&args, &plan::of_programs(), &mut Unwatched).map(|(report, _)| report)
}

/// A check of read(2) alone, on this machine or a model, for other verbs. Pins the calling thread to a CPU.
pub(super) fn of_reads(model: Option<&str>) -> Result<Report, Failure> {
    let paths = vec![PathChoice::One(PathName::Read)];
    // a model is the same every time
    let args = CheckArgs { paths, simulate: model.map(str::to_owned), seed: model.map(|_| 1), ..usual() };
    measured(&args, &mut Unwatched).map(|(report, _)| report)
}

/// The options of a check without any.
fn usual() -> CheckArgs {
    CheckArgs {
        paths: vec![],
        remedies: false,
        cpu: None,
        seed: None,
        affected_at: Options::AFFECTED_AT,
        simulate: None,
        json: false,
        output: None,
        force: false,
        quiet: true,
    }
}

/// Measures and judges.
fn measured(args: &CheckArgs, watcher: &mut dyn Watcher) -> Result<(Report, Option<Stop>), Failure> {
    let groups = plan::groups(args, args.simulate.is_some() || machine::has_avx2());
    measured_at(args, &groups, watcher)
}

fn measured_at(
    args: &CheckArgs,
    groups: &[Group],
    watcher: &mut dyn Watcher,
) -> Result<(Report, Option<Stop>), Failure> {
    let seed = args.seed.unwrap_or_else(seed_from_clock);
    let Ready { mut machine, host, skipped, source } = match &args.simulate {
        Some(model) => machine::simulated(model, groups, seed)?,
        None => machine::real(args, groups)?,
    };
    let mut report = fresh_report(host, options(args, groups), seed);
    report.run.command = "check".into();
    report.skipped = skipped;
    report.noise.clock_precision_ns = Some(machine.clock.precision_ns());
    let disturbances = disturbance::Watch::start();
    let began = Instant::now();
    let stop = record::record(&mut report, &mut machine, groups, watcher);
    report.run.duration_s = began.elapsed().as_secs_f64();
    if !report.is_simulated() {
        note(&mut report.noise, disturbances.stop());
    }
    report.source =
        source.as_ref().filter(|source| source.kind() != "unused").map(|source| crate::report::Source {
            kind: source.kind().into(),
            size: source.size(),
            fs_type: source.fs_type(),
            resident_before: None,
            resident_after: None,
            changed: source.changed(),
        });
    report.run.complete = stop.is_none();
    report.run.stopped_by = stop.as_ref().map(Stop::word);
    let judged = judge::judge(&report);
    (report.verdict, report.noise.floors) = (judged.verdict, judged.floors);
    if report.verdict.state == State::Affected && !report.is_simulated() && report.run.complete {
        count_events(&mut report, machine.paths);
    }
    Ok((report, stop))
}

/// What the performance counters say of a band. Clean machines are not kept waiting for it.
fn count_events(report: &mut Report, mut paths: Vec<Box<dyn CopyPath>>) {
    paths.retain(|path| [PathName::RepMovsb, PathName::Read].contains(&path.name()));
    if !paths.is_empty() {
        let counted = evidence::measure(&report.host.cpu, &mut paths);
        report.pmu = Host::take(&mut report.host.unknown, "pmu", counted);
    }
}

/// Every option as it was really used.
fn options(args: &CheckArgs, groups: &[Group]) -> Options {
    let mut paths: Vec<_> = groups.iter().map(|(path, _)| *path).collect();
    paths.dedup();
    let mut len: Vec<u64> = groups.iter().map(|(_, len)| *len).collect();
    len.sort_unstable();
    len.dedup();
    Options {
        paths,
        allocators: vec![plan::ALLOCATOR],
        dst: "adaptive".into(),
        src: "adaptive".into(),
        rounds: groups.iter().map(|group| plan::screen(*group).rounds).max().unwrap_or(0),
        len,
        cpu: args.cpu,
        affected_at: args.affected_at,
        simulate: args.simulate.clone(),
        ..Options::default()
    }
}

/// Saves the report, then writes what people or scripts read: that is not lost where saving fails.
fn show(args: &CheckArgs, report: &Report, destination: &Destination) -> Result<(), Failure> {
    let saved = destination.save(report);
    if destination.is_stdout() {
        // a reader of the data who closes stderr loses nothing
        let said = text(report, super::style(std::io::stderr().is_terminal()));
        let _ = std::io::stderr().write_all(said.as_bytes());
        super::print(&to_json(report))?;
    } else if args.json {
        super::print(&json(args, report)?)?;
    } else {
        super::print(&text(report, super::style(std::io::stdout().is_terminal())))?;
    }
    saved.map(drop)
}

#[derive(Serialize)]
struct Check<'a> {
    state: State,
    verdict: &'a Verdict,
    /// The verdict's paths again, each with the routine that its profile shows.
    paths: Vec<CheckedPath<'a>>,
    remedies: &'a [Remedy],
    remedies_tried: bool,
    skipped: &'a [Skipped],
    pmu: Option<&'a Pmu>,
}

#[derive(Serialize)]
struct CheckedPath<'a> {
    #[serde(flatten)]
    verdict: &'a PathVerdict,
    profile: Option<Profile>,
}

fn json(args: &CheckArgs, report: &Report) -> Result<String, Failure> {
    let profiles = judge::profiles(report);
    let path = |verdict| CheckedPath { verdict, profile: profile(&profiles, verdict) };
    let document = Document {
        verb: "check",
        recorded_at: &report.recorded_at,
        run: &report.run,
        host: &report.host,
        body: Check {
            state: report.verdict.state,
            verdict: &report.verdict,
            paths: report.verdict.paths.iter().map(path).collect(),
            remedies: &report.remedies,
            remedies_tried: args.remedies,
            skipped: &report.skipped,
            pmu: report.pmu.as_ref(),
        },
    };
    document.json()
}

fn profile(profiles: &[Profile], verdict: &PathVerdict) -> Option<Profile> {
    profiles.iter().find(|p| (p.path, p.len) == (verdict.path, verdict.len)).cloned()
}

/// Signals, noted; a check shows no progress of its own.
struct Signals(Arc<Caught>);

impl Signals {
    fn new() -> std::io::Result<Signals> {
        signals::note(&[SIGINT, SIGTERM, SIGHUP]).map(Signals)
    }

    /// The signal that has come, if any.
    fn caught(&self) -> Option<Stop> {
        stopped_by(&self.0)
    }
}

impl Watcher for Signals {
    fn begin(&mut self, _: &str, _: u64) {}
    fn advance(&mut self, _: u64) {}
    fn stop(&mut self) -> Option<Stop> {
        self.caught()
    }
}
