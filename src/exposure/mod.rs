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
pub use session::{Measured, Session, SessionError, Source};

use crate::report::{Allocator, HeapState, Way};
use serde::{Deserialize, Serialize};

/// What a child is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Whose buffers; null for those of the library that is preloaded.
    pub allocator: Option<Allocator>,
    /// In which way.
    pub way: Way,
    /// Lengths in rising order.
    pub lens: Vec<Wanted>,
}

/// How many buffers of a length are to be held at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Bytes.
    pub len: u64,
    /// Buffers while nothing was freed yet.
    pub first: usize,
    /// Buffers after all of those were freed.
    pub after_frees: usize,
}

impl Wanted {
    /// The number of a state.
    pub fn count(&self, state: HeapState) -> usize {
        match state {
            HeapState::First => self.first,
            HeapState::AfterFrees => self.after_frees,
        }
    }
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
