//! /proc/cpuinfo: the kernel's own view of the CPUs.

use super::system::System;
use crate::report::Fact;
use std::collections::BTreeSet;

/// What is read from /proc/cpuinfo.
#[derive(Debug, Clone)]
pub struct CpuInfo {
    /// The words of the first CPU's flags line.
    pub flags: Fact<BTreeSet<String>>,
    /// The distinct values of the microcode lines, as printed.
    pub microcode: BTreeSet<String>,
}

impl CpuInfo {
    /// Reads it.
    pub fn read(system: &System) -> Self {
        match system.text("/proc/cpuinfo") {
            Fact::Known(text) => Self::parse(&text),
            Fact::Unknown(reason) => CpuInfo { flags: Fact::Unknown(reason), microcode: BTreeSet::new() },
        }
    }

    fn parse(text: &str) -> Self {
        let mut flags = Fact::because("/proc/cpuinfo has no flags line");
        let mut microcode = BTreeSet::new();
        for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
            match key.trim() {
                "flags" if matches!(flags, Fact::Unknown(_)) => {
                    flags = Fact::Known(value.split_whitespace().map(Into::into).collect());
                }
                "microcode" => {
                    microcode.insert(value.trim().to_owned());
                }
                _ => {}
            }
        }
        CpuInfo { flags, microcode }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_the_first_cpu_and_microcode_of_all() {
        let info = CpuInfo::parse(
            "processor\t: 0\nmicrocode\t: 0xa201016\nflags\t\t: fpu erms fsrm\n\n\
             processor\t: 1\nmicrocode\t: 0xa201025\nflags\t\t: fpu\n",
        );
        assert!(matches!(&info.flags, Fact::Known(flags) if flags.contains("fsrm")));
        assert_eq!(info.microcode.into_iter().collect::<Vec<_>>(), ["0xa201016", "0xa201025"]);
    }

    #[test]
    fn without_flags_there_is_a_reason() {
        assert!(matches!(CpuInfo::parse("processor : 0").flags, Fact::Unknown(_)));
    }
}
