//! Where a band begins and ends: exact where the rounds agree, else a range.

use super::questions::WINDOW;
use super::screen::{GROW, Stretch};
use super::series::Profile;
use crate::report::PAGE;

/// The share of rounds that must put a cell on one side for its side to be certain.
const AGREE: f64 = 0.75;

/// One end of a band.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The outermost slow offset.
    pub at: u16,
    /// Where it could lie, from the outside in for the first offset, from the inside out for the last;
    /// none where it is exact.
    pub range: Option<[u16; 2]>,
}

/// Samples by offset: the screen's, and fresh ones where there are any. An edge needs both: it is no test
/// of whether there is a band, and more samples leave less doubt about a single cell.
pub struct Evidence<'a> {
    pub fresh: Option<&'a Profile>,
    pub screen: &'a Profile,
}

/// The band's side of the limit between it and what lies beside it, which may be a slower band.
#[derive(Clone, Copy)]
struct Side {
    limit: f64,
    above: bool,
}

impl Evidence<'_> {
    /// The share of an offset's samples on the band's side; none where it was not sampled.
    fn share(&self, offset: u16, side: Side) -> Option<f64> {
        let points = [self.fresh.and_then(|p| p.at(offset)), self.screen.at(offset)];
        let samples = || points.iter().flatten().flat_map(|p| &p.logs);
        let inside = samples().filter(|l| (**l > side.limit) == side.above).count();
        let all = samples().count();
        (all > 0).then(|| inside as f64 / all as f64)
    }
}

/// Both edges of a stretch of this log slowdown: a cell belongs to the side of the geometric mean of
/// the two levels on which most of its samples lie. `others` are bands of their own: no edge enters them.
pub fn edges(stretch: &Stretch, level: f64, others: &[Stretch], evidence: &Evidence<'_>) -> [Edge; 2] {
    let inward = WINDOW.min((stretch.width() - 1) / 2);
    let taken = |offset: u16| others.iter().any(|o| o != stretch && o.holds(offset, 0));
    // the screen put what lies beyond its window outside; fresh noise may not argue with all of it
    let outside =
        |offset: u16| !stretch.holds(offset, 0) && (taken(offset) || !stretch.holds(offset, WINDOW));
    let share = |offset: u16, side: Side| match evidence.share(offset, side) {
        Some(_) if outside(offset) => Some(0.0),
        share => share,
    };
    let edge = |from: u16, outward: u16, outer: f64| {
        let middle = (level + outer) / 2.0;
        // between two levels their middle; beside nothing at least what the screen grows by
        let limit = if outer > 0.0 { middle } else { middle.max(GROW.ln()) };
        let side = Side { limit, above: outer < level };
        walk(from.wrapping_sub(outward.wrapping_mul(inward)) % PAGE, outward, |o| share(o, side))
    };
    [edge(stretch.from, PAGE - 1, stretch.outer[0]), edge(stretch.to, 1, stretch.outer[1])]
}

/// Walks outward (by 1 or -1 on the circle) from inside the band to its last slow offset.
fn walk(start: u16, outward: u16, share: impl Fn(u16) -> Option<f64>) -> Edge {
    let next = |offset: u16, steps: u16| offset.wrapping_add(outward.wrapping_mul(steps)) % PAGE;
    let slow = |offset| share(offset).is_some_and(|s| s > 0.5);
    let mut at = start;
    for _ in 0..PAGE {
        let step = next(at, 1);
        if slow(step) {
            at = step;
        } else if step % 32 == 0 && slow(next(step, 1)) {
            // a single hole at a multiple of 0x20
            at = next(step, 1);
        } else {
            break;
        }
    }
    let outside = outer_limit(at, &next, &share);
    let inside = inner_limit(at, start, &next, &share);
    let exact = outside == at && inside == at;
    let range = if outward == 1 { [inside, outside] } else { [outside, inside] };
    Edge { at, range: (!exact).then_some(range) }
}

/// How far out the edge could lie: through cells that a quarter of the rounds or more call slow, and
/// through offsets that nobody sampled.
fn outer_limit(at: u16, next: &impl Fn(u16, u16) -> u16, share: &impl Fn(u16) -> Option<f64>) -> u16 {
    let doubtful = |offset| share(offset).is_none_or(|s| s > 1.0 - AGREE);
    let mut limit = at;
    for _ in 0..PAGE / 2 {
        let step = next(limit, 1);
        if !doubtful(step) {
            break;
        }
        limit = step;
    }
    limit
}

