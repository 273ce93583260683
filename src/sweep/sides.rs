//! Which side of a copy a sweep varies: the allocator's, wherever it lies, unless asked otherwise.

use super::grid::Asked;
use super::offsets::Offsets;
use crate::report::{Allocator, CellSpec, PAGE, PathName, Scan};
use std::collections::BTreeSet;

/// Distances of the short lengths: the bands of all published signatures start in here.
pub const NEAR: u16 = 0x48;

/// What a sweep of one path varies: offsets of both sides, and along which its references lie.
pub struct Sides {
    /// Destination offsets.
    pub dst: Vec<u16>,
    /// Source offsets.
    pub src: Vec<u16>,
    /// The side that references vary.
    pub scan: Scan,
}

impl Sides {
    /// The sides that were asked for, as far as the path can have them. All destinations without a
    /// source mean the allocator's side, which is the source of a path that writes.
    pub fn of(asked: &Asked, path: PathName, near_only: bool) -> Sides {
        let mut varied = asked.dst.all().to_vec();
        if near_only {
            varied.retain(|o| *o <= NEAR);
        }
        let whole = asked.dst.all() == Offsets::circle().all();
        let (dst, src) = match &asked.src {
            None if whole && path.own_scan() == Scan::Src => {
                // distance falls as src rises: the near distances lie below a page's end
                (vec![0], varied.into_iter().map(|o| if near_only { mirrored(o) } else { o }).collect())
            }
            // a destination that is always 0x000: the same distances by its sources
            None if path.fixed() == Some(Scan::Dst) => {
                (vec![0], varied.into_iter().map(mirrored).collect::<BTreeSet<u16>>().into_iter().collect())
            }
            None => (varied, vec![0]),
            Some(src) => (varied, src.all().to_vec()),
        };
        let can = |dst: &u16, src: &u16| path.takes(*dst, *src);
        let dst: Vec<u16> = dst.into_iter().filter(|dst| src.iter().any(|src| can(dst, src))).collect();
        let src: Vec<u16> = src.into_iter().filter(|src| dst.iter().any(|dst| can(dst, src))).collect();
        let only_src = dst.len() <= 1 && src.len() > 1 || path.fixed() == Some(Scan::Dst);
        Sides { dst, src, scan: if only_src { Scan::Src } else { Scan::Dst } }
    }

    /// The offsets of the side that the references vary with the other held at its first, as (dst, src).
    pub fn along(&self, varied: u16) -> (u16, u16) {
        let first = |side: &[u16]| side.first().copied().unwrap_or(0);
        match self.scan {
            Scan::Dst => (varied, first(&self.src)),
            Scan::Src => (first(&self.dst), varied),
        }
    }
}

/// The source offset at dst 0x000 whose distance is this.
pub fn mirrored(distance: u16) -> u16 {
    (PAGE - distance % PAGE) % PAGE
}

/// A cell at an offset of the allocator's side, the path's own at 0x000.
pub fn on_own_side(path: PathName, allocator: Allocator, len: u64, offset: u16) -> CellSpec {
    let (dst, src) = match path.own_scan() {
        Scan::Dst => (offset, 0),
        Scan::Src => (0, offset),
    };
    CellSpec { path, allocator: Some(allocator), len, dst, src, reference: false }
}
