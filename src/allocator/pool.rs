//! One allocation that serves buffers at every page and page offset.

use super::{AllocatorError, POOL_PAGES, PageKind, Pool, PoolSpec};
use crate::report::{Allocator, Fact, PAGE};
use crate::sys::block::{Advice, Block, Memory};
use crate::sys::memory::{self, Available};
use crate::sys::smaps::{self, HUGE_PAGE};
use std::io;
use std::ops::Range;
use std::path::Path;

/// Bytes of a page of the offset circle.
const BYTES: usize = PAGE as usize;

/// Bytes that a run takes beside its buffers.
const BESIDE: u64 = 64 << 20;

/// Opens a pool: one allocation from `allocator`, faulted in, freed by the same when dropped.
pub fn open(allocator: Allocator, spec: &PoolSpec) -> Result<Box<dyn Pool>, AllocatorError> {
    check(allocator, spec)?;
    let plan = Plan::of(spec).ok_or(AllocatorError::Refused {
        allocator,
        needed: spec.max_len as u64,
        reason: io::ErrorKind::OutOfMemory.into(),
    })?;
    let memory = if spec.pages == PageKind::Reserved {
        reserved(&plan)?
    } else {
        room_for(allocator, plan.allocate as u64, spec.to_come)?;
        allocated(allocator, spec, &plan)?
    };
    let base = memory.address().next_multiple_of(plan.align) - memory.address();
    let mut pool =
        HeapPool { allocator, memory, base, usable: plan.usable, first_touch: spec.first_touch, note: None };
    if spec.first_touch {
        // Tried once here, so that a refusal (memory locked by mlockall, say) is told and not met later.
        let all = base..base + plan.usable;
        pool.memory.discard(all).map_err(|reason| AllocatorError::Advice {
            allocator,
            what: "--first-touch",
            reason,
        })?;
        pool.memory.bytes().fill(crate::sys::block::FILL);
    }
    if spec.pages == PageKind::Transparent {
        pool.note = Some(huge_note(pool.address_range()));
    }
    Ok(Box::new(pool))
}

/// Whether the allocator is in this process.
///
/// # Errors
/// With the reason, where it is not.
pub fn present(allocator: Allocator) -> Result<(), AllocatorError> {
    let absent = |reason| Err(AllocatorError::Absent { allocator, reason });
    if allocator != Allocator::Glibc {
        return Ok(());
    }
    #[cfg(target_env = "gnu")]
    return match crate::sys::block::malloc_replaced_by() {
        Some(object) => absent(format!("{object} has replaced malloc (is LD_PRELOAD set?)")),
        None => Ok(()),
    };
    #[cfg(not(target_env = "gnu"))]
    absent(format!("this build of fsprobe is linked with {}, not with glibc", crate::sys::machine::C_LIBRARY))
}

/// Options that do not go together.
fn check(allocator: Allocator, spec: &PoolSpec) -> Result<(), AllocatorError> {
    present(allocator)?;
    if spec.pages != PageKind::Reserved {
        return Ok(());
    }
    if allocator != Allocator::Pages {
        return Err(AllocatorError::Options("--pages hugetlb works with --allocators pages only"));
    }
    if spec.first_touch {
        return Err(AllocatorError::Options(
            "--first-touch does not work with --pages hugetlb: no part of a huge page can be dropped (use --pages thp)",
        ));
    }
    Ok(())
}

/// Sizes of a pool in bytes.
struct Plan {
    /// From the base on.
    usable: usize,
    /// What the base is rounded up to.
    align: usize,
    /// What is asked of the allocator.
    allocate: usize,
}

impl Plan {
    /// None where the sizes are beyond the address space.
    fn of(spec: &PoolSpec) -> Option<Plan> {
        let slack = POOL_PAGES as usize * BYTES;
        let usable = spec.max_len.checked_add(slack)?;
        let align = if spec.pages == PageKind::Small { BYTES } else { HUGE_PAGE };
        let usable = usable.checked_next_multiple_of(align)?;
        let slack = if spec.pages == PageKind::Reserved { 0 } else { align - 1 };
        let allocate = usable.checked_add(slack).filter(|&all| isize::try_from(all).is_ok())?;
        Some(Plan { usable, align, allocate })
    }
}

/// Refuses what memory cannot hold: touching it would end the process. Large pools leave room for what
/// else a run holds: samples, allocators' own books, the report.
fn room_for(allocator: Allocator, one: u64, count: u64) -> Result<(), AllocatorError> {
    match memory::available(Path::new("/")) {
        Fact::Known(left) => fits(allocator, one, count, left),
        Fact::Unknown(_) => Ok(()),
    }
}

