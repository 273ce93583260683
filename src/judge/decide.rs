//! Decides on candidates: by fresh rounds where there are any, by pooled samples in a recording.

use super::axis;
use super::edges::{Edge, Evidence, edges};
use super::questions::{Asked, WINDOW, asked};
use super::screen::{self, LEVELS, MILD, Screened, Stretch};
use super::series::{self, Key, Part, Profile, Relative, Series, Shape};
use super::stats;
use crate::report::{Axis, Band, Cell, Depth, PAGE, Report, Scan};

use std::collections::BTreeMap;

/// A candidate's samples as one value a trial: a block of fresh rounds, or a pooled sample.
pub struct Trials {
    /// Log slowdowns.
    pub slow: Vec<f64>,
    /// Extra nanoseconds per KiB.
    pub penalty: Vec<f64>,
    /// Log slowdowns of all single samples, for the spread.
    pub samples: Vec<f64>,
    /// Median log nanoseconds of one copy inside.
    pub log_ns: f64,
}

/// A candidate with what was found of it.
pub struct Finding {
    pub key: Key,
    pub shape: Shape,
    pub edges: [Edge; 2],
    pub axis: Option<Axis>,
    pub trials: Trials,
    /// Whether enough cells stand behind it to confirm anything.
    pub testable: bool,
}

/// How a finding was ruled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling {
    /// A band.
    Confirmed(Depth),
    /// Perhaps a deep band: the rounds cannot tell.
    Open,
    /// No band.
    Refuted,
}

/// Findings of all series with a confirm phase.
///
/// With them the references of the fresh rounds that were slow themselves, at offsets that no sweep had
/// put forward: nothing was asked about these, so their groups cannot be called clean.
pub fn fresh(report: &Report) -> (Vec<Finding>, BTreeMap<Key, u16>) {
    let mut findings = Vec::new();
    let mut surprises = BTreeMap::new();
    for one in &asked(report) {
        let parts = series::confirms(report, one.series.key);
        let fresh: Vec<Fresh<'_>> = parts.iter().map(|part| Fresh::of(one, part)).collect();
        findings.extend(joined(one, &fresh).iter().map(|candidate| finding(one, candidate)));
        let slow = fresh.iter().find_map(|f| f.surprise(one, report.run.options.affected_at));
        surprises.extend(slow.map(|offset| (one.series.key, offset)));
    }
    (findings, surprises)
}

/// One run's fresh rounds against their references.
struct Fresh<'a> {
    part: &'a Part<'a>,
    relative: Relative,
    profile: Profile,
}

impl<'a> Fresh<'a> {
    fn of(one: &Asked<'_>, part: &'a Part<'a>) -> Fresh<'a> {
        let place = screen::on_line(one.series.shape);
        let avoid =
            |c: &Cell| place(c).is_some_and(|o| one.tested.iter().any(|s| s.holds(o, screen::MARGIN)));
        let relative = part.relative(one.series.shape, 0.5, avoid);
        let profile = Profile::gather([(part, &relative)], place);
        Fresh { part, relative, profile }
    }

    /// A reference that is as slow as a deep band, clear of every candidate.
    fn surprise(&self, one: &Asked<'_>, affected_at: f64) -> Option<u16> {
        let place = screen::on_line(one.series.shape);
        let references = self.part.cells.iter().filter(|c| c.reference).filter_map(|c| place(c));
        let clear = |o: &u16| !one.tested.iter().any(|s| s.holds(*o, WINDOW));
        let slow = |o: &u16| self.profile.at(*o).is_some_and(|p| p.level >= affected_at.ln());
        references.filter(clear).find(slow)
    }

    /// The median log slowdown of the points inside a stretch.
    fn level(&self, stretch: &Stretch) -> Option<f64> {
        let inside = self.profile.points.iter().filter(|p| stretch.holds(p.offset, 0));
        stats::median_of(inside.map(|p| p.level))
    }
}

/// A tested stretch with its fresh rounds, where it has any.
struct Candidate<'a> {
    stretch: Stretch,
    /// The stretch whose crossing was asked for: the candidate itself, or its widest part.
    crossed: Stretch,
    fresh: Option<&'a Fresh<'a>>,
}

/// The tested stretches; neighbours that turn out to be of one level are one candidate, since a noisy
/// cell of the screen can split a band.
fn joined<'a>(one: &Asked<'_>, fresh: &'a [Fresh<'a>]) -> Vec<Candidate<'a>> {
    let mut out: Vec<Candidate<'a>> = Vec::new();
    for stretch in &one.tested {
        let own = fresh.iter().find(|f| f.level(stretch).is_some());
        let level = |s: &Stretch| own.and_then(|f| f.level(s));
        if let Some(last) = out.last_mut() {
            let adjacent = last.stretch.to.wrapping_add(1) % PAGE == stretch.from;
            let levels = level(&last.stretch).zip(level(stretch));
            if adjacent && levels.is_some_and(|(a, b)| (a - b).abs() < LEVELS.ln()) {
                last.append(stretch);
                continue;
            }
        }
        out.push(Candidate { stretch: stretch.clone(), crossed: stretch.clone(), fresh: own });
    }
    out
}

