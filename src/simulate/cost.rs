//! What one undisturbed copy costs on a model. The figures come from docs/signatures.md.

use crate::path::Spot;
use crate::report::{Axis, PAGE, distance};

/// Nanoseconds of a call of a routine in user space.
const USER_CALL_NS: f64 = 10.0;

/// Nanoseconds per KiB of a copy in user space that stays within the L2 cache: a Zen 4's `rep movsb` of
/// 64 KiB took 1,131 ns at distance 0 (measured by this project).
const ZEN4_USER_NS_PER_KIB: f64 = 17.7;

/// The same of 64-byte unrolled integer moves: 1,993 ns at distance 0 (measured by this project).
const UNROLLED_NS_PER_KIB: f64 = 31.0;

/// What `rep movsq` costs more at distance 0x001..0x01f, in ns per KiB up to 4 KiB and beyond: 4x and 2.5x in user
/// space on Zen 4, 3.0x and 2.7x on Zen 3 (measured by this project).
const ZEN4_MOVSQ: [f64; 2] = [50.0, 26.0];
const ZEN3_MOVSQ: [f64; 2] = [34.0, 37.0];

/// A machine's costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// Nanoseconds of a call before a byte is copied.
    pub call_ns: f64,
    /// Nanoseconds per KiB at lengths that fit the L2 cache, aligned.
    pub cached_ns_per_kib: f64,
    /// The same of a copy in user space.
    pub user_ns_per_kib: f64,
    /// The same at 1 MiB and more.
    pub streamed_ns_per_kib: f64,
    /// Whether a destination off a multiple of 0x20 costs extra, as it does nearly everywhere.
    pub misaligned: bool,
    /// What is slow, and where.
    pub slow: Slow,
    /// The shortest and the longest copies that run what is slow: those of a library that picks its routine.
    pub lens: [u64; 2],
}

/// What is slow on a machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Slow {
    /// Nothing.
    Nowhere,
    /// One band on the circle of an axis, by a factor on the whole copy.
    Band {
        /// What it depends on.
        axis: Axis,
        /// First offset.
        from: u16,
        /// Last offset; below `from` where the band passes through zero.
        to: u16,
        /// Its slowdown.
        slowdown: f64,
    },
    /// Zen 4: a penalty per KiB at distance 0x001..0x00f, milder levels beyond, some by page colour.
    Zen4 {
        /// The last distance of the deep band; below 0x00f on a machine that an update mended, 0 for no band.
        deep_to: u16,
    },
    /// Zen 3 as this project measured it: a penalty per KiB at distance 0x001..0x01f, milder levels beyond by page
    /// colour.
    Zen3,
    /// Zen 5: a fixed number of nanoseconds a copy at distance 1..63.
    Zen5 {
        /// Extra nanoseconds of one copy.
        extra_ns: f64,
    },
    /// `rep movsq` on Zen 3 and Zen 4: one level at distance 0x001..0x01f, milder than that of `rep movsb`.
    Movsq {
        /// What a KiB costs more, up to 4 KiB and beyond.
        ns_per_kib: [f64; 2],
    },
    /// Tiger Lake: 1.3x rising to 1.9x over distance 1..511.
    Intel,
}

impl Cost {
    /// No anomaly.
    pub fn clean() -> Cost {
        Cost {
            call_ns: 100.0,
            cached_ns_per_kib: 41.5,
            user_ns_per_kib: 41.5,
            streamed_ns_per_kib: 105.0,
            misaligned: true,
            slow: Slow::Nowhere,
            lens: [0, u64::MAX],
        }
    }

    /// As measured by this project.
    pub fn zen4() -> Cost {
        Cost::zen4_to(0x00f)
    }

    /// The same with its deep band at distance 0x001 to this one.
    pub fn zen4_to(deep_to: u16) -> Cost {
        Cost { slow: Slow::Zen4 { deep_to }, user_ns_per_kib: ZEN4_USER_NS_PER_KIB, ..Cost::clean() }
    }

    /// Zen 3 as measured by this project.
    pub fn zen3_epyc() -> Cost {
        Cost { slow: Slow::Zen3, user_ns_per_kib: ZEN4_USER_NS_PER_KIB, ..Cost::clean() }
    }

    /// As published in apache/opendal#3665.
    pub fn zen3() -> Cost {
        Cost::banded(0x991, 0x00f)
    }

    /// 40 + len/64 clocks at 4 GHz, and 20 more at distance 1..63 (D. Laight, LKML 2025-03).
    pub fn zen5() -> Cost {
        Cost {
            call_ns: 10.0,
            cached_ns_per_kib: 4.0,
            streamed_ns_per_kib: 60.0,
            misaligned: false,
            slow: Slow::Zen5 { extra_ns: 5.0 },
            ..Cost::clean()
        }
    }

    /// As in N. Goldstein's notes.
    pub fn intel() -> Cost {
        Cost { slow: Slow::Intel, ..Cost::clean() }
    }

    /// What `rep movsq` costs on Zen 4, as measured by this project.
    pub fn movsq() -> Cost {
        Cost::zen4().by_movsq().expect("Zen 4's is known")
    }

