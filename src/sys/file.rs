//! What the kernel knows of an open file: its file system, and what of it lies in the page cache.

use super::sandbox;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// cachestat(2), Linux 6.5 and later (arch/x86/entry/syscalls/syscall_64.tbl).
const SYS_CACHESTAT: libc::c_long = 451;

/// The magic number of the file system that holds the file (statfs(2)).
pub fn fs_magic(file: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: statfs is plain numbers, for which all zeros are a value.
    let mut answer: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open while borrowed, and `answer` is a valid, writable statfs.
    match unsafe { libc::fstatfs(file.as_raw_fd(), &mut answer) } {
        0 => Ok(answer.f_type as u64),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads the byte at `position` if that needs no waiting: 1 where it lies in the page cache, 0 past
/// the end, `WouldBlock` where it would have to be fetched.
///
/// # Errors
/// `Unsupported` (by error code) where the file system or kernel knows no RWF_NOWAIT.
pub fn read_without_waiting(file: BorrowedFd<'_>, position: u64) -> io::Result<usize> {
    sandbox::lets(libc::SYS_preadv2)?;
    let mut byte = 0u8;
    let part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: the descriptor is open while borrowed; `part` names one writable byte that outlives the
    // call. On x86-64 the position is passed whole in its first half.
    let read = unsafe {
        libc::syscall(
            libc::SYS_preadv2,
            file.as_raw_fd(),
            &raw const part,
            1usize,
            position,
            0usize,
            libc::RWF_NOWAIT,
        )
    };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// How many pages of the first `len` bytes lie in the page cache, by cachestat(2).
pub fn cached_pages(file: BorrowedFd<'_>, len: u64) -> io::Result<u64> {
    sandbox::lets(SYS_CACHESTAT)?;
    let range = [0u64, len];
    // cache, dirty, writeback, evicted, recently evicted (include/uapi/linux/mman.h)
    let mut counts = [0u64; 5];
    // SAFETY: the descriptor is open while borrowed; the kernel reads two and writes five 64-bit
    // numbers, which is what the arrays hold.
    let failed = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0usize)
    };
    if failed == 0 { Ok(counts[0]) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_just_written_is_cached_or_the_kernel_does_not_say() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 8192]).unwrap();
        assert!(fs_magic(file.as_fd()).unwrap() > 0);
        if let Ok(read) = read_without_waiting(file.as_fd(), 4096) {
            assert_eq!(read, 1);
        }
        if let Ok(past_the_end) = read_without_waiting(file.as_fd(), 8192) {
            assert_eq!(past_the_end, 0);
        }
        if let Ok(pages) = cached_pages(file.as_fd(), 8192) {
            assert_eq!(pages, 2);
        }
    }
}
