//! The sampling loop: complete blocks in fresh random order, every block on other pages.
//!
//! A block that is cut short is thrown away whole, so that every recorded round holds every cell.

use super::machine::{Machine, Place, Stop, Watcher};
use crate::path::PathError;
use crate::report::{Cell, CellSpec, Control, Phase, RoundPages, Run};
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::time::Instant;

/// The shuffle's name in reports.
pub const SHUFFLE: &str = "Fisher-Yates (rand 0.10) on xoshiro256++, a fresh order each block";

/// From this length on a cell is long: fewer warm-up copies, and no repeats.
pub const LONG: u64 = 1 << 20;

/// A sample lasts at least this many times the clock's precision.
const PRECISIONS: u64 = 50;

/// Warm-up ends when two successive baselines agree within this share, or after [`WARMUPS`].
const SETTLED: f64 = 0.02;
const WARMUPS: u32 = 10;

/// The second page of an A/A control starts at most this many pages after the first.
const CONTROL_SHIFT: u64 = 3;

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

/// One visit of a block, small so that the schedule stays out of the copies' cache.
#[derive(Clone, Copy)]
struct Visit {
    slot: u32,
    dst: u16,
    src: u16,
    pool: u8,
    path: u8,
    kind: u16,
    second_page: bool,
}

/// What visits of one (path, length) share.
struct Kind {
    path: usize,
    len: usize,
    repeat: u32,
    expected_ns: u64,
}

/// The pages of one block: two start pages a pool, one for the paths' own sides (the source file, mostly).
struct Pages {
    pools: Vec<[u64; 2]>,
    source: u64,
}

/// Takes a plan's samples. `index` is the place of the run in the report.
pub fn sample(
    machine: &mut Machine,
    plan: &Plan,
    index: usize,
    random: &mut Xoshiro256PlusPlus,
    watcher: &mut dyn Watcher,
) -> Sampled {
    let mut loop_ = match Loop::prepare(machine, plan) {
        Ok(ready) => ready,
        Err(error) => return Sampled::nothing(plan, Stop::Fault(error.to_string())),
    };
    watcher.begin(&plan.label, loop_.block_ns() * u64::from(plan.rounds));
    let mut sampled = Sampled::empty(plan);
    if let Err(stop) = loop_.warm_up(machine, random, watcher, &mut sampled.run) {
        sampled.stopped = Some(stop);
    }
    let mut rounds = Vec::new();
    while sampled.stopped.is_none() && rounds.len() < plan.rounds as usize {
        let began = Instant::now();
        match loop_.block(machine, random, watcher) {
            Ok((block, pages)) => {
                sampled.run.core_ns.push(machine.clock.chain_ns());
                sampled.run.pages.push(pages.record(machine));
                sampled.copied_ns += block.iter().sum::<u64>();
                sampled.wall_ns += began.elapsed().as_nanos() as u64;
                rounds.push(block);
            }
            Err(stop) => sampled.stopped = Some(stop),
        }
    }
    sampled.run.rounds = rounds.len() as u32;
    loop_.fill(plan, index, &rounds, &mut sampled);
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
}

impl Pages {
    /// Draws start pages on which every cell of the plan fits.
    fn draw(machine: &Machine, limits: &Limits, random: &mut Xoshiro256PlusPlus) -> Pages {
        let pools = (0..machine.pools.len())
            .map(|pool| {
                let most = limits.pools[pool];
                let first = random.random_range(0..most);
                // a near page: one that only controls visit would be colder than what it is compared with
                let second = (first + random.random_range(1..=CONTROL_SHIFT)) % most;
                [first, second]
            })
            .collect();
        Pages { pools, source: random.random_range(0..limits.source) }
    }

    /// The report's form: by allocator's name, `-b` for the second page of A/A controls.
    fn record(&self, machine: &Machine) -> RoundPages {
        let mut record = BTreeMap::new();
        for (pool, [first, second]) in machine.pools.iter().zip(&self.pools) {
            record.insert(pool.allocator().to_string(), *first);
            record.insert(format!("{}-b", pool.allocator()), *second);
        }
        record.insert("source".into(), self.source);
        record
    }
}

/// How many start pages all cells of a plan have in common.
struct Limits {
    pools: Vec<u64>,
    source: u64,
}

/// A plan made ready for its machine.
struct Loop {
    visits: Vec<Visit>,
    kinds: Vec<Kind>,
    limits: Limits,
    /// One visit a (path, pool, length), to touch a block's new pages before anything is timed.
    touches: Vec<Visit>,
    /// Visits of the warm-up: references, few where copies are long.
    warm: Vec<Visit>,
    /// The kind of each slot; a slot is a cell's or control's place in the plan.
    slots: Vec<u16>,
}

