//! The rounds: in each, every rung, yardstick, mapping and sweep once, in fresh random order.

use super::job::{Answer, Counts, Job, Put, Segment, Take, Touch, Waiting, Way};
use super::pair::{self, Trouble};
use super::{Spec, ram};
use crate::report::{
    HugeFound, Mapping, Moved, OffsetCell, OffsetSweep, PAGE, Pipe, PipeSample, Rung, printable,
};
use crate::sys::descriptor;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::io;
use std::os::fd::AsFd;

/// What is to be measured, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The CPUs of writer and reader.
    pub cpus: [u32; 2],
    /// Rungs and yardsticks.
    pub specs: Vec<Spec>,
    /// Bytes of one call.
    pub buffer: usize,
    /// Bytes of the pipe.
    pub pipe: usize,
    /// Bytes of one sample.
    pub bytes: u64,
    /// Bytes of one sample at one page offset.
    pub sweep_bytes: u64,
    /// Rounds.
    pub rounds: u32,
    /// Seed of all random choices.
    pub seed: u64,
    /// SPLICE_F_GIFT.
    pub gift: bool,
    /// Non-blocking calls with poll(2) in place of calls that wait.
    pub poll: bool,
    /// One buffer again and again.
    pub same_buffer: bool,
    /// Whether buffers are touched.
    pub touch: Touch,
    /// Whether every byte is checked.
    pub verify: bool,
    /// Page offsets of the writer's buffer to sweep.
    pub src: Vec<u16>,
    /// Page offsets of the reader's buffer to sweep.
    pub dst: Vec<u16>,
}

/// Why the rounds ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// A signal came; what was measured stands.
    Signal,
    /// Something broke, for people.
    Broken(String),
}

/// One visit of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visit {
    Rung(usize),
    Mapping(usize),
    Sweep(usize),
}

/// The pipe that the kernel gives when asked for `wanted` bytes: at least that, or less where it refuses.
///
/// # Errors
/// Where there are no pipes at all.
pub fn granted(wanted: usize) -> io::Result<usize> {
    let (_reader, writer) = io::pipe()?;
    let mut ask = wanted;
    loop {
        match descriptor::set_pipe_capacity(writer.as_fd(), ask) {
            Ok(granted) => return Ok(granted),
            Err(_) if ask > usize::from(PAGE) => ask /= 2,
            Err(error) => return Err(error),
        }
    }
}

/// Climbs: fills `pipe` with samples, all rounds or as many as there were. `stop` tells whether a signal
/// came, `tell` hears of each visit.
pub fn climb(
    plan: &Plan,
    pipe: &mut Pipe,
    stop: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(),
) -> Option<Stopped> {
    prepare(plan, pipe);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
    let mut visits = visits(plan, pipe);
    for round in 0..plan.rounds {
        visits.shuffle(&mut random);
        for visit in &visits {
            let trouble = match *visit {
                Visit::Rung(index) => sample(plan, pipe, index, round, stop),
                Visit::Mapping(index) => map(plan, &mut pipe.mapping[index], stop),
                Visit::Sweep(index) => sweep(plan, &mut pipe.sweeps[index], &mut random, stop),
            };
            match trouble {
                Ok(()) => tell(),
                Err(Trouble::Stopped) => return Some(Stopped::Signal),
                Err(Trouble::Refused(why) | Trouble::Broken(why)) => return Some(Stopped::Broken(why)),
            }
        }
    }
    None
}

/// How many visits there will be.
pub fn length(plan: &Plan) -> u64 {
    let mut pipe = Pipe::default();
    prepare(plan, &mut pipe);
    visits(plan, &pipe).len() as u64 * u64::from(plan.rounds)
}

/// The entries to fill.
fn prepare(plan: &Plan, pipe: &mut Pipe) {
    for spec in &plan.specs {
        let entry = Rung {
            name: spec.name.into(),
            over: spec.over.map(Into::into),
            exposed: spec.exposed(),
            verified: plan.verify && spec.way.put != Put::Nothing,
            ..Rung::default()
        };
        if super::RUNGS.contains(spec) { &mut pipe.rungs } else { &mut pipe.yardsticks }.push(entry);
        for (moved, offsets, can) in
            [(Moved::Src, &plan.src, spec.has_src()), (Moved::Dst, &plan.dst, spec.has_dst())]
        {
            if can && !offsets.is_empty() {
                pipe.sweeps.push(to_sweep(plan, spec, moved, offsets));
            }
        }
    }
    // what it costs explains the rungs that map, and nothing else
    let maps = plan.specs.iter().any(|s| s.way.put == Put::Vmsplice);
    for pages in ["4k", "huge"].into_iter().filter(|_| maps) {
        pipe.mapping.push(Mapping { pages: pages.into(), ..Mapping::default() });
    }
}

fn to_sweep(plan: &Plan, spec: &Spec, moved: Moved, offsets: &[u16]) -> OffsetSweep {
    let mut offsets = offsets.to_vec();
    offsets.push(0);
    offsets.sort_unstable();
    offsets.dedup();
    let cell = |offset| OffsetCell { offset, ns: vec![], slowdown: None };
    OffsetSweep {
        rung: spec.name.into(),
        moved,
        cells: offsets.into_iter().map(cell).collect(),
        bytes: plan.sweep_bytes,
        bands: vec![],
        skipped: None,
    }
}

fn visits(plan: &Plan, pipe: &Pipe) -> Vec<Visit> {
    let rungs = (0..plan.specs.len()).map(Visit::Rung);
    let mapping = (0..pipe.mapping.len()).map(Visit::Mapping);
    rungs.chain(mapping).chain((0..pipe.sweeps.len()).map(Visit::Sweep)).collect()
}

