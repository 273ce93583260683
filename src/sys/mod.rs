//! Every `unsafe` of the crate, each block with its SAFETY comment, behind safe functions.
//!
//! System calls that the standard library lacks, memory from each allocator, the clock, and the few
//! kernel files that several rooms read. This room knows nothing of cells, sampling or judging; it
//! may use the report's words, nothing else.

pub mod block;
pub mod cgroup;
pub mod clock;
pub mod cpu;
pub mod file;
pub mod limits;
pub mod usage;

#[cfg(test)]
pub(crate) mod interrupt;
