//! From bands and noise to a state, with its reasons in words.

use super::axis;
use super::decide::Ruling;
use super::screen::{MARGIN, Screened};
use super::series::{Key, Point, Series, Shape, class_of};
use super::windows::Found;
use super::{signature, stats};
use std::collections::{BTreeMap, BTreeSet};

use crate::report::{
    Axis, Band, Cell, Depth, Floor, PAGE, PathName, PathVerdict, Phase, Report, State, Verdict, length,
};

/// The state of one group. A long length has no screen of its own: it is clean where nothing that was
/// confirmed at the fine length shows.
pub fn of_path(
    bands: &[(Band, Ruling)],
    floor: Option<&Floor>,
    affected_at: f64,
    is_long: bool,
    seen: Seen,
) -> State {
    let deep =
        |(band, ruling): &(Band, Ruling)| band.depth == Depth::Deep && matches!(ruling, Ruling::Confirmed(_));
    if bands.iter().any(deep) {
        return State::Affected;
    }
    let open = bands.iter().any(|(_, ruling)| *ruling == Ruling::Open);
    let blind = !is_long && floor.is_none_or(|f| f.floor >= visible_at(affected_at));
    if open || blind || seen != Seen::Enough { State::Inconclusive } else { State::Clean }
}

/// Whether a group's cells allow the answer that nothing is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// They do.
    Enough,
    /// None has a sample.
    Nothing,
    /// They lie too close together: all of them may be slow, and nothing would be left to compare with.
    TooNarrow,
    /// Candidates all around the circle leave nothing to compare with.
    NoReference,
    /// Copies at this offset are as much faster than their like as a deep band is slower: what is fast there is the
    /// exception, and what all the others are compared with may be slow.
    Exception(u16),
    /// A reference of the fresh rounds was slow, at an offset that the sweep had left out.
    Surprise(u16),
}

/// The largest part of the circle that may hold no cell at all.
const WIDEST_GAP: u16 = 0x400;

/// What a sweep's offsets allow.
pub fn coverage(series: &Series<'_>, screened: &Screened, affected_at: f64) -> Seen {
    let cells = || series.parts.iter().flat_map(|p| &p.cells);
    if cells().all(|c| c.ns.iter().flatten().next().is_none()) {
        return Seen::Nothing;
    }
    let place = axis::placer(series.shape, None);
    let measured: BTreeSet<u16> = cells().filter_map(|c| place(c)).collect();
    if widest_gap(measured) > WIDEST_GAP {
        return Seen::TooNarrow;
    }
    let compared = screened.profile.points.iter().map(|p| p.offset).collect();
    if widest_gap(compared) > WIDEST_GAP {
        return Seen::NoReference;
    }
    // shorter copies fit their page at some offsets only
    let is_fast = |p: &&Point| series.key.len > u64::from(PAGE) && p.level <= -affected_at.ln();
    screened.profile.points.iter().find(is_fast).map_or(Seen::Enough, |p| Seen::Exception(p.offset))
}

/// The longest way around the circle from one offset to the next.
fn widest_gap(offsets: BTreeSet<u16>) -> u16 {
    let Some((first, last)) = offsets.first().zip(offsets.last()) else { return PAGE };
    let around = PAGE - (last - first);
    let gaps = offsets.iter().zip(offsets.iter().skip(1)).map(|(one, next)| next - one);
    gaps.chain([around]).max().unwrap_or(PAGE)
}

/// The noise floor from which a band at the limit could hide: half of it, as a logarithm.
fn visible_at(affected_at: f64) -> f64 {
    affected_at.sqrt()
}

