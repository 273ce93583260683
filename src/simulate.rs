//! Machines made of a cost model, behind the same traits as the real pools and copy paths.
//!
//! They stand in for CPUs that are not at hand: the judge's error rates are measured on them, and
//! `--simulate` shows what such a machine looks like. Nothing here measures or judges; everything
//! that shows a simulated result says so, since a report's `host.simulated` names the model.

mod colours;
mod cost;
mod host;
mod noise;
mod replay;

pub use cost::{Cost, Slow};
pub use host::host_of;
use host::thresholds;
pub use replay::{ReplayError, replay};

use crate::allocator::Pool;
use crate::path::{Copy, CopyPath, PathError};
use crate::report::{Allocator, Axis, CellSpec, PathName};
use crate::sweep::{Clock, Machine};
use noise::Noise;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Start pages of a simulated pool.
const PAGES: u64 = 1024;

/// A simulated machine's model.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Its name, as given to `--simulate`.
    pub name: String,
    /// What copies cost on it.
    pub cost: Cost,
    /// Paths that cost something else.
    pub by_path: BTreeMap<PathName, Cost>,
    /// Whether it has the noise of a busy machine.
    pub noisy: bool,
}

/// The models by name, with a line on where each comes from.
pub const MODELS: [(&str, &str); 13] = [
    ("zen3", "published, not measured by us: apache/opendal#3665, one band 0x991..0x00f by distance at 2.8x"),
    (
        "zen4",
        "measured by this project on an EPYC (Zen 4): +275 ns/KiB at distance 0x001..0x00f, page colours",
    ),
    ("zen5", "published (LKML, 2025-03): +20 clocks at distance 1..63 on 40 + len/64 clocks"),
    ("intel", "published (N. Goldstein, Tiger Lake): distance 1..511 at 1.3x to 1.9x"),
    ("clean", "no anomaly, with the usual cost of misalignment"),
    ("zen4-cleared", "zen4, its kernel booted with clearcpuid=fsrm,erms: it runs rep movsq"),
    ("zen4-masked", "zen4 whose hypervisor masks ERMS and FSRM; kernel and libc run rep movsb all the same"),
    ("zen4-fixed-glibc", "zen4 with a glibc that never runs rep movsb on AMD"),
    ("zen4-short", "invented: rep movsb 2.5x slower at 4 KiB and below only"),
    ("zen4-half", "invented: zen4 after an update that left half of its deep band, 0x001..0x007"),
    ("zen4-mended", "invented: zen4 after an update that removed its deep band"),
    (
        "zen3-epyc",
        "measured by this project on an EPYC (Zen 3): +330 ns/KiB at distance 0x001..0x01f, page colours",
    ),
    ("zen3-contradiction", "published for Zen 3: distance 0 slow for read, not for rep movsb"),
];

impl Model {
    /// The model of a name such as `zen4` or `zen4+noisy`; none if there is no such model.
    pub fn named(name: &str) -> Option<Model> {
        let (base, noisy) = match name.strip_suffix("+noisy") {
            Some(base) => (base, true),
            None => (name, false),
        };
        let cost = match base {
            "zen3" => Cost::zen3(),
            "zen4" => Cost::zen4(),
            "zen3-epyc" => Cost::zen3_epyc(),
            "zen5" => Cost::zen5(),
            "intel" => Cost::intel(),
            "clean" => Cost::clean(),
            "zen4-cleared" | "zen4-masked" | "zen4-fixed-glibc" => Cost::zen4(),
            "zen4-short" => Cost::short(),
            "zen4-half" => Cost::zen4_to(0x007),
            "zen4-mended" => Cost::zen4_to(0),
            "zen3-contradiction" => Cost::banded(0x001, 0x00f),
            _ => return None,
        };
        let mut model = Model { name: name.into(), cost, by_path: BTreeMap::new(), noisy };
        match base {
            "zen4-cleared" => model.kernel(&Cost::movsq()),
            "zen3-contradiction" => model.kernel(&Cost::banded(0x000, 0x00f)),
            _ => {}
        }
        Some(model)
    }

    /// The name without its noise.
    fn base(&self) -> &str {
        self.name.trim_end_matches("+noisy")
    }

    fn kernel(&mut self, cost: &Cost) {
        let paths: Vec<PathName> =
            PathName::ALL.iter().copied().filter(|p| p.is_copied_by_kernel()).collect();
        self.every(&paths, cost);
    }

    fn every(&mut self, paths: &[PathName], cost: &Cost) {
        self.by_path.extend(paths.iter().map(|path| (*path, cost.clone())));
    }

