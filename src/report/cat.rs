//! What `fsprobe cat --bench` measured.

use serde::Serialize;

/// The bench of one file, drained through a pipe.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CatBench {
    /// Bytes of the file.
    pub size: u64,
    /// Bytes of a sample: the file as often as it was named.
    pub bytes: u64,
    /// Rounds, each a sample of every row in a fresh random order.
    pub rounds: u32,
    /// Rounds taken before and left out.
    pub warmup_discarded: u32,
    /// The writer's CPU and the reader's, by the kernel's numbers; null where both shared the only one.
    pub cpus: Option<[u32; 2]>,
    /// One a way; the first is read/write.
    pub rows: Vec<CatRow>,
    /// What could not be measured, and why.
    pub skipped: Vec<String>,
}

/// One way to pass the file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CatRow {
    /// Its name.
    pub name: String,
    /// What it is: the calls, or the program's version.
    pub what: String,
    /// Nanoseconds from a process's start to the end of its bytes, one a round.
    pub ns: Vec<u64>,
    /// The median throughput.
    pub bytes_per_s: f64,
    /// The 95 % interval of that median by order statistics; null with fewer than six rounds.
    pub bytes_per_s_ci95: Option<[f64; 2]>,
    /// The median over rounds of read/write's time over this one's.
    pub factor: f64,
    /// The 95 % interval of that median.
    pub factor_ci95: Option<[f64; 2]>,
}
