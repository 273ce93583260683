//! What `fsprobe exposure` records of allocators' buffers and concludes.

use super::{PAGE, State, UnknownWord, words::words};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

words! {
    /// How a program comes to a buffer.
    Way, "way of allocating", {
        /// `malloc`.
        Malloc = "malloc",
        /// `calloc`.
        Calloc = "calloc",
        /// `malloc` of 4 KiB, then `realloc` to half as much again until it is long enough.
        Realloc = "realloc",
        /// `posix_memalign` to 64 bytes, a cache line.
        Memalign64 = "posix-memalign-64",
        /// `posix_memalign` to 4096 bytes, a page.
        Memalign4096 = "posix-memalign-4096",
        /// A Rust `Vec<u8>` that bytes are pushed to: its capacity doubles from 8 on, so the buffer has the next
        /// power of two.
        Vec = "vec",
    }
}

impl Way {
    /// The alignment that it asks for; none where it asks for none.
    pub fn alignment(self) -> Option<u16> {
        match self {
            Way::Memalign64 => Some(64),
            Way::Memalign4096 => Some(4096),
            Way::Malloc | Way::Calloc | Way::Realloc | Way::Vec => None,
        }
    }
}

words! {
    /// What the process did before.
    HeapState, "state of the heap", {
        /// Nothing of that kind was freed yet.
        First = "first",
        /// As many buffers of every length were freed before.
        AfterFrees = "after-frees",
    }
}

words! {
    /// Where bands come from.
    BandsFrom, "source of bands", {
        /// `--band FROM-TO`.
        Given = "given",
        /// A saved report.
        Report = "report",
        /// A quick check of this machine in the same run.
        Check = "check",
        /// A simulated machine.
        Simulated = "simulated",
    }
}

words! {
    /// How offsets are spread.
    Pattern, "pattern", {
        /// One offset alone.
        Always = "always",
        /// Two to four offsets.
        Few = "few",
        /// Every possible offset about as often as any other.
        Uniform = "uniform",
        /// Many offsets, some far more often than others.
        Uneven = "uneven",
        /// Too few samples to tell.
        Sparse = "sparse",
    }
}

/// The length of a buffer for people: `64 KiB`, or where it is a round number in powers of ten, `10 MB`.
pub fn buffer_length(len: u64) -> String {
    match len {
        l if l > 0 && l % (1 << 10) != 0 && l % 1_000_000 == 0 => format!("{} MB", l / 1_000_000),
        l if l > 0 && l % (1 << 10) != 0 && l % 1000 == 0 => format!("{} kB", l / 1000),
        l => super::length(l),
    }
}

/// The object `exposure` of the JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exposure {
    /// Processes in which each allocator was asked in each way.
    pub processes: u32,
    /// Whose buffers were looked at.
    pub subjects: Vec<Subject>,
    /// The bands that offsets are compared with.
    pub bands: MetBands,
    /// The offsets, as they came.
    pub placements: Vec<Placed>,
    /// What could not be measured, and why.
    pub skipped: Vec<SkippedPlacement>,
    /// What a reader has to know, for people.
    pub notes: Vec<String>,
    /// What was concluded of each allocator, length, way and state.
    pub summaries: Vec<PlacementSummary>,
    /// The same with what is alike taken together: lengths, ways and states.
    pub rows: Vec<ExposureRow>,
    /// What is published of an allocator beside what was seen.
    pub published: Vec<PublishedPlacement>,
}

/// Whose buffers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// `glibc`, `jemalloc`, `mimalloc`, `pages`, or the file name of a preloaded library.
    pub name: String,
    /// Whether it came by LD_PRELOAD.
    pub preloaded: bool,
}

/// Deep bands of read(2), by destination page offset with the source at 0x000.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetBands {
    /// Where they come from.
    pub from: BandsFrom,
    /// The same in words.
    pub source: String,
    /// What their verdict tells; null where they were given.
    pub state: Option<State>,
    /// One a length at which reads were measured, bands or not; where they were given, one of length 0.
    pub lens: Vec<BandsAt>,
}

/// The bands at one length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BandsAt {
    /// Bytes of one read; 0 where the bands were given.
    pub len: u64,
    /// The bands.
    pub bands: Vec<MetBand>,
}

/// One band.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MetBand {
    /// The first offset.
    pub from: u16,
    /// The last one; below `from` where the band goes through 0xfff.
    pub to: u16,
    /// Time of a read there by time elsewhere; null where it was given and not measured.
    pub slowdown: Option<f64>,
}

