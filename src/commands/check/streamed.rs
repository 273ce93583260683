//! What a band costs copies that stream from memory. A check's own copies stay within the caches, where a KiB in a
//! band may lose half as much again; where the band lies is known by then, so that one place inside and one outside
//! will do.

use super::{Group, machine, plan, usual};
use crate::commands::Failure;
use crate::report::{CellSpec, PAGE, PathName, Scan};
use crate::sweep::{Machine, sides, trial_ns};

/// Bytes of the copies: more than caches hold.
pub const LEN: u64 = 64 << 20;

/// Pairs of copies.
const PAIRS: usize = 5;

/// Distances outside every published band, at the alignment that gets a buffer out of all of them: what a band costs is
/// what a program would win there.
const AWAY: [u16; 3] = [0x740, 0xb40, 0x340];

/// What a copy of [`LEN`] bytes loses in a band.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Streamed {
    /// Time inside by time outside.
    pub slowdown: f64,
    /// Nanoseconds that a KiB takes more.
    pub penalty_ns_per_kib: f64,
    /// Bytes per second outside.
    pub baseline_bytes_per_s: f64,
}

/// Measures a path in the middle of a band of distances, here or on a model. Takes a third of a second here, and
/// pins the calling thread.
///
/// # Errors
/// Where the path is not to be had, or memory for such copies.
pub fn measured(simulate: Option<&str>, path: PathName, (from, to): (u16, u16)) -> Result<Streamed, Failure> {
    let group: [Group; 1] = [(path, LEN)];
    let ready = match simulate {
        Some(model) => machine::simulated(model, &group, 1)?,
        None => machine::real(&usual(), &group)?,
    };
    let mut machine = ready.machine;
    let width = to.wrapping_sub(from) % PAGE;
    let middle = from + width / 2;
    // odd where there is room: on no alignment that is cheaper by itself
    let inside = if width > 1 { middle | 1 } else { middle };
    let is_outside = |at: &&u16| at.wrapping_sub(from) % PAGE > width;
    let outside =
        *AWAY.iter().find(is_outside).ok_or_else(|| Failure::line("the band leaves nothing out"))?;
    let mut time = |distance| one(&mut machine, path, distance);
    let mut pairs = Vec::new();
    for pair in 0..=PAIRS {
        let times = (time(inside % PAGE)?, time(outside)?);
        if pair > 0 {
            pairs.push(times);
        }
    }
    Ok(of_pairs(&pairs))
}

/// Nanoseconds of one copy at a distance.
fn one(machine: &mut Machine, path: PathName, distance: u16) -> Result<f64, Failure> {
    let offset = if path.own_scan() == Scan::Dst { distance } else { sides::mirrored(distance) };
    let cell: CellSpec = sides::on_own_side(path, plan::ALLOCATOR, LEN, offset);
    machine.check(&cell).map_err(Failure::line)?;
    trial_ns(machine, &cell, 1).map(|ns| ns as f64).map_err(Failure::line)
}

/// Each pair tells a difference: what disturbs a pair disturbs both.
fn of_pairs(pairs: &[(f64, f64)]) -> Streamed {
    let median = |of: &dyn Fn(&(f64, f64)) -> f64| {
        let mut all: Vec<f64> = pairs.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let outside_ns = median(&|pair| pair.1).max(1.0);
    Streamed {
        slowdown: median(&|(inside, outside)| inside / outside.max(1.0)),
        penalty_ns_per_kib: median(&|(inside, outside)| inside - outside) / (LEN as f64 / 1024.0),
        baseline_bytes_per_s: LEN as f64 / outside_ns * 1e9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_lose_what_they_are_made_to() {
        for path in [PathName::Read, PathName::Write] {
            let zen4 = measured(Some("zen4"), path, (0x001, 0x00f)).unwrap();
            assert!((2.7..3.5).contains(&zen4.slowdown), "{zen4:?}");
            assert!((190.0..250.0).contains(&zen4.penalty_ns_per_kib), "{zen4:?}");
            let clean = measured(Some("clean"), path, (0x001, 0x00f)).unwrap();
            assert!((0.95..1.4).contains(&clean.slowdown), "{clean:?}");
        }
        let through_zero = measured(Some("zen3"), PathName::Read, (0x991, 0x00f)).unwrap();
        assert!((2.6..4.0).contains(&through_zero.slowdown), "{through_zero:?}");
        assert!(measured(Some("zen3"), PathName::Read, (0x001, 0x000)).is_err(), "everything is inside");
    }

    #[test]
    fn this_machine_is_measured_or_there_is_a_reason() {
        match std::thread::spawn(|| measured(None, PathName::Read, (0x001, 0x00f))).join().unwrap() {
            Ok(streamed) => {
                assert!(streamed.slowdown > 0.0 && streamed.baseline_bytes_per_s > 1e6, "{streamed:?}")
            }
            Err(failure) => assert!(!failure.to_string().is_empty()),
        }
    }
}
