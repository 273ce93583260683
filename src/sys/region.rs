//! Memory for buffers whose pages matter: 4 KiB pages for certain, or huge pages asked for and looked for.

use super::smaps::{self, HUGE_PAGE};
use crate::report::Fact;
use std::io;
use std::ptr::NonNull;

/// Private anonymous memory, zero until written, that nobody else refers to. It ends with the process,
/// huge pages included.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    len: usize,
}

impl Region {
    /// Maps at least `len` bytes, in whole huge pages from a multiple of 2 MiB where they are asked for, with
    /// transparent huge pages refused otherwise. Nothing is touched yet.
    ///
    /// # Errors
    /// Where memory or addresses run out. A kernel without transparent huge pages is no error: what it gave
    /// is told by [`Region::huge_bytes`].
    pub fn new(len: usize, huge: bool) -> io::Result<Region> {
        let unit = if huge { HUGE_PAGE } else { 4096 };
        let len = len.max(1).checked_next_multiple_of(unit).ok_or(io::ErrorKind::OutOfMemory)?;
        let slack = if huge { HUGE_PAGE } else { 0 };
        let whole = len.checked_add(slack).ok_or(io::ErrorKind::OutOfMemory)?;
        let (rights, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: a new private mapping at a place of the kernel's choice touches no existing memory.
        let mapped = unsafe { libc::mmap(std::ptr::null_mut(), whole, rights, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let skipped = (mapped as usize).next_multiple_of(unit) - mapped as usize;
        // SAFETY: head and tail are whole pages of the mapping just made, outside the part that is kept.
        let start = unsafe {
            let start = mapped.cast::<u8>().add(skipped);
            unmap(mapped.cast(), skipped);
            unmap(start.add(len), slack - skipped);
            start
        };
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: the advice concerns exactly the mapping just made and changes none of its bytes. It fails
        // on kernels without transparent huge pages, which have small pages only.
        unsafe { libc::madvise(start.as_ptr().cast(), len, advice) };
        Ok(Region { start, len })
    }

    /// All bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `len` readable and writable bytes, zero until written, that only `self` refers to.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// All bytes, to read.
    pub fn read(&self) -> &[u8] {
        // SAFETY: as in `bytes`; writing takes an exclusive borrow of `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// How many of its bytes huge pages back at the moment, by /proc/self/smaps (proc_pid_smaps(5)).
    pub fn huge_bytes(&self) -> Fact<u64> {
        let from = self.start.as_ptr() as usize;
        smaps::huge_bytes(&(from..from + self.len))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: exactly the pages that `new` kept, to which no reference is left.
        unsafe { unmap(self.start.as_ptr(), self.len) };
    }
}

/// Gives pages back to the kernel; none is fine.
///
/// # Safety
/// `len` bytes from `start` are whole mapped pages to which no reference exists.
unsafe fn unmap(start: *mut u8, len: usize) {
    if len > 0 {
        // SAFETY: the caller vouches for the pages.
        unsafe { libc::munmap(start.cast(), len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_memory_starts_at_a_huge_page_and_small_memory_never_becomes_huge() {
        let mut huge = Region::new(5000, true).unwrap();
        assert_eq!(huge.bytes().as_ptr() as usize % HUGE_PAGE, 0);
        assert_eq!(huge.read().len(), HUGE_PAGE);
        huge.bytes().fill(1);
        if let Fact::Known(bytes) = huge.huge_bytes() {
            assert!([0, HUGE_PAGE as u64].contains(&bytes), "{bytes}");
        }
        let mut small = Region::new(2 * HUGE_PAGE, false).unwrap();
        assert!(small.bytes().iter().all(|b| *b == 0));
        small.bytes().fill(1);
        assert!(matches!(small.huge_bytes(), Fact::Known(0) | Fact::Unknown(_)));
    }
}
