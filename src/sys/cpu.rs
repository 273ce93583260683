//! Which CPUs this thread may run on, and pinning it to one.

use std::io;

/// The most CPUs a mask is grown to: far above what any kernel is built for (8192 today).
const MOST_CPUS: usize = 1 << 20;

/// The CPUs that this thread may run on, in rising order.
pub fn allowed() -> io::Result<Vec<u32>> {
    let mut mask = vec![0u64; 16];
    loop {
        // SAFETY: the kernel writes at most the given number of bytes into `mask`, which is that long;
        // 0 is the calling thread.
        let failed = unsafe { libc::sched_getaffinity(0, size_of_val(&mask[..]), mask.as_mut_ptr().cast()) };
        if failed == 0 {
            return Ok(members(&mask));
        }
        let error = io::Error::last_os_error();
        // EINVAL: the kernel was built for more CPUs than the mask holds.
        if error.raw_os_error() != Some(libc::EINVAL) || mask.len() * 64 >= MOST_CPUS {
            return Err(error);
        }
        mask = vec![0; mask.len() * 2];
    }
}

/// Keeps this thread on one CPU from now on.
///
/// # Errors
/// Where the CPU does not exist or is not allowed (a cpuset, say).
pub fn pin(cpu: u32) -> io::Result<()> {
    let index = cpu as usize;
    if index >= MOST_CPUS {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut mask = vec![0u64; index / 64 + 1];
    mask[index / 64] = 1 << (index % 64);
    // SAFETY: the kernel reads the given number of bytes from `mask`, which is that long; 0 is the
    // calling thread.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&mask[..]), mask.as_ptr().cast()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The CPU that this thread runs on at the moment.
pub fn current() -> Option<u32> {
    // SAFETY: no arguments, no memory involved.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// The bits set in a mask.
fn members(mask: &[u64]) -> Vec<u32> {
    let bits = mask.len() * 64;
    (0..bits).filter(|bit| mask[bit / 64] >> (bit % 64) & 1 == 1).map(|bit| bit as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_beyond_1024_cpus() {
        let mut mask = vec![0; 64];
        mask[0] = 0b101;
        mask[63] = 1 << 63;
        assert_eq!(members(&mask), [0, 2, 4095]);
    }

    #[test]
    fn pinned_threads_stay_where_they_are_put() {
        // A thread of its own, so that the other tests keep their CPUs.
        std::thread::spawn(|| {
            for cpu in allowed().unwrap() {
                pin(cpu).unwrap();
                assert_eq!(allowed().unwrap(), [cpu]);
                assert_eq!(current(), Some(cpu));
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn absent_cpus_are_an_error() {
        assert!(pin(MOST_CPUS as u32 - 1).is_err());
        assert!(pin(u32::MAX).is_err());
    }
}