impl Candidate<'_> {
    fn append(&mut self, next: &Stretch) {
        self.stretch.to = next.to;
        self.stretch.offsets.extend(&next.offsets);
        self.stretch.beside[1] = next.beside[1];
        self.stretch.outer[1] = next.outer[1];
        if next.width() > self.crossed.width() {
            self.crossed = next.clone();
        }
    }
}

fn finding(one: &Asked<'_>, candidate: &Candidate<'_>) -> Finding {
    let (key, shape, stretch) = (one.series.key, one.series.shape, &candidate.stretch);
    let Some(fresh) = candidate.fresh else {
        return pooled(&one.series, &one.screened, stretch, None);
    };
    let evidence = Evidence { fresh: Some(&fresh.profile), screen: &one.screened.profile };
    let level = fresh.level(stretch).unwrap_or(stretch.level);
    let edges = edges(stretch, level, &one.tested, &evidence);
    let within = Stretch { from: edges[0].at, to: edges[1].at, ..stretch.clone() };
    let place = screen::on_line(shape);
    let inside = |c: &Cell| place(c).is_some_and(|o| within.holds(o, 0));
    let trials = blocks(fresh.part, &fresh.relative, key.len, inside);
    let axis = axis::crossing(key, shape, &candidate.crossed, &one.tested, fresh.part, &fresh.relative);
    Finding { key, shape, edges, axis, testable: !trials.slow.is_empty(), trials }
}

/// One trial a block: the median over the candidate's cells.
pub fn blocks(part: &Part<'_>, relative: &Relative, len: u64, inside: impl Fn(&Cell) -> bool) -> Trials {
    let rows = rows(part, relative, inside);
    let kib = len as f64 / 1024.0;
    let mut trials = Trials { slow: vec![], penalty: vec![], samples: vec![], log_ns: f64::NAN };
    for round in 0..part.rounds {
        let here =
            || rows.iter().map(move |(logs, base)| (logs[round], base[round])).filter(|(l, _)| !l.is_nan());
        let Some(slow) = stats::median_of(here().map(|(l, _)| l)) else { continue };
        let penalty = here().map(|(l, base)| (l + base).exp() - base.exp());
        trials.slow.push(slow);
        trials.penalty.extend(stats::median_of(penalty).map(|p| p / kib));
    }
    trials.samples = rows.iter().flat_map(|(logs, _)| logs.iter().copied()).filter(|l| !l.is_nan()).collect();
    trials.log_ns = log_ns(&rows);
    trials
}

