//! For tests: memory between two pages that nobody may touch.

/// Bytes of a page.
const PAGE: usize = 4096;

/// Whole pages with a forbidden page on either side.
pub struct Guarded {
    start: *mut u8,
    len: usize,
}

impl Guarded {
    /// `len` bytes, a multiple of the page size, all zero.
    pub fn new(len: usize) -> Self {
        assert_eq!(len % PAGE, 0);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new private mapping at a place of the kernel's choice touches no existing memory.
        let all = unsafe { libc::mmap(std::ptr::null_mut(), len + 2 * PAGE, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(all, libc::MAP_FAILED);
        // SAFETY: the second page lies inside the mapping just made.
        let start = unsafe { all.cast::<u8>().add(PAGE) };
        // SAFETY: the pages belong to that mapping, which nobody else knows.
        let failed = unsafe { libc::mprotect(start.cast(), len, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(failed, 0);
        Guarded { start, len }
    }

    /// All bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `len` readable, writable bytes that only `self` refers to.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `new` made, which nobody refers to any more.
        unsafe { libc::munmap(self.start.sub(PAGE).cast(), self.len + 2 * PAGE) };
    }
}
