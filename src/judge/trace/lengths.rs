//! Which lengths of a program's copies in a band a check leaves out: what those lose there is measured apart. Long copies
//! find nothing in the caches, and of short ones each pays for its start.

use super::{costs, counted, sampled};
use crate::report::{PathName, TraceBands, Watched};
use std::collections::BTreeSet;

/// The lengths that are measured apart, in bytes.
const LENGTHS: [u64; 4] = [128, 512, 4096, 64 << 20];

/// The paths by which copies landed in a band whose length is nearer, by ratio, to one of these than to any that was
/// measured.
pub fn unmeasured(watched: &Watched, bands: &TraceBands) -> BTreeSet<(PathName, u64)> {
    let met = |paths: &[PathName], distance: Option<u16>, len: f64| {
        let path = costs::measured(&bands.paths, paths, len)?;
        costs::band(path, distance?)?;
        let nearest =
            LENGTHS.into_iter().min_by(|a, b| costs::far(*a, len).total_cmp(&costs::far(*b, len)))?;
        (costs::far(nearest, len) < costs::far(path.len, len)).then_some((path.path, nearest))
    };
    let counted = watched.copies.iter().flat_map(|copies| {
        let paths = costs::of_call(&copies.call, copies.kind, copies.from_file);
        counted::landings(copies).filter_map(move |landing| {
            met(paths, landing.distance, landing.bytes as f64 / landing.copies.max(1) as f64)
        })
    });
    let inside = watched.samples.iter().flat_map(|samples| &samples.inside);
    let sampled = inside.filter_map(|inside| {
        met(costs::of_sample(inside.kernel.as_deref()), Some(inside.distance), sampled::length(inside))
    });
    counted.chain(sampled).collect()
}