    /// The same machine as seen by `rep movsq`, where that is known to be slow at all.
    pub fn by_movsq(&self) -> Option<Cost> {
        let ns_per_kib = match self.slow {
            Slow::Zen3 => ZEN3_MOVSQ,
            Slow::Zen4 { deep_to: 1.. } => ZEN4_MOVSQ,
            _ => return None,
        };
        Some(Cost { slow: Slow::Movsq { ns_per_kib }, ..self.clone() })
    }

    /// Slow at short lengths only.
    pub fn short() -> Cost {
        Cost::clean().with_band(0x001, 0x00f, 2.5).within(1, 4096)
    }

    /// One band by distance at 2.8x.
    pub fn banded(from: u16, to: u16) -> Cost {
        Cost::clean().with_band(from, to, 2.8)
    }

    /// The same with one band by distance.
    pub fn with_band(self, from: u16, to: u16, slowdown: f64) -> Cost {
        Cost { slow: Slow::Band { axis: Axis::Distance, from, to, slowdown }, ..self }
    }

    /// The same routine run in user space: no system call around it.
    pub fn without_call(self) -> Cost {
        let cached_ns_per_kib = self.cached_ns_per_kib.min(self.user_ns_per_kib);
        Cost { call_ns: self.call_ns.min(USER_CALL_NS), cached_ns_per_kib, ..self }
    }

    /// 64-byte unrolled integer moves in user space.
    pub fn unrolled(&self) -> Cost {
        let user_ns_per_kib = self.user_ns_per_kib.max(UNROLLED_NS_PER_KIB);
        Cost { user_ns_per_kib, ..self.without_band() }.without_call()
    }

    /// Slow at lengths from `shortest` to `longest` only.
    pub fn within(self, shortest: u64, longest: u64) -> Cost {
        Cost { lens: [shortest, longest], ..self }
    }

    /// The same machine as seen by copies that no `rep movs` makes.
    pub fn without_band(&self) -> Cost {
        Cost { slow: Slow::Nowhere, ..self.clone() }
    }

    /// Nanoseconds of one copy. `frames` seeds the colours of the pages.
    pub fn copy_ns(&self, to: Spot, from: Spot, len: u64, frames: u64) -> f64 {
        let kib = len as f64 / 1024.0;
        let rate = if len >= 1 << 20 { self.streamed_ns_per_kib } else { self.cached_ns_per_kib };
        let aligned = !self.misaligned || to.offset.is_multiple_of(32);
        let base = self.call_ns + rate * kib * if aligned { 1.0 } else { misalignment(len) };
        let gap = distance(to.offset, from.offset);
        if !(self.lens[0]..=self.lens[1]).contains(&len) {
            return base;
        }
        match self.slow {
            Slow::Nowhere => base,
            Slow::Band { axis, from: first, to: last, slowdown } => {
                let offset = match axis {
                    Axis::Dst => to.offset % PAGE,
                    Axis::Src => from.offset % PAGE,
                    Axis::Distance | Axis::Mixed => gap,
                };
                let width = last.wrapping_sub(first) % PAGE;
                let inside = offset.wrapping_sub(first) % PAGE <= width;
                if inside { base * slowdown } else { base }
            }
            Slow::Zen4 { deep_to } => {
                let mended = gap <= 0x00f && gap > deep_to;
                let deep = if mended { 0.0 } else { zen4_penalty(gap, len) * kib };
                base + deep + coloured(gap, to, from, len, frames)
            }
            Slow::Zen3 => base + zen3_penalty(gap, len) * kib + coloured(gap, to, from, len, frames),
            Slow::Zen5 { extra_ns } => base + if (1..=63).contains(&gap) { extra_ns } else { 0.0 },
            Slow::Movsq { ns_per_kib } if (0x001..=0x01f).contains(&gap) => {
                base + ns_per_kib[usize::from(len > 4096)] * kib
            }
            Slow::Movsq { .. } => base,
            Slow::Intel => base * intel_factor(gap),
        }
    }
}

/// What a destination off a multiple of 0x20 costs, by length.
fn misalignment(len: u64) -> f64 {
    match len {
        0..=1024 => 1.1,
        1025..=16384 => 1.5,
        16385..=1_048_575 => 1.03,
        _ => 1.33,
    }
}

/// Zen 3's penalty on every pair of pages, in ns per KiB.
pub(super) fn zen3_penalty(gap: u16, len: u64) -> f64 {
    match gap {
        0x001..=0x01f if len <= 512 => 630.0,
        0x001..=0x01f if len < 1 << 20 => 330.0,
        0x001..=0x01f => 290.0,
        _ => 0.0,
    }
}

/// Zen 4's penalty on every pair of pages, in ns per KiB.
pub(super) fn zen4_penalty(gap: u16, len: u64) -> f64 {
    match gap {
        0x001..=0x00f if len <= 2048 => 340.0,
        0x001..=0x00f if len < 1 << 20 => 275.0,
        0x001..=0x00f => 200.0,
        0x010..=0x01f if len <= 4096 => 25.0,
        0x010..=0x01f if len < 1 << 20 => 6.0,
        0x010..=0x01f => 39.0,
        _ => 0.0,
    }
}