/// The same for memory that is not touched.
pub(super) fn addresses_for(allocator: Allocator, one: u64, count: u64) -> Result<(), AllocatorError> {
    memory::available_addresses(Path::new("/")).map_or(Ok(()), |left| fits(allocator, one, count, left))
}

fn fits(allocator: Allocator, one: u64, count: u64, available: Available) -> Result<(), AllocatorError> {
    let Available { bytes: left, bound } = available;
    let needed = one.saturating_mul(count.max(1));
    if left < needed.saturating_add(one.min(BESIDE)) {
        return Err(AllocatorError::Memory { allocator, needed, left, bound });
    }
    Ok(())
}

fn reserved(plan: &Plan) -> Result<Memory, AllocatorError> {
    let count = (plan.allocate / HUGE_PAGE) as u64;
    let failed = |reason| AllocatorError::NotReserved { count, reason };
    let mut block = Block::reserved_huge_pages(plan.allocate).map_err(failed)?;
    match block.advise(Advice::Populate) {
        // EINVAL: a kernel before 5.14, which knows no populating.
        Err(error) if error.raw_os_error() != Some(libc::EINVAL) => Err(failed(error)),
        _ => Ok(block.faulted_in()),
    }
}

fn allocated(allocator: Allocator, spec: &PoolSpec, plan: &Plan) -> Result<Memory, AllocatorError> {
    let needed = plan.allocate as u64;
    let mut block = Block::allocate(allocator, plan.allocate).map_err(|reason| AllocatorError::Refused {
        allocator,
        needed,
        reason,
    })?;
    if spec.pages == PageKind::Transparent {
        let refused = |reason| AllocatorError::Advice { allocator, what: "--pages thp", reason };
        block.advise(Advice::HugePages).map_err(refused)?;
    } else {
        // A kernel that knows no transparent huge pages refuses, and needs no telling.
        let _ = block.advise(Advice::SmallPages);
    }
    // Memory that the allocator reuses may be backed the other way already: fresh pages obey the advice.
    let _ = block.discard(0..plan.allocate);
    Ok(block.faulted_in())
}

/// How much of a pool really lies in transparent huge pages, in words.
fn huge_note(range: Range<usize>) -> String {
    let all = range.len() >> 20;
    match smaps::huge_bytes(&range) {
        Fact::Known(bytes) => format!("{} of {all} MiB are transparent huge pages", bytes >> 20),
        Fact::Unknown(reason) => format!("how many pages are huge is unknown: {reason}"),
    }
}

/// A pool in real memory.
struct HeapPool {
    allocator: Allocator,
    memory: Memory,
    /// Bytes from the allocation's start to the first page's.
    base: usize,
    /// Bytes from the first page's start on.
    usable: usize,
    first_touch: bool,
    note: Option<String>,
}

impl HeapPool {
    fn address_range(&self) -> Range<usize> {
        let start = self.memory.address() + self.base;
        start..start + self.usable
    }
}

impl Pool for HeapPool {
    fn allocator(&self) -> Allocator {
        self.allocator
    }

    fn pages(&self, len: usize) -> u64 {
        // The last start page still has room for a page offset of 0x1000 and `len` bytes.
        (self.usable.saturating_sub(len) / BYTES) as u64
    }

    fn buffer(&mut self, page: u64, offset: u16, len: usize) -> &mut [u8] {
        let start = self.base + page as usize * BYTES + usize::from(offset);
        let range = start..start + len;
        if self.first_touch {
            // It worked on this very memory when the pool was opened.
            // Pages that the buffer covers in part are fresh too: the whole pool is this pool's own.
            let first = self.base + (page as usize + usize::from(offset) / BYTES) * BYTES;
            let _ = self.memory.discard(first..first + (range.end - first).next_multiple_of(BYTES));
        }
        let buffer = &mut self.memory.bytes()[range];
        assert_eq!(
            buffer.as_ptr() as usize % BYTES,
            usize::from(offset % PAGE),
            "the address is the one asked for"
        );
        buffer
    }

    fn memory(&mut self) -> &mut [u8] {
        &mut self.memory.bytes()[self.base..self.base + self.usable]
    }

    fn renews(&self) -> bool {
        self.first_touch
    }

