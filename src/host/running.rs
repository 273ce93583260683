//! How the CPUs run: shared cores, clock source, frequency governor, boost.

use super::system::System;
use crate::report::Fact;
use std::collections::BTreeSet;

/// Whether CPUs share cores now.
pub fn smt(system: &System) -> Fact<bool> {
    switch(system, "/sys/devices/system/cpu/smt/active")
}

/// The kernel's clock source, such as `tsc`.
pub fn clocksource(system: &System) -> Fact<String> {
    system.text("/sys/devices/system/clocksource/clocksource0/current_clocksource")
}

/// The governor; several, joined by commas, where CPUs differ.
pub fn governor(system: &System) -> Fact<String> {
    const FOLDER: &str = "/sys/devices/system/cpu/cpufreq";
    let policies = match system.names(FOLDER) {
        Fact::Known(names) => names,
        Fact::Unknown(reason) => return Fact::Unknown(reason),
    };
    let governors: BTreeSet<String> = policies
        .iter()
        .filter_map(|policy| system.text_if_any(&format!("{FOLDER}/{policy}/scaling_governor")))
        .collect();
    if governors.is_empty() {
        return Fact::because("the kernel does not scale frequencies here, as is usual in virtual machines");
    }
    Fact::Known(governors.into_iter().collect::<Vec<_>>().join(","))
}

/// Whether the clock may rise above nominal: cpufreq's switch, else that of intel_pstate, which is inverted.
pub fn boost(system: &System) -> Fact<bool> {
    if let Fact::Known(on) = switch(system, "/sys/devices/system/cpu/cpufreq/boost") {
        return Fact::Known(on);
    }
    match switch(system, "/sys/devices/system/cpu/intel_pstate/no_turbo") {
        Fact::Known(off) => Fact::Known(!off),
        Fact::Unknown(_) => Fact::because("neither cpufreq nor intel_pstate tells it"),
    }
}

fn switch(system: &System, path: &str) -> Fact<bool> {
    match system.text(path) {
        Fact::Unknown(reason) => Fact::Unknown(reason),
        Fact::Known(text) => match text.as_str() {
            "0" => Fact::Known(false),
            "1" => Fact::Known(true),
            _ => Fact::because(format!("{path} is neither 0 nor 1")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn governors_may_differ_and_turbo_is_inverted() {
        let root = tempfile::tempdir().unwrap();
        let system = System::at(root.path());
        assert!(matches!(governor(&system), Fact::Unknown(_)));
        assert!(matches!(boost(&system), Fact::Unknown(_)));
        let cpus = root.path().join("sys/devices/system/cpu");
        for (policy, governor) in [("policy0", "powersave\n"), ("policy1", "performance\n")] {
            fs::create_dir_all(cpus.join("cpufreq").join(policy)).unwrap();
            fs::write(cpus.join("cpufreq").join(policy).join("scaling_governor"), governor).unwrap();
        }
        fs::create_dir_all(cpus.join("intel_pstate")).unwrap();
        fs::write(cpus.join("intel_pstate/no_turbo"), "1\n").unwrap();
        assert_eq!(governor(&system), Fact::Known("performance,powersave".into()));
        assert_eq!(boost(&system), Fact::Known(false));
        fs::write(cpus.join("cpufreq/boost"), "1\n").unwrap();
        assert_eq!(boost(&system), Fact::Known(true));
    }
}
