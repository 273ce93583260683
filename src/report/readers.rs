//! What `fsprobe readers` measures and concludes: the published table of programs that read one file.

use super::{UnknownWord, distance, words::words};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

words! {
    /// One way a program reads a whole file.
    ReaderName, "reader", {
        /// C: `fopen`, `malloc`, one `fread`.
        Fread = "fread",
        /// The same, its buffer moved to a page offset that no known CPU is slow at.
        FreadMoved = "fread-moved",
        /// Rust: `std::fs::read`.
        FsRead = "fs-read",
        /// Rust: `File::read_to_end` into an empty `Vec`.
        ReadToEnd = "read-to-end",
        /// Rust: `BufReader`, 8 KiB at a time, into a `Vec`.
        BufReader = "buf-reader",
        /// read(2) into a buffer of jemalloc's.
        Jemalloc = "jemalloc",
        /// read(2) into a buffer of mimalloc's.
        Mimalloc = "mimalloc",
        /// mmap(2), every page touched; copies nothing.
        Mmap = "mmap",
        /// Python: `open(file, 'rb').read()`.
        Python = "python",
        /// OpenDAL's fs service, where fsprobe was built with it.
        Opendal = "opendal",
        /// The user's command.
        Command = "command",
    }
}

impl ReaderName {
    /// Whether it is another program than fsprobe, whose calls only a tracer sees.
    pub fn is_foreign(self) -> bool {
        matches!(self, ReaderName::Python | ReaderName::Command)
    }
}

words! {
    /// Whether transparent huge pages may back the reader's memory.
    HugePages, "huge pages", {
        /// Refused to the whole process by prctl(2).
        Off = "off",
        /// Given by the system's setting, or asked for with madvise(2).
        On = "on",
        /// As the system has it: neither can be set here.
        AsIs = "as-is",
    }
}

words! {
    /// Why a reader is slower than the best.
    Reason, "reason", {
        /// It is the best, or within 5 % of it.
        AsFast = "as-fast",
        /// The page offset that its buffer landed at.
        Offset = "offset",
        /// Page faults.
        Faults = "faults",
        /// The start and the own work of another program.
        ProcessStart = "process-start",
        /// Many short reads, or bytes moved on inside the process.
        Buffering = "buffering",
        /// Nothing that was measured explains it.
        Unexplained = "unexplained",
        /// It cannot be told, for want of a measurement.
        Unknown = "unknown",
    }
}

/// The object `readers` of the JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Readers {
    /// The file's name; null for fsprobe's own and with `--anonymous`.
    pub file: Option<String>,
    /// Bytes in the file.
    pub size: u64,
    /// The file system's name.
    pub fs_type: Option<String>,
    /// The CPU that all ran on.
    pub cpu: u32,
    /// Rounds measured in full.
    pub rounds: u32,
    /// Why addresses and times of other programs' reads could not be watched; null where they were.
    pub untraced: Option<String>,
    /// What of huge pages could not be set, and why.
    pub huge_pages_note: Option<String>,
    /// One a reader and kind of pages.
    pub readers: Vec<Reader>,
    /// What could not be run, and why.
    pub skipped: Vec<SkippedReader>,
}

/// A reader that could not be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedReader {
    /// Which.
    pub reader: ReaderName,
    /// Under which pages; null where under none.
    pub huge_pages: Option<HugePages>,
    /// Why.
    pub reason: String,
}

