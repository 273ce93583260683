//! Which copies of a running program land where: three ways of watching, one result.
//!
//! Each way runs a command, or attaches to what runs, and gives a [`Watched`]; whether a distance is a
//! band, and what that costs, is for the judge. A program that is watched behaves as without it. This
//! room may use `sys`, what `host` knows of the C library, and the report's words.

mod files;
mod inside;
mod instruction;
mod job;
pub mod launch;
pub mod preload;
pub mod ptrace;
pub mod sample;
mod symbols;
mod tally;

pub use launch::{Launch, Refused};

use crate::report::{Unseen, Watched};
use std::collections::BTreeSet;
use std::io;
use std::process::ExitStatus;

/// What shows copies whoever makes them.
const BY_SAMPLE: &str = "fsprobe trace --via sample";

/// What shows every system call.
const BY_PTRACE: &str = "fsprobe trace --via ptrace";

/// What was watched, and how the command ended.
#[derive(Debug)]
pub struct Done {
    /// What was seen.
    pub watched: Watched,
    /// How the command ended; none where a running program was watched and left.
    pub status: Option<ExitStatus>,
}

/// Processes that the command left running.
fn still_running(left: &BTreeSet<u32>) -> Option<Unseen> {
    let list: Vec<String> = left.iter().take(5).map(ToString::to_string).collect();
    let more = if left.len() > list.len() { ", …" } else { "" };
    (!left.is_empty()).then(|| Unseen {
        what: format!("what processes that still run do from here on: {}{more}", list.join(", ")),
        why: "the command has ended before them".into(),
        // which waits for them
        remedy: Some(BY_PTRACE.into()),
        any: true,
        ..Unseen::default()
    })
}

/// CPU time as it can be told where the kernel told this: what processes have used that outlived the command, or that
/// nobody waited for, is not among it, so that it is only known where it is not less than the time watched.
fn all_of(cpu_ns: Option<u64>, wall_ns: u64, is_part: bool) -> Option<u64> {
    cpu_ns.filter(|cpu_ns| !is_part || *cpu_ns >= wall_ns)
}

/// Why a way of watching gives nothing.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The command cannot be started.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// This way is not open here: the reason in words, and the setting or other way that would do.
    #[error("{0}")]
    Closed(String),
    /// It broke off.
    #[error("{what}: {}{}", crate::sys::reason(.error), launch::advice(.error))]
    Broken {
        /// What failed.
        what: &'static str,
        /// The system's reason.
        error: io::Error,
    },
}
