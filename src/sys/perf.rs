//! One hardware event counted for the calling thread: perf_event_open(2).

use super::sandbox;
use crate::report::PmuEvent;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// PERF_TYPE_HW_CACHE and PERF_TYPE_RAW (linux/perf_event.h).
const TYPE_CACHE: u32 = 3;
const TYPE_RAW: u32 = 4;

/// PERF_COUNT_HW_CACHE_L1D, read, access: cache | operation << 8 | result << 16.
const L1D_LOADS: u64 = 0;

/// AMD: event 0x24 LsBadStatus2, umask 0x02 StliOther (Processor Programming Reference, families 17h to 1Ah).
const STLI_OTHER: u64 = 0x24 | 0x02 << 8;

/// Both times, to see whether the counter ran all the while.
const READ_FORMAT: u64 = 1 | 2;

/// Bits of perf_event_attr's flags.
pub(super) const DISABLED: u64 = 1;
const EXCLUDE_USER: u64 = 1 << 4;
pub(super) const EXCLUDE_KERNEL: u64 = 1 << 5;
pub(super) const EXCLUDE_HYPERVISOR: u64 = 1 << 6;

const IOC_ENABLE: libc::Ioctl = 0x2400;
const IOC_DISABLE: libc::Ioctl = 0x2401;

/// Descriptors are closed on exec (PERF_FLAG_FD_CLOEXEC).
pub(super) const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// The first published form of perf_event_attr, which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// Whose instructions are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those of user space.
    User,
    /// Those of the kernel.
    Kernel,
}

/// Why nothing is counted.
#[derive(Debug, thiserror::Error)]
pub enum PerfError {
    /// The CPU, or what its hypervisor shows of it, has no counter for the event.
    #[error("no performance counters here (a hypervisor hides them, or the CPU's are unknown to the kernel)")]
    Absent,
    /// The kernel's setting forbids it.
    #[error(
        "perf_event_paranoid={level} forbids it (needs CAP_PERFMON, or sysctl kernel.perf_event_paranoid={needed})"
    )]
    Paranoid {
        /// The setting.
        level: i32,
        /// The highest one that would do.
        needed: i32,
    },
    /// A sandbox forbids the call.
    #[error("perf_event_open is forbidden (by a sandbox's seccomp filter or a security module)")]
    Forbidden,
    /// The kernel lacks the call, or a sandbox says so.
    #[error("perf_event_open is missing (a kernel without perf, or a sandbox)")]
    Missing,
    /// Somebody else has all counters.
    #[error(
        "no performance counter ran: all are in use (by the NMI watchdog or another profiler), or this kind of core does not count that"
    )]
    Busy,
    /// The process is not this user's to watch.
    #[error("the process belongs to somebody else, or has privileges that this user has not")]
    Foreign,
    /// There is no such process.
    #[error("there is no such process")]
    Gone,
    /// No memory may be locked for records.
    #[error("this user's other profilers have locked all the memory that kernel.perf_event_mlock_kb allows")]
    Locked,
    /// Anything else.
    #[error("perf_event_open: {}", super::reason(.0))]
    Other(io::Error),
}

impl PerfError {
    /// The command that would allow it; none where none would.
    pub fn remedy(&self) -> Option<String> {
        match self {
            PerfError::Paranoid { needed, .. } => {
                Some(format!("sudo sysctl kernel.perf_event_paranoid={needed}"))
            }
            PerfError::Foreign => Some("sudo fsprobe trace".into()),
            PerfError::Locked => Some("sudo sysctl kernel.perf_event_mlock_kb=8192".into()),
            _ => None,
        }
    }
}

/// A stopped counter.
#[derive(Debug)]
pub struct Counter(File);

impl Counter {
    /// A counter of the calling thread, on whichever CPU it runs.
    ///
    /// # Errors
    /// Where the machine, the kernel's settings or a sandbox do not allow it.
    pub fn open(event: PmuEvent, scope: Scope) -> Result<Counter, PerfError> {
        let (kind, config) = match event {
            PmuEvent::L1dLoads => (TYPE_CACHE, L1D_LOADS),
            PmuEvent::StoreConflicts => (TYPE_RAW, STLI_OTHER),
        };
        let excluded = match scope {
            Scope::User => EXCLUDE_KERNEL,
            Scope::Kernel => EXCLUDE_USER,
        };
        let attributes = Attributes {
            kind,
            size: size_of::<Attributes>() as u32,
            config,
            read_format: READ_FORMAT,
            flags: DISABLED | EXCLUDE_HYPERVISOR | excluded,
            ..Attributes::default()
        };
        let (this_thread, any_cpu, no_group) = (0, -1, -1);
        // above 1 the kernel is not counted; above 2 (a distribution's addition) nothing is
        let needed = if scope == Scope::Kernel { 1 } else { 2 };
        let refused = |error| why(error, needed, paranoid());
        sandbox::lets(libc::SYS_perf_event_open).map_err(refused)?;
        // SAFETY: the kernel reads `size` bytes of the attributes, which are that long; the other arguments
        // are plain numbers.
        let fd = unsafe {
            let call = libc::SYS_perf_event_open;
            libc::syscall(call, &raw const attributes, this_thread, any_cpu, no_group, CLOSE_ON_EXEC)
        };
        if fd < 0 {
            return Err(refused(io::Error::last_os_error()));
        }
        // SAFETY: the kernel has just given this descriptor to us alone.
        Ok(Counter(File::from(unsafe { OwnedFd::from_raw_fd(fd as i32) })))
    }

