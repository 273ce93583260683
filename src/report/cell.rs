//! What was measured: runs, cells with their raw samples, placements, noise.

use super::words::{Allocator, PathName, Phase};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A cell to be sampled: what `judge` asks for and the grid plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellSpec {
    /// How the bytes move.
    pub path: PathName,
    /// Who placed the buffer; none in a replayed recording.
    pub allocator: Option<Allocator>,
    /// Bytes copied.
    pub len: u64,
    /// Page offset of the destination, 0x000..=0x1000.
    pub dst: u16,
    /// Page offset of the source, 0x000..=0x1000.
    pub src: u16,
    /// Whether other cells are compared with this one.
    pub reference: bool,
}

/// One execution of a phase: complete blocks over a fixed set of cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Whether it proposes or decides.
    pub phase: Phase,
    /// Complete blocks recorded.
    pub rounds: u32,
    /// Warm-up rounds taken before and thrown away.
    pub warmup_discarded: u32,
    /// The pages each round's buffers and source started on.
    #[serde(deserialize_with = "super::samples::bounded")]
    pub pages: Vec<RoundPages>,
    /// Nanoseconds of a fixed dependent arithmetic chain, one a round: the core's speed.
    #[serde(deserialize_with = "super::samples::bounded")]
    pub core_ns: Vec<u64>,
}

/// Start pages of one round, as indices into an allocator's pool; `source` is that of the path's own side,
/// on whichever side of the copy it lies: the source file where one is read, what is written to else.
pub type RoundPages = BTreeMap<String, u64>;

/// One (path, allocator, dst, src, len) with its samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Index into the report's runs.
    pub run: usize,
    /// How the bytes moved.
    pub path: PathName,
    /// Who placed the buffer.
    pub allocator: Option<Allocator>,
    /// Page offset of the destination, 0x000..=0x1000.
    pub dst: Option<u16>,
    /// Page offset of the source, 0x000..=0x1000.
    pub src: Option<u16>,
    /// Bytes of one copy.
    pub len: u64,
    /// Copies in one sample.
    pub repeat: u32,
    /// Whether other cells were compared with this one.
    pub reference: bool,
    /// Nanoseconds of one sample (`repeat` copies), one a round, null where it was lost.
    #[serde(deserialize_with = "super::samples::bounded")]
    pub ns: Vec<Option<u64>>,
}

impl Cell {
    /// The place of the cell in the plan.
    pub fn spec(&self) -> Option<CellSpec> {
        Some(CellSpec {
            path: self.path,
            allocator: self.allocator,
            len: self.len,
            dst: self.dst?,
            src: self.src?,
            reference: self.reference,
        })
    }
}

/// Something asked for that could not be measured, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The copy path.
    pub path: PathName,
    /// The allocator, where it alone was left out.
    pub allocator: Option<Allocator>,
    /// The reason, for people.
    pub reason: String,
}

impl Skipped {
    /// In words: what, and why.
    pub fn told(&self) -> String {
        let owner = self.allocator.map(|allocator| format!(" with {allocator}")).unwrap_or_default();
        format!("{}{owner}: {}", self.path, self.reason)
    }
}

/// Page offsets that an allocator returned on its own ("natural" offsets).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The allocator.
    pub allocator: Allocator,
    /// Bytes asked for.
    pub len: u64,
    /// How it was asked, such as `malloc, fresh`.
    pub how: String,
    /// Which process of the run; 0 is fsprobe itself.
    pub process: u32,
    /// The page offsets, one an allocation, in order.
    pub offsets: Vec<u16>,
}

/// How quiet the machine was.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Noise {
    /// The smallest slowdown that could be told from noise, per group of cells.
    #[serde(default)]
    pub floors: Vec<Floor>,
    /// A/A controls: one cell sampled twice in every block, on different pages.
    #[serde(default)]
    pub controls: Vec<Control>,
    /// Involuntary context switches of the measuring thread during sampling.
    #[serde(default)]
    pub context_switches: Option<u64>,
    /// Page faults of the measuring thread during sampling.
    #[serde(default)]
    pub page_faults: Option<u64>,
    /// Time a hypervisor took away from the CPU, all CPUs, in nanoseconds.
    #[serde(default)]
    pub steal_ns: Option<u64>,
    /// How often the control group was throttled during the run.
    #[serde(default)]
    pub throttled: Option<u64>,
    /// The core's frequency before and after, in kHz, where readable.
    #[serde(default)]
    pub frequency_khz: Option<[u64; 2]>,
    /// The clock's own precision in nanoseconds: the least difference it shows, its cost included.
    #[serde(default)]
    pub clock_precision_ns: Option<u64>,
    /// What of the buffers is not as it was asked for, such as how much became huge pages.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Samples lost (a short read that could not be completed, say).
    #[serde(default)]
    pub lost: u64,
}

/// A noise floor: A/A pairs of this group differ by at most this factor, but for one in eight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// The copy path.
    pub path: PathName,
    /// The allocator.
    pub allocator: Option<Allocator>,
    /// Bytes of one copy.
    pub len: u64,
    /// A factor of 1.0 and more.
    pub floor: f64,
}

/// One A/A pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// Index into the report's runs.
    pub run: usize,
    /// The copy path.
    pub path: PathName,
    /// The allocator.
    pub allocator: Option<Allocator>,
    /// Bytes of one copy.
    pub len: u64,
    /// Page offset of the destination.
    pub dst: u16,
    /// Nanoseconds under the first name, one a round.
    #[serde(deserialize_with = "super::samples::bounded")]
    pub ns_a: Vec<Option<u64>>,
    /// Nanoseconds under the second name, on other pages.
    #[serde(deserialize_with = "super::samples::bounded")]
    pub ns_b: Vec<Option<u64>>,
}