fn job(plan: &Plan, way: Way, segments: Vec<Segment>) -> Job {
    let waiting = match (way.busy, plan.poll) {
        (true, _) => Waiting::Busy,
        (false, true) => Waiting::Poll,
        (false, false) => Waiting::Block,
    };
    Job {
        parent: std::process::id(),
        cpus: plan.cpus,
        way,
        waiting,
        buffer: plan.buffer,
        pipe: plan.pipe,
        gift: plan.gift,
        same_buffer: plan.same_buffer,
        touch: plan.touch,
        verify: plan.verify.then_some(plan.seed),
        segments,
    }
}

/// The answers, or the reason why this way is not to be had here.
fn answers(name: &str, job: &Job, stop: &dyn Fn() -> bool) -> Result<Result<Vec<Answer>, String>, Trouble> {
    match pair::run(job, stop) {
        Ok(answers) => Ok(Ok(answers)),
        Err(Trouble::Refused(why)) => Ok(Err(printable(&why, 300))),
        Err(Trouble::Broken(why)) => Err(Trouble::Broken(format!("{name}: {}", printable(&why, 300)))),
        Err(Trouble::Stopped) => Err(Trouble::Stopped),
    }
}

fn sample(
    plan: &Plan,
    pipe: &mut Pipe,
    index: usize,
    round: u32,
    stop: &dyn Fn() -> bool,
) -> Result<(), Trouble> {
    let spec = &plan.specs[index];
    let mut entries = pipe.rungs.iter_mut().chain(&mut pipe.yardsticks);
    let Some(entry) = entries.find(|r| r.name == spec.name && r.skipped.is_none()) else { return Ok(()) };
    let job = job(plan, spec.way, vec![Segment { dst: 0, src: 0, bytes: plan.bytes }]);
    match answers(spec.name, &job, stop)? {
        Err(why) => entry.skipped = Some(why),
        Ok(answers) => {
            let [writer, reader] = sides(&answers);
            let Some(counts) = reader.first() else { return Ok(()) };
            let writer = writer.first();
            let began = writer.map_or(counts.began_ns, |w| w.began_ns.min(counts.began_ns));
            entry.samples.push(PipeSample {
                round,
                bytes: counts.bytes,
                ns: counts.ended_ns.saturating_sub(began),
                writer: writer.and_then(|w| w.counted),
                reader: counts.counted,
            });
            entry.huge = huge(&answers);
        }
    }
    Ok(())
}

/// Writer's and reader's counts; a process alone is the reader.
fn sides(answers: &[Answer]) -> [&[Counts]; 2] {
    match answers {
        [writer, reader] => [counts(writer), counts(reader)],
        others => [&[], others.first().map_or(&[], counts)],
    }
}

fn counts(answer: &Answer) -> &[Counts] {
    match answer {
        Answer::Done { segments, .. } => segments,
        Answer::Ended(_) => &[],
    }
}

/// What was found of huge pages on both sides together.
fn huge(answers: &[Answer]) -> Option<HugeFound> {
    let found = answers.iter().filter_map(|a| match a {
        Answer::Done { huge, .. } => huge.clone(),
        Answer::Ended(_) => None,
    });
    found.reduce(|a, b| HugeFound {
        asked: a.asked + b.asked,
        found: a.found.zip(b.found).map(|(a, b)| a + b),
        unknown: a.unknown.or(b.unknown),
    })
}

fn map(plan: &Plan, mapping: &mut Mapping, stop: &dyn Fn() -> bool) -> Result<(), Trouble> {
    if mapping.skipped.is_some() {
        return Ok(());
    }
    let way = Way { put: Put::Nothing, take: Take::Mapping, huge: mapping.pages == "huge", busy: false };
    // More would only be the same again.
    let bytes = plan.bytes.min(ram::MOST);
    let job = job(plan, way, vec![Segment { dst: 0, src: 0, bytes }]);
    match answers("mapping pages", &job, stop)? {
        Err(why) => mapping.skipped = Some(why),
        Ok(answers) => {
            let [_, counts] = sides(&answers);
            let per_page = |c: &Counts| c.ended_ns as f64 * f64::from(PAGE) / c.bytes.max(1) as f64;
            mapping.samples.extend(counts.first().map(per_page));
            mapping.huge = huge(&answers);
        }
    }
    Ok(())
}

/// All offsets of a sweep once, in fresh random order, by one pair of processes.
fn sweep(
    plan: &Plan,
    sweep: &mut OffsetSweep,
    random: &mut Xoshiro256PlusPlus,
    stop: &dyn Fn() -> bool,
) -> Result<(), Trouble> {
    let Some(spec) = Spec::named(&sweep.rung).filter(|_| sweep.skipped.is_none()) else { return Ok(()) };
    let mut order: Vec<usize> = (0..sweep.cells.len()).collect();
    order.shuffle(random);
    let segment = |offset, bytes| match sweep.moved {
        Moved::Src => Segment { dst: 0, src: offset, bytes },
        Moved::Dst => Segment { dst: offset, src: 0, bytes },
    };
    // The first one meets cold buffers and is thrown away.
    let warm_up = std::iter::once(segment(0, sweep.bytes));
    let visits = order.iter().map(|cell| segment(sweep.cells[*cell].offset, sweep.bytes));
    let job = job(plan, spec.way, warm_up.chain(visits).collect());
    match answers(&sweep.rung, &job, stop)? {
        Err(why) => sweep.skipped = Some(why),
        Ok(answers) => {
            let [writer, reader] = sides(&answers);
            let times =
                writer.iter().zip(reader).map(|(w, r)| r.ended_ns.saturating_sub(w.began_ns.min(r.began_ns)));
            for (cell, ns) in order.into_iter().zip(times.skip(1)) {
                sweep.cells[cell].ns.push(ns);
            }
        }
    }
    Ok(())
}
