//! What disturbs simulated copies: residuals as recorded on a real machine, and, for `+noisy`, drift,
//! turbo steps, a ramp-up and far heavier tails than any recording of this project shows.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Quantiles of sample over cell median, from this project's recording of an idle Zen 4 guest.
const IDLE: [(f64, f64); 15] = [
    (0.0, 0.912),
    (0.01, 0.951),
    (0.1, 0.965),
    (0.2, 0.986),
    (0.5, 1.0),
    (0.6, 1.007),
    (0.7, 1.054),
    (0.8, 1.142),
    (0.9, 1.212),
    (0.97, 1.271),
    (0.99, 1.325),
    (0.997, 1.49),
    (0.999, 8.71),
    (0.9998, 27.2),
    (1.0, 65.8),
];

/// The same with three memory-bound programs beside it on two CPUs.
const LOADED: [(f64, f64); 15] = [
    (0.0, 0.91),
    (0.01, 0.961),
    (0.1, 0.986),
    (0.2, 0.993),
    (0.5, 1.0),
    (0.6, 1.003),
    (0.75, 1.014),
    (0.85, 1.035),
    (0.9, 1.101),
    (0.95, 1.196),
    (0.99, 1.367),
    (0.997, 1.873),
    (0.999, 11.07),
    (0.9995, 1427.0),
    (1.0, 5669.0),
];

/// Share of samples that an added heavy tail hits, and how heavy it is (Pareto's scale; exponent 1).
const TAIL_SHARE: f64 = 0.08;
const TAIL_SCALE: f64 = 0.3;

/// Samples over which the ramp-up from 1.6 fades, and the mean time between turbo steps, in samples.
const RAMP: f64 = 20_000.0;
const STEP: f64 = 1.0 / 4000.0;

/// A stream of disturbances.
pub struct Noise {
    noisy: bool,
    random: Xoshiro256PlusPlus,
    taken: f64,
    turbo: f64,
}

impl Noise {
    /// The noise of an idle machine, or of a busy one.
    pub fn new(noisy: bool, random: Xoshiro256PlusPlus) -> Noise {
        Noise { noisy, random, taken: 0.0, turbo: 1.0 }
    }

    /// A time as it would have been measured.
    pub fn disturb(&mut self, ns: f64) -> f64 {
        self.taken += 1.0;
        if !self.noisy {
            return ns * residual(&IDLE, self.random.random());
        }
        let mut factor = residual(&LOADED, self.random.random());
        if self.random.random::<f64>() < TAIL_SHARE {
            factor *= 1.0 + (TAIL_SCALE / self.random.random::<f64>().max(1e-4)).min(1e3);
        }
        if self.random.random::<f64>() < STEP {
            self.turbo = self.random.random_range(0.85..1.25);
        }
        let ramp = 1.0 + 0.6 * (-self.taken / RAMP).exp();
        let drift = 1.0 + 0.15 * (self.taken / 7000.0).sin();
        ns * factor * ramp * drift * self.turbo
    }
}

/// The quantile function by linear interpolation.
fn residual(table: &[(f64, f64)], u: f64) -> f64 {
    let above = table.partition_point(|(q, _)| *q < u).clamp(1, table.len() - 1);
    let ((q0, f0), (q1, f1)) = (table[above - 1], table[above]);
    f0 + (f1 - f0) * (u - q0) / (q1 - q0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn half_of_an_idle_machines_samples_lie_below_the_median() {
        let mut noise = Noise::new(false, Xoshiro256PlusPlus::seed_from_u64(1));
        let below = (0..10_000).filter(|_| noise.disturb(1000.0) < 1000.0).count();
        assert!((4800..5200).contains(&below), "{below}");
    }

    #[test]
    fn a_noisy_machine_has_tails_and_drift() {
        let mut noise = Noise::new(true, Xoshiro256PlusPlus::seed_from_u64(1));
        let samples: Vec<f64> = (0..100_000).map(|_| noise.disturb(1.0)).collect();
        assert!(samples.iter().filter(|s| **s > 3.0).count() > 1000);
        let mean = |part: &[f64]| part.iter().map(|s| s.min(3.0)).sum::<f64>() / part.len() as f64;
        assert!(mean(&samples[..5000]) > 1.15 * mean(&samples[50_000..]), "no ramp-up");
    }
}
