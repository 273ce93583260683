//! Copies added up by what copied, by whom, and at which distance. A weight is bytes, or nanoseconds in `rep movs`.

use crate::report::{FileKind, TraceBand, TraceDistance, TraceRow, TraceThread};
use std::collections::BTreeMap;

/// A sum of copies.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sum {
    /// All of it.
    pub weight: f64,
    /// That of known distance.
    pub known: f64,
    /// That inside deep bands.
    pub inside: f64,
    /// Nanoseconds lost.
    pub lost_ns: f64,
}

impl Sum {
    fn add(&mut self, one: Sum) {
        self.weight += one.weight;
        self.known += one.known;
        self.inside += one.inside;
        self.lost_ns += one.lost_ns;
    }

    /// The share inside deep bands; none where no distance is known.
    pub fn share(&self) -> Option<f64> {
        (self.known > 0.0).then(|| (self.inside / self.weight).min(1.0))
    }
}

/// What copies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct What {
    pub program: String,
    pub what: String,
    pub place: Option<String>,
    pub kind: Option<FileKind>,
    /// Whether bytes come from the file; false where they go to it.
    pub from_file: Option<bool>,
}

/// Who copies: process, thread, name.
pub type Who = (u32, Option<u32>, String);

/// A row as it grows.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    sum: Sum,
    calls: u64,
    bytes: u64,
}

/// All copies.
#[derive(Debug, Default)]
pub struct Tally {
    /// Over everything.
    pub all: Sum,
    /// What was hit of each band.
    pub hit: BTreeMap<(u16, u16), f64>,
    /// From files, to files, and neither.
    pub ways: BTreeMap<Option<bool>, Sum>,
    /// Whether weights are bytes; else they are nanoseconds.
    pub in_bytes: bool,
    rows: BTreeMap<What, Row>,
    threads: BTreeMap<Who, Sum>,
    distances: BTreeMap<Option<u16>, Sum>,
}

impl Tally {
    /// Without copies yet.
    pub fn new(in_bytes: bool) -> Tally {
        Tally { in_bytes, ..Tally::default() }
    }

    /// Adds calls, of which only some moved bytes.
    pub fn called(&mut self, what: &What, calls: u64, bytes: u64) {
        let row = self.rows.entry(what.clone()).or_default();
        row.calls += calls;
        row.bytes += bytes;
    }

    /// Adds copies of one distance, in a band or not, with what they lost.
    pub fn add(
        &mut self,
        what: &What,
        who: &Who,
        distance: Option<u16>,
        weight: f64,
        inside: Option<(TraceBand, f64)>,
    ) {
        let known = if distance.is_some() { weight } else { 0.0 };
        let sum = Sum {
            weight,
            known,
            inside: if inside.is_some() { weight } else { 0.0 },
            lost_ns: inside.map_or(0.0, |(_, lost_ns)| lost_ns),
        };
        self.all.add(sum);
        self.rows.entry(what.clone()).or_default().sum.add(sum);
        self.threads.entry(who.clone()).or_default().add(sum);
        self.ways.entry(what.from_file).or_default().add(sum);
        self.distances.entry(distance).or_default().add(sum);
        if let Some((band, _)) = inside {
            *self.hit.entry((band.from, band.to)).or_default() += weight;
        }
    }

    /// The band that most copies fell into.
    pub fn most_hit(&self) -> Option<(u16, u16)> {
        self.hit.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(band, _)| *band)
    }

    /// The weight as bytes, or as nanoseconds, whichever it is.
    fn split(&self, weight: f64) -> (Option<u64>, Option<u64>) {
        let weight = weight.round() as u64;
        if self.in_bytes { (Some(weight), None) } else { (None, Some(weight)) }
    }

    /// One a thing that copies, the costliest first.
    pub fn rows(&self) -> Vec<TraceRow> {
        let row = |(what, row): (&What, &Row)| TraceRow {
            program: what.program.clone(),
            what: what.what.clone(),
            place: what.place.clone(),
            kind: what.kind,
            calls: self.in_bytes.then_some(row.calls),
            bytes: self.in_bytes.then_some(row.bytes),
            copy_ns: self.split(row.sum.weight).1,
            share_in_band: row.sum.share(),
            lost_ns: row.sum.lost_ns.round() as u64,
        };
        let mut rows: Vec<TraceRow> = self.rows.iter().map(row).collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.lost_ns, row.bytes, row.copy_ns)));
        rows
    }

    /// One a process or thread that copies, the costliest first.
    pub fn threads(&self) -> Vec<TraceThread> {
        let thread = |((pid, tid, program), sum): (&Who, &Sum)| {
            let (bytes, copy_ns) = self.split(sum.weight);
            TraceThread {
                pid: *pid,
                tid: *tid,
                program: program.clone(),
                bytes,
                copy_ns,
                share_in_band: sum.share(),
                lost_ns: sum.lost_ns.round() as u64,
            }
        };
        let mut threads: Vec<TraceThread> = self.threads.iter().map(thread).collect();
        threads.sort_by_key(|thread| std::cmp::Reverse((thread.lost_ns, thread.bytes, thread.copy_ns)));
        threads
    }

    /// One a distance, the largest share first.
    pub fn distances(&self) -> Vec<TraceDistance> {
        let all = self.all.weight.max(f64::MIN_POSITIVE);
        let of = |(distance, sum): (&Option<u16>, &Sum)| TraceDistance {
            distance: *distance,
            share: sum.weight / all,
            share_in_band: sum.inside / sum.weight.max(f64::MIN_POSITIVE),
        };
        let mut distances: Vec<TraceDistance> = self.distances.iter().map(of).collect();
        distances.sort_by(|a, b| b.share.total_cmp(&a.share));
        distances
    }
}
