//! What a child process is told to do, and what it answers: JSON on its command line and on its stdout.

use crate::report::ReaderName;
use serde::{Deserialize, Serialize};

/// What a child process does with the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Reads it as this reader does, once.
    Read {
        /// Which.
        reader: ReaderName,
        /// Whether it asks for huge pages where it owns the memory.
        ask_huge: bool,
    },
    /// Does a reader's reads again.
    Replay(Replay),
}

/// Reads to be done again, at two page offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Replay {
    /// The page offset that the reader's bytes landed at.
    pub dst: u16,
    /// The other page offset.
    pub moved: u16,
    /// The page offset of the file position.
    pub src: u16,
    /// Bytes of each read.
    pub len: u64,
    /// Whether each read comes to the same address.
    pub reused: bool,
    /// Whether huge pages are asked for.
    pub ask_huge: bool,
}

/// What a reader says of its run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Answer {
    /// Nanoseconds of the whole call: open, allocate, read, close, free.
    pub call_ns: u64,
    /// Nanoseconds inside read(2), where the reader makes these calls itself.
    pub read_ns: Option<u64>,
    /// Page faults of the call.
    pub faults: Option<u64>,
    /// The address that the bytes came to.
    pub at: Option<u64>,
    /// Bytes read.
    pub bytes: u64,
}

/// Nanoseconds inside read(2) of reads done again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Replayed {
    /// Into fresh memory at the reader's page offset.
    pub same_ns: u64,
    /// Into fresh memory at the other page offset.
    pub moved_ns: u64,
    /// Into memory touched before, at the reader's page offset.
    pub present_ns: u64,
}
