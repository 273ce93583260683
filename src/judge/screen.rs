//! The screen: which stretches of offsets look slow. It only proposes.

use super::series::{Profile, Relative, Series, Shape};
use super::stats;
use crate::report::{Cell, PAGE};

/// A cell of this slowdown starts a candidate; neighbours of [`GROW`] and more join it.
const SEED: f64 = 1.25;
pub const GROW: f64 = 1.15;

/// Adjacent stretches whose levels differ by this factor are separate candidates.
pub const LEVELS: f64 = 1.5;

/// From this slowdown on a stretch is a mild band.
pub const MILD: f64 = 1.2;

/// Cells beside a candidate that are neither inside it nor clean.
pub const MARGIN: u16 = 2;

/// A stretch of slow offsets on the circle.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// First offset.
    pub from: u16,
    /// Last offset; below `from` where the stretch passes through zero.
    pub to: u16,
    /// Median log slowdown.
    pub level: f64,
    /// Sampled offsets inside, in circle order.
    pub offsets: Vec<u16>,
    /// The nearest sampled offsets outside, before and after.
    pub beside: [u16; 2],
    /// Log slowdowns of what lies before and after: 0, or a neighbouring level.
    pub outer: [f64; 2],
}

impl Stretch {
    /// Whether an offset lies inside or within `margin` of it.
    pub fn holds(&self, offset: u16, margin: u16) -> bool {
        let from = self.from.wrapping_sub(margin) % PAGE;
        let width = (self.to.wrapping_sub(self.from) % PAGE).saturating_add(2 * margin);
        offset.wrapping_sub(from) % PAGE <= width
    }

    /// Offsets between the first and the last, both included.
    pub fn width(&self) -> u16 {
        self.to.wrapping_sub(self.from) % PAGE + 1
    }
}

/// A sweep against its references, and what looks slow in it.
pub struct Screened {
    /// One a part of the series.
    pub relative: Vec<Relative>,
    /// The sweep's offsets.
    pub profile: Profile,
    /// What looks slow.
    pub stretches: Vec<Stretch>,
}

/// Screens a series: first against the references' lower quartile, then, the candidates known, against
/// the median of the references outside them.
pub fn screen(series: &Series<'_>, place: impl Fn(&Cell) -> Option<u16> + Copy) -> Screened {
    let first = pass(series, place, 0.25, |_| false);
    let avoid = |cell: &Cell| {
        place(cell).is_some_and(|offset| first.stretches.iter().any(|s| s.holds(offset, MARGIN)))
    };
    pass(series, place, 0.5, avoid)
}

fn pass(
    series: &Series<'_>,
    place: impl Fn(&Cell) -> Option<u16> + Copy,
    quantile: f64,
    avoid: impl Fn(&Cell) -> bool + Copy,
) -> Screened {
    let relative: Vec<Relative> =
        series.parts.iter().map(|p| p.relative(series.shape, quantile, avoid)).collect();
    let profile = Profile::gather(series.parts.iter().zip(&relative), place);
    let stretches = stretches(&profile);
    Screened { relative, profile, stretches }
}

/// The offset of a cell in a one-dimensional sweep.
pub fn on_line(shape: Shape) -> impl Fn(&Cell) -> Option<u16> + Copy {
    move |cell| shape.holds(cell).then(|| shape.offset(cell))
}

/// Slow stretches of a profile: seeds grown through their neighbours, split where levels differ.
pub fn stretches(profile: &Profile) -> Vec<Stretch> {
    let points = &profile.points;
    let n = points.len();
    let mut slow: Vec<bool> = points.iter().map(|p| p.level >= GROW.ln()).collect();
    // on a coarse grid one offset that noise made slow must not reach a band across a fast one
    let near = |i: usize, j: usize| {
        let apart = points[i].offset.abs_diff(points[j].offset);
        apart.min(PAGE - apart) <= 32
    };
    let is_hole = |i: usize| {
        let [before, after] = [n - 1, 1].map(|step| (i + step) % n);
        let joins = |beside: usize, beyond: usize| slow[beside] && (near(i, beside) || slow[beyond]);
        points[i].offset.is_multiple_of(32)
            && !slow[i]
            && joins(before, (i + 2 * n - 2) % n)
            && joins(after, (i + 2) % n)
    };
    let holes: Vec<bool> = (0..n).map(is_hole).collect();
    (0..n).for_each(|i| slow[i] |= holes[i]);
    // start where nothing is slow, so that a run through zero stays one
    let start = slow.iter().position(|s| !s).unwrap_or(0);
    let circle: Vec<usize> = (0..n).map(|i| (start + i) % n).collect();
    let mut found = Vec::new();
    for run in circle.chunk_by(|a, b| slow[*a] == slow[*b]).filter(|run| slow[run[0]]) {
        let solid: Vec<usize> = run.iter().copied().filter(|i| !holes[*i]).collect();
        if solid.iter().any(|i| points[*i].level >= SEED.ln()) {
            found.extend(levels(profile, run, &solid));
        }
    }
    found
}

