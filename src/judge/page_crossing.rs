//! Page crossing: a short copy that ends in the page after the one it began in costs more on some CPUs,
//! whatever the other side's offset. Like misalignment it is no anomaly, and is stated apart.

use super::decide::Finding;
use super::screen::MARGIN;
use super::series::Shape;
use crate::report::{Axis, PAGE, Scan};

/// Longer copies cross at most offsets, so crossing is what they are compared with.
const LONGEST: u64 = PAGE as u64 / 2;

/// The first offset at which copies of a length cross.
fn first(len: u64) -> u16 {
    PAGE - len as u16 + 1
}

/// Whether a copy from an offset on pays for crossing a page, which makes it no fair comparison.
pub fn crosses(len: u64, offset: u16) -> bool {
    len <= LONGEST && offset >= first(len)
}

/// Whether a finding is what crossing a page costs: it lies where copies of its length cross on the side
/// that was varied, and the other side has no part in it, or it begins where crossing begins.
pub fn is_crossing(finding: &Finding) -> bool {
    let Shape::Line(scan, _) = finding.shape else { return false };
    if finding.key.len > LONGEST || scan != finding.key.path.own_scan() {
        return false;
    }
    let first = first(finding.key.len);
    let [from, to] = finding.edges;
    // an end that may as well lie at the page's last byte does not count as beyond it
    let to = to.range.map_or(to.at, |[least, _]| least);
    let from = from.at;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::decide::Trials;
    use crate::judge::edges::Edge;
    use crate::judge::series::Key;
    use crate::report::{Allocator, PathName};

    fn finding(len: u64, from: u16, to: u16, axis: Option<Axis>) -> Finding {
        let edge = |at| Edge { at, range: None };
        Finding {
            key: Key { path: PathName::RepMovsb, allocator: Some(Allocator::Pages), len },
            shape: Shape::Line(Scan::Dst, 0),
            edges: [edge(from), edge(to)],
            axis,
            trials: Trials { slow: vec![], penalty: vec![], samples: vec![], log_ns: f64::NAN },
            testable: true,
        }
    }

    #[test]
    fn short_copies_that_reach_into_the_next_page_are_told_from_bands() {
        let crossing = |len, from, to, axis| is_crossing(&finding(len, from, to, axis));
        assert!(crossing(128, 0xf81, 0xfff, Some(Axis::Dst)) && crossing(128, 0xf81, 0xff0, None));
        assert!(!crossing(128, 0xf81, 0xfff, Some(Axis::Distance)), "a band by distance is one");
        assert!(!crossing(128, 0xf81, 0x000, Some(Axis::Dst)), "nothing crosses at 0x000");
        assert!(!crossing(128, 0x800, 0xfff, Some(Axis::Dst)) && !crossing(128, 0xfc0, 0xfff, None));
        assert!(!crossing(4096, 0x001, 0x00f, Some(Axis::Dst)), "such copies always do");
        let mut open = finding(512, 0xe01, 0x000, None);
        open.edges[1].range = Some([0xfff, 0x000]);
        assert!(is_crossing(&open), "its end may be the page's");
    }

    #[test]
    fn copies_cross_from_where_they_no_longer_fit() {
        assert!(!crosses(128, 0xf80) && crosses(128, 0xf81) && !crosses(4096, 0xfff));
    }
}