    fn note(&self) -> Option<String> {
        self.note.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::block::FILL;

    const SPEC: PoolSpec =
        PoolSpec { max_len: 65536, pages: PageKind::Small, first_touch: false, to_come: 1 };

    fn measurable() -> impl Iterator<Item = Allocator> {
        Allocator::ALL.iter().copied().filter(|&allocator| present(allocator).is_ok())
    }

    #[test]
    fn every_page_offset_of_every_allocator_is_exact() {
        assert!(measurable().count() >= 3);
        for allocator in measurable() {
            let mut pool = open(allocator, &SPEC).unwrap();
            assert_eq!(pool.allocator(), allocator);
            for offset in 0..=PAGE {
                let page = u64::from(offset) * 7 % pool.pages(65536);
                let buffer = pool.buffer(page, offset, 65536);
                assert_eq!(buffer.len(), 65536);
                assert_eq!(
                    buffer.as_ptr() as usize % 4096,
                    usize::from(offset) % 4096,
                    "{allocator} {offset:#x}"
                );
            }
        }
    }

    #[test]
    fn buffers_of_all_start_pages_lie_inside_the_allocation() {
        for allocator in measurable() {
            let mut pool = open(allocator, &SPEC).unwrap();
            for len in [1, 128, 4096, 4097, 65536] {
                let pages = pool.pages(len);
                assert!(pages >= POOL_PAGES + (65536 - len as u64) / 4096, "{allocator} {len}: {pages}");
                let first = pool.buffer(0, 0, len).as_ptr() as usize;
                for page in 0..pages {
                    let at = pool.buffer(page, PAGE, len).as_ptr() as usize;
                    assert_eq!(at, first + (page as usize + 1) * 4096);
                }
            }
            assert_eq!(pool.pages(usize::MAX), 0);
        }
    }

    #[test]
    fn the_pools_of_two_allocators_lie_apart() {
        let mut pools: Vec<_> = measurable().map(|allocator| open(allocator, &SPEC).unwrap()).collect();
        let mut starts: Vec<usize> =
            pools.iter_mut().map(|pool| pool.buffer(0, 0, 1).as_ptr() as usize).collect();
        starts.sort_unstable();
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= 65536 + 64 * 4096));
    }

    #[test]
    fn first_touch_hands_out_fresh_pages() {
        for allocator in measurable() {
            let mut pool = open(allocator, &PoolSpec { first_touch: true, ..SPEC }).unwrap();
            let buffer = pool.buffer(1, 0x10, 3 * 4096);
            assert!(
                buffer.iter().all(|&byte| byte == 0),
                "{allocator}: pages that it covers in part are fresh too"
            );
            let before = &pool.memory()[..4096];
            assert!(before.iter().all(|&byte| byte == FILL), "{allocator}: no other page is dropped");
        }
    }

    #[test]
    fn transparent_huge_pages_are_counted() {
        for allocator in measurable() {
            match open(allocator, &PoolSpec { pages: PageKind::Transparent, ..SPEC }) {
                Ok(mut pool) => {
                    assert!(pool.note().is_some_and(|note| note.contains("huge")));
                    assert_eq!(pool.buffer(0, 0x123, 100).as_ptr() as usize % HUGE_PAGE, 0x123);
                }
                // A kernel without them.
                Err(error) => assert!(error.to_string().contains("--pages thp"), "{error}"),
            }
        }
    }

    #[test]
    fn reserved_huge_pages_or_how_to_reserve_them() {
        match open(Allocator::Pages, &PoolSpec { pages: PageKind::Reserved, ..SPEC }) {
            Ok(mut pool) => assert_eq!(pool.buffer(0, 0, 65536).as_ptr() as usize % HUGE_PAGE, 0),
            Err(error) => assert!(error.to_string().contains("sysctl vm.nr_hugepages=1"), "{error}"),
        }
    }

    fn refused(allocator: Allocator, spec: PoolSpec) -> AllocatorError {
        match open(allocator, &spec) {
            Ok(_) => panic!("{allocator} opened {spec:?}"),
            Err(error) => error,
        }
    }

    #[test]
    fn options_that_do_not_go_together_are_refused() {
        let spec = PoolSpec { pages: PageKind::Reserved, ..SPEC };
        let text = refused(Allocator::Jemalloc, spec).to_string();
        assert!(text.contains("--allocators pages"), "{text}");
        let text = refused(Allocator::Pages, PoolSpec { first_touch: true, ..spec }).to_string();
        assert!(text.contains("--first-touch"), "{text}");
    }

    #[test]
    fn too_much_memory_is_refused_before_it_is_touched() {
        for allocator in measurable() {
            for max_len in [1 << 46, usize::MAX - 10, isize::MAX as usize] {
                let text = refused(allocator, PoolSpec { max_len, ..SPEC }).to_string();
                assert!(text.contains("--len") && !text.contains('\n'), "{text}");
            }
        }
    }
}
