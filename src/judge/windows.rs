//! At which lengths a band exists: a ladder of lengths, then bisection to the byte.
//!
//! Pure like all judging: a report whose search is unfinished asks for one more length, and the samples of
//! runs of the phase `lengths` answer. At each length copies at distances inside every published deep band
//! are compared with copies far from all of them.

use super::questions::Questions;
use super::stats;
use crate::report::{Allocator, Cause, Cell, CellSpec, PathName, Phase, Report, State, Window};
use std::collections::{BTreeMap, BTreeSet};

/// The shortest length that a search takes, in bytes.
pub const SHORTEST: u64 = 64;
/// The longest length that a search takes, in bytes.
pub const LONGEST: u64 = 4 << 20;

/// Rounds of one visit to a length, and visits until the majority decides.
const ROUNDS: u32 = 15;
const VISITS: usize = 3;

/// The share of rounds that must agree.
const AGREE: f64 = 0.75;

/// Destinations at src 0x000 that lie in a band wherever one was published, and such as lie in none; all
/// of them off multiples of 0x20, so that misalignment is alike.
const NEAR: [u16; 5] = [1, 4, 8, 11, 15];
const FAR: [u16; 9] = [0x405, 0x44b, 0x491, 0x4d7, 0x51d, 0x563, 0x5a9, 0x5ef, 0x635];

/// The next length to sample, if the search is not at its end.
pub fn lengths(report: &Report, allocator: Allocator, paths: &[PathName]) -> Option<Questions> {
    let next = |path: &PathName| Some((*path, next_len(report, &known(report, *path))?));
    let (path, len) = paths.iter().find_map(next)?;
    let cell = |dst, reference| CellSpec { path, allocator: Some(allocator), len, dst, src: 0, reference };
    let cells = NEAR.map(|dst| cell(dst, false)).into_iter().chain(FAR.map(|dst| cell(dst, true)));
    Some(Questions { phase: Phase::Lengths, rounds: ROUNDS, cells: cells.collect() })
}

/// What is known of one length.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    rounds: usize,
    slow: usize,
    visits: usize,
}

impl Known {
    /// Whether the length shows a band; none while the rounds disagree.
    fn verdict(&self) -> Option<bool> {
        let share = self.slow as f64 / self.rounds.max(1) as f64;
        match share {
            _ if self.rounds == 0 => None,
            share if share >= AGREE => Some(true),
            share if share <= 1.0 - AGREE => Some(false),
            share => (self.visits >= VISITS).then_some(share > 0.5),
        }
    }

    /// Whether only the majority of many rounds decided.
    fn is_unsure(&self) -> bool {
        let share = self.slow as f64 / self.rounds.max(1) as f64;
        share < AGREE && share > 1.0 - AGREE
    }
}

/// Every length of a path that was looked at.
fn known(report: &Report, path: PathName) -> BTreeMap<u64, Known> {
    let mut by_run: BTreeMap<(u64, usize), Vec<&Cell>> = BTreeMap::new();
    let searched =
        |c: &&Cell| c.path == path && report.runs.get(c.run).is_some_and(|run| run.phase == Phase::Lengths);
    for cell in report.cells.iter().filter(searched) {
        by_run.entry((cell.len, cell.run)).or_default().push(cell);
    }
    let mut known: BTreeMap<u64, Known> = BTreeMap::new();
    for ((len, run), cells) in by_run {
        let entry = known.entry(len).or_default();
        entry.visits += 1;
        for round in 0..report.runs[run].rounds as usize {
            let typical = |reference: bool| {
                let of = cells.iter().filter(|c| c.reference == reference);
                stats::median_of(of.filter_map(|c| c.ns.get(round).copied().flatten()).map(|ns| ns as f64))
            };
            let Some((near, far)) = typical(false).zip(typical(true)) else { continue };
            entry.rounds += 1;
            entry.slow += usize::from(near >= report.run.options.affected_at * far);
        }
    }
    known
}

/// Powers of two and the steps half-way between, and the C library's thresholds with their neighbours.
fn ladder(report: &Report) -> Vec<u64> {
    let powers = (SHORTEST.ilog2()..=LONGEST.ilog2()).flat_map(|k| [1 << k, 3 << (k - 1)]);
    let libc = &report.host.libc;
    let thresholds = [libc.rep_movsb_threshold, libc.rep_movsb_stop_threshold, libc.non_temporal_threshold];
    let around = thresholds.into_iter().flatten().flat_map(|t| [t.saturating_sub(1), t, t.saturating_add(1)]);
    let mut lens: Vec<u64> = powers.chain(around).filter(|len| (SHORTEST..=LONGEST).contains(len)).collect();
    lens.sort_unstable();
    lens.dedup();
    lens
}

/// First the ladder, then the middle between two lengths that differ.
fn next_len(report: &Report, known: &BTreeMap<u64, Known>) -> Option<u64> {
    let open = |len: &u64| known.get(len).is_none_or(|k| k.verdict().is_none() && k.visits < VISITS);
    if let Some(len) = ladder(report).into_iter().find(open) {
        return Some(len);
    }
    if let Some((len, _)) = known.iter().find(|(len, _)| open(len)) {
        return Some(*len);
    }
    let lens: Vec<(u64, bool)> = decided(known).collect();
    let differing = lens.windows(2).find(|pair| pair[0].1 != pair[1].1 && pair[1].0 - pair[0].0 > 1)?;
    Some(differing[0].0.midpoint(differing[1].0))
}

