//! How the two processes keep step: they meet before each segment.

use super::job::Job;
use crate::sys::shared::Shared;
use rustix::thread::sched_yield;
use std::hint::spin_loop;
use std::sync::atomic::Ordering;

/// The counters in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// Segments that the writer has come to.
    Writer = 0,
    /// Segments that the reader has come to.
    Reader = 1,
    /// Bytes put into the ring.
    Put = 2,
    /// Bytes taken out of it.
    Taken = 3,
}

/// Looks before a waiting process offers its CPU to others.
const LOOKS: u32 = 4096;

/// Waits until something is so. On one CPU the other process has to run for that.
pub fn wait_until(job: &Job, mut so: impl FnMut() -> bool) {
    let mut looks = 0;
    while !so() {
        looks += 1;
        if job.one_cpu() || looks % LOOKS == 0 {
            sched_yield();
        } else {
            spin_loop();
        }
    }
}

/// Comes to a segment and waits for the other process to come to it. Should that one have died, whoever
/// started both ends this one too.
pub fn meet(job: &Job, shared: &Shared, own: Counter, other: Counter, segment: usize) {
    let turn = segment as u64 + 1;
    shared.counter(own as usize).store(turn, Ordering::Release);
    wait_until(job, || shared.counter(other as usize).load(Ordering::Acquire) >= turn);
}
