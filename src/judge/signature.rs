//! Published signatures (docs/signatures.md), and which of them a report's deep bands match.

use std::ops::RangeInclusive;

use crate::report::{Axis, Band, Depth, PAGE, PathName, PathVerdict, Scan};

/// One published signature.
struct Signature {
    axis: Axis,
    from: u16,
    to: u16,
    /// How far each edge may lie from the published one: some sources name round numbers.
    slack: u16,
    /// What a KiB costs more, in ns, where that tells signatures with the same edges apart.
    ns_per_kib: RangeInclusive<f64>,
    name: &'static str,
}

/// Any penalty.
const ANY: RangeInclusive<f64> = 0.0..=f64::INFINITY;

/// What parts `rep movsq` (26 to 50 ns per KiB on Zen 3 and Zen 4) from `rep movsb` (200 and more).
const MOVSQ_MOST: f64 = 100.0;

const PUBLISHED: [Signature; 6] = [
    Signature {
        axis: Axis::Distance,
        from: 0x001,
        to: 0x00f,
        slack: 0,
        ns_per_kib: ANY,
        name: "Zen 4, rep movsb at distance 0x001..0x00f (sourceware BZ 30994; measured by this project)",
    },
    Signature {
        axis: Axis::Distance,
        from: 0x991,
        to: 0x00f,
        slack: 1,
        ns_per_kib: ANY,
        name: "Zen 3, read(2) at distances above 0x990 and up to 0x00f (apache/opendal#3665)",
    },
    Signature {
        axis: Axis::Distance,
        from: 0x001,
        to: 0x01f,
        slack: 0,
        ns_per_kib: 0.0..=MOVSQ_MOST,
        name: "Zen 3 and Zen 4, rep movsq at distance 0x001..0x01f (measured by this project)",
    },
    Signature {
        axis: Axis::Distance,
        from: 0x001,
        to: 0x01f,
        slack: 0,
        ns_per_kib: MOVSQ_MOST..=f64::INFINITY,
        name: "Zen 3, rep movsb at distance 0x001..0x01f (measured by this project)",
    },
    Signature {
        axis: Axis::Distance,
        from: 0x001,
        to: 0x03f,
        slack: 0,
        ns_per_kib: ANY,
        name: "Zen 5, rep movs of a few bytes at distance 0x001..0x03f (measured by this project)",
    },
    Signature {
        axis: Axis::Dst,
        from: 0x000,
        to: 0x00f,
        slack: 0,
        ns_per_kib: ANY,
        name: "read(2) at dst 0x000..0x00f (users.rust-lang.org 85424)",
    },
];

/// The signature that the confirmed deep bands match, if all of them match one; `rep movsq`, which has its
/// own, counts only where nothing else is slow. `from_zero` tells of which paths all sources lay at page
/// offset 0x000, so that a band over dst is one by distance as far as was seen.
pub fn matching(paths: &[PathVerdict], from_zero: impl Fn(PathName) -> bool) -> Option<String> {
    let deep = |p: &'_ PathVerdict| p.bands.iter().any(|b| b.depth == Depth::Deep && b.confirmed);
    let mut slow: Vec<&PathVerdict> = paths.iter().filter(|p| deep(p)).collect();
    if slow.iter().any(|p| p.path != PathName::RepMovsq) {
        slow.retain(|p| p.path != PathName::RepMovsq);
    }
    let bands = || slow.iter().flat_map(|p| p.bands.iter().map(move |b| (*p, b)));
    let bands = || bands().filter(|(_, b)| b.depth == Depth::Deep && b.confirmed);
    let (first, _) = bands().next()?;
    let fits = |s: &&Signature| bands().all(|(path, band)| fits(s, path, band));
    let found = PUBLISHED.iter().find(fits);
    // without the other side varied, dst and distance are one: then either may be meant
    let unsure = |s: &&Signature| bands().all(|(p, b)| fits_from_zero(s, p, b)) && from_zero(first.path);
    let if_distance = || PUBLISHED.iter().filter(|s| s.axis == Axis::Distance).find(unsure);
    let name = |s: &Signature, doubt: &str| format!("{}{doubt}", s.name);
    found.map(|s| name(s, "")).or_else(|| {
        if_distance().map(|s| name(s, ", if it depends on distance, which was not varied apart from dst"))
    })
}

fn near(a: u16, b: u16, slack: u16) -> bool {
    let gap = a.wrapping_sub(b) % PAGE;
    gap.min(PAGE - gap) <= slack
}

fn fits(signature: &Signature, path: &PathVerdict, band: &Band) -> bool {
    let place = match (signature.axis, path.by_distance(band)) {
        (Axis::Distance, place) => place,
        (axis, _) => (band.axis == Some(axis)).then_some((band.from, band.to)),
    };
    place.is_some_and(|(from, to)| {
        near(from, signature.from, signature.slack)
            && near(to, signature.to, signature.slack)
            && signature.ns_per_kib.contains(&band.penalty_ns_per_kib)
    })
}

fn fits_from_zero(signature: &Signature, path: &PathVerdict, band: &Band) -> bool {
    let as_distance = Band { axis: Some(Axis::Distance), ..band.clone() };
    band.axis.is_none() && band.scan == Scan::Dst && fits(signature, path, &as_distance)
}
