//! One column of the matrix: the samples of one allocator and length along a scanline.

use super::rows::Row;
use super::scanline::{Interval, Scanline};
use crate::report::{Allocator, Depth, PathVerdict, Report, offset_of};
use std::collections::{BTreeMap, BTreeSet};

/// The samples of one (allocator, length) along a scanline, and what was judged of them.
pub struct Column {
    pub allocator: Option<Allocator>,
    pub len: u64,
    /// Nanoseconds of one copy, by varied offset.
    samples: BTreeMap<u16, Vec<f64>>,
    /// The judged bands on this line, the slowest first.
    pub bands: Vec<Slow>,
    /// Page offsets that the allocator returned on its own; none on a line that varies the other side.
    pub natural: BTreeSet<u16>,
    /// Throughput of the unaffected cells, bytes per second: of unaligned and of aligned offsets.
    clean: [Option<f64>; 2],
}

/// A band on the line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slow {
    pub at: Interval,
    pub depth: Depth,
    pub slowdown: f64,
    /// Whether fresh rounds confirmed it.
    pub confirmed: bool,
}

impl Column {
    /// Every column of a line, shorter lengths first.
    pub fn all(report: &Report, line: Scanline) -> Vec<Column> {
        let mut columns: BTreeMap<_, Column> = BTreeMap::new();
        for cell in &report.cells {
            let Some(place) = line.place(cell) else { continue };
            let column = columns
                .entry((cell.len, cell.allocator))
                .or_insert_with(|| Column::empty(report, line, cell.allocator, cell.len));
            let one =
                cell.ns.iter().flatten().filter(|ns| **ns > 0).map(|ns| *ns as f64 / f64::from(cell.repeat));
            column.samples.entry(place).or_default().extend(one);
        }
        let judged =
            |c: &Column| verdict_on(report, line, c.allocator, c.len).map(|v| v.baseline_bytes_per_s);
        columns.into_values().map(|c| Column { clean: c.clean(judged(&c)), ..c }).collect()
    }

    fn empty(report: &Report, line: Scanline, allocator: Option<Allocator>, len: u64) -> Column {
        let judged = verdict_on(report, line, allocator, len);
        let bands = judged.map_or(&[][..], |v| &v.bands).iter();
        let mut bands: Vec<Slow> = bands
            .filter_map(|b| {
                Some(Slow {
                    at: line.interval(b)?,
                    depth: b.depth,
                    slowdown: b.slowdown,
                    confirmed: b.confirmed,
                })
            })
            .collect();
        bands.sort_by(|a, b| b.slowdown.total_cmp(&a.slowdown));
        let placed = report.placements.iter().filter(|p| Some(p.allocator) == allocator && p.len == len);
        let natural = match line.scan == line.path.own_scan() {
            true => placed.flat_map(|p| &p.offsets).map(|o| offset_of(u64::from(*o))).collect(),
            false => BTreeSet::new(),
        };
        Column { allocator, len, samples: BTreeMap::new(), bands, natural, clean: [None; 2] }
    }

    /// The offsets measured in a row.
    pub fn measured(&self, row: Row) -> impl Iterator<Item = u16> {
        let there = self.samples.range(row.from..=row.to).filter(|(_, ns)| !ns.is_empty());
        there.map(|(offset, _)| *offset).filter(move |o| row.holds(*o))
    }

    /// Bytes per second in a row: the median over its offsets, those between two that were measured counted with the
    /// first, since a few are sampled densely and the rest of the circle here and there.
    pub fn throughput(&self, row: Row) -> Option<f64> {
        let offsets: Vec<u16> = self.measured(row).collect();
        self.typical(&offsets, row.to)
    }

