//! Memory from one named allocator, given back to the same.
//!
//! The allocators are called directly, never through Rust's global allocator, and live side by side
//! in one process: jemalloc under the prefix `_rjem_`, mimalloc under `mi_`, glibc as libc's malloc.

use super::{memory, reason};
use crate::report::{Allocator, Fact, PAGE};
use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;
use std::ptr::NonNull;

/// What fresh memory is filled with. Not zero, so that no page can be the kernel's shared zero page.
pub const FILL: u8 = 0xa5;

/// How the kernel is asked to back memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Transparent huge pages refused.
    SmallPages,
    /// Transparent huge pages asked for.
    HugePages,
    /// Every page made present now, and a failure told instead of a fatal signal on first use.
    Populate,
}

/// An allocation whose bytes have not been written yet.
#[derive(Debug)]
pub struct Block {
    start: NonNull<u8>,
    len: usize,
    from: Allocator,
}

impl Block {
    /// Allocates `len` bytes, at least 1. Nothing is touched, so an overcommitting kernel has not
    /// given the memory yet.
    pub fn allocate(from: Allocator, len: usize) -> io::Result<Block> {
        if from == Allocator::Pages {
            return Self::map(len, 0);
        }
        let layout = layout(len)?;
        // SAFETY: the layout's size is not zero, which is all that the three require.
        let start = unsafe {
            match from {
                Allocator::Jemalloc => tikv_jemallocator::Jemalloc.alloc(layout),
                Allocator::Mimalloc => mimalloc::MiMalloc.alloc(layout),
                Allocator::Glibc | Allocator::Pages => libc::malloc(len).cast(),
            }
        };
        // black_box: compilers know malloc and may leave out an allocation whose bytes nobody reads.
        let start = NonNull::new(black_box(start)).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Block { start, len, from })
    }

    /// Maps `len` bytes of reserved huge pages of 2 MiB; `len` is a multiple of that.
    pub fn reserved_huge_pages(len: usize) -> io::Result<Block> {
        Self::map(len, libc::MAP_HUGETLB | libc::MAP_HUGE_2MB)
    }

    fn map(len: usize, flags: libc::c_int) -> io::Result<Block> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
        // SAFETY: a new private mapping at a place of the kernel's choice touches no existing memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, rights, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Block { start, len, from: Allocator::Pages })
    }

    /// The address of the first byte.
    pub fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// Asks the kernel to back the whole pages inside the block in that way.
    pub fn advise(&mut self, advice: Advice) -> io::Result<()> {
        let advice = match advice {
            Advice::SmallPages => libc::MADV_NOHUGEPAGE,
            Advice::HugePages => libc::MADV_HUGEPAGE,
            Advice::Populate => libc::MADV_POPULATE_WRITE,
        };
        self.madvise(0..self.len, advice)
    }

    /// Gives the pages wholly inside `range` back to the kernel: the next write to each faults a fresh
    /// page in. Bytes of dropped pages read as zero.
    pub fn discard(&mut self, range: Range<usize>) -> io::Result<()> {
        self.madvise(range, libc::MADV_DONTNEED)
    }

    /// madvise(2) over the whole pages inside `range`; nothing to do where there are none.
    fn madvise(&mut self, range: Range<usize>, advice: libc::c_int) -> io::Result<()> {
        let page = usize::from(PAGE);
        let end = range.end.min(self.len);
        let from = (self.address() + range.start).next_multiple_of(page) - self.address();
        let to = (self.address() + end) / page * page;
        let Some(len) = to.checked_sub(self.address() + from).filter(|&len| len > 0) else {
            return Ok(());
        };
        // SAFETY: the pages lie wholly inside the block (`from + len <= self.len`), which is private
        // anonymous memory that only `self` refers to, so neither an allocator's own data nor a
        // reference of anyone else's can be on them; what MADV_DONTNEED drops reads as zero after.
        let failed = unsafe { libc::madvise(self.start.as_ptr().add(from).cast(), len, advice) };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Where the byte at `at` lies, and how many bytes there are from it on.
    pub(super) fn rest(&mut self, at: usize) -> io::Result<(*mut u8, usize)> {
        let len = self.len.checked_sub(at).ok_or(io::ErrorKind::InvalidInput)?;
        Ok((self.start.as_ptr().wrapping_add(at), len))
    }

    /// One read(2) of at most `len` bytes to `at`, into pages that nothing need have touched before.
    pub fn read(&mut self, file: BorrowedFd<'_>, at: usize, len: usize) -> io::Result<usize> {
        let (start, rest) = self.rest(at)?;
        // SAFETY: the descriptor is open while borrowed, and the block is writable for `rest` bytes from
        // `start` on.
        let read = unsafe { libc::read(file.as_raw_fd(), start.cast(), len.min(rest)) };
        usize::try_from(read).map_err(|_| io::Error::last_os_error())
    }

    /// Writes every byte, which faults every page in.
    pub fn fill(&mut self) {
        // SAFETY: the block is `len` writable bytes that only `self` refers to.
        unsafe { self.start.write_bytes(FILL, self.len) };
    }

    /// Pages of 4 KiB of its own, every byte written; `needed` says in an error what they are needed for.
    ///
    /// # Errors
    /// The reason, for people, where there is not that much memory.
    pub fn small_pages(len: usize, needed: &str) -> Result<Memory, String> {
        // touching more than there is would end the process
        if let Fact::Known(left) = memory::available(Path::new("/"))
            && left.bytes < len as u64
        {
            return Err(format!("{needed}, and {} MiB are left by {}", left.bytes >> 20, left.bound));
        }
        let block = Block::allocate(Allocator::Pages, len);
        let mut block = block.map_err(|error| format!("{needed}: {}", reason(&error)))?;
        // a kernel that knows no transparent huge pages refuses, and needs no telling
        let _ = block.advise(Advice::SmallPages);
        Ok(block.faulted_in())
    }

    /// The block with every byte written.
    pub fn faulted_in(mut self) -> Memory {
        self.fill();
        Memory(self)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `start` came from this very allocator with this length (layouts are made by the same
        // function) and is given back once; `Block` is neither copied nor cloned.
        unsafe {
            match (self.from, layout(self.len)) {
                (Allocator::Jemalloc, Ok(layout)) => {
                    tikv_jemallocator::Jemalloc.dealloc(self.start.as_ptr(), layout);
                }
                (Allocator::Mimalloc, Ok(layout)) => {
                    mimalloc::MiMalloc.dealloc(self.start.as_ptr(), layout);
                }
                (Allocator::Glibc, _) => libc::free(self.start.as_ptr().cast()),
                (Allocator::Pages, _) => {
                    libc::munmap(self.start.as_ptr().cast(), self.len);
                }
                (Allocator::Jemalloc | Allocator::Mimalloc, Err(_)) => {}
            }
        }
    }
}

/// A request without any alignment, so that the allocator places it as it places a plain malloc.
fn layout(len: usize) -> io::Result<Layout> {
    match Layout::from_size_align(len, 1) {
        Ok(layout) if len > 0 => Ok(layout),
        _ => Err(io::ErrorKind::OutOfMemory.into()),
    }
}

/// A block all of whose bytes have been written.
#[derive(Debug)]
pub struct Memory(Block);

impl Memory {
    /// The address of the first byte.
    pub fn address(&self) -> usize {
        self.0.address()
    }

    /// All bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the block is `len` bytes, all written in `faulted_in` (dropped pages read as zero),
        // and the borrow of `self` keeps everyone else away.
        unsafe { std::slice::from_raw_parts_mut(self.0.start.as_ptr(), self.0.len) }
    }

    /// All bytes, to read.
    pub fn read(&self) -> &[u8] {
        // SAFETY: as in `bytes`; writing takes an exclusive borrow of `self`.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr(), self.0.len) }
    }

    /// As [`Block::discard`].
    pub fn discard(&mut self, range: Range<usize>) -> io::Result<()> {
        self.0.discard(range)
    }
}

