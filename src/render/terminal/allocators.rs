//! What the deep bands mean for each allocator: whether its own placements land in them.

use super::Style;
use super::scanline::{Interval, Scanline};
use super::summary::paths;
use crate::render::number::{bytes, offset, on_circle};
use crate::render::text::{listed, paragraph};
use crate::report::{Allocator, Axis, Depth, PathName, Report, Scan};
use std::collections::{BTreeMap, BTreeSet};

/// One line an allocator, where a deep band can be met by placing a buffer.
pub fn allocators(report: &Report, style: Style) -> String {
    let line = |(owner, fate): (Allocator, String)| paragraph(&format!("  {owner:<9} "), &fate, style.width);
    let told = fates(report).into_iter();
    told.map(|f| paragraph("", &f.intro, style.width) + &f.lines.into_iter().map(line).collect::<String>())
        .collect()
}

/// What the placements of each allocator meet, for buffers on one side of a copy.
pub struct Fates {
    /// What the lines tell.
    pub intro: String,
    /// Each allocator with where it puts buffers, and whether that is inside a band.
    pub lines: Vec<(Allocator, String)>,
}

/// For buffers as destinations and as sources; nothing where there is nothing to be told.
pub fn fates(report: &Report) -> Vec<Fates> {
    // a buffer is met as a destination or as a source; paths that do the same are told together
    let told = |scan: Scan, other: &str| {
        let paths = || paths(report).into_iter().filter(|p| p.own_scan() == scan);
        // the other side where it was held, as in the matrix
        let helds: BTreeSet<u16> =
            paths().filter_map(|p| Scanline::fullest(report, p, scan)).map(|(line, _)| line.held).collect();
        let held = if helds.len() == 1 { helds.first().copied().unwrap_or(0) } else { 0 };
        let mut deep: BTreeMap<u64, BTreeSet<Interval>> = BTreeMap::new();
        for (len, bands) in paths().flat_map(|path| deep_intervals(report, path, held)) {
            deep.entry(len).or_default().extend(bands);
        }
        let lines = lines(report, &deep);
        let against = format!("a {other} at page offset {}", offset(held));
        let intro = format!("Where allocators put buffers on their own, against {against}:");
        (!lines.is_empty()).then_some(Fates { intro, lines })
    };
    [told(Scan::Dst, "source"), told(Scan::Src, "destination")].into_iter().flatten().collect()
}

fn lines(report: &Report, deep: &BTreeMap<u64, BTreeSet<Interval>>) -> Vec<(Allocator, String)> {
    if deep.is_empty() {
        return vec![];
    }
    let owners: BTreeSet<Allocator> = report.placements.iter().map(|p| p.allocator).collect();
    owners.into_iter().map(|owner| (owner, of(report, owner, deep))).collect()
}

/// The deep bands of a path by length, on its own side with the other held there; not those of that side alone, which no
/// placement of the buffer meets or avoids.
fn deep_intervals(report: &Report, path: PathName, held: u16) -> BTreeMap<u64, BTreeSet<Interval>> {
    let alien = match path.own_scan() {
        Scan::Dst => Axis::Src,
        Scan::Src => Axis::Dst,
    };
    let line = Scanline { path, scan: path.own_scan(), held };
    let mut deep: BTreeMap<u64, BTreeSet<Interval>> = BTreeMap::new();
    for verdict in report.verdict.paths.iter().filter(|v| v.path == path) {
        let bands = verdict.bands.iter().filter(|b| b.depth == Depth::Deep && b.axis != Some(alien));
        deep.entry(verdict.len).or_default().extend(bands.filter_map(|b| line.interval(b)));
    }
    deep.retain(|_, bands| !bands.is_empty());
    deep
}

/// `64 KiB and 64 MiB at 0x010: outside`; lengths that fare alike together.
fn of(report: &Report, owner: Allocator, deep: &BTreeMap<u64, BTreeSet<Interval>>) -> String {
    let mut alike: Vec<(String, Vec<String>)> = Vec::new();
    for (len, bands) in deep {
        let placed = report.placements.iter().filter(|p| p.allocator == owner && p.len == *len);
        let offsets: Vec<u16> = placed.flat_map(|p| &p.offsets).map(|o| on_circle(*o)).collect();
        if offsets.is_empty() {
            continue;
        }
        let fate = fate(&offsets, bands);
        match alike.iter_mut().find(|(known, _)| *known == fate) {
            Some((_, lens)) => lens.push(bytes(*len)),
            None => alike.push((fate, vec![bytes(*len)])),
        }
    }
    if alike.is_empty() {
        return "no placement was recorded".into();
    }
    let alike: Vec<String> =
        alike.into_iter().map(|(fate, lens)| format!("{} {fate}", listed(&lens))).collect();
    alike.join("; ")
}

fn fate(offsets: &[u16], bands: &BTreeSet<Interval>) -> String {
    let inside = offsets.iter().filter(|o| bands.iter().any(|b| b.contains(**o))).count();
    let distinct: BTreeSet<u16> = offsets.iter().copied().collect();
    match (distinct.len(), inside) {
        (1, 0) => format!("at {}: outside the band", offset(offsets[0])),
        (1, _) => format!("at {}: INSIDE the band, slow", offset(offsets[0])),
        (count, 0) => format!("at {count} different offsets: 0 of {} inside the band", offsets.len()),
        (count, inside) => {
            format!("at {count} different offsets: {inside} of {} INSIDE the band", offsets.len())
        }
    }
}
