//! The rows of the matrix: byte-fine at the edges of bands, ranges where nothing changes.

use super::column::Column;
use super::scanline::Interval;
use crate::render::number::{on_circle, span};
use crate::report::{Depth, PAGE};
use std::collections::BTreeSet;

/// The most rows of one matrix, the natural row left out.
const MOST: usize = 36;
/// Multiples of this are what vector copies call aligned.
const ALIGNMENT: u16 = 0x20;
/// From this factor on, aligned and other offsets of a range get a row each.
const APART: f64 = 1.08;
/// Mild edges are approximate: one this close to another boundary gets no row of its own.
const CLOSE: u16 = 4;
/// The upper edge of the published bands, always shown, so that a clean matrix shows it clean.
const PUBLISHED_EDGE: u16 = 0x010;
/// An allocator with more natural offsets than this gets no rows for them.
const FEW_NATURAL: usize = 2;

/// Which offsets of a range a row holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    All,
    /// Multiples of 0x20.
    Aligned,
    /// The rest.
    Unaligned,
}

/// A range of offsets, `from <= to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub from: u16,
    pub to: u16,
    pub which: Which,
}

impl Row {
    pub fn is_aligned(offset: u16) -> bool {
        offset.is_multiple_of(ALIGNMENT)
    }

    pub fn holds(self, offset: u16) -> bool {
        let right = match self.which {
            Which::All => true,
            Which::Aligned => Row::is_aligned(offset),
            Which::Unaligned => !Row::is_aligned(offset),
        };
        right && (self.from..=self.to).contains(&offset)
    }

    /// The range that was really measured; `*` tells multiples of 0x20 only. None if nothing was.
    pub fn label(self, columns: &[Column]) -> Option<String> {
        let from = columns.iter().filter_map(|c| c.measured(self).min()).min()?;
        let to = columns.iter().filter_map(|c| c.measured(self).max()).max()?;
        let star = if self.which == Which::Aligned { "*" } else { "" };
        Some(format!("{}{star}", span(from, to)))
    }
}

/// The rows that tell these columns' story, in the order of their offsets.
pub fn rows(columns: &[Column]) -> Vec<Row> {
    let mut cuts = BTreeSet::from([0, 1]);
    let add = |cuts: &mut BTreeSet<u16>, wish: Vec<u16>| {
        let mut more = cuts.clone();
        more.extend(wish.into_iter().map(on_circle));
        if at_most(&more) <= MOST {
            *cuts = more;
        }
    };
    wishes(columns).into_iter().for_each(|wish| add(&mut cuts, wish));
    for edge in mild_edges(columns) {
        if cuts.iter().all(|cut| cut.abs_diff(edge) > CLOSE) {
            add(&mut cuts, vec![edge]);
        }
    }
    split(columns, &cuts)
}

/// Groups of boundaries, the most telling first: a boundary is the first offset of a row.
fn wishes(columns: &[Column]) -> Vec<Vec<u16>> {
    let deep = intervals(columns, Depth::Deep);
    let edges = deep.iter().map(|i| vec![i.from, i.to + 1]);
    let beside = deep.iter().map(|i| vec![i.from + PAGE - 1, i.from + 1, i.to, i.to + 2]);
    let published = std::iter::once(vec![PUBLISHED_EDGE]);
    let natural = columns.iter().filter(|c| c.natural.len() <= FEW_NATURAL).flat_map(|c| &c.natural);
    let natural = natural.map(|n| vec![*n, n + 1]);
    edges.chain(beside).chain(published).chain(natural).collect()
}

fn mild_edges(columns: &[Column]) -> impl Iterator<Item = u16> {
    intervals(columns, Depth::Mild).into_iter().flat_map(|i| [i.from, on_circle(i.to + 1)])
}

/// The distinct bands of a depth over all columns, the slowest first.
fn intervals(columns: &[Column], depth: Depth) -> Vec<Interval> {
    let mut slow: Vec<_> = columns.iter().flat_map(|c| &c.bands).filter(|b| b.depth == depth).collect();
    slow.sort_by(|a, b| b.slowdown.total_cmp(&a.slowdown));
    let mut seen = BTreeSet::new();
    slow.into_iter().map(|b| b.at).filter(|at| seen.insert(*at)).collect()
}

fn segments(cuts: &BTreeSet<u16>) -> impl Iterator<Item = (u16, u16)> {
    let ends = cuts.iter().skip(1).map(|next| next - 1).chain([PAGE - 1]);
    cuts.iter().copied().zip(ends)
}

/// How many rows these boundaries can make: a range that holds an aligned offset may become two.
fn at_most(cuts: &BTreeSet<u16>) -> usize {
    let two = |(from, to): &(u16, u16)| from < to && from.next_multiple_of(ALIGNMENT) <= *to;
    segments(cuts).map(|s| 1 + usize::from(two(&s))).sum()
}

/// A row a segment, or two where its aligned offsets differ from the rest; none where nothing was measured.
fn split(columns: &[Column], cuts: &BTreeSet<u16>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (from, to) in segments(cuts) {
        let row = |which| Row { from, to, which };
        let apart = columns.iter().any(|c| {
            let [aligned, rest] = [Which::Aligned, Which::Unaligned].map(|w| c.throughput(row(w)));
            aligned.zip(rest).is_some_and(|(a, r)| a.max(r) >= APART * a.min(r))
        });
        let parts: &[Which] = if apart { &[Which::Unaligned, Which::Aligned] } else { &[Which::All] };
        rows.extend(
            parts.iter().map(|w| row(*w)).filter(|r| columns.iter().any(|c| c.measured(*r).next().is_some())),
        );
    }
    rows
}
