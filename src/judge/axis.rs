//! What a band depends on: dst, src or their distance.
//!
//! A one-dimensional sweep cannot tell them apart, so fresh rounds cross it: cells of equal distance at
//! another dst, and cells of equal dst at another distance. A plane tells by itself.

use super::questions::{crossed, crossings};
use super::screen::{Screened, Stretch};
use super::series::{Key, Part, Relative, Series, Shape};
use crate::report::{Axis, Cell, PAGE, Scan, distance};
use std::collections::BTreeMap;

/// The share of rounds that must agree on a cell being slow, or fast.
const AGREE: f64 = 0.75;

/// Cells on the wrong side of an axis, as a share of the plane's slow cells, that noise may explain.
const PLANE_WRONG: f64 = 0.05;

/// The axis by crossing, named only if every contrast of every pair holds.
pub fn crossing(
    key: Key,
    shape: Shape,
    stretch: &Stretch,
    all: &[Stretch],
    part: &Part<'_>,
    relative: &Relative,
) -> Option<Axis> {
    let limit = stretch.level / 2.0;
    let slow = |dst: u16, src: u16| {
        let cell = part.cells.iter().position(|c| c.dst == Some(dst) && c.src == Some(src))?;
        side(&relative.logs[cell], limit)
    };
    let varied = match shape {
        Shape::Line(Scan::Src, _) => Axis::Src,
        _ => Axis::Dst,
    };
    let mut named = None;
    for (b, c) in crossings(stretch, all) {
        let cells = crossed(key, shape, b, c).map(|cell| slow(cell.dst, cell.src));
        let axis = match cells {
            [Some(true), Some(false), Some(true), Some(false)] => Axis::Distance,
            [Some(true), Some(false), Some(false), Some(true)] => varied,
            [Some(true), Some(false), Some(_), Some(_)] => Axis::Mixed,
            _ => return None,
        };
        if *named.get_or_insert(axis) != axis {
            return None;
        }
    }
    named
}

/// Whether a cell is slow, if the rounds agree.
fn side(logs: &[f64], limit: f64) -> Option<bool> {
    let known: Vec<f64> = logs.iter().copied().filter(|l| !l.is_nan()).collect();
    let share = known.iter().filter(|l| **l > limit).count() as f64 / known.len().max(1) as f64;
    match share {
        s if known.is_empty() || (s > 1.0 - AGREE && s < AGREE) => None,
        s => Some(s >= AGREE),
    }
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
