//! What the machine and its limits give to a session: CPUs, threads, descriptors, CPU time.

use crate::sys::proc::cpu_list;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;

/// Descriptors that this process needs besides.
const OTHER_DESCRIPTORS: u64 = 40;

/// The CPUs that are online; as /sys tells, else those that this process may use.
pub fn online() -> Vec<u32> {
    let listed = fs::read_to_string("/sys/devices/system/cpu/online").ok().and_then(|text| cpu_list(&text));
    listed.or_else(|| crate::sys::cpu::allowed().ok()).unwrap_or_else(|| vec![0])
}

/// The threads of a process; none where it is not there.
pub fn threads_of(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// CPU time of the whole system that was not idle.
pub fn system_ns() -> Option<u64> {
    busy_ns(&fs::read_to_string("/proc/stat").ok()?)
}

/// User, nice, system, irq and softirq of the first line, in ticks of 10 ms (USER_HZ is 100 on x86).
fn busy_ns(stat: &str) -> Option<u64> {
    let words = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let &[user, nice, system, _idle, _waiting, irq, softirq, ..] = &ticks[..] else { return None };
    Some((user + nice + system + irq + softirq) * 10_000_000)
}

/// The limit of open descriptors, raised as far as needed and possible; set back when dropped.
pub struct Descriptors(Option<Rlimit>);

impl Descriptors {
    /// How many events there may be, so that this process can still open files.
    pub fn room() -> usize {
        let limit = getrlimit(Resource::Nofile).current;
        limit.map_or(usize::MAX, |limit| limit.saturating_sub(OTHER_DESCRIPTORS) as usize)
    }

    /// So many more.
    pub fn for_events(events: usize) -> Descriptors {
        let before = getrlimit(Resource::Nofile);
        let needed = events as u64 + OTHER_DESCRIPTORS;
        if before.current.is_none_or(|current| current >= needed) {
            return Descriptors(None);
        }
        let raised = before.maximum.map_or(needed, |maximum| maximum.min(needed));
        let limit = Rlimit { current: Some(raised), maximum: before.maximum };
        Descriptors(setrlimit(Resource::Nofile, limit).is_ok().then_some(before))
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            // Lowering is always allowed; what is open stays open.
            let _ = setrlimit(Resource::Nofile, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_leaves_idle_out() {
        assert_eq!(busy_ns("cpu  1 2 3 1000 1000 4 5 6 0 0\ncpu0 1"), Some(150_000_000));
        assert_eq!(busy_ns("cpu  1 2 3"), None);
        assert_eq!(busy_ns(""), None);
    }

    #[test]
    fn limits_go_back() {
        let before = getrlimit(Resource::Nofile);
        drop(Descriptors::for_events(before.current.unwrap_or(0) as usize + 1));
        assert_eq!(getrlimit(Resource::Nofile), before);
    }
}
