//! The noise floor: the smallest slowdown that could be told from noise.

use super::screen::Screened;
use super::series::{Key, Series};
use super::stats;
use crate::report::{Control, Floor, Report};
use std::collections::BTreeMap;

/// This share of equal pairs differs by at most the floor. The worst of them would let a passing
/// neighbour decide: fresh rounds see a band of 2x through one bad pair in eight.
const QUANTILE: f64 = 0.875;

/// The floors of a report: from A/A controls where a group has them, else from halves of clean cells.
pub fn floors<'a>(
    report: &Report,
    screens: impl IntoIterator<Item = (&'a Series<'a>, &'a Screened)>,
) -> Vec<Floor> {
    // a pair that several runs sampled is one pair of more rounds
    let mut pairs: BTreeMap<(Key, u16, usize), Vec<f64>> = BTreeMap::new();
    let mut seen: BTreeMap<(usize, Key, u16), usize> = BTreeMap::new();
    for control in &report.noise.controls {
        let key = Key { path: control.path, allocator: control.allocator, len: control.len };
        // where src is varied, several pairs of a run share their dst
        let nth = seen.entry((control.run, key, control.dst)).or_insert(0);
        pairs.entry((key, control.dst, *nth)).or_default().extend(logs(control));
        *nth += 1;
    }
    let mut differences: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
    for ((key, ..), logs) in pairs {
        differences.entry(key).or_default().extend(stats::median_of(logs).map(f64::abs));
    }
    for (series, screened) in screens {
        differences.entry(series.key).or_insert_with(|| halves(series, screened));
    }
    let floor = |(key, mut apart): (Key, Vec<f64>)| {
        let floor = stats::quantile(&mut apart, QUANTILE)?.exp();
        Some(Floor { path: key.path, allocator: key.allocator, len: key.len, floor })
    };
    differences.into_iter().filter_map(floor).collect()
}

/// How far the two names of one cell lie apart, round by round.
fn logs(control: &Control) -> impl Iterator<Item = f64> + '_ {
    let both = control.ns_a.iter().zip(&control.ns_b).filter_map(|(a, b)| Some(((*a)?, (*b)?)));
    both.filter(|(a, b)| *a > 0 && *b > 0).map(|(a, b)| (a as f64 / b as f64).ln())
}

/// How far the even and the odd rounds of each cell outside all candidates lie apart.
fn halves(series: &Series<'_>, screened: &Screened) -> Vec<f64> {
    let mut apart = Vec::new();
    for (part, relative) in series.parts.iter().zip(&screened.relative) {
        for (cell, logs) in part.cells.iter().zip(&relative.logs) {
            let offset = series.shape.offset(cell);
            if screened.stretches.iter().any(|s| s.holds(offset, 0)) {
                continue;
            }
            let half = |odd: usize| {
                stats::median_of(logs.iter().copied().skip(odd).step_by(2).filter(|l| !l.is_nan()))
            };
            apart.extend(half(0).zip(half(1)).map(|(a, b)| (a - b).abs()));
        }
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Allocator, PathName};

    fn control(dst: u16, ns_a: &[u64], ns_b: &[u64]) -> Control {
        let some = |ns: &[u64]| ns.iter().map(|ns| Some(*ns).filter(|ns| *ns > 0)).collect();
        let (path, allocator) = (PathName::Read, Some(Allocator::Glibc));
        Control { run: 0, path, allocator, len: 64, dst, ns_a: some(ns_a), ns_b: some(ns_b) }
    }

    #[test]
    fn rounds_with_a_lost_half_do_not_count() {
        let logs: Vec<f64> = logs(&control(0, &[200, 0, 300], &[100, 100, 300])).collect();
        assert_eq!(logs, [2.0f64.ln(), 0.0]);
    }
}
