//! Lengths, ways and states whose offsets are spread alike, taken together.

use super::{ENOUGH, Groups, OFFSETS, figures, nearest, words};
use crate::report::{Exposure, ExposureRow, HeapState, Pattern, PlacementFigures, Subject, Way};
use std::collections::BTreeSet;

/// Parts of the page in a histogram, and offsets in a close-up.
const BINS: usize = 64;

/// What has to be equal for two summaries to be alike.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Key {
    spread: Spread,
    step: u16,
    least: u16,
    /// Which bands were met, if any were: their slowdown differs from length to length.
    bands: Option<u64>,
    /// How much of what is not spread evenly lies in them, roughly: an average over unlike parts would be true of none.
    share: Option<Share>,
}

/// A share of buffers in a band.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Share {
    Few,
    Some,
    Most,
}

impl Share {
    fn of(inside: u64, samples: u64) -> Share {
        match inside as f64 / samples.max(1) as f64 {
            share if share < 0.1 => Share::Few,
            share if share < 0.75 => Share::Some,
            _ => Share::Most,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Spread {
    Always,
    Few,
    Many,
    Sparse,
}

/// Lengths of some ways and states with one key.
#[derive(Debug, Clone)]
struct Cluster {
    ways: Vec<Way>,
    states: Vec<HeapState>,
    lens: Vec<u64>,
    key: Key,
}

/// The rows of every subject, in the order of ways, states and lengths.
pub(super) fn rows(exposure: &Exposure, groups: &Groups) -> Vec<ExposureRow> {
    let of = |(index, subject): (usize, &Subject)| {
        let clusters = clusters(exposure, groups, index);
        clusters
            .into_iter()
            .map(|cluster| row(exposure, groups, index, subject, &cluster))
            .collect::<Vec<_>>()
    };
    exposure.subjects.iter().enumerate().flat_map(of).collect()
}

fn clusters(exposure: &Exposure, groups: &Groups, subject: usize) -> Vec<Cluster> {
    let mut runs = Vec::new();
    for way in Way::ALL.iter().copied() {
        for state in HeapState::ALL.iter().copied() {
            let of = groups.range((subject, way, state, 0)..=(subject, way, state, u64::MAX));
            let keyed = of.map(|((.., len), offsets)| {
                (*len, key(exposure, groups, (subject, way, state, *len), offsets))
            });
            runs.extend(in_runs(way, state, keyed));
        }
    }
    // first the states of one way, then ways with equal states: each row is all of its ways in all of its states
    let by_state =
        joined(runs, groups, subject, |a, b| a.ways == b.ways, |into, from| into.states.extend(from.states));
    joined(by_state, groups, subject, |a, b| a.states == b.states, |into, from| into.ways.extend(from.ways))
}

/// Neighbouring lengths with one key.
fn in_runs(way: Way, state: HeapState, keyed: impl Iterator<Item = (u64, Key)>) -> Vec<Cluster> {
    let mut runs: Vec<Cluster> = Vec::new();
    for (len, key) in keyed {
        match runs.last_mut().filter(|run| run.key == key) {
            Some(run) => run.lens.push(len),
            None => runs.push(Cluster { ways: vec![way], states: vec![state], lens: vec![len], key }),
        }
    }
    runs
}

fn key(exposure: &Exposure, groups: &Groups, at: (usize, Way, HeapState, u64), offsets: &[u16]) -> Key {
    let own = own_key(exposure, at.3, offsets);
    if own.spread != Spread::Sparse || at.1 == Way::Malloc {
        return own;
    }
    // a few offsets that malloc could have given as well are no pattern of their own
    let malloc = groups.get(&(at.0, Way::Malloc, at.2, at.3));
    let of_malloc = malloc.map(|offsets| own_key(exposure, at.3, offsets));
    let fits = |key: &Key| offsets.iter().all(|offset| offset % key.step == key.least % key.step);
    // a handful that are mostly inside may be chance where malloc's are at times
    let may_be_chance = offsets.len() < ENOUGH as usize;
    let is_alike = |key: &Key| {
        key.share == own.share
            || own.share != Some(Share::Most)
            || (may_be_chance && key.share == Some(Share::Some))
    };
    of_malloc.filter(|key| key.spread != Spread::Sparse && fits(key) && is_alike(key)).unwrap_or(own)
}

fn own_key(exposure: &Exposure, len: u64, offsets: &[u16]) -> Key {
    let PlacementFigures { pattern, step, least, in_band, samples, .. } =
        figures(&[(len, offsets)], &exposure.bands);
    let spread = match pattern {
        Pattern::Always => Spread::Always,
        Pattern::Few => Spread::Few,
        Pattern::Uniform | Pattern::Uneven => Spread::Many,
        Pattern::Sparse => Spread::Sparse,
    };
    let met = in_band.is_some_and(|count| count > 0);
    let bands = nearest(&exposure.bands, len).filter(|_| met).map(|at| at.len);
    let is_uneven = pattern != Pattern::Uniform;
    Key {
        spread,
        step,
        least,
        bands,
        share: in_band.filter(|_| met && is_uneven).map(|count| Share::of(count, samples)),
    }
}

/// Clusters that may be joined, joined: one takes another in that has the same key at the same lengths, or at
/// some of them and was not measured at the others.
fn joined(
    clusters: Vec<Cluster>,
    groups: &Groups,
    subject: usize,
    may: impl Fn(&Cluster, &Cluster) -> bool,
    join: impl Fn(&mut Cluster, Cluster),
) -> Vec<Cluster> {
    let mut all: Vec<Cluster> = Vec::new();
    for cluster in clusters {
        let host = all.iter_mut().find(|host| {
            may(host, &cluster) && host.key == cluster.key && covers(host, &cluster, groups, subject)
        });
        match host {
            Some(host) => join(host, cluster),
            None => all.push(cluster),
        }
    }
    all
}

fn covers(host: &Cluster, cluster: &Cluster, groups: &Groups, subject: usize) -> bool {
    let known: BTreeSet<u64> = cluster.lens.iter().copied().collect();
    let is_measured = |len: u64| {
        let both = cluster.ways.iter().flat_map(|way| cluster.states.iter().map(move |state| (*way, *state)));
        both.into_iter().any(|(way, state)| groups.contains_key(&(subject, way, state, len)))
    };
    known.iter().all(|len| host.lens.contains(len))
        && host.lens.iter().all(|len| known.contains(len) || !is_measured(*len))
}

fn row(
    exposure: &Exposure,
    groups: &Groups,
    index: usize,
    subject: &Subject,
    cluster: &Cluster,
) -> ExposureRow {
    let mut parts: Vec<(u64, &[u16])> = Vec::new();
    for (way, state) in
        cluster.ways.iter().flat_map(|way| cluster.states.iter().map(move |state| (way, state)))
    {
        let of = |len: &u64| Some((*len, groups.get(&(index, *way, *state, *len))?.as_slice()));
        parts.extend(cluster.lens.iter().filter_map(of));
    }
    let mut row = ExposureRow {
        allocator: subject.name.clone(),
        lens: cluster.lens.clone(),
        ways: cluster.ways.clone(),
        states: cluster.states.clone(),
        figures: figures(&parts, &exposure.bands),
        histogram: vec![0; BINS],
        close_up: vec![0; BINS],
        sentence: String::new(),
    };
    for offset in parts.iter().flat_map(|(_, offsets)| *offsets).map(|offset| usize::from(*offset)) {
        row.histogram[offset * BINS / OFFSETS] += 1;
        if let Some(count) = row.close_up.get_mut(offset) {
            *count += 1;
        }
    }
    row.sentence = words::sentence(&row, &exposure.bands);
    row
}
