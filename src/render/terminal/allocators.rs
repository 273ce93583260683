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
    let all: Vec<Met> = [Scan::Dst, Scan::Src].into_iter().flat_map(|scan| met(report, scan)).collect();
    let several = all.len() > 1;
    let told = |met: Met| {
        let other = if met.scan == Scan::Dst { "source" } else { "destination" };
        let paths: Vec<&str> = met.paths.iter().map(|path| path.word()).collect();
        let of = if several { format!(" of {}", listed(&paths)) } else { String::new() };
        let intro = format!(
            "Where allocators put buffers on their own, against a {other}{of} at page offset {}:",
            offset(met.held)
        );
        let lines = lines(report, &met.deep);
        (!lines.is_empty()).then_some(Fates { intro, lines })
    };
    all.into_iter().filter_map(told).collect()
}

/// Deep bands that placements can meet, and the paths that have them.
struct Met {
    scan: Scan,
    /// Where the other side was held.
    held: u16,
    paths: Vec<PathName>,
    deep: BTreeMap<u64, BTreeSet<Interval>>,
}

/// By the offsets of their bands: what one path meets says nothing of another. Routines that no program calls by
/// themselves stand back where others were measured.
fn met(report: &Report, scan: Scan) -> Vec<Met> {
    let all = paths(report);
    let is_called = |path: &PathName| !path.is_user_space() || *path == PathName::Memcpy;
    let any_called = all.iter().any(is_called);
    let mut met: Vec<Met> = Vec::new();
    for path in all.into_iter().filter(|p| p.own_scan() == scan && (is_called(p) || !any_called)) {
        // the other side where it was held, as in the matrix
        let held = Scanline::fullest(report, path, scan).map_or(0, |(line, _)| line.held);
        let deep = deep_intervals(report, path, held);
        let places = |deep: &BTreeMap<u64, BTreeSet<Interval>>| -> BTreeSet<Interval> {
            deep.values().flatten().copied().collect()
        };
        if deep.is_empty() {
            continue;
        }
        match met.iter_mut().find(|m| m.held == held && places(&m.deep) == places(&deep)) {
            Some(known) => {
                known.paths.push(path);
                for (len, bands) in deep {
                    known.deep.entry(len).or_default().extend(bands);
                }
            }
            None => met.push(Met { scan, held, paths: vec![path], deep }),
        }
    }
    met
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
