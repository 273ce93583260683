//! The allocations themselves, in a child process: page offsets, answered on stdout.

use super::{Answer, Group, Order, Wanted};
use crate::allocator::present;
use crate::report::{Allocator, HeapState, Way, offset_of};
use crate::sys::block::Block;
use crate::sys::heap::{self, Heap, Piece};
use std::io;

/// Bytes that a buffer that grows by realloc starts with.
const GROWS_FROM: usize = 4096;

/// The capacity that a `Vec<u8>` starts with.
const VEC_FROM: usize = 8;

/// Does what the order says, and returns the line to answer: JSON of a `Result`.
pub fn obey(order: &str) -> String {
    let answer = match serde_json::from_str::<Order>(order) {
        Ok(order) => answer(&order),
        Err(error) => Err(error.to_string()),
    };
    serde_json::to_string(&answer).unwrap_or_default() + "\n"
}

fn answer(order: &Order) -> Result<Answer, String> {
    match order.allocator {
        Some(allocator) => {
            present(allocator).map_err(|error| error.to_string())?;
            Ok(placed(order, |len| allocate(allocator, order.way, len)))
        }
        None => {
            replaces_malloc(order.way)?;
            Ok(placed(order, |len| made(Heap::Process, order.way, len)))
        }
    }
}

/// Whether one preloaded object has put its own in the place of every function that a way takes.
fn replaces_malloc(way: Way) -> Result<(), String> {
    let replaced = heap::replaced();
    let by =
        |wanted: &str| replaced.iter().find(|(name, _)| *name == wanted).and_then(|(_, by)| by.as_deref());
    let malloc = by("malloc").ok_or("it does not replace malloc")?;
    let taken: &[&str] = match way {
        Way::Malloc => &[],
        Way::Calloc => &["calloc"],
        Way::Realloc | Way::Vec => &["realloc"],
        Way::Memalign64 | Way::Memalign4096 => &["posix_memalign"],
    };
    match ["free"].iter().chain(taken).find(|name| by(name) != Some(malloc)) {
        Some(missing) => Err(format!("it replaces malloc, but not {missing}")),
        None => Ok(()),
    }
}

/// A buffer that only its address is wanted of.
enum Buffer {
    Piece(Piece),
    Pages(Block),
}

impl Buffer {
    fn offset(&self) -> u16 {
        let address = match self {
            Buffer::Piece(piece) => piece.address(),
            Buffer::Pages(block) => block.address(),
        };
        offset_of(address as u64)
    }
}

fn allocate(allocator: Allocator, way: Way, len: usize) -> io::Result<Buffer> {
    match allocator {
        Allocator::Glibc => made(Heap::Process, way, len),
        Allocator::Jemalloc => made(Heap::Jemalloc, way, len),
        Allocator::Mimalloc => made(Heap::Mimalloc, way, len),
        // mmap(2) knows one way only
        Allocator::Pages => Block::allocate(allocator, len).map(Buffer::Pages),
    }
}

fn made(heap: Heap, way: Way, len: usize) -> io::Result<Buffer> {
    let piece = match way {
        Way::Malloc => Piece::malloc(heap, len),
        Way::Calloc => Piece::calloc(heap, len),
        Way::Realloc => grown(heap, GROWS_FROM, len, |now| (now + now / 2).min(len)),
        Way::Memalign64 => Piece::aligned(heap, 64, len),
        Way::Memalign4096 => Piece::aligned(heap, 4096, len),
        Way::Vec => grown(heap, VEC_FROM, len, |now| now * 2),
    };
    piece.map(|mut piece| {
        if !matches!(way, Way::Malloc | Way::Memalign64 | Way::Memalign4096) {
            piece.discard();
        }
        Buffer::Piece(piece)
    })
}

/// A buffer that grows until it holds `len` bytes.
fn grown(heap: Heap, from: usize, len: usize, next: impl Fn(usize) -> usize) -> io::Result<Piece> {
    let mut now = from;
    let mut piece = Piece::malloc(heap, now)?;
    while now < len {
        now = next(now);
        piece.grow(now)?;
    }
    Ok(piece)
}

