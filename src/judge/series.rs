//! Cells gathered into series, and their times turned into slowdowns.
//!
//! A series is all cells of one (path, allocator, length) that one sweep varied. Each block's times are
//! divided by the block's own references of the same alignment class, so that drift cancels.

use super::stats;
use crate::report::{Allocator, Cell, PAGE, PathName, Phase, Report, Scan, distance};
use std::collections::BTreeMap;

/// What a series is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub path: PathName,
    pub allocator: Option<Allocator>,
    pub len: u64,
}

impl Key {
    pub fn of(cell: &Cell) -> Key {
        Key { path: cell.path, allocator: cell.allocator, len: cell.len }
    }
}

/// What was varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// One side; the other stayed at the offset named.
    Line(Scan, u16),
    /// Both sides.
    Plane,
}

/// How an offset relates to 32 and 64 bytes. Misalignment costs something on every machine, so cells
/// are compared within their class only. Odd multiples of 0x20 are a class of their own: Intel cores
/// were measured to favour multiples of 0x40 alone, AMD's those of 0x20.
pub const CLASSES: usize = 3;

/// From this factor on a class of better alignment is slower than one of worse.
const SLOWER: f64 = 1.15;

/// The alignment class of an offset: multiples of 0x40, odd multiples of 0x20, and the rest.
pub fn class_of(offset: u16) -> usize {
    match offset % 64 {
        0 => 0,
        32 => 1,
        _ => 2,
    }
}

/// The cells of one run within a series.
pub struct Part<'a> {
    pub run: usize,
    pub rounds: usize,
    pub cells: Vec<&'a Cell>,
    /// Natural logarithms of one copy's nanoseconds, per cell and round; NaN where lost.
    log_ns: Vec<Vec<f64>>,
}

/// One sweep's cells, over all runs that sampled it.
pub struct Series<'a> {
    pub key: Key,
    pub shape: Shape,
    pub parts: Vec<Part<'a>>,
}

/// A part's cells against their references.
pub struct Relative {
    /// Log slowdown, per cell and round; NaN where lost.
    pub logs: Vec<Vec<f64>>,
    /// Log nanoseconds of the references, per class and round.
    pub base: [Vec<f64>; CLASSES],
    /// Each cell's class.
    classes: Vec<usize>,
}

impl Relative {
    /// The log nanoseconds, one a round, that a cell was compared with.
    pub fn base_of(&self, cell: usize) -> &[f64] {
        &self.base[self.classes[cell]]
    }
}

/// The series of a report's screen runs.
pub fn screens(report: &Report) -> Vec<Series<'_>> {
    let mut by_run: BTreeMap<(Key, usize), Vec<&Cell>> = BTreeMap::new();
    for cell in &report.cells {
        if phase(report, cell) == Some(Phase::Screen) && cell.dst.is_some() && cell.src.is_some() {
            by_run.entry((Key::of(cell), cell.run)).or_default().push(cell);
        }
    }
    let mut series: BTreeMap<(Key, Shape), Vec<Part<'_>>> = BTreeMap::new();
    for ((key, run), cells) in by_run {
        let rounds = report.runs[run].rounds as usize;
        if let Some(shape) = shape_of(&cells).filter(|_| rounds > 0) {
            series.entry((key, shape)).or_default().push(Part::new(run, rounds, cells));
        }
    }
    series.into_iter().map(|((key, shape), parts)| Series { key, shape, parts }).collect()
}

/// A key's cells of the confirm runs, all shapes together: at most one part a run.
pub fn confirms<'a>(report: &'a Report, key: Key) -> Vec<Part<'a>> {
    let mut by_run: BTreeMap<usize, Vec<&Cell>> = BTreeMap::new();
    for cell in &report.cells {
        if Key::of(cell) == key && phase(report, cell) == Some(Phase::Confirm) {
            by_run.entry(cell.run).or_default().push(cell);
        }
    }
    by_run
        .into_iter()
        .map(|(run, cells)| Part::new(run, report.runs[run].rounds as usize, cells))
        .filter(|part| part.rounds > 0)
        .collect()
}

fn phase(report: &Report, cell: &Cell) -> Option<Phase> {
    report.runs.get(cell.run).map(|run| run.phase)
}

/// What a run varied for one key. A single cell is no sweep.
fn shape_of(cells: &[&Cell]) -> Option<Shape> {
    let first = cells.first()?;
    let (dst, src) = (first.dst?, first.src?);
    let one_src = cells.iter().all(|c| c.src == Some(src));
    let one_dst = cells.iter().all(|c| c.dst == Some(dst));
    match (one_dst, one_src) {
        (true, true) => None,
        (false, true) => Some(Shape::Line(Scan::Dst, src)),
        (true, false) => Some(Shape::Line(Scan::Src, dst)),
        (false, false) => Some(Shape::Plane),
    }
}

impl Shape {
    /// The offset that a cell is placed at in this sweep, on the circle. In a plane: its distance.
    pub fn offset(self, cell: &Cell) -> u16 {
        let (dst, src) = (cell.dst.unwrap_or(0) % PAGE, cell.src.unwrap_or(0) % PAGE);
        match self {
            Shape::Line(Scan::Dst, _) => dst,
            Shape::Line(Scan::Src, _) => src,
            Shape::Plane => distance(dst, src),
        }
    }

