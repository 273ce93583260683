//! How fsprobe was run: the verb and its options, all resolved, file names left out.

use super::words::{Allocator, PathName};
use serde::{Deserialize, Serialize};

/// The run's circumstances.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// The verb.
    pub command: String,
    /// Every option, resolved.
    pub options: Options,
    /// The shuffle's algorithm, by name.
    pub shuffle: String,
    /// The seed of every random choice of the run.
    pub seed: u64,
    /// Wall time of the measuring, in seconds.
    pub duration_s: f64,
    /// Whether everything planned was measured.
    pub complete: bool,
    /// `SIGINT`, `SIGTERM`, `time`, or an error that ended the measuring early.
    pub stopped_by: Option<String>,
}

/// Options of a run, resolved to what was really used. Paths of files are `<file>`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// `<file>`, or null where fsprobe made its own.
    pub file: Option<String>,
    /// Copy paths.
    pub paths: Vec<PathName>,
    /// Allocators.
    pub allocators: Vec<Allocator>,
    /// Destination page offsets as given, such as `0x0-0x1000`.
    pub dst: String,
    /// Source page offsets as given.
    pub src: String,
    /// Lengths in bytes.
    pub len: Vec<u64>,
    /// Whether the lengths were those of a search for where bands begin and end.
    pub len_auto: bool,
    /// Rounds of the screen phase.
    pub rounds: u32,
    /// Upper bound of the measuring in seconds, where given.
    pub time_s: Option<f64>,
    /// The CPU asked for, where one was.
    pub cpu: Option<u32>,
    /// `4k`, `thp` or `hugetlb`.
    pub pages: String,
    /// Whether each sample writes into a fresh mapping.
    pub first_touch: bool,
    /// The slowdown from which a band is deep.
    pub affected_at: f64,
    /// The simulated machine, where one was asked for.
    pub simulate: Option<String>,
    /// Whether page colours were looked for in place of a sweep.
    pub colours: bool,
}

impl Options {
    /// The slowdown from which a band is deep, unless `--affected-at` says otherwise.
    pub const AFFECTED_AT: f64 = 2.0;
}

impl Default for Options {
    fn default() -> Self {
        Options {
            file: None,
            paths: vec![],
            allocators: vec![],
            dst: "0x0-0x1000".into(),
            src: "0x0".into(),
            len: vec![],
            len_auto: false,
            rounds: 15,
            time_s: None,
            cpu: None,
            pages: "4k".into(),
            first_touch: false,
            affected_at: Self::AFFECTED_AT,
            simulate: None,
            colours: false,
        }
    }
}
