//! From a report's samples to its verdict: baseline, screen, confirm, bands, axis, state.
//!
//! Everything here is a pure function of a [`Report`]: no clock, no file, no machine, no randomness, and
//! it imports nothing but the report's types. So any report can be judged again by newer rules.

mod again;
mod axis;
pub mod cat;
mod causes;
pub mod colours;
pub mod compare;
mod decide;
mod edges;
pub mod exposure;
mod noise;
mod page_crossing;
pub mod pipe;
mod profile;
mod questions;
pub mod readers;
mod screen;
mod series;
mod signature;
mod state;
pub mod stats;
pub mod trace;
mod windows;

pub use again::again;
pub use profile::{Profile, Routine, profiles};
pub use questions::{Detail, Questions, questions, questions_in};
pub use windows::{LONGEST as LONGEST_SEARCHED, lengths};

use crate::report::{Axis, Band, Depth, Floor, PathVerdict, Report, State, Verdict};
use decide::{Finding, Ruling};
use questions::LONG;
use screen::{Screened, Stretch};
use series::{Key, Series, Shape};
use state::Seen;
use std::collections::BTreeMap;

/// A report's verdict and the noise floors that it rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// The noise floor of each group of cells.
    pub floors: Vec<Floor>,
}

/// Judges a report.
pub fn judge(report: &Report) -> Judgement {
    let affected_at = report.run.options.affected_at;
    let screened = screened(report, affected_at);
    let (fresh, surprises) = decide::fresh(report);
    let recorded: Vec<Finding> = screened.iter().flat_map(recorded).collect();
    let mut findings: Vec<Finding> = fresh.into_iter().chain(recorded).collect();
    let first: Vec<&Finding> = findings.iter().collect();
    let rulings = decide::rule(&first, affected_at);
    let long = long(&screened, &findings, &rulings);
    let long_rulings = decide::rule(&long.iter().collect::<Vec<_>>(), affected_at);
    findings.extend(long);
    let rulings: Vec<Ruling> = rulings.into_iter().chain(long_rulings).collect();
    let floors = noise::floors(report, screened.iter().map(|s| (&s.series, &s.screened)));
    let bands = bands(&findings, &rulings, affected_at);
    let crossings = crossings(&findings, &rulings);
    let seen = seen(&screened, &surprises, affected_at);
    let paths: Vec<PathVerdict> = paths(&screened, bands, &crossings, &floors, &seen, affected_at);
    let mut verdict = state::sum_up(report, paths, &floors, &seen);
    verdict.causes = causes::causes(report, &verdict);
    if let Some(found) = windows::found(report) {
        state::add_windows(&mut verdict, found);
    }
    Judgement { verdict, floors }
}

/// A series with its screen; for a plane, along the axis that explains it.
struct Sweep<'a> {
    series: Series<'a>,
    screened: Screened,
    axis: Option<Axis>,
}

fn screened(report: &Report, affected_at: f64) -> Vec<Sweep<'_>> {
    let sweep = |series: &Series<'_>| -> (Option<Axis>, Screened) {
        let along = |axis| screen::screen(series, axis::placer(series.shape, axis));
        match series.shape {
            Shape::Line(..) => (None, along(None)),
            Shape::Plane => {
                let first = along(Some(Axis::Distance));
                match axis::of_plane(series, &first, affected_at) {
                    axis @ (None | Some(Axis::Distance)) => (axis, first),
                    axis => (axis, along(axis)),
                }
            }
        }
    };
    let screens = series::screens(report).into_iter();
    screens
        .map(|series| {
            let (axis, screened) = sweep(&series);
            Sweep { series, screened, axis }
        })
        .collect()
}

/// Findings of a recording or a plane, which have no confirm phase.
fn recorded(sweep: &Sweep<'_>) -> Vec<Finding> {
    let key = sweep.series.key;
    if key.allocator.is_some() && (key.len >= LONG || sweep.series.shape != Shape::Plane) {
        return vec![];
    }
    let finding = |s: &Stretch| decide::pooled(&sweep.series, &sweep.screened, s, sweep.axis);
    sweep.screened.stretches.iter().map(finding).collect()
}

