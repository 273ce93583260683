//! How much memory this process can still use: an allocator's success does not tell, since the kernel
//! promises more than it has and ends the process when the promise is called in.

use crate::report::Fact;
use crate::sys::{cgroup, limits};
use std::fs;
use std::path::Path;

/// Memory left, and what bounds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Available {
    /// Bytes.
    pub bytes: u64,
    /// What bounds it, for people.
    pub bound: &'static str,
}

/// The least of what the machine, the control groups and the process's limits leave. `root` is `/`.
pub fn available(root: &Path) -> Fact<Available> {
    let machine = [(meminfo(root), "the machine")];
    let group = [(control_group(root), "the memory control group")];
    match least(machine.into_iter().chain(group).chain(address_space(root))) {
        Some(least) => Fact::Known(least),
        None => Fact::because("neither /proc/meminfo nor any limit is readable"),
    }
}

/// What the process's limits leave of addresses, which memory takes also while nothing touches it; none
/// where there is no limit.
pub fn available_addresses(root: &Path) -> Option<Available> {
    least(address_space(root).into_iter())
}

type Bound = (Option<u64>, &'static str);

fn address_space(root: &Path) -> [Bound; 2] {
    [
        (headroom(root, limits::ADDRESS_SPACE, "VmSize"), "the limit of address space (ulimit -v)"),
        (headroom(root, limits::DATA, "VmData"), "the limit of data (ulimit -d)"),
    ]
}

fn least(bounds: impl Iterator<Item = Bound>) -> Option<Available> {
    let known = bounds.filter_map(|(bytes, bound)| Some(Available { bytes: bytes?, bound }));
    known.min_by_key(|left| left.bytes)
}

/// MemAvailable in bytes.
fn meminfo(root: &Path) -> Option<u64> {
    kib(&fs::read_to_string(root.join("proc/meminfo")).ok()?, "MemAvailable")
}

/// What a limit leaves beyond what the process uses already, in bytes.
fn headroom(root: &Path, limit: &str, used: &str) -> Option<u64> {
    let limit = limits::soft(root, limit)?;
    let used = kib(&fs::read_to_string(root.join("proc/self/status")).ok()?, used)?;
    Some(limit.saturating_sub(used))
}

/// The value of a line `Name:   1234 kB`, in bytes.
fn kib(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    rest.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The least that the process's memory group and its ancestors leave, in bytes.
fn control_group(root: &Path) -> Option<u64> {
    let groups = cgroup::groups(root, "memory")?;
    let (limits, used, cached): (&[_], _, _) = if groups.unified {
        (&["memory.max", "memory.high"], "memory.current", ["inactive_file", "active_file"])
    } else {
        (&["memory.limit_in_bytes"], "memory.usage_in_bytes", ["total_inactive_file", "total_active_file"])
    };
    let left = |folder: &Path| {
        let limit = limits.iter().filter_map(|name| number(&folder.join(name))).min()?;
        // The page cache counts as used, and is given up when memory is needed.
        let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let reclaimable: u64 = cached.iter().filter_map(|name| field(&stat, name)).sum();
        Some(limit.saturating_sub(number(&folder.join(used))?.saturating_sub(reclaimable)))
    };
    groups.folders.iter().filter_map(|folder| left(folder)).min()
}

/// A file that holds one number; `max` and the like are none.
fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The value of a line `name 1234`.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A root folder with these files.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn of(files: &[(&str, &str)]) -> Option<(u64, &'static str)> {
        match available(tree(files).path()) {
            Fact::Known(left) => Some((left.bytes, left.bound)),
            Fact::Unknown(_) => None,
        }
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal: 900 kB\nMemAvailable:   204800 kB\n");
    const STATUS: (&str, &str) = ("proc/self/status", "VmSize:\t  1024 kB\nVmData:\t  2048 kB\n");
    const UNIFIED: (&str, &str) = ("proc/self/mountinfo", "1 1 0:1 / /cg rw - cgroup2 cgroup2 rw\n");
    const SPLIT: (&str, &str) =
        ("proc/self/mountinfo", "1 1 0:1 / /cg/memory rw - cgroup cgroup rw,memory\n");

    #[test]
    fn the_machine_alone() {
        assert_eq!(of(&[MEMINFO]), Some((200 * MIB, "the machine")));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn limits_leave_what_is_not_used() {
        let limits = ("proc/self/limits", "Max data size   104857600   unlimited   bytes\n");
        assert_eq!(of(&[MEMINFO, STATUS, limits]), Some((98 * MIB, "the limit of data (ulimit -d)")));
        let limits = ("proc/self/limits", "Max address space   104857600   unlimited   bytes\n");
        let expected = Some((99 * MIB, "the limit of address space (ulimit -v)"));
        assert_eq!(of(&[MEMINFO, STATUS, limits]), expected);
        let spent = ("proc/self/limits", "Max address space   1   1   bytes\n");
        assert_eq!(of(&[MEMINFO, STATUS, spent]), Some((0, "the limit of address space (ulimit -v)")));
    }

    #[test]
    fn the_tightest_group_above_counts_and_its_cache_does_not() {
        let files = [
            MEMINFO,
            UNIFIED,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("cg/a/b/memory.max", "max\n"),
            ("cg/a/b/memory.current", "1\n"),
            ("cg/a/memory.max", "104857600\n"),
            ("cg/a/memory.high", "83886080\n"),
            ("cg/a/memory.current", "52428800\n"),
            ("cg/a/memory.stat", "anon 1\ninactive_file 10485760\nactive_file 10485760\n"),
        ];
        assert_eq!(of(&files), Some((50 * MIB, "the memory control group")));
    }

    #[test]
    fn version_1_groups() {
        let files = [
            MEMINFO,
            SPLIT,
            ("proc/self/cgroup", "3:memory:/x\n0::/\n"),
            ("cg/memory/x/memory.limit_in_bytes", "52428800\n"),
            ("cg/memory/x/memory.usage_in_bytes", "41943040\n"),
            ("cg/memory/x/memory.stat", "cache 5\ntotal_inactive_file 1048576\n"),
            ("cg/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("cg/memory/memory.usage_in_bytes", "41943040\n"),
        ];
        assert_eq!(of(&files), Some((11 * MIB, "the memory control group")));
    }

    #[test]
    fn garbage_is_left_out() {
        let files = [
            MEMINFO,
            UNIFIED,
            ("proc/self/cgroup", "0::/a\n"),
            ("proc/self/limits", "Max data size\n"),
            ("cg/a/memory.max", "lots\n"),
        ];
        assert_eq!(of(&files), Some((200 * MIB, "the machine")));
        assert_eq!(of(&[("proc/meminfo", "MemAvailable: 99999999999999999999 kB\n")]), None);
    }
}
