//! Yardstick: a ring in shared memory between the same two processes, a memcpy in and a memcpy out.

use super::buffers::{Buffers, PAGE, read_pages, write_pages};
use super::end::timed;
use super::job::{Counts, Ended, Job, Segment, Touch};
use super::pattern;
use super::step::{Counter, meet, wait_until};
use crate::sys::shared::Shared;
use std::sync::atomic::Ordering;

/// Bytes of one slot, which takes one copy: a quarter of the ring at most, so that both sides can be under way.
fn slot(job: &Job) -> usize {
    let most = job.buffer.min((job.pipe / 4).max(PAGE));
    // a power of two, as the ring is one: no slot runs across the ring's end
    1 << most.ilog2()
}

/// Puts all segments into the ring.
pub fn put(job: &Job, shared: &Shared) -> Result<Vec<Counts>, Ended> {
    let mut buffers = Buffers::of_writer(job).map_err(|e| Ended::refused("the writer's memory", &e))?;
    let (slot, mut counts) = (slot(job), Vec::new());
    for (index, segment) in job.segments.iter().enumerate() {
        buffers.move_to(segment.src);
        meet(job, shared, Counter::Writer, Counter::Reader, index);
        counts.push(timed(segment.bytes, || {
            each_piece(job, segment, |position, len| {
                let bytes = &mut buffers.turn()[..len];
                match job.verify {
                    Some(seed) => pattern::fill(seed ^ index as u64, position, bytes),
                    None if job.touch == Touch::Each => write_pages(bytes),
                    None => {}
                }
                let put = shared.counter(Counter::Put as usize);
                let at = put.load(Ordering::Relaxed);
                let taken = shared.counter(Counter::Taken as usize);
                let room = (job.pipe - slot) as u64;
                wait_until(job, || at - taken.load(Ordering::Acquire) <= room);
                shared.put((at % job.pipe as u64) as usize, bytes);
                put.store(at + slot as u64, Ordering::Release);
                Ok(())
            })
        })?);
    }
    Ok(counts)
}

/// Takes all segments out of it.
pub fn take(job: &Job, shared: &Shared) -> Result<Vec<Counts>, Ended> {
    let mut buffers = Buffers::of_reader(job).map_err(|e| Ended::refused("the reader's memory", &e))?;
    let mut scratch = vec![0; PAGE];
    let (slot, mut counts) = (slot(job), Vec::new());
    for (index, segment) in job.segments.iter().enumerate() {
        buffers.move_to(segment.dst);
        meet(job, shared, Counter::Reader, Counter::Writer, index);
        counts.push(timed(segment.bytes, || {
            each_piece(job, segment, |position, len| {
                let bytes = &mut buffers.turn()[..len];
                let taken = shared.counter(Counter::Taken as usize);
                let at = taken.load(Ordering::Relaxed);
                let put = shared.counter(Counter::Put as usize);
                wait_until(job, || put.load(Ordering::Acquire) - at >= slot as u64);
                shared.take((at % job.pipe as u64) as usize, bytes);
                taken.store(at + slot as u64, Ordering::Release);
                if job.touch == Touch::Each {
                    read_pages(bytes);
                }
                let Some(seed) = job.verify else { return Ok(()) };
                match pattern::first_wrong(seed ^ index as u64, position, u64::MAX, bytes, &mut scratch) {
                    Some(at) => Err(Ended::Mismatch { segment: index, at }),
                    None => Ok(()),
                }
            })
        })?);
    }
    Ok(counts)
}

/// Both sides cut a segment in the same way.
fn each_piece(
    job: &Job,
    segment: &Segment,
    mut of: impl FnMut(u64, usize) -> Result<(), Ended>,
) -> Result<(), Ended> {
    let slot = slot(job);
    let mut position = 0;
    while position < segment.bytes {
        let len = usize::try_from(segment.bytes - position).unwrap_or(usize::MAX).min(slot);
        of(position, len)?;
        position += len as u64;
    }
    Ok(())
}
