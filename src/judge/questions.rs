//! What to sample next: first the gaps beside candidates, then fresh rounds that decide on them.
//!
//! Pure, like all judging: the same report asks the same questions, and the judge recognises the
//! answers by their place. A report with a confirm run asks nothing more.

use super::page_crossing;
use super::screen::{self, Screened, Stretch};
use super::series::{self, Key, Series, Shape, class_of};
use super::stats;
use crate::report::{CellSpec, PAGE, Phase, Report, Scan};
use std::collections::BTreeSet;

/// Cells to be sampled in one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Questions {
    /// `screen` to close gaps, `confirm` to decide.
    pub phase: Phase,
    /// Rounds, fixed before looking.
    pub rounds: u32,
    /// The cells, references among them.
    pub cells: Vec<CellSpec>,
}

/// Lengths from here on have no confirm phase: their copies take too long.
pub const LONG: u64 = 1 << 20;

/// Offsets on each side of an edge that fresh rounds look at.
pub const WINDOW: u16 = 4;

/// How closely fresh rounds look at a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detail {
    /// Offsets on each side of an edge; at most four.
    window: u16,
    /// Offsets inside, the edges apart.
    inside: usize,
    /// References of each alignment class.
    references: usize,
    /// Pairs of cells whose crossing tells the axis.
    pairs: usize,
}

impl Detail {
    /// As a sweep looks.
    pub const WHOLE: Detail = Detail { window: WINDOW, inside: 24, references: 16, pairs: 3 };
    /// As much as a state, an edge and an axis need: for answers within a blink.
    pub const BRIEF: Detail = Detail { window: 2, inside: 8, references: 8, pairs: 1 };
}

/// Candidates a sweep that are put to the test; noise cannot make confirming endless.
const MOST: usize = 24;

/// A series that can be asked about, with its screen.
pub struct Asked<'a> {
    pub series: Series<'a>,
    pub screened: Screened,
    /// Stretches put to the test: the strongest, in circle order.
    pub tested: Vec<Stretch>,
}

/// What a report leaves open, or none, looked at as closely as a sweep does.
pub fn questions(report: &Report) -> Option<Questions> {
    questions_in(report, Detail::WHOLE)
}

/// What a report leaves open, or none.
pub fn questions_in(report: &Report, detail: Detail) -> Option<Questions> {
    let confirmed = report.runs.iter().any(|run| run.phase == Phase::Confirm);
    let asked = if confirmed { vec![] } else { asked(report) };
    gaps(report, &asked, detail).or_else(|| decisions(&asked, detail))
}

/// The series with a confirm phase: one-dimensional, of an allocator, short.
pub fn asked(report: &Report) -> Vec<Asked<'_>> {
    let short = |s: &Series<'_>| s.key.allocator.is_some() && s.key.len < LONG;
    let line = |s: &Series<'_>| matches!(s.shape, Shape::Line(..));
    let screened = series::screens(report).into_iter().filter(|s| short(s) && line(s));
    screened
        .map(|series| {
            let screened = screen::screen(&series, screen::on_line(series.shape));
            let mut strongest: Vec<&Stretch> = screened.stretches.iter().collect();
            strongest.sort_by(|a, b| b.level.total_cmp(&a.level));
            strongest.truncate(MOST);
            let is_tested = |s: &&Stretch| strongest.iter().any(|t| std::ptr::eq(*t, *s));
            let tested = screened.stretches.iter().filter(is_tested).cloned().collect();
            Asked { series, screened, tested }
        })
        .collect()
}

