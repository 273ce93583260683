//! Memory for buffers whose pages matter: 4 KiB pages for certain, or huge pages asked for and looked for.

use crate::report::Fact;
use std::fs;
use std::io;
use std::ptr::NonNull;

/// Bytes of a huge page on x86-64.
pub const HUGE_PAGE: usize = 2 << 20;

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
        match fs::read_to_string("/proc/self/smaps") {
            Ok(text) => Fact::Known(huge_in(&text, from, from + self.len).min(self.len as u64)),
            Err(error) => Fact::because(format!("/proc/self/smaps: {}", super::reason(&error))),
        }
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

/// Bytes in huge pages of the mappings that overlap `from..to`.
fn huge_in(smaps: &str, from: usize, to: usize) -> u64 {
    let mut inside = false;
    let mut bytes = 0;
    for line in smaps.lines() {
        if let Some((start, end)) = ends(line) {
            inside = start < to && end > from;
        } else if let Some(rest) = line.strip_prefix("AnonHugePages:").filter(|_| inside) {
            let kib = rest.split_whitespace().next().and_then(|n| n.parse::<u64>().ok());
            bytes += kib.unwrap_or(0) * 1024;
        }
    }
    bytes
}

/// The addresses of a mapping's first line, `7f12-7f34 rw-p …`.
fn ends(line: &str) -> Option<(usize, usize)> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
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

    #[test]
    fn smaps_is_read_by_mapping() {
        let smaps = "7f0000200000-7f0000600000 rw-p 00000000 00:00 0 \nSize: 4096 kB\nAnonHugePages:      2048 kB\n\
            7f0000600000-7f0000800000 rw-p 00000000 00:00 0\nAnonHugePages:      2048 kB\n";
        assert_eq!(huge_in(smaps, 0x7f00_0020_0000, 0x7f00_0060_0000), 2 << 20);
        assert_eq!(huge_in(smaps, 0x7f00_0050_0000, 0x7f00_0070_0000), 4 << 20);
        assert_eq!(huge_in(smaps, 0, 0x1000), 0);
        assert_eq!(huge_in("nonsense", 0, usize::MAX), 0);
    }
}
