//! The end of memory, met with one clear line and nothing lost, where Rust would abort.
//!
//! The program's allocator is the system's. Where that gives nothing, a reserve that a measuring verb holds
//! is given back and the allocation tried again, so that the run can end early and save what it has; without
//! a reserve the process says why and ends with exit code 2, or with the one that was set.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

/// Enough to judge, render and write a default sweep, in bytes. Nothing of it is touched.
const RESERVE: Layout = match Layout::from_size_align(32 << 20, 4096) {
    Ok(layout) => layout,
    Err(_) => panic!("a power of two"),
};

static HELD: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static SPENT: AtomicBool = AtomicBool::new(false);
static CODE: AtomicI32 = AtomicI32::new(2);

/// The system's allocator, with a way out.
#[derive(Debug)]
pub struct Reserving;

/// Holds the reserve; false where there is no room for it.
pub fn hold() -> bool {
    if !HELD.load(Ordering::SeqCst).is_null() {
        return true;
    }
    // SAFETY: the layout's size is not zero.
    let held = unsafe { System.alloc(RESERVE) };
    let before = HELD.swap(held, Ordering::SeqCst);
    release(before);
    !held.is_null()
}

/// Whether memory ran out and the reserve went: what measures has to end.
pub fn is_spent() -> bool {
    SPENT.load(Ordering::SeqCst)
}

/// Has the process end with this exit code where memory ends, from now on.
pub fn end_with(code: u8) {
    CODE.store(code.into(), Ordering::SeqCst);
}

/// The exit code where memory ends.
pub fn code() -> u8 {
    CODE.load(Ordering::SeqCst) as u8
}

/// Gives a reserve back; false where there was none.
fn release(held: *mut u8) -> bool {
    if held.is_null() {
        return false;
    }
    // SAFETY: it came from the system's allocator with this layout, and whoever swapped it out of HELD is the
    // only one to have it.
    unsafe { System.dealloc(held, RESERVE) };
    true
}

/// Tries again with the reserve given back; ends the process where that does not help.
fn again(allocate: impl Fn() -> *mut u8) -> *mut u8 {
    if release(HELD.swap(null_mut(), Ordering::SeqCst)) {
        SPENT.store(true, Ordering::SeqCst);
        let memory = allocate();
        if !memory.is_null() {
            return memory;
        }
    }
    const LINE: &[u8] =
        b"fsprobe: out of memory (a limit of this process, see ulimit -v, or of the machine)\n";
    // SAFETY: write(2) reads LINE.len() bytes of LINE; _exit(2) takes a number and does not return. Neither
    // allocates.
    unsafe {
        libc::write(2, LINE.as_ptr().cast(), LINE.len());
        libc::_exit(code().into())
    }
}

// SAFETY: all memory comes from System and goes back to it with the layouts that it came with.
unsafe impl GlobalAlloc for Reserving {
    // SAFETY: promises are passed on to System as they come.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that System asks for.
        let allocate = || unsafe { System.alloc(layout) };
        let memory = allocate();
        if memory.is_null() { again(allocate) } else { memory }
    }

    // SAFETY: promises are passed on to System as they come.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for alloc.
        let allocate = || unsafe { System.alloc_zeroed(layout) };
        let memory = allocate();
        if memory.is_null() { again(allocate) } else { memory }
    }

    // SAFETY: promises are passed on to System as they come.
    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as for alloc; where it fails, `old` stays as it was.
        let allocate = || unsafe { System.realloc(old, layout, size) };
        let memory = allocate();
        if memory.is_null() { again(allocate) } else { memory }
    }

    // SAFETY: promises are passed on to System as they come.
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are those that System asks for.
        unsafe { System.dealloc(memory, layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_held_once_and_given_back_once() {
        assert!(hold() && hold());
        let calls = std::cell::Cell::new(0);
        let allocate = || {
            calls.set(calls.get() + 1);
            // SAFETY: the layout's size is not zero.
            unsafe { System.alloc(RESERVE) }
        };
        let memory = again(allocate);
        assert!(!memory.is_null() && calls.get() == 1 && is_spent());
        assert!(release(memory) && !release(null_mut()));
    }
}
