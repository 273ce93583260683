//! What backs this process's memory, by /proc/self/smaps (proc_pid_smaps(5)).

use crate::report::Fact;
use std::fs;
use std::ops::Range;

/// Bytes of a huge page on x86-64, transparent or reserved.
pub const HUGE_PAGE: usize = 2 << 20;

/// How many bytes of a range of addresses lie in transparent huge pages at the moment.
pub fn huge_bytes(range: &Range<usize>) -> Fact<u64> {
    match fs::read_to_string("/proc/self/smaps") {
        Ok(text) => Fact::Known(huge_in(&text, range)),
        Err(error) => Fact::because(format!("/proc/self/smaps: {}", super::reason(&error))),
    }
}

/// As much as the mappings allow: which of a mapping's pages are huge is not told.
fn huge_in(smaps: &str, range: &Range<usize>) -> u64 {
    let mut overlap = 0;
    let mut sum = 0;
    for line in smaps.lines() {
        if let Some(mapping) = mapping(line) {
            overlap = mapping.end.min(range.end).saturating_sub(mapping.start.max(range.start));
        } else if let Some(value) = line.strip_prefix("AnonHugePages:") {
            let kib = value.trim().trim_end_matches(" kB").parse().unwrap_or(0usize);
            sum += overlap.min(kib.saturating_mul(1024));
        }
    }
    sum as u64
}

/// The addresses of a mapping's first line, `7f0000000000-7f0000001000 rw-p …`.
fn mapping(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaps_is_read_by_mapping() {
        let smaps = "7f0000200000-7f0000600000 rw-p 00000000 00:00 0 \nSize: 4096 kB\nAnonHugePages:      2048 kB\n\
            7f0000600000-7f0000800000 rw-p 00000000 00:00 0\nAnonHugePages:      2048 kB\n";
        assert_eq!(huge_in(smaps, &(0x7f00_0020_0000..0x7f00_0060_0000)), 2 << 20);
        assert_eq!(huge_in(smaps, &(0x7f00_0050_0000..0x7f00_0070_0000)), 2 << 20, "half of each");
        assert_eq!(huge_in(smaps, &(0..0x1000)), 0);
        assert_eq!(huge_in("nonsense", &(0..usize::MAX)), 0);
    }
}
