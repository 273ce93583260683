//! Which cells are sampled: every offset at 64 KiB, coarser grids at other lengths, references in each.

use super::offsets::Offsets;
use super::sample::{LONG, Plan};
use super::sides::{Sides, mirrored, on_own_side};
pub use crate::report::length as size;
use crate::report::{Allocator, Axis, Band, CellSpec, PAGE, PathName, Phase, Scan};
use std::collections::BTreeMap;

/// The length of the fine sweep: it fits every L2, which makes it the cleanest signal.
pub const FINE: u64 = 64 << 10;

/// Short lengths of the default sweep.
pub const SHORT: [u64; 3] = [128, 512, 4096];

/// The default sweep reads at most this much of a file at once: the published case.
pub const WHOLE: u64 = 64 << 20;

/// Most offsets an allocator at whole-file length.
pub const WHOLE_OFFSETS: usize = 56;

/// Rounds at whole-file length.
pub const WHOLE_ROUNDS: u32 = 7;

/// References of each alignment class in a fine sweep, and in anything coarser.
const FINE_REFERENCES: u16 = 64;
const COARSE_REFERENCES: u16 = 16;

/// A/A pairs a (path, allocator, length).
const CONTROLS: usize = 16;

/// So many paths are sampled in one run, and swept over both sides.
const FEW_PATHS: usize = 3;

/// What the user asked to be swept.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Copy paths.
    pub paths: Vec<PathName>,
    /// Allocators.
    pub allocators: Vec<Allocator>,
    /// Whether paths other than read and pread take the first allocator only, by default.
    pub sparing: bool,
    /// Destination offsets.
    pub dst: Offsets,
    /// Source offsets, where given.
    pub src: Option<Offsets>,
    /// Lengths in bytes, where given.
    pub lens: Option<Vec<u64>>,
    /// Whether lengths are searched for, in place of any sweep.
    pub find_lens: bool,
    /// The longest that such a search takes, in bytes.
    pub longest_searched: u64,
    /// Rounds, where given.
    pub rounds: Option<u32>,
    /// Rounds where not given.
    pub default_rounds: u32,
    /// Bytes of the source.
    pub source_size: u64,
    /// Page offsets that the allocators returned on their own, by allocator and length.
    pub natural: BTreeMap<(Allocator, u64), Vec<u16>>,
}

impl Asked {
    /// The length of the longest copies, whole-file cells included.
    pub fn longest(&self) -> u64 {
        let sampled = self.short_lens().into_iter().chain(self.long_lens()).max();
        sampled.unwrap_or(if self.find_lens { self.longest_searched } else { FINE })
    }

    /// Lengths that are screened and confirmed.
    pub fn short_lens(&self) -> Vec<u64> {
        match &self.lens {
            _ if self.find_lens => vec![],
            None => SHORT.into_iter().chain([FINE]).collect(),
            Some(lens) => {
                let mut short: Vec<u64> = lens.iter().copied().filter(|l| *l < LONG).collect();
                if short.is_empty() {
                    // long copies only test bands that were confirmed at this length
                    short.push(FINE);
                }
                short
            }
        }
    }

    /// Lengths that only test what was confirmed at 64 KiB.
    pub fn long_lens(&self) -> Vec<u64> {
        match &self.lens {
            _ if self.find_lens => vec![],
            None => [self.source_size.min(WHOLE)].into_iter().filter(|l| *l >= LONG).collect(),
            Some(lens) => lens.iter().copied().filter(|l| *l >= LONG).collect(),
        }
    }

    /// Rounds at a long length.
    pub fn long_rounds(&self) -> u32 {
        self.rounds.unwrap_or(WHOLE_ROUNDS)
    }

