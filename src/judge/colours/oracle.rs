//! Questions to the machine, repeated and taken in turns so that what disturbs it hits all alike.

use super::super::stats::{median, median_of};
use super::Ask;
use crate::report::Pair;

/// Passes over a few pairs, and where they leave a doubt.
pub const PASSES: usize = 5;
pub const DOUBTFUL_PASSES: usize = 11;

/// Pairs on either side of the gap between two levels, at least: more than one odd page takes part in.
const LEAST: usize = 12;

/// The slow level over the fast one, and the gap between the nearest of both, at least.
const LEAST_RATIO: f64 = 1.5;
const LEAST_GAP: f64 = 1.1;

/// Pairs that share a pass over the references.
const CHUNK: usize = 32;

/// Fast pairs beside which others are timed.
const REFERENCES: usize = 3;

/// Two levels of time.
pub struct Levels {
    /// The least time of a slow pair.
    pub slow_from: f64,
    /// The slow level over the fast one.
    pub ratio: f64,
    /// The fast level.
    fast: f64,
}

/// The levels between which times leave their widest gap; none where they have one level only.
pub fn two_levels(times: &[f64]) -> Option<Levels> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let gap = |at: &usize| sorted[*at] / sorted[*at - 1];
    let at = (LEAST..=sorted.len().checked_sub(LEAST)?).max_by(|a, b| gap(a).total_cmp(&gap(b)))?;
    let (below, above) = sorted.split_at(at);
    let (fast, slow) = (median_of(below.iter().copied())?, median_of(above.iter().copied())?);
    let ratio = slow / fast;
    (ratio >= LEAST_RATIO && gap(&at) >= LEAST_GAP).then_some(Levels { slow_from: above[0], ratio, fast })
}

/// The machine, asked at one distance.
pub struct Oracle<'a, 'b> {
    ask: &'a mut Ask<'b>,
    distance: u16,
    len: usize,
    references: Vec<(usize, usize)>,
    limit: f64,
}

impl<'a, 'b> Oracle<'a, 'b> {
    pub fn new(ask: &'a mut Ask<'b>, distance: u16, len: usize) -> Self {
        Oracle { ask, distance, len, references: vec![], limit: f64::INFINITY }
    }

    pub fn distance(&self) -> u16 {
        self.distance
    }

    /// The same machine at another distance, for times alone.
    pub fn at(&mut self, distance: u16) -> Oracle<'_, 'b> {
        Oracle::new(self.ask, distance, self.len)
    }

    fn time(&mut self, (dst, src): (usize, usize)) -> Option<f64> {
        (self.ask)(Pair { dst, src, distance: self.distance, len: self.len })
    }

    /// The median time of each pair.
    pub fn times(&mut self, pairs: &[(usize, usize)], passes: usize) -> Option<Vec<f64>> {
        self.medians(pairs, passes, |_| Some(1.0))
    }

    /// In each pass every pair's time is divided by `unit`'s answer; the median over passes.
    fn medians(
        &mut self,
        pairs: &[(usize, usize)],
        passes: usize,
        unit: impl Fn(&mut Self) -> Option<f64>,
    ) -> Option<Vec<f64>> {
        let mut all = vec![Vec::with_capacity(passes); pairs.len()];
        for _ in 0..passes {
            let unit = unit(self)?;
            for (times, pair) in all.iter_mut().zip(pairs) {
                times.push(self.time(*pair)? / unit);
            }
        }
        Some(all.iter_mut().filter_map(|times| median(times)).collect())
    }

    /// Takes the two levels for granted if the same pairs are slow and fast when asked once more; from
    /// then on pairs are timed beside fast ones, so that a change of the core's speed changes nothing.
    pub fn believes(&mut self, levels: &Levels, pairs: &[(usize, usize)], times: &[f64]) -> Option<bool> {
        let mut nearest: Vec<usize> = (0..pairs.len()).collect();
        nearest.sort_by(|a, b| (times[*a] - levels.fast).abs().total_cmp(&(times[*b] - levels.fast).abs()));
        self.references = nearest.iter().take(REFERENCES).map(|index| pairs[*index]).collect();
        self.limit = levels.ratio.sqrt();
        let again = self.slow(pairs, PASSES)?;
        let was_slow = || times.iter().map(|time| *time >= levels.slow_from);
        let agree = |kind: bool| {
            let all = was_slow().filter(|slow| *slow == kind).count();
            let same =
                was_slow().zip(&again).filter(|(slow, again)| *slow == kind && **again == kind).count();
            same * 10 >= all * 9
        };
        Some(agree(true) && agree(false))
    }

    /// Which of the pairs are slow.
    pub fn slow(&mut self, pairs: &[(usize, usize)], passes: usize) -> Option<Vec<bool>> {
        let references = self.references.clone();
        let unit = |oracle: &mut Self| {
            let times: Option<Vec<f64>> = references.iter().map(|pair| oracle.time(*pair)).collect();
            median_of(times?)
        };
        let relative = self.medians(pairs, passes, unit)?;
        Some(relative.into_iter().map(|time| time > self.limit).collect())
    }

    /// Whether all of the pairs are slow; a doubt is looked at more closely.
    pub fn all_slow(&mut self, pairs: &[(usize, usize)]) -> Option<bool> {
        let all = |slow: Vec<bool>| slow.into_iter().all(|s| s);
        Some(all(self.slow(pairs, PASSES)?) || all(self.slow(pairs, DOUBTFUL_PASSES)?))
    }

    /// The first of many pairs that is slow, most of which are fast: one pass finds it, more confirm it.
    pub fn first_slow(&mut self, pairs: &[(usize, usize)]) -> Option<Option<usize>> {
        for (chunk, start) in pairs.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
            let seen = self.slow(chunk, 1)?;
            for place in (0..chunk.len()).filter(|place| seen[*place]) {
                if self.slow(&chunk[place..=place], PASSES)?[0] {
                    return Some(Some(start + place));
                }
            }
        }
        Some(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_levels_need_a_gap_a_ratio_and_several_pairs() {
        let levels = |slow: usize, ns: f64| {
            let fast = (0..500).map(|i| 30.0 + f64::from(i) / 100.0);
            two_levels(&fast.chain((0..slow).map(|_| ns)).collect::<Vec<_>>()).map(|l| l.slow_from)
        };
        assert_eq!(levels(30, 210.0), Some(210.0));
        assert_eq!(levels(11, 210.0), None, "too few");
        assert_eq!(levels(30, 40.0), None, "too near");
        assert_eq!(levels(0, 0.0), None);
        assert!(two_levels(&[1.0; 12]).is_none() && two_levels(&[]).is_none());
    }
}
