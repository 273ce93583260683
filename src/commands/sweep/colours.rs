//! `fsprobe sweep --paths rep-movsb --colours`: the classes of page frames, in place of the sweep.

use super::setup::{Plan, facts, fresh_report, note, pin};
use crate::cli::SweepArgs;
use crate::commands::Failure;
use crate::judge;
use crate::report::{Allocator, Fact, Host, Options, PathName, Report};
use crate::simulate::{Model, host_of};
use crate::sweep::colours::{POOL, Pages, PairTimer};
use crate::sweep::disturbance;
use crate::sweep::{Stop, Watcher};
use crate::sys;
use std::time::Instant;

/// About how long it takes on this machine, for the progress bar, in nanoseconds.
const EXPECTED_NS: u64 = 1_000_000_000;

/// Samples after which the watcher is asked, and what of the expected time they are.
const SAMPLES: u64 = 256;
const EXPECTED_SAMPLES: u64 = 500_000;

/// Finds the colours of this machine's pages, or of a model's.
pub fn run(args: &SweepArgs, watcher: &mut dyn Watcher) -> Result<(Report, Option<Stop>), Failure> {
    if args.chosen_paths() != [PathName::RepMovsb] {
        return Err(Failure::line("--colours goes with --paths rep-movsb: the routine that shows them"));
    }
    let plan = Plan::of(args, 0)?;
    let options = Options {
        allocators: vec![Allocator::Pages],
        dst: "0x0-0x300".into(),
        len: vec![],
        colours: true,
        ..plan.options
    };
    match args.simulate.as_deref() {
        Some(name) => {
            let model = Model::named(name).ok_or_else(|| {
                Failure::line(format!(
                    "--colours needs a model with pages, and '{}' is none",
                    name.escape_default()
                ))
            })?;
            let mut report = fresh_report(host_of(&model.name), options, plan.seed);
            let stop = measure(&mut report, &mut model.pages(plan.seed), watcher);
            Ok((report, stop))
        }
        None => {
            let cpu = pin(args.cpu)?;
            let mut report = fresh_report(facts(cpu), options, plan.seed);
            report.noise.clock_precision_ns = Some(sys::clock::precision_ns());
            let mut pages = Pages::new(plan.seed).map_err(Failure::line)?;
            let watch = disturbance::Watch::start();
            let began = Instant::now();
            let stop = measure(&mut report, &mut pages, watcher);
            report.run.duration_s = began.elapsed().as_secs_f64();
            note(&mut report.noise, watch.stop());
            Ok((report, stop))
        }
    }
}

/// Asks the judge's questions until it has none; what was found goes into the report.
fn measure(report: &mut Report, pages: &mut dyn PairTimer, watcher: &mut dyn Watcher) -> Option<Stop> {
    // a hypervisor maps the frames that its guest sees to others
    let is_guest = report.host.hypervisor.is_some() || report.host.unknown.contains_key("hypervisor");
    let frames = pages.frames().map(|frames| (frames, is_guest));
    watcher.begin("page colours", EXPECTED_NS);
    let mut stop = None;
    let mut asked = 0;
    let found = judge::colours::colours(POOL, frames, &mut |pair| {
        asked += 1;
        if asked % SAMPLES == 0 {
            watcher.advance(EXPECTED_NS * SAMPLES / EXPECTED_SAMPLES);
            stop = watcher.stop();
        }
        stop.is_none().then(|| pages.time(pair))
    });
    let unknown = &mut report.host.unknown;
    if let Some(found) = found {
        if let Some(reason) = found.no_masks {
            Host::take::<()>(unknown, "colours.masks", Fact::Unknown(reason));
        }
        report.colours = Some(found.colours);
    } else {
        Host::take::<()>(unknown, "colours", Fact::because("the run was stopped"));
    }
    stop
}
