//! A sweep of this machine: what was asked, resolved; source, buffers and CPU made ready; facts gathered.

use super::USUAL_SECONDS;
use super::record::{Budget, Cost, record};
use super::room;
use crate::allocator::{self, AllocatorError, Pool, PoolSpec};
use crate::cli::{PageKind, SweepArgs};
use crate::commands::Failure;
use crate::host;
use crate::judge;
use crate::path::{CopyPath, Opener, Source};
use crate::report::{
    Allocator, Fact, Host, Noise, Options, PathName, Placement, Report, RunInfo, Schema, Skipped, Tool,
    Verdict,
};
use crate::sweep::disturbance;
use crate::sweep::grid::{self, Asked};
use crate::sweep::{Clock, LONG, Length, Machine, SHUFFLE, Stop, Watcher};
use crate::sys;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Fresh allocations of each allocator and length whose page offsets are looked at.
pub const NATURAL: usize = 8;

/// Rounds of the screen where `--rounds` does not say.
const ROUNDS: u32 = 15;

/// What was asked for, resolved.
pub struct Plan {
    /// For the grid.
    pub asked: Asked,
    /// For the report.
    pub options: Options,
    /// Of every random choice.
    pub seed: u64,
}

impl Plan {
    /// What the options ask of a source of this size.
    pub fn of(args: &SweepArgs, source_size: u64) -> Result<Plan, Failure> {
        let lens: Option<Vec<u64>> = (!args.len.is_empty()).then(|| {
            let mut lens: Vec<u64> = args.len.iter().filter_map(|l| in_bytes(*l, source_size)).collect();
            lens.sort_unstable();
            lens.dedup();
            lens
        });
        let find_lens = find_lens(args)?;
        let by_default = args.allocators.is_empty();
        let asked = Asked {
            paths: unique(&args.chosen_paths()),
            allocators: if by_default { USUAL_ALLOCATORS.to_vec() } else { unique(&args.allocators) },
            sparing: by_default,
            dst: args.dst.clone(),
            src: args.src.clone(),
            lens,
            find_lens,
            longest_searched: judge::LONGEST_SEARCHED,
            rounds: args.rounds,
            default_rounds: ROUNDS,
            source_size,
            natural: BTreeMap::new(),
        };
        if args.pages == PageKind::Reserved && asked.allocators != [Allocator::Pages] {
            return Err(Failure::line(
                "--pages hugetlb goes with --allocators pages only: malloc takes no such pages",
            ));
        }
        let cells = asked.dst.all().len() * asked.src.as_ref().map_or(1, |s| s.all().len());
        if cells > MOST_CELLS {
            return Err(Failure::line(format!(
                "--dst and --src make {cells} cells a length; at most {MOST_CELLS} are sampled (give a step, such as \
                 0x0-0x1000:0x10)"
            )));
        }
        let seed = args.seed.unwrap_or_else(seed_from_clock);
        let options = resolved(args, &asked);
        Ok(Plan { asked, options, seed })
    }

    /// The command line's defaults.
    pub fn usual(source_size: u64, seed: u64) -> Plan {
        let asked = Asked {
            paths: vec![PathName::Read],
            allocators: USUAL_ALLOCATORS.to_vec(),
            sparing: true,
            dst: crate::sweep::Offsets::circle(),
            src: None,
            lens: None,
            find_lens: false,
            longest_searched: judge::LONGEST_SEARCHED,
            rounds: None,
            default_rounds: ROUNDS,
            source_size,
            natural: BTreeMap::new(),
        };
        let len = asked.short_lens().into_iter().chain(asked.long_lens()).collect();
        let options = Options {
            paths: asked.paths.clone(),
            allocators: asked.allocators.clone(),
            len,
            rounds: ROUNDS,
            ..Options::default()
        };
        Plan { asked, options, seed }
    }
}

/// Allocators where `--allocators` does not say.
const USUAL_ALLOCATORS: [Allocator; 3] = [Allocator::Glibc, Allocator::Jemalloc, Allocator::Mimalloc];

/// The most cells of one sweep: an hour of 64 KiB copies, and a report that still loads.
const MOST_CELLS: usize = 1 << 18;

