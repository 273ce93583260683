//! What a path's times over distance look like, and which copy routine that is.
//!
//! Each routine has a profile of its own (docs/signatures.md: measured on Zen 4): `rep movsb` is deep at distance
//! 0x001..0x00f alone, `rep movsq` mild and level over 0x001..0x01f, an unrolled loop and vectors are
//! flat. They can be told apart only where `rep movsb` itself is slow, which the same run has measured.

use super::series::class_of;
use super::stats;
use crate::report::{Cell, PathName, Phase, Report, distance};
use serde::Serialize;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Distances of the deep band of `rep movsb`, and of what only `rep movsq` holds to the same level.
const NEAR: RangeInclusive<u16> = 0x001..=0x00f;
const NEXT: RangeInclusive<u16> = 0x010..=0x01f;

/// Below this a stretch counts as flat, from it on as slow.
const FLAT: f64 = 1.15;

/// From this share of the penalty of `rep movsb` on, a path runs `rep movsb`. Other routines stay below a third.
const SAME_PENALTY: f64 = 0.5;

/// How far the penalties of the two stretches lie apart at most where they are one level.
const ONE_LEVEL: f64 = 2.0;

/// A path's times over distance at one length.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Profile {
    /// The copy path.
    pub path: PathName,
    /// Bytes of one copy.
    pub len: u64,
    /// Slowdown at distance 0x000.
    pub at_zero: Option<f64>,
    /// Slowdown at distance 0x001..0x00f, the upper quartile.
    pub near: f64,
    /// Slowdown at distance 0x010..0x01f.
    pub next: f64,
    /// Extra nanoseconds per KiB at distance 0x001..0x00f.
    pub near_ns_per_kib: f64,
    /// Extra nanoseconds per KiB at distance 0x010..0x01f.
    pub next_ns_per_kib: f64,
    /// The routine that this is the profile of.
    pub routine: Routine,
}

/// A copy routine as its profile shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Routine {
    /// `rep movsb`.
    #[serde(rename = "rep movsb")]
    Movsb,
    /// `rep movsq`.
    #[serde(rename = "rep movsq")]
    Movsq,
    /// An unrolled loop, vectors, or nothing at all.
    #[serde(rename = "no rep movs")]
    NoRep,
    /// Slow, but like none of them.
    #[serde(rename = "another")]
    Another,
    /// `rep movsb` is not slow at this length here, or was not measured, so nothing tells routines apart.
    #[serde(rename = "cannot tell")]
    Untold,
}

/// The profiles of a report's screens, one a (path, length).
pub fn profiles(report: &Report) -> Vec<Profile> {
    let is_screen = |c: &&Cell| report.runs.get(c.run).is_some_and(|r| r.phase == Phase::Screen);
    let cells: Vec<&Cell> = report.cells.iter().filter(is_screen).collect();
    let groups: BTreeSet<(PathName, u64)> = cells.iter().map(|c| (c.path, c.len)).collect();
    let of = |(path, len): &(PathName, u64)| {
        let own: Vec<&Cell> = cells.iter().copied().filter(|c| (c.path, c.len) == (*path, *len)).collect();
        profile(*path, *len, &own)
    };
    let mut profiles: Vec<Profile> = groups.iter().filter_map(of).collect();
    let movsb: Vec<Profile> =
        profiles.iter().filter(|p| p.path == PathName::RepMovsb && p.near >= FLAT).cloned().collect();
    for profile in &mut profiles {
        // the same length, else none: the penalty depends on it
        profile.routine = routine(profile, movsb.iter().find(|m| m.len == profile.len));
    }
    profiles
}

fn profile(path: PathName, len: u64, cells: &[&Cell]) -> Option<Profile> {
    let one = |c: &Cell| {
        let known = c.ns.iter().flatten().map(|ns| *ns as f64 / f64::from(c.repeat));
        Some((distance(c.dst?, c.src?), class_of(varied(c)?), stats::median_of(known)?))
    };
    let times: Vec<(u16, usize, f64)> = cells.iter().filter_map(|c| one(c)).collect();
    let far = |class: usize| {
        let far = times.iter().filter(|(d, c, _)| (0x100..0xf00).contains(d) && *c == class);
        stats::median_of(far.map(|t| t.2))
    };
    // distances off a multiple of 0x20 are compared with their like
    let base = far(2)?;
    let level = |range: RangeInclusive<u16>, quantile| {
        let mut inside: Vec<f64> =
            times.iter().filter(|t| range.contains(&t.0) && t.1 == 2).map(|t| t.2).collect();
        stats::quantile(&mut inside, quantile)
    };
    // a band that an update has narrowed fills only a part of these distances
    let (near, next) = (level(NEAR, 0.75)?, level(NEXT, 0.5)?);
    let zero = times.iter().find(|t| t.0 == 0).map(|t| t.2);
    let kib = len as f64 / 1024.0;
    Some(Profile {
        path,
        len,
        at_zero: zero.zip(far(0)).map(|(zero, base)| zero / base),
        near: near / base,
        next: next / base,
        near_ns_per_kib: (near - base) / kib,
        next_ns_per_kib: (next - base) / kib,
        routine: Routine::Untold,
    })
}

/// The offset that was varied: the alignment of the other side is the same for all.
fn varied(cell: &Cell) -> Option<u16> {
    let (dst, src) = (cell.dst?, cell.src?);
    Some(if dst == 0 { src } else { dst } % crate::report::PAGE)
}

/// The routine by its profile beside that of `rep movsb`.
fn routine(profile: &Profile, movsb: Option<&Profile>) -> Routine {
    let Some(movsb) = movsb else { return Routine::Untold };
    let [near, next] = [profile.near_ns_per_kib, profile.next_ns_per_kib];
    if profile.near >= FLAT && near >= SAME_PENALTY * movsb.near_ns_per_kib {
        Routine::Movsb
    } else if profile.near < FLAT && profile.next < FLAT {
        Routine::NoRep
    } else if profile.near >= FLAT && next > 0.0 && near / next < ONE_LEVEL && next / near < ONE_LEVEL {
        Routine::Movsq
    } else {
        Routine::Another
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(near: f64, next: f64, near_ns: f64, next_ns: f64) -> Profile {
        Profile {
            path: PathName::Read,
            len: 65536,
            at_zero: None,
            near,
            next,
            near_ns_per_kib: near_ns,
            next_ns_per_kib: next_ns,
            routine: Routine::Untold,
        }
    }

    #[test]
    fn routines_are_told_by_level_and_width() {
        let movsb = shown(16.0, 1.2, 273.0, 6.0);
        let told = |profile| routine(&profile, Some(&movsb));
        assert_eq!(told(shown(7.2, 1.1, 275.0, 6.0)), Routine::Movsb);
        assert_eq!(told(shown(1.5, 1.5, 22.0, 24.0)), Routine::Movsq);
        assert_eq!(told(shown(1.05, 1.03, 2.0, 1.0)), Routine::NoRep);
        assert_eq!(told(shown(1.5, 1.0, 22.0, 0.0)), Routine::Another);
        assert_eq!(routine(&movsb, None), Routine::Untold, "nothing to compare with");
    }
}
