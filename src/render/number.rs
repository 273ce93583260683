//! Numbers as people see them: three significant digits, offsets in hexadecimal, sizes in binary units.

use crate::report::PAGE;

/// Three significant digits: `0.123`, `3.20`, `23.1`, `101`, `1230`, from a million on `1.23e6`.
pub(crate) fn three(value: f64) -> String {
    if !value.is_finite() {
        return "?".into();
    }
    if value == 0.0 {
        return "0".into();
    }
    // rounded first, so that 9.996 becomes 10.0 and not 10.00
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let exponent = rounded.abs().log10().floor() as i32;
    match exponent {
        -4..=5 => format!("{rounded:.*}", (2 - exponent).max(0) as usize),
        _ => format!("{rounded:.2e}"),
    }
}

/// Bytes per second in GB/s (10^9).
pub(crate) fn gigabytes(bytes_per_s: f64) -> String {
    three(bytes_per_s / 1e9)
}

/// A factor in a sentence: `1.25x`, `7.3x`, `25x`.
pub(crate) fn times(factor: f64) -> String {
    match factor {
        f if (0.0..1.995).contains(&f) => format!("{f:.2}x"),
        _ => times_briefly(factor),
    }
}

/// A factor in a table: `1.3x`, `7.3x`, `25x`.
pub(crate) fn times_briefly(factor: f64) -> String {
    match factor {
        f if (0.0..9.95).contains(&f) => format!("{f:.1}x"),
        f if (0.0..999.5).contains(&f) => format!("{f:.0}x"),
        f => format!("{}x", three(f)),
    }
}

/// A length: `128 B`, `64 KiB`, `64 MiB`.
pub(crate) fn bytes(len: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| len >= *unit && len.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", len / unit),
        None => format!("{len} B"),
    }
}

/// A penalty in whole nanoseconds per KiB, with its sign: `+275`.
pub(crate) fn penalty(ns_per_kib: f64) -> String {
    // adding zero takes the sign from a rounded nothing
    format!("{:+.0}", ns_per_kib.round() + 0.0)
}

/// A page offset: `0x00f`.
pub(crate) fn offset(offset: u16) -> String {
    format!("0x{offset:03x}")
}

/// A run of page offsets, its ends included: `0x001-0x00f`, or `0x001` alone.
pub(crate) fn span(from: u16, to: u16) -> String {
    if from == to { offset(from) } else { format!("{}-{}", offset(from), offset(to)) }
}

/// An offset that a file claims, on the circle.
pub(crate) fn on_circle(offset: u16) -> u16 {
    offset % PAGE
}

/// `1 page fault`, `3 page faults`; a word that ends in `ch` or `s` gets `es`.
pub(crate) fn counted(count: u64, word: &str) -> String {
    let ending = match count {
        1 => "",
        _ if word.ends_with("ch") || word.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {word}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn penalties_have_a_sign_and_nothing_has_a_plus() {
        assert_eq!([275.2, -0.3, -3.0, 0.0].map(penalty), ["+275", "+0", "-3", "+0"]);
    }

    #[test]
    fn three_digits_everywhere() {
        for (value, text) in [
            (0.0, "0"),
            (0.12345, "0.123"),
            (3.2, "3.20"),
            (9.996, "10.0"),
            (23.14, "23.1"),
            (99.96, "100"),
            (101.4, "101"),
            (1234.0, "1230"),
            (999_600.0, "1.00e6"),
            (1.5e-9, "1.50e-9"),
            (f64::NAN, "?"),
            (f64::INFINITY, "?"),
        ] {
            assert_eq!(three(value), text);
        }
    }

    #[test]
    fn factors_lengths_and_offsets() {
        assert_eq!([times(1.251), times(1.999), times(7.34), times(25.2)], ["1.25x", "2.0x", "7.3x", "25x"]);
        assert_eq!([times_briefly(1.25), times_briefly(9.96)], ["1.2x", "10x"]);
        assert_eq!(times(-1.0), "-1.00x");
        assert_eq!(
            [bytes(128), bytes(2113), bytes(65536), bytes(64 << 20)],
            ["128 B", "2113 B", "64 KiB", "64 MiB"]
        );
        assert_eq!([span(1, 15), span(8, 8)], ["0x001-0x00f", "0x008"]);
        assert_eq!(counted(2, "context switch"), "2 context switches");
    }
}
