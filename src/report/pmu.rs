//! Evidence from the performance counters: what a slow and a fast copy make the core do.

use super::words::PathName;
use serde::{Deserialize, Serialize};

/// Counts of a slow and a fast cell of some paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pmu {
    /// Bytes of one copy.
    pub len: u64,
    /// The counts.
    pub counts: Vec<PmuCount>,
    /// Why the kernel's part was not counted; null where it was.
    #[serde(default)]
    pub no_kernel: Option<String>,
    /// Why the store-to-load conflicts were not counted; null where they were.
    #[serde(default)]
    pub no_conflicts: Option<String>,
}

/// What was counted during copies of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PmuCount {
    /// The copy path.
    pub path: PathName,
    /// (dst - src) mod 4096.
    pub distance: u16,
    /// What was counted.
    pub event: PmuEvent,
    /// Events per byte copied, in user space.
    pub user_per_byte: f64,
    /// Events per byte copied, in the kernel; null where it may not be counted.
    pub kernel_per_byte: Option<f64>,
}

/// An event of the performance counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PmuEvent {
    /// Loads that looked into the L1 data cache.
    #[serde(rename = "L1-dcache-loads")]
    L1dLoads,
    /// AMD Zen 2 to 5: loads held up by a conflict with an older store that cannot forward to them.
    #[serde(rename = "ls_bad_status2.stli_other")]
    StoreConflicts,
}

impl PmuEvent {
    /// The name as perf lists it.
    pub const fn word(self) -> &'static str {
        match self {
            PmuEvent::L1dLoads => "L1-dcache-loads",
            PmuEvent::StoreConflicts => "ls_bad_status2.stli_other",
        }
    }
}
