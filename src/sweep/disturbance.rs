//! What disturbed the machine while samples were taken.
//!
//! Counters before and after; each may be unreadable (a container, another kernel) and is none then.

use crate::sys::{cgroup, cpu, usage};
use std::fs;
use std::path::{Path, PathBuf};

/// Counters at the start of the sampling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    root: PathBuf,
    cpu: Option<u32>,
    before: Counters,
}

/// What disturbed a run; the fields are those of the report's noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Disturbance {
    /// Involuntary context switches of the calling thread.
    pub context_switches: Option<u64>,
    /// Page faults of the calling thread.
    pub page_faults: Option<u64>,
    /// Nanoseconds that a hypervisor took away, all CPUs together.
    pub steal_ns: Option<u64>,
    /// How often the control group or one of its ancestors was throttled.
    pub throttled: Option<u64>,
    /// Frequency of the CPU before and after, in kHz.
    pub frequency_khz: Option<[u64; 2]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counters {
    thread: Option<usage::ThreadUsage>,
    steal_ticks: Option<u64>,
    throttled: Option<u64>,
    frequency_khz: Option<u64>,
}

impl Watch {
    /// Reads the counters, on the thread that will measure and after it was pinned.
    pub fn start() -> Watch {
        Self::start_at(Path::new("/"))
    }

    fn start_at(root: &Path) -> Watch {
        let cpu = cpu::current();
        Watch { root: root.into(), cpu, before: Counters::read(root, cpu) }
    }

    /// Reads them again, on the same thread.
    pub fn stop(&self) -> Disturbance {
        let (before, after) = (self.before, Counters::read(&self.root, self.cpu));
        let of_thread = |count: fn(usage::ThreadUsage) -> u64| {
            difference(before.thread.map(count), after.thread.map(count))
        };
        let steal = difference(before.steal_ticks, after.steal_ticks);
        Disturbance {
            context_switches: of_thread(|thread| thread.involuntary_switches),
            page_faults: of_thread(|thread| thread.page_faults),
            steal_ns: steal.map(|ticks| ticks.saturating_mul(1_000_000_000 / usage::ticks_per_second())),
            throttled: difference(before.throttled, after.throttled),
            frequency_khz: before.frequency_khz.zip(after.frequency_khz).map(<[u64; 2]>::from),
        }
    }
}

impl Counters {
    fn read(root: &Path, cpu: Option<u32>) -> Counters {
        Counters {
            thread: usage::thread(),
            steal_ticks: steal_ticks(root),
            throttled: throttled(root),
            frequency_khz: cpu.and_then(|cpu| frequency_khz(root, cpu)),
        }
    }
}

fn difference(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    Some(after?.saturating_sub(before?))
}

/// The eighth number of /proc/stat's first line (proc_stat(5)).
fn steal_ticks(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/stat")).ok()?;
    let all = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    all.split_whitespace().nth(7)?.parse().ok()
}

/// How often this process's CPU groups were throttled, the ancestors' count included.
fn throttled(root: &Path) -> Option<u64> {
    let groups = cgroup::groups(root, "cpu")?;
    let counts = groups.folders.iter().filter_map(|folder| {
        let text = fs::read_to_string(folder.join("cpu.stat")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("nr_throttled "))?.trim().parse::<u64>().ok()
    });
    counts.reduce(u64::saturating_add)
}

fn frequency_khz(root: &Path, cpu: u32) -> Option<u64> {
    let file = root.join(format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"));
    fs::read_to_string(file).ok()?.trim().parse().ok().filter(|&khz| khz > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn differences_of_the_kernels_counters() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "proc/self/cgroup", "0::/a/b\n");
        write(root, "proc/self/mountinfo", "1 1 0:1 / /cg rw - cgroup2 cgroup2 rw\n");
        write(root, "proc/stat", "cpu  1 2 3 4 5 6 7 80 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
        write(root, "cg/a/b/cpu.stat", "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 7\n");
        write(root, "cg/a/cpu.stat", "nr_throttled 10\n");
        write(root, "cg/cpu.stat", "usage_usec 5\n");
        let watch = Watch { cpu: Some(3), ..Watch::start_at(root) };
        write(root, "proc/stat", "cpu  1 2 3 4 5 6 7 83 9 10\n");
        write(root, "cg/a/b/cpu.stat", "nr_throttled 5\n");
        write(root, "cg/a/cpu.stat", "nr_throttled 11\n");
        let found = watch.stop();
        assert_eq!(found.throttled, Some(3));
        assert_eq!(found.steal_ns, Some(3 * 1_000_000_000 / usage::ticks_per_second()));
        assert_eq!(found.frequency_khz, None);
    }

    #[test]
    fn the_frequency_of_one_cpu() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "sys/devices/system/cpu/cpu3/cpufreq/scaling_cur_freq", "3700000\n");
        assert_eq!(frequency_khz(folder.path(), 3), Some(3_700_000));
        assert_eq!(frequency_khz(folder.path(), 2), None);
    }

    #[test]
    fn counters_that_are_not_there_are_none() {
        let found = Watch::start_at(Path::new("/nonexistent")).stop();
        assert_eq!((found.steal_ns, found.throttled, found.frequency_khz), (None, None, None));
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "proc/stat", "cpu  1 2\n");
        assert_eq!(steal_ticks(folder.path()), None, "a kernel that knows no steal time");
    }

    #[test]
    fn page_faults_of_this_thread_are_counted() {
        if usage::thread().is_none() {
            return;
        }
        let watch = Watch::start();
        let memory = crate::sys::block::Block::allocate(crate::report::Allocator::Pages, 1 << 20);
        drop(memory.unwrap().faulted_in());
        assert!(watch.stop().page_faults.unwrap() >= 1);
    }
}
