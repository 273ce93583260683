//! Buffers made the way programs make them: `malloc`, `calloc`, `realloc` and `posix_memalign` of a named
//! allocator, called as C calls them.
//!
//! [`super::block`] gives memory to copy to; here it is only of interest where memory lies, so nothing is
//! touched that the allocator itself does not touch.

use crate::report::PAGE;
use std::hint::black_box;
use std::io;
use std::os::raw::{c_int, c_void};
use std::ptr::NonNull;

unsafe extern "C" {
    fn _rjem_malloc(len: usize) -> *mut c_void;
    fn _rjem_calloc(count: usize, len: usize) -> *mut c_void;
    fn _rjem_realloc(start: *mut c_void, len: usize) -> *mut c_void;
    fn _rjem_posix_memalign(start: *mut *mut c_void, alignment: usize, len: usize) -> c_int;
    fn _rjem_free(start: *mut c_void);
    fn mi_malloc(len: usize) -> *mut c_void;
    fn mi_calloc(count: usize, len: usize) -> *mut c_void;
    fn mi_realloc(start: *mut c_void, len: usize) -> *mut c_void;
    fn mi_posix_memalign(start: *mut *mut c_void, alignment: usize, len: usize) -> c_int;
    fn mi_free(start: *mut c_void);
}

/// An allocator of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heap {
    /// `malloc` and its like as this process has them: the C library's, or those of a preloaded library.
    Process,
    /// jemalloc under its prefix.
    Jemalloc,
    /// mimalloc.
    Mimalloc,
}

/// A buffer, freed by its own allocator when dropped.
#[derive(Debug)]
pub struct Piece {
    start: NonNull<c_void>,
    len: usize,
    from: Heap,
}

impl Piece {
    /// `malloc(len)`, at least 1 byte.
    pub fn malloc(from: Heap, len: usize) -> io::Result<Piece> {
        let len = possible(len)?;
        // SAFETY: malloc takes any number.
        let start = unsafe {
            match from {
                Heap::Process => libc::malloc(len),
                Heap::Jemalloc => _rjem_malloc(len),
                Heap::Mimalloc => mi_malloc(len),
            }
        };
        Self::of(start, len, from)
    }

    /// `calloc(1, len)`, at least 1 byte.
    pub fn calloc(from: Heap, len: usize) -> io::Result<Piece> {
        let len = possible(len)?;
        // SAFETY: calloc takes any numbers.
        let start = unsafe {
            match from {
                Heap::Process => libc::calloc(1, len),
                Heap::Jemalloc => _rjem_calloc(1, len),
                Heap::Mimalloc => mi_calloc(1, len),
            }
        };
        Self::of(start, len, from)
    }

    /// `posix_memalign` to a power of two of 8 and more, at least 1 byte.
    pub fn aligned(from: Heap, alignment: usize, len: usize) -> io::Result<Piece> {
        let len = possible(len)?;
        let mut start = std::ptr::null_mut();
        // SAFETY: `start` is writable; alignments that the function does not take are answered with EINVAL.
        let error = unsafe {
            match from {
                Heap::Process => libc::posix_memalign(&mut start, alignment, len),
                Heap::Jemalloc => _rjem_posix_memalign(&mut start, alignment, len),
                Heap::Mimalloc => mi_posix_memalign(&mut start, alignment, len),
            }
        };
        if error == 0 { Self::of(start, len, from) } else { Err(io::Error::from_raw_os_error(error)) }
    }

    /// `realloc` to `len` bytes, at least 1. Where it fails the buffer stays as it was.
    pub fn grow(&mut self, len: usize) -> io::Result<()> {
        let len = possible(len)?;
        let old = self.start.as_ptr();
        // SAFETY: `old` came from this allocator and has not been freed.
        let start = unsafe {
            match self.from {
                Heap::Process => libc::realloc(old, len),
                Heap::Jemalloc => _rjem_realloc(old, len),
                Heap::Mimalloc => mi_realloc(old, len),
            }
        };
        self.start = NonNull::new(black_box(start)).ok_or(io::ErrorKind::OutOfMemory)?;
        self.len = len;
        Ok(())
    }

    fn of(start: *mut c_void, len: usize, from: Heap) -> io::Result<Piece> {
        // black_box: compilers know malloc and may leave out an allocation whose bytes nobody reads
        let start = NonNull::new(black_box(start)).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Piece { start, len, from })
    }

    /// The address of the first byte.
    pub fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// Gives the whole pages inside the buffer back to the kernel: what `calloc` and `realloc` wrote there. Where
    /// the kernel refuses (locked memory, say) they stay.
    pub fn discard(&mut self) {
        let page = usize::from(PAGE);
        let from = self.address().next_multiple_of(page);
        let to = (self.address() + self.len) / page * page;
        if to > from {
            // SAFETY: the pages lie wholly inside the buffer, which `self` alone refers to and whose bytes nobody
            // reads; the allocator's own data lies outside of it.
            unsafe { libc::madvise(from as *mut c_void, to - from, libc::MADV_DONTNEED) };
        }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let start = self.start.as_ptr();
        // SAFETY: `start` came from this allocator and is given back once; `Piece` is neither copied nor cloned.
        unsafe {
            match self.from {
                Heap::Process => libc::free(start),
                Heap::Jemalloc => _rjem_free(start),
                Heap::Mimalloc => mi_free(start),
            }
        }
    }
}

