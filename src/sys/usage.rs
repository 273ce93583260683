//! What the kernel counted for the calling thread, and for children that have ended.

/// Counters of the calling thread since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadUsage {
    /// Times the kernel took the CPU away.
    pub involuntary_switches: u64,
    /// Times it gave the CPU up, to wait for something.
    pub voluntary_switches: u64,
    /// Page faults, minor and major.
    pub page_faults: u64,
}

/// The calling thread's counters; none where the kernel does not keep them by thread.
pub fn thread() -> Option<ThreadUsage> {
    // SAFETY: rusage is plain numbers, for which all zeros are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid, writable rusage.
    let failed = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    (failed == 0).then_some(ThreadUsage {
        involuntary_switches: usage.ru_nivcsw as u64,
        voluntary_switches: usage.ru_nvcsw as u64,
        page_faults: (usage.ru_minflt + usage.ru_majflt) as u64,
    })
}

/// Nanoseconds of CPU time, user and system apart, of the children that this process has waited for, and of the
/// children that those had waited for.
pub fn children_ns() -> Option<[u64; 2]> {
    // SAFETY: rusage is plain numbers, for which all zeros are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid, writable rusage.
    let failed = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    (failed == 0).then_some([ns(usage.ru_utime), ns(usage.ru_stime)])
}

/// Ticks a second of the times in /proc/stat.
pub fn ticks_per_second() -> u64 {
    // SAFETY: no memory involved.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok().filter(|&ticks| ticks > 0).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_never_fall() {
        if let (Some(before), Some(after)) = (thread(), thread()) {
            assert!(after.page_faults >= before.page_faults);
            assert!(after.involuntary_switches >= before.involuntary_switches);
        }
        assert!(ticks_per_second() >= 1);
        assert!(children_ns().is_some());
    }
}
