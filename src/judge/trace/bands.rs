//! The deep bands of a report as a program's copies are compared with them: by distance.

use crate::report::{
    Axis, Band, Depth, PathVerdict, Report, Scan, State, TraceBand, TraceBands, TracePath, distance,
};

/// The deep bands of a report; `elsewhere` tells whether it was recorded on another CPU than the program runs on.
pub fn of_report(report: &Report, elsewhere: bool) -> TraceBands {
    let simulated = report.is_simulated();
    TraceBands {
        source: String::new(),
        simulated,
        elsewhere: simulated || elsewhere,
        state: report.verdict.state,
        paths: paths(&report.verdict.paths),
        here: vec![],
    }
}

/// One a path and length. Where nothing is certain, or a deep band depends on one side's page offset alone, it is left
/// out: a path that is listed without a band has none.
fn paths(verdicts: &[PathVerdict]) -> Vec<TracePath> {
    let mut told: Vec<(&PathVerdict, TracePath)> = Vec::new();
    let certain = verdicts.iter().filter(|verdict| verdict.state != State::Inconclusive);
    for (verdict, path) in certain.filter_map(|verdict| Some((verdict, path(verdict)?))) {
        // allocators measured the same path: the one that shows most of its bands tells
        match told.iter_mut().find(|(_, known)| (known.path, known.len) == (path.path, path.len)) {
            Some(known) if width(verdict) > width(known.0) => *known = (verdict, path),
            Some(_) => {}
            None => told.push((verdict, path)),
        }
    }
    told.into_iter().map(|(_, path)| path).collect()
}

/// A path with its deep bands, where all of them are known by distance.
fn path(verdict: &PathVerdict) -> Option<TracePath> {
    let bands: Option<Vec<TraceBand>> = deep(verdict).map(|band| by_distance(verdict, band)).collect();
    Some(TracePath {
        path: verdict.path,
        len: verdict.len,
        baseline_bytes_per_s: Some(verdict.baseline_bytes_per_s).filter(|speed| *speed > 0.0),
        bands: bands?,
    })
}

fn deep(verdict: &PathVerdict) -> impl Iterator<Item = &Band> {
    verdict.bands.iter().filter(|band| band.confirmed && band.depth == Depth::Deep)
}

/// Offsets in deep bands.
fn width(verdict: &PathVerdict) -> u32 {
    deep(verdict).map(|band| u32::from(band.width())).sum()
}

/// A band by distance: on that axis, or of an axis that could not be told, the other side having been at 0x000.
fn by_distance(verdict: &PathVerdict, band: &Band) -> Option<TraceBand> {
    let at_zero = || match (band.axis, band.scan) {
        (Some(Axis::Dst | Axis::Src), _) => None,
        (_, Scan::Dst) => Some((band.from, band.to)),
        (_, Scan::Src) => Some((distance(0, band.to), distance(0, band.from))),
    };
    let (from, to) = verdict.by_distance(band).or_else(at_zero)?;
    let (slowdown, penalty_ns_per_kib) = (band.slowdown, band.penalty_ns_per_kib);
    Some(TraceBand { from, to, slowdown, penalty_ns_per_kib })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Allocator, PathName};

    fn band(axis: Option<Axis>) -> Band {
        serde_json::from_value(serde_json::json!({
            "from": 1, "to": 15, "from_range": null, "to_range": null, "scan": "dst", "axis": axis,
            "depth": "deep", "confirmed": true, "slowdown": 7.0, "slowdown_ci95": null, "spread": null,
            "penalty_ns_per_kib": 275.0, "penalty_ci95": null, "bytes_per_s": 1.0
        }))
        .unwrap()
    }

    fn verdict(path: PathName, state: State, bands: Vec<Band>) -> PathVerdict {
        PathVerdict {
            path,
            allocator: Some(Allocator::Pages),
            len: 65536,
            state,
            baseline_bytes_per_s: 1e10,
            misalignment: None,
            page_crossing: None,
            bands,
        }
    }

    fn told_of(verdicts: &[PathVerdict]) -> Vec<(PathName, usize)> {
        paths(verdicts).iter().map(|path| (path.path, path.bands.len())).collect()
    }

    #[test]
    fn a_path_of_which_nothing_is_certain_is_left_out() {
        let verdicts = [
            verdict(PathName::Read, State::Affected, vec![band(Some(Axis::Distance))]),
            verdict(PathName::Write, State::Inconclusive, vec![]),
            verdict(PathName::Memcpy, State::Clean, vec![]),
            verdict(PathName::PipeRead, State::Inconclusive, vec![Band { confirmed: false, ..band(None) }]),
        ];
        assert_eq!(told_of(&verdicts), [(PathName::Read, 1), (PathName::Memcpy, 0)]);
    }

    #[test]
    fn a_path_whose_band_depends_on_one_side_alone_is_left_out() {
        for axis in [Axis::Dst, Axis::Src] {
            let one_sided = verdict(PathName::Read, State::Affected, vec![band(Some(axis))]);
            assert_eq!(told_of(&[one_sided]), []);
        }
        let unknown = verdict(PathName::Read, State::Affected, vec![band(None)]);
        assert_eq!(told_of(&[unknown]), [(PathName::Read, 1)]);
    }

    #[test]
    fn an_allocator_that_was_undecided_does_not_hide_another() {
        let undecided = verdict(PathName::Read, State::Inconclusive, vec![]);
        let decided = verdict(PathName::Read, State::Affected, vec![band(Some(Axis::Distance))]);
        assert_eq!(told_of(&[undecided, decided]), [(PathName::Read, 1)]);
    }
}
