//! The heat map of a two-dimensional sweep: destinations down, sources across, the slowest of each spot.

use super::Style;
use crate::render::number::{bytes, offset, on_circle, times_briefly};
use crate::render::text::{Paint, paint, paragraph};
use crate::report::{Allocator, Axis, PathName, Report};
use std::collections::{BTreeMap, BTreeSet};

/// The most rows and columns of a map.
const ROWS: usize = 32;
const COLUMNS: usize = 64;
/// Before the map: a row's offset and a blank.
const LABEL: usize = 6;
/// Columns from one label of the source axis to the next.
const EVERY: usize = 8;
/// Multiples of this are compared among themselves.
const ALIGNMENT: u16 = 0x20;

/// The steps of slowdown: from this factor on, this sign, this colour (of 256) behind it.
const STEPS: [(f64, char, u8); 8] = [
    (0.0, '.', 22),
    (1.2, ':', 28),
    (1.5, '-', 100),
    (2.0, '+', 136),
    (3.0, '*', 166),
    (5.0, '#', 160),
    (8.0, '%', 124),
    (14.0, '@', 52),
];

/// What one map shows.
pub type Key = (PathName, u64, Option<Allocator>);

/// Nanoseconds of one copy by (dst, src).
type Times = BTreeMap<(u16, u16), f64>;

/// The maps of every path, length and allocator that was swept over both sides.
pub fn maps(report: &Report, path: PathName, style: Style) -> Vec<String> {
    planes(report, path).iter().map(|plane| text(report, plane, style)).collect()
}

/// The steps of slowdown, by the factor each begins with.
pub fn steps() -> [f64; 8] {
    STEPS.map(|(from, ..)| from)
}

/// What a sweep over both sides found.
pub struct Plane {
    pub key: Key,
    /// The destinations swept, in order.
    pub dst: Vec<u16>,
    /// The sources.
    pub src: Vec<u16>,
    times: Times,
    clean: [f64; 2],
}

impl Plane {
    /// The slowest of some destinations and sources: how many times slower than unaffected copies.
    pub fn slowest(&self, dst: &[u16], src: &[u16]) -> Option<f64> {
        let places = dst.iter().flat_map(|d| src.iter().map(move |s| (*d, *s)));
        let factors =
            places.filter_map(|at| Some(self.times.get(&at)? / self.clean[usize::from(is_aligned(at.0))]));
        factors.reduce(f64::max)
    }
}

/// The planes of a path, one a length and allocator.
pub fn planes(report: &Report, path: PathName) -> Vec<Plane> {
    let mut by_key: BTreeMap<Key, BTreeMap<(u16, u16), Vec<f64>>> = BTreeMap::new();
    for cell in report.cells.iter().filter(|c| c.path == path) {
        let (Some(dst), Some(src)) = (cell.dst, cell.src) else { continue };
        let ns = cell
            .ns
            .iter()
            .flatten()
            .filter(|ns| **ns > 0)
            .map(|ns| *ns as f64 / f64::from(cell.repeat.max(1)));
        let places = by_key.entry((cell.path, cell.len, cell.allocator)).or_default();
        places.entry((on_circle(dst), on_circle(src))).or_default().extend(ns);
    }
    let typical = |mut ns: Vec<f64>| {
        ns.sort_unstable_by(f64::total_cmp);
        ns.get(ns.len() / 2).copied()
    };
    let map = |(key, places): (Key, BTreeMap<_, Vec<f64>>)| {
        let times: Times = places.into_iter().filter_map(|(at, ns)| Some((at, typical(ns)?))).collect();
        let [dst, src] = sides(&times)?;
        let clean = clean(&times);
        Some(Plane { key, dst, src, times, clean })
    };
    by_key.into_iter().filter_map(map).collect()
}

/// Offsets of both sides that make a plane: references and crossings beside it left out.
fn sides(times: &Times) -> Option<[Vec<u16>; 2]> {
    let full = |count: BTreeMap<u16, usize>| -> BTreeSet<u16> {
        let most = count.values().copied().max().unwrap_or(0);
        count.into_iter().filter(|(_, n)| 2 * n >= most).map(|(offset, _)| offset).collect()
    };
    let mut by_dst: BTreeMap<u16, usize> = BTreeMap::new();
    times.keys().for_each(|(dst, _)| *by_dst.entry(*dst).or_default() += 1);
    let dst = full(by_dst);
    let mut by_src: BTreeMap<u16, usize> = BTreeMap::new();
    times.keys().filter(|(d, _)| dst.contains(d)).for_each(|(_, src)| *by_src.entry(*src).or_default() += 1);
    let src = full(by_src);
    let is_plane = dst.len() >= 3 && src.len() >= 3;
    is_plane.then(|| [dst, src].map(|side| side.into_iter().collect()))
}

