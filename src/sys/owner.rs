//! For tests: which allocator an address came from, as the allocators themselves know it.

use std::ffi::{c_char, c_int, c_void};

unsafe extern "C" {
    fn _rjem_mallctl(
        name: *const c_char,
        old: *mut c_void,
        old_len: *mut usize,
        new: *mut c_void,
        new_len: usize,
    ) -> c_int;
    fn mi_is_in_heap_region(p: *const c_void) -> bool;
}

/// Whether jemalloc knows the address as one of its own (`arenas.lookup`).
pub fn is_jemallocs(address: usize) -> bool {
    let mut address = address as *mut c_void;
    let (mut arena, mut size) = (0u32, size_of::<u32>());
    // SAFETY: the name is a C string; old and new point to a u32 and a pointer with their sizes.
    let failed = unsafe {
        _rjem_mallctl(
            c"arenas.lookup".as_ptr(),
            (&raw mut arena).cast(),
            &mut size,
            (&raw mut address).cast(),
            size_of::<*mut c_void>(),
        )
    };
    failed == 0
}

/// Whether the address lies in memory of mimalloc's.
pub fn is_mimallocs(address: usize) -> bool {
    // SAFETY: the address is only compared.
    unsafe { mi_is_in_heap_region(address as *const c_void) }
}