    /// The natural offsets of an allocator at a length.
    fn natural(&self, allocator: Allocator, len: u64) -> impl Iterator<Item = u16> + '_ {
        self.natural.get(&(allocator, len)).into_iter().flatten().copied()
    }

    fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(self.default_rounds)
    }

    /// Every (path, allocator).
    fn columns(&self) -> impl Iterator<Item = (PathName, Allocator)> + '_ {
        let most = |path: PathName| if self.sparing && !is_main(path) { 1 } else { usize::MAX };
        self.paths.iter().flat_map(move |p| self.allocators.iter().take(most(*p)).map(|a| (*p, *a)))
    }

    /// Paths that are sampled in one run: a few together, of many each alone, since what all of them touch
    /// would not stay in the caches.
    fn groups(&self) -> impl Iterator<Item = &[PathName]> {
        let few = self.paths.len() <= FEW_PATHS;
        self.paths.chunks(if few { FEW_PATHS } else { 1 })
    }

    /// The paths whose own side is swept too: where many are asked for, those of the main job.
    fn other_side_paths(&self) -> impl Iterator<Item = PathName> + '_ {
        let few = self.paths.len() <= FEW_PATHS;
        self.paths.iter().copied().filter(move |path| path.fixed().is_none() && (few || is_main(*path)))
    }

    /// The paths that are sampled at long lengths: by default those of the main job.
    pub fn long_paths(&self) -> impl Iterator<Item = PathName> + '_ {
        self.paths.iter().copied().filter(|path| self.lens.is_some() || is_main(*path))
    }

    /// Every (path, allocator) of the long lengths.
    pub fn long_columns(&self) -> impl Iterator<Item = (PathName, Allocator)> + '_ {
        self.columns().filter(|(path, _)| self.lens.is_some() || is_main(*path))
    }

    /// The length of the longest copies of paths that bring a side of their own.
    pub fn longest_without_file(&self) -> u64 {
        if self.lens.is_some() || self.find_lens { self.longest() } else { FINE }
    }
}

/// Whether a path is of the main job, whose defaults leave nothing out.
fn is_main(path: PathName) -> bool {
    matches!(path, PathName::Read | PathName::Pread)
}

/// Page offsets spread over the whole circle: `count` (a power of two up to 64) of each alignment
/// class: multiples of 0x40, odd multiples of 0x20, and the rest.
pub fn references(count: u16) -> Vec<u16> {
    let step = PAGE / count;
    let half = step / 2 / 64 * 64;
    (0..count)
        .flat_map(|k| {
            let base = step * k;
            [base, base + half + 0x20, base + half + 1 + k * 7 % 31]
        })
        .collect()
}

/// The screen runs: the fine sweep, the short lengths, and one sweep over the paths' own side.
pub fn screens(asked: &Asked) -> Vec<Plan> {
    let mut plans = Vec::new();
    for len in asked.short_lens() {
        let coarse = asked.lens.is_none() && len != FINE;
        plans.extend(asked.groups().map(|paths| main_sweep(asked, len, coarse, paths)));
    }
    if asked.src.is_none() && asked.lens.is_none() && asked.other_side_paths().next().is_some() {
        plans.push(other_side_sweep(asked));
    }
    plans
}

/// A length's sweep of those of the paths that have it.
fn main_sweep(asked: &Asked, len: u64, coarse: bool, paths: &[PathName]) -> Plan {
    let mut cells = Cells::default();
    let mut controls = Vec::new();
    let mut offsets = 0;
    // a length of its own choice is asked for also where a path refuses it, so that the refusal is told
    let has = |path: PathName| paths.contains(&path) && (asked.lens.is_some() || len >= path.tells_from());
    for (path, allocator) in asked.columns().filter(|(path, _)| has(*path)) {
        let sides = Sides::of(asked, path, coarse);
        let varied = sides.dst.len().max(sides.src.len());
        offsets = offsets.max(varied);
        let refs =
            references(if varied > usize::from(PAGE / 2) { FINE_REFERENCES } else { COARSE_REFERENCES });
        let spec =
            |(dst, src), reference| CellSpec { path, allocator: Some(allocator), len, dst, src, reference };
        for &src in &sides.src {
            sides.dst.iter().for_each(|&dst| cells.add(spec((dst, src), false)));
        }
        refs.iter().for_each(|&at| cells.add(spec(sides.along(at), true)));
        if sides.scan == path.own_scan() {
            asked.natural(allocator, len).for_each(|at| cells.add(spec(sides.along(at), false)));
        }
        let every = refs.len() / CONTROLS;
        controls.extend(refs.iter().step_by(every).take(CONTROLS).map(|&at| spec(sides.along(at), false)));
    }
    let whose = if paths.len() < asked.paths.len() { format!("{}: ", paths[0]) } else { String::new() };
    Plan {
        label: format!("{whose}{} at {offsets} offsets", size(len)),
        phase: Phase::Screen,
        rounds: asked.rounds(),
        cells: cells.into(),
        controls,
    }
}

