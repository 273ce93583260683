//! What a band costs copies of a length that a check does not measure: those that stream from memory, where a check's own
//! stay within the caches, and those of a few bytes, where the start of each counts. Where the band lies is known by
//! then, so that one place inside and one outside will do.

use super::{Group, machine, plan, usual};
use crate::commands::Failure;
use crate::report::{Cell, CellSpec, PAGE, PathName, Phase, Scan};
use crate::sweep::{Plan, Unwatched, sample, sides};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Bytes of copies that stream from memory: more than caches hold.
pub const STREAMED: u64 = 64 << 20;

/// Pairs of copies, inside and outside: long ones take a third of a second altogether.
const LONG_PAIRS: u32 = 5;
const SHORT_PAIRS: u32 = 101;

/// Distances outside every published band, at the alignment that gets a buffer out of all of them: what a band costs is
/// what a program would win there.
const AWAY: [u16; 3] = [0x740, 0xb40, 0x340];

/// What a copy loses in a band.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BandCost {
    /// Time inside by time outside.
    pub slowdown: f64,
    /// Nanoseconds that a KiB takes more.
    pub penalty_ns_per_kib: f64,
    /// Bytes per second outside.
    pub baseline_bytes_per_s: f64,
}

/// Measures a path in the middle of a band of distances, here or on a model, at one length. Pins the calling thread.
///
/// # Errors
/// Where the path is not to be had, or memory for such copies.
pub fn measured(
    simulate: Option<&str>,
    path: PathName,
    len: u64,
    (from, to): (u16, u16),
) -> Result<BandCost, Failure> {
    let group: [Group; 1] = [(path, len)];
    let mut ready = match simulate {
        Some(model) => machine::simulated(model, &group, 1)?,
        None => machine::real(&usual(), &group)?,
    };
    let cells = places(from, to)?.map(|distance| cell(path, len, distance));
    for cell in &cells {
        ready.machine.check(cell).map_err(Failure::line)?;
    }
    let plan = Plan {
        label: String::new(),
        phase: Phase::Confirm,
        rounds: if len < STREAMED { SHORT_PAIRS } else { LONG_PAIRS },
        cells: cells.to_vec(),
        controls: vec![],
    };
    let sampled =
        sample(&mut ready.machine, &plan, 0, &mut Xoshiro256PlusPlus::seed_from_u64(1), &mut Unwatched);
    match (&sampled.cells[..], sampled.stopped) {
        ([inside, outside], None) => of_pairs(inside, outside),
        (_, stopped) => Err(Failure::line(stopped.map_or_else(|| "no samples".into(), |stop| stop.word()))),
    }
}

/// A distance in the middle of a band, and one outside.
fn places(from: u16, to: u16) -> Result<[u16; 2], Failure> {
    let width = to.wrapping_sub(from) % PAGE;
    let middle = from + width / 2;
    // odd where there is room: on no alignment that is cheaper by itself
    let inside = if width > 1 { middle | 1 } else { middle };
    let is_outside = |at: &&u16| at.wrapping_sub(from) % PAGE > width;
    let outside =
        *AWAY.iter().find(is_outside).ok_or_else(|| Failure::line("the band leaves nothing out"))?;
    Ok([inside % PAGE, outside])
}

fn cell(path: PathName, len: u64, distance: u16) -> CellSpec {
    let offset = if path.own_scan() == Scan::Dst { distance } else { sides::mirrored(distance) };
    sides::on_own_side(path, plan::ALLOCATOR, len, offset)
}

/// Each pair tells a difference: what disturbs a pair disturbs both.
fn of_pairs(inside: &Cell, outside: &Cell) -> Result<BandCost, Failure> {
    let per_copy = |cell: &Cell, ns: &Option<u64>| ns.map(|ns| ns as f64 / f64::from(cell.repeat.max(1)));
    let pairs: Vec<(f64, f64)> = std::iter::zip(&inside.ns, &outside.ns)
        .filter_map(|(a, b)| Some((per_copy(inside, a)?, per_copy(outside, b)?.max(1.0))))
        .collect();
    let median = |of: &dyn Fn(&(f64, f64)) -> f64| {
        let mut all: Vec<f64> = pairs.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().ok_or_else(|| Failure::line("no samples"))
    };
    let len = outside.len as f64;
    Ok(BandCost {
        slowdown: median(&|(inside, outside)| inside / outside)?,
        penalty_ns_per_kib: median(&|(inside, outside)| inside - outside)? / (len / 1024.0),
        baseline_bytes_per_s: len / median(&|pair| pair.1)? * 1e9,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_lose_what_they_are_made_to() {
        for path in [PathName::Read, PathName::Write] {
            let zen4 = measured(Some("zen4"), path, STREAMED, (0x001, 0x00f)).unwrap();
            assert!((2.7..3.5).contains(&zen4.slowdown), "{zen4:?}");
            assert!((190.0..250.0).contains(&zen4.penalty_ns_per_kib), "{zen4:?}");
            let clean = measured(Some("clean"), path, STREAMED, (0x001, 0x00f)).unwrap();
            assert!((0.95..1.4).contains(&clean.slowdown), "{clean:?}");
        }
        let through_zero = measured(Some("zen3"), PathName::Read, STREAMED, (0x991, 0x00f)).unwrap();
        assert!((2.6..4.0).contains(&through_zero.slowdown), "{through_zero:?}");
        let everything = measured(Some("zen3"), PathName::Read, STREAMED, (0x001, 0x000));
        assert!(everything.is_err());
    }

    #[test]
    fn short_calls_lose_what_their_copies_do() {
        let of = |model, len| measured(Some(model), PathName::Read, len, (0x001, 0x00f)).unwrap();
        for len in [128, 512] {
            let (zen4, clean) = (of("zen4", len), of("clean", len));
            assert!(zen4.penalty_ns_per_kib > 150.0 && zen4.slowdown > 1.05, "{len}: {zen4:?}");
            assert!((0.9..1.1).contains(&clean.slowdown), "{len}: {clean:?}");
        }
    }

    #[test]
    fn this_machine_is_measured_or_there_is_a_reason() {
        for len in [128, STREAMED] {
            let apart = move || measured(None, PathName::Read, len, (0x001, 0x00f));
            match std::thread::spawn(apart).join().unwrap() {
                Ok(cost) => assert!(cost.slowdown > 0.0 && cost.baseline_bytes_per_s > 1e6, "{cost:?}"),
                Err(failure) => assert!(!failure.to_string().is_empty()),
            }
        }
    }
}
