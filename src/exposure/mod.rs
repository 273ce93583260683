//! Where allocators put the buffers that programs ask them for.
//!
//! Each allocator is asked in each way in child processes of their own, this very program under a hidden
//! option ([`child`]): some allocators are random per process, and glibc changes its mind once something
//! was freed. A shared object that replaces malloc is measured through LD_PRELOAD in the same way
//! ([`library`]). Nothing is written to the buffers, so they take addresses rather than memory
//! ([`plan`] says how many). This room measures; what the offsets mean is for the judge. It may use
//! `allocator`, `sys` and the report's words, nothing else.

pub mod child;
pub mod library;
pub mod plan;
mod session;

pub use library::{Library, LibraryError};
pub use plan::{LONGEST, Plan, Room};
pub use session::{Measured, SessionError, Session, Source};

use crate::report::{Allocator, HeapState, Way};
use serde::{Deserialize, Serialize};

/// What a child is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Whose buffers; null for those of the library that is preloaded.
    pub allocator: Option<Allocator>,
    /// In which way.
    pub way: Way,
    /// Lengths in rising order, each with the number of buffers that are held at once.
    pub lens: Vec<(u64, usize)>,
}

/// What it found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Answer {
    /// One a length and state.
    pub groups: Vec<Group>,
    /// What was refused: the length and the system's reason.
    pub refused: Vec<(u64, String)>,
}

/// Offsets of one length in one state, in the order they came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Bytes asked for.
    pub len: u64,
    /// What the process did before.
    pub state: HeapState,
    /// Page offsets.
    pub offsets: Vec<u16>,
}
