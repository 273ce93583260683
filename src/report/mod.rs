//! The recorded document: everything measured and every fact needed to judge it.
//!
//! A [`Report`] is what sampling writes and what judging and rendering read; no other room's types
//! cross that line. Version 1 of its JSON form is a contract (docs/report-format.md): fields may be
//! added, never renamed or given another meaning, and unknown fields are ignored on load.
//! This room may not measure, judge or print.

mod cat;
mod cell;
mod colours;
mod comparison;
mod density;
mod exposure;
mod file;
mod host;
mod options;
mod pipe;
mod pmu;
mod printable;
mod readers;
mod remedy;
mod samples;
mod side;
mod trace;
mod verdict;
mod words;
mod write;

pub use cat::{CatBench, CatRow};
pub use cell::{Cell, CellSpec, Control, Floor, Noise, Placement, RoundPages, Run, Skipped};
pub use colours::{Colours, Level, Pair, Prediction, Profile, Proof};
pub use comparison::{
    Bearing, Change, ComparedBand, ComparedGroup, ComparedReport, ComparedSide, Comparison, Credit,
    Difference, GroupSide, Spread, Trend, TrendPoint,
};
pub use exposure::{
    BandsAt, BandsFrom, ChiSquare, Exposure, ExposureRow, Figures as PlacementFigures, HeapState, MetBand,
    MetBands, OffsetCount, Pattern, Placed, PlacementSummary, PublishedPlacement, SkippedPlacement, Subject,
    Way, buffer_length,
};
pub use file::{LoadError, inert, load, parse, to_json};
pub use host::{Cpu, Fact, Feature, Features, Firmware, Host, Kernel, Libc, Memory, Simulated, Unknowns};
pub use options::{Options, RunInfo};
pub use pipe::{
    Counted, Estimate, Exposed, Figures, HugeFound, Mapping, Moved, OffsetCell, OffsetSweep, Pipe, PipeBand,
    PipeSample, Rung,
};
pub use pmu::{Pmu, PmuCount, PmuEvent};
pub use printable::{percent, printable};
pub use readers::{
    Excess, HugePages, Landed, MovedBuffer, Reader, ReaderName, Readers, Reason, SkippedReader, Times,
};
pub use remedy::{AtLength, Remedy};
pub use trace::{
    AtOffset, Copies, FileKind, Inside, Landing, OwnCopies, Samples, Site, Trace, TraceAnswer, TraceBand,
    TraceBands, TraceDistance, TracePath, TraceRow, TraceThread, Unseen, Via, Watched,
};
pub use verdict::{Axis, Band, Cause, Depth, PathVerdict, Rejudged, Scan, State, Verdict, Window};
pub use words::{Allocator, PAGE, PathName, Phase, UnknownWord, distance, length, offset_of};
pub use write::{SaveError, is_device, save, write_whole};

use serde::{Deserialize, Serialize};

/// One recorded run of fsprobe: facts, raw samples and the verdict drawn from them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What kind of document this is.
    pub schema: Schema,
    /// The program that wrote it.
    pub tool: Tool,
    /// When the run began: RFC 3339, UTC.
    pub recorded_at: String,
    /// How fsprobe was run.
    pub run: RunInfo,
    /// The executions of phases, in the order taken; [`Cell::run`] points here.
    pub runs: Vec<Run>,
    /// The file that was read, without its name.
    pub source: Option<Source>,
    /// The machine.
    pub host: Host,
    /// Every cell with its raw samples.
    pub cells: Vec<Cell>,
    /// What was asked for and could not be measured.
    #[serde(default)]
    pub skipped: Vec<Skipped>,
    /// Where allocators put buffers on their own.
    #[serde(default)]
    pub placements: Vec<Placement>,
    /// The noise floor and what disturbed the run.
    #[serde(default)]
    pub noise: Noise,
    /// What was judged from the cells.
    #[serde(default)]
    pub verdict: Verdict,
    /// Settings tried, with their effect (`check --remedies`).
    #[serde(default)]
    pub remedies: Vec<Remedy>,
    /// Page colours, where measured.
    #[serde(default)]
    pub colours: Option<Colours>,
    /// Evidence from the performance counters, where there are any.
    #[serde(default)]
    pub pmu: Option<Pmu>,
    /// What the verdict was when it was recorded, where it was judged again since and came out otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejudged: Option<Rejudged>,
}

impl Report {
    /// Whether the cells come from a cost model or a recording, not from this machine.
    pub fn is_simulated(&self) -> bool {
        self.host.simulated.model().is_some()
    }

    /// Whether page colours alone were measured: then nothing is known, nor asked, of bands.
    pub fn is_colours_alone(&self) -> bool {
        self.colours.is_some() && self.cells.is_empty()
    }

    /// Whether all that the verdict rests on was measured: settings are tried only after that.
    pub fn is_whole(&self) -> bool {
        self.run.complete || !self.remedies.is_empty()
    }

    /// Whether bands over page offsets were looked for, not colours or lengths alone.
    pub fn is_of_bands(&self) -> bool {
        !self.is_colours_alone() && !self.run.options.len_auto
    }
}

/// The document's kind and version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// `fsprobe-report`, or `fsprobe-<verb>` for other verbs.
    pub name: String,
    /// The version of the form; 1.
    pub version: u32,
}

impl Schema {
    /// The name of a report document.
    pub const REPORT: &'static str = "fsprobe-report";
    /// The version this program writes and reads.
    pub const VERSION: u32 = 1;

    /// The schema of a report.
    pub fn report() -> Self {
        Schema { name: Self::REPORT.into(), version: Self::VERSION }
    }

    /// The schema of another verb's JSON.
    pub fn of_verb(verb: &str) -> Self {
        Schema { name: format!("fsprobe-{verb}"), version: Self::VERSION }
    }
}

/// The program that wrote the document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// The version of fsprobe.
    pub version: String,
    /// The commit it was built from, where the build knew it.
    pub commit: Option<String>,
    /// The target triple it was built for.
    pub target: String,
}

impl Tool {
    /// This build of fsprobe.
    pub fn this() -> Self {
        Tool {
            version: env!("CARGO_PKG_VERSION").into(),
            commit: option_env!("FSPROBE_COMMIT").filter(|c| !c.is_empty()).map(Into::into),
            target: env!("FSPROBE_TARGET").into(),
        }
    }
}

/// The file that was read; its name and folder stay out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// `file` (the user's), `own` (made for the run) or `simulated`.
    pub kind: String,
    /// Bytes.
    pub size: u64,
    /// The file system's name, such as `ext4` or `tmpfs`.
    pub fs_type: Option<String>,
    /// Whether the range read was in the page cache before the run; null where the kernel would not say.
    pub resident_before: Option<bool>,
    /// The same after the run.
    pub resident_after: Option<bool>,
    /// Whether size or modification time changed while fsprobe was reading.
    #[serde(default)]
    pub changed: bool,
}
