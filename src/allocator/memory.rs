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
    let process = [
        (headroom(root, limits::ADDRESS_SPACE, "VmSize"), "the limit of address space (ulimit -v)"),
        (headroom(root, limits::DATA, "VmData"), "the limit of data (ulimit -d)"),
    ];
    let group = [(control_group(root), "the memory control group")];
    let all = machine.into_iter().chain(process).chain(group);
    let known = all.filter_map(|(bytes, bound)| Some(Available { bytes: bytes?, bound }));
    match known.min_by_key(|left| left.bytes) {
        Some(least) => Fact::Known(least),
        None => Fact::because("neither /proc/meminfo nor any limit is readable"),
    }
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