/// Whether lengths are to be searched for.
fn find_lens(args: &SweepArgs) -> Result<bool, Failure> {
    if !args.len.contains(&Length::Auto) {
        return Ok(false);
    }
    if args.len.len() > 1 {
        return Err(Failure::line("--len auto searches for lengths by itself: give no others with it"));
    }
    if args.src.is_some() || args.dst != crate::sweep::Offsets::circle() {
        return Err(Failure::line("--len auto chooses its offsets by itself: leave out --dst and --src"));
    }
    if args.allocators.len() > 1 {
        return Err(Failure::line("--len auto takes one allocator: name one, or leave out --allocators"));
    }
    match args.chosen_paths().into_iter().find(|path| !path.is_user_space()) {
        Some(path) => Err(Failure::line(format!(
            "--len auto is for copies in user space, such as --paths memcpy; {path} is a path of another kind"
        ))),
        None => Ok(true),
    }
}

/// Bytes of a length, if it is one.
fn in_bytes(len: Length, source_size: u64) -> Option<u64> {
    match len {
        Length::Bytes(bytes) => Some(bytes),
        Length::File => Some(source_size),
        Length::Auto => None,
    }
}

/// Each once, in the order given.
fn unique<T: Copy + PartialEq>(words: &[T]) -> Vec<T> {
    let mut once = Vec::new();
    words.iter().for_each(|w| {
        if !once.contains(w) {
            once.push(*w)
        }
    });
    once
}

/// A seed that no two runs share.
pub fn seed_from_clock() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    // 53 bits: exact in every JSON reader
    (now.as_nanos() as u64) & ((1 << 53) - 1)
}

/// Every option as it was really used.
fn resolved(args: &SweepArgs, asked: &Asked) -> Options {
    Options {
        file: args.file.as_ref().map(|_| "<file>".into()),
        paths: asked.paths.clone(),
        allocators: asked.allocators.clone(),
        dst: asked.dst.to_string(),
        src: asked.src.as_ref().map_or("0x0".into(), ToString::to_string),
        len: asked.short_lens().into_iter().chain(asked.long_lens()).collect(),
        len_auto: asked.find_lens,
        rounds: args.rounds.unwrap_or(ROUNDS),
        time_s: args.time,
        cpu: args.cpu,
        pages: page_kind(args.pages).word().into(),
        first_touch: args.first_touch,
        affected_at: args.affected_at,
        simulate: args.simulate.clone(),
        colours: args.colours,
    }
}

fn page_kind(pages: PageKind) -> allocator::PageKind {
    match pages {
        PageKind::Small => allocator::PageKind::Small,
        PageKind::Transparent => allocator::PageKind::Transparent,
        PageKind::Reserved => allocator::PageKind::Reserved,
    }
}

/// A report before anything was measured.
pub fn fresh_report(host: Host, options: Options, seed: u64) -> Report {
    Report {
        schema: Schema::report(),
        tool: Tool::this(),
        recorded_at: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        run: RunInfo {
            command: "sweep".into(),
            options,
            shuffle: SHUFFLE.into(),
            seed,
            duration_s: 0.0,
            complete: false,
            stopped_by: None,
        },
        runs: vec![],
        source: None,
        host,
        cells: vec![],
        skipped: vec![],
        placements: vec![],
        noise: Noise::default(),
        verdict: Verdict::default(),
        remedies: vec![],
        colours: None,
        pmu: None,
        rejudged: None,
    }
}