/// Offsets between a candidate's edge and the next sampled offset, where the grid was too coarse to
/// place the edge. Asked once a series.
fn gaps(report: &Report, asked: &[Asked<'_>], detail: Detail) -> Option<Questions> {
    let mut cells = BTreeSet::new();
    let mut rounds = 0;
    for one in asked.iter().filter(|a| a.series.parts.len() == 1) {
        let mut missing = BTreeSet::new();
        for stretch in &one.tested {
            let [before, after] = stretch.beside;
            missing.extend(between(before, stretch.from));
            missing.extend(between(stretch.to, after));
        }
        if missing.is_empty() {
            continue;
        }
        let place = placer(one.series.key, one.series.shape);
        cells.extend(missing.into_iter().map(|offset| place(offset, false)));
        cells.extend(
            references(&one.tested, one.series.key.len, detail.references)
                .into_iter()
                .map(|offset| place(offset, true)),
        );
        rounds = rounds.max(report.runs[one.series.parts[0].run].rounds);
    }
    let cells = unique(cells);
    (!cells.is_empty()).then_some(Questions { phase: Phase::Screen, rounds, cells })
}

/// Offsets strictly between two on the circle.
fn between(from: u16, to: u16) -> impl Iterator<Item = u16> {
    (1..to.wrapping_sub(from) % PAGE).map(move |step| (from + step) % PAGE)
}

/// The cells that decide on every candidate, and on its axis.
fn decisions(asked: &[Asked<'_>], detail: Detail) -> Option<Questions> {
    let mut cells = BTreeSet::new();
    let mut tests = 0;
    for one in asked {
        let (key, shape) = (one.series.key, one.series.shape);
        let place = placer(key, shape);
        for stretch in &one.tested {
            tests += 2;
            cells.extend(looked_at(stretch, detail).into_iter().map(|offset| place(offset, false)));
            // a path with one side fixed cannot be crossed: its bands get no axis
            for (b, c) in crossings(stretch, &one.tested).into_iter().take(detail.pairs) {
                let four = crossed(key, shape, b, c);
                if four.iter().all(|cell| cell.path.takes(cell.dst, cell.src)) {
                    cells.extend(four);
                }
            }
        }
        if !one.tested.is_empty() {
            cells.extend(
                references(&one.tested, key.len, detail.references)
                    .into_iter()
                    .map(|offset| place(offset, true)),
            );
        }
    }
    let rounds = stats::rounds_to_confirm(tests);
    (tests > 0).then(|| Questions { phase: Phase::Confirm, rounds, cells: unique(cells) })
}

/// Each cell once; one that is also a reference stays a reference.
fn unique(cells: BTreeSet<CellSpec>) -> Vec<CellSpec> {
    let mut cells: Vec<CellSpec> = cells.into_iter().collect();
    // `reference` sorts last within a cell: keep the later of two
    cells.reverse();
    cells.dedup_by_key(|c| (c.path, c.allocator, c.len, c.dst, c.src));
    cells.reverse();
    cells
}

/// Makes the cell of an offset of a one-dimensional sweep.
fn placer(key: Key, shape: Shape) -> impl Fn(u16, bool) -> CellSpec {
    move |offset, reference| {
        let (dst, src) = match shape {
            Shape::Line(Scan::Src, dst) => (dst, offset),
            Shape::Line(Scan::Dst, src) => (offset, src),
            Shape::Plane => (offset, 0),
        };
        CellSpec { path: key.path, allocator: key.allocator, len: key.len, dst, src, reference }
    }
}

/// Offsets that fresh rounds look at: around both edges, and spread over the inside.
fn looked_at(stretch: &Stretch, detail: Detail) -> BTreeSet<u16> {
    let around = |edge: u16| {
        (0..=2 * detail.window).map(move |step| edge.wrapping_sub(detail.window).wrapping_add(step) % PAGE)
    };
    // evenly by place, since the screen may have sampled a part of it more densely
    let width = usize::from(stretch.width());
    let from_start = |offset: u16| usize::from(offset.wrapping_sub(stretch.from) % PAGE);
    let nearest = |place: usize| {
        let wanted = place * width / detail.inside;
        stretch.offsets.iter().copied().min_by_key(|o| from_start(*o).abs_diff(wanted))
    };
    let inside = (0..detail.inside).filter_map(nearest);
    around(stretch.from).chain(around(stretch.to)).chain(inside).collect()
}

/// References of each alignment class, clear of all candidates, spread over what is left of the circle.
/// Short copies that cross a page are compared with none.
fn references(stretches: &[Stretch], len: u64, count: usize) -> Vec<u16> {
    let clear = |offset: &u16| {
        !page_crossing::crosses(len, *offset) && !stretches.iter().any(|s| s.holds(*offset, 2 * WINDOW))
    };
    (0..series::CLASSES)
        .flat_map(|class| {
            let of_class = |o: &u16| class_of(*o) == class && (class < 2 || o % 8 == 5);
            let all: Vec<u16> = (0..PAGE).filter(of_class).filter(clear).collect();
            let step = (all.len() / count).max(1);
            all.into_iter().step_by(step).take(count).collect::<Vec<_>>()
        })
        .collect()
}

/// Pairs (b, c) that tell a candidate's axis: b inside it, c clean and of b's alignment.
pub fn crossings(stretch: &Stretch, all: &[Stretch]) -> Vec<(u16, u16)> {
    const AWAY: [u16; 10] = [32, 20, 44, 12, 52, 26, 38, 6, 58, 30];
    let clean = |offset: u16| !all.iter().any(|s| s.holds(offset, WINDOW));
    let solid: Vec<u16> = stretch.offsets.iter().copied().filter(|o| o % 32 != 0).collect();
    let inside = if solid.is_empty() { &stretch.offsets } else { &solid };
    let Some(last) = inside.len().checked_sub(1) else { return vec![] };
    let chosen = BTreeSet::from([inside[last / 2], inside[last / 4], inside[last - last / 4]]);
    let pair = |(turn, b): (usize, u16)| {
        let mut away = AWAY.iter().cycle().skip(turn).take(AWAY.len());
        away.find_map(|k| Some((b + 64 * k) % PAGE).filter(|c| clean(*c))).map(|c| (b, c))
    };
    chosen.into_iter().enumerate().filter_map(pair).collect()
}

/// The four cells of a crossing, in the order (b, 0) (c, 0) (c, c - b) (b, b - c), moved to where the
/// sweep's fixed side lies; for a sweep over src both sides are swapped.
pub fn crossed(key: Key, shape: Shape, b: u16, c: u16) -> [CellSpec; 4] {
    let (swap, fixed) = match shape {
        Shape::Line(Scan::Src, dst) => (true, dst),
        Shape::Line(Scan::Dst, src) => (false, src),
        Shape::Plane => (false, 0),
    };
    let other = |shift: u16| fixed.wrapping_add(shift) % PAGE;
    let pairs = [(b, fixed), (c, fixed), (c, other(c.wrapping_sub(b))), (b, other(b.wrapping_sub(c)))];
    pairs.map(|(varied, still)| {
        let (dst, src) = if swap { (still, varied) } else { (varied, still) };
        CellSpec { path: key.path, allocator: key.allocator, len: key.len, dst, src, reference: false }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Allocator, PathName, distance};

    fn stretch(from: u16, to: u16) -> Stretch {
        let width = to.wrapping_sub(from) % PAGE + 1;
        let offsets = (0..width).map(|s| (from + s) % PAGE).collect();
        Stretch {
            from,
            to,
            level: 1.0,
            offsets,
            beside: [from.wrapping_sub(1) % PAGE, to + 1],
            outer: [0.0; 2],
        }
    }

    const KEY: Key = Key { path: PathName::Read, allocator: Some(Allocator::Glibc), len: 65536 };

    #[test]
    fn crossings_keep_distance_and_dst_apart() {
        for one in [stretch(1, 15), stretch(0x991, 0xf), stretch(0x800, 0x800), stretch(0, 0x7ff)] {
            let pairs = crossings(&one, std::slice::from_ref(&one));
            assert!(!pairs.is_empty());
            for (b, c) in pairs {
                assert!(one.holds(b, 0) && !one.holds(c, 0) && class_of(b) == class_of(c));
                let cells = crossed(KEY, Shape::Line(Scan::Dst, 0x10), b, c);
                let gap = |i: usize| distance(cells[i].dst, cells[i].src);
                assert_eq!((gap(0), gap(1)), (gap(2), gap(3)));
                assert_eq!((cells[0].dst, cells[1].dst), (cells[3].dst, cells[2].dst));
                let swapped = crossed(KEY, Shape::Line(Scan::Src, 0), b, c);
                assert_eq!(swapped[0].src, b);
                assert_eq!(
                    distance(swapped[0].dst, swapped[0].src),
                    distance(swapped[2].dst, swapped[2].src)
                );
            }
        }
    }

    #[test]
    fn references_stay_clear_of_candidates() {
        for one in [stretch(1, 15), stretch(0, 0x7ff), stretch(0x991, 0xf)] {
            let refs = references(std::slice::from_ref(&one), 4096, 16);
            assert!(refs.iter().all(|r| !one.holds(*r, WINDOW)));
            for class in 0..series::CLASSES {
                assert_eq!(refs.iter().filter(|r| class_of(**r) == class).count(), 16);
            }
        }
    }

    #[test]
    fn a_cell_asked_twice_is_sampled_once_and_stays_a_reference() {
        let place = placer(KEY, Shape::Line(Scan::Dst, 0));
        let cells = unique(BTreeSet::from([place(7, true), place(7, false), place(8, false)]));
        assert_eq!(cells, [place(7, true), place(8, false)]);
    }

    #[test]
    fn gaps_lie_between_sampled_offsets() {
        assert_eq!(between(0xffe, 2).collect::<Vec<_>>(), [0xfff, 0, 1]);
        assert_eq!(between(4, 5).count(), 0);
    }
}
