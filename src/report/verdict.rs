//! What was judged: state, bands, windows, causes. Filled by `judge`, read by `render`.

use super::Tool;
use super::words::{Allocator, PathName, UnknownWord, words};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

words! {
    /// The answer. The order is that of severity when paths are summed up.
    State, "state", {
        /// No deep band, and the noise floor would have shown one.
        Clean = "clean",
        /// Noise, an interruption or a contradiction hides the answer.
        Inconclusive = "inconclusive",
        /// A confirmed deep band.
        Affected = "affected",
    }
}

words! {
    /// What a band depends on.
    Axis, "axis", {
        /// The destination's page offset alone.
        Dst = "dst",
        /// The source's page offset alone.
        Src = "src",
        /// (dst - src) mod 4096 alone.
        Distance = "distance",
        /// None of them alone.
        Mixed = "mixed",
    }
}

words! {
    /// What was varied to find a band.
    Scan, "scan", {
        /// The destination's page offset.
        Dst = "dst",
        /// The source's page offset.
        Src = "src",
    }
}

words! {
    /// How slow a band is: deep from `--affected-at` on, mild from 1.2 to that.
    Depth, "depth", {
        /// Decides state, exit codes, signature and compare.
        Deep = "deep",
        /// Told, never decisive.
        Mild = "mild",
    }
}

/// What was judged from a report's cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Verdict {
    /// The answer over all paths.
    pub state: State,
    /// Why, for people; what would settle an inconclusive answer.
    pub reasons: Vec<String>,
    /// One entry a (path, allocator, len).
    pub paths: Vec<PathVerdict>,
    /// Lengths between which a band exists, where searched for.
    pub windows: Vec<Window>,
    /// What is predicted from facts, next to what was measured.
    pub causes: Vec<Cause>,
    /// The published signature that the deep bands match, if any.
    pub signature: Option<String>,
}

impl Default for Verdict {
    fn default() -> Self {
        Verdict {
            state: State::Inconclusive,
            reasons: vec!["not judged".into()],
            paths: vec![],
            windows: vec![],
            causes: vec![],
            signature: None,
        }
    }
}

/// The verdict on one (path, allocator, len).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathVerdict {
    /// The copy path.
    pub path: PathName,
    /// The allocator; none in a replayed recording.
    pub allocator: Option<Allocator>,
    /// Bytes of one copy.
    pub len: u64,
    /// The answer for this group.
    pub state: State,
    /// Throughput of the unaffected cells, bytes per second.
    pub baseline_bytes_per_s: f64,
    /// Time of unaffected offsets off a multiple of 0x20 over that of multiples; null where not measured.
    pub misalignment: Option<f64>,
    /// Time of short copies that end in the next page over that of copies within one; null unless that
    /// stood out.
    #[serde(default)]
    pub page_crossing: Option<f64>,
    /// Deep and mild bands.
    pub bands: Vec<Band>,
}

/// A contiguous run of slow offsets, `from`..`to` inclusive, on the circle of page offsets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// First slow offset, in the band's axis; above `to` where the band passes through 0xfff to 0x000.
    pub from: u16,
    /// Last slow offset.
    pub to: u16,
    /// Where the first offset could lie, if the rounds disagree.
    pub from_range: Option<[u16; 2]>,
    /// Where the last offset could lie, if the rounds disagree.
    pub to_range: Option<[u16; 2]>,
    /// What was varied to find it.
    pub scan: Scan,
    /// What it depends on; null where the data cannot tell.
    pub axis: Option<Axis>,
    /// Deep or mild.
    pub depth: Depth,
    /// Whether fresh rounds confirmed it.
    pub confirmed: bool,
    /// Time over the reference's time.
    pub slowdown: f64,
    /// Its 95 % interval over blocks.
    pub slowdown_ci95: Option<[f64; 2]>,
    /// 10th and 90th percentile of single samples' slowdowns: over places and rounds.
    pub spread: Option<[f64; 2]>,
    /// Extra nanoseconds per KiB.
    pub penalty_ns_per_kib: f64,
    /// Its 95 % interval over blocks.
    pub penalty_ci95: Option<[f64; 2]>,
    /// Throughput inside the band.
    pub bytes_per_s: f64,
}

impl Band {
    /// How many offsets the band covers.
    pub fn width(&self) -> u16 {
        self.to.wrapping_sub(self.from) % super::PAGE + 1
    }

    /// Whether an offset (of the band's axis) lies inside.
    pub fn contains(&self, offset: u16) -> bool {
        offset.wrapping_sub(self.from) % super::PAGE < self.width()
    }
}

/// A range of lengths in which a band exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The copy path.
    pub path: PathName,
    /// The shortest length with the band.
    pub from_len: u64,
    /// The longest.
    pub to_len: u64,
    /// Whether shorter copies than `from_len` were not looked at.
    #[serde(default)]
    pub from_open: bool,
    /// Whether longer copies than `to_len` were not looked at.
    #[serde(default)]
    pub to_open: bool,
}

/// One layer's prediction against the measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// `cpu`, `kernel` or `libc`.
    pub layer: String,
    /// What the facts predict.
    pub predicted: String,
    /// What was measured.
    pub measured: String,
    /// What does not fit, if anything.
    pub contradiction: Option<String>,
}

/// A verdict that was replaced by a later program's, which differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejudged {
    /// The program whose verdict the report holds now.
    pub by: Tool,
    /// The state that was recorded.
    pub recorded_state: State,
    /// What else differs, for people.
    pub differences: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_are_circular() {
        let mut band: Band = serde_json::from_value(serde_json::json!({
            "from": 0x991, "to": 0x00f, "from_range": null, "to_range": null, "scan": "dst", "axis": null,
            "depth": "deep", "confirmed": true, "slowdown": 2.8, "slowdown_ci95": null, "spread": null,
            "penalty_ns_per_kib": 1.0, "penalty_ci95": null, "bytes_per_s": 1.0
        }))
        .unwrap();
        assert_eq!(band.width(), 0x1000 - 0x991 + 0x10);
        assert!(band.contains(0x991) && band.contains(0xfff) && band.contains(0) && band.contains(0xf));
        assert!(!band.contains(0x10) && !band.contains(0x990));
        (band.from, band.to) = (5, 5);
        assert_eq!(band.width(), 1);
        assert!(band.contains(5) && !band.contains(4) && !band.contains(6));
    }
}
