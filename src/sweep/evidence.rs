//! Evidence from the performance counters: a slow and a fast cell of a path, event by event.

use crate::allocator::{self, PageKind, Pool, PoolSpec};
use crate::path::{Copy, CopyPath, Spot};
use crate::report::{Allocator, Cpu, Fact, Pmu, PmuCount, PmuEvent};
use crate::sys::perf::{Counter, PerfError, Scope};

/// Bytes of one copy.
pub const LEN: usize = 64 << 10;

/// The distances compared: in the deep band of Zen 4, and far from every band, both off a multiple of 0x20
/// or both on it alike (mod 64 they are 8 and 0).
pub const DISTANCES: [u16; 2] = [0x008, 0x740];

/// Copies counted at a time: 4 MiB, beside which what starts and stops the counter is nothing.
const COPIES: u32 = 64;

/// Counts events during copies of 64 KiB on each path, whose source must hold as much.
///
/// Unknown, with the reason, where this machine, the kernel's settings or a sandbox let nothing be counted,
/// or a copy fails.
pub fn measure(cpu: &Cpu, paths: &mut [Box<dyn CopyPath>]) -> Fact<Pmu> {
    match counted(cpu, paths) {
        Ok(pmu) => Fact::Known(pmu),
        Err(reason) => Fact::Unknown(reason),
    }
}

fn counted(cpu: &Cpu, paths: &mut [Box<dyn CopyPath>]) -> Result<Pmu, String> {
    // the reason for having nothing at all comes first, before any memory is made
    Counter::open(PmuEvent::L1dLoads, Scope::User).map_err(|error| error.to_string())?;
    let spec = PoolSpec { max_len: LEN, pages: PageKind::Small, first_touch: false, to_come: 1 };
    let mut pool = allocator::open(Allocator::Pages, &spec).map_err(|error| error.to_string())?;
    let no_kernel = Counter::open(PmuEvent::L1dLoads, Scope::Kernel).err().map(|error| error.to_string());
    let no_conflicts = without_conflicts(cpu);
    let mut counts = Vec::new();
    for path in paths {
        for distance in DISTANCES {
            for event in [PmuEvent::L1dLoads, PmuEvent::StoreConflicts] {
                if event == PmuEvent::StoreConflicts && no_conflicts.is_some() {
                    continue;
                }
                let mut per_byte = |scope| per_byte(event, scope, path.as_mut(), pool.as_mut(), distance);
                let user_per_byte = per_byte(Scope::User)?;
                let kernel_per_byte = no_kernel.is_none().then(|| per_byte(Scope::Kernel)).transpose()?;
                counts.push(PmuCount { path: path.name(), distance, event, user_per_byte, kernel_per_byte });
            }
        }
    }
    Ok(Pmu { len: LEN as u64, counts, no_kernel, no_conflicts })
}

/// Why the store-to-load conflicts cannot be counted on this CPU; none where they can.
fn without_conflicts(cpu: &Cpu) -> Option<String> {
    // the event's number means something else on other CPUs
    let name = cpu.microarchitecture.as_deref().unwrap_or_default();
    let has_event = ["Zen 2", "Zen 3", "Zen 3+", "Zen 4", "Zen 5"].contains(&name);
    match cpu.vendor == "AuthenticAMD" && has_event {
        true => Counter::open(PmuEvent::StoreConflicts, Scope::User).err().map(|error| error.to_string()),
        false => Some(format!("{} is an event of AMD's Zen 2 to Zen 5", PmuEvent::StoreConflicts.word())),
    }
}

/// Events per byte of copies at a distance; the source starts at page offset 0x000.
fn per_byte(
    event: PmuEvent,
    scope: Scope,
    path: &mut dyn CopyPath,
    pool: &mut dyn Pool,
    distance: u16,
) -> Result<f64, String> {
    let mut copy = |repeat| {
        let memory = pool.buffer(0, distance, LEN);
        let (to, from) = (Spot { page: 0, offset: distance }, Spot { page: 0, offset: 0 });
        path.sample(Copy { memory, to, from, len: LEN, repeat, first_touch: false }).map(drop)
    };
    // not counted: faults pages in and fills the caches
    copy(1).map_err(|error| error.to_string())?;
    let mut counter = Counter::open(event, scope).map_err(|error| error.to_string())?;
    let mut copied = Ok(());
    let count = counter.count(|| copied = copy(COPIES)).map_err(|error: PerfError| error.to_string())?;
    copied.map_err(|error| error.to_string())?;
    Ok(count / (f64::from(COPIES) * LEN as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{Opener, Source};
    use crate::report::{Features, PathName};

    fn cpu(vendor: &str, family: u32, model: u32) -> Cpu {
        Cpu {
            vendor: vendor.into(),
            brand: None,
            family,
            model,
            stepping: 0,
            signature: "0x00000000".into(),
            microarchitecture: None,
            microcode: None,
            features: Features::default(),
        }
    }

    #[test]
    fn counts_of_every_cell_or_one_reason() {
        let source = Source::own(1 << 20).unwrap();
        let opener = Opener::new(&source, 1 << 20);
        let mut paths: Vec<_> =
            [PathName::Read, PathName::RepMovsb].iter().map(|name| opener.open(*name).unwrap()).collect();
        match measure(&cpu("GenuineIntel", 6, 0x8f), &mut paths) {
            Fact::Known(pmu) => {
                assert_eq!(pmu.counts.len(), 4, "{pmu:?}");
                assert!(pmu.no_conflicts.is_some_and(|reason| reason.contains("Zen 2")));
                let is_told = |c: &PmuCount| c.kernel_per_byte.is_some() != pmu.no_kernel.is_some();
                assert!(pmu.counts.iter().all(|c| is_told(c) && c.user_per_byte >= 0.0));
            }
            Fact::Unknown(reason) => assert!(!reason.is_empty() && !reason.contains('\n'), "{reason}"),
        }
    }

    #[test]
    fn only_zen_2_to_5_are_asked_for_conflicts() {
        for cpu in
            [cpu("GenuineIntel", 6, 0x8f), cpu("AuthenticAMD", 0x17, 0x08), cpu("HygonGenuine", 0x18, 1)]
        {
            assert!(
                without_conflicts(&cpu).is_some_and(|reason| reason.contains("Zen 2 to Zen 5")),
                "{cpu:?}"
            );
        }
    }
}