/// No allocator gives more than half the address space, and some take 0 for NULL.
fn possible(len: usize) -> io::Result<usize> {
    match isize::try_from(len) {
        Ok(1..) => Ok(len),
        _ => Err(io::ErrorKind::OutOfMemory.into()),
    }
}

/// The functions that [`Heap::Process`] calls, by name, with the file name of the shared object that has put
/// its own in the place of the C library's.
#[cfg(target_env = "gnu")]
pub fn replaced() -> Vec<(&'static str, Option<String>)> {
    use super::block::replaced_by;
    vec![
        ("malloc", replaced_by(libc::malloc as *const ())),
        ("calloc", replaced_by(libc::calloc as *const ())),
        ("realloc", replaced_by(libc::realloc as *const ())),
        ("posix_memalign", replaced_by(libc::posix_memalign as *const ())),
        ("free", replaced_by(libc::free as *const ())),
    ]
}

/// The functions that [`Heap::Process`] calls: nothing can replace them here.
#[cfg(not(target_env = "gnu"))]
pub fn replaced() -> Vec<(&'static str, Option<String>)> {
    ["malloc", "calloc", "realloc", "posix_memalign", "free"].map(|name| (name, None)).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::owner::{is_jemallocs, is_mimallocs};

    const ALL: [Heap; 3] = [Heap::Process, Heap::Jemalloc, Heap::Mimalloc];

    /// A buffer in each way.
    fn pieces(heap: Heap, len: usize) -> Vec<Piece> {
        let mut grown = Piece::malloc(heap, 4096).unwrap();
        grown.grow(len).unwrap();
        vec![
            Piece::malloc(heap, len).unwrap(),
            Piece::calloc(heap, len).unwrap(),
            Piece::aligned(heap, 64, len).unwrap(),
            Piece::aligned(heap, 4096, len).unwrap(),
            grown,
        ]
    }

    #[test]
    fn buffers_are_of_the_allocator_named() {
        for heap in ALL {
            for len in [100, 4096, 65536, 1 << 20, 8 << 20] {
                let pieces = pieces(heap, len);
                for piece in &pieces {
                    assert_eq!(is_jemallocs(piece.address()), heap == Heap::Jemalloc, "{heap:?} {len}");
                    assert_eq!(is_mimallocs(piece.address()), heap == Heap::Mimalloc, "{heap:?} {len}");
                }
                assert_eq!(pieces[2].address() % 64, 0, "{heap:?} {len}");
                assert_eq!(pieces[3].address() % 4096, 0, "{heap:?} {len}");
            }
        }
    }

    #[test]
    fn bytes_survive_growth_and_not_being_discarded() {
        for heap in ALL {
            let mut piece = Piece::malloc(heap, 3 * 4096).unwrap();
            let read = |piece: &Piece| {
                // SAFETY: the buffer has more than a page, whose bytes are written before they are read.
                unsafe { *piece.start.as_ptr().cast::<u8>() }
            };
            // SAFETY: as above.
            unsafe { piece.start.as_ptr().cast::<u8>().write_bytes(7, 3 * 4096) };
            piece.grow(5 << 20).unwrap();
            assert_eq!((read(&piece), piece.len), (7, 5 << 20), "{heap:?}");
            piece.discard();
            let whole_page = piece.address().is_multiple_of(4096);
            assert_eq!(
                read(&piece),
                if whole_page { 0 } else { 7 },
                "{heap:?}: the page is shared, or it is not"
            );
        }
    }

    #[test]
    fn impossible_sizes_are_errors() {
        for heap in ALL {
            for len in [0, usize::MAX, isize::MAX as usize] {
                assert!(Piece::malloc(heap, len).is_err(), "{heap:?} {len}");
                assert!(Piece::calloc(heap, len).is_err(), "{heap:?} {len}");
                assert!(Piece::aligned(heap, 64, len).is_err(), "{heap:?} {len}");
                let mut piece = Piece::malloc(heap, 10).unwrap();
                assert!(piece.grow(len).is_err(), "{heap:?} {len}");
            }
            assert!(Piece::aligned(heap, 3, 100).is_err(), "{heap:?}");
        }
    }

    #[test]
    fn nothing_is_replaced_in_a_test() {
        assert_eq!(replaced().len(), 5);
        assert!(replaced().iter().all(|(_, by)| by.is_none()), "{:?}", replaced());
    }
}