/// One trial a sample: all samples of all cells inside.
pub fn pool(parts: &[(&Part<'_>, &Relative)], len: u64, inside: impl Fn(&Cell) -> bool + Copy) -> Trials {
    let rows: Vec<_> = parts.iter().flat_map(|(part, relative)| rows(part, relative, inside)).collect();
    let kib = len as f64 / 1024.0;
    let samples =
        || rows.iter().flat_map(|(logs, base)| logs.iter().zip(base.iter())).filter(|(l, _)| !l.is_nan());
    let slow: Vec<f64> = samples().map(|(l, _)| *l).collect();
    let penalty = samples().map(|(l, base)| ((l + base).exp() - base.exp()) / kib).collect();
    Trials { samples: slow.clone(), slow, penalty, log_ns: log_ns(&rows) }
}

/// A cell's log slowdowns and its references' log nanoseconds, one a round.
type Row<'a> = (&'a [f64], &'a [f64]);

fn rows<'a>(part: &Part<'_>, relative: &'a Relative, inside: impl Fn(&Cell) -> bool) -> Vec<Row<'a>> {
    let cells = (0..part.cells.len()).filter(|i| inside(part.cells[*i]));
    cells.map(|i| (relative.logs[i].as_slice(), relative.base_of(i))).collect()
}

fn log_ns(rows: &[Row<'_>]) -> f64 {
    let all = rows.iter().flat_map(|(logs, base)| logs.iter().zip(base.iter()).map(|(l, b)| l + b));
    stats::median_of(all.filter(|v| !v.is_nan())).unwrap_or(f64::NAN)
}

/// A finding by the screen's own samples: what a recording allows.
pub fn pooled(series: &Series<'_>, screened: &Screened, stretch: &Stretch, axis: Option<Axis>) -> Finding {
    let evidence = Evidence { fresh: None, screen: &screened.profile };
    let edges = edges(stretch, stretch.level, &screened.stretches, &evidence);
    let within = Stretch { from: edges[0].at, to: edges[1].at, ..stretch.clone() };
    let shape = series.shape;
    let projected = axis::placer(shape, axis);
    let inside = |c: &Cell| projected(c).is_some_and(|o| within.holds(o, 0));
    let parts: Vec<_> = series.parts.iter().zip(&screened.relative).collect();
    let trials = pool(&parts, series.key.len, inside);
    let cells = parts.iter().flat_map(|(p, _)| p.cells.iter()).filter(|c| inside(c)).count();
    // an allocator's candidate without fresh rounds was cut off: it stays open; a plane has none
    let testable = (series.key.allocator.is_none() || shape == Shape::Plane) && cells >= 2;
    Finding { key: series.key, shape, edges, axis, trials, testable }
}

/// Rules on all findings of a report together, so that many candidates do not make one of them true
/// by chance.
pub fn rule(findings: &[&Finding], affected_at: f64) -> Vec<Ruling> {
    let p = |f: &Finding, at: f64| if f.testable { stats::above(&f.trials.slow, at.ln()) } else { 1.0 };
    let deep: Vec<f64> = findings.iter().map(|f| p(f, affected_at)).collect();
    let mild: Vec<f64> = findings.iter().map(|f| p(f, MILD.min(affected_at))).collect();
    let deep = stats::holm(&deep, stats::ALPHA);
    let mild = stats::holm(&mild, stats::ALPHA);
    let rule = |(index, f): (usize, &&Finding)| {
        let limit = affected_at.ln();
        let point = stats::median_of(f.trials.slow.iter().copied()).unwrap_or(0.0);
        let crosses = stats::median_interval(&f.trials.slow).is_some_and(|[lo, hi]| lo < limit && limit < hi);
        match (deep[index], mild[index]) {
            (true, _) => Ruling::Confirmed(Depth::Deep),
            _ if point >= limit || crosses => Ruling::Open,
            (false, true) => Ruling::Confirmed(Depth::Mild),
            (false, false) => Ruling::Refuted,
        }
    };
    findings.iter().enumerate().map(rule).collect()
}

impl Finding {
    /// The band of the report's form, in its axis.
    pub fn band(&self, ruling: Ruling, affected_at: f64) -> Band {
        let (scan, fixed) = match self.shape {
            Shape::Line(scan, fixed) => (scan, fixed),
            Shape::Plane => (Scan::Dst, 0),
        };
        let slow = &self.trials.slow;
        let point = stats::median_of(slow.iter().copied()).unwrap_or(0.0);
        let depth = match ruling {
            Ruling::Confirmed(depth) => depth,
            _ if point >= affected_at.ln() => Depth::Deep,
            _ => Depth::Mild,
        };
        let placed = Placed::of(self.edges, scan, fixed, self.axis.filter(|_| self.shape != Shape::Plane));
        let approximate = |edge: Edge| edge.range.or((depth == Depth::Mild).then_some([edge.at; 2]));
        let [p10, p90] = [0.1, 0.9].map(|q| stats::quantile(&mut self.trials.samples.clone(), q));
        Band {
            from: placed.from.at,
            to: placed.to.at,
            from_range: approximate(placed.from),
            to_range: approximate(placed.to),
            scan,
            axis: self.axis,
            depth,
            confirmed: matches!(ruling, Ruling::Confirmed(_)),
            slowdown: point.exp(),
            slowdown_ci95: stats::median_interval(slow).map(|ci| ci.map(f64::exp)),
            spread: p10.zip(p90).map(|(lo, hi)| [lo.exp(), hi.exp()]),
            penalty_ns_per_kib: stats::median_of(self.trials.penalty.iter().copied()).unwrap_or(0.0),
            penalty_ci95: stats::median_interval(&self.trials.penalty),
            bytes_per_s: self.key.len as f64 / self.trials.log_ns.exp() * 1e9,
        }
    }
}

/// Edges moved from the scan's offsets to those of the band's axis.
struct Placed {
    from: Edge,
    to: Edge,
}

impl Placed {
    fn of([from, to]: [Edge; 2], scan: Scan, fixed: u16, axis: Option<Axis>) -> Placed {
        if axis != Some(Axis::Distance) {
            return Placed { from, to };
        }
        match scan {
            Scan::Dst => {
                let moved = |o: u16| o.wrapping_sub(fixed) % PAGE;
                let edge = |e: Edge| Edge { at: moved(e.at), range: e.range.map(|r| r.map(moved)) };
                Placed { from: edge(from), to: edge(to) }
            }
            // distance falls as src rises: the ends change places
            Scan::Src => {
                let moved = |o: u16| fixed.wrapping_sub(o) % PAGE;
                let edge =
                    |e: Edge| Edge { at: moved(e.at), range: e.range.map(|[a, b]| [moved(b), moved(a)]) };
                Placed { from: edge(to), to: edge(from) }
            }
        }
    }
}