    /// The offset whose alignment decides a cell's class.
    pub fn aligned_by(self, cell: &Cell) -> u16 {
        match self {
            Shape::Line(Scan::Src, _) => cell.src.unwrap_or(0) % PAGE,
            _ => cell.dst.unwrap_or(0) % PAGE,
        }
    }

    /// Whether a cell lies on this sweep's line.
    pub fn holds(self, cell: &Cell) -> bool {
        match self {
            Shape::Line(Scan::Dst, src) => cell.src == Some(src),
            Shape::Line(Scan::Src, dst) => cell.dst == Some(dst),
            Shape::Plane => true,
        }
    }
}

impl<'a> Part<'a> {
    fn new(run: usize, rounds: usize, cells: Vec<&'a Cell>) -> Part<'a> {
        let log = |cell: &Cell| {
            let one = |ns: &Option<u64>| match ns {
                Some(ns) if *ns > 0 => (*ns as f64 / f64::from(cell.repeat.max(1))).ln(),
                _ => f64::NAN,
            };
            // a report that is no work of fsprobe's may hold any number of samples
            let mut row: Vec<f64> = cell.ns.iter().map(one).collect();
            row.resize(rounds, f64::NAN);
            row
        };
        let log_ns = cells.iter().map(|c| log(c)).collect();
        Part { run, rounds, cells, log_ns }
    }

    /// Divides by the references' `quantile` in each block, those that `avoid` names left out.
    pub fn relative(&self, shape: Shape, quantile: f64, avoid: impl Fn(&Cell) -> bool) -> Relative {
        let class = |cell: &Cell| class_of(shape.aligned_by(cell));
        let marked = self.cells.iter().any(|c| c.reference);
        let is_reference = |cell: &Cell| (cell.reference || !marked) && shape.holds(cell) && !avoid(cell);
        let members: Vec<usize> = (0..self.cells.len()).filter(|i| is_reference(self.cells[*i])).collect();
        let of_class = |wanted: usize| -> Vec<usize> {
            let own: Vec<usize> =
                members.iter().copied().filter(|i| class(self.cells[*i]) == wanted).collect();
            // a class with hardly a reference borrows all of them rather than compare with noise
            if own.len() >= 3 { own } else { members.clone() }
        };
        let mut base: [Vec<f64>; CLASSES] = std::array::from_fn(|wanted| {
            let own = of_class(wanted);
            (0..self.rounds).map(|round| self.reference_log(&own, round, quantile)).collect()
        });
        // better alignment never costs: a class that is slower than the least aligned one is slow itself
        let typical = |base: &Vec<f64>| stats::median_of(base.iter().copied().filter(|v| !v.is_nan()));
        for class in 0..CLASSES - 1 {
            let least = typical(&base[CLASSES - 1]);
            if typical(&base[class]).zip(least).is_some_and(|(own, least)| own > least + SLOWER.ln()) {
                base[class] = base[CLASSES - 1].clone();
            }
        }
        let classes: Vec<usize> = self.cells.iter().map(|c| class(c)).collect();
        let against = |(row, class): (&Vec<f64>, &usize)| {
            row.iter().zip(&base[*class]).map(|(ns, base)| ns - base).collect()
        };
        let logs = self.log_ns.iter().zip(&classes).map(against).collect();
        Relative { logs, base, classes }
    }

    fn reference_log(&self, members: &[usize], round: usize, quantile: f64) -> f64 {
        let mut values: Vec<f64> =
            members.iter().map(|i| self.log_ns[*i][round]).filter(|v| !v.is_nan()).collect();
        let value =
            if quantile == 0.5 { stats::median(&mut values) } else { stats::quantile(&mut values, quantile) };
        value.unwrap_or(f64::NAN)
    }

    /// The median log time of one copy over the cells that `keep` names, and over rounds.
    pub fn typical_log_ns(&self, keep: impl Fn(&Cell) -> bool) -> Option<f64> {
        let rows = self.cells.iter().zip(&self.log_ns).filter(|(c, _)| keep(c));
        let medians =
            rows.filter_map(|(_, row)| stats::median_of(row.iter().copied().filter(|v| !v.is_nan())));
        stats::median_of(medians)
    }
}

/// One offset with the log slowdowns of all its samples.
pub struct Point {
    pub offset: u16,
    /// The median log slowdown.
    pub level: f64,
    pub logs: Vec<f64>,
}

/// A sweep's offsets in rising order.
pub struct Profile {
    pub points: Vec<Point>,
}

impl Profile {
    /// Gathers samples by the offset that `place` gives a cell.
    pub fn gather<'a>(
        parts: impl IntoIterator<Item = (&'a Part<'a>, &'a Relative)>,
        place: impl Fn(&Cell) -> Option<u16>,
    ) -> Profile {
        let mut by_offset: BTreeMap<u16, Vec<f64>> = BTreeMap::new();
        for (part, relative) in parts {
            for (cell, logs) in part.cells.iter().zip(&relative.logs) {
                if let Some(offset) = place(cell) {
                    by_offset.entry(offset).or_default().extend(logs.iter().filter(|v| !v.is_nan()));
                }
            }
        }
        let point = |(offset, logs): (u16, Vec<f64>)| {
            let level = stats::median_of(logs.iter().copied())?;
            Some(Point { offset, level, logs })
        };
        Profile { points: by_offset.into_iter().filter_map(point).collect() }
    }

    /// The point at an offset, where it was sampled.
    pub fn at(&self, offset: u16) -> Option<&Point> {
        self.points.binary_search_by_key(&offset, |p| p.offset).ok().map(|i| &self.points[i])
    }
}
