//! Which few cells `check` starts with: near distances and references, per copy path and length.

use crate::cli::{CheckArgs, PathChoice};
use crate::report::{Allocator, CellSpec, PAGE, PathName, Phase, Scan};
use crate::sweep::{Plan, grid, sides};
use std::collections::BTreeMap;

/// The longest copies of a check: they fit every L2, which makes theirs the cleanest signal.
pub const LONGEST: u64 = 64 << 10;

/// Where the buffers of a check come from: pages straight from the kernel, which any libc has.
pub const ALLOCATOR: Allocator = Allocator::Pages;

/// Distances that every published band touches.
const NEAR: u16 = 0x20;

/// References of each alignment class.
const REFERENCES: u16 = 16;

/// Blocks of the screen. Short copies cost nothing, and are noisier.
const ROUNDS: u32 = 7;
const SHORT_ROUNDS: u32 = 15;

/// A/A pairs of each group.
const CONTROLS: usize = 12;

/// One copy path at one length.
pub type Group = (PathName, u64);

/// The groups asked for. `has_avx2` chooses the control: a routine without the anomaly.
pub fn groups(args: &CheckArgs, has_avx2: bool) -> Vec<Group> {
    if args.paths.is_empty() {
        let control = if has_avx2 { PathName::Avx2 } else { PathName::MovUnrolled };
        let mut groups = vec![
            (PathName::RepMovsb, 128),
            (PathName::RepMovsb, 4096),
            (PathName::RepMovsb, LONGEST),
            (control, LONGEST),
            (PathName::Read, 4096),
            (PathName::Read, LONGEST),
            (PathName::Write, LONGEST),
            (PathName::PipeRead, LONGEST),
            (PathName::Memcpy, 4096),
        ];
        if args.remedies {
            groups.extend([
                (PathName::Memcpy, LONGEST),
                (PathName::RepMovsq, LONGEST),
                (PathName::MovUnrolled, LONGEST),
            ]);
        }
        groups.sort_unstable();
        groups.dedup();
        return groups;
    }
    let all = args.paths.contains(&PathChoice::All);
    let asked = PathName::ALL.iter().copied().filter(|p| all || args.paths.contains(&PathChoice::One(*p)));
    asked.flat_map(|path| lengths(path).map(move |len| (path, len))).collect()
}

/// What programs copy by, each at the lengths that their calls have most.
pub fn of_programs() -> Vec<Group> {
    let mut groups = vec![
        (PathName::Read, 4096),
        (PathName::Read, LONGEST),
        (PathName::Write, LONGEST),
        (PathName::PipeRead, LONGEST),
        (PathName::Memcpy, 4096),
        (PathName::Memcpy, LONGEST),
        (PathName::RepMovsb, LONGEST),
    ];
    groups.sort_unstable();
    groups
}

/// The lengths at which a path tells something: below a page, what is copied hides in the call; routines of user
/// space have none.
fn lengths(path: PathName) -> impl Iterator<Item = u64> {
    let lengths: &[u64] = if path.is_user_space() { &[128, 4096, LONGEST] } else { &[4096, LONGEST] };
    lengths.iter().copied().filter(move |len| *len >= path.tells_from())
}

/// The screen of one group.
pub fn screen((path, len): Group) -> Plan {
    // whichever side lies in the allocator's memory is varied, the other stays at 0x000
    let cell = |distance: u16, reference| {
        let offset = match path.own_scan() {
            Scan::Dst => distance,
            Scan::Src => sides::mirrored(distance),
        };
        CellSpec { reference, ..sides::on_own_side(path, ALLOCATOR, len, offset) }
    };
    let mut cells = BTreeMap::new();
    (0..=NEAR).for_each(|distance| {
        cells.insert(distance, cell(distance, false));
    });
    // a short copy that reaches into the next page pays for that too
    let fits = |distance: &u16| {
        let offset = cell(*distance, true);
        len >= u64::from(PAGE) || u64::from(offset.dst.max(offset.src)) + len <= u64::from(PAGE)
    };
    let references: Vec<u16> = grid::references(REFERENCES).into_iter().filter(fits).collect();
    references.iter().for_each(|&distance| {
        cells.insert(distance, cell(distance, true));
    });
    let far = references.iter().filter(|d| **d > NEAR);
    Plan {
        label: format!("{path} at {}", grid::size(len)),
        phase: Phase::Screen,
        rounds: if len < LONGEST { SHORT_ROUNDS } else { ROUNDS },
        cells: cells.into_values().collect(),
        controls: far.step_by(4).take(CONTROLS).map(|&distance| cell(distance, false)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::distance;

    #[test]
    fn every_group_holds_the_near_distances_and_its_references() {
        for path in [PathName::Read, PathName::Write] {
            let plan = screen((path, LONGEST));
            let distances: Vec<u16> = plan.cells.iter().map(|c| distance(c.dst, c.src)).collect();
            assert!((0..=NEAR).all(|d| distances.contains(&d)), "{path}");
            let references = plan.cells.iter().filter(|c| c.reference).count();
            assert_eq!(references, 3 * usize::from(REFERENCES));
            assert!(plan.controls.len() >= 8);
        }
        let writes = screen((PathName::Write, LONGEST));
        assert!(writes.cells.iter().all(|c| c.dst == 0), "what is written to a page starts where it starts");
    }
}
