//! Copy routines in user space: those of the folder asm, and the C library's memcpy.

use crate::report::PathName;
use std::arch::global_asm;
use std::ffi::c_void;
use std::hint::black_box;

global_asm!(include_str!("../../asm/rep_movsb.s"));
global_asm!(include_str!("../../asm/rep_movsq.s"));
global_asm!(include_str!("../../asm/mov_unrolled.s"));
global_asm!(include_str!("../../asm/avx2.s"));
global_asm!(include_str!("../../asm/avx512.s"));
global_asm!(include_str!("../../asm/non_temporal.s"));

/// A function like memcpy.
// SAFETY: a type alone calls nothing; each call says why it is sound.
type Function = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;

unsafe extern "C" {
    fn fsprobe_rep_movsb(dst: *mut c_void, src: *const c_void, len: usize) -> *mut c_void;
    fn fsprobe_rep_movsq(dst: *mut c_void, src: *const c_void, len: usize) -> *mut c_void;
    fn fsprobe_mov_unrolled(dst: *mut c_void, src: *const c_void, len: usize) -> *mut c_void;
    fn fsprobe_avx2(dst: *mut c_void, src: *const c_void, len: usize) -> *mut c_void;
    fn fsprobe_avx512(dst: *mut c_void, src: *const c_void, len: usize) -> *mut c_void;
    fn fsprobe_non_temporal(dst: *mut c_void, src: *const c_void, len: usize) -> *mut c_void;
}

/// A copy routine that this CPU can run.
#[derive(Clone, Copy)]
pub struct Routine(Function);

impl Routine {
    /// The routine of a copy path.
    ///
    /// # Errors
    /// Where the CPU or the operating system does not offer the registers, or the path is no routine.
    pub fn of(path: PathName) -> Result<Routine, String> {
        // The detection reads CPUID and XCR0: an operating system that does not save the registers
        // does not offer them.
        let offered = |yes: bool, function: Function, what: &str| match yes {
            true => Ok(Routine(function)),
            false => Err(format!("it needs {what}, which this CPU or operating system does not offer")),
        };
        match path {
            PathName::Memcpy => Ok(Routine::memcpy()),
            PathName::RepMovsb => Ok(Routine(fsprobe_rep_movsb)),
            PathName::RepMovsq => Ok(Routine(fsprobe_rep_movsq)),
            PathName::MovUnrolled => Ok(Routine(fsprobe_mov_unrolled)),
            PathName::NonTemporal => Ok(Routine(fsprobe_non_temporal)),
            PathName::Avx2 => offered(is_x86_feature_detected!("avx2"), fsprobe_avx2, "AVX2"),
            PathName::Avx512 => offered(is_x86_feature_detected!("avx512f"), fsprobe_avx512, "AVX-512F"),
            _ => Err(format!("{path} is no copy routine")),
        }
    }

    /// The memcpy that this program is bound to. The black box keeps the compiler, which knows memcpy,
    /// from putting moves of its own in its place.
    pub fn memcpy() -> Routine {
        Routine(black_box(libc::memcpy as Function))
    }

    /// Copies all of `src` to `dst`.
    ///
    /// # Panics
    /// If their lengths differ.
    #[inline]
    pub fn copy(self, dst: &mut [u8], src: &[u8]) {
        assert_eq!(dst.len(), src.len(), "both sides of a copy are as long");
        // SAFETY: `src` is readable and `dst` writable for the common length, and an exclusive
        // borrow overlaps no shared one.
        unsafe { self.copy_raw(dst.as_mut_ptr(), src.as_ptr(), dst.len()) }
    }

