//! The order and places of a block's samples, and how a block is taken.

use super::machine::{Machine, Stop, Watcher};
use super::sample::LONG;
use crate::path::{Job, Kind, Pages, PathError};
use crate::report::{CellSpec, RoundPages, Run};
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;

/// A sample lasts at least this many times the clock's precision.
const PRECISIONS: u64 = 50;

/// References by which the copies of a sample are chosen.
const TRIED: usize = 3;

/// Copies in one sample at most.
const MOST_REPEATS: u32 = 100_000;

/// Warm-up ends when two successive baselines agree within this share, or after [`WARMUPS`].
const SETTLED: f64 = 0.02;
const WARMUPS: u32 = 10;

/// Samples between two looks at the watcher: at most this many, and about so many nanoseconds.
const BATCH: usize = 256;
const BATCH_NS: u64 = 2_000_000;

/// A block of so many samples for each place it starts on needs no touching of its pages beforehand.
const MANY: usize = 500;

/// The second page of an A/A control starts at most this many pages after the first.
const CONTROL_SHIFT: u64 = 3;

/// What the schedule knows of a kind of jobs beyond what a sample needs.
struct Group {
    path: usize,
    /// What one sample is expected to take.
    expected_ns: u64,
}

/// Draws start pages on which every cell of the plan fits.
fn draw(limits: &Limits, random: &mut Xoshiro256PlusPlus) -> Pages {
    let mut pair = |most: &u64| {
        let first = random.random_range(0..*most);
        // a near page: one that only controls visit would be colder than what it is compared with
        [first, (first + random.random_range(1..=CONTROL_SHIFT)) % most]
    };
    let pools = limits.pools.iter().map(&mut pair).collect();
    Pages { pools, own: random.random_range(0..limits.own) }
}

/// A block's pages in the report's form: by allocator's name, `-b` for the second page of A/A controls.
pub fn recorded(pages: &Pages, machine: &Machine) -> RoundPages {
    let mut record = BTreeMap::new();
    for (pool, [first, second]) in machine.pools.iter().zip(&pages.pools) {
        record.insert(pool.allocator().to_string(), *first);
        record.insert(format!("{}-b", pool.allocator()), *second);
    }
    record.insert("source".into(), pages.own);
    record
}

/// How many start pages all cells of a plan have in common.
struct Limits {
    pools: Vec<u64>,
    /// On the paths' own sides.
    own: u64,
}

