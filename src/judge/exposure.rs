//! What recorded offsets of buffers come to: how they are spread, how many lie in a deep band, what reads
//! into them cost, and whether that is what is published.
//!
//! A pure function of the record: every figure can be computed again from `placements` and `bands`.

mod bands;
mod published;
mod rows;
mod words;

pub use bands::bands_of_reads;

use crate::report::{
    BandsAt, ChiSquare, Exposure, HeapState, MetBands, OffsetCount, PAGE, Pattern, PlacementFigures,
    PlacementSummary, State, Way,
};
use statrs::distribution::{ChiSquared, ContinuousCDF};
use std::collections::BTreeMap;

/// Fewer samples tell nothing of how offsets are spread.
const ENOUGH: u64 = 8;

/// Samples that each part of the page is to expect in a chi-square test, and the fewest parts.
const EXPECTED: u64 = 5;
const LEAST_BINS: u32 = 8;

/// From this probability on, an even spread explains what was seen.
const EVEN: f64 = 0.001;

/// Up to so many different offsets are few.
const FEW: u32 = 4;

/// Most frequent offsets that are told.
const TOLD: usize = 4;

/// Offsets of a page.
const OFFSETS: usize = PAGE as usize;

/// Fills in everything that follows from the placements.
pub fn conclude(exposure: &mut Exposure) {
    let groups = groups(exposure);
    exposure.summaries = groups
        .iter()
        .map(|((subject, way, state, len), offsets)| PlacementSummary {
            allocator: exposure.subjects[*subject].name.clone(),
            len: *len,
            way: *way,
            state: *state,
            figures: figures(&[(*len, offsets)], &exposure.bands),
        })
        .collect();
    exposure.rows = rows::rows(exposure, &groups);
    exposure.published = published::compared(exposure);
}

/// Offsets by subject, way, state and length, of all processes.
type Groups = BTreeMap<(usize, Way, HeapState, u64), Vec<u16>>;

fn groups(exposure: &Exposure) -> Groups {
    let mut groups = Groups::new();
    for placed in &exposure.placements {
        let Some(subject) = exposure.subjects.iter().position(|s| s.name == placed.allocator) else {
            continue;
        };
        let offsets = groups.entry((subject, placed.way, placed.state, placed.len)).or_default();
        offsets.extend(placed.offsets.iter().map(|offset| offset % PAGE));
    }
    groups.retain(|_, offsets| !offsets.is_empty());
    groups
}

/// What offsets come to, each part with its length.
fn figures(parts: &[(u64, &[u16])], bands: &MetBands) -> PlacementFigures {
    let mut counts = vec![0u64; OFFSETS];
    parts.iter().flat_map(|(_, offsets)| *offsets).for_each(|offset| counts[usize::from(*offset)] += 1);
    let samples: u64 = counts.iter().sum();
    let distinct = counts.iter().filter(|count| **count > 0).count() as u32;
    let (step, least) = spacing(&counts);
    let even = even(&counts, samples, step, least);
    let pattern = match distinct {
        _ if samples < ENOUGH => Pattern::Sparse,
        1 => Pattern::Always,
        _ if even.is_some_and(|even| even.p >= EVEN) => Pattern::Uniform,
        2..=FEW => Pattern::Few,
        _ if even.is_none() => Pattern::Sparse,
        _ => Pattern::Uneven,
    };
    let (in_band, slowdown) = met(parts, bands, samples);
    PlacementFigures { samples, distinct, step, least, pattern, even, most: most(&counts), in_band, slowdown }
}

/// The largest step that leads from one offset to every other, and the smallest offset that it leads to.
fn spacing(counts: &[u64]) -> (u16, u16) {
    let mut seen =
        counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(offset, _)| offset as u16);
    let Some(first) = seen.next() else { return (PAGE, 0) };
    let step = seen.fold(PAGE, |step, offset| gcd(step, offset - first));
    (step, first % step)
}

fn gcd(a: u16, b: u16) -> u16 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Pearson's test of an even spread over the offsets that the step allows, neighbours taken together until each
/// part expects enough.
fn even(counts: &[u64], samples: u64, step: u16, least: u16) -> Option<ChiSquare> {
    // both are powers of two: a step divides the page
    let possible = u32::from(PAGE / step);
    let affordable = u32::try_from(samples / EXPECTED).unwrap_or(u32::MAX).max(1);
    let bins = possible.min(1 << affordable.ilog2());
    if bins < LEAST_BINS {
        return None;
    }
    let mut seen = vec![0u64; bins as usize];
    for place in 0..possible {
        let offset = usize::from(least) + place as usize * usize::from(step);
        seen[(place / (possible / bins)) as usize] += counts[offset];
    }
    let expected = samples as f64 / f64::from(bins);
    let statistic: f64 = seen.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
    let p = ChiSquared::new(f64::from(bins - 1)).ok()?.sf(statistic);
    Some(ChiSquare { bins, statistic, p })
}

/// The most frequent offsets, the lower one first where two are alike.
fn most(counts: &[u64]) -> Vec<OffsetCount> {
    let counted = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let mut all: Vec<OffsetCount> =
        counted.map(|(offset, count)| OffsetCount { offset: offset as u16, count: *count }).collect();
    all.sort_by_key(|at| (std::cmp::Reverse(at.count), at.offset));
    all.truncate(TOLD);
    all
}

/// How many offsets lie in a band of their length, and the slowdown that reads into all of them have on the average.
fn met(parts: &[(u64, &[u16])], bands: &MetBands, samples: u64) -> (Option<u64>, Option<f64>) {
    if !are_known(bands) || samples == 0 {
        return (None, None);
    }
    let (mut inside, mut time) = (0, Some(0.0));
    for (len, offsets) in parts {
        let Some(at) = nearest(bands, *len) else { return (None, None) };
        for offset in *offsets {
            let met: Vec<Option<f64>> =
                at.bands.iter().filter(|band| band.contains(*offset)).map(|band| band.slowdown).collect();
            inside += u64::from(!met.is_empty());
            // where two bands overlap the slower one counts; one without a figure leaves all without
            let slower = met.into_iter().try_fold(1.0, |slower: f64, slowdown| Some(slower.max(slowdown?)));
            time = time.zip(slower).map(|(time, slower)| time + slower);
        }
    }
    (Some(inside), time.map(|time| time / samples as f64).filter(|_| bands.state.is_some()))
}

/// Whether it is known at all at which offsets reads are slow.
fn are_known(bands: &MetBands) -> bool {
    bands.state != Some(State::Inconclusive) || bands.lens.iter().any(|at| !at.bands.is_empty())
}

/// The bands of the length nearest by ratio.
fn nearest(bands: &MetBands, len: u64) -> Option<&BandsAt> {
    bands.lens.iter().min_by(|a, b| ratio(a.len, len).total_cmp(&ratio(b.len, len)))
}

fn ratio(a: u64, b: u64) -> f64 {
    let [a, b] = [a, b].map(|len| len.max(1) as f64);
    (a / b).max(b / a)
}

#[cfg(test)]
mod tests;
