//! Pools of simulated pages. Those of Zen 3 and Zen 4 have 16 colours, as measured; other models' have none.

use super::Model;
use super::cost::{Cost, Slow, coloured_ns_per_kib, mix, zen3_penalty, zen4_penalty};
use super::noise::Noise;
use crate::path::Spot;
use crate::report::{Fact, Pair};
use crate::sweep::colours::PairTimer;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// What `rep movsb` costs in L1: 30 ns for 2048 B, as measured on Zen 4 (docs/signatures.md).
const L1_NS_PER_KIB: f64 = 15.0;

/// Colours of Zen 3 and Zen 4.
const COLOURS: u64 = 16;

/// A pool of simulated pages.
pub struct Pages {
    cost: Cost,
    /// What a copy between any two pages takes more, in ns per KiB, by distance and length.
    every_pair: fn(u16, u64) -> f64,
    colours: u64,
    seed: u64,
    noise: Noise,
}

impl Model {
    /// A pool of the machine's pages; the same seed gives the same times.
    pub fn pages(&self, seed: u64) -> Pages {
        self.pages_of(if is_coloured(&self.cost) { COLOURS } else { 0 }, seed)
    }

    /// A pool of pages in so many colours, with Zen 4's times between those of one; 0: none, and the
    /// model's own times.
    pub fn pages_of(&self, colours: u64, seed: u64) -> Pages {
        let every_pair = if self.cost.slow == Slow::Zen3 { zen3_penalty } else { zen4_penalty };
        let slow = if is_coloured(&self.cost) { Slow::Nowhere } else { self.cost.slow.clone() };
        let cost =
            Cost { call_ns: 0.0, cached_ns_per_kib: L1_NS_PER_KIB, misaligned: false, slow, ..self.cost };
        let noise = Noise::new(self.noisy, Xoshiro256PlusPlus::seed_from_u64(seed));
        Pages { cost, every_pair, colours, seed, noise }
    }
}

fn is_coloured(cost: &Cost) -> bool {
    matches!(cost.slow, Slow::Zen3 | Slow::Zen4 { .. })
}

impl Pages {
    fn colour(&self, page: usize) -> u64 {
        mix(self.seed, page as u64) % self.colours
    }
}

impl PairTimer for Pages {
    fn time(&mut self, pair: Pair) -> f64 {
        let len = pair.len as u64;
        let spot = |page: usize, offset| Spot { page: page as u64, offset };
        let mut ns = self.cost.copy_ns(spot(pair.dst, pair.distance), spot(pair.src, 0), len, self.seed);
        if self.colours > 0 {
            let same = self.colour(pair.dst) == self.colour(pair.src);
            let mild = if same { coloured_ns_per_kib(pair.distance) } else { 0.0 };
            ns += ((self.every_pair)(pair.distance, len) + mild) * len as f64 / 1024.0;
        }
        self.noise.disturb(ns)
    }

    fn frames(&self) -> Fact<Vec<u64>> {
        Fact::because("simulated pages have no frames")
    }
}
