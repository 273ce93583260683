//! A sweep of a model, or of a recording, in place of this machine.

use super::record::{Budget, record};
use super::setup::{Plan, fresh_report};
use crate::cli::{PathChoice, SweepArgs};
use crate::commands::Failure;
use crate::report::{Options, PathName, Placement, Report, Source};
use crate::simulate::{MODELS, Model, host_of, replay};
use crate::sweep::grid::{self, Asked};
use crate::sweep::{Offsets, Stop, Unwatched, Watcher};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// The model's name in the report of a replayed recording.
const REPLAY: &str = "replay of recorded samples";

/// Simulated time is free: every offset of the long grid is taken.
const NO_HURRY: Budget = Budget { time: Duration::MAX, strict: false };

/// Runs `--simulate`.
pub fn run(
    args: &SweepArgs,
    model: &str,
    watcher: &mut dyn Watcher,
) -> Result<(Report, Option<Stop>), Failure> {
    if let Some(model) = Model::named(model) {
        let plan = Plan::of(args, grid::WHOLE)?;
        return Ok(simulate(&model, plan, watcher));
    }
    if Path::new(model).extension().is_some_and(|e| e == "csv") {
        return replayed(args, Path::new(model));
    }
    let known: Vec<&str> = MODELS.iter().map(|(name, _)| *name).collect();
    Err(Failure::line(format!(
        "unknown model '{}' (known: {}, each also with +noisy, or a recording FILE.csv)",
        model.escape_default(),
        known.join(", ")
    )))
}

/// A whole sweep of a model with the defaults of the command line, for tests and error rates.
pub fn simulated(model: &Model, seed: u64) -> Report {
    judged(simulate(model, Plan::usual(grid::WHOLE, seed), &mut Unwatched))
}

/// A sweep of a model with these options, for tests: their own `--simulate` is not looked at.
///
/// # Errors
/// Options that contradict each other.
pub fn simulated_with(model: &Model, args: &SweepArgs) -> Result<Report, Failure> {
    Ok(judged(simulate(model, Plan::of(args, grid::WHOLE)?, &mut Unwatched)))
}

fn judged((mut report, stop): (Report, Option<Stop>)) -> Report {
    report.run.complete = stop.is_none();
    let judged = crate::judge::judge(&report);
    (report.verdict, report.noise.floors) = (judged.verdict, judged.floors);
    report
}

fn simulate(model: &Model, plan: Plan, watcher: &mut dyn Watcher) -> (Report, Option<Stop>) {
    let Plan { mut asked, mut options, seed } = plan;
    options.simulate = Some(model.name.clone());
    let mut report = fresh_report(host_of(&model.name), options, seed);
    report.source = Some(simulated_source(asked.source_size));
    report.placements = placements(&asked, seed);
    asked.natural = super::setup::natural_of(&report.placements);
    let mut machine = model.machine(&asked.paths, &asked.allocators, asked.source_size, seed);
    report.noise.clock_precision_ns = Some(machine.clock.precision_ns());
    let (stop, _) = record(&mut report, &mut machine, &asked, NO_HURRY, watcher);
    (report, stop)
}

fn simulated_source(size: u64) -> Source {
    Source {
        kind: "simulated".into(),
        size,
        fs_type: None,
        resident_before: None,
        resident_after: None,
        changed: false,
    }
}

fn placements(asked: &Asked, seed: u64) -> Vec<Placement> {
    let lens = asked.short_lens().into_iter().chain(asked.long_lens());
    let of_len = |len: u64| {
        asked.allocators.iter().map(move |allocator| Placement {
            allocator: *allocator,
            len,
            how: "simulated".into(),
            process: 0,
            offsets: Model::natural(*allocator, super::setup::NATURAL, seed ^ len),
        })
    };
    lens.flat_map(of_len).collect()
}

/// A recording's cells replace the grid; it has no confirm phase.
fn replayed(args: &SweepArgs, file: &Path) -> Result<(Report, Option<Stop>), Failure> {
    let (run, cells) = replay(file).map_err(Failure::line)?;
    let left_out = [
        ("--paths", args.paths != [PathChoice::One(PathName::Read)]),
        ("--allocators", !args.allocators.is_empty()),
        ("--dst", args.dst != Offsets::circle()),
        ("--src", args.src.is_some()),
        ("--len", !args.len.is_empty()),
    ];
    let left_out: Vec<&str> = left_out.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
    if !left_out.is_empty() {
        let line = format!("fsprobe: a recording is replayed whole, {} or not\n", left_out.join(", "));
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    let Plan { options, seed, .. } = Plan::of(args, grid::WHOLE)?;
    let mut lens: Vec<u64> = cells.iter().map(|c| c.len).collect();
    lens.sort_unstable();
    lens.dedup();
    let options = Options {
        paths: cells.first().map(|c| c.path).into_iter().collect(),
        allocators: vec![],
        dst: "recorded".into(),
        src: "recorded".into(),
        len: lens,
        rounds: run.rounds,
        simulate: Some("<file>".into()),
        ..options
    };
    let mut report = fresh_report(host_of(REPLAY), options, seed);
    report.run.shuffle = "recorded".into();
    report.runs.push(run);
    report.cells = cells;
    Ok((report, None))
}