    /// What copies of a path cost: its own cost, else that of its routine on this machine.
    fn cost_of(&self, path: PathName) -> Cost {
        let cost = self.by_path.get(&path).unwrap_or(&self.cost).clone();
        match path {
            PathName::RepMovsb => cost.without_call(),
            PathName::Memcpy | PathName::Mmap => match thresholds(self.base()) {
                // two that agree leave no length: the library never runs `rep movsb`
                Some((_, from, stop)) => {
                    let [shortest, longest] = cost.lens;
                    cost.without_call().within(shortest.max(from + 1), longest.min(stop - 1))
                }
                None => cost.without_call(),
            },
            PathName::RepMovsq => cost.by_movsq().unwrap_or(cost).without_call(),
            PathName::MovUnrolled => cost.unrolled(),
            PathName::Avx2 | PathName::Avx512 | PathName::NonTemporal => cost.without_band().without_call(),
            PathName::Zero | PathName::Splice => Cost { misaligned: false, ..cost.without_band() },
            _ => cost,
        }
    }

    /// An otherwise clean machine with one band `from..=to` (circular) of `slowdown` on an axis.
    pub fn with_band(axis: Axis, from: u16, to: u16, slowdown: f64, noisy: bool) -> Model {
        let slow = Slow::Band { axis, from, to, slowdown };
        let cost = Cost { slow, ..Cost::clean() };
        Model { name: "custom".into(), cost, by_path: BTreeMap::new(), noisy }
    }

    /// An otherwise clean machine with a band at distance 0x001..0x00f for some lengths only.
    pub fn with_window(from_len: u64, to_len: u64, slowdown: f64, noisy: bool) -> Model {
        let cost = Cost::clean().with_band(0x001, 0x00f, slowdown).within(from_len, to_len);
        Model { name: "custom".into(), cost, by_path: BTreeMap::new(), noisy }
    }

    /// The machine itself: the same seed gives the same samples.
    pub fn machine(
        &self,
        paths: &[PathName],
        allocators: &[Allocator],
        source_size: u64,
        seed: u64,
    ) -> Machine {
        let state = Rc::new(RefCell::new(State {
            noise: Noise::new(self.noisy, Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x006e_6f69_7365)),
            frames: seed,
        }));
        Machine {
            pools: allocators.iter().map(|a| Box::new(SimulatedPool(*a)) as Box<dyn Pool>).collect(),
            paths: paths
                .iter()
                .map(|p| {
                    let (cost, state) = (self.cost_of(*p), state.clone());
                    Box::new(SimulatedPath { name: *p, cost, state }) as Box<dyn CopyPath>
                })
                .collect(),
            clock: Box::new(SimulatedClock(state)),
            source_size,
        }
    }

    /// Page offsets that the allocator returns on its own (docs/exposure.md: as known of the real ones).
    pub fn natural(allocator: Allocator, count: usize, seed: u64) -> Vec<u16> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let offset = |_| match allocator {
            Allocator::Glibc => 0x010,
            Allocator::Jemalloc => 64 * random.random_range(0..64u16),
            Allocator::Mimalloc | Allocator::Pages => 0,
        };
        (0..count).map(offset).collect()
    }
}

/// What the parts of one simulated machine share.
struct State {
    noise: Noise,
    /// Seeds the page frames' colours.
    frames: u64,
}

struct SimulatedPool(Allocator);

impl Pool for SimulatedPool {
    fn allocator(&self) -> Allocator {
        self.0
    }

    fn pages(&self, _len: usize) -> u64 {
        PAGES
    }

    fn buffer(&mut self, _page: u64, _offset: u16, _len: usize) -> &mut [u8] {
        &mut []
    }

    fn memory(&mut self) -> &mut [u8] {
        &mut []
    }
}

struct SimulatedPath {
    name: PathName,
    cost: Cost,
    state: Rc<RefCell<State>>,
}

impl CopyPath for SimulatedPath {
    fn name(&self) -> PathName {
        self.name
    }

    fn can(&self, cell: &CellSpec) -> Result<(), String> {
        match self.name.takes(cell.dst, cell.src) && cell.len >= self.name.shortest() {
            true => Ok(()),
            false => Err(format!("{} cannot have these offsets or this length", self.name)),
        }
    }

    fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError> {
        let state = &mut *self.state.borrow_mut();
        let one = self.cost.copy_ns(copy.to, copy.from, copy.len as u64, state.frames);
        Ok(state.noise.disturb(one * f64::from(copy.repeat)).round().max(1.0) as u64)
    }
}

struct SimulatedClock(Rc<RefCell<State>>);

impl Clock for SimulatedClock {
    fn precision_ns(&self) -> u64 {
        20
    }

    fn chain_ns(&mut self) -> u64 {
        self.0.borrow_mut().noise.disturb(20_000.0).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_model_exists_also_noisy() {
        for (name, _) in MODELS {
            assert!(Model::named(name).is_some_and(|m| !m.noisy && m.name == name));
            assert!(Model::named(&format!("{name}+noisy")).is_some_and(|m| m.noisy));
        }
        assert_eq!(Model::named("zen9"), None);
        assert_eq!(Model::named("+noisy"), None);
    }
}
