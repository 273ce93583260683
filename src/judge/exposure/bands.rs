//! The deep bands of read(2) in a report, by the destination's page offset.

use crate::report::{Axis, Band, BandsAt, Depth, MetBand, PathName, PathVerdict, Report, Scan, State};
use std::collections::BTreeSet;

/// Paths that read from the page cache, the plainest first.
const READS: [PathName; 4] = [PathName::Read, PathName::Pread, PathName::Readv, PathName::Preadv];

/// What a report tells of reads: their path, the state, and the deep bands at each length that is decided. None
/// where no read was measured.
pub fn bands_of_reads(report: &Report) -> Option<(PathName, State, Vec<BandsAt>)> {
    let paths = &report.verdict.paths;
    let path = READS.into_iter().find(|path| paths.iter().any(|verdict| verdict.path == *path))?;
    let verdicts: Vec<&PathVerdict> = paths.iter().filter(|verdict| verdict.path == path).collect();
    let lens: BTreeSet<u64> = verdicts.iter().map(|verdict| verdict.len).collect();
    let decided = lens.into_iter().filter_map(|len| {
        // buffers of any allocator meet the same bands: those of the verdict that found most
        let of_len = verdicts.iter().filter(|v| v.len == len);
        let fullest = of_len.clone().map(|verdict| deep(verdict)).max_by_key(Vec::len)?;
        let is_decided = !fullest.is_empty() || of_len.clone().any(|v| v.state != State::Inconclusive);
        is_decided.then_some(BandsAt { len, bands: fullest })
    });
    let decided: Vec<BandsAt> = decided.collect();
    let state = match decided.iter().any(|at| !at.bands.is_empty()) {
        true => State::Affected,
        false if decided.is_empty() => State::Inconclusive,
        false => State::Clean,
    };
    Some((path, state, decided))
}

fn deep(verdict: &PathVerdict) -> Vec<MetBand> {
    let deep = verdict.bands.iter().filter(|band| band.depth == Depth::Deep && band.confirmed);
    let at = |band: &Band| MetBand { from: band.from, to: band.to, slowdown: Some(band.slowdown) };
    deep.filter(|band| is_met_by_dst(band)).map(at).collect()
}

/// Whether the offsets of a band are those of destinations, for a source at 0x000. A band of sources is met or
/// avoided by no buffer.
fn is_met_by_dst(band: &Band) -> bool {
    match band.axis {
        Some(Axis::Distance | Axis::Dst) => true,
        Some(Axis::Src) => false,
        Some(Axis::Mixed) | None => band.scan == Scan::Dst,
    }
}
