//! The sampling loop: complete blocks in fresh random order, every block on other pages.
//!
//! A block that is cut short is thrown away whole, so that every recorded round holds every cell.

use super::machine::{Machine, Stop, Watcher};
use super::schedule::{Loop, recorded};
use crate::path::{Job, Kind, Pages, PathError};
use crate::report::{Cell, CellSpec, Control, Phase, Run};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::time::Instant;

/// The shuffle's name in reports.
pub const SHUFFLE: &str = "Fisher-Yates (rand 0.10) on xoshiro256++, a fresh order each block";

/// From this length on a cell is long: fewer warm-up copies and trials.
pub const LONG: u64 = 1 << 20;

/// What one run samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Shown beside the progress bar.
    pub label: String,
    /// Whether it proposes or decides.
    pub phase: Phase,
    /// Complete blocks.
    pub rounds: u32,
    /// Every cell of a block, references among them.
    pub cells: Vec<CellSpec>,
    /// Cells sampled twice more in every block, on different pages, under two names.
    pub controls: Vec<CellSpec>,
}

impl Plan {
    /// The plan of the cells that are apart, and that of the rest; either may hold none.
    pub fn split(self, is_apart: impl Fn(&CellSpec) -> bool) -> [Plan; 2] {
        let (cells, rest) = self.cells.iter().partition(|cell| is_apart(cell));
        let (controls, rest_controls) = self.controls.iter().partition(|cell| is_apart(cell));
        [Plan { cells, controls, ..self.clone() }, Plan { cells: rest, controls: rest_controls, ..self }]
    }
}

/// What a run gave. `stopped` tells why it holds fewer rounds than planned.
pub struct Sampled {
    /// The run's record; its index in the report is the caller's to set.
    pub run: Run,
    /// The cells with their samples.
    pub cells: Vec<Cell>,
    /// The A/A pairs.
    pub controls: Vec<Control>,
    /// Why it ended early.
    pub stopped: Option<Stop>,
    /// Nanoseconds of all recorded samples.
    pub copied_ns: u64,
    /// Wall time of the recorded blocks, schedule and bookkeeping included, in nanoseconds.
    pub wall_ns: u64,
}

/// Takes a plan's samples. `index` is the place of the run in the report.
pub fn sample(
    machine: &mut Machine,
    plan: &Plan,
    index: usize,
    random: &mut Xoshiro256PlusPlus,
    watcher: &mut dyn Watcher,
) -> Sampled {
    let mut ready = match Loop::prepare(machine, &plan.cells, &plan.controls) {
        Ok(ready) => ready,
        Err(error) => return Sampled::nothing(plan, Stop::Fault(error.to_string())),
    };
    watcher.begin(&plan.label, ready.block_ns() * u64::from(plan.rounds));
    let mut sampled = Sampled::empty(plan);
    if let Err(stop) = ready.warm_up(machine, random, watcher, &mut sampled.run) {
        sampled.stopped = Some(stop);
    }
    let mut rounds = Vec::new();
    while sampled.stopped.is_none() && rounds.len() < plan.rounds as usize {
        let began = Instant::now();
        match ready.block(machine, random, watcher) {
            Ok((block, pages)) => {
                sampled.run.core_ns.push(machine.clock.chain_ns());
                sampled.run.pages.push(recorded(&pages, machine));
                sampled.copied_ns += block.iter().sum::<u64>();
                sampled.wall_ns += began.elapsed().as_nanos() as u64;
                rounds.push(block);
            }
            Err(stop) => sampled.stopped = Some(stop),
        }
    }
    sampled.run.rounds = rounds.len() as u32;
    sampled.fill(plan, index, &rounds, &ready);
    sampled
}

impl Sampled {
    fn empty(plan: &Plan) -> Self {
        let run = Run { phase: plan.phase, rounds: 0, warmup_discarded: 0, pages: vec![], core_ns: vec![] };
        Sampled { run, cells: vec![], controls: vec![], stopped: None, copied_ns: 0, wall_ns: 0 }
    }

    fn nothing(plan: &Plan, stop: Stop) -> Self {
        Sampled { stopped: Some(stop), ..Self::empty(plan) }
    }

    /// Turns rounds of slots into cells and controls of rounds.
    fn fill(&mut self, plan: &Plan, index: usize, rounds: &[Vec<u64>], ready: &Loop) {
        let column = |slot: usize| -> Vec<Option<u64>> {
            rounds.iter().map(|block| Some(block[slot]).filter(|ns| *ns > 0)).collect()
        };
        self.cells = plan
            .cells
            .iter()
            .enumerate()
            .map(|(slot, cell)| Cell {
                run: index,
                path: cell.path,
                allocator: cell.allocator,
                dst: Some(cell.dst),
                src: Some(cell.src),
                len: cell.len,
                repeat: ready.repeat_of(slot),
                reference: cell.reference,
                ns: column(slot),
            })
            .collect();
        self.controls = plan
            .controls
            .iter()
            .enumerate()
            .map(|(pair, cell)| Control {
                run: index,
                path: cell.path,
                allocator: cell.allocator,
                len: cell.len,
                dst: cell.dst,
                ns_a: column(plan.cells.len() + 2 * pair),
                ns_b: column(plan.cells.len() + 2 * pair + 1),
            })
            .collect();
    }
}

/// The least nanoseconds of `tries` single copies of a cell that the machine can take.
pub fn trial_ns(machine: &mut Machine, cell: &CellSpec, tries: usize) -> Result<u64, PathError> {
    let (pool, path) = (cell.allocator.and_then(|a| machine.pool(a)), machine.path(cell.path));
    let (Some(pool), Some(path)) = (pool, path) else { return Ok(0) };
    let kind =
        Kind { len: cell.len as usize, repeat: 1, side: cell.path.own_scan(), first_touch: machine.renews() };
    let job = Job { slot: 0, dst: cell.dst, src: cell.src, pool: pool as u8, second_page: false, kind: 0 };
    let pages = Pages { pools: vec![[0, 0]; machine.pools.len()], own: 0 };
    let mut least = u64::MAX;
    for _ in 0..tries {
        least = least.min(machine.take(path, &job, &kind, &pages)?);
    }
    Ok(least)
}
