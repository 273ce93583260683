//! What `fsprobe trace` records of a running program and concludes.

mod judged;

pub use judged::{TraceAnswer, TraceBand, TraceBands, TraceDistance, TracePath, TraceRow, TraceThread};

use super::{UnknownWord, words::words};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

words! {
    /// How a program is watched.
    Via, "way of tracing", {
        /// Interrupts that look at the registers: shares of time.
        Sample = "sample",
        /// A shared object between the program and its C library: exact counts.
        Preload = "preload",
        /// A seccomp filter and ptrace(2): exact counts of system calls.
        Ptrace = "ptrace",
    }
}

words! {
    /// What a file descriptor leads to, as far as copies go.
    FileKind, "kind of file", {
        /// A file in the page cache: the page offset of the source is that of the file offset.
        PageCache = "page-cache",
        /// A file opened with O_DIRECT: nothing is copied by the CPU.
        Direct = "direct",
        /// A pipe or FIFO.
        Pipe = "pipe",
        /// A socket.
        Socket = "socket",
        /// A terminal or another device.
        Device = "device",
        /// A file of a file system that keeps nothing in the page cache: /proc, /sys, …
        Uncached = "uncached",
        /// No file: from memory to memory.
        Memory = "memory",
        /// It could not be told.
        Unknown = "unknown",
    }
}

/// The object `trace` of the JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// How the program was watched.
    pub via: Via,
    /// Why this way and no other, in one sentence.
    pub via_reason: String,
    /// The program: its words or its name; null with `--anonymous` and for the whole system.
    pub program: Option<String>,
    /// The process that `--pid` named.
    pub pid: Option<u32>,
    /// What was watched.
    pub watched: Watched,
    /// The bands that copies are compared with.
    pub bands: TraceBands,
    /// What was concluded.
    pub answer: TraceAnswer,
}

/// What one way of watching saw; nothing in it is judged.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Watched {
    /// Nanoseconds watched.
    pub wall_ns: u64,
    /// Nanoseconds of CPU time, user and system, that the program took; null where it cannot be told.
    pub cpu_ns: Option<u64>,
    /// Nanoseconds of `cpu_ns` that the watching itself may have taken; null where that is next to nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watching_ns: Option<u64>,
    /// Calls that were counted one by one (`preload`, `ptrace`); empty for `sample`.
    #[serde(default)]
    pub copies: Vec<Copies>,
    /// What interrupts saw; null for the exact ways.
    #[serde(default)]
    pub samples: Option<Samples>,
    /// Copies inside the program, which the exact ways do not see, as interrupts saw them; null where none were taken, or
    /// its code can hold none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<OwnCopies>,
    /// What could not be seen.
    #[serde(default)]
    pub unseen: Vec<Unseen>,
}

/// What a program copies itself, between the calls that are counted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OwnCopies {
    /// Nanoseconds of CPU time outside the kernel.
    pub user_ns: u64,
    /// Samples of that time.
    pub samples: Samples,
}

/// Something that a way of watching cannot see.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Unseen {
    /// What: `copies inside the kernel`, `calls of process 123`, …; it names no program and no file.
    pub what: String,
    /// The program that it is about; null where it is about none, or about all.
    #[serde(default)]
    pub program: Option<String>,
    /// Why.
    pub why: String,
    /// What would show it: a command or another way; null where nothing would.
    pub remedy: Option<String>,
    /// How many bytes were copied unseen; null where that is not known.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Nanoseconds of CPU time that it took at most; null where that is not known.
    #[serde(default)]
    pub within_ns: Option<u64>,
    /// Whether any number of copies may be among it: where that is so, nothing is clean.
    #[serde(default)]
    pub any: bool,
}

impl Unseen {
    /// What, and the program in brackets.
    pub fn whose(&self) -> String {
        match &self.program {
            Some(program) => format!("{} ({program})", self.what),
            None => self.what.clone(),
        }
    }
}

/// Calls of one kind of one process to one file, counted one by one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copies {
    /// The process.
    pub pid: u32,
    /// Its program's name (what the kernel calls comm).
    pub program: String,
    /// The call: `read`, `pread64`, `fread`, `memcpy`, …
    pub call: String,
    /// The file's name; null where there is none and with `--anonymous`.
    pub file: Option<String>,
    /// What kind of file.
    pub kind: FileKind,
    /// Whether the file is what bytes come from; false where they go to it, null for `memory`.
    pub from_file: Option<bool>,
    /// Calls that ended without an error.
    pub calls: u64,
    /// Calls that ended with an error (EAGAIN and EINTR among them).
    pub failed: u64,
    /// Bytes that the calls moved.
    pub bytes: u64,
    /// Where the copies landed, by distance and class of length; one call may make several copies (readv). Sorted.
    pub landings: Vec<Landing>,
    /// Where the program's buffers were, by page offset; sorted.
    pub buffers: Vec<AtOffset>,
}

/// Copies of one distance and one class of length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Landing {
    /// (dst - src) mod 4096; null where it cannot be known (pipes, sockets, files outside the page cache).
    pub distance: Option<u16>,
    /// Copies of 2^class to 2^(class + 1) - 1 bytes.
    pub class: u8,
    /// Copies.
    pub copies: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Copies from or to program memory at one page offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AtOffset {
    /// The page offset.
    pub offset: u16,
    /// Copies.
    pub copies: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What interrupts saw.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Samples {
    /// Nanoseconds of CPU time between two samples of a thread.
    pub period_ns: u64,
    /// Samples in all, inside copies or not.
    pub taken: u64,
    /// Samples that the kernel dropped, for want of room or because it was throttled.
    pub lost: u64,
    /// Samples of which nobody can tell whether they met a copy: what they interrupted could not be read.
    #[serde(default)]
    pub unread: u64,
    /// Whether copies inside the kernel could be seen.
    pub kernel_seen: bool,
    /// Samples inside a `rep movs`, by who, where and distance; sorted.
    pub inside: Vec<Inside>,
}

/// Samples inside a `rep movs` of one thread, from one place, at one distance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Inside {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Its name (what the kernel calls comm).
    pub program: String,
    /// The place in the program that copies, or that called the kernel; null where it cannot be told.
    pub site: Option<Site>,
    /// The kernel's path (`read: filemap_read`); null for copies in user space.
    pub kernel: Option<String>,
    /// The call asked for 2^class to 2^(class + 1) - 1 bytes; null where no length is told: in user space, and of calls
    /// that take lists of buffers.
    #[serde(default)]
    pub class: Option<u8>,
    /// (dst - src) mod 4096.
    pub distance: u16,
    /// Page offset of the destination when it was last seen.
    pub dst: u16,
    /// Samples.
    pub samples: u64,
}

/// A place in a program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Site {
    /// The program or library; null with `--anonymous`.
    pub module: Option<String>,
    /// Address inside it, as its own tables count.
    pub address: u64,
    /// The function; null where no table names it.
    pub symbol: Option<String>,
    /// File and line; null without debug information.
    pub line: Option<String>,
}