/// The bands confirmed at the fine length, tested at the long lengths by pooled samples.
fn long(sweeps: &[Sweep<'_>], findings: &[Finding], rulings: &[Ruling]) -> Vec<Finding> {
    let mut tests = Vec::new();
    for sweep in sweeps.iter().filter(|s| s.series.key.allocator.is_some() && s.series.key.len >= LONG) {
        let key = sweep.series.key;
        let confirmed = findings.iter().zip(rulings).filter(|(f, r)| {
            let same = f.key.path == key.path && f.key.allocator == key.allocator;
            same && f.shape == sweep.series.shape && matches!(r, Ruling::Confirmed(_))
        });
        let confirmed: Vec<&Finding> = confirmed.map(|(f, _)| f).collect();
        let Some(fine) = confirmed.iter().map(|f| f.key.len).max() else { continue };
        let bands: Vec<&Finding> = confirmed.into_iter().filter(|f| f.key.len == fine).collect();
        tests.extend(long_tests(&sweep.series, &bands));
    }
    tests
}

/// Cells that a band must hold at a long length to be tested there.
const LONG_CELLS: usize = 3;

fn long_tests(series: &Series<'_>, bands: &[&Finding]) -> Vec<Finding> {
    let place = screen::on_line(series.shape);
    let stretch = |f: &Finding| Stretch {
        from: f.edges[0].at,
        to: f.edges[1].at,
        level: 0.0,
        offsets: vec![],
        beside: [0; 2],
        outer: [0.0; 2],
    };
    let all: Vec<Stretch> = bands.iter().map(|f| stretch(f)).collect();
    let avoid =
        |c: &crate::report::Cell| place(c).is_some_and(|o| all.iter().any(|s| s.holds(o, screen::MARGIN)));
    let relative: Vec<_> = series.parts.iter().map(|p| p.relative(series.shape, 0.5, avoid)).collect();
    let parts: Vec<_> = series.parts.iter().zip(&relative).collect();
    let test = |(band, stretch): (&&Finding, &Stretch)| {
        let inside = |c: &crate::report::Cell| place(c).is_some_and(|o| stretch.holds(o, 0));
        let cells = series.parts.iter().flat_map(|p| &p.cells).filter(|c| inside(c)).count();
        // a band narrower than that is tested by all the cells it has
        let enough = LONG_CELLS.min(usize::from(stretch.width()));
        (cells >= enough).then(|| Finding {
            key: series.key,
            shape: series.shape,
            edges: band.edges,
            axis: band.axis,
            trials: decide::pool(&parts, series.key.len, inside),
            testable: true,
        })
    };
    bands.iter().zip(&all).filter_map(test).collect()
}

/// Bands by group, those seen by two sweeps once, and whether each is still open.
fn bands(findings: &[Finding], rulings: &[Ruling], affected_at: f64) -> BTreeMap<Key, Vec<(Band, Ruling)>> {
    let mut bands: BTreeMap<Key, Vec<(Band, Ruling)>> = BTreeMap::new();
    let is_band = |(f, r): &(&Finding, &Ruling)| **r != Ruling::Refuted && !page_crossing::is_crossing(f);
    for (finding, ruling) in findings.iter().zip(rulings).filter(is_band) {
        let band = finding.band(*ruling, affected_at);
        // nobody is helped by a mild band that may be none
        if band.depth == Depth::Mild && !band.confirmed && *ruling != Ruling::Open {
            continue;
        }
        bands.entry(finding.key).or_default().push((band, *ruling));
    }
    for (key, of_key) in &mut bands {
        let own = key.path.own_scan();
        let seen: Vec<Band> = of_key.iter().map(|(b, _)| b.clone()).filter(|b| b.scan == own).collect();
        of_key.retain(|(band, _)| band.scan == own || !seen.iter().any(|other| same_band(other, band)));
        of_key.sort_by_key(|(band, _)| (band.scan, band.from));
    }
    bands
}

/// What crossing a page costs at most, by group.
fn crossings(findings: &[Finding], rulings: &[Ruling]) -> BTreeMap<Key, f64> {
    let mut most: BTreeMap<Key, f64> = BTreeMap::new();
    let crossing = |(f, r): &(&Finding, &Ruling)| **r != Ruling::Refuted && page_crossing::is_crossing(f);
    for (finding, _) in findings.iter().zip(rulings).filter(crossing) {
        let slowdown = stats::median_of(finding.trials.slow.iter().copied()).map_or(1.0, f64::exp);
        let known = most.entry(finding.key).or_insert(slowdown);
        *known = known.max(slowdown);
    }
    most
}

/// Whether a band found by varying the path's own side is one that the main sweep found already.
fn same_band(main: &Band, other: &Band) -> bool {
    main.axis == Some(Axis::Distance)
        && other.axis == Some(Axis::Distance)
        && (main.contains(other.from) || other.contains(main.from))
}

/// What each group's cells allow to be said, over its sweeps: the best covered one counts.
fn seen(sweeps: &[Sweep<'_>], surprises: &BTreeMap<Key, u16>, affected_at: f64) -> BTreeMap<Key, Seen> {
    let mut seen = BTreeMap::new();
    for sweep in sweeps {
        let key = sweep.series.key;
        let covered = state::coverage(&sweep.series, &sweep.screened, affected_at);
        let known = seen.entry(key).or_insert(covered);
        let is_exception = |seen: Seen| matches!(seen, Seen::Exception(_));
        if is_exception(covered) || (covered == Seen::Enough && !is_exception(*known)) {
            *known = covered;
        }
        if let Some(offset) = surprises.get(&key) {
            *known = Seen::Surprise(*offset);
        }
    }
    seen
}

fn paths(
    sweeps: &[Sweep<'_>],
    mut bands: BTreeMap<Key, Vec<(Band, Ruling)>>,
    crossings: &BTreeMap<Key, f64>,
    floors: &[Floor],
    seen: &BTreeMap<Key, Seen>,
    affected_at: f64,
) -> Vec<PathVerdict> {
    let mut by_key: BTreeMap<Key, Vec<&Sweep<'_>>> = BTreeMap::new();
    for sweep in sweeps {
        by_key.entry(sweep.series.key).or_default().push(sweep);
    }
    let verdict = |(key, sweeps): (Key, Vec<&Sweep<'_>>)| {
        let bands = bands.remove(&key).unwrap_or_default();
        let is_main = |s: &&&Sweep<'_>| match s.series.shape {
            Shape::Line(scan, _) => scan == key.path.own_scan(),
            Shape::Plane => true,
        };
        let main = sweeps.iter().find(is_main).or(sweeps.first())?;
        let floor =
            floors.iter().find(|f| (f.path, f.allocator, f.len) == (key.path, key.allocator, key.len));
        let (baseline, misalignment) = state::baseline(&main.series, &main.screened, main.axis);
        Some(PathVerdict {
            path: key.path,
            allocator: key.allocator,
            len: key.len,
            state: state::of_path(
                &bands,
                floor,
                affected_at,
                key.allocator.is_some() && key.len >= LONG,
                seen[&key],
            ),
            baseline_bytes_per_s: baseline,
            misalignment,
            page_crossing: crossings.get(&key).copied(),
            bands: bands.into_iter().map(|(band, _)| band).collect(),
        })
    };
    by_key.into_iter().filter_map(verdict).collect()
}

/// The state over several: affected if any is, else inconclusive if any is.
pub fn worst(states: impl IntoIterator<Item = State>) -> Option<State> {
    states.into_iter().max()
}