/// Every offset of the path's own side, the allocator's at 0x000, with one allocator: shows a band that
/// depends on that side alone.
fn other_side_sweep(asked: &Asked) -> Plan {
    let mut cells = Cells::default();
    let allocator = asked.allocators[0];
    for path in asked.other_side_paths() {
        let spec = |offset, reference| {
            let (dst, src) = match path.own_scan() {
                Scan::Dst => (0, offset),
                Scan::Src => (offset, 0),
            };
            CellSpec { path, allocator: Some(allocator), len: FINE, dst, src, reference }
        };
        (0..PAGE).for_each(|offset| cells.add(spec(offset, false)));
        references(FINE_REFERENCES).into_iter().for_each(|offset| cells.add(spec(offset, true)));
    }
    Plan {
        label: format!("{} at every offset of the other side", size(FINE)),
        phase: Phase::Screen,
        rounds: asked.rounds(),
        cells: cells.into(),
        controls: vec![],
    }
}

/// The coarse grid at a long length: references over the circle, a few cells inside and beside each
/// band confirmed at 64 KiB, and the natural offsets; never more than `most` offsets an allocator.
pub fn long_grid(asked: &Asked, len: u64, most: usize, bands: &[(PathName, Allocator, Band)]) -> Plan {
    let mut cells = Cells::default();
    let explicit = asked.dst.all().len() <= WHOLE_OFFSETS;
    for (path, allocator) in asked.long_columns() {
        let spec = |at, reference| CellSpec { reference, ..on_own_side(path, allocator, len, at) };
        let own = bands
            .iter()
            .filter(|(p, a, _)| (*p, *a) == (path, allocator))
            .flat_map(|(.., band)| inside(path, band));
        let natural = asked.natural(allocator, len).take(3);
        let asked_for = asked.dst.all().iter().copied().filter(|_| explicit && path.own_scan() == Scan::Dst);
        let mut wanted: Vec<u16> = Vec::new();
        for at in own.chain(natural).chain(asked_for) {
            if !wanted.contains(&at) {
                wanted.push(at);
            }
        }
        wanted.truncate(most.saturating_sub(12));
        let per_class = [16u16, 8, 4].into_iter().find(|n| wanted.len() + usize::from(*n) * 3 <= most);
        wanted.into_iter().for_each(|at| cells.add(spec(at, false)));
        references(per_class.unwrap_or(4)).into_iter().for_each(|at| cells.add(spec(at, true)));
    }
    Plan {
        label: format!("{} on a coarse grid", size(len)),
        phase: Phase::Screen,
        rounds: asked.long_rounds(),
        cells: cells.into(),
        controls: vec![],
    }
}

/// Offsets of the allocator's side that test a band: its edges, their neighbours outside, and some between.
fn inside(path: PathName, band: &Band) -> Vec<u16> {
    let at = |step: u16| (band.from + step) % PAGE;
    let last = band.width() - 1;
    let mut offsets = vec![at(last / 2), at(0), at(last), at(last / 3), at(last * 2 / 3)];
    offsets.extend([at(PAGE - 1), at(last + 1)]);
    if path.own_scan() == Scan::Src && band.axis == Some(Axis::Distance) {
        offsets.iter_mut().for_each(|offset| *offset = mirrored(*offset));
    }
    offsets
}

/// Cells of a plan, each once; a reference that is also asked for stays one cell.
#[derive(Default)]
struct Cells(BTreeMap<(PathName, Option<Allocator>, u64, u16, u16), CellSpec>);

impl Cells {
    fn add(&mut self, cell: CellSpec) {
        let key = (cell.path, cell.allocator, cell.len, cell.dst, cell.src);
        self.0.entry(key).or_insert(cell).reference |= cell.reference;
    }
}

