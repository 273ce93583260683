//! One (path, allocator, len) before and after.

use super::super::questions::LONG;
use super::super::series::Key;
use super::map::{Level, Map};
use super::side::{Side, deep, typical};
use crate::report::{Band, Change, ComparedBand, ComparedGroup, GroupSide, Scan, Spread, State};

/// The part of slowdown - 1 below which a band is partly fixed; above its inverse it has regressed.
const HALF: f64 = 0.5;

/// Compares a group.
pub fn compare(key: Key, before: &Side<'_>, after: &Side<'_>, spread: Spread) -> ComparedGroup {
    let (change, reason) = decide(key, before, after, spread.factor);
    let told = |side| GroupSide { state: Side::state_of(side, key), bands: bands(side, key, spread.factor) };
    ComparedGroup {
        path: key.path,
        allocator: key.allocator,
        len: key.len,
        change,
        reason,
        before: told(before),
        after: told(after),
    }
}

/// Long lengths only test what shorter ones found, and busy memory hides bands there: a change that no
/// shorter length of the same path shows is none.
pub fn doubt_long_lengths(groups: &mut [ComparedGroup]) {
    let shorter: Vec<ComparedGroup> = groups.iter().filter(|g| g.len < LONG).cloned().collect();
    for group in groups.iter_mut().filter(|g| g.len >= LONG && g.change.is_claim()) {
        let same = |g: &&ComparedGroup| (g.path, g.allocator) == (group.path, group.allocator);
        let mut of_path = shorter.iter().filter(same).peekable();
        if of_path.peek().is_some() && !of_path.any(|g| g.change.is_claim()) {
            group.change = Change::CannotTell;
            group.reason = Some(
                "no shorter length shows this change, and what else uses memory moves long copies".into(),
            );
        }
    }
}

fn decide(key: Key, before: &Side<'_>, after: &Side<'_>, spread: f64) -> (Change, Option<String>) {
    let states = [before.state_of(key), after.state_of(key)];
    if let Some(unsure) = states.iter().position(|s| *s == State::Inconclusive) {
        let name = ["before", "after"][unsure];
        return (Change::CannotTell, Some(format!("inconclusive {name}")));
    }
    if states == [State::Clean; 2] {
        return (Change::Unaffected, None);
    }
    let mut seen = Seen::default();
    for scan in [Scan::Dst, Scan::Src] {
        seen.look(&Map::of(before, key, scan), &Map::of(after, key, scan), spread);
    }
    seen.answer(states)
}

/// How many offsets went which way.
#[derive(Debug, Default)]
struct Seen {
    gone: usize,
    weaker: usize,
    same: usize,
    unsure: usize,
    stronger: usize,
    new: usize,
    /// The side that did not look at a band of the other's.
    blind: Option<&'static str>,
}

impl Seen {
    /// Adds one scan of both sides.
    fn look(&mut self, before: &Map, after: &Map, spread: f64) {
        let aligned = before.fixed == after.fixed;
        let blind =
            |from: &Map, other: &Map| from.deep_runs().into_iter().any(|run| !aligned || !other.covers(run));
        if blind(before, after) {
            self.blind = Some("after");
        } else if blind(after, before) {
            self.blind = Some("before");
        }
        for offset in 0..before.levels.len() {
            match (before.levels[offset], after.levels[offset]) {
                (Some(b), None) if b.deep && after.measured[offset] && after.is_quiet(offset) => {
                    self.gone += 1
                }
                (None, Some(a)) if a.deep && before.measured[offset] && before.is_quiet(offset) => {
                    self.new += 1
                }
                (Some(b), Some(a)) if b.deep || a.deep => self.both(&b, &a, spread),
                _ => {}
            }
        }
    }

    /// An offset that is slow on both sides.
    fn both(&mut self, before: &Level, after: &Level, spread: f64) {
        let ratios =
            [ratio(before.excess, after.excess, spread), ratio(before.penalty, after.penalty, spread)];
        let count = if before.deep && ratios.iter().all(|r| r[1] < HALF) {
            &mut self.weaker
        } else if after.deep && ratios.iter().all(|r| r[0] > 1.0 / HALF) {
            &mut self.stronger
        } else if ratios.iter().any(|r| r[1] >= 1.0) {
            &mut self.same
        } else {
            &mut self.unsure
        };
        *count += 1;
    }

