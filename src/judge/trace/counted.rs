//! The loss that calls counted one by one come to: bytes in a band times its penalty.

use super::Loss;
use super::costs::{self, Place};
use super::tally::{Tally, What, Who};
use super::words;
use crate::report::{
    AtOffset, Copies, FileKind, Landing, PAGE, TraceBand, TraceBands, Unseen, distance, printable,
};
use std::collections::BTreeMap;

/// What the copies lose, and could lose where their distance is unknown.
pub fn loss(copies: &[Copies], unseen: &[Unseen], bands: &TraceBands) -> Loss {
    let mut tally = Tally::new(true);
    let mut doubts = Doubts::default();
    for copies in copies {
        let what = What {
            program: copies.program.clone(),
            what: copies.call.clone(),
            place: copies.file.clone(),
            kind: Some(copies.kind),
            from_file: copies.from_file,
        };
        let who: Who = (copies.pid, None, copies.program.clone());
        tally.called(&what, copies.calls, copies.bytes);
        for landing in landings(copies) {
            let bytes = landing.bytes as f64;
            let len = bytes / landing.copies.max(1) as f64;
            let call = (copies.call.as_str(), copies.kind, copies.from_file);
            match costs::place(bands, call, landing.distance, len) {
                Place::NotCopied => {}
                Place::Outside => tally.add(&what, &who, landing.distance, bytes, None),
                Place::Inside(band) => {
                    let lost_ns = lost(bytes, Some(band));
                    tally.add(&what, &who, landing.distance, bytes, Some((band, lost_ns)));
                }
                Place::Unknown { worst, measured } => {
                    tally.add(&what, &who, None, bytes, None);
                    let could = lost(bytes, worst) * doubtful(copies, &landing, worst);
                    let remedy = if measured { shown_by(copies) } else { REPORT };
                    doubts.add(words::kind(copies.kind, measured), remedy, could);
                }
            }
        }
    }
    let worst = costs::worst(bands);
    for unseen in unseen {
        let remedy = unseen.remedy.as_deref().unwrap_or(words::NOTHING);
        doubts.add(
            "calls that were not seen",
            &printable(remedy, 200),
            lost(unseen.bytes.unwrap_or(0) as f64, worst),
        );
        let within_ns = unseen.within_ns.unwrap_or(0) as f64;
        doubts.add(
            &printable(&unseen.whose(), 200),
            &printable(remedy, 200),
            within_ns * costs::worst_gain(bands),
        );
    }
    // any number of copies may be among it
    let hidden = unseen.iter().find(|unseen| unseen.any && worst.is_some());
    let lost_ns = tally.all.lost_ns;
    let most_ns = if hidden.is_some() { f64::INFINITY } else { lost_ns + doubts.all_ns };
    Loss {
        tally,
        own: None,
        least_ns: lost_ns,
        most_ns,
        doubt: hidden.map(words::not_seen).or_else(|| doubts.most()),
    }
}

/// What bytes lose in a band.
fn lost(bytes: f64, band: Option<TraceBand>) -> f64 {
    band.map_or(0.0, |band| bytes / 1024.0 * band.penalty_ns_per_kib.max(0.0))
}

/// The share of a landing of unknown distance that may lie in a band: all, but for pipes. Those fill pages from their
/// start, so that where nothing but whole pages goes through, the program's buffer alone decides. A write(2) of whole
/// pages begins a page of its own whatever went before (pipe_write of fs/pipe.c), unlike a part of a writev, or a
/// stream's blocks.
fn doubtful(copies: &Copies, landing: &Landing, band: Option<TraceBand>) -> f64 {
    let all: u64 = copies.buffers.iter().map(|at| at.bytes).sum();
    let nothing_else = copies.landings.iter().all(are_whole_pages);
    let decides = are_whole_pages(landing) && (nothing_else || copies.call == "write");
    if copies.kind != FileKind::Pipe || all == 0 || !decides {
        return 1.0;
    }
    let landed = |at: &&AtOffset| {
        let distance = if copies.from_file == Some(false) { distance(0, at.offset) } else { at.offset };
        band.is_some_and(|band| band.contains(distance))
    };
    let inside: u64 = copies.buffers.iter().filter(landed).map(|at| at.bytes).sum();
    // among others, which buffers were those of this landing is not known
    let of = if nothing_else { all } else { landing.bytes };
    (inside as f64 / of.max(1) as f64).min(1.0)
}

/// Whether a landing's copies were of whole pages, as far as their sum tells.
fn are_whole_pages(landing: &Landing) -> bool {
    landing.bytes > 0 && landing.bytes.is_multiple_of(landing.copies.max(1).saturating_mul(u64::from(PAGE)))
}

/// What shows the distances that no call tells.
fn shown_by(copies: &Copies) -> &'static str {
    const STREAMS: [&str; 7] = ["fread", "fgets", "getline", "getdelim", "fwrite", "fputs", "puts"];
    match copies.kind {
        FileKind::Memory => "--via sample sees their distances",
        FileKind::PageCache if STREAMS.contains(&copies.call.as_str()) => {
            "--via ptrace counts the reads and writes beneath"
        }
        _ => "as root, or with sysctl kernel.perf_event_paranoid=1, --via sample sees their distances",
    }
}

/// What tells whether a path has bands.
const REPORT: &str = "a report that holds such a path, named with --report, would tell";

/// What bytes of unknown distance could lose, by what they are and what would show them.
#[derive(Default)]
struct Doubts {
    all_ns: f64,
    each_ns: BTreeMap<(String, String), f64>,
}

impl Doubts {
    fn add(&mut self, what: &str, remedy: &str, ns: f64) {
        self.all_ns += ns;
        *self.each_ns.entry((what.into(), remedy.into())).or_default() += ns;
    }

    /// The largest, as the end of a sentence.
    fn most(self) -> Option<String> {
        let most = self.each_ns.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let most = most.filter(|(_, ns)| *ns > super::TRIFLE_NS);
        most.map(|((what, remedy), _)| format!("most of that in {what} ({remedy})"))
    }
}

/// Where a program's calls landed; bytes that no landing tells of landed nobody knows where.
pub fn landings(copies: &Copies) -> impl Iterator<Item = Landing> {
    let told: u64 = copies.landings.iter().map(|landing| landing.bytes).sum();
    let rest = copies.bytes.saturating_sub(told);
    let class = (rest / copies.calls.max(1)).max(1).ilog2() as u8;
    let rest = Landing { distance: None, class, copies: copies.calls, bytes: rest };
    copies.landings.iter().copied().chain((rest.bytes > 0).then_some(rest))
}

/// Where buffers lay, over all calls that copied, most bytes first.
pub fn buffers(copies: &[Copies]) -> Vec<AtOffset> {
    let mut sums: BTreeMap<u16, AtOffset> = BTreeMap::new();
    for at in copies.iter().filter(|c| costs::is_copied(c.kind)).flat_map(|c| &c.buffers) {
        let sum = sums.entry(at.offset).or_insert(AtOffset { offset: at.offset, copies: 0, bytes: 0 });
        sum.copies += at.copies;
        sum.bytes += at.bytes;
    }
    let mut buffers: Vec<AtOffset> = sums.into_values().collect();
    buffers.sort_by_key(|at| std::cmp::Reverse(at.bytes));
    buffers
}
