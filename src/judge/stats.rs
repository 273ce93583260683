//! Statistics of the judge: medians, sign tests, Holm's correction, order-statistic intervals.
//!
//! Everything works on ranks and signs, since copy times have tails that no mean survives.

use statrs::distribution::{Binomial, DiscreteCDF};

/// The error rate over all candidates of a report at which a band counts as confirmed.
pub const ALPHA: f64 = 1e-4;

/// The share of fresh rounds that may go wrong without a true band being missed.
pub const ROUNDS_GONE_WRONG: f64 = 0.1;

/// Fresh rounds of any confirm phase. Thirty-two would do for the sign tests; on noisy simulated machines
/// forty-eight leave a tenth as many edges in doubt.
const LEAST_ROUNDS: u32 = 48;

/// The `q` quantile (0 to 1) by the nearest rank; reorders the values. None if there are none.
pub fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let rank = (q * last as f64).round() as usize;
    Some(*values.select_nth_unstable_by(rank.min(last), f64::total_cmp).1)
}

/// The median; reorders the values. None if there are none.
pub fn median(values: &mut [f64]) -> Option<f64> {
    let half = values.len() / 2;
    if values.len() % 2 == 1 {
        return quantile(values, 0.5);
    }
    let (below, upper, _) =
        values.len().checked_sub(1).map(|_| values.select_nth_unstable_by(half, f64::total_cmp))?;
    let lower = below.iter().copied().max_by(f64::total_cmp)?;
    Some((lower + *upper) / 2.0)
}

/// The median of values that may repeat in an iterator.
pub fn median_of(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    median(&mut values.into_iter().collect::<Vec<_>>())
}

/// The one-sided sign test: how likely at least `successes` of `trials` are if each is a fair coin.
pub fn sign_test(successes: usize, trials: usize) -> f64 {
    if successes == 0 {
        return 1.0;
    }
    match Binomial::new(0.5, trials as u64) {
        Ok(coin) => coin.sf(successes as u64 - 1),
        Err(_) => 1.0,
    }
}

/// How many of the values lie above the limit, and the sign test's probability of that.
pub fn above(values: &[f64], limit: f64) -> f64 {
    sign_test(values.iter().filter(|v| **v > limit).count(), values.len())
}

/// Holm's step-down correction: which of the tests hold together at level `alpha`.
pub fn holm(p_values: &[f64], alpha: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut holds = vec![false; p_values.len()];
    for (step, &test) in order.iter().enumerate() {
        if p_values[test] > alpha / (p_values.len() - step) as f64 {
            break;
        }
        holds[test] = true;
    }
    holds
}

/// The number of fresh rounds, fixed before looking, with which `tests` sign tests reach [`ALPHA`]
/// together although one round in ten goes wrong.
pub fn rounds_to_confirm(tests: usize) -> u32 {
    let level = ALPHA / tests.max(1) as f64;
    (LEAST_ROUNDS..=96)
        .find(|&rounds| {
            let right = (f64::from(rounds) * (1.0 - ROUNDS_GONE_WRONG)).floor() as usize;
            sign_test(right, rounds as usize) <= level
        })
        .unwrap_or(96)
}

/// The 95 % interval of the median by order statistics; none with fewer than six values.
pub fn median_interval(values: &[f64]) -> Option<[f64; 2]> {
    let n = values.len();
    let coin = Binomial::new(0.5, n as u64).ok()?;
    let outside = (0..n / 2).take_while(|&k| coin.cdf(k as u64) <= 0.025).last()?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some([sorted[outside], sorted[n - 1 - outside]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn medians_of_odd_even_and_none() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&mut []), None);
        assert_eq!(quantile(&mut [5.0, 1.0, 2.0, 3.0, 4.0], 0.25), Some(2.0));
    }

    #[test]
    fn sign_tests_are_binomial_tails() {
        assert!((sign_test(5, 5) - 1.0 / 32.0).abs() < 1e-12);
        assert_eq!(sign_test(0, 5), 1.0);
        assert_eq!(sign_test(3, 0), 0.0_f64.max(sign_test(3, 0)), "no trials is no panic");
        assert!(above(&[2.0, 2.0, 0.5], 1.0) > above(&[2.0; 3], 1.0));
    }

    #[test]
    fn holm_stops_at_the_first_that_fails() {
        assert_eq!(holm(&[0.01, 0.04, 0.03], 0.05), [true, false, false]);
        assert_eq!(holm(&[0.01, 0.02, 0.03], 0.06), [true, true, true]);
        assert!(holm(&[], 0.05).is_empty());
    }

    #[test]
    fn confirm_rounds_reach_their_level() {
        assert!((48..=50).contains(&rounds_to_confirm(8)), "{}", rounds_to_confirm(8));
        assert!(rounds_to_confirm(1_000_000) > rounds_to_confirm(2));
        let rounds = rounds_to_confirm(40);
        assert!(sign_test((f64::from(rounds) * 0.9) as usize, rounds as usize) <= ALPHA / 40.0);
    }

    #[test]
    fn intervals_hold_the_median() {
        let values: Vec<f64> = (0..32).map(f64::from).collect();
        assert_eq!(median_interval(&values), Some([9.0, 22.0]));
        assert_eq!(median_interval(&[1.0; 5]), None);
    }

    proptest! {
        #[test]
        fn the_median_has_half_on_each_side(mut values in prop::collection::vec(-1e3f64..1e3, 1..60)) {
            let middle = median(&mut values).unwrap();
            let half = values.len().div_ceil(2);
            prop_assert!(values.iter().filter(|v| **v <= middle).count() >= half);
            prop_assert!(values.iter().filter(|v| **v >= middle).count() >= half);
        }
    }
}