impl Loop {
    fn prepare(machine: &mut Machine, plan: &Plan) -> Result<Loop, PathError> {
        let mut ready = Loop {
            visits: vec![],
            kinds: vec![],
            limits: Limits { pools: machine.pools.iter().map(|_| u64::MAX).collect(), source: u64::MAX },
            touches: vec![],
            warm: vec![],
            slots: vec![],
        };
        for cell in &plan.cells {
            ready.add(machine, cell, false);
        }
        for cell in &plan.controls {
            ready.add(machine, cell, false);
            ready.add(machine, cell, true);
        }
        ready.choose_touches();
        ready.choose_warm(&plan.cells);
        for pool in &mut ready.limits.pools {
            *pool = if *pool == u64::MAX { 1 } else { *pool };
        }
        ready.calibrate(machine)?;
        Ok(ready)
    }

    /// Adds one visit a block. The caller has checked that the machine can take the cell.
    fn add(&mut self, machine: &Machine, cell: &CellSpec, second_page: bool) {
        let slot = self.slots.len() as u32;
        let pool = cell.allocator.and_then(|a| machine.pool(a));
        let (Some(path), Some(pool)) = (machine.path(cell.path), pool) else {
            self.slots.push(0);
            return;
        };
        let len = cell.len as usize;
        let kind = self.kinds.iter().position(|k| k.path == path && k.len == len).unwrap_or_else(|| {
            self.kinds.push(Kind { path, len, repeat: 1, expected_ns: 1 });
            self.kinds.len() - 1
        });
        self.slots.push(kind as u16);
        self.limits.source = self.limits.source.min(machine.own_pages(cell));
        self.limits.pools[pool] = self.limits.pools[pool].min(machine.pools[pool].pages(len));
        self.visits.push(Visit {
            slot,
            dst: cell.dst,
            src: cell.src,
            pool: pool as u8,
            path: path as u8,
            kind: kind as u16,
            second_page,
        });
    }

    /// The first visit of each (kind, pool, page).
    fn choose_touches(&mut self) {
        let mut seen = std::collections::BTreeSet::new();
        let long = |v: &Visit| self.kinds[v.kind as usize].len as u64 >= LONG;
        self.touches = self.visits.iter().copied().filter(|v| !long(v)).collect();
        self.touches.retain(|v| seen.insert((v.kind, v.pool, v.second_page)));
    }

    /// References of the warm-up: at most 24 a (kind, pool), two where copies are long.
    fn choose_warm(&mut self, cells: &[CellSpec]) {
        let mut count = BTreeMap::new();
        let mut most = |v: &Visit| {
            let seen = count.entry((v.kind, v.pool)).or_insert(0);
            *seen += 1;
            *seen <= if self.kinds[v.kind as usize].len as u64 >= LONG { 2 } else { 24 }
        };
        let is_reference = |v: &Visit| cells.get(v.slot as usize).is_some_and(|c| c.reference);
        self.warm = self.visits.iter().copied().filter(|v| is_reference(v) && most(v)).collect();
    }

    /// Finds how many copies a sample needs to outlast the clock's precision, and what one costs.
    fn calibrate(&mut self, machine: &mut Machine) -> Result<(), PathError> {
        let least = machine.clock.precision_ns() * PRECISIONS;
        let pages = Pages { pools: vec![[0, 0]; machine.pools.len()], source: 0 };
        for kind in 0..self.kinds.len() {
            let of_kind = |v: &&Visit| v.kind as usize == kind;
            let visit = self.warm.iter().find(of_kind).or(self.visits.iter().find(of_kind)).copied();
            let Some(visit) = visit else { continue };
            let tries = if self.kinds[kind].len as u64 >= LONG { 1 } else { 9 };
            let mut times = Vec::with_capacity(tries);
            for _ in 0..tries {
                times.push(self.visit(machine, &visit, &pages)?.max(1));
            }
            times.sort_unstable();
            let fast = times[tries / 4].max(1);
            let kind = &mut self.kinds[kind];
            kind.repeat = u32::try_from(least.div_ceil(fast)).unwrap_or(u32::MAX).clamp(1, 100_000);
            kind.expected_ns = times[tries / 2] * u64::from(kind.repeat);
        }
        Ok(())
    }

    /// What the copies of one block are expected to take.
    fn block_ns(&self) -> u64 {
        self.visits.iter().map(|v| self.kinds[v.kind as usize].expected_ns).sum()
    }

