//! The bands that a traced program's copies are compared with, and what was concluded.

use super::{AtOffset, FileKind};
use crate::report::{PAGE, PathName, State};
use serde::{Deserialize, Serialize};

/// The bands that a program's copies are compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceBands {
    /// Where they come from, in words: `a check of this machine, just now`, `the report r.json`, `simulated zen3`.
    pub source: String,
    /// Whether they are a simulated machine's.
    pub simulated: bool,
    /// Whether they are of another machine than the program ran on, simulated or not: what it would lose there.
    #[serde(default)]
    pub elsewhere: bool,
    /// The state that their verdict tells.
    pub state: State,
    /// One a path and length at which paths were measured, bands or not: where a path is listed without bands, it has none.
    pub paths: Vec<TracePath>,
    /// The same of this machine where the bands are another's and samples were taken here: it turns their time into bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub here: Vec<TracePath>,
}

impl TraceBands {
    /// Whether there is any deep band.
    pub fn any(&self) -> bool {
        self.paths.iter().any(|path| !path.bands.is_empty())
    }
}

/// A copy path at one length, with its deep bands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TracePath {
    /// The copy path.
    pub path: PathName,
    /// Bytes of the copies measured.
    pub len: u64,
    /// Bytes per second outside every band; null where unknown.
    pub baseline_bytes_per_s: Option<f64>,
    /// Deep bands.
    pub bands: Vec<TraceBand>,
}

/// A deep band, on the axis `distance`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TraceBand {
    /// First distance.
    pub from: u16,
    /// Last distance, inclusive; below `from` where the band goes through 0xfff.
    pub to: u16,
    /// Time there by time elsewhere.
    pub slowdown: f64,
    /// Nanoseconds that a KiB takes more.
    pub penalty_ns_per_kib: f64,
}

impl TraceBand {
    /// Whether a distance lies inside.
    pub fn contains(&self, distance: u16) -> bool {
        distance.wrapping_sub(self.from) % PAGE <= self.to.wrapping_sub(self.from) % PAGE
    }
}

/// What was concluded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceAnswer {
    /// `clean`: not this program's problem; `affected`: it is; `inconclusive` where too much could not be seen.
    pub state: State,
    /// The verdict in a sentence or two.
    pub sentence: String,
    /// Share of the bytes (calls that were counted) or of the time in `rep movs` (samples) inside deep bands, of those that
    /// lost more where there are both; null without any.
    pub share_in_band: Option<f64>,
    /// Nanoseconds lost.
    pub lost_ns: Option<u64>,
    /// Whether `lost_ns` is an estimate: from the penalty of a band, or from its slowdown at one length, since samples do
    /// not tell how long a copy is. False where it is measured time, as no way of watching here has it.
    pub lost_is_estimate: bool,
    /// Nanoseconds that the loss is a part of: CPU time, or wall time where that is unknown.
    pub of_ns: u64,
    /// What copies, the costliest first: calls by file, then places in the program.
    #[serde(default)]
    pub rows: Vec<TraceRow>,
    /// Who copies, the costliest first: a process (counted calls), then a thread (samples).
    #[serde(default)]
    pub threads: Vec<TraceThread>,
    /// At which distances, the largest share first, of what `share_in_band` is of.
    #[serde(default)]
    pub distances: Vec<TraceDistance>,
    /// Where the program's buffers lay, most bytes first; empty for `sample`, which meets copies on their way.
    #[serde(default)]
    pub buffers: Vec<AtOffset>,
}

/// What copies: a call and a file (counted), or a place in the program (samples).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceRow {
    /// The program's name.
    pub program: String,
    /// The call, or the place: function and line where they are known.
    pub what: String,
    /// The file, or the kernel's path; null without one, and for files with `--anonymous`.
    pub place: Option<String>,
    /// What kind of file; null for samples.
    pub kind: Option<FileKind>,
    /// Calls that ended without an error; null for samples.
    pub calls: Option<u64>,
    /// Bytes copied; null for samples.
    pub bytes: Option<u64>,
    /// Nanoseconds inside `rep movs`; null for counted calls.
    pub copy_ns: Option<u64>,
    /// Share of the bytes, or of the time, inside deep bands; null where no distance is known.
    pub share_in_band: Option<f64>,
    /// Nanoseconds lost.
    pub lost_ns: u64,
}

/// A process (counted calls) or thread (samples) that copies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceThread {
    /// The process.
    pub pid: u32,
    /// The thread; null for counted calls.
    pub tid: Option<u32>,
    /// Its name.
    pub program: String,
    /// Bytes copied; null for samples.
    pub bytes: Option<u64>,
    /// Nanoseconds inside `rep movs`; null for counted calls.
    pub copy_ns: Option<u64>,
    /// Share of them inside deep bands; null where no distance is known.
    pub share_in_band: Option<f64>,
    /// Nanoseconds lost.
    pub lost_ns: u64,
}

/// What was copied at one distance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TraceDistance {
    /// (dst - src) mod 4096; null where it is not known.
    pub distance: Option<u16>,
    /// Share of all bytes, or of the time inside `rep movs`.
    pub share: f64,
    /// Share of that inside a deep band of its own path and length.
    pub share_in_band: f64,
}
