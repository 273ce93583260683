//! Page crossing: a short copy that ends in the page after the one it began in costs more on some CPUs,
//! whatever the other side's offset. Like misalignment it is no anomaly, and is stated apart.

use super::decide::Finding;
use super::screen::MARGIN;
use super::series::Shape;
use crate::report::{Axis, PAGE, Scan};

/// Longer copies cross at most offsets, so crossing is what they are compared with.
const LONGEST: u64 = PAGE as u64 / 2;

/// Whether a finding is what crossing a page costs: it lies where copies of its length cross on the side
/// that was varied, and the other side has no part in it, or it begins where crossing begins.
pub fn is_crossing(finding: &Finding) -> bool {
    let Shape::Line(scan, _) = finding.shape else { return false };
    if finding.key.len > LONGEST || scan != finding.key.path.own_scan() {
        return false;
    }
    let first = PAGE - finding.key.len as u16 + 1;
    let [from, to] = [finding.edges[0].at, finding.edges[1].at];
    let inside = from <= to && from + MARGIN >= first;
    let own_axis = match scan {
        Scan::Dst => Axis::Dst,
        Scan::Src => Axis::Src,
    };
    match finding.axis {
        Some(Axis::Distance) => false,
        Some(axis) if axis == own_axis => inside,
        _ => inside && from.abs_diff(first) <= MARGIN,
    }
}