/// Throughput of the unaffected cells off a multiple of 0x20 (on the side that was varied), which are 31 of 32 (of all, where none such
/// was sampled), and how much longer those take than the rest.
pub fn baseline(series: &Series<'_>, screened: &Screened, axis: Option<Axis>) -> (f64, Option<f64>) {
    let place = axis::placer(series.shape, axis);
    // a dense grid of near offsets would outweigh the rest of the circle
    let marked = series.parts.iter().any(|p| p.cells.iter().any(|c| c.reference));
    let clean = |c: &Cell| {
        (c.reference || !marked)
            && place(c).is_some_and(|o| !screened.stretches.iter().any(|s| s.holds(o, MARGIN)))
    };
    let typical = |keep: &dyn Fn(&Cell) -> bool| {
        let per_part = series.parts.iter().filter_map(|p| p.typical_log_ns(|c| clean(c) && keep(c)));
        stats::median_of(per_part)
    };
    let of_class = |class: usize| typical(&|c| class_of(series.shape.aligned_by(c)) == class);
    let off_log_ns = of_class(2);
    // some CPUs favour multiples of 0x20, others of 0x40 alone
    let on_log_ns = of_class(0).into_iter().chain(of_class(1)).min_by(f64::total_cmp);
    let log_ns = off_log_ns.or_else(|| typical(&|_| true)).unwrap_or(f64::NAN);
    let misalignment = match series.shape {
        Shape::Line(scan, _) if scan != series.key.path.own_scan() => None,
        _ => off_log_ns.zip(on_log_ns).map(|(off, on)| (off - on).exp()),
    };
    let bytes_per_s = series.key.len as f64 / log_ns.exp() * 1e9;
    (if bytes_per_s.is_finite() { bytes_per_s } else { 0.0 }, misalignment)
}

/// The report's verdict from those of its groups.
pub fn sum_up(
    report: &Report,
    paths: Vec<PathVerdict>,
    floors: &[Floor],
    seen: &BTreeMap<Key, Seen>,
) -> Verdict {
    let mut state = super::worst(paths.iter().map(|p| p.state)).unwrap_or(State::Inconclusive);
    let mut reasons = Vec::new();
    if paths.is_empty() {
        reasons.push(match report.colours {
            Some(_) => "page colours alone were measured, and no offsets (leave out --colours)".into(),
            None if report.run.options.colours => {
                "the search for page colours was cut short; a whole one would settle it".into()
            }
            None if report.cells.iter().any(|c| c.ns.iter().flatten().next().is_some()) => {
                "no path was measured at two page offsets or more, so there is nothing to compare with; a sweep over \
                 more of them would settle it"
                    .into()
            }
            None => "no cell was measured in any complete round".into(),
        });
    }
    let is_changed = report.source.as_ref().is_some_and(|s| s.changed);
    if (!report.is_whole() || is_changed) && state == State::Clean {
        state = State::Inconclusive;
    }
    if !report.is_whole() {
        let by = report.run.stopped_by.as_deref().unwrap_or("an interruption");
        reasons.push(format!("the run was cut short ({by}); a whole run would settle it"));
    }
    reasons.extend(deep_reasons(&paths));
    let more = more_rounds(report);
    reasons.extend(open_reasons(report, &paths, more));
    reasons.extend(seen_reasons(&paths, seen, report.run.options.affected_at, more));
    reasons.extend(noise_reasons(&paths, floors, seen, report.run.options.affected_at, more));
    if is_changed {
        reasons.push(
            "the file was written to while it was read, so its times may hold that writing: measuring a file at rest \
             would settle it"
                .into(),
        );
    }
    if state == State::Clean {
        reasons.push(clean_reason(floors));
    }
    let signature = signature::matching(&paths, |path| sources_at_zero(report, path));
    Verdict { state, reasons, paths, windows: vec![], causes: vec![], signature }
}

/// Whether every source of a path lay at page offset 0x000: dst and distance then say the same.
fn sources_at_zero(report: &Report, path: PathName) -> bool {
    report.cells.iter().filter(|c| c.path == path).all(|c| c.src.is_some_and(|src| src % PAGE == 0))
}

/// Adds what a search for lengths found; a report of nothing else takes its state from there.
pub fn add_windows(verdict: &mut Verdict, found: Found) {
    if verdict.paths.is_empty() {
        (verdict.state, verdict.reasons) = (found.state, found.reasons);
    } else {
        verdict.state = verdict.state.max(found.state);
        verdict.reasons.extend(found.reasons);
    }
    verdict.windows = found.windows;
    verdict.causes.extend(found.causes);
}

/// One line on what makes the report affected.
fn deep_reasons(paths: &[PathVerdict]) -> Option<String> {
    let deep = |p: &&PathVerdict| p.state == State::Affected;
    let affected = paths.iter().filter(deep).count();
    (affected > 0)
        .then(|| format!("{affected} of {} groups of cells hold a confirmed deep band", paths.len()))
}

/// How the verb at hand takes more rounds.
fn more_rounds(report: &Report) -> &'static str {
    if report.run.command == "check" { "the rounds of fsprobe sweep" } else { "more rounds (--rounds)" }
}