/// Splits a run of slow points into stretches of one level each; those below a mild band are dropped.
fn levels(profile: &Profile, run: &[usize], solid: &[usize]) -> Vec<Stretch> {
    let values: Vec<f64> = solid.iter().map(|i| profile.points[*i].level).collect();
    let parts = level_parts(&values);
    let n = profile.points.len();
    let offset = |index: usize| profile.points[index].offset;
    let mut found = Vec::new();
    for &(from, to, level) in &parts {
        let seeded = values[from..to].iter().any(|v| *v >= SEED.ln());
        if level < MILD.ln() || !seeded {
            continue;
        }
        let (first, last) = (solid[from], solid[to - 1]);
        let [before, after] = [(first + n - 1) % n, (last + 1) % n];
        // a hole between two levels is no neighbour of either
        let level_at = |index: usize| {
            let at = solid.iter().position(|other| *other == index)?;
            parts.iter().find(|part| (part.0..part.1).contains(&at)).map(|part| part.2)
        };
        found.push(Stretch {
            from: offset(first),
            to: offset(last),
            level,
            offsets: run_between(run, first, last).map(offset).collect(),
            beside: [offset(before), offset(after)],
            outer: [before, after].map(|index| level_at(index).unwrap_or(0.0)),
        });
    }
    found
}

/// The run's points from `first` to `last`, holes included.
fn run_between(run: &[usize], first: usize, last: usize) -> impl Iterator<Item = usize> + '_ {
    let from = run.iter().position(|i| *i == first).unwrap_or(0);
    let to = run.iter().position(|i| *i == last).unwrap_or(run.len() - 1);
    run[from..=to.max(from)].iter().copied()
}

/// Finds the interval whose level differs most from the rest (least squares over logarithms), keeps its
/// ends as cuts if the levels differ by [`LEVELS`], and goes on within the parts.
fn split(values: &[f64], begin: usize, cuts: &mut Vec<usize>) {
    let n = values.len();
    let Some((from, to)) = best_interval(values) else { return };
    let outside = values[..from].iter().chain(&values[to..]);
    let gap = median(values[from..to].iter()) - median(outside);
    if gap.abs() >= LEVELS.ln() {
        cuts.extend([from, to].iter().filter(|c| **c > 0 && **c < n).map(|c| begin + c));
        split(&values[..from], begin, cuts);
        split(&values[from..to], begin + from, cuts);
        split(&values[to..], begin + to, cuts);
    }
}

/// The proper interval whose separation takes most from the sum of squares.
fn best_interval(values: &[f64]) -> Option<(usize, usize)> {
    let n = values.len();
    let mean = values.iter().sum::<f64>() / n.max(1) as f64;
    let mut best = (1e-9, None);
    for from in 0..n {
        let mut inside = 0.0;
        for to in from + 1..=n {
            inside += values[to - 1] - mean;
            let width = to - from;
            let gain = inside * inside / (width * (n - width).max(1)) as f64;
            if width < n && gain > best.0 {
                best = (gain, Some((from, to)));
            }
        }
    }
    best.1
}

fn median<'a>(values: impl Iterator<Item = &'a f64>) -> f64 {
    stats::median_of(values.copied()).unwrap_or(0.0)
}