/// One reader under one kind of pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reader {
    /// Which.
    pub reader: ReaderName,
    /// Under which pages.
    pub huge_pages: HugePages,
    /// The program that ran; null for fsprobe's own readers and with `--anonymous`.
    pub program: Option<String>,
    /// Where its reads put the bytes; null where it reads nothing or nobody could watch.
    pub landed: Option<Landed>,
    /// Bytes of the file that its reads brought; null where nobody could watch.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Nanoseconds inside read(2), summed over the file, by round.
    pub read: Option<Times>,
    /// Why `read` is null.
    pub read_unknown: Option<String>,
    /// Nanoseconds of the whole call (open, allocate, read, close), told by the reader itself.
    pub call: Option<Times>,
    /// Nanoseconds from the start of the process to its end.
    pub process: Times,
    /// Page faults of the call where the reader tells them, else of the process: the median.
    pub faults: Option<u64>,
    /// The same reads elsewhere; null where nothing landed.
    pub moved: Option<MovedBuffer>,
    /// How many times as long as the best reader under the same pages.
    pub slowdown: Option<f64>,
    /// Why.
    pub reason: Reason,
    /// Where its time beyond the best reader's goes.
    pub excess: Option<Excess>,
}

impl Reader {
    /// Whether the user's command is known to have read something else than the file once: then its time says nothing
    /// of how it reads.
    pub fn read_otherwise(&self, size: u64) -> bool {
        self.reader == ReaderName::Command && self.bytes.is_some_and(|bytes| bytes != size)
    }

    /// What is compared between readers: the call, or the process where no call is told.
    pub fn whole(&self) -> &Times {
        self.call.as_ref().unwrap_or(&self.process)
    }
}

/// Where reads put the bytes: that of most bytes, and how they came.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Landed {
    /// Page offset of the buffer.
    pub dst: u16,
    /// Page offset of the file position.
    pub src: u16,
    /// (dst - src) mod 4096.
    pub distance: u16,
    /// Calls that read from the file.
    pub reads: u64,
    /// Bytes of the read that most bytes came with.
    pub len: u64,
    /// Whether reads came to the same addresses again.
    pub reused: bool,
    /// Share of the bytes that landed at `dst`.
    pub share: f64,
}

impl Landed {
    /// The page offset that the control of this landing uses: of the same class of alignment (mod 0x20),
    /// at a distance from 0x400 on, where no CPU is known to be slow; from 0x700 on if it is there already.
    pub fn moved(&self) -> u16 {
        let rest = self.distance % 0x20;
        let far = if (0x300..0x500).contains(&self.distance) { 0x700 } else { 0x400 };
        (self.src + far + rest) % super::PAGE
    }

    /// A landing whose distance follows from the rest.
    pub fn at(dst: u16, src: u16, reads: u64, len: u64) -> Landed {
        Landed { dst, src, distance: distance(dst, src), reads, len, reused: false, share: 1.0 }
    }
}

/// Samples and what they come to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Times {
    /// The median in nanoseconds.
    pub median_ns: f64,
    /// Its 95 % interval by order statistics; null with fewer than six samples.
    pub ci95_ns: Option<[f64; 2]>,
    /// By round.
    pub ns: Vec<u64>,
}

/// The reader's reads done again by fsprobe, into memory of its own: fresh at the same page offset,
/// fresh at another, and at the same with the pages present before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MovedBuffer {
    /// The other page offset.
    pub dst: u16,
    /// Fresh memory, the reader's page offset: nanoseconds by round.
    pub same_ns: Vec<u64>,
    /// Fresh memory, the other page offset.
    pub moved_ns: Vec<u64>,
    /// Memory that was touched before, the reader's page offset.
    pub present_ns: Vec<u64>,
    /// How many times as long the reads take at the reader's page offset as at the other.
    pub ratio: f64,
    /// Its 95 % interval.
    pub ratio_ci95: Option<[f64; 2]>,
    /// Whether the reader's page offset is clearly the slower one.
    pub slow: bool,
}

/// Nanoseconds beyond the best reader, by where they go; negative where a reader gains.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Excess {
    /// In all.
    pub total_ns: f64,
    /// What the page offset costs.
    pub offset_ns: f64,
    /// What page faults cost.
    pub faults_ns: f64,
    /// Outside read(2), in another program.
    pub process_ns: f64,
    /// Outside read(2) inside the call, and what many short reads cost.
    pub buffering_ns: f64,
}