/// Sweeps this machine.
pub fn run(args: &SweepArgs, watcher: &mut dyn Watcher) -> Result<(Report, Option<Stop>, Cost), Failure> {
    let cpu = pin(args.cpu)?;
    let source = match &args.file {
        Some(file) => Source::open(file),
        None if !needs_source(args) => Source::unused(),
        // where memory is short, and nothing but memory to be had, the long column is of less
        None => Source::own(grid::WHOLE).or_else(|error| Source::own(LONG).map_err(|_| error)),
    }
    .map_err(Failure::line)?;
    let Plan { mut asked, options, seed } = Plan::of(args, source.size())?;
    room::in_file(&asked, &source)?;
    let is_read = source.kind() != "unused";
    let span = asked.longest().max(grid::WHOLE).min(source.size());
    asked.source_size = span;
    let mut report = fresh_report(facts(cpu), options, seed);
    report.placements = placements(&asked, &mut report.skipped)?;
    asked.natural = natural_of(&report.placements);
    // buffers first: that memory is short is known at once, a long file is read in slowly
    let mut machine = machine(args, &mut asked, &source, &mut report.skipped)?;
    let resident_before = known(source.resident(span)).filter(|_| is_read);
    source.fault_in(span, &mut || watcher.stop().is_some()).map_err(Failure::line)?;
    report.noise.clock_precision_ns = Some(machine.clock.precision_ns());
    report.noise.notes = notes(&machine.pools);
    let watch = disturbance::Watch::start();
    let began = Instant::now();
    let time = Duration::from_secs_f64(args.time.unwrap_or(USUAL_SECONDS).min(1e9));
    let budget = Budget { time, strict: args.time.is_some() };
    let (stop, cost) = record(&mut report, &mut machine, &asked, budget, watcher);
    report.run.duration_s = began.elapsed().as_secs_f64();
    note(&mut report.noise, watch.stop());
    report.source = is_read.then(|| crate::report::Source {
        kind: source.kind().into(),
        size: source.size(),
        fs_type: source.fs_type(),
        resident_before,
        resident_after: known(source.resident(span)),
        changed: source.changed(),
    });
    Ok((report, stop, cost))
}

/// Whether a file is read, or its length is what is copied.
fn needs_source(args: &SweepArgs) -> bool {
    args.len.contains(&Length::File) || args.chosen_paths().iter().any(|path| path.reads_source())
}

/// Pins to the CPU asked for, or to the last one allowed: the first ones serve most interrupts.
pub fn pin(wanted: Option<u32>) -> Result<u32, Failure> {
    let allowed =
        sys::cpu::allowed().map_err(|e| Failure::line(format!("cannot tell the CPUs allowed: {e}")))?;
    let cpu = match wanted {
        Some(cpu) if !allowed.contains(&cpu) => {
            let list: Vec<String> = allowed.iter().map(u32::to_string).collect();
            return Err(Failure::line(format!(
                "CPU {cpu} is not allowed here (--cpu may be {})",
                list.join(", ")
            )));
        }
        Some(cpu) => cpu,
        None => allowed.last().copied().unwrap_or(0),
    };
    sys::cpu::pin(cpu).map_err(|e| Failure::line(format!("cannot pin to CPU {cpu}: {e}")))?;
    Ok(cpu)
}

fn known(fact: Fact<bool>) -> Option<bool> {
    match fact {
        Fact::Known(value) => Some(value),
        Fact::Unknown(_) => None,
    }
}

/// The machine's facts, with the CPU that was chosen.
pub fn facts(cpu: u32) -> Host {
    let mut host = host::gather(true);
    host::pin(&mut host, cpu);
    host
}

/// Where the allocators put buffers on their own, asked in rising lengths and before any pool is made.
fn placements(asked: &Asked, skipped: &mut Vec<Skipped>) -> Result<Vec<Placement>, Failure> {
    let mut lens: Vec<u64> = asked.short_lens().into_iter().chain(asked.long_lens()).collect();
    lens.sort_unstable();
    let mut placements = Vec::new();
    for allocator in &asked.allocators {
        for len in &lens {
            match allocator::natural(*allocator, *len as usize, NATURAL) {
                Ok(offsets) => placements.push(Placement {
                    allocator: *allocator,
                    len: *len,
                    how: "malloc, fresh".into(),
                    process: 0,
                    offsets,
                }),
                // a missing allocator is reported once its pool is opened
                Err(AllocatorError::Absent { .. }) => {}
                Err(error) => skipped.push(Skipped {
                    path: asked.paths[0],
                    allocator: Some(*allocator),
                    reason: format!("no natural offsets at {}: {error}", grid::size(*len)),
                }),
            }
        }
    }
    Ok(placements)
}