    /// How many events `work` causes.
    ///
    /// # Errors
    /// [`PerfError::Busy`] where the counter did not run.
    pub fn count(&mut self, work: impl FnOnce()) -> Result<f64, PerfError> {
        let before = self.read()?;
        self.control(IOC_ENABLE)?;
        work();
        self.control(IOC_DISABLE)?;
        let after = self.read()?;
        let [count, enabled, running] =
            [0, 1, 2].map(|field| after[field].saturating_sub(before[field]) as f64);
        // shared with others, a counter runs for a part of the time only
        if running > 0.0 { Ok(count * enabled / running) } else { Err(PerfError::Busy) }
    }

    fn control(&self, request: libc::Ioctl) -> Result<(), PerfError> {
        // SAFETY: the descriptor is open, and these requests take a plain number.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), request, 0) } {
            0 => Ok(()),
            _ => Err(PerfError::Other(io::Error::last_os_error())),
        }
    }

    /// Count, time enabled, time running.
    fn read(&mut self) -> Result<[u64; 3], PerfError> {
        let mut bytes = [0; 24];
        self.0.read_exact(&mut bytes).map_err(PerfError::Other)?;
        let field = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at * 8 + byte]));
        Ok([0, 1, 2].map(field))
    }
}

/// What an error of perf_event_open means, where `needed` is the highest perf_event_paranoid that would do and
/// `level` what it is.
pub(super) fn why(error: io::Error, needed: i32, level: Option<i32>) -> PerfError {
    match (error.raw_os_error(), level) {
        (Some(libc::EACCES | libc::EPERM), Some(level)) if level > needed => {
            PerfError::Paranoid { level, needed }
        }
        (Some(libc::EACCES | libc::EPERM), _) => PerfError::Forbidden,
        (Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::ENXIO), _) => PerfError::Absent,
        (Some(libc::ENOSYS), _) => PerfError::Missing,
        (Some(libc::EBUSY), _) => PerfError::Busy,
        (Some(libc::ESRCH), _) => PerfError::Gone,
        _ => PerfError::Other(error),
    }
}

/// The setting of perf_event_paranoid, where /proc is there to tell.
pub(super) fn paranoid() -> Option<i32> {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::refuse::{self, Refusal};

    fn text(code: i32, needed: i32, level: Option<i32>) -> String {
        why(io::Error::from_raw_os_error(code), needed, level).to_string()
    }

    #[test]
    fn errors_say_what_they_mean() {
        for (code, needed, level, part) in [
            (libc::ENOENT, 2, Some(2), "no performance counters"),
            (libc::EOPNOTSUPP, 2, None, "no performance counters"),
            (libc::EACCES, 2, Some(4), "perf_event_paranoid=4 forbids it"),
            (libc::EACCES, 1, Some(2), "perf_event_paranoid=2 forbids it"),
            (libc::EPERM, 2, Some(2), "sandbox"),
            (libc::EPERM, 1, None, "sandbox"),
            (libc::ENOSYS, 2, Some(2), "kernel without perf"),
            (libc::EBUSY, 2, Some(2), "in use"),
            (libc::EMFILE, 2, Some(2), "Too many open files"),
            (libc::ESRCH, 2, Some(2), "no such process"),
        ] {
            let text = text(code, needed, level);
            assert!(text.contains(part) && !text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn loads_are_counted_or_there_is_a_reason() {
        let loads = vec![1u64; 1 << 16];
        match Counter::open(PmuEvent::L1dLoads, Scope::User) {
            Ok(mut counter) => {
                let mut count = |len: usize| {
                    counter.count(|| {
                        loads[..len].iter().for_each(|load| assert_eq!(std::hint::black_box(*load), 1))
                    })
                };
                if let (Ok(few), Ok(many)) = (count(16), count(1 << 16)) {
                    assert!(many > few, "{few} {many}");
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn a_sandbox_is_told() {
        let open = || Counter::open(PmuEvent::L1dLoads, Scope::User).map(drop);
        for (refusal, expected) in [
            (Refusal::Error(libc::EPERM), "forbid"),
            (Refusal::Error(libc::ENOSYS), "missing"),
            (Refusal::Kill, "forbid"),
        ] {
            if let Some(opened) = refuse::in_a_thread(&[libc::SYS_perf_event_open], refusal, open) {
                let text = opened.expect_err("refused").to_string();
                assert!(text.contains(expected), "{text}");
            }
        }
    }
}
