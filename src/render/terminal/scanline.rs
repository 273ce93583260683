//! One line through the plane of (dst, src) offsets: one side varied, the other held.

use crate::render::number::on_circle;
use crate::report::{Axis, Band, Cell, PAGE, PathName, Phase, Report, Scan, distance};
use std::collections::{BTreeMap, BTreeSet};

/// An interval on the circle of page offsets, its ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval {
    pub from: u16,
    pub to: u16,
}

impl Interval {
    const WHOLE: Interval = Interval { from: 0, to: PAGE - 1 };

    pub fn contains(self, offset: u16) -> bool {
        distance(offset, self.from) <= distance(self.to, self.from)
    }
}

/// A line with fewer places than this was not swept: the few are the crossed cells that tell an axis.
pub const SWEPT: usize = 16;

/// Cells of one path whose `scan` side varies while the other stays at `held`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scanline {
    pub path: PathName,
    pub scan: Scan,
    pub held: u16,
}

impl Scanline {
    /// The varied offset of a cell on this line; a source that a path has none of counts as 0x000.
    pub fn place(self, cell: &Cell) -> Option<u16> {
        let (varied, held) = sides(cell, self.scan)?;
        (cell.path == self.path && held == self.held).then_some(varied)
    }

    /// Where on this line a band lies, if it does.
    pub fn interval(self, band: &Band) -> Option<Interval> {
        let (from, to) = (on_circle(band.from), on_circle(band.to));
        let straight = Interval { from, to };
        match (band.axis, self.scan) {
            (Some(Axis::Distance), Scan::Dst) => {
                Some(Interval { from: on_circle(from + self.held), to: on_circle(to + self.held) })
            }
            (Some(Axis::Distance), Scan::Src) => {
                Some(Interval { from: distance(self.held, to), to: distance(self.held, from) })
            }
            (Some(Axis::Dst), Scan::Dst) | (Some(Axis::Src), Scan::Src) => Some(straight),
            (Some(Axis::Dst), Scan::Src) | (Some(Axis::Src), Scan::Dst) => {
                straight.contains(self.held).then_some(Interval::WHOLE)
            }
            (Some(Axis::Mixed) | None, scan) => (band.scan == scan).then_some(straight),
        }
    }

    /// The line along which `scan` varies at the most places (the lowest offset held, where several are
    /// as good), and how many lines were swept.
    pub fn fullest(report: &Report, path: PathName, scan: Scan) -> Option<(Self, usize)> {
        let mut places: BTreeMap<u16, BTreeSet<u16>> = BTreeMap::new();
        for (varied, held) in report
            .cells
            .iter()
            .filter(|c| c.path == path && screened(report, c))
            .filter_map(|c| sides(c, scan))
        {
            places.entry(held).or_default().insert(varied);
        }
        let held = *places.iter().max_by_key(|(held, v)| (v.len(), std::cmp::Reverse(**held)))?.0;
        let swept = places.values().filter(|varied| varied.len() >= SWEPT).count();
        Some((Scanline { path, scan, held }, swept))
    }
}

/// Whether a cell is of a sweep: fresh rounds cross sweeps at a few cells.
fn screened(report: &Report, cell: &Cell) -> bool {
    report.runs.get(cell.run).is_some_and(|run| run.phase == Phase::Screen)
}

/// The varied and the held offset of a cell, 0x1000 judged as 0x000.
fn sides(cell: &Cell, scan: Scan) -> Option<(u16, u16)> {
    let (dst, src) = (on_circle(cell.dst?), on_circle(cell.src.unwrap_or(0)));
    Some(match scan {
        Scan::Dst => (dst, src),
        Scan::Src => (src, dst),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Depth;

    fn band(from: u16, to: u16, axis: Option<Axis>) -> Band {
        Band {
            from,
            to,
            from_range: None,
            to_range: None,
            scan: Scan::Dst,
            axis,
            depth: Depth::Deep,
            confirmed: true,
            slowdown: 7.0,
            slowdown_ci95: None,
            spread: None,
            penalty_ns_per_kib: 275.0,
            penalty_ci95: None,
            bytes_per_s: 3e9,
        }
    }

    #[test]
    fn a_distance_band_moves_with_the_held_side() {
        let band = band(1, 15, Some(Axis::Distance));
        let at = |scan, held| Scanline { path: PathName::Read, scan, held }.interval(&band);
        assert_eq!(at(Scan::Dst, 0), Some(Interval { from: 1, to: 15 }));
        assert_eq!(at(Scan::Dst, 0xff8), Some(Interval { from: 0xff9, to: 7 }));
        assert_eq!(at(Scan::Src, 0), Some(Interval { from: 0xff1, to: 0xfff }));
        assert_eq!(at(Scan::Src, 8), Some(Interval { from: 0xff9, to: 7 }));
    }

    #[test]
    fn a_band_of_the_held_side_covers_all_or_nothing() {
        let line = |held| Scanline { path: PathName::Read, scan: Scan::Src, held };
        assert_eq!(line(3).interval(&band(1, 15, Some(Axis::Dst))), Some(Interval::WHOLE));
        assert_eq!(line(16).interval(&band(1, 15, Some(Axis::Dst))), None);
        assert_eq!(line(3).interval(&band(1, 15, None)), None);
    }

    #[test]
    fn intervals_are_circular() {
        let wrapped = Interval { from: 0x991, to: 0x00f };
        assert!(wrapped.contains(0) && wrapped.contains(0xfff) && wrapped.contains(0x991));
        assert!(!wrapped.contains(0x010) && !wrapped.contains(0x990));
    }
}
