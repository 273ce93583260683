//! What `fsprobe pipe` measured: the ladder of rungs, the yardsticks beside it, what mapping pages costs, and
//! sweeps of the reader's or writer's page offset. Raw samples are recorded, figures judged from them.

use serde::{Deserialize, Serialize};

/// The whole outcome, with how it was asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pipe {
    /// The CPUs of writer and reader; the same one twice where only one is allowed.
    pub cpus: [u32; 2],
    /// Whether the two are threads of one core; null where the system does not tell, or there is one only.
    pub one_core: Option<bool>,
    /// Bytes that the pipes really held: the kernel rounds up, or refuses.
    pub pipe_size: u64,
    /// The rungs of the ladder.
    pub rungs: Vec<Rung>,
    /// What the rungs are held against.
    pub yardsticks: Vec<Rung>,
    /// What vmsplice(2) into a drained pipe costs.
    pub mapping: Vec<Mapping>,
    /// Sweeps of page offsets, where asked for.
    pub sweeps: Vec<OffsetSweep>,
    /// What a reader of the figures has to know, for people.
    pub notes: Vec<String>,
}

impl Pipe {
    /// Whether every byte's arrival was checked: what was timed is not copying alone then.
    pub fn verified(&self) -> bool {
        self.rungs.iter().chain(&self.yardsticks).any(|rung| rung.verified)
    }
}

/// One way through the pipe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// Its name, such as `vmsplice-splice-huge`.
    pub name: String,
    /// The rung that its factor is over.
    pub over: Option<String>,
    /// Copies that the page-offset anomaly can reach; none where nothing is copied.
    pub exposed: Vec<Exposed>,
    /// Whether every byte's arrival was checked.
    pub verified: bool,
    /// Whether the buffers were really in huge pages, where those were asked for.
    pub huge: Option<HugeFound>,
    /// One a round.
    pub samples: Vec<PipeSample>,
    /// Why it was not measured.
    pub skipped: Option<String>,
    /// What the samples come to; null without samples.
    pub figures: Option<Figures>,
}

/// A copy within a rung, and what decides whether a band hits it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exposed {
    /// The call that copies: `write`, `read` or `memcpy`.
    pub copy: String,
    /// Which page offset moves its distance: `src` (the writer's), `dst` (the reader's), or both.
    pub by: String,
}

/// What /proc/self/smaps said of buffers for which huge pages had been asked, in the last round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugeFound {
    /// Bytes of buffers.
    pub asked: u64,
    /// Bytes of them in huge pages; null where smaps is not readable.
    pub found: Option<u64>,
    /// Why that is null.
    pub unknown: Option<String>,
}

impl HugeFound {
    /// Whether all of it was huge; none where that is not known.
    pub fn whole(&self) -> Option<bool> {
        self.found.map(|found| found >= self.asked)
    }
}

/// One run of a rung: two processes and so many bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipeSample {
    /// The round, from 0.
    pub round: u32,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Nanoseconds from the first of the two to start until the last byte's arrival.
    pub ns: u64,
    /// What the kernel counted for the writer meanwhile; null where it does not count by thread.
    pub writer: Option<Counted>,
    /// And for the reader.
    pub reader: Option<Counted>,
}

/// Counters of one process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Page faults.
    pub page_faults: u64,
    /// Times it waited for something.
    pub voluntary_switches: u64,
    /// Times the kernel took the CPU away.
    pub involuntary_switches: u64,
}

/// A median with its interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// Its 95 % interval by order statistics; null with fewer than six values.
    pub ci95: Option<[f64; 2]>,
}

/// What a rung's samples come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Bytes per second.
    pub bytes_per_s: Estimate,
    /// Times the rung that it is over, by rounds in which both were measured.
    pub factor: Option<Estimate>,
    /// Page faults of both processes per GiB (2^30 bytes).
    pub page_faults_per_gib: Option<f64>,
    /// Context switches of both processes per GiB, of either kind.
    pub context_switches_per_gib: Option<f64>,
}

/// What mapping pages into a pipe costs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Mapping {
    /// `4k` or `huge`.
    pub pages: String,
    /// Whether they were really huge, where that was asked for.
    pub huge: Option<HugeFound>,
    /// Nanoseconds per 4 KiB, one a round.
    pub samples: Vec<f64>,
    /// Their median.
    pub ns_per_page: Option<Estimate>,
    /// Why it was not measured.
    pub skipped: Option<String>,
}

/// Which buffer's page offset was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Moved {
    /// The writer's.
    Src,
    /// The reader's.
    Dst,
}

impl Moved {
    /// The word as written everywhere.
    pub fn word(self) -> &'static str {
        match self {
            Moved::Src => "src",
            Moved::Dst => "dst",
        }
    }
}

/// One rung at many page offsets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OffsetSweep {
    /// The rung's name.
    pub rung: String,
    /// Whose page offset was moved; the other buffer stays at 0x000.
    pub moved: Moved,
    /// Nanoseconds at each offset. Offset 0x000 is there always: what the others are compared with.
    pub cells: Vec<OffsetCell>,
    /// Bytes of one sample.
    pub bytes: u64,
    /// Runs of offsets at which it takes twice as long and longer.
    pub bands: Vec<PipeBand>,
    /// Why it was not measured.
    pub skipped: Option<String>,
}

/// One page offset of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OffsetCell {
    /// The page offset.
    pub offset: u16,
    /// Nanoseconds, one a round.
    pub ns: Vec<u64>,
    /// Time over that of offset 0x000 in the same round.
    pub slowdown: Option<Estimate>,
}

/// A run of measured offsets, each twice as slow as 0x000 and slower.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PipeBand {
    /// The first.
    pub from: u16,
    /// The last.
    pub to: u16,
    /// The median of their slowdowns.
    pub slowdown: f64,
    /// Bytes per second inside.
    pub bytes_per_s: f64,
}
