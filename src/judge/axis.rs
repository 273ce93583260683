//! What a band depends on: dst, src or their distance.
//!
//! A one-dimensional sweep cannot tell them apart, so fresh rounds cross it: cells of equal distance at
//! another dst, and cells of equal dst at another distance. A plane tells by itself.

use super::questions::{crossed, crossings};
use super::screen::{Screened, Stretch};
use super::series::{Key, Part, Relative, Series, Shape};
use crate::report::{Axis, Cell, CellSpec, PAGE, Scan, distance};
use std::collections::BTreeMap;

/// The share of rounds that must agree on a cell being slow, or fast.
const AGREE: f64 = 0.75;

/// Cells on the wrong side of an axis, as a share of the plane's slow cells, that noise may explain.
const PLANE_WRONG: f64 = 0.05;

/// The axis by crossing, named only if every contrast holds: over the pairs together by
/// [`AGREE`] of the rounds, and in no pair against the majority of its own.
pub fn crossing(
    key: Key,
    shape: Shape,
    stretch: &Stretch,
    all: &[Stretch],
    part: &Part<'_>,
    relative: &Relative,
) -> Option<Axis> {
    let limit = stretch.level / 2.0;
    let mut pooled: [Vec<f64>; 4] = Default::default();
    let mut majorities = Vec::new();
    let place =
        |spec: &CellSpec| part.cells.iter().position(|c| c.dst == Some(spec.dst) && c.src == Some(spec.src));
    for (b, c) in crossings(stretch, all) {
        let cells = crossed(key, shape, b, c);
        // a brief look crosses fewer pairs
        if cells[2..].iter().any(|spec| place(spec).is_none()) {
            continue;
        }
        let mut pair = [false; 4];
        for (role, spec) in cells.iter().enumerate() {
            let logs = &relative.logs[place(spec)?];
            pair[role] = slow_share(logs, limit)? > 0.5;
            pooled[role].extend(logs);
        }
        majorities.push(pair);
    }
    let sides = pooled.map(|logs| side(&logs, limit));
    let [Some(true), Some(false), Some(third), Some(fourth)] = sides else { return None };
    if majorities.iter().any(|pair| *pair != [true, false, third, fourth]) {
        return None;
    }
    Some(match (third, fourth, shape) {
        (true, false, _) => Axis::Distance,
        (false, true, Shape::Line(Scan::Src, _)) => Axis::Src,
        (false, true, _) => Axis::Dst,
        _ => Axis::Mixed,
    })
}

/// Whether a cell is slow, if the rounds agree.
fn side(logs: &[f64], limit: f64) -> Option<bool> {
    match slow_share(logs, limit)? {
        share if share >= AGREE => Some(true),
        share if share <= 1.0 - AGREE => Some(false),
        _ => None,
    }
}

/// The share of a cell's samples that are slow; none where all were lost.
fn slow_share(logs: &[f64], limit: f64) -> Option<f64> {
    let known = logs.iter().filter(|l| !l.is_nan());
    let slow = known.clone().filter(|l| **l > limit).count();
    let count = known.count();
    (count > 0).then(|| slow as f64 / count as f64)
}

/// Where a cell of a plane stands on an axis; on a line, where it stands in the sweep.
pub fn placer(shape: Shape, axis: Option<Axis>) -> impl Fn(&Cell) -> Option<u16> + Copy {
    move |cell| match (shape, axis) {
        (Shape::Line(..), _) => shape.holds(cell).then(|| shape.offset(cell)),
        (Shape::Plane, Some(Axis::Distance)) => Some(distance(cell.dst?, cell.src?)),
        (Shape::Plane, Some(Axis::Src)) => Some(cell.src? % PAGE),
        (Shape::Plane, _) => Some(cell.dst? % PAGE),
    }
}

/// The axis of a plane: the one none of whose offsets holds both slow and fast cells. `screened` is the
/// plane's screen along any axis; none without slow cells.
pub fn of_plane(series: &Series<'_>, screened: &Screened, affected_at: f64) -> Option<Axis> {
    let limit = affected_at.ln() / 2.0;
    let mut cells: Vec<(&Cell, bool)> = Vec::new();
    for (part, relative) in series.parts.iter().zip(&screened.relative) {
        let sides = part.cells.iter().zip(&relative.logs);
        cells.extend(sides.filter_map(|(cell, logs)| Some((*cell, side(logs, limit)?))));
    }
    let slow_cells = cells.iter().filter(|(_, slow)| *slow).count();
    if slow_cells == 0 {
        return None;
    }
    let wrong = |axis: Axis| {
        let place = placer(Shape::Plane, Some(axis));
        let mut sides: BTreeMap<u16, [usize; 2]> = BTreeMap::new();
        for (cell, slow) in &cells {
            if let Some(offset) = place(cell) {
                sides.entry(offset).or_default()[usize::from(*slow)] += 1;
            }
        }
        sides.values().map(|[fast, slow]| *fast.min(slow)).sum::<usize>()
    };
    let (least, axis) = [Axis::Distance, Axis::Dst, Axis::Src]
        .map(|axis| (wrong(axis), axis))
        .into_iter()
        .min_by_key(|(wrong, _)| *wrong)?;
    Some(if least as f64 <= PLANE_WRONG * slow_cells as f64 { axis } else { Axis::Mixed })
}