fn decided(known: &BTreeMap<u64, Known>) -> impl Iterator<Item = (u64, bool)> + '_ {
    known.iter().filter_map(|(len, known)| Some((*len, known.verdict()?)))
}

/// What a search found.
pub struct Found {
    pub windows: Vec<Window>,
    pub causes: Vec<Cause>,
    pub reasons: Vec<String>,
    pub state: State,
}

/// What the search for lengths found; none where there was none.
pub fn found(report: &Report) -> Option<Found> {
    let searched: Vec<PathName> =
        report.run.options.paths.iter().copied().filter(|p| !known(report, *p).is_empty()).collect();
    if searched.is_empty() {
        return None;
    }
    let mut found = Found { windows: vec![], causes: vec![], reasons: vec![], state: State::Clean };
    let mut open = !report.run.complete;
    for path in searched {
        let known = known(report, path);
        let windows = windows(path, &known);
        found.causes.extend(predicted(report, path, &windows));
        found.windows.extend(windows);
        for (len, _) in known.iter().filter(|(_, k)| k.is_unsure()) {
            open = true;
            found
                .reasons
                .push(format!("the rounds disagree on {path} at {len} B: a quieter machine would settle it"));
        }
    }
    if found.windows.is_empty() && !open {
        found.reasons.push(clean_reason(report));
    }
    found.state = match (found.windows.is_empty(), open) {
        (false, _) => State::Affected,
        (true, true) => State::Inconclusive,
        (true, false) => State::Clean,
    };
    Some(found)
}

/// What was looked at where no length shows a band.
fn clean_reason(report: &Report) -> String {
    let lens: BTreeSet<u64> = report.cells.iter().map(|cell| cell.len).collect();
    format!(
        "no deep band at {} lengths from {SHORTEST} B to {LONGEST} B: at each, three rounds of four and more stayed below \
         {}x",
        lens.len(),
        report.run.options.affected_at
    )
}

/// Runs of lengths that show a band.
fn windows(path: PathName, known: &BTreeMap<u64, Known>) -> Vec<Window> {
    let lens: Vec<(u64, bool)> = decided(known).collect();
    let ends = [lens.first().map(|l| l.0), lens.last().map(|l| l.0)];
    let runs = lens.chunk_by(|a, b| a.1 == b.1).filter(|run| run[0].1);
    runs.map(|run| {
        let (from_len, to_len) = (run[0].0, run[run.len() - 1].0);
        let [from_open, to_open] = [Some(from_len) == ends[0], Some(to_len) == ends[1]];
        Window { path, from_len, to_len, from_open, to_open }
    })
    .collect()
}

/// The C library's thresholds beside what was found of its memcpy.
fn predicted(report: &Report, path: PathName, windows: &[Window]) -> Option<Cause> {
    let libc = &report.host.libc;
    let (after, stop) = (libc.rep_movsb_threshold?, libc.rep_movsb_stop_threshold?);
    if path != PathName::Memcpy {
        return None;
    }
    // a window of no length where memcpy runs none at all
    let none = libc.erms_switched_off() || stop.saturating_sub(1) <= after;
    let (from, to) = if none { (0, 0) } else { (after.saturating_add(1), stop.saturating_sub(1)) };
    let lengths = if none { "at no length".into() } else { format!("from {from} to {to} B") };
    let measured: Vec<String> =
        windows.iter().map(|w| format!("a band from {} to {} B", w.from_len, w.to_len)).collect();
    let agrees = |w: &Window| {
        let starts = w.from_len == from.max(SHORTEST) || w.from_open && from <= w.from_len;
        starts && (w.to_len == to || w.to_open && to >= w.to_len)
    };
    let contradiction = (!windows.is_empty() && !matches!(windows, [one] if agrees(one))).then(|| {
        format!(
            "memcpy has {}, while the loader's settings let it use rep movsb {lengths}",
            measured.join(" and ")
        )
    });
    Some(Cause {
        layer: "libc".into(),
        predicted: format!("memcpy uses rep movsb {lengths}"),
        measured: if measured.is_empty() { "no band at any length".into() } else { measured.join(" and ") },
        contradiction,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_and_far_are_alike_in_alignment_and_apart_in_distance() {
        assert!(NEAR.iter().chain(&FAR).all(|dst| dst % 32 != 0));
        assert!(NEAR.iter().all(|dst| *dst <= 15) && FAR.iter().all(|dst| *dst > 0x300));
    }

    #[test]
    fn rounds_that_disagree_are_asked_again_and_then_outvoted() {
        let known = |slow, visits| Known { rounds: 15 * visits, slow, visits };
        assert_eq!([known(15, 1).verdict(), known(2, 1).verdict()], [Some(true), Some(false)]);
        assert_eq!([known(8, 1).verdict(), known(24, 3).verdict()], [None, Some(true)]);
        assert!(known(24, 3).is_unsure() && !known(44, 3).is_unsure());
        assert_eq!(Known::default().verdict(), None);
    }
}