impl From<Cells> for Vec<CellSpec> {
    fn from(cells: Cells) -> Self {
        cells.0.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::distance;
    use crate::sweep::sides::NEAR;

    fn asked() -> Asked {
        Asked {
            paths: vec![PathName::Read],
            allocators: vec![Allocator::Glibc, Allocator::Jemalloc, Allocator::Mimalloc],
            sparing: true,
            dst: Offsets::circle(),
            src: None,
            lens: None,
            find_lens: false,
            longest_searched: 0,
            rounds: None,
            default_rounds: 15,
            source_size: WHOLE,
            natural: BTreeMap::from([((Allocator::Glibc, WHOLE), vec![0x10])]),
        }
    }

    #[test]
    fn references_hold_every_class_over_the_circle() {
        for count in [4, 8, 16, 32, 64] {
            let refs = references(count);
            let class = |f: fn(&u16) -> bool| refs.iter().filter(|o| f(o)).count();
            assert_eq!(class(|o| o % 64 == 0), usize::from(count));
            assert_eq!(class(|o| o % 64 == 32), usize::from(count));
            assert_eq!(class(|o| o % 32 != 0), usize::from(count));
            assert!(refs.iter().all(|o| *o < PAGE));
            assert!(refs.iter().max() >= Some(&(PAGE - PAGE / count)));
        }
    }

    #[test]
    fn the_default_sweep_holds_every_offset_at_64_kib() {
        let plans = screens(&asked());
        let fine = plans.iter().find(|p| p.cells.len() > 12000).unwrap();
        for allocator in asked().allocators {
            let dsts: Vec<u16> =
                fine.cells.iter().filter(|c| c.allocator == Some(allocator)).map(|c| c.dst).collect();
            assert_eq!(dsts, Offsets::circle().all());
        }
        assert!(fine.rounds >= 15 && fine.cells.iter().all(|c| c.len == FINE && c.src == 0));
        assert_eq!(plans.iter().filter(|p| p.cells.iter().all(|c| c.dst == 0)).count(), 1);
    }

    #[test]
    fn a_subset_still_carries_references_of_each_class() {
        let narrow = Asked { dst: "0x0-0x10".parse().unwrap(), lens: Some(vec![FINE]), ..asked() };
        let plan = &screens(&narrow)[0];
        let glibc = plan.cells.iter().filter(|c| c.allocator == Some(Allocator::Glibc) && c.reference);
        let (aligned, rest): (Vec<u16>, Vec<u16>) = glibc.map(|c| c.dst).partition(|dst| dst % 32 == 0);
        assert!(aligned.len() >= 16 && rest.len() >= 16);
    }

    #[test]
    fn the_long_grid_stays_within_its_offsets() {
        let band: Band = serde_json::from_value(serde_json::json!({
            "from": 0x991, "to": 0x00f, "from_range": null, "to_range": null, "scan": "dst", "axis": "distance",
            "depth": "deep", "confirmed": true, "slowdown": 2.8, "slowdown_ci95": null, "spread": null,
            "penalty_ns_per_kib": 1.0, "penalty_ci95": null, "bytes_per_s": 1.0
        }))
        .unwrap();
        for most in [24, 40, 56] {
            let plan = long_grid(&asked(), WHOLE, most, &[(PathName::Read, Allocator::Glibc, band.clone())]);
            for allocator in asked().allocators {
                let dsts: Vec<u16> =
                    plan.cells.iter().filter(|c| c.allocator == Some(allocator)).map(|c| c.dst).collect();
                assert!(dsts.len() <= most, "{} of {most}", dsts.len());
                if allocator == Allocator::Glibc {
                    assert!(dsts.iter().filter(|d| band.contains(**d)).count() >= 3);
                    assert!(dsts.contains(&0x10) && dsts.contains(&0x990) && dsts.contains(&0x991));
                }
            }
        }
    }

    #[test]
    fn no_path_is_asked_for_what_it_cannot_have() {
        let all = Asked { paths: PathName::ALL.to_vec(), ..asked() };
        let wide =
            Asked { src: Some("0-0x20".parse().unwrap()), dst: "0-0x20".parse().unwrap(), ..all.clone() };
        let narrow = Asked { dst: "0x0-0x20".parse().unwrap(), ..all.clone() };
        for asked in [&all, &wide, &narrow] {
            for plan in screens(asked) {
                let cells = plan.cells.iter().chain(&plan.controls);
                cells
                    .for_each(|c| assert!(c.path.takes(c.dst, c.src) && c.len >= c.path.shortest(), "{c:?}"));
            }
            let long = long_grid(asked, WHOLE, 56, &[]);
            assert!(long.cells.iter().all(|c| is_main(c.path)));
        }
    }

    #[test]
    fn the_allocators_side_is_swept_whichever_it_is() {
        let all = Asked { paths: PathName::ALL.to_vec(), ..asked() };
        let plans = screens(&all);
        for &path in PathName::ALL {
            let of = |len: u64| {
                let plan = plans.iter().find(|p| p.cells.iter().any(|c| c.path == path && c.len == len));
                plan.map_or(&[][..], |p| &p.cells).iter().filter(|c| c.allocator == Some(Allocator::Glibc))
            };
            let varied =
                |c: &CellSpec| if path.own_scan() == Scan::Dst { (c.dst, c.src) } else { (c.src, c.dst) };
            let (own, other): (Vec<u16>, Vec<u16>) = of(FINE).map(varied).unzip();
            assert_eq!(own.len(), 4097, "{path}");
            assert!(other.iter().all(|o| *o == 0), "{path}");
            let near = |d: u16| of(4096).any(|c| distance(c.dst, c.src) == d);
            assert!((0..=NEAR).all(near), "{path}");
        }
    }
}
