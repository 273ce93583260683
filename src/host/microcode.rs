//! The microcode revisions of all CPUs. A hypervisor shows guests a made-up one; that is no fact.

use super::cpuinfo::CpuInfo;
use super::system::System;
use crate::report::Fact;
use std::collections::BTreeSet;

/// Revisions that hypervisors invent: 0x01000065 is what KVM and QEMU show for AMD, 0x100000000 (whose
/// upper half Linux prints as 0x1) otherwise (QEMU target/i386, KVM arch/x86/kvm); 0 and all ones
/// come from hypervisors that show nothing.
const INVENTED: [u64; 5] = [0, 0x1, 0x0100_0065, 0x1_0000_0000, 0xffff_ffff];

/// The distinct revisions of all CPUs, rising; `virtual_machine` tells whether a hypervisor runs below.
pub fn revisions(system: &System, cpuinfo: &CpuInfo, virtual_machine: bool) -> Fact<Vec<String>> {
    let mut found: BTreeSet<u64> = cpuinfo.microcode.iter().filter_map(|text| parse(text)).collect();
    found.extend(from_sysfs(system));
    if found.is_empty() {
        return Fact::because("neither /proc/cpuinfo nor /sys tells a microcode revision");
    }
    if virtual_machine && found.iter().any(|revision| INVENTED.contains(revision)) {
        let shown: Vec<String> = found.iter().map(|revision| form(*revision)).collect();
        return Fact::because(format!(
            "the hypervisor shows an invented revision ({}); ask the host",
            shown.join(", ")
        ));
    }
    Fact::Known(found.into_iter().map(form).collect())
}

fn from_sysfs(system: &System) -> Vec<u64> {
    let Fact::Known(names) = system.names("/sys/devices/system/cpu") else { return vec![] };
    names
        .iter()
        .filter(|name| name.strip_prefix("cpu").is_some_and(|n| n.parse::<u32>().is_ok()))
        .filter_map(|name| system.text_if_any(&format!("/sys/devices/system/cpu/{name}/microcode/version")))
        .filter_map(|text| parse(&text))
        .collect()
}

fn parse(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

fn form(revision: u64) -> String {
    format!("{revision:#010x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(revisions: &[&str], virtual_machine: bool) -> Fact<Vec<String>> {
        let nowhere = tempfile::tempdir().unwrap();
        let info = CpuInfo {
            flags: Fact::because("not asked"),
            microcode: revisions.iter().map(|r| (*r).to_owned()).collect(),
        };
        super::revisions(&System::at(nowhere.path()), &info, virtual_machine)
    }

    #[test]
    fn cpus_may_differ() {
        assert_eq!(
            of(&["0xa201025", "0xa201016"], false),
            Fact::Known(vec!["0x0a201016".into(), "0x0a201025".into()])
        );
    }

    #[test]
    fn invented_revisions_are_unknown_only_under_a_hypervisor() {
        for invented in ["0x1000065", "0x1", "0x100000000", "0xffffffff"] {
            let Fact::Unknown(reason) = of(&[invented], true) else { panic!("{invented} is made up") };
            assert!(reason.contains("invented"));
        }
        assert_eq!(of(&["0x1"], false), Fact::Known(vec!["0x00000001".into()]));
        assert_eq!(of(&["0xa101148"], true), Fact::Known(vec!["0x0a101148".into()]));
    }

    #[test]
    fn nothing_to_read_is_a_reason() {
        assert!(matches!(of(&[], false), Fact::Unknown(_)));
        assert!(matches!(of(&["soon"], false), Fact::Unknown(_)));
    }

    #[test]
    fn sysfs_tells_it_too() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("sys/devices/system/cpu/cpu3/microcode");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("version"), "0xa101148\n").unwrap();
        std::fs::create_dir_all(root.path().join("sys/devices/system/cpu/cpufreq")).unwrap();
        let info = CpuInfo { flags: Fact::because("not asked"), microcode: BTreeSet::new() };
        assert_eq!(
            super::revisions(&System::at(root.path()), &info, false),
            Fact::Known(vec!["0x0a101148".into()])
        );
    }
}
