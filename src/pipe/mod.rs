//! The ladder of "How fast are Linux pipes anyway?" (mazzo.li/posts/fast-pipes.html, 2022), rung by rung.
//!
//! Each sample is two fresh processes, a writer and a reader, each pinned: this program started again with
//! its standard streams as pipe and shared memory (`pair`). A process does what its `job` says
//! (`end`) and answers with what it counted. `ladder` takes the rounds. This room judges nothing; it
//! may use `sys` and the report's types.

mod buffers;
pub mod cpus;
mod end;
mod job;
mod ladder;
mod mapping;
mod pair;
mod pattern;
mod ram;
mod reader;
mod ring;
mod step;
mod writer;

pub use end::run as run_end;
pub use job::{Role, Touch};
pub use ladder::{Plan, Stopped, climb, granted, length};

use crate::report::Exposed;
use job::{Put, Take, Way};

/// A rung or yardstick: its name, how it moves bytes, and the rung that it is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// The name of the rung that its factor is over.
    pub over: Option<&'static str>,
    way: Way,
}

const fn rung(name: &'static str, over: Option<&'static str>, way: Way) -> Spec {
    Spec { name, over, way }
}

const fn way(put: Put, take: Take, huge: bool, busy: bool) -> Way {
    Way { put, take, huge, busy }
}

/// The rungs, as the article climbs them; each also with huge pages, and the busy loop also without.
pub const RUNGS: [Spec; 8] = [
    rung("write-read", None, way(Put::Write, Take::Read, false, false)),
    rung("write-read-huge", Some("write-read"), way(Put::Write, Take::Read, true, false)),
    rung("vmsplice-read", Some("write-read"), way(Put::Vmsplice, Take::Read, false, false)),
    rung("vmsplice-read-huge", Some("vmsplice-read"), way(Put::Vmsplice, Take::Read, true, false)),
    rung("vmsplice-splice", Some("vmsplice-read"), way(Put::Vmsplice, Take::Splice, false, false)),
    rung("vmsplice-splice-huge", Some("vmsplice-splice"), way(Put::Vmsplice, Take::Splice, true, false)),
    rung("vmsplice-splice-busy", Some("vmsplice-splice"), way(Put::Vmsplice, Take::Splice, false, true)),
    rung(
        "vmsplice-splice-huge-busy",
        Some("vmsplice-splice-huge"),
        way(Put::Vmsplice, Take::Splice, true, true),
    ),
];

/// What the rungs are held against: one thread that reads RAM in order, and a ring in shared memory.
pub const YARDSTICKS: [Spec; 2] = [
    rung("ram-read", None, way(Put::Nothing, Take::Ram, false, false)),
    rung("shared-ring", Some("write-read"), way(Put::Ring, Take::Ring, false, false)),
];

impl Spec {
    /// The rung or yardstick of that name.
    pub fn named(name: &str) -> Option<Spec> {
        RUNGS.iter().chain(&YARDSTICKS).find(|s| s.name == name).copied()
    }

    /// Whether moving the writer's page offset means anything.
    pub fn has_src(&self) -> bool {
        matches!(self.way.put, Put::Write | Put::Vmsplice)
    }

    /// Whether bytes arrive in a buffer of the reader's.
    pub fn has_dst(&self) -> bool {
        self.way.take == Take::Read
    }

    /// Whether it asks for huge pages.
    pub fn is_huge(&self) -> bool {
        self.way.huge
    }

    /// The copies that the anomaly can reach. A pipe's own pages are filled from their start, so a write's
    /// distance is moved by src alone and a read's by dst alone; pages given by vmsplice keep the writer's
    /// page offset.
    pub fn exposed(&self) -> Vec<Exposed> {
        let copy = |copy: &str, by: &str| Exposed { copy: copy.into(), by: by.into() };
        match (self.way.put, self.way.take) {
            (Put::Write, Take::Read) => vec![copy("write", "src"), copy("read", "dst")],
            (Put::Write, _) => vec![copy("write", "src")],
            (Put::Vmsplice, Take::Read) => vec![copy("read", "dst - src")],
            (Put::Ring, _) => vec![copy("memcpy", "src"), copy("memcpy", "dst")],
            _ => vec![],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rung_stands_on_a_rung_and_copies_are_told() {
        for spec in RUNGS.iter().chain(&YARDSTICKS) {
            assert_eq!(Spec::named(spec.name), Some(*spec));
            assert!(spec.over.is_none_or(|over| RUNGS.iter().any(|r| r.name == over)), "{}", spec.name);
            let copies = spec.has_dst() || spec.name.starts_with("write") || spec.name == "shared-ring";
            assert_eq!(!spec.exposed().is_empty(), copies, "{}", spec.name);
        }
        assert_eq!(RUNGS.iter().filter(|r| r.is_huge()).count(), 4);
        assert_eq!(Spec::named("cat"), None);
    }
}
