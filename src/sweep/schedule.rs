//! The order and places of a block's samples, and how a block is taken.

use super::machine::{Machine, Place, Stop, Watcher};
use super::sample::LONG;
use crate::path::{PathError, Side};
use crate::report::{CellSpec, RoundPages, Run};
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;

/// A sample lasts at least this many times the clock's precision.
const PRECISIONS: u64 = 50;

/// Warm-up ends when two successive baselines agree within this share, or after [`WARMUPS`].
const SETTLED: f64 = 0.02;
const WARMUPS: u32 = 10;

/// Samples between two looks at the watcher: at most this many, and about so many nanoseconds.
const BATCH: usize = 256;
const BATCH_NS: u64 = 2_000_000;

/// The second page of an A/A control starts at most this many pages after the first.
const CONTROL_SHIFT: u64 = 3;

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
    side: Side,
    len: usize,
    repeat: u32,
    expected_ns: u64,
}

/// The pages of one block: two start pages a pool, one for the paths' own sides (the source file, mostly).
pub struct Pages {
    pools: Vec<[u64; 2]>,
    source: u64,
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
    pub fn record(&self, machine: &Machine) -> RoundPages {
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
pub struct Loop {
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
    pub fn prepare(
        machine: &mut Machine,
        cells: &[CellSpec],
        controls: &[CellSpec],
    ) -> Result<Loop, PathError> {
        let mut ready = Loop {
            visits: vec![],
            kinds: vec![],
            limits: Limits { pools: machine.pools.iter().map(|_| u64::MAX).collect(), source: u64::MAX },
            touches: vec![],
            warm: vec![],
            slots: vec![],
        };
        for cell in cells {
            ready.add(machine, cell, false);
        }
        for cell in controls {
            ready.add(machine, cell, false);
            ready.add(machine, cell, true);
        }
        ready.choose_touches();
        ready.choose_warm(cells);
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
            let side = Side::of_allocator(cell.path);
            self.kinds.push(Kind { path, side, len, repeat: 1, expected_ns: 1 });
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

    /// Copies in one sample of a slot.
    pub fn repeat_of(&self, slot: usize) -> u32 {
        self.kinds.get(self.slots[slot] as usize).map_or(1, |k| k.repeat)
    }

    /// What the copies of one block are expected to take.
    pub fn block_ns(&self) -> u64 {
        self.visits.iter().map(|v| self.kinds[v.kind as usize].expected_ns).sum()
    }

    /// One sample by itself.
    fn visit(&self, machine: &mut Machine, visit: &Visit, pages: &Pages) -> Result<u64, PathError> {
        machine.take(&self.place(visit, pages), self.kinds[visit.kind as usize].repeat)
    }

    fn place(&self, visit: &Visit, pages: &Pages) -> Place {
        let kind = &self.kinds[visit.kind as usize];
        Place {
            path: visit.path.into(),
            side: kind.side,
            pool: visit.pool.into(),
            dst: visit.dst,
            src: visit.src,
            len: kind.len,
            page: pages.pools[visit.pool as usize][usize::from(visit.second_page)],
            own_page: pages.source,
        }
    }

    /// Rounds over the references until two successive baselines agree.
    pub fn warm_up(
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
    pub fn block(
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
        let mut jobs = Vec::with_capacity(BATCH);
        let mut ns = [0; BATCH];
        let mut rest = &self.visits[..];
        while let Some(first) = rest.first() {
            let (batch, later) = rest.split_at(self.batch_len(rest));
            jobs.clear();
            jobs.extend(batch.iter().map(|v| self.place(v, &pages).job(self.kinds[v.kind as usize].repeat)));
            machine.take_all(first.path.into(), &jobs, &mut ns).map_err(fault)?;
            batch.iter().zip(ns).for_each(|(visit, ns)| block[visit.slot as usize] = ns);
            watcher.advance(batch.iter().map(|v| self.kinds[v.kind as usize].expected_ns).sum());
            if let Some(stop) = watcher.stop() {
                return Err(stop);
            }
            rest = later;
        }
        Ok((block, pages))
    }

    /// How many of the next visits make a batch: those of one path, up to a few milliseconds of copies.
    fn batch_len(&self, rest: &[Visit]) -> usize {
        let mut expected = 0;
        let same = rest.iter().take(BATCH).take_while(|v| {
            let fits = expected < BATCH_NS;
            expected += self.kinds[v.kind as usize].expected_ns;
            v.path == rest[0].path && fits
        });
        same.count().max(1)
    }
}

pub fn fault(error: PathError) -> Stop {
    Stop::Fault(error.to_string())
}
