//! How fast each way of `fsprobe cat` is, and over the plain one.

use super::stats;
use crate::report::CatRow;

/// A row of samples of so many bytes, round by round beside the plain way's.
pub fn row(name: &str, what: String, bytes: u64, plain: &[u64], ns: Vec<u64>) -> CatRow {
    let speeds: Vec<f64> = ns.iter().map(|&ns| bytes as f64 * 1e9 / ns.max(1) as f64).collect();
    let factors: Vec<f64> = plain.iter().zip(&ns).map(|(&a, &b)| a as f64 / b.max(1) as f64).collect();
    CatRow {
        name: name.into(),
        what,
        bytes_per_s: stats::median_of(speeds.iter().copied()).unwrap_or(0.0),
        bytes_per_s_ci95: stats::median_interval(&speeds),
        factor: stats::median_of(factors.iter().copied()).unwrap_or(0.0),
        factor_ci95: stats::median_interval(&factors),
        ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_of_rounds_and_nothing_divides_by_zero() {
        let fast = row("fast", String::new(), 1000, &[200, 400, 300], vec![100, 100, 100]);
        assert_eq!((fast.bytes_per_s, fast.factor), (1e10, 3.0));
        let none = row("none", String::new(), 1000, &[], vec![]);
        assert_eq!((none.bytes_per_s, none.factor), (0.0, 0.0));
        assert!(row("zero", String::new(), 1, &[1], vec![0]).bytes_per_s.is_finite());
    }
}
