//! The clock that times every copy, its own precision, and a yardstick of the core's speed.

use std::hint::black_box;
use std::sync::OnceLock;

/// Readings taken to learn the clock's precision: 10 µs in all where the clock is read in user space,
/// a few hundred where each reading is a system call.
const READINGS: usize = 257;

/// Up to so many nanoseconds a reading is left in what it times.
const CHEAP_NS: u64 = 100;

/// Steps of the arithmetic chain: about 20 µs at 3.5 GHz, five cycles a step.
const CHAIN_STEPS: u32 = 14_000;

/// Nanoseconds of CLOCK_MONOTONIC, read in user space where the kernel's clock source allows it.
#[inline]
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec; CLOCK_MONOTONIC exists on every Linux, so the call
    // cannot fail (and were it to, `time` stays initialised).
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds since an earlier reading, without what the readings themselves take where that is much: of a clock
/// that is a system call or an exit to the hypervisor, a microsecond and more.
#[inline]
pub fn since_ns(before: u64) -> u64 {
    now_ns().saturating_sub(before).saturating_sub(costly_reading_ns())
}

/// What a reading takes; 0 below [`CHEAP_NS`], which is next to nothing beside any copy.
fn costly_reading_ns() -> u64 {
    static COST: OnceLock<u64> = OnceLock::new();
    *COST.get_or_init(|| {
        let mut steps = steps(&std::array::from_fn::<u64, READINGS, _>(|_| now_ns()));
        steps.sort_unstable();
        Some(steps[steps.len() / 2]).filter(|cost| *cost > CHEAP_NS).unwrap_or(0)
    })
}

fn steps(readings: &[u64]) -> Vec<u64> {
    readings.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect()
}

/// The clock's precision in nanoseconds: the least difference that it shows or what a reading costs,
/// whichever is larger. Measured once.
pub fn precision_ns() -> u64 {
    static PRECISION: OnceLock<u64> = OnceLock::new();
    *PRECISION.get_or_init(|| {
        let readings: [u64; READINGS] = std::array::from_fn(|_| now_ns());
        precision_of(&readings).unwrap_or_else(tick_ns)
    })
}

/// The precision that successive readings show; none where they never differ.
fn precision_of(readings: &[u64]) -> Option<u64> {
    let mut steps = steps(readings);
    steps.sort_unstable();
    let least = *steps.iter().find(|&&step| step > 0)?;
    Some(least.max(steps[steps.len() / 2]))
}

/// The resolution that the kernel states, for a clock too coarse to change while it is watched.
fn tick_ns() -> u64 {
    let mut tick = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `tick` is a valid, writable timespec and stays initialised if the call fails.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC, &mut tick) };
    (tick.tv_sec as u64 * 1_000_000_000 + tick.tv_nsec as u64).max(1)
}

/// Nanoseconds of a fixed chain of dependent arithmetic, which touches no memory: the core's speed,
/// for anyone without privileges.
pub fn chain_ns() -> u64 {
    let mut x = black_box(0x9e37_79b9_7f4a_7c15_u64);
    let before = now_ns();
    for _ in 0..CHAIN_STEPS {
        // Shift, xor and multiply have no common closed form, so the compiler cannot shorten the chain.
        x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    black_box(x);
    now_ns().saturating_sub(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_runs_backwards() {
        let readings: Vec<u64> = (0..1000).map(|_| now_ns()).collect();
        assert!(readings.is_sorted());
        assert!(readings[0] > 0);
    }

    #[test]
    fn precision_is_the_least_step_or_the_cost() {
        assert_eq!(precision_of(&[0, 20, 40, 60, 81]), Some(20));
        assert_eq!(precision_of(&[0, 0, 0, 1000, 1000]), Some(1000), "a coarse clock");
        assert_eq!(precision_of(&[0, 1, 31, 61, 91]), Some(30), "one nanosecond shown, 30 a reading");
        assert_eq!(precision_of(&[5, 5, 5]), None);
        assert_eq!(precision_of(&[]), None);
        assert!(precision_ns() >= 1);
        assert_eq!(precision_ns(), precision_ns());
    }

    #[test]
    fn the_chain_takes_its_steps() {
        // No core makes a dependent multiplication in less than 0.1 ns: a folded chain would show.
        assert!(chain_ns() > u64::from(CHAIN_STEPS) / 10);
    }
}
