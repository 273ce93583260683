//! How far two runs of an unchanged machine may lie apart.

use super::super::series::Key;
use super::side::{Side, deep};
use crate::report::{Band, Spread};

/// The published spread: on the Zen 4 server of this project the slowdown at 64 KiB drifted between 7.5 and 12
/// within seconds, so slowdown - 1 by 1.7 (docs/methodology.md tells what else it was held against).
const PUBLISHED: f64 = 1.7;

/// Reports a side from which its spread is measured.
const ENOUGH: usize = 3;

/// The least spread that is believed of a few runs.
const LEAST: f64 = 1.1;

/// The spread between runs: the largest ratio of one band between reports of one side, where a side has enough
/// of them and a deep band; else the published one.
pub fn between_runs(sides: [&Side<'_>; 2]) -> Spread {
    let measured: Vec<f64> =
        sides.iter().flat_map(|side| side.keys.iter().filter_map(|key| of_group(side, *key))).collect();
    match measured.into_iter().max_by(f64::total_cmp) {
        Some(factor) => Spread { factor: factor.max(LEAST), measured: true },
        None => Spread { factor: PUBLISHED, measured: false },
    }
}

/// The largest ratio of the group's deepest band between the reports of a side.
fn of_group(side: &Side<'_>, key: Key) -> Option<f64> {
    let telling = side.conclusive(key);
    let deepest =
        |p: &crate::report::PathVerdict| deep(p).max_by(|a, b| a.slowdown.total_cmp(&b.slowdown)).cloned();
    let bands: Vec<Band> = telling.iter().filter_map(|(_, p)| deepest(p)).collect();
    if bands.len() < ENOUGH {
        return None;
    }
    let ratio = |figure: &dyn Fn(&Band) -> f64| {
        let figures = || bands.iter().map(figure);
        figures().fold(0.0, f64::max) / figures().fold(f64::INFINITY, f64::min)
    };
    let widest = ratio(&|b| b.slowdown - 1.0).max(ratio(&|b| b.penalty_ns_per_kib));
    widest.is_finite().then_some(widest)
}
