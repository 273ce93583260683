//! Page size, transparent huge pages, caches and NUMA nodes.

use super::cpuid::Caches;
use super::system::System;
use crate::report::{Fact, Host, Memory, Unknowns};
use crate::sys::machine;

/// The facts; caches that /sys does not tell are taken from CPUID.
pub fn facts(system: &System, cpuid: Caches, unknown: &mut Unknowns) -> Memory {
    let from_sysfs = caches(system, 0);
    let mut cache = |field: &str, seen: Option<u64>, decoded: Option<u64>| {
        let fact =
            seen.or(decoded).map_or_else(|| Fact::because("neither /sys nor CPUID tells it"), Fact::Known);
        Host::take(unknown, &format!("memory.{field}"), fact)
    };
    Memory {
        page_size: machine::page_size(),
        l1d: cache("l1d", from_sysfs.l1d, cpuid.l1d),
        l2: cache("l2", from_sysfs.l2, cpuid.l2),
        l3: cache("l3", from_sysfs.l3, cpuid.l3),
        thp: Host::take(unknown, "memory.thp", thp(system)),
        numa_node: Host::take(unknown, "memory.numa_node", only_node(system)),
    }
}

/// The node of a CPU.
pub fn node_of(system: &System, cpu: u32) -> Fact<u32> {
    match system.names(&format!("/sys/devices/system/cpu/cpu{cpu}")) {
        Fact::Unknown(reason) => Fact::Unknown(reason),
        Fact::Known(names) => nodes(&names)
            .first()
            .map_or_else(|| Fact::because("/sys tells no NUMA node of this CPU"), |node| Fact::Known(*node)),
    }
}

/// The machine's node, where it has but one: else it is known only once a CPU has been chosen.
fn only_node(system: &System) -> Fact<u32> {
    match system.names("/sys/devices/system/node") {
        Fact::Unknown(reason) => Fact::Unknown(reason),
        Fact::Known(names) => match nodes(&names).as_slice() {
            [] => Fact::because("/sys lists no NUMA node"),
            [node] => Fact::Known(*node),
            several => Fact::because(format!("{} nodes, and no CPU chosen", several.len())),
        },
    }
}

fn nodes(names: &[String]) -> Vec<u32> {
    names.iter().filter_map(|name| name.strip_prefix("node")?.parse().ok()).collect()
}

/// The word in brackets, as in `always [madvise] never`.
fn thp(system: &System) -> Fact<String> {
    match system.text("/sys/kernel/mm/transparent_hugepage/enabled") {
        Fact::Unknown(reason) => Fact::Unknown(reason),
        Fact::Known(text) => text
            .split_whitespace()
            .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
            .map_or_else(|| Fact::because("no mode is marked as selected"), |mode| Fact::Known(mode.into())),
    }
}

/// As /sys tells them of a CPU; those of hybrid CPUs differ.
pub fn caches(system: &System, cpu: u32) -> Caches {
    let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
    let mut caches = Caches::default();
    let Fact::Known(names) = system.names(&folder) else { return caches };
    for index in names.iter().filter(|name| name.starts_with("index")) {
        let read = |file: &str| system.text_if_any(&format!("{folder}/{index}/{file}"));
        let (Some(level), Some(kind), Some(size)) = (read("level"), read("type"), read("size")) else {
            continue;
        };
        if let (Ok(level), true, Some(size)) = (level.parse(), kind != "Instruction", bytes(&size)) {
            caches.set(level, size);
        }
    }
    caches
}

/// A size such as `512K`, in bytes.
fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1024),
        None => (text.strip_suffix('M')?, 1024 * 1024),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn caches_come_from_sysfs_before_cpuid() {
        let root = tempfile::tempdir().unwrap();
        for (index, level, kind, size) in [
            ("index0", "1", "Data", "32K"),
            ("index1", "1", "Instruction", "64K"),
            ("index2", "2", "Unified", "1M"),
        ] {
            let folder = root.path().join("sys/devices/system/cpu/cpu0/cache").join(index);
            fs::create_dir_all(&folder).unwrap();
            for (file, text) in [("level", level), ("type", kind), ("size", size)] {
                fs::write(folder.join(file), text).unwrap();
            }
        }
        let mut unknown = Unknowns::new();
        let cpuid = Caches { l1d: Some(1), l2: None, l3: Some(96 << 20) };
        let memory = facts(&System::at(root.path()), cpuid, &mut unknown);
        assert_eq!((memory.l1d, memory.l2, memory.l3), (Some(32 << 10), Some(1 << 20), Some(96 << 20)));
        assert!(!unknown.contains_key("memory.l3"));
        assert!(unknown.contains_key("memory.thp"));
    }

    #[test]
    fn the_node_is_known_where_there_is_one() {
        let root = tempfile::tempdir().unwrap();
        let system = System::at(root.path());
        fs::create_dir_all(root.path().join("sys/devices/system/node/node0")).unwrap();
        assert_eq!(only_node(&system), Fact::Known(0));
        fs::create_dir_all(root.path().join("sys/devices/system/node/node1")).unwrap();
        assert!(matches!(only_node(&system), Fact::Unknown(_)));
        fs::create_dir_all(root.path().join("sys/devices/system/cpu/cpu5/node1")).unwrap();
        assert_eq!(node_of(&system, 5), Fact::Known(1));
    }
}