/// Zen 4's penalty between two pages of one colour, in ns per KiB; Zen 3's is within a fifth of it.
pub(super) fn coloured_ns_per_kib(gap: u16) -> f64 {
    match gap {
        _ if gap.is_multiple_of(32) => 0.0,
        0x021..=0x03f => 90.0,
        0x041..=0x05f => 48.0,
        0x061..=0x07f => 37.0,
        0x081..=0x0ff => 25.0,
        0x101..=0x2ff => 13.0 * f64::from(0x300 - gap) / 512.0,
        _ => 0.0,
    }
}

/// The same summed over the pages of a copy, in ns.
fn coloured(gap: u16, to: Spot, from: Spot, len: u64, frames: u64) -> f64 {
    let per_kib = coloured_ns_per_kib(gap);
    if per_kib == 0.0 {
        return 0.0;
    }
    if len >= 1 << 20 {
        return per_kib * len as f64 / 1024.0 / 16.0;
    }
    let colour = |side: u64, page: u64| mix(frames ^ side, page) & 15;
    let page = u64::from(PAGE);
    (0..len.div_ceil(page))
        .filter(|chunk| colour(1, to.page + chunk) == colour(2, from.page + chunk))
        .map(|chunk| per_kib * (len - chunk * page).min(page) as f64 / 1024.0)
        .sum()
}

fn intel_factor(gap: u16) -> f64 {
    match gap {
        1..=127 => 1.3 + 0.6 * f64::from(gap) / 128.0,
        128..=256 => 1.9,
        257..=511 => 1.9 - 0.6 * f64::from(gap - 256) / 255.0,
        _ => 1.0,
    }
}

/// SplitMix64's finaliser: a hash of a page's number.
pub(super) fn mix(seed: u64, page: u64) -> u64 {
    let mut z = seed.wrapping_add(page.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(cost: &Cost, dst: u16, src: u16, len: u64) -> f64 {
        cost.copy_ns(Spot { page: 3, offset: dst }, Spot { page: 5, offset: src }, len, 1)
    }

    #[test]
    fn zen4_is_as_measured_at_64_kib() {
        let cost = Cost::zen4();
        let slowdown = ns(&cost, 0x00f, 0, 65536) / ns(&cost, 0x801, 0, 65536);
        assert!((7.0..7.5).contains(&slowdown), "{slowdown}");
        assert_eq!(ns(&cost, 0x00f, 0, 65536), ns(&cost, 0x00d, 0xffe, 65536));
        assert!(ns(&cost, 0x1000, 0, 65536) < 3000.0);
        let long = ns(&cost, 0x00f, 0, 64 << 20) / ns(&cost, 0x801, 0, 64 << 20);
        assert!((2.3..2.5).contains(&long), "{long}");
    }

    #[test]
    fn zen3_is_as_measured() {
        let cost = Cost::zen3_epyc();
        let slowdown = |cost: &Cost, len| ns(cost, 0x01f, 0, len) / ns(cost, 0x801, 0, len);
        assert!((8.0..9.5).contains(&slowdown(&cost, 65536)), "{}", slowdown(&cost, 65536));
        assert!((14.0..20.0).contains(&slowdown(&cost.clone().without_call(), 65536)));
        assert!(ns(&cost, 0x020, 0, 65536) < 3000.0 && ns(&cost, 0, 0, 65536) < 3000.0);
        let movsq = cost.by_movsq().unwrap().without_call();
        assert!((2.5..3.2).contains(&slowdown(&movsq, 65536)), "{}", slowdown(&movsq, 65536));
        assert_eq!(Cost::zen3().by_movsq(), None, "nothing is published of that");
    }

    #[test]
    fn one_page_pair_in_sixteen_shares_a_colour() {
        let hit = |page| {
            let spot = |page| Spot { page, offset: 0 };
            coloured(0x30, spot(page), spot(7 * page), 4096, 9) > 0.0
        };
        let hits = (0..16_000).filter(|p| hit(*p)).count();
        assert!((850..1150).contains(&hits), "{hits}");
    }

    #[test]
    fn zen5_is_mild_at_128_bytes_and_nothing_at_64_kib() {
        let cost = Cost::zen5();
        assert!(ns(&cost, 63, 0, 128) / ns(&cost, 64, 0, 128) > 1.4);
        assert!(ns(&cost, 63, 0, 65536) / ns(&cost, 64, 0, 65536) < 1.02);
    }

    #[test]
    fn bands_are_circular_on_their_axis() {
        let cost =
            Cost { slow: Slow::Band { axis: Axis::Src, from: 0xfff, to: 1, slowdown: 3.0 }, ..Cost::clean() };
        let slow = |src| ns(&cost, 0, src, 65536) > 2.0 * ns(&cost, 0, 0x800, 65536);
        assert_eq!([0xffe, 0xfff, 0, 1, 2].map(slow), [false, true, true, true, false]);
    }
}
