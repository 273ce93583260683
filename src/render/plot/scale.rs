//! From offsets and speeds to places in a panel.

use crate::render::terminal::scanline::Interval;
use crate::report::{PAGE, distance};

/// A stretch of the circle of page offsets that a panel shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub from: u16,
    /// How many offsets, 1 to 4096.
    pub width: u16,
}

impl Window {
    pub const WHOLE: Window = Window { from: 0, width: PAGE };

    /// The middle of an offset's place as a share of the window; none outside.
    pub fn place(self, offset: u16) -> Option<f32> {
        let steps = distance(offset, self.from);
        (steps < self.width).then(|| (f32::from(steps) + 0.5) / f32::from(self.width))
    }

    /// The parts of an interval that lie in the window, as shares of it: two where it leaves and comes back.
    pub fn parts(self, interval: Interval) -> Vec<[f32; 2]> {
        let page = i32::from(PAGE);
        let begin = i32::from(distance(interval.from, self.from));
        let end = begin + i32::from(distance(interval.to, interval.from)) + 1;
        let width = i32::from(self.width);
        let cut = |shift: i32| [(begin - shift).clamp(0, width), (end - shift).clamp(0, width)];
        let inside = [cut(page), cut(0)].into_iter().filter(|[from, to]| from < to);
        inside.map(|part| part.map(|at| at as f32 / width as f32)).collect()
    }

    /// The offsets at which an axis is labelled.
    pub fn ticks(self) -> impl Iterator<Item = u16> {
        let step = if self.width > 0x400 {
            0x200
        } else if self.width > 0x80 {
            0x40
        } else {
            0x10
        };
        let first = self.from.next_multiple_of(step) - self.from;
        (first..self.width).step_by(usize::from(step)).map(move |at| (self.from + at) % PAGE)
    }
}

/// A logarithmic axis of speeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Speeds {
    low: f64,
    high: f64,
}

impl Speeds {
    /// The least that an axis spans: a narrower one would make mountains of noise.
    const LEAST: f64 = 5.0;

    /// An axis that holds all these speeds; none without any.
    pub fn over(values: impl Iterator<Item = f64>) -> Option<Speeds> {
        let usable = values.filter(|v| v.is_normal() && *v > 0.0);
        let (low, high) = usable.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
        if low > high {
            return None;
        }
        let (low, high) = (low / 1.15, high * 1.15);
        let widen = (Self::LEAST / (high / low)).max(1.0).sqrt();
        Some(Speeds { low: low / widen, high: high * widen })
    }

    /// A speed's height as a share of the axis, 0 at the bottom.
    pub fn place(self, speed: f64) -> f32 {
        let share = (speed / self.low).ln() / (self.high / self.low).ln();
        share.clamp(0.0, 1.0) as f32
    }

    /// The speeds at which the axis is labelled: 1, 2 and 5 of each decade, or powers of ten alone.
    pub fn ticks(self) -> Vec<f64> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let of = |digits: &[f64]| -> Vec<f64> {
            let all = decades.clone().flat_map(|d| digits.iter().map(move |m| m * 10f64.powi(d)));
            all.filter(|v| (self.low..=self.high).contains(v)).collect()
        };
        let fine = of(&[1.0, 2.0, 5.0]);
        if fine.len() <= 8 {
            return fine;
        }
        let whole = of(&[1.0]);
        let step = whole.len().div_ceil(8).max(1);
        whole.into_iter().step_by(step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_through_zero_has_two_parts_in_the_whole_page() {
        let band = Interval { from: 0xf00, to: 0x0ff };
        assert_eq!(Window::WHOLE.parts(band), [[0.0, 0.0625], [0.9375, 1.0]]);
        let near = Window { from: 0xe00, width: 0x400 };
        assert_eq!(near.parts(band), [[0.25, 0.75]]);
        assert!(near.parts(Interval { from: 0x300, to: 0x400 }).is_empty());
        assert_eq!(near.place(0x1ff), Some(1.0 - 0.5 / 1024.0));
        assert_eq!(near.place(0x200), None);
    }

    #[test]
    fn axes_are_labelled_in_round_numbers() {
        let near = Window { from: 0xff1, width: 0x50 };
        assert_eq!(near.ticks().collect::<Vec<_>>(), [0x000, 0x010, 0x020, 0x030, 0x040]);
        let speeds = Speeds::over([3.2, 23.1].into_iter()).unwrap();
        let ticks: Vec<String> = speeds.ticks().iter().map(|t| format!("{t:.0}")).collect();
        assert_eq!(ticks, ["5", "10", "20"]);
        assert!(speeds.place(3.2) > 0.0 && speeds.place(23.1) < 1.0);
        assert_eq!(Speeds::over([f64::NAN, 0.0, f64::INFINITY].into_iter()), None);
        let flat = Speeds::over([10.0].into_iter()).unwrap();
        assert!((flat.place(10.0) - 0.5).abs() < 1e-6 && flat.ticks().len() >= 2);
    }
}
