//! Which measured paths a program's long copies in a band stand for: what those lose is measured apart, since long copies
//! find nothing in the caches.

use super::{costs, counted, sampled};
use crate::report::{PathName, TraceBands, TracePath, Watched};
use std::collections::BTreeSet;

/// From this length on a copy is nearer to 64 MiB than to 64 KiB, by ratio.
const LONG: f64 = (2 << 20) as f64;

/// The paths by which copies of 2 MiB and more landed in a band.
pub fn streams(watched: &Watched, bands: &TraceBands) -> BTreeSet<PathName> {
    let met = |path: Option<&TracePath>, distance: Option<u16>| {
        path.filter(|path| distance.is_some_and(|at| costs::band(path, at).is_some())).map(|path| path.path)
    };
    let counted = watched.copies.iter().flat_map(|copies| {
        counted::landings(copies).filter_map(move |landing| {
            let len = landing.bytes as f64 / landing.copies.max(1) as f64;
            let paths = costs::of_call(&copies.call, copies.kind, copies.from_file);
            (len >= LONG).then(|| met(costs::measured(&bands.paths, paths, len), landing.distance)).flatten()
        })
    });
    let sampled = watched.samples.iter().flat_map(|samples| &samples.inside).filter_map(|inside| {
        let len = sampled::length(inside);
        let paths = costs::of_sample(inside.kernel.as_deref());
        (len >= LONG).then(|| met(costs::measured(&bands.paths, paths, len), Some(inside.distance))).flatten()
    });
    counted.chain(sampled).collect()
}