/// A plan made ready for its machine.
pub struct Loop {
    jobs: Vec<Job>,
    kinds: Vec<Kind>,
    /// One a kind.
    groups: Vec<Group>,
    limits: Limits,
    /// One visit a (path, pool, length), to touch a block's new pages before anything is timed.
    touches: Vec<Job>,
    /// Visits of the warm-up: references, few where copies are long.
    warm: Vec<Job>,
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
            jobs: vec![],
            kinds: vec![],
            groups: vec![],
            limits: Limits { pools: machine.pools.iter().map(|_| u64::MAX).collect(), own: u64::MAX },
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
        let same = |kind: &usize| self.groups[*kind].path == path && self.kinds[*kind].len == len;
        let kind = (0..self.kinds.len()).find(same).unwrap_or_else(|| {
            self.kinds.push(Kind {
                len,
                repeat: 1,
                side: cell.path.own_scan(),
                first_touch: machine.renews(),
            });
            self.groups.push(Group { path, expected_ns: 1 });
            self.kinds.len() - 1
        });
        let (kind, pool_index) = (kind as u16, pool as u8);
        self.slots.push(kind);
        self.limits.own = self.limits.own.min(machine.own_pages(cell));
        self.limits.pools[pool] = self.limits.pools[pool].min(machine.pools[pool].pages(len));
        self.jobs.push(Job { slot, dst: cell.dst, src: cell.src, pool: pool_index, second_page, kind });
    }

    /// The first visit of each (kind, pool, page).
    fn choose_touches(&mut self) {
        let mut seen = std::collections::BTreeSet::new();
        let long = |v: &Job| self.kinds[v.kind as usize].len as u64 >= LONG;
        self.touches = self.jobs.iter().copied().filter(|v| !long(v)).collect();
        self.touches.retain(|v| seen.insert((v.kind, v.pool, v.second_page)));
        if self.touches.len() * MANY < self.jobs.len() {
            // one cold sample in hundreds harms no median, and touching memory that far away takes long
            self.touches.clear();
        }
    }

    /// References of the warm-up: at most 24 a (kind, pool), two where copies are long.
    fn choose_warm(&mut self, cells: &[CellSpec]) {
        let mut count = BTreeMap::new();
        let mut most = |v: &Job| {
            let seen = count.entry((v.kind, v.pool)).or_insert(0);
            *seen += 1;
            *seen <= if self.kinds[v.kind as usize].len as u64 >= LONG { 2 } else { 24 }
        };
        let is_reference = |v: &Job| cells.get(v.slot as usize).is_some_and(|c| c.reference);
        self.warm = self.jobs.iter().copied().filter(|v| is_reference(v) && most(v)).collect();
    }

    /// Finds how many copies a sample needs to outlast the clock's precision, and what it takes.
    fn calibrate(&mut self, machine: &mut Machine) -> Result<(), PathError> {
        let least = machine.clock.precision_ns() * PRECISIONS;
        let pages = Pages { pools: vec![[0, 0]; machine.pools.len()], own: 0 };
        for kind in 0..self.kinds.len() {
            // several, since the slow one among them alone would leave the others too short
            let of_kind = |job: &&Job| usize::from(job.kind) == kind;
            let jobs: Vec<Job> = match self.warm.iter().filter(of_kind).count() {
                0 => self.jobs.iter().filter(of_kind).take(1).copied().collect(),
                count => self.warm.iter().filter(of_kind).step_by(count.div_ceil(TRIED)).copied().collect(),
            };
            let mut expected = 1;
            for job in &jobs {
                expected = self.tried(machine, job, &pages)?;
                // a single short copy is mostly the clock's own cost, so a first guess falls short
                while expected < least && self.kinds[kind].repeat < MOST_REPEATS {
                    let more = u64::from(self.kinds[kind].repeat) * (least + least / 8) / expected;
                    let more = u32::try_from(more).unwrap_or(MOST_REPEATS);
                    self.kinds[kind].repeat = more.clamp(self.kinds[kind].repeat + 1, MOST_REPEATS);
                    expected = self.tried(machine, job, &pages)?;
                }
            }
            self.groups[kind].expected_ns = expected;
        }
        Ok(())
    }

    /// What a sample of a job takes: a low quartile of a few, since none may last less than it should.
    fn tried(&self, machine: &mut Machine, job: &Job, pages: &Pages) -> Result<u64, PathError> {
        let tries = if self.kinds[usize::from(job.kind)].len as u64 >= LONG { 1 } else { 9 };
        let mut times = Vec::with_capacity(tries);
        for _ in 0..tries {
            times.push(self.take(machine, job, pages)?.max(1));
        }
        times.sort_unstable();
        Ok(times[tries / 4])
    }

    /// Copies in one sample of a slot.
    pub fn repeat_of(&self, slot: usize) -> u32 {
        self.kinds.get(self.slots[slot] as usize).map_or(1, |k| k.repeat)
    }

    /// What the copies of one block are expected to take.
    pub fn block_ns(&self) -> u64 {
        self.expected(&self.jobs)
    }

    fn expected(&self, jobs: &[Job]) -> u64 {
        jobs.iter().map(|job| self.groups[usize::from(job.kind)].expected_ns).sum()
    }

    /// One sample by itself.
    fn take(&self, machine: &mut Machine, job: &Job, pages: &Pages) -> Result<u64, PathError> {
        let kind = usize::from(job.kind);
        machine.take(self.groups[kind].path, job, &self.kinds[kind], pages)
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
            let pages = draw(&self.limits, random);
            let mut logs = Vec::with_capacity(self.warm.len());
            for job in self.touches.iter().chain(&self.warm) {
                let ns = self.take(machine, job, &pages).map_err(fault)?;
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
        let pages = draw(&self.limits, random);
        self.jobs.shuffle(random);
        for job in &self.touches {
            self.take(machine, job, &pages).map_err(fault)?;
        }
        let mut ns = vec![0; self.slots.len()];
        let mut rest = &self.jobs[..];
        while let Some(first) = rest.first() {
            let (batch, later) = rest.split_at(self.batch_len(rest));
            let path = self.groups[usize::from(first.kind)].path;
            machine.take_all(path, batch, &self.kinds, &pages, &mut ns).map_err(fault)?;
            watcher.advance(self.expected(batch));
            if let Some(stop) = watcher.stop() {
                return Err(stop);
            }
            rest = later;
        }
        Ok((ns, pages))
    }

    /// How many of the next jobs make a batch: those of one path, up to a few milliseconds of copies.
    fn batch_len(&self, rest: &[Job]) -> usize {
        let group = |job: &Job| &self.groups[usize::from(job.kind)];
        let mut expected = 0;
        let same = rest.iter().take(BATCH).take_while(|job| {
            let fits = expected < BATCH_NS;
            expected += group(job).expected_ns;
            fits && group(job).path == group(&rest[0]).path
        });
        same.count().max(1)
    }
}

pub fn fault(error: PathError) -> Stop {
    Stop::Fault(error.to_string())
}