/// Cuts into levels, neighbours of nearly one level joined again: begin, end and level of each.
fn level_parts(values: &[f64]) -> Vec<(usize, usize, f64)> {
    let mut cuts = vec![0, values.len()];
    split(values, 0, &mut cuts);
    cuts.sort_unstable();
    cuts.dedup();
    let mut parts: Vec<(usize, usize, f64)> = Vec::new();
    for cut in cuts.windows(2) {
        let level = median(values[cut[0]..cut[1]].iter());
        match parts.last_mut() {
            Some(last) if (last.2 - level).abs() < LEVELS.ln() => {
                last.1 = cut[1];
                last.2 = median(values[last.0..last.1].iter());
            }
            _ => parts.push((cut[0], cut[1], level)),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::series::Point;

    fn profile(slowdown: impl Fn(u16) -> f64) -> Profile {
        let point = |offset| Point { offset, level: slowdown(offset).ln(), logs: vec![] };
        Profile { points: (0..PAGE).map(point).collect() }
    }

    fn found(slowdown: impl Fn(u16) -> f64) -> Vec<(u16, u16)> {
        stretches(&profile(slowdown)).iter().map(|s| (s.from, s.to)).collect()
    }

    #[test]
    fn nothing_on_a_flat_circle() {
        assert!(found(|_| 1.1).is_empty());
        assert!(found(|o| if o == 7 { 1.24 } else { 1.0 }).is_empty(), "no seed");
        assert!(stretches(&Profile { points: vec![] }).is_empty());
    }

    #[test]
    fn a_run_through_zero_is_one() {
        assert_eq!(found(|o| if !(0x10..0x991).contains(&o) { 2.8 } else { 1.0 }), [(0x991, 0x00f)]);
    }

    #[test]
    fn a_lone_slow_offset_far_away_is_not_joined_across_a_hole() {
        let place = |offset: u16, level: f64| Point { offset, level: level.ln(), logs: vec![] };
        let near = (1..0x40).map(|offset| place(offset, 1.5));
        let coarse =
            [(0x000, 1.0), (0x100, 1.0), (0xf00, 1.0), (0xfa4, 1.3)].map(|(o, level)| place(o, level));
        let mut points: Vec<Point> = near.chain(coarse).collect();
        points.sort_by_key(|point| point.offset);
        let found = stretches(&Profile { points });
        let found: Vec<(u16, u16)> = found.iter().map(|s| (s.from, s.to)).filter(|f| f.0 != 0xfa4).collect();
        assert_eq!(found, [(0x001, 0x03f)]);
    }

    #[test]
    fn single_holes_at_multiples_of_32_do_not_split() {
        let with_hole = |hole: u16| move |o: u16| if (1..0x60).contains(&o) && o != hole { 1.4 } else { 1.0 };
        assert_eq!(found(with_hole(0x20)), [(1, 0x5f)]);
        assert_eq!(found(with_hole(0x21)), [(1, 0x20), (0x22, 0x5f)]);
    }

    #[test]
    fn levels_that_differ_are_split_and_know_their_neighbours() {
        let slow = |o: u16| match o {
            1..=0xf => 7.3,
            0x10..=0x1f => 1.3,
            _ => 1.0,
        };
        let both = stretches(&profile(slow));
        assert_eq!(both.iter().map(|s| (s.from, s.to)).collect::<Vec<_>>(), [(1, 0xf), (0x10, 0x1f)]);
        assert!((both[0].outer[1] - 1.3f64.ln()).abs() < 1e-9 && both[0].outer[0] == 0.0);
        assert_eq!(both[0].beside, [0, 0x10]);
        assert_eq!(both[0].offsets.len(), 15);
        let spike = |o: u16| {
            if o == 0x80 {
                4.0
            } else if o < 0x100 {
                1.4
            } else {
                1.0
            }
        };
        assert_eq!(found(spike), [(0, 0x7f), (0x80, 0x80), (0x81, 0xff)], "one byte inside a mild band");
    }

    #[test]
    fn a_hole_between_two_levels_is_neither_s() {
        // rep movsb of 64 B on a Zen 5: a band, and copies that cross a page, with the fast 0x000 between
        let slow = |o: u16| match o {
            1..=0x3f => 5.0,
            0xfc1..=0xfff => 3.0,
            _ => 1.0,
        };
        let both = stretches(&profile(slow));
        assert_eq!(both.iter().map(|s| (s.from, s.to)).collect::<Vec<_>>(), [(0xfc1, 0xfff), (1, 0x3f)]);
        assert!(both.iter().all(|s| s.outer == [0.0; 2]), "{both:?}");
    }

    #[test]
    fn margins_reach_around_the_circle() {
        let stretch = &stretches(&profile(|o| if !(0x10..0xff0).contains(&o) { 3.0 } else { 1.0 }))[0];
        assert!(stretch.holds(0xfee, 2) && stretch.holds(0x11, 2) && stretch.holds(0, 0));
        assert!(!stretch.holds(0xfed, 2) && !stretch.holds(0x12, 2));
        assert_eq!(stretch.width(), 0x20);
    }
}
