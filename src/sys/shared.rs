//! Memory that two processes share: counters for keeping step, and bytes for a ring.
//!
//! It is a memfd, so it has no name in any file system and ends with the last process that holds it.

use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Bytes before the ring, which hold the counters.
const HEAD: usize = 4096;

/// Bytes from one counter to the next: two cache lines, which CPUs fetch as a pair.
const APART: usize = 128;

/// Counters there are.
pub const COUNTERS: usize = HEAD / APART;

/// Makes shared memory with room for `ring` bytes, all zero.
pub fn create(ring: usize) -> io::Result<OwnedFd> {
    let memory = memfd_create("fsprobe", MemfdFlags::CLOEXEC)?;
    ftruncate(&memory, end(ring) as u64)?;
    Ok(memory)
}

/// The position in the memory's file behind counters and ring, where whoever made it may append.
pub fn end(ring: usize) -> usize {
    HEAD.saturating_add(ring)
}

/// Shared memory, mapped.
#[derive(Debug)]
pub struct Shared {
    start: NonNull<u8>,
    ring: usize,
}

impl Shared {
    /// Maps what [`create`] made for the same `ring`, every page present where memory allows.
    ///
    /// # Errors
    /// Where the file is shorter than that, or cannot be mapped for reading and writing.
    pub fn map(memory: impl AsFd, ring: usize) -> io::Result<Shared> {
        let len = end(ring);
        if fstat(&memory)?.st_size < len as i64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let file = memory.as_fd().as_raw_fd();
        // SAFETY: a new mapping at a place of the kernel's choice touches no existing memory; the
        // descriptor is open while borrowed, and its file holds every byte that is mapped.
        let start = unsafe {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
            libc::mmap(std::ptr::null_mut(), len, rights, flags, file, 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Shared { start, ring })
    }

    /// One of the counters.
    ///
    /// # Panics
    /// Where there is no such counter.
    pub fn counter(&self, index: usize) -> &AtomicU64 {
        assert!(index < COUNTERS, "there are {COUNTERS} counters");
        // SAFETY: the counter lies inside the mapping, aligned, and every process that maps it reaches it
        // through this very function, so atomically; it lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(index * APART).cast()) }
    }

    /// Copies bytes into the ring by libc's memcpy. Writer and reader keep apart by the counters.
    ///
    /// # Panics
    /// Where the ring ends before that.
    pub fn put(&self, at: usize, bytes: &[u8]) {
        let to = self.inside(at, bytes.len());
        // SAFETY: `to` is writable for that many bytes, to which no reference exists; what another process
        // does to them meanwhile can only change their values, which are plain bytes.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Copies bytes out of the ring by libc's memcpy.
    ///
    /// # Panics
    /// Where the ring ends before that.
    pub fn take(&self, at: usize, bytes: &mut [u8]) {
        let from = self.inside(at, bytes.len());
        // SAFETY: `from` is readable for that many bytes; for the rest as in `put`.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(from, bytes.len()) };
    }

    fn inside(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.ring), "inside the ring");
        self.start.as_ptr().wrapping_add(HEAD + at)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `map` made, to which no reference is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), end(self.ring)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_mappings_see_the_same() {
        let memory = create(8192).unwrap();
        let (one, other) = (Shared::map(&memory, 8192).unwrap(), Shared::map(&memory, 8192).unwrap());
        one.counter(1).store(7, Ordering::Release);
        one.put(8000, &[3; 192]);
        let mut bytes = [0; 192];
        other.take(8000, &mut bytes);
        assert_eq!((bytes, other.counter(1).load(Ordering::Acquire)), ([3; 192], 7));
    }

    #[test]
    fn a_file_too_short_is_refused() {
        let memory = create(4096).unwrap();
        assert!(Shared::map(&memory, 8192).is_err());
    }
}