/// The shared object that has put its own function in the place of this one of the C library's (by LD_PRELOAD,
/// say); none where none has, or where it cannot be told.
#[cfg(target_env = "gnu")]
pub fn replaced_by(function: *const ()) -> Option<String> {
    let (at, name) = object_of(function)?;
    let (library, _) = object_of(libc::gnu_get_libc_version as *const ())?;
    (at != library).then_some(name)
}

/// The shared object that has put its own malloc in the place of the C library's.
#[cfg(target_env = "gnu")]
pub fn malloc_replaced_by() -> Option<String> {
    replaced_by(libc::malloc as *const ())
}

/// Where the object that holds a function is loaded, and its file name.
#[cfg(target_env = "gnu")]
pub(super) fn object_of(function: *const ()) -> Option<(usize, String)> {
    // SAFETY: Dl_info is plain pointers, for which all zeros are a value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: dladdr only compares the address with those of loaded objects and fills `info`.
    if unsafe { libc::dladdr(function.cast(), &mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr succeeded, so the name is a string that lives as long as the object is loaded,
    // and neither the C library nor what replaces its malloc is ever unloaded.
    let name = unsafe { std::ffi::CStr::from_ptr(info.dli_fname) };
    Some((info.dli_fbase as usize, name.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::owner::{is_jemallocs, is_mimallocs};

    #[test]
    fn no_allocator_has_replaced_another() {
        for len in [100, 4096, 65536, 1 << 20, 8 << 20] {
            let block = |from| Block::allocate(from, len).unwrap();
            for from in Allocator::ALL.iter().copied() {
                if from == Allocator::Glibc && !cfg!(target_env = "gnu") {
                    continue;
                }
                let block = block(from);
                let at = block.start.as_ptr().addr();
                assert_eq!(is_jemallocs(at), from == Allocator::Jemalloc, "{from} {len}");
                assert_eq!(is_mimallocs(at), from == Allocator::Mimalloc, "{from} {len}");
            }
        }
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn malloc_is_the_c_librarys() {
        assert_eq!(malloc_replaced_by(), None);
        let (_, name) = object_of(libc::malloc as *const ()).unwrap();
        assert!(name.contains("libc"), "{name}");
        let (own, _) = object_of(malloc_is_the_c_librarys as *const ()).unwrap();
        assert_ne!(Some(own), object_of(libc::malloc as *const ()).map(|(at, _)| at));
    }

    #[test]
    fn discarded_pages_read_as_zero_and_their_neighbours_stay() {
        for from in Allocator::ALL.iter().copied() {
            let mut memory = Block::allocate(from, 10 * 4096).unwrap().faulted_in();
            let first = memory.address().next_multiple_of(4096) - memory.address();
            memory.discard(first + 1..first + 3 * 4096 + 1).unwrap();
            let bytes = memory.bytes();
            assert!(bytes[..first + 4096].iter().all(|&b| b == FILL), "{from}");
            assert!(bytes[first + 4096..first + 3 * 4096].iter().all(|&b| b == 0), "{from}");
            assert!(bytes[first + 3 * 4096..].iter().all(|&b| b == FILL), "{from}");
            memory.discard(5..6).unwrap();
            memory.discard(0..usize::MAX).unwrap();
        }
    }

    #[test]
    fn impossible_sizes_are_errors() {
        for from in Allocator::ALL.iter().copied() {
            for len in [0, usize::MAX, isize::MAX as usize] {
                assert!(Block::allocate(from, len).is_err(), "{from} {len}");
            }
        }
    }
}