fn text(report: &Report, plane: &Plane, style: Style) -> String {
    let most = COLUMNS.min(style.width.saturating_sub(LABEL)).max(EVERY);
    let (rows, columns) = (bins(&plane.dst, ROWS), bins(&plane.src, most));
    let mut text = title(plane.key);
    text = paragraph("", &text, style.width);
    text = if style.colour { paint(text.trim_end(), Paint::Bold) } else { text.trim_end().into() } + "\n";
    text += &axis_labels(&columns);
    for row in &rows {
        let signs = columns.iter().map(|column| sign(plane.slowest(row, column), style));
        let line = format!("{} {}", offset(row[0]), signs.collect::<String>());
        text += line.trim_end();
        text.push('\n');
    }
    text.push('\n');
    text += &paragraph("", &legend(&plane.dst, &plane.src, &rows, &columns), style.width);
    text.extend(axis(report, plane.key).map(|told| paragraph("", told, style.width)));
    text
}

fn is_aligned(dst: u16) -> bool {
    dst.is_multiple_of(ALIGNMENT)
}

/// What an unaffected copy takes, to destinations off multiples of 0x20 and on them: the lower quartile,
/// of all where a class is hardly there.
fn clean(times: &Times) -> [f64; 2] {
    let quartile = |of: &dyn Fn(u16) -> bool| {
        let mut ns: Vec<f64> = times.iter().filter(|((dst, _), _)| of(*dst)).map(|(_, ns)| *ns).collect();
        ns.sort_unstable_by(f64::total_cmp);
        (ns.len() >= 3).then(|| ns[ns.len() / 4])
    };
    let all = quartile(&|_| true).unwrap_or(1.0);
    [false, true].map(|aligned| quartile(&|dst| is_aligned(dst) == aligned).unwrap_or(all))
}

/// Neighbouring offsets together, so that at most so many groups are left.
pub fn bins(offsets: &[u16], most: usize) -> Vec<&[u16]> {
    offsets.chunks(offsets.len().div_ceil(most).max(1)).collect()
}

/// What a map shows.
pub fn title((path, len, allocator): Key) -> String {
    let owner = allocator.map(|a| format!(" with {a}")).unwrap_or_default();
    format!("{path}{owner}, {}: slowdown by dst (down) and src (across)", bytes(len))
}

fn axis_labels(columns: &[&[u16]]) -> String {
    let labels = columns.iter().step_by(EVERY).map(|c| format!("{:<EVERY$}", offset(c[0])));
    let ticks: String = (0..columns.len()).map(|i| if i % EVERY == 0 { '|' } else { ' ' }).collect();
    let labels: String = labels.collect();
    let fits: String = labels.chars().take(columns.len().max(EVERY)).collect();
    format!("{:LABEL$}{}\n{:LABEL$}{}\n", "", fits.trim_end(), "", ticks.trim_end())
}

fn sign(factor: Option<f64>, style: Style) -> String {
    let Some(factor) = factor else { return " ".into() };
    let step = STEPS.iter().rev().find(|(from, ..)| factor >= *from).unwrap_or(&STEPS[0]);
    match style.colour {
        true => format!("\u{1b}[48;5;{}m{}\u{1b}[0m", step.2, step.1),
        false => step.1.into(),
    }
}

fn legend(dst: &[u16], src: &[u16], rows: &[&[u16]], columns: &[&[u16]]) -> String {
    let step = |(index, (from, sign, _)): (usize, &(f64, char, u8))| match index {
        0 => format!("{sign} below {}", times_briefly(STEPS[1].0)),
        _ => format!("{sign} from {}", times_briefly(*from)),
    };
    let steps: Vec<String> = STEPS.iter().enumerate().map(step).collect();
    let condensed = if rows.len() < dst.len() || columns.len() < src.len() {
        "; a sign shows the slowest of the offsets up to the next"
    } else {
        ""
    };
    format!("{}{condensed}", steps.join(", "))
}

/// What the map shows to depend on what.
pub fn axis(report: &Report, (path, len, allocator): Key) -> Option<&'static str> {
    let verdict =
        report.verdict.paths.iter().find(|v| (v.path, v.len, v.allocator) == (path, len, allocator));
    let axis = verdict.and_then(|v| v.bands.iter().max_by(|a, b| a.slowdown.total_cmp(&b.slowdown))?.axis);
    Some(match axis? {
        Axis::Distance => "What is slow lies on diagonals: the distance alone decides.",
        Axis::Dst => "What is slow fills rows: the destination alone decides.",
        Axis::Src => "What is slow fills columns: the source alone decides.",
        Axis::Mixed => "Neither rows, columns nor diagonals hold all that is slow.",
    })
}
