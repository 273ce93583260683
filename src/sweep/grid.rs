//! Which cells are sampled: every offset at 64 KiB, coarser grids at other lengths, references in each.

use super::offsets::Offsets;
use super::sample::{LONG, Plan};
use crate::report::{Allocator, Band, CellSpec, PAGE, PathName, Phase};
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

/// Distances of the short lengths: the bands of all published signatures start in here.
const NEAR: u16 = 0x48;

/// References of each alignment class in a fine sweep, and in anything coarser.
const FINE_REFERENCES: u16 = 64;
const COARSE_REFERENCES: u16 = 16;

/// A/A pairs a (path, allocator, length).
const CONTROLS: usize = 8;

/// What the user asked to be swept.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Copy paths.
    pub paths: Vec<PathName>,
    /// Allocators.
    pub allocators: Vec<Allocator>,
    /// Destination offsets.
    pub dst: Offsets,
    /// Source offsets, where given.
    pub src: Option<Offsets>,
    /// Lengths in bytes, where given.
    pub lens: Option<Vec<u64>>,
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
        self.short_lens().into_iter().chain(self.long_lens()).max().unwrap_or(FINE)
    }

    /// Lengths that are screened and confirmed.
    pub fn short_lens(&self) -> Vec<u64> {
        match &self.lens {
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
        self.paths.iter().flat_map(|p| self.allocators.iter().map(|a| (*p, *a)))
    }

    /// Source offsets of a dst sweep.
    fn sources(&self) -> Vec<u16> {
        self.src.as_ref().map_or(vec![0], |s| s.all().to_vec())
    }
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

/// The screen runs: the fine sweep, the short lengths, and one sweep over every src.
pub fn screens(asked: &Asked) -> Vec<Plan> {
    let mut plans = Vec::new();
    for len in asked.short_lens() {
        let coarse = asked.lens.is_none() && len != FINE;
        plans.push(dst_sweep(asked, len, coarse));
    }
    if asked.src.is_none() && asked.lens.is_none() {
        plans.push(src_sweep(asked));
    }
    plans
}

/// Destinations of the short lengths in a default sweep: near distances; references are added.
fn near(asked: &Asked) -> Vec<u16> {
    asked.dst.all().iter().copied().filter(|o| *o <= NEAR).collect()
}

fn dst_sweep(asked: &Asked, len: u64, coarse: bool) -> Plan {
    let offsets = if coarse { near(asked) } else { asked.dst.all().to_vec() };
    let sources = asked.sources();
    let fine = offsets.len() > usize::from(PAGE / 2);
    let refs = references(if fine { FINE_REFERENCES } else { COARSE_REFERENCES });
    let mut cells = Cells::default();
    let mut controls = Vec::new();
    for (path, allocator) in asked.columns() {
        let spec =
            |dst, src, reference| CellSpec { path, allocator: Some(allocator), len, dst, src, reference };
        for &src in &sources {
            offsets.iter().for_each(|&dst| cells.add(spec(dst, src, false)));
        }
        refs.iter().for_each(|&dst| cells.add(spec(dst, sources[0], true)));
        asked.natural(allocator, len).for_each(|dst| cells.add(spec(dst, sources[0], false)));
        let every = refs.len() / CONTROLS;
        controls.extend(refs.iter().step_by(every).take(CONTROLS).map(|&dst| spec(dst, sources[0], false)));
    }
    Plan {
        label: format!("{} at {} offsets", size(len), offsets.len()),
        phase: Phase::Screen,
        rounds: asked.rounds(),
        cells: cells.into(),
        controls,
    }
}

/// Every src at dst 0x000, with one allocator: shows a band that depends on src alone.
fn src_sweep(asked: &Asked) -> Plan {
    let mut cells = Cells::default();
    let allocator = asked.allocators[0];
    for &path in &asked.paths {
        let spec =
            |src, reference| CellSpec { path, allocator: Some(allocator), len: FINE, dst: 0, src, reference };
        (0..PAGE).for_each(|src| cells.add(spec(src, false)));
        references(FINE_REFERENCES).into_iter().for_each(|src| cells.add(spec(src, true)));
    }
    Plan {
        label: format!("{} at every src", size(FINE)),
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
    for (path, allocator) in asked.columns() {
        let spec =
            |dst, reference| CellSpec { path, allocator: Some(allocator), len, dst, src: 0, reference };
        let own = bands
            .iter()
            .filter(|(p, a, _)| (*p, *a) == (path, allocator))
            .flat_map(|(.., band)| inside(band));
        let natural = asked.natural(allocator, len).take(3);
        let asked_for = asked.dst.all().iter().copied().filter(|_| explicit);
        let mut wanted: Vec<u16> = Vec::new();
        for dst in own.chain(natural).chain(asked_for) {
            if !wanted.contains(&dst) {
                wanted.push(dst);
            }
        }
        wanted.truncate(most.saturating_sub(12));
        let per_class = [16u16, 8, 4].into_iter().find(|n| wanted.len() + usize::from(*n) * 3 <= most);
        wanted.into_iter().for_each(|dst| cells.add(spec(dst, false)));
        references(per_class.unwrap_or(4)).into_iter().for_each(|dst| cells.add(spec(dst, true)));
    }
    Plan {
        label: format!("{} on a coarse grid", size(len)),
        phase: Phase::Screen,
        rounds: asked.long_rounds(),
        cells: cells.into(),
        controls: vec![],
    }
}

/// Offsets that test a band: its edges, their neighbours outside, and some between.
fn inside(band: &Band) -> Vec<u16> {
    let at = |step: u16| (band.from + step) % PAGE;
    let last = band.width() - 1;
    let mut offsets = vec![at(last / 2), at(0), at(last), at(last / 3), at(last * 2 / 3)];
    offsets.extend([at(PAGE - 1), at(last + 1)]);
    offsets
}

/// A length for people: `64 KiB`.
pub fn size(len: u64) -> String {
    match len {
        l if l % (1 << 30) == 0 => format!("{} GiB", l >> 30),
        l if l % (1 << 20) == 0 => format!("{} MiB", l >> 20),
        l if l % (1 << 10) == 0 => format!("{} KiB", l >> 10),
        l => format!("{l} B"),
    }
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

    fn asked() -> Asked {
        Asked {
            paths: vec![PathName::Read],
            allocators: vec![Allocator::Glibc, Allocator::Jemalloc, Allocator::Mimalloc],
            dst: Offsets::circle(),
            src: None,
            lens: None,
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
}
