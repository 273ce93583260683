//! What is published of each allocator's placements, beside what was seen. Reality may differ: an allocator
//! built or configured otherwise, or a newer version.

use super::words::{lens, spread};
use super::{ENOUGH, ratio};
use crate::report::{
    Exposure, HeapState, Pattern, PlacementFigures, PlacementSummary, PublishedPlacement, Way,
};

/// jemalloc: the longest size class that is cut from slabs; longer ones start at random.
const JEMALLOC_SMALL: u64 = 14336;

/// glibc: the most that the threshold of mapped chunks can grow to (`DEFAULT_MMAP_THRESHOLD_MAX`); longer ones
/// are always mapped.
const GLIBC_MAPPED: u64 = 32 << 20;

/// mimalloc: from here on buffers usually start with a page.
const MIMALLOC_PAGES: u64 = 16 << 10;

/// What "usually" means.
const USUALLY: f64 = 0.9;

/// The comparison for each allocator that something is published of, at the lengths that it is published for.
pub(super) fn compared(exposure: &Exposure) -> Vec<PublishedPlacement> {
    let of = |name: &str| {
        let subject = exposure.subjects.iter().find(|s| s.name == name && !s.preloaded)?;
        let plain = |s: &&PlacementSummary| s.allocator == subject.name && s.way == Way::Malloc;
        let summaries: Vec<&PlacementSummary> = exposure.summaries.iter().filter(plain).collect();
        match name {
            "glibc" => glibc(&summaries),
            "jemalloc" => jemalloc(&summaries),
            "mimalloc" => mimalloc(&summaries),
            _ => None,
        }
    };
    ["glibc", "jemalloc", "mimalloc"].into_iter().filter_map(of).collect()
}

fn glibc(summaries: &[&PlacementSummary]) -> Option<PublishedPlacement> {
    let mapped: Vec<&PlacementSummary> = summaries.iter().copied().filter(|s| s.len > GLIBC_MAPPED).collect();
    let expected =
        "always 0x010 above 32 MiB: a mapped chunk starts with a header of 16 bytes (glibc, malloc.c)";
    compare("glibc", expected, &mapped, |figures| {
        figures.most.iter().all(|at| at.offset == 0x010) && figures.distinct == 1
    })
}

fn jemalloc(summaries: &[&PlacementSummary]) -> Option<PublishedPlacement> {
    let long = summaries.iter().copied().filter(|s| s.len > JEMALLOC_SMALL && s.state == HeapState::First);
    // one length, so that one test in a thousand goes wrong and not one in fifty: the published one
    let one = long.min_by(|a, b| ratio(a.len, 1 << 20).total_cmp(&ratio(b.len, 1 << 20)));
    let expected = "steps of 64, roughly uniform, above 14336 bytes (jemalloc's opt.cache_oblivious)";
    let tested: Vec<&PlacementSummary> =
        one.into_iter().filter(|s| s.figures.pattern != Pattern::Sparse).collect();
    match (one, tested.is_empty()) {
        (Some(one), true) => Some(undecided("jemalloc", expected, one)),
        _ => compare("jemalloc", expected, &tested, |figures| {
            figures.pattern == Pattern::Uniform && (figures.step, figures.least) == (64, 0)
        }),
    }
}

fn mimalloc(summaries: &[&PlacementSummary]) -> Option<PublishedPlacement> {
    let long = summaries.iter().copied().filter(|s| s.len >= MIMALLOC_PAGES && s.state == HeapState::First);
    let expected = "usually 0x000 from 16 KiB on (mimalloc's large and huge blocks start with a page)";
    compare("mimalloc", expected, &long.collect::<Vec<_>>(), |figures| {
        let at_zero = figures.most.iter().find(|at| at.offset == 0).map_or(0, |at| at.count);
        at_zero as f64 >= USUALLY * figures.samples as f64
    })
}

/// The lengths at which it holds, and what was seen at the first where it does not.
fn compare(
    name: &str,
    expected: &str,
    summaries: &[&PlacementSummary],
    holds: impl Fn(&PlacementFigures) -> bool,
) -> Option<PublishedPlacement> {
    let first = *summaries.first()?;
    let enough: Vec<&PlacementSummary> =
        summaries.iter().copied().filter(|summary| summary.figures.samples >= ENOUGH).collect();
    if enough.is_empty() {
        return Some(undecided(name, expected, first));
    }
    let samples: u64 = enough.iter().map(|summary| summary.figures.samples).sum();
    let other = enough.iter().find(|summary| !holds(&summary.figures));
    let mut at: Vec<u64> = enough.iter().map(|summary| summary.len).collect();
    at.sort_unstable();
    at.dedup();
    let sentence = match other {
        None => format!("{name}, {}: as published, {expected}; {samples} allocations", lens(&at)),
        Some(other) => format!(
            "{name}, {}: OTHER than published. Published: {expected}. Seen: {}",
            lens(&[other.len]),
            spread(&other.figures)
        ),
    };
    Some(PublishedPlacement {
        allocator: name.into(),
        expected: expected.into(),
        holds: Some(other.is_none()),
        sentence,
    })
}

fn undecided(name: &str, expected: &str, summary: &PlacementSummary) -> PublishedPlacement {
    PublishedPlacement {
        allocator: name.into(),
        expected: expected.into(),
        holds: None,
        sentence: format!(
            "{name}, {}: {} allocations are too few to compare with what is published, {expected}",
            lens(&[summary.len]),
            summary.figures.samples
        ),
    }
}
