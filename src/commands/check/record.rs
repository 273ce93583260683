//! The pipeline's loop of a check: a coarse screen of each group, then only what `judge` asks for.

use super::plan::{self, Group};
use crate::judge;
use crate::report::{PathVerdict, Phase, Report, Skipped, State};
use crate::sweep::{Machine, Plan, Stop, Watcher, sample};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Times that `judge` may ask: for gaps, then for decisions.
const MOST_QUESTIONS: usize = 3;

/// Times that groups too noisy for an answer are looked at again, with so many times the rounds.
const MOST_LOOKS: usize = 2;
const MORE_ROUNDS: u32 = 3;

/// Samples the groups into the report, until everything is decided or the run is stopped.
pub fn record(
    report: &mut Report,
    machine: &mut Machine,
    groups: &[Group],
    watcher: &mut dyn Watcher,
) -> Option<Stop> {
    let random = Xoshiro256PlusPlus::seed_from_u64(report.run.seed);
    let mut recorder = Recorder { report, machine, random, watcher };
    for group in groups {
        if let Some(stop) = recorder.take(plan::screen(*group)) {
            return Some(stop);
        }
    }
    for _ in 0..MOST_QUESTIONS {
        let Some(questions) = judge::questions_in(recorder.report, judge::Detail::BRIEF) else { break };
        let label = match questions.phase {
            Phase::Screen => "closing gaps",
            Phase::Confirm | Phase::Lengths => "confirming on fresh rounds",
        };
        let (phase, rounds, cells) = (questions.phase, questions.rounds, questions.cells);
        let plan = Plan { label: label.into(), phase, rounds, cells, controls: vec![] };
        if let Some(stop) = recorder.take(plan) {
            return Some(stop);
        }
    }
    for _ in 0..MOST_LOOKS {
        for group in blind(recorder.report) {
            let again = plan::screen(group);
            let plan = Plan { rounds: again.rounds * MORE_ROUNDS, ..again };
            if let Some(stop) = recorder.take(plan) {
                return Some(stop);
            }
        }
    }
    None
}

/// Groups whose noise would have hidden a band, where that is what the answer hangs on.
fn blind(report: &Report) -> Vec<Group> {
    let verdict = judge::judge(report).verdict;
    let is_blind = |p: &&PathVerdict| p.state == State::Inconclusive && p.bands.is_empty();
    let groups = verdict.paths.iter().filter(is_blind).map(|p| (p.path, p.len));
    groups.filter(|_| verdict.paths.iter().all(|p| p.state != State::Affected)).collect()
}

struct Recorder<'a> {
    report: &'a mut Report,
    machine: &'a mut Machine,
    random: Xoshiro256PlusPlus,
    watcher: &'a mut dyn Watcher,
}

impl Recorder<'_> {
    /// Samples a plan, as far as the machine can, and files what came of it.
    fn take(&mut self, mut plan: Plan) -> Option<Stop> {
        self.leave_out(&mut plan);
        if plan.cells.is_empty() {
            return None;
        }
        let sampled = sample(self.machine, &plan, self.report.runs.len(), &mut self.random, self.watcher);
        self.report.runs.push(sampled.run);
        self.report.cells.extend(sampled.cells);
        self.report.noise.controls.extend(sampled.controls);
        sampled.stopped
    }

    /// Drops cells that the machine cannot take, with the reason in the report.
    fn leave_out(&mut self, plan: &mut Plan) {
        for cell in &plan.cells {
            let Err(reason) = self.machine.check(cell) else { continue };
            let known = |s: &Skipped| s.path == cell.path;
            if !self.report.skipped.iter().any(known) {
                self.report.skipped.push(Skipped { path: cell.path, allocator: None, reason });
            }
        }
        plan.cells.retain(|cell| self.machine.can(cell));
        plan.controls.retain(|cell| self.machine.can(cell));
    }
}
