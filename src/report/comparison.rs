//! What comparing reports found: made by `judge`, read by `render`, the object `compare` of its JSON.

use super::verdict::{Axis, Scan, State};
use super::words::{Allocator, PathName, UnknownWord, words};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

words! {
    /// What became of the deep bands between two sides.
    Change, "change", {
        /// Deep bands before, none after.
        Fixed = "fixed",
        /// Some slow offsets are gone, or slowdown - 1 fell by more than half.
        PartlyFixed = "partly fixed",
        /// The deep bands are still there, no different beyond the spread between runs.
        NotFixed = "not fixed",
        /// A deep band where none was, or slowdown - 1 more than doubled.
        Regressed = "regressed",
        /// No deep band on either side.
        Unaffected = "unaffected",
        /// A side is inconclusive, or the spread between runs hides the answer.
        CannotTell = "cannot tell",
    }
}

impl Change {
    /// Whether it claims that something changed.
    pub fn is_claim(self) -> bool {
        matches!(self, Change::Fixed | Change::PartlyFixed | Change::Regressed)
    }
}

words! {
    /// Which copy paths a fact of the host bears on.
    Bearing, "bearing", {
        /// Every copy path.
        Every = "every path",
        /// What the C library copies: memcpy and mmap.
        Libc = "memcpy and mmap",
        /// Paths over a file.
        Files = "paths over files",
        /// No path's slow offsets, at most its speed.
        Speed = "speed only",
    }
}

impl Bearing {
    /// Whether it bears on where a path is slow.
    pub fn on(self, path: PathName) -> bool {
        use PathName::{IoUringRead, Memcpy, Mmap, Pread, Preadv, Pwrite, Read, Readv, Write};
        match self {
            Bearing::Every => true,
            Bearing::Libc => matches!(path, Memcpy | Mmap),
            Bearing::Files => {
                matches!(path, Read | Pread | Readv | Preadv | Write | Pwrite | IoUringRead | Mmap)
            }
            Bearing::Speed => false,
        }
    }
}

/// Two sides of reports compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The answer over all groups.
    pub change: Change,
    /// Why it cannot be told, or what qualifies the answer, for people.
    pub reasons: Vec<String>,
    /// The processor of both sides.
    pub cpu: String,
    /// The earlier side.
    pub before: ComparedSide,
    /// The later side.
    pub after: ComparedSide,
    /// One entry a (path, allocator, len) that both sides measured.
    pub groups: Vec<ComparedGroup>,
    /// How far two runs of an unchanged machine lie apart.
    pub spread: Spread,
    /// Facts that differ between the hosts.
    pub differences: Vec<Difference>,
    /// What may be credited with the change.
    pub credit: Credit,
    /// What a reader has to know besides.
    pub caveats: Vec<String>,
}

/// The reports of one side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedSide {
    /// Clean, affected or inconclusive, over its reports.
    pub state: State,
    /// Its reports.
    pub reports: Vec<ComparedReport>,
}

/// One report of a side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedReport {
    /// When its run began.
    pub recorded_at: String,
    /// The version of fsprobe that recorded it.
    pub tool_version: String,
    /// The model, if it was simulated.
    pub simulated: Option<String>,
    /// Whether everything planned was measured.
    pub complete: bool,
    /// Its state by today's rules.
    pub state: State,
    /// The state that was recorded with it.
    pub recorded_state: State,
    /// How today's verdict differs from the one recorded, if it does.
    pub rejudged: Option<String>,
}

/// One (path, allocator, len) before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedGroup {
    /// The copy path.
    pub path: PathName,
    /// The allocator; none in a replayed recording.
    pub allocator: Option<Allocator>,
    /// Bytes of one copy.
    pub len: u64,
    /// What became of its deep bands.
    pub change: Change,
    /// Why it cannot be told, or what qualifies the answer.
    pub reason: Option<String>,
    /// The earlier side.
    pub before: GroupSide,
    /// The later side.
    pub after: GroupSide,
}

/// A group on one side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupSide {
    /// Its state over the side's reports.
    pub state: State,
    /// Its confirmed deep bands.
    pub bands: Vec<ComparedBand>,
}

/// A deep band over the reports of one side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedBand {
    /// First slow offset, in the band's axis.
    pub from: u16,
    /// Last slow offset.
    pub to: u16,
    /// Where the first offset could lie, over rounds and reports.
    pub from_range: Option<[u16; 2]>,
    /// Where the last offset could lie.
    pub to_range: Option<[u16; 2]>,
    /// What was varied to find it.
    pub scan: Scan,
    /// What it depends on; null where the data cannot tell.
    pub axis: Option<Axis>,
    /// Time over the reference's time: the median over reports.
    pub slowdown: f64,
    /// Its interval over rounds and reports, slowdown - 1 widened by the spread between runs.
    pub slowdown_interval: [f64; 2],
    /// Extra nanoseconds per KiB: the median over reports.
    pub penalty_ns_per_kib: f64,
    /// Its interval over rounds and reports, widened by the spread between runs.
    pub penalty_interval: [f64; 2],
}

/// How far two runs of an unchanged machine may lie apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Slowdown - 1, and the penalty, of one run over those of another.
    pub factor: f64,
    /// Whether it was measured from three or more reports a side, or is the published one.
    pub measured: bool,
}

/// A fact that is not the same on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The fact's name, such as `microcode`.
    pub fact: String,
    /// What it was before; null where unknown.
    pub before: Option<String>,
    /// What it is after; null where unknown.
    pub after: Option<String>,
    /// Which paths it bears on.
    pub bears_on: Bearing,
    /// The change of another fact that brings this one with it.
    pub follows: Option<String>,
}

/// What a change may be credited to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Credit {
    /// The one relevant fact that changed; null where nothing can be credited.
    pub credited: Option<String>,
    /// The sentence that says so, or why not.
    pub reason: String,
}

/// Reports in the order of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trend {
    /// One entry a report.
    pub points: Vec<TrendPoint>,
    /// The first against the last.
    pub overall: Comparison,
}

/// One report of a trend.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrendPoint {
    /// The report.
    pub report: ComparedReport,
    /// What became of the deep bands since the report before; null for the first.
    pub change: Option<Change>,
    /// Its deepest band, if any.
    pub deepest: Option<ComparedBand>,
    /// The relevant facts that changed since the report before.
    pub changed: Vec<String>,
}
