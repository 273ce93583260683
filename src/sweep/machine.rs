//! What the sampling loop drives: pools, copy paths and a clock, real or simulated alike.

use crate::allocator::Pool;
use crate::path::CopyPath;
use crate::report::{Allocator, CellSpec, PAGE, PathName};

/// The clock and the core's speed.
pub trait Clock {
    /// The least difference that the clock shows, its own cost included, in nanoseconds.
    fn precision_ns(&self) -> u64;

    /// Nanoseconds of a fixed dependent arithmetic chain.
    fn chain_ns(&mut self) -> u64;
}

/// The machine under test.
pub struct Machine {
    /// One pool an allocator.
    pub pools: Vec<Box<dyn Pool>>,
    /// The copy paths that work here.
    pub paths: Vec<Box<dyn CopyPath>>,
    /// The clock.
    pub clock: Box<dyn Clock>,
    /// Bytes of the source file.
    pub source_size: u64,
}

impl Machine {
    /// The index of an allocator's pool.
    pub fn pool(&self, allocator: Allocator) -> Option<usize> {
        self.pools.iter().position(|p| p.allocator() == allocator)
    }

    /// The index of a copy path.
    pub fn path(&self, name: PathName) -> Option<usize> {
        self.paths.iter().position(|p| p.name() == name)
    }

    /// How many pages of the file the source of a cell can start on; 0 if the file is too short.
    pub fn source_pages(&self, cell: &CellSpec) -> u64 {
        match self.source_size.checked_sub(cell.len + u64::from(cell.src)) {
            Some(rest) => rest / u64::from(PAGE) + 1,
            None => 0,
        }
    }

    /// Whether this machine can take a cell: its pool and path exist and the file is long enough.
    pub fn can(&self, cell: &CellSpec) -> bool {
        let pool = cell.allocator.and_then(|a| self.pool(a));
        self.path(cell.path).is_some()
            && self.source_pages(cell) > 0
            && pool.is_some_and(|p| self.pools[p].pages(cell.len as usize) > 0)
    }
}

/// Why sampling ended before its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// A signal, by its name.
    Signal(&'static str),
    /// The time given with `--time` is over.
    Time,
    /// Something broke, such as the file having become shorter.
    Fault(String),
}

impl Stop {
    /// The word for the report's `stopped_by`.
    pub fn word(&self) -> String {
        match self {
            Stop::Signal(name) => (*name).into(),
            Stop::Time => "time".into(),
            Stop::Fault(reason) => reason.clone(),
        }
    }
}

/// Who watches a run: shows its progress and may stop it.
pub trait Watcher {
    /// A phase begins; `expected_ns` is an estimate of its copies' time.
    fn begin(&mut self, label: &str, expected_ns: u64);

    /// Copies of that estimate have been done.
    fn advance(&mut self, expected_ns: u64);

    /// Whether to stop now. Asked often, so it must be cheap.
    fn stop(&mut self) -> Option<Stop>;
}

/// A watcher that shows nothing and never stops.
pub struct Unwatched;

impl Watcher for Unwatched {
    fn begin(&mut self, _: &str, _: u64) {}
    fn advance(&mut self, _: u64) {}
    fn stop(&mut self) -> Option<Stop> {
        None
    }
}
