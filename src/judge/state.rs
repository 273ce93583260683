//! From bands and noise to a state, with its reasons in words.

use super::axis;
use super::decide::Ruling;
use super::screen::{MARGIN, Screened};
use super::series::{Series, Shape, class_of};
use super::{signature, stats};
use crate::report::{Axis, Band, Cell, Depth, Floor, PathVerdict, Report, Scan, State, Verdict};

/// The state of one group. A long length has no screen of its own: it is clean where nothing that was
/// confirmed at the fine length shows.
pub fn of_path(bands: &[(Band, Ruling)], floor: Option<&Floor>, affected_at: f64, is_long: bool) -> State {
    let deep =
        |(band, ruling): &(Band, Ruling)| band.depth == Depth::Deep && matches!(ruling, Ruling::Confirmed(_));
    if bands.iter().any(deep) {
        return State::Affected;
    }
    let open = bands.iter().any(|(_, ruling)| *ruling == Ruling::Open);
    let blind = !is_long && floor.is_none_or(|f| f.floor >= visible_at(affected_at));
    if open || blind { State::Inconclusive } else { State::Clean }
}

/// The noise floor from which a band at the limit could hide: half of it, as a logarithm.
fn visible_at(affected_at: f64) -> f64 {
    affected_at.sqrt()
}

/// Throughput of the unaffected cells off a multiple of 0x20, which are 31 of 32 (of all, where none such
/// was sampled), and how much longer those take than the rest.
pub fn baseline(series: &Series<'_>, screened: &Screened, axis: Option<Axis>) -> (f64, Option<f64>) {
    let place = axis::placer(series.shape, axis);
    let clean = |c: &Cell| place(c).is_some_and(|o| !screened.stretches.iter().any(|s| s.holds(o, MARGIN)));
    let typical = |keep: &dyn Fn(&Cell) -> bool| {
        let per_part = series.parts.iter().filter_map(|p| p.typical_log_ns(|c| clean(c) && keep(c)));
        stats::median_of(per_part)
    };
    let aligned = |c: &Cell| class_of(c.dst.unwrap_or(0)) < 2;
    let off_log_ns = typical(&|c| !aligned(c));
    let log_ns = off_log_ns.or_else(|| typical(&|_| true)).unwrap_or(f64::NAN);
    let misalignment = match series.shape {
        Shape::Line(Scan::Src, _) => None,
        _ => off_log_ns.zip(typical(&|c| aligned(c))).map(|(off, on)| (off - on).exp()),
    };
    let bytes_per_s = series.key.len as f64 / log_ns.exp() * 1e9;
    (if bytes_per_s.is_finite() { bytes_per_s } else { 0.0 }, misalignment)
}

/// The report's verdict from those of its groups.
pub fn sum_up(report: &Report, paths: Vec<PathVerdict>, floors: &[Floor]) -> Verdict {
    let mut state = super::worst(paths.iter().map(|p| p.state)).unwrap_or(State::Inconclusive);
    let mut reasons = Vec::new();
    if paths.is_empty() {
        reasons.push(match report.colours {
            Some(_) => "page colours alone were measured, and no offsets (leave out --colours)".into(),
            None => "no cell was measured in any complete round".into(),
        });
    }
    if !report.run.complete && state == State::Clean {
        state = State::Inconclusive;
    }
    if !report.run.complete {
        let by = report.run.stopped_by.as_deref().unwrap_or("an interruption");
        reasons.push(format!("the run was cut short by {by}; a whole run would settle it"));
    }
    reasons.extend(deep_reasons(&paths));
    reasons.extend(open_reasons(&paths, report.run.options.affected_at));
    reasons.extend(noise_reasons(&paths, floors, report.run.options.affected_at));
    if report.source.as_ref().is_some_and(|s| s.changed) {
        reasons.push("the file was written to while it was read: its times may hold that writing".into());
    }
    if state == State::Clean {
        reasons.push(clean_reason(floors));
    }
    let deep = paths.iter().flat_map(|p| &p.bands).filter(|b| b.depth == Depth::Deep && b.confirmed);
    let signature = signature::matching(deep);
    Verdict { state, reasons, paths, windows: vec![], causes: vec![], signature }
}

/// One line on what makes the report affected.
fn deep_reasons(paths: &[PathVerdict]) -> Option<String> {
    let deep = |p: &&PathVerdict| p.state == State::Affected;
    let affected = paths.iter().filter(deep).count();
    (affected > 0)
        .then(|| format!("{affected} of {} groups of cells hold a confirmed deep band", paths.len()))
}

/// One line on candidates that stayed open.
fn open_reasons(paths: &[PathVerdict], affected_at: f64) -> Option<String> {
    let open = |p: &&PathVerdict| p.state == State::Inconclusive && !p.bands.is_empty();
    let first = paths.iter().find(open)?;
    let band = first.bands.iter().find(|b| !b.confirmed).or(first.bands.first())?;
    Some(format!(
        "a candidate at {:#05x}..{:#05x} ({} B, {:.2}x) could be told neither from a deep band ({affected_at}x) nor \
         from a milder one; a quieter machine or more rounds (--rounds) would settle it",
        band.from, band.to, first.len, band.slowdown
    ))
}

/// One line on groups whose noise would have hidden a deep band.
fn noise_reasons(paths: &[PathVerdict], floors: &[Floor], affected_at: f64) -> Option<String> {
    let blind = |p: &&PathVerdict| p.state == State::Inconclusive && p.bands.is_empty();
    let first = paths.iter().find(blind)?;
    let own = |f: &&Floor| (f.path, f.allocator, f.len) == (first.path, first.allocator, first.len);
    Some(match floors.iter().find(own) {
        Some(floor) => format!(
            "equal cells differed by up to {:.2}x at {} B, so a band of {affected_at}x could hide: stop what else \
             runs on this machine, or give more rounds (--rounds)",
            floor.floor, first.len
        ),
        None => format!(
            "too few samples at {} B to tell a band from noise: give more rounds (--rounds)",
            first.len
        ),
    })
}

fn clean_reason(floors: &[Floor]) -> String {
    let most = floors.iter().map(|f| f.floor).fold(1.0, f64::max);
    format!("no deep band; equal cells differed by at most {most:.2}x, so one would have shown")
}
