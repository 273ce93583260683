//! What one side says of a group at every offset of the circle: how slow, how surely, and whether it looked.

use super::super::questions::LONG;
use super::super::series::Key;
use super::side::{Judged, Side};
use crate::report::{Axis, Band, Cell, Depth, PAGE, PathVerdict, Phase, Scan, distance};
use std::collections::BTreeMap;

const CIRCLE: usize = PAGE as usize;

/// How slow an offset is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// Whether it lies in a confirmed deep band for certain.
    pub deep: bool,
    /// Slowdown - 1, lowest and highest.
    pub excess: [f64; 2],
    /// Penalty in ns per KiB, lowest and highest.
    pub penalty: [f64; 2],
}

/// A circle of offsets, each by its distance from the side that was not varied.
pub struct Map {
    pub levels: Vec<Option<Level>>,
    pub measured: Vec<bool>,
    /// The offset of the side that was not varied; none where nothing was measured.
    pub fixed: Option<u16>,
}

impl Map {
    /// A group along one scan, over the reports that tell of it.
    pub fn of(side: &Side<'_>, key: Key, scan: Scan) -> Map {
        let maps = side.conclusive(key).into_iter().map(|(r, p)| Map::of_report(r, p, key, scan));
        maps.reduce(Map::and).unwrap_or(Map {
            levels: vec![None; CIRCLE],
            measured: vec![false; CIRCLE],
            fixed: None,
        })
    }

    fn of_report(judged: &Judged<'_>, path: &PathVerdict, key: Key, scan: Scan) -> Map {
        let cells =
            || judged.report.cells.iter().filter(|c| (c.path, c.allocator) == (key.path, key.allocator));
        // a long length tests what a shorter one found, and looks at few offsets of its own
        let counts = |c: &&Cell| c.len == key.len || (key.len >= LONG && c.len < LONG);
        let screened = |c: &&Cell| judged.report.runs.get(c.run).is_some_and(|r| r.phase == Phase::Screen);
        let fixed = usual(cells().filter(counts).filter(screened).filter_map(|c| other(c, scan)));
        let mut measured = vec![false; CIRCLE];
        for cell in cells().filter(counts).filter(|c| other(c, scan) == fixed) {
            if let (Some(dst), Some(src)) = (cell.dst, cell.src) {
                measured[usize::from(distance(dst % PAGE, src % PAGE))] = true;
            }
        }
        let mut levels = vec![None; CIRCLE];
        for band in bands(path, key.path.own_scan(), scan) {
            mark(&mut levels, band, fixed.unwrap_or(0));
        }
        Map { levels, measured, fixed }
    }

    /// What two reports of one side say together.
    fn and(mut self, other: Map) -> Map {
        for (mine, theirs) in self.levels.iter_mut().zip(other.levels) {
            *mine = match (*mine, theirs) {
                (Some(a), Some(b)) => Some(Level {
                    deep: a.deep && b.deep,
                    excess: hull(a.excess, b.excess),
                    penalty: hull(a.penalty, b.penalty),
                }),
                (Some(one), None) | (None, Some(one)) => {
                    Some(Level { deep: false, excess: [0.0, one.excess[1]], penalty: [0.0, one.penalty[1]] })
                }
                (None, None) => None,
            };
        }
        for (mine, theirs) in self.measured.iter_mut().zip(other.measured) {
            *mine &= theirs;
        }
        if self.fixed != other.fixed {
            self.measured.fill(false);
        }
        self
    }

    /// Runs of certainly deep offsets, as first offset and width.
    pub fn deep_runs(&self) -> Vec<(usize, usize)> {
        let deep = |o: usize| self.levels[o % CIRCLE].is_some_and(|l| l.deep);
        let starts = (0..CIRCLE).filter(|o| deep(*o) && !deep(o + CIRCLE - 1));
        let mut runs: Vec<(usize, usize)> =
            starts.map(|from| (from, (from..from + CIRCLE).take_while(|o| deep(*o)).count())).collect();
        if runs.is_empty() && deep(0) {
            runs.push((0, CIRCLE));
        }
        runs
    }

    /// Whether no more than a quarter of a run of offsets was left unlooked at in one piece.
    pub fn covers(&self, (from, width): (usize, usize)) -> bool {
        let pieces = (from..from + width).map(|o| self.measured[o % CIRCLE]).collect::<Vec<bool>>();
        let longest = pieces.split(|m| *m).map(<[bool]>::len).max().unwrap_or(0);
        longest * 4 <= width
    }