/// How far in: back to a cell that three quarters of the rounds call slow.
fn inner_limit(
    at: u16,
    start: u16,
    next: &impl Fn(u16, u16) -> u16,
    share: &impl Fn(u16) -> Option<f64>,
) -> u16 {
    let certain = |offset| share(offset).is_some_and(|s| s >= AGREE);
    let mut limit = at;
    for _ in 0..PAGE / 2 {
        if certain(limit) || limit == start {
            break;
        }
        limit = next(limit, PAGE - 1);
    }
    limit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::series::Point;

    /// A profile whose cells are slow (log 1.0) in the share of ten rounds that `share` tells.
    fn profile(share: impl Fn(u16) -> usize) -> Profile {
        let point = |offset| {
            let logs = (0..10).map(|round| if round < share(offset) { 1.0 } else { 0.0 }).collect();
            Point { offset, level: 0.0, logs }
        };
        Profile { points: (0..PAGE).map(point).collect() }
    }

    fn stretch(from: u16, to: u16) -> Stretch {
        Stretch { from, to, level: 1.0, offsets: vec![], beside: [0, 0], outer: [0.0, 0.0] }
    }

    fn found(stretch: &Stretch, share: impl Fn(u16) -> usize) -> [Edge; 2] {
        edges(stretch, 1.0, &[], &Evidence { fresh: None, screen: &profile(share) })
    }

    #[test]
    fn edges_are_exact_where_the_rounds_agree() {
        let band = |o: u16| if (1..=15).contains(&o) { 10 } else { 1 };
        let exact = [Edge { at: 1, range: None }, Edge { at: 15, range: None }];
        assert_eq!(found(&stretch(1, 15), band), exact);
        assert_eq!(found(&stretch(2, 17), band), exact, "the screen was off by a cell");
        assert_eq!(found(&stretch(3, 13), band), exact);
    }

    #[test]
    fn beside_a_deeper_band_the_edge_lies_between_the_levels() {
        // 0x001..0x00f is deep (log 1.0 in all rounds), 0x010..0x01f mild (0.4)
        let level = |o: u16| {
            if (1..16).contains(&o) {
                1.0
            } else if (16..32).contains(&o) {
                0.4
            } else {
                0.0
            }
        };
        let point = |offset| Point { offset, level: level(offset), logs: vec![level(offset); 10] };
        let profile = Profile { points: (0..PAGE).map(point).collect() };
        let mild = Stretch { outer: [1.0, 0.0], ..stretch(0x10, 0x1f) };
        let both = edges(&mild, 0.4, &[], &Evidence { fresh: None, screen: &profile });
        assert_eq!(both, [Edge { at: 0x10, range: None }, Edge { at: 0x1f, range: None }]);
    }

    #[test]
    fn an_edge_enters_no_other_band_and_stays_near_what_was_screened() {
        let near = Stretch { offsets: vec![1], ..stretch(1, 0xf) };
        let mild = stretch(0x14, 0x20);
        let slow = |o: u16| if (1..0x40).contains(&o) { 10 } else { 0 };
        let both =
            edges(&mild, 1.0, &[near, mild.clone()], &Evidence { fresh: None, screen: &profile(slow) });
        assert_eq!([both[0].at, both[1].at], [0x10, 0x24]);
    }

    #[test]
    fn edges_go_around_zero_and_a_band_may_be_one_byte() {
        let band = |o: u16| if !(0x10..0x991).contains(&o) { 9 } else { 0 };
        let both = found(&stretch(0x991, 0xf), band);
        assert_eq!([both[0].at, both[1].at], [0x991, 0x00f]);
        let one = found(&stretch(0, 0), |o| if o == 0 { 10 } else { 0 });
        assert_eq!(one, [Edge { at: 0, range: None }, Edge { at: 0, range: None }]);
    }

    #[test]
    fn doubtful_cells_make_a_range() {
        let band = |o: u16| match o {
            1..=15 => 10,
            16 => 4,
            0 => 6,
            _ => 0,
        };
        let both = found(&stretch(1, 15), band);
        assert_eq!(both[0], Edge { at: 0, range: Some([0, 1]) });
        assert_eq!(both[1], Edge { at: 15, range: Some([15, 16]) });
    }

    #[test]
    fn offsets_nobody_sampled_make_a_range() {
        let mut profile = profile(|o| if (1..=15).contains(&o) { 10 } else { 0 });
        profile.points.retain(|p| !(13..20).contains(&p.offset));
        let both = edges(&stretch(1, 12), 1.0, &[], &Evidence { fresh: None, screen: &profile });
        assert_eq!(both[1], Edge { at: 12, range: Some([12, 19]) });
    }
}
