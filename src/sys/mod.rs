//! Every `unsafe` of the crate, each block with its SAFETY comment, behind safe functions.
//!
//! System calls that the standard library lacks, memory from each allocator, the clock, and the few
//! kernel files that several rooms read. This room knows nothing of cells, sampling or judging; it
//! may use the report's words, nothing else.

pub mod block;
pub mod cgroup;
pub mod child;
pub mod clock;
pub mod cpu;
pub mod descriptor;
pub mod file;
pub mod file_system;
pub mod heap;
pub mod limits;
pub mod machine;
pub mod mapping;
pub mod memory;
pub mod pagemap;
pub mod perf;
pub mod perf_sample;
pub mod proc;
pub mod ptrace;
pub mod region;
pub mod reserve;
pub mod ring;
pub mod routines;
pub mod sandbox;
pub mod seccomp;
pub mod shared;
pub mod signals;
pub mod smaps;
pub mod started;
pub mod stdio;
pub mod tracer;
pub mod transfer;
pub mod usage;

#[cfg(test)]
mod guarded;
#[cfg(test)]
pub(crate) mod interrupt;
#[cfg(test)]
mod owner;
#[cfg(test)]
pub(crate) mod refuse;

/// The system's reason without its error number, for the middle of a line.
pub fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.as_str(), |(words, _)| words).to_owned()
}