/// One line on candidates that stayed open.
fn open_reasons(report: &Report, paths: &[PathVerdict], more: &str) -> Option<String> {
    let open = |p: &&PathVerdict| p.state == State::Inconclusive && !p.bands.is_empty();
    let first = paths.iter().find(open)?;
    let band = first.bands.iter().find(|b| !b.confirmed).or(first.bands.first())?;
    let has_fresh = report.runs.iter().any(|run| run.phase == Phase::Confirm && run.rounds > 0);
    let (why, cure) = match has_fresh {
        true => {
            ("of which fresh samples could not tell whether it is", format!("a quieter machine or {more}"))
        }
        false => ("of which no fresh samples were taken to tell whether it is", "a whole run".to_owned()),
    };
    let place = match band.from == band.to {
        true => format!("{:#05x}", band.from),
        false => format!("{:#05x}-{:#05x}", band.from, band.to),
    };
    let (least, len) = (report.run.options.affected_at, length(first.len));
    Some(format!(
        "{} has a candidate at {place} ({len}, {:.2}x) {why} a deep band ({least}x and more); {cure} would settle it",
        first.path, band.slowdown
    ))
}

/// What was seen of a group.
fn seen_of(seen: &BTreeMap<Key, Seen>, path: &PathVerdict) -> Seen {
    let key = Key { path: path.path, allocator: path.allocator, len: path.len };
    seen.get(&key).copied().unwrap_or(Seen::Enough)
}

/// One line on groups whose cells do not allow an answer.
fn seen_reasons(
    paths: &[PathVerdict],
    seen: &BTreeMap<Key, Seen>,
    affected_at: f64,
    more: &str,
) -> Option<String> {
    let mut unsettled = paths.iter().filter(|p| p.state == State::Inconclusive);
    unsettled.find_map(|path| match seen_of(seen, path) {
        Seen::Enough => None,
        Seen::Nothing => Some(format!(
            "every sample at {} was lost: measuring it again would settle it",
            length(path.len)
        )),
        Seen::TooNarrow => Some(format!(
            "the offsets measured at {} lie too close together: if all of them are slow there is nothing to compare \
             with; offsets over the whole circle would settle it",
            length(path.len)
        )),
        Seen::NoReference => Some(format!(
            "so many offsets at {} seem slow that nothing is left to compare with: a quieter machine or {more} would \
             settle it",
            length(path.len)
        )),
        Seen::Exception(offset) => Some(format!(
            "offset {offset:#05x} is {affected_at}x faster and more than what all are compared with at {}, so nearly the \
             whole circle may be slow: nothing here would settle it but another machine or kernel to compare with",
            length(path.len)
        )),
        Seen::Surprise(offset) => Some(format!(
            "offset {offset:#05x}, measured for comparison at {}, was slow itself; a sweep over it (--dst) would settle it",
            length(path.len)
        )),
    })
}

/// One line on groups whose noise would have hidden a deep band.
fn noise_reasons(
    paths: &[PathVerdict],
    floors: &[Floor],
    seen: &BTreeMap<Key, Seen>,
    affected_at: f64,
    more: &str,
) -> Option<String> {
    let blind = |p: &&PathVerdict| {
        p.state == State::Inconclusive && p.bands.is_empty() && seen_of(seen, p) == Seen::Enough
    };
    let first = paths.iter().find(blind)?;
    let own = |f: &&Floor| (f.path, f.allocator, f.len) == (first.path, first.allocator, first.len);
    Some(match floors.iter().find(own) {
        Some(floor) => format!(
            "equal cells differed by up to {:.2}x at {} (up to {:.2}x leaves no doubt), so a band of {affected_at}x could \
             hide: stop what else runs on this machine, or give it {more}",
            floor.floor,
            length(first.len),
            visible_at(affected_at)
        ),
        None => format!(
            "too few samples at {} to tell a band from noise: {more} would settle it",
            length(first.len)
        ),
    })
}

/// Long lengths only test what was confirmed at shorter ones, so their noise decides nothing here.
fn clean_reason(floors: &[Floor]) -> String {
    let deciding = |f: &&Floor| f.allocator.is_none() || f.len < super::questions::LONG;
    let most = floors.iter().filter(deciding).map(|f| f.floor).fold(1.0, f64::max);
    format!("no deep band; equal cells differed by at most {most:.2}x, so one would have shown")
}