impl MetBand {
    /// Whether an offset lies inside.
    pub fn contains(&self, offset: u16) -> bool {
        offset.wrapping_sub(self.from) % PAGE <= self.to.wrapping_sub(self.from) % PAGE
    }
}

/// Offsets of fresh allocations of one kind in one process, in the order they came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Whose.
    pub allocator: String,
    /// Bytes asked for.
    pub len: u64,
    /// In which way.
    pub way: Way,
    /// What the process did before.
    pub state: HeapState,
    /// Which process, counted from 0 for each allocator and way.
    pub process: u32,
    /// The page offsets.
    pub offsets: Vec<u16>,
}

/// Something that could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedPlacement {
    /// Whose.
    pub allocator: String,
    /// In which way; null for all.
    pub way: Option<Way>,
    /// Why.
    pub reason: String,
}

/// What offsets come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Allocations.
    pub samples: u64,
    /// Different offsets.
    pub distinct: u32,
    /// All offsets are `least` plus a multiple of this; 4096 for one offset alone.
    pub step: u16,
    /// The smallest offset that `step` allows.
    pub least: u16,
    /// How they are spread.
    pub pattern: Pattern,
    /// How well an even spread explains them; null where there are too few or too few places.
    pub even: Option<ChiSquare>,
    /// The most frequent offsets, at most four.
    pub most: Vec<OffsetCount>,
    /// How many lie in a deep band; null where it is not known whether there is one.
    pub in_band: Option<u64>,
    /// The expected time of reads of a page-aligned file into such buffers, by that elsewhere; null where
    /// no slowdown was measured.
    pub slowdown: Option<f64>,
}

impl Figures {
    /// How many offsets the step allows.
    pub fn possible(&self) -> u32 {
        u32::from(PAGE) / u32::from(self.step.max(1))
    }

    /// The share in a deep band.
    pub fn share_in_band(&self) -> Option<f64> {
        self.in_band.filter(|_| self.samples > 0).map(|count| count as f64 / self.samples as f64)
    }
}

/// Pearson's chi-square test of an even spread, with allocations taken as independent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChiSquare {
    /// Parts of the page that were counted.
    pub bins: u32,
    /// The statistic.
    pub statistic: f64,
    /// How likely an even spread gives at least that.
    pub p: f64,
}

/// How often an offset came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffsetCount {
    /// The page offset.
    pub offset: u16,
    /// How often.
    pub count: u64,
}

/// One allocator, length, way and state over all processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacementSummary {
    /// Whose.
    pub allocator: String,
    /// Bytes asked for.
    pub len: u64,
    /// In which way.
    pub way: Way,
    /// What the process did before.
    pub state: HeapState,
    /// What the offsets come to.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Summaries of one allocator that are alike, taken together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExposureRow {
    /// Whose.
    pub allocator: String,
    /// The lengths, rising.
    pub lens: Vec<u64>,
    /// The ways.
    pub ways: Vec<Way>,
    /// The states.
    pub states: Vec<HeapState>,
    /// What all offsets together come to.
    #[serde(flatten)]
    pub figures: Figures,
    /// How many lie in each 64th of the page, 64 offsets each.
    pub histogram: Vec<u64>,
    /// How many lie at each of the first 64 offsets of a page.
    pub close_up: Vec<u64>,
    /// The same in a sentence.
    pub sentence: String,
}

/// What is published of an allocator, beside what was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedPlacement {
    /// Whose.
    pub allocator: String,
    /// What is published, and where that comes from.
    pub expected: String,
    /// Whether that was seen; null where there were too few samples.
    pub holds: Option<bool>,
    /// The comparison in a sentence.
    pub sentence: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_round_in_either_way() {
        let lens = [5000, 65536, 10_000_000, 1_024_000, 100, 12345].map(buffer_length);
        assert_eq!(lens, ["5 kB", "64 KiB", "10 MB", "1000 KiB", "100 B", "12345 B"]);
    }

    #[test]
    fn bands_are_circular() {
        let band = |from, to| MetBand { from, to, slowdown: None };
        assert!(band(1, 15).contains(15) && !band(1, 15).contains(0) && !band(1, 15).contains(16));
        let wrapped = band(0x991, 0x00f);
        assert!([0x991, 0xfff, 0, 0x00f].iter().all(|o| wrapped.contains(*o)));
        assert!(![0x010, 0x990].iter().any(|o| wrapped.contains(*o)));
    }
}