/// Natural offsets by allocator and length, each once.
pub fn natural_of(placements: &[Placement]) -> BTreeMap<(Allocator, u64), Vec<u16>> {
    let mut natural: BTreeMap<(Allocator, u64), Vec<u16>> = BTreeMap::new();
    for placement in placements {
        let offsets = natural.entry((placement.allocator, placement.len)).or_default();
        placement.offsets.iter().for_each(|o| {
            if !offsets.contains(o) {
                offsets.push(*o)
            }
        });
    }
    natural
}

/// Opens pools and paths; an allocator or a path that is not to be had is left out with its reason, and
/// so are long copies by default where memory is short.
fn machine(
    args: &SweepArgs,
    asked: &mut Asked,
    source: &Source,
    skipped: &mut Vec<Skipped>,
) -> Result<Machine, Failure> {
    let pools = match pools(args, asked, skipped) {
        Err(error @ AllocatorError::Memory { .. }) if args.len.is_empty() && asked.longest() > grid::FINE => {
            let reason = format!("{} left out: {error}", grid::size(asked.longest()));
            skipped.extend(asked.paths.iter().map(|p| Skipped {
                path: *p,
                allocator: None,
                reason: reason.clone(),
            }));
            asked.source_size = asked.source_size.min(LONG - 1);
            pools(args, asked, skipped)
        }
        other => other,
    }
    .map_err(Failure::line)?;
    room::for_samples(asked)?;
    let mut paths: Vec<Box<dyn CopyPath>> = Vec::new();
    let opener = Opener::new(source, asked.longest_without_file() as usize);
    for name in &asked.paths {
        match opener.open(*name) {
            Ok(path) => paths.push(path),
            Err(reason) => skipped.push(Skipped { path: *name, allocator: None, reason }),
        }
    }
    asked.allocators.retain(|a| pools.iter().any(|p| p.allocator() == *a));
    asked.paths.retain(|p| paths.iter().any(|path| path.name() == *p));
    if asked.allocators.is_empty() || asked.paths.is_empty() {
        let reasons: Vec<String> = skipped.iter().map(Skipped::told).collect();
        return Err(Failure::line(format!("nothing is left to measure: {}", reasons.join("; "))));
    }
    Ok(Machine { pools, paths, clock: Box::new(RealClock), source_size: asked.source_size })
}

fn pools(
    args: &SweepArgs,
    asked: &Asked,
    skipped: &mut Vec<Skipped>,
) -> Result<Vec<Box<dyn Pool>>, AllocatorError> {
    let spec = PoolSpec {
        max_len: asked.longest() as usize,
        pages: page_kind(args.pages),
        first_touch: args.first_touch,
        to_come: 1,
    };
    let mut pools = Vec::new();
    for (opened, allocator) in asked.allocators.iter().enumerate() {
        let to_come = (asked.allocators.len() - opened) as u64;
        match allocator::open(*allocator, &PoolSpec { to_come, ..spec }) {
            Ok(pool) => pools.push(pool),
            Err(AllocatorError::Absent { reason, .. }) => {
                let absent = Skipped { path: asked.paths[0], allocator: Some(*allocator), reason };
                if !skipped.contains(&absent) {
                    skipped.push(absent);
                }
            }
            Err(other) => return Err(other),
        }
    }
    Ok(pools)
}

fn notes(pools: &[Box<dyn Pool>]) -> Vec<String> {
    pools.iter().filter_map(|pool| Some(format!("{}: {}", pool.allocator(), pool.note()?))).collect()
}

/// The machine's own clock.
pub struct RealClock;

impl Clock for RealClock {
    fn precision_ns(&self) -> u64 {
        sys::clock::precision_ns()
    }

    fn chain_ns(&mut self) -> u64 {
        sys::clock::chain_ns()
    }
}

/// Takes what disturbed the run into the report.
pub fn note(noise: &mut Noise, seen: disturbance::Disturbance) {
    noise.context_switches = seen.context_switches;
    noise.page_faults = seen.page_faults;
    noise.steal_ns = seen.steal_ns;
    noise.throttled = seen.throttled;
    noise.frequency_khz = seen.frequency_khz;
}
