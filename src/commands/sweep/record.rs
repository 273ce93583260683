//! The pipeline's loop: screen, then whatever `judge` asks, then the long lengths.
//!
//! The same on a real machine and on a simulated one, so that tests drive exactly what users run.

use crate::judge::{self, Questions};
use crate::report::{Allocator, Band, CellSpec, PathName, Phase, Report, Skipped};
use crate::sweep::grid::{self, Asked};
use crate::sweep::sides;
use crate::sweep::{LONG, Machine, Plan, Sampled, Stop, Watcher, sample, trial_ns};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::time::{Duration, Instant};

/// Times that `judge` may ask: for gaps, then for decisions.
const MOST_QUESTIONS: usize = 3;

/// Fewest offsets at a long length that tell anything.
const LEAST_LONG_OFFSETS: usize = 16;

/// How long the measuring may take; the long lengths adapt to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// From the first sample on.
    pub time: Duration,
    /// Whether long lengths are rather left out than overrun it.
    pub strict: bool,
}

/// What the sampling itself cost, for benchmarks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Nanoseconds of all samples at 64 KiB.
    pub copied_ns: u64,
    /// Wall time of their blocks.
    pub wall_ns: u64,
}

/// Samples everything that was asked for into the report, until done or stopped.
pub fn record(
    report: &mut Report,
    machine: &mut Machine,
    asked: &Asked,
    budget: Budget,
    watcher: &mut dyn Watcher,
) -> (Option<Stop>, Cost) {
    let began = Instant::now();
    let mut recorder = Recorder::new(report, machine, watcher);
    if asked.find_lens {
        recorder.lengths(asked);
        return (recorder.stop, recorder.cost);
    }
    for plan in grid::screens(asked) {
        recorder.take(plan);
    }
    recorder.decide(judge::questions);
    for len in asked.long_lens() {
        let time = budget.time.saturating_sub(began.elapsed());
        recorder.long(asked, len, Budget { time, ..budget });
    }
    (recorder.stop, recorder.cost)
}

/// Takes plans until it is stopped, and files what comes of them.
pub(in crate::commands) struct Recorder<'a> {
    pub report: &'a mut Report,
    machine: &'a mut Machine,
    random: Xoshiro256PlusPlus,
    watcher: &'a mut dyn Watcher,
    cost: Cost,
    /// Why it was stopped.
    pub stop: Option<Stop>,
}

impl<'a> Recorder<'a> {
    /// For a report without samples.
    pub fn new(report: &'a mut Report, machine: &'a mut Machine, watcher: &'a mut dyn Watcher) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(report.run.seed);
        Recorder { report, machine, random, watcher, cost: Cost::default(), stop: None }
    }

    /// Samples what judge asks for, until it asks for nothing more.
    pub fn decide(&mut self, ask: impl Fn(&Report) -> Option<Questions>) {
        for _ in 0..MOST_QUESTIONS {
            let Some(questions) = ask(self.report).filter(|_| self.stop.is_none()) else { break };
            let label = match questions.phase {
                Phase::Screen => "closing gaps",
                Phase::Confirm | Phase::Lengths => "confirming on fresh rounds",
            };
            self.ask(questions, label.into());
        }
    }

    /// Samples a plan, what would disturb the rest of it in a run of its own.
    pub fn take(&mut self, plan: Plan) {
        let [apart, rest] = plan.split(|cell| cell.path.leaves_uncached());
        self.take_together(rest);
        self.take_together(apart);
    }

    /// Samples cells in one run, as far as the machine can, and files what came of it.
    fn take_together(&mut self, mut plan: Plan) {
        if self.stop.is_some() {
            return;
        }
        self.leave_out(&mut plan);
        if plan.cells.is_empty() {
            return;
        }
        let index = self.report.runs.len();
        let Sampled { run, cells, controls, stopped, copied_ns, wall_ns } =
            sample(self.machine, &plan, index, &mut self.random, self.watcher);
        if plan.cells.iter().all(|c| c.len == grid::FINE) {
            self.cost.copied_ns += copied_ns;
            self.cost.wall_ns += wall_ns;
        }
        self.report.noise.lost +=
            cells.iter().flat_map(|cell| &cell.ns).filter(|ns| ns.is_none()).count() as u64;
        self.report.runs.push(run);
        self.report.cells.extend(cells);
        self.report.noise.controls.extend(controls);
        self.stop = stopped;
    }