    /// Copies `len` bytes from `src` to `dst`.
    ///
    /// # Safety
    /// `src` is readable and `dst` writable for `len` bytes, and the two do not overlap.
    #[inline]
    pub unsafe fn copy_raw(self, dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the routine reads and writes exactly `len` bytes, which the caller vouches for;
        // `of` gives out only routines whose registers exist here.
        unsafe { (self.0)(dst.cast(), src.cast(), len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::guarded::Guarded;
    use rand::{Rng, RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    const GUARD: u8 = 0x5c;
    /// Guard bytes on either side: more than any routine moves at once.
    const MARGIN: usize = 512;
    const LONGEST: usize = 4200;
    const AREA: usize = LONGEST + 2 * MARGIN + 64;

    /// The copy paths that are routines in user space.
    fn names() -> impl Iterator<Item = PathName> {
        PathName::ALL.iter().copied().filter(|name| name.is_user_space())
    }

    fn routines() -> Vec<(PathName, Routine)> {
        names().filter_map(|name| Some((name, Routine::of(name).ok()?))).collect()
    }

    /// A page-aligned start inside `bytes`, so that offsets are page offsets.
    fn aligned(bytes: &[u8]) -> usize {
        bytes.as_ptr().align_offset(4096)
    }

    /// Copies between page offsets and looks at every byte in and around the destination.
    fn check(what: (PathName, Routine), to: &mut [u8], from: &[u8], dst: usize, src: usize, len: usize) {
        let (base, start) = (aligned(to), aligned(from) + src);
        let area = &mut to[base..base + dst + MARGIN + len + MARGIN];
        area.fill(GUARD);
        let (before, rest) = area.split_at_mut(dst + MARGIN);
        let (middle, after) = rest.split_at_mut(len);
        what.1.copy(middle, &from[start..start + len]);
        let what = format!("{} dst {dst:#x} src {src:#x} len {len}", what.0);
        assert!(*middle == from[start..start + len], "{what}: bytes");
        assert!(before.iter().all(|&byte| byte == GUARD), "{what}: before");
        assert!(after.iter().all(|&byte| byte == GUARD), "{what}: after");
    }

    fn areas() -> (Vec<u8>, Vec<u8>) {
        let mut from = vec![0; AREA + 4096];
        Xoshiro256PlusPlus::seed_from_u64(1).fill_bytes(&mut from);
        (vec![0; AREA + 4096], from)
    }

    #[test]
    fn every_length_arrives_and_nothing_else_changes() {
        let (mut to, from) = areas();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
        for what in routines() {
            for len in 0..=LONGEST {
                check(what, &mut to, &from, 0, 0, len);
                let (dst, src) = (random.random_range(0..=64), random.random_range(0..=64));
                check(what, &mut to, &from, dst, src, len);
            }
        }
    }

    #[test]
    fn all_small_offsets_of_both_sides() {
        let (mut to, from) = areas();
        for what in routines() {
            for dst in 0..=64 {
                for src in 0..=64 {
                    for len in [0, 1, 7, 9, 15, 17, 33, 63, 64, 65, 127, 129, 255, 257, 511, 600] {
                        check(what, &mut to, &from, dst, src, len);
                    }
                }
            }
        }
    }

    #[test]
    fn no_byte_outside_is_touched_even_by_reading() {
        let (mut from, mut to) = (Guarded::new(8192), Guarded::new(8192));
        Xoshiro256PlusPlus::seed_from_u64(3).fill_bytes(from.bytes());
        for (name, routine) in routines() {
            for len in (0..700).chain([4095, 4096, 4097, 8191, 8192]) {
                let end = 8192 - len;
                for (src, dst) in [(0, 0), (end, end), (0, end), (end, 0)] {
                    let (from, to) = (&from.bytes()[src..src + len], &mut to.bytes()[dst..dst + len]);
                    routine.copy(to, from);
                    assert!(from == to, "{name} {len} from {src} to {dst}");
                }
            }
        }
    }

    #[test]
    fn what_every_cpu_has_is_there_and_other_paths_are_refused() {
        let there: Vec<PathName> = routines().iter().map(|(name, _)| *name).collect();
        for name in names() {
            let optional = [PathName::Avx2, PathName::Avx512].contains(&name);
            assert!(optional || there.contains(&name), "{name}");
        }
        assert!(Routine::of(PathName::Read).is_err());
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn memcpy_is_the_c_librarys_own() {
        let (_, name) = crate::sys::block::object_of(black_box(Routine::memcpy().0) as *const ()).unwrap();
        assert!(name.contains("libc"), "{name}");
    }
}