    /// One sample.
    #[inline]
    fn visit(&self, machine: &mut Machine, visit: &Visit, pages: &Pages) -> Result<u64, PathError> {
        let kind = &self.kinds[visit.kind as usize];
        let page = pages.pools[visit.pool as usize][usize::from(visit.second_page)];
        let place = Place {
            path: visit.path.into(),
            pool: visit.pool.into(),
            dst: visit.dst,
            src: visit.src,
            len: kind.len,
            page,
            own_page: pages.source,
        };
        machine.take(&place, kind.repeat)
    }

    /// Rounds over the references until two successive baselines agree.
    fn warm_up(
        &self,
        machine: &mut Machine,
        random: &mut Xoshiro256PlusPlus,
        watcher: &mut dyn Watcher,
        run: &mut Run,
    ) -> Result<(), Stop> {
        let mut before = None::<f64>;
        while run.warmup_discarded < WARMUPS && !self.warm.is_empty() {
            let pages = Pages::draw(machine, &self.limits, random);
            let mut logs = Vec::with_capacity(self.warm.len());
            for visit in self.touches.iter().chain(&self.warm) {
                let ns = self.visit(machine, visit, &pages).map_err(fault)?;
                logs.push((ns.max(1) as f64).ln());
                if let Some(stop) = watcher.stop() {
                    return Err(stop);
                }
            }
            run.warmup_discarded += 1;
            let warm = &mut logs[self.touches.len()..];
            warm.sort_unstable_by(f64::total_cmp);
            // the middle half: neither a slow band among the references nor a tail decides
            let middle = &warm[warm.len() / 4..(warm.len() * 3).div_ceil(4)];
            let baseline = middle.iter().sum::<f64>() / middle.len() as f64;
            if before.is_some_and(|b| (b - baseline).abs() < SETTLED) {
                break;
            }
            before = Some(baseline);
        }
        Ok(())
    }

    /// One block: fresh pages, fresh order, every cell once.
    fn block(
        &mut self,
        machine: &mut Machine,
        random: &mut Xoshiro256PlusPlus,
        watcher: &mut dyn Watcher,
    ) -> Result<(Vec<u64>, Pages), Stop> {
        let pages = Pages::draw(machine, &self.limits, random);
        self.visits.shuffle(random);
        for visit in &self.touches {
            self.visit(machine, visit, &pages).map_err(fault)?;
        }
        let mut block = vec![0; self.slots.len()];
        let mut done = 0;
        for (count, visit) in self.visits.iter().enumerate() {
            let ns = self.visit(machine, visit, &pages).map_err(fault)?;
            block[visit.slot as usize] = ns;
            done += self.kinds[visit.kind as usize].expected_ns;
            if count % 256 == 255 || ns > 1_000_000 {
                watcher.advance(std::mem::take(&mut done));
                if let Some(stop) = watcher.stop() {
                    return Err(stop);
                }
            }
        }
        watcher.advance(done);
        Ok((block, pages))
    }

    /// Turns rounds of slots into cells and controls of rounds.
    fn fill(&self, plan: &Plan, index: usize, rounds: &[Vec<u64>], sampled: &mut Sampled) {
        let repeat_of = |slot: usize| self.kinds.get(self.slots[slot] as usize).map_or(1, |k| k.repeat);
        let column = |slot: usize| -> Vec<Option<u64>> {
            rounds.iter().map(|block| Some(block[slot]).filter(|ns| *ns > 0)).collect()
        };
        sampled.cells = plan
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
                repeat: repeat_of(slot),
                reference: cell.reference,
                ns: column(slot),
            })
            .collect();
        sampled.controls = plan
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

/// The median nanoseconds of `tries` single copies of a cell that the machine can take.
pub fn trial_ns(machine: &mut Machine, cell: &CellSpec, tries: usize) -> Result<u64, PathError> {
    let (pool, path) = (cell.allocator.and_then(|a| machine.pool(a)), machine.path(cell.path));
    let (Some(pool), Some(path)) = (pool, path) else { return Ok(0) };
    let len = cell.len as usize;
    let mut times = Vec::with_capacity(tries);
    let place = Place { path, pool, dst: cell.dst, src: cell.src, len, page: 0, own_page: 0 };
    for _ in 0..tries {
        times.push(machine.take(&place, 1)?);
    }
    times.sort_unstable();
    Ok(times.get(tries / 2).copied().unwrap_or(0))
}

fn fault(error: PathError) -> Stop {
    Stop::Fault(error.to_string())
}