    /// Takes what judge asks for.
    fn ask(&mut self, questions: Questions, label: String) {
        let Questions { phase, rounds, cells } = questions;
        self.take(Plan { label, phase, rounds, cells, controls: vec![] });
    }

    /// Searches for the lengths at which bands begin and end, one path at a time.
    fn lengths(&mut self, asked: &Asked) {
        for path in &asked.paths {
            while self.stop.is_none() {
                let next = judge::lengths(self.report, asked.allocators[0], std::slice::from_ref(path));
                let Some(questions) = next else { break };
                let (len, before) = (questions.cells[0].len, self.report.cells.len());
                self.ask(questions, format!("{path} at {len} B"));
                if self.report.cells.len() == before {
                    break; // refused, with its reason
                }
            }
        }
    }

    /// Drops cells that the machine cannot take, with the reason in the report.
    fn leave_out(&mut self, plan: &mut Plan) {
        let can = |cell: &CellSpec| self.machine.can(cell);
        let lost: Vec<CellSpec> = plan.cells.iter().copied().filter(|c| !can(c)).collect();
        plan.cells.retain(can);
        plan.controls.retain(can);
        for cell in lost {
            let Err(reason) = self.machine.check(&cell) else { continue };
            let known =
                |s: &Skipped| s.path == cell.path && (s.allocator.is_none() || s.allocator == cell.allocator);
            if !self.report.skipped.iter().any(known) {
                self.report.skipped.push(Skipped { path: cell.path, allocator: cell.allocator, reason });
            }
        }
    }

    /// A long length on as many offsets as the time allows.
    fn long(&mut self, asked: &Asked, len: u64, left: Budget) {
        let Some(affordable) = self.affordable(asked, len, left.time) else { return };
        if affordable < LEAST_LONG_OFFSETS && left.strict {
            for path in asked.long_paths() {
                let reason = format!("too little time left for {} (give more with --time)", grid::size(len));
                self.report.skipped.push(Skipped { path, allocator: None, reason });
            }
            return;
        }
        let bands = confirmed(self.report);
        self.take(grid::long_grid(asked, len, affordable.max(LEAST_LONG_OFFSETS), &bands));
    }

    /// How many offsets an allocator the time left allows at a long length; none once stopped.
    fn affordable(&mut self, asked: &Asked, len: u64, left: Duration) -> Option<usize> {
        if self.stop.is_some() {
            return None;
        }
        let mut one_block = 0;
        for (path, allocator) in asked.long_columns() {
            // an unaligned offset: neither the best case nor in any published band
            let cell = sides::on_own_side(path, allocator, len, 0x755);
            one_block +=
                if self.machine.can(&cell) { trial_ns(self.machine, &cell, 3).unwrap_or(0) } else { 0 };
        }
        let all = one_block.max(1) * u64::from(asked.long_rounds());
        // trial copies are the least of a few: on a busy machine most take longer
        let count = usize::try_from(left.as_nanos() * 2 / 3 / u128::from(all)).unwrap_or(usize::MAX);
        Some(count.min(grid::WHOLE_OFFSETS))
    }
}

/// The bands of sweeps over the allocators' side confirmed so far at the longest of the short lengths.
fn confirmed(report: &Report) -> Vec<(PathName, Allocator, Band)> {
    let paths = judge::judge(report).verdict.paths;
    let fine = paths.iter().map(|p| p.len).filter(|len| *len < LONG).max();
    paths
        .into_iter()
        .filter(|p| Some(p.len) == fine)
        .flat_map(|p| {
            let own = p.path.own_scan();
            let found = p.bands.into_iter().filter(move |b| b.confirmed && b.scan == own);
            found.filter_map(move |b| Some((p.path, p.allocator?, b)))
        })
        .collect()
}