    fn typical(&self, offsets: &[u16], last: u16) -> Option<f64> {
        let ends = offsets.iter().skip(1).copied().chain([last.saturating_add(1)]);
        let place = |(offset, end): (&u16, u16)| {
            let ns = median(self.samples.get(offset)?.clone())?;
            Some((ns, u32::from(end.saturating_sub(*offset).max(1))))
        };
        let mut places: Vec<(f64, u32)> = offsets.iter().zip(ends).filter_map(place).collect();
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        let half = places.iter().map(|(_, weight)| weight).sum::<u32>().div_ceil(2);
        let mut passed = 0;
        let middle = places.iter().find(|(_, weight)| {
            passed += weight;
            passed >= half
        });
        middle.map(|(ns, _)| self.len as f64 * 1e9 / ns)
    }

    /// Bytes per second at the natural offsets, each as likely as the others: by their mean time.
    pub fn natural_throughput(&self) -> Option<f64> {
        let each = self.natural.iter().filter_map(|o| self.throughput_at(std::iter::once(*o)));
        let (count, times) =
            each.fold((0.0, 0.0), |(count, times), speed| (count + 1.0, times + 1.0 / speed));
        (count > 0.0).then(|| count / times)
    }

    /// Whether any measured offset lies in a band.
    pub fn has_slow_places(&self) -> bool {
        self.samples.keys().any(|o| self.band_at(*o).is_some())
    }

    /// How many offsets were measured.
    pub fn places(&self) -> usize {
        self.samples.len()
    }

    /// Bytes per second over some offsets.
    pub fn throughput_at(&self, offsets: impl Iterator<Item = u16>) -> Option<f64> {
        let ns: Vec<f64> = offsets.filter_map(|o| self.samples.get(&o)).flatten().copied().collect();
        Some(self.len as f64 * 1e9 / median(ns)?)
    }

    /// The slowest band that holds an offset.
    pub fn band_at(&self, offset: u16) -> Option<Slow> {
        self.bands.iter().copied().find(|band| band.at.contains(offset))
    }

    /// The band that most of a row's measured offsets lie in.
    pub fn band_of(&self, row: Row) -> Option<Slow> {
        let measured: Vec<u16> = self.measured(row).collect();
        let inside =
            |band: &Slow| 2 * measured.iter().filter(|o| band.at.contains(**o)).count() > measured.len();
        self.bands.iter().copied().find(inside)
    }

    /// Throughput of unaligned and of aligned offsets outside every band; what was judged, or all of
    /// them together, where one class was not measured.
    fn clean(&self, judged: Option<f64>) -> [Option<f64>; 2] {
        let clean = || self.samples.keys().copied().filter(|o| self.band_at(*o).is_none());
        let over = |offsets: Vec<u16>| self.typical(&offsets, crate::report::PAGE - 1);
        let of = |aligned| over(clean().filter(|o| Row::is_aligned(*o) == aligned).collect());
        let any = || over(clean().collect()).or(judged);
        [false, true].map(|aligned| of(aligned).or_else(any))
    }

    /// How much slower a throughput inside a band is than unaffected offsets of the same alignment.
    pub fn slowdown(&self, throughput: f64, aligned: bool, band: Slow) -> f64 {
        match self.clean[usize::from(aligned)].map(|clean| clean / throughput) {
            Some(factor) if factor.is_finite() && factor > 0.0 => factor,
            _ => band.slowdown,
        }
    }
}

/// The verdict on one column.
fn verdict_on(
    report: &Report,
    line: Scanline,
    allocator: Option<Allocator>,
    len: u64,
) -> Option<&PathVerdict> {
    report.verdict.paths.iter().find(|v| v.path == line.path && v.allocator == allocator && v.len == len)
}

/// The median, or none of nothing.
fn median(mut values: Vec<f64>) -> Option<f64> {
    let (count, middle) = (values.len(), values.len() / 2);
    if count == 0 {
        return None;
    }
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    let lower = if count % 2 == 0 { below.iter().copied().fold(f64::MIN, f64::max) } else { upper };
    Some((lower + upper) / 2.0)
}