    fn answer(&self, [before, after]: [State; 2]) -> (Change, Option<String>) {
        let unsure = |reason: &str| (Change::CannotTell, Some(reason.to_owned()));
        if let Some(side) = self.blind {
            return match side {
                "after" => unsure("the later side did not look at all of the offsets that were slow before"),
                _ => unsure("the earlier side did not look at all of the offsets that are slow now"),
            };
        }
        let moved = (self.gone + self.weaker > 0).then(|| "other offsets are no longer slow".to_owned());
        match after {
            _ if self.new + self.stronger > 0 => (Change::Regressed, moved),
            State::Clean if self.same + self.unsure > 0 => {
                unsure("the band is milder now, by no more than runs of one machine differ")
            }
            State::Clean if self.gone == 0 && self.weaker == 0 => unsure("where the band lay is not certain"),
            State::Clean => {
                (Change::Fixed, (self.weaker > 0).then(|| "a mild band is left in its place".to_owned()))
            }
            _ if before == State::Clean => {
                unsure("the band was milder before, by no more than runs of one machine differ")
            }
            _ if self.gone + self.weaker > 0 => (Change::PartlyFixed, None),
            _ if self.same > 0 => (Change::NotFixed, None),
            _ => {
                unsure("the band is weaker by more than runs of one machine differ, and perhaps not by half")
            }
        }
    }
}

/// The ratio of after to before, lowest and highest, widened by the spread between runs.
fn ratio(before: [f64; 2], after: [f64; 2], spread: f64) -> [f64; 2] {
    const NOTHING: f64 = 1e-9;
    [after[0] / before[1].max(NOTHING) / spread, after[1] / before[0].max(NOTHING) * spread]
}

/// A group's deep bands over the reports of a side: the first report's, with what the others say of them.
fn bands(side: &Side<'_>, key: Key, spread: f64) -> Vec<ComparedBand> {
    let telling = side.conclusive(key);
    let Some((_, first)) = telling.first() else { return vec![] };
    let meets = |a: &Band, b: &Band| {
        a.scan == b.scan && a.axis == b.axis && (a.contains(b.from) || b.contains(a.from))
    };
    let all = |band: &Band| -> Vec<Band> {
        let band = band.clone();
        telling.iter().flat_map(|(_, p)| deep(p).filter(|b| meets(&band, b)).cloned()).collect()
    };
    deep(first).map(|band| merged(band, &all(band), spread)).collect()
}

fn merged(band: &Band, all: &[Band], spread: f64) -> ComparedBand {
    let widen = spread.sqrt();
    let hull = |interval: &dyn Fn(&Band) -> [f64; 2]| {
        let low = all.iter().map(|b| interval(b)[0]).fold(f64::INFINITY, f64::min);
        let high = all.iter().map(|b| interval(b)[1]).fold(f64::NEG_INFINITY, f64::max);
        [low / widen, high * widen]
    };
    let excess = hull(&|b| b.slowdown_ci95.unwrap_or([b.slowdown; 2]).map(|s| s - 1.0));
    ComparedBand {
        from: band.from,
        to: band.to,
        from_range: edge(all, |b| (b.from, b.from_range)),
        to_range: edge(all, |b| (b.to, b.to_range)),
        scan: band.scan,
        axis: band.axis,
        slowdown: typical(all.iter().map(|b| b.slowdown)),
        slowdown_interval: excess.map(|e| 1.0 + e),
        penalty_ns_per_kib: typical(all.iter().map(|b| b.penalty_ns_per_kib)),
        penalty_interval: hull(&|b| b.penalty_ci95.unwrap_or([b.penalty_ns_per_kib; 2])),
    }
}

/// Where an edge could lie over all reports; none where it is one offset.
fn edge(all: &[Band], at: impl Fn(&Band) -> (u16, Option<[u16; 2]>)) -> Option<[u16; 2]> {
    let page = crate::report::PAGE;
    let (origin, _) = at(all.first()?);
    // on the circle, as steps from the first report's edge
    let steps = |offset: u16| {
        i32::from((offset.wrapping_sub(origin).wrapping_add(page / 2)) % page) - i32::from(page / 2)
    };
    let ends = all.iter().flat_map(|b| {
        let (place, range) = at(b);
        range.unwrap_or([place; 2]).map(steps)
    });
    let (low, high) = ends.fold((0, 0), |(low, high), step| (low.min(step), high.max(step)));
    let place = |step: i32| (i32::from(origin) + step).rem_euclid(i32::from(page)) as u16;
    (low != high).then(|| [place(low), place(high)])
}