/// Page offsets of every length: first with all buffers held, whatever their length, so that nothing was
/// freed before; then again after all were given back.
fn placed(order: &Order, allocate: impl Fn(usize) -> io::Result<Buffer>) -> Answer {
    // glibc's heap is to hold nothing else between the buffers: all room is taken before
    let mut answer = Answer::default();
    answer.refused.reserve(2 * order.lens.len());
    answer.groups.reserve(2 * order.lens.len());
    for state in [HeapState::First, HeapState::AfterFrees] {
        let group = |wanted: &Wanted| {
            let offsets = Vec::with_capacity(wanted.count(state));
            Group { len: wanted.len, state, offsets }
        };
        answer.groups.extend(order.lens.iter().map(group));
    }
    let mut held =
        Vec::with_capacity(order.lens.iter().map(|wanted| wanted.first.max(wanted.after_frees)).sum());
    for (index, group) in answer.groups.iter_mut().enumerate() {
        if group.state == HeapState::AfterFrees {
            held.clear();
        }
        let count = order.lens[index % order.lens.len()].count(group.state);
        if let Err(error) = fill(group, count, &mut held, &allocate) {
            answer.refused.push((group.len, crate::sys::reason(&error)));
        }
    }
    answer
}

fn fill(
    group: &mut Group,
    count: usize,
    held: &mut Vec<Buffer>,
    allocate: impl Fn(usize) -> io::Result<Buffer>,
) -> io::Result<()> {
    let len = usize::try_from(group.len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    for _ in 0..count {
        let buffer = allocate(len)?;
        group.offsets.push(buffer.offset());
        held.push(buffer);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(allocator: Allocator, way: Way) -> Order {
        let lens = [(100, 3, 3), (5000, 8, 2), (1 << 20, 4, 4), (3 << 20, 2, 0)];
        Order { allocator: Some(allocator), way, lens: lens.map(wanted).to_vec() }
    }

    fn wanted((len, first, after_frees): (u64, usize, usize)) -> Wanted {
        Wanted { len, first, after_frees }
    }

    #[test]
    fn as_many_offsets_as_asked_for_in_both_states() {
        for &allocator in Allocator::ALL.iter().filter(|a| present(**a).is_ok()) {
            for &way in Way::ALL {
                let order = order(allocator, way);
                let told = obey(&serde_json::to_string(&order).unwrap());
                let answer: Result<Answer, String> = serde_json::from_str(&told).unwrap();
                let Answer { groups, refused } = answer.unwrap();
                assert!(refused.is_empty(), "{refused:?}");
                assert_eq!(groups.len(), 2 * order.lens.len());
                for (index, group) in groups.iter().enumerate() {
                    let wanted = order.lens[index % order.lens.len()];
                    let state =
                        if index < order.lens.len() { HeapState::First } else { HeapState::AfterFrees };
                    let expected = (wanted.len, state, wanted.count(state));
                    assert_eq!((group.len, group.state, group.offsets.len()), expected);
                    let alignment = way.alignment().filter(|_| allocator != Allocator::Pages).unwrap_or(1);
                    assert!(
                        group.offsets.iter().all(|o| *o < 4096 && o.is_multiple_of(alignment)),
                        "{group:x?}"
                    );
                    assert!(allocator != Allocator::Pages || group.offsets.iter().all(|o| *o == 0));
                }
            }
        }
    }

    #[test]
    fn growth_ends_where_it_should() {
        let grown = |way, len| match made(Heap::Process, way, len).unwrap() {
            Buffer::Piece(piece) => piece,
            Buffer::Pages(_) => panic!("of malloc"),
        };
        let text = format!("{:?}", grown(Way::Vec, 100_000));
        assert!(text.contains("len: 131072"), "{text}");
        let text = format!("{:?}", grown(Way::Realloc, 100_000));
        assert!(text.contains("len: 100000"), "{text}");
        let text = format!("{:?}", grown(Way::Realloc, 5));
        assert!(text.contains("len: 4096"), "a buffer to grow is never shorter: {text}");
    }

    #[test]
    fn what_cannot_be_had_is_told_and_the_rest_measured() {
        let lens = [(1000, 4, 4), (1 << 60, 4, 4)].map(wanted).to_vec();
        let order = Order { allocator: Some(Allocator::Jemalloc), way: Way::Malloc, lens };
        let Answer { groups, refused } = answer(&order).unwrap();
        assert_eq!((groups[0].offsets.len(), groups[1].offsets.len(), refused.len()), (4, 0, 2));
        assert_eq!(refused[0].0, 1 << 60);
    }

    #[test]
    fn without_a_library_nothing_is_replaced() {
        let order = Order { allocator: None, way: Way::Malloc, lens: vec![wanted((1000, 4, 4))] };
        assert_eq!(answer(&order), Err("it does not replace malloc".into()));
        assert!(obey("nonsense").starts_with("{\"Err\":"));
    }
}
