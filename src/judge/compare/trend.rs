//! More than two reports in the order of time: each against the one before it.

use super::{NotComparable, compare};
use crate::report::{Bearing, ComparedBand, Comparison, Difference, Report, Trend, TrendPoint};

/// The reports in the order they were recorded, and the first against the last.
///
/// # Errors
/// Where there are fewer than two, or any two in a row are not comparable.
pub fn trend(reports: &[Report]) -> Result<Trend, NotComparable> {
    let mut ordered: Vec<&Report> = reports.iter().collect();
    // all are RFC 3339 in UTC, which sorts as text
    ordered.sort_by(|a, b| a.recorded_at.cmp(&b.recorded_at));
    let [first, .., last] = ordered.as_slice() else {
        return Err(NotComparable("a trend needs at least two reports".into()));
    };
    let one = |report: &Report| vec![report.clone()];
    let overall = compare(&one(first), &one(last))?;
    let mut points = Vec::new();
    for pair in ordered.windows(2) {
        let step = compare(&one(pair[0]), &one(pair[1]))?;
        if points.is_empty() {
            points.push(point(&step, false));
        }
        points.push(point(&step, true));
    }
    Ok(Trend { points, overall })
}

/// One side of a step as a line of the trend.
fn point(step: &Comparison, is_later: bool) -> TrendPoint {
    let side = if is_later { &step.after } else { &step.before };
    let bands = step.groups.iter().flat_map(|g| if is_later { &g.after.bands } else { &g.before.bands });
    let deepest: Option<&ComparedBand> = bands.max_by(|a, b| a.slowdown.total_cmp(&b.slowdown));
    let counts = |d: &&Difference| d.follows.is_none() && d.bears_on != Bearing::Speed;
    let changed = step.differences.iter().filter(counts).filter(|_| is_later).map(|d| d.fact.clone());
    TrendPoint {
        report: side.reports[0].clone(),
        change: is_later.then_some(step.change),
        deepest: deepest.cloned(),
        changed: changed.collect(),
    }
}
