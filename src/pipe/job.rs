//! What a process of a pair is to do, and what it answers: JSON between processes of one program.

use crate::report::{Counted, HugeFound};
use serde::{Deserialize, Serialize};

/// Which of the processes it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Puts bytes in: shared memory is its stdin, the pipe its stdout.
    Writer,
    /// Takes bytes out: the pipe is its stdin, shared memory its stdout.
    Reader,
    /// Works alone, on shared memory as its stdin.
    Alone,
}

impl Role {
    /// The word on its command line.
    pub fn word(self) -> &'static str {
        match self {
            Role::Writer => "writer",
            Role::Reader => "reader",
            Role::Alone => "alone",
        }
    }

    /// For people.
    pub fn who(self) -> &'static str {
        match self {
            Role::Alone => "process",
            role => role.word(),
        }
    }

    /// The role of that word.
    pub fn named(word: &str) -> Option<Role> {
        [Role::Writer, Role::Reader, Role::Alone].into_iter().find(|role| role.word() == word)
    }
}

/// How bytes are put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Put {
    /// write(2).
    Write,
    /// vmsplice(2).
    Vmsplice,
    /// memcpy into a ring.
    Ring,
    /// There is no writer.
    Nothing,
}

/// How bytes are taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Take {
    /// read(2).
    Read,
    /// splice(2) to /dev/null.
    Splice,
    /// memcpy out of a ring.
    Ring,
    /// One thread reads memory in order.
    Ram,
    /// Nothing is taken out; what putting in costs is timed.
    Mapping,
}

/// One way through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// The writer's call.
    pub put: Put,
    /// The reader's call.
    pub take: Take,
    /// Whether buffers ask for huge pages.
    pub huge: bool,
    /// Whether calls that would wait are repeated at once instead.
    pub busy: bool,
}

/// Whether buffers are touched by the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Touch {
    /// Written once, before measuring.
    #[default]
    Once,
    /// And a byte of each page written before each sending, and read after each arrival.
    Each,
    /// Not at all: the kernel meets memory without pages.
    Never,
}

/// What a call does that would have to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waiting {
    /// It waits.
    Block,
    /// It returns, and poll(2) waits.
    Poll,
    /// It returns and is repeated.
    Busy,
}

/// Bytes sent between two meetings of the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Page offset of the reader's buffer.
    pub dst: u16,
    /// Page offset of the writer's.
    pub src: u16,
    /// How many; a multiple of the page size.
    pub bytes: u64,
}

/// All that the processes of one sample have to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The process that started them, with which they end.
    pub parent: u32,
    /// The CPUs of writer and reader.
    pub cpus: [u32; 2],
    /// The way.
    pub way: Way,
    /// What waiting calls do.
    pub waiting: Waiting,
    /// Bytes of one call.
    pub buffer: usize,
    /// Bytes that the pipe, or the ring, holds.
    pub pipe: usize,
    /// Whether vmsplice gives the pages away (SPLICE_F_GIFT).
    pub gift: bool,
    /// Whether one buffer is sent again and again, whoever still reads it.
    pub same_buffer: bool,
    /// Whether buffers are touched.
    pub touch: Touch,
    /// The pattern's seed, where every byte is checked.
    pub verify: Option<u64>,
    /// What is sent, in this order.
    pub segments: Vec<Segment>,
}

impl Job {
    /// Whether both processes share one CPU, so that spinning keeps the other from running.
    pub fn one_cpu(&self) -> bool {
        self.cpus[0] == self.cpus[1]
    }

    /// Bytes of shared memory behind the counters.
    pub fn ring(&self) -> usize {
        if self.way.put == Put::Ring { self.pipe } else { 0 }
    }
}

/// What a process counted in one segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// CLOCK_MONOTONIC when it began.
    pub began_ns: u64,
    /// And when it was done.
    pub ended_ns: u64,
    /// Bytes that it moved.
    pub bytes: u64,
    /// Faults and switches; none where the kernel does not count by thread.
    pub counted: Option<Counted>,
}

/// A process's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// All segments were moved.
    Done {
        /// One a segment.
        segments: Vec<Counts>,
        /// Whether its buffers were huge, where asked for.
        huge: Option<HugeFound>,
    },
    /// It could not go on.
    Ended(Ended),
}

/// Why a process ended early.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Ended {
    /// The other end of the pipe is gone.
    #[error("the other end of the pipe was closed")]
    PeerGone,
    /// A byte arrived that had not been sent.
    #[error("byte {at} of segment {segment} arrived wrong")]
    Mismatch {
        /// The segment, from 0.
        segment: usize,
        /// The byte within it, from 0.
        at: u64,
    },
    /// The system refused something.
    #[error("{0}")]
    Refused(String),
}

impl Ended {
    /// A call that failed.
    pub fn refused(call: &str, error: &std::io::Error) -> Ended {
        Ended::Refused(format!("{call}: {}", crate::sys::reason(error)))
    }
}