    /// Whether nothing is slow at an offset and beside it: edges move by as much between runs.
    pub fn is_quiet(&self, offset: usize) -> bool {
        let near = [offset + CIRCLE - EDGE, offset, offset + EDGE];
        near.iter().all(|o| self.levels[o % CIRCLE].is_none())
    }
}

/// Offsets by which an edge may differ between runs without having changed.
const EDGE: usize = 1;

fn hull(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0].min(b[0]), a[1].max(b[1])]
}

/// The offset of the side that a scan does not vary.
fn other(cell: &Cell, scan: Scan) -> Option<u16> {
    match scan {
        Scan::Dst => cell.src,
        Scan::Src => cell.dst,
    }
    .map(|o| o % PAGE)
}

/// The value that occurs most often.
fn usual(offsets: impl Iterator<Item = u16>) -> Option<u16> {
    let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
    offsets.for_each(|o| *counts.entry(o).or_default() += 1);
    counts.into_iter().max_by_key(|(offset, count)| (*count, std::cmp::Reverse(*offset))).map(|(o, _)| o)
}

/// A group's bands found by one scan. What the second scan shows of a band that the main one found is left
/// out: only one of two reports may have told that they are the same.
fn bands(path: &PathVerdict, own: Scan, scan: Scan) -> impl Iterator<Item = &Band> {
    let known = move |band: &Band| {
        let meets = |main: &Band| {
            let place = placed(band, 0);
            let main = placed(main, 0);
            (0..place.1).any(|i| distance_in(place.0 + i, main))
        };
        path.bands.iter().any(|main| main.scan == own && meets(main))
    };
    path.bands.iter().filter(move |b| {
        let by_distance = matches!(b.axis, None | Some(Axis::Distance));
        b.scan == scan && (scan == own || !(by_distance && known(b)))
    })
}

fn distance_in(offset: u16, (from, width): (u16, u16)) -> bool {
    offset.wrapping_sub(from) % PAGE < width
}

/// A band's first distance and its width, with the other side at an offset.
fn placed(band: &Band, fixed: u16) -> (u16, u16) {
    let first = match (band.axis, band.scan) {
        (Some(Axis::Distance), _) => band.from,
        (_, Scan::Dst) => distance(band.from, fixed),
        (_, Scan::Src) => distance(fixed, band.to),
    };
    (first % PAGE, band.width())
}

/// Notes a band's level at every offset that it may cover.
fn mark(levels: &mut [Option<Level>], band: &Band, fixed: u16) {
    let reversed = band.scan == Scan::Src && band.axis != Some(Axis::Distance);
    let [mut before, mut after] = [slack(band.from_range, band.from), slack(band.to_range, band.to)];
    if reversed {
        (before, after) = ([after[1], after[0]], [before[1], before[0]]);
    }
    let (first, width) = placed(band, fixed);
    let decides = band.depth == Depth::Deep && band.confirmed;
    let [outward, inward] = [before[0], before[1]];
    let start = first.wrapping_sub(outward) % PAGE;
    let whole = (width + outward + after[1]).min(PAGE);
    // a band whose ends are all doubt is certain in its middle
    let (inward, last) = match inward + after[0] < width {
        true => (inward, width - after[0]),
        false => (width / 2, width / 2 + 1),
    };
    let certain = outward + inward..outward + last;
    let level = |interval: Option<[f64; 2]>, middle: f64, from: f64| {
        interval.unwrap_or([middle; 2]).map(|v| (v - from).max(0.0))
    };
    for step in 0..whole {
        let here = Level {
            deep: decides && certain.contains(&step),
            excess: level(band.slowdown_ci95, band.slowdown, 1.0),
            penalty: level(band.penalty_ci95, band.penalty_ns_per_kib, 0.0),
        };
        let place = &mut levels[usize::from(start.wrapping_add(step) % PAGE)];
        // of two bands that may cover an offset the certain, then the slower one counts
        let rank = |l: &Level| (l.deep, l.excess[1]);
        if place.as_ref().is_none_or(|known| rank(known) < rank(&here)) {
            *place = Some(here);
        }
    }
}

/// How far an edge could lie before and after the place named, on the circle.
fn slack(range: Option<[u16; 2]>, at: u16) -> [u16; 2] {
    range.map_or([0, 0], |[low, high]| [distance(at, low), distance(high, at)])
}
