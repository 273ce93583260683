//! What became of a machine between reports: verdict, groups, what changed, what may be credited.

mod markdown;
mod sentence;

pub use markdown::{markdown, trend_markdown};

use super::number::{bytes, on_circle, penalty, span, times_briefly};
use super::terminal::Style;
use super::text::{Paint, listed, paint, paragraph};
use crate::report::{
    Bearing, Change, ComparedBand, ComparedGroup, ComparedReport, ComparedSide, Comparison, Difference,
    PathName, Trend, TrendPoint, printable,
};
use sentence::sentence;
use std::collections::{BTreeMap, BTreeSet};

/// Characters of a text from a report that are shown.
const LONGEST: usize = 600;
/// Characters of one fact that are shown.
const LONGEST_FACT: usize = 60;

/// The whole text: at most 80 columns, complete without colour.
pub fn text(comparison: &Comparison, style: Style) -> String {
    let parts = [
        headline(comparison, style),
        table(comparison, style),
        differences(comparison, style),
        paragraph("Credit  ", &format!("{}.", printable(&comparison.credit.reason, LONGEST)), style.width),
        notes(comparison, style),
    ];
    parts.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join("\n")
}

/// One line a report, then what became of the machine from the first to the last.
pub fn trend(trend: &Trend, style: Style) -> String {
    let mut lines = trend_row(["recorded", "state", "since before", "deep band", "slow", "changed"]);
    lines.extend(trend.points.iter().map(|p| trend_row(trend_cells(p).each_ref().map(String::as_str))));
    lines + "\nFrom the first to the last:\n" + &text(&trend.overall, style)
}

fn trend_row([recorded, state, change, band, slow, changed]: [&str; 6]) -> String {
    let line = format!("{recorded:<20}{state:<14}{change:<13}{band:<12}{slow:>5}  {changed}");
    line.trim_end().to_owned() + "\n"
}

fn trend_cells(point: &TrendPoint) -> [String; 6] {
    let band = point.deepest.as_ref();
    // the names are fsprobe's own, the first few fit
    let changed = match point.changed.as_slice() {
        [] => String::new(),
        [one] => printable(one, 13),
        [one, more @ ..] => format!("{} +{}", printable(one, 9), more.len()),
    };
    [
        when(&point.report.recorded_at),
        point.report.state.word().into(),
        point.change.map_or("-", Change::word).into(),
        band.map_or("-".into(), |b| span(on_circle(b.from), on_circle(b.to))),
        band.map_or("-".into(), |b| times_briefly(b.slowdown)),
        changed,
    ]
}

/// A time stamp to the second.
fn when(recorded_at: &str) -> String {
    printable(recorded_at, 19).trim_end_matches('…').replacen('T', " ", 1)
}

fn headline(comparison: &Comparison, style: Style) -> String {
    let word = comparison.change.word().to_uppercase();
    let text = paragraph("", &format!("{word}{}: {}", models(comparison), sentence(comparison)), style.width);
    let colour = match comparison.change {
        Change::Fixed | Change::Unaffected => Paint::Green,
        Change::PartlyFixed | Change::CannotTell => Paint::Yellow,
        Change::NotFixed | Change::Regressed => Paint::Red,
    };
    match text.strip_prefix(&word) {
        Some(rest) if style.colour => paint(&word, colour) + rest,
        _ => text,
    }
}

/// ` (simulated: zen4 and zen4-updated)`, or nothing.
fn models(comparison: &Comparison) -> String {
    let sides = [&comparison.before, &comparison.after];
    let mut models: Vec<String> = sides
        .iter()
        .flat_map(|s| &s.reports)
        .filter_map(|r| r.simulated.as_ref())
        .map(|m| printable(m, LONGEST_FACT))
        .collect();
    models.dedup();
    if models.is_empty() { String::new() } else { format!(" (simulated: {})", listed(&models)) }
}

/// Two lines a group that has a deep band on either side; the others in a sentence.
fn table(comparison: &Comparison, style: Style) -> String {
    let told = |g: &&ComparedGroup| g.change != Change::Unaffected;
    let groups: Vec<&ComparedGroup> = comparison.groups.iter().filter(told).collect();
    let mut text = sides(comparison, style);
    if !groups.is_empty() {
        text += &row(["path", "length", "side", "deep band", "slowdown", "ns/KiB"]);
    }
    text.extend(groups.iter().map(|g| rows(g)));
    let rest = unaffected(&comparison.groups);
    if !rest.is_empty() {
        text += &paragraph("", &format!("Unaffected before and after: {rest}."), style.width);
    }
    text
}

/// `read at 128 B and 512 B (glibc, jemalloc)`.
fn unaffected(groups: &[ComparedGroup]) -> String {
    let mut allocators: BTreeMap<(PathName, u64), Vec<&str>> = BTreeMap::new();
    for group in groups.iter().filter(|g| g.change == Change::Unaffected) {
        let name = group.allocator.map_or("no allocator", |a| a.word());
        allocators.entry((group.path, group.len)).or_default().push(name);
    }
    let mut lengths: BTreeMap<(PathName, Vec<&str>), Vec<String>> = BTreeMap::new();
    for ((path, len), names) in allocators {
        lengths.entry((path, names)).or_default().push(bytes(len));
    }
    let told = lengths
        .iter()
        .map(|((path, names), lens)| format!("{path} at {} ({})", listed(lens), names.join(", ")));
    told.collect::<Vec<_>>().join("; ")
}

/// `Before  affected, 2026-11-30 10:00, fsprobe 0.1.0`.
fn sides(comparison: &Comparison, style: Style) -> String {
    let line = |label: &str, side: &ComparedSide| paragraph(label, &side_in_words(side), style.width);
    let cpu = paragraph("CPU     ", &printable(&comparison.cpu, 2 * LONGEST_FACT), style.width);
    cpu + &line("Before  ", &comparison.before) + &line("After   ", &comparison.after) + "\n"
}

fn side_in_words(side: &ComparedSide) -> String {
    let remark = |r: &ComparedReport| {
        let cut = (!r.complete).then(|| "cut short".to_owned());
        let remarks: Vec<String> =
            cut.into_iter().chain(r.rejudged.as_ref().map(|w| printable(w, LONGEST))).collect();
        if remarks.is_empty() { String::new() } else { format!(" ({})", remarks.join("; ")) }
    };
    let report = |r: &ComparedReport| {
        format!("{} by fsprobe {}{}", when(&r.recorded_at), printable(&r.tool_version, 20), remark(r))
    };
    match side.reports.as_slice() {
        [one] => format!("{}: {}", side.state, report(one)),
        several => {
            let noted: Vec<String> = several.iter().filter(|r| !remark(r).is_empty()).map(report).collect();
            let times: BTreeSet<String> = several.iter().map(|r| when(&r.recorded_at)).collect();
            let [first, last] = [times.first(), times.last()].map(|t| t.map_or("", String::as_str));
            let noted = if noted.is_empty() { String::new() } else { format!("; {}", noted.join("; ")) };
            format!("{}: {} reports from {first} to {last}{noted}", side.state, several.len())
        }
    }
}

fn rows(group: &ComparedGroup) -> String {
    let sides = [("before", &group.before), ("after", &group.after)];
    let mut right: Vec<[String; 4]> = Vec::new();
    for (name, side) in sides {
        right.extend(side.bands.iter().map(|b| band_cells(name, b)));
        if side.bands.is_empty() {
            let none = if side.state == crate::report::State::Clean { "none" } else { "?" };
            right.push([name.into(), none.into(), String::new(), String::new()]);
        }
    }
    let allocator = group.allocator.map(|a| format!("{a}: ")).unwrap_or_default();
    let left = [
        (group.path.word().to_owned(), bytes(group.len)),
        (format!(" {allocator}{}", group.change), String::new()),
    ];
    let mut left = left.into_iter();
    let lines = right.iter().map(|[side, band, slowdown, penalty]| {
        let (path, length) = left.next().unwrap_or_default();
        row([&path, &length, side, band, slowdown, penalty])
    });
    lines.collect()
}

fn row([path, length, side, band, slowdown, penalty]: [&str; 6]) -> String {
    // the change on the second line takes the place of the length as well
    let left = if length.is_empty() { format!("{path:<24}") } else { format!("{path:<16}{length:>8}") };
    format!("{left}  {side:<7} {band:<12} {slowdown:<15} {penalty}").trim_end().to_owned() + "\n"
}

fn band_cells(side: &str, band: &ComparedBand) -> [String; 4] {
    let [slow_low, slow_high] = band.slowdown_interval.map(|s| times_briefly(s).replace('x', ""));
    let [low, high] = band.penalty_interval;
    [
        side.into(),
        place(band),
        format!("{} ({slow_low}-{slow_high})", times_briefly(band.slowdown)),
        format!("{} ({low:.0}-{high:.0})", penalty(band.penalty_ns_per_kib)),
    ]
}

/// The band's offsets, `~` where an edge is a range.
fn place(band: &ComparedBand) -> String {
    let range = band.from_range.is_some() || band.to_range.is_some();
    span(on_circle(band.from), on_circle(band.to)) + if range { "~" } else { "" }
}

/// What a band's offsets count: `distance`, or the side varied.
fn axis(band: &ComparedBand) -> &'static str {
    band.axis.map_or(band.scan.word(), |a| a.word())
}

fn differences(comparison: &Comparison, style: Style) -> String {
    if comparison.differences.is_empty() {
        return "What changed on the host: nothing that fsprobe records.\n".into();
    }
    let line = |d: &Difference| {
        let [before, after] = values(d);
        let text = format!("{before} → {after}{}", remark(d));
        paragraph(&format!("  {:<23} ", printable(&d.fact, 40)), &text, style.width)
    };
    let lines: String = in_order(comparison).into_iter().map(line).collect();
    format!("What changed on the host\n{lines}")
}

/// Relevant facts first.
fn in_order(comparison: &Comparison) -> Vec<&Difference> {
    let mut ordered: Vec<&Difference> = comparison.differences.iter().collect();
    ordered.sort_by_key(|d| (d.bears_on == Bearing::Speed, d.follows.is_some()));
    ordered
}

fn values(difference: &Difference) -> [String; 2] {
    let value = |v: &Option<String>| v.as_ref().map_or("unknown".into(), |v| printable(v, LONGEST_FACT));
    [value(&difference.before), value(&difference.after)]
}

fn remark(difference: &Difference) -> String {
    match (&difference.follows, difference.bears_on) {
        (_, Bearing::Speed) => " (no bearing on which offsets are slow)".into(),
        (Some(cause), _) => format!(" (may follow from: {})", printable(cause, 40)),
        (None, Bearing::Every) => String::new(),
        (None, paths) => format!(" (bears on {paths})"),
    }
}

fn notes(comparison: &Comparison, style: Style) -> String {
    let note = |text: &String| paragraph("Note    ", &format!("{}.", printable(text, LONGEST)), style.width);
    let qualified: String = match comparison.change {
        // the headline has them
        Change::CannotTell => String::new(),
        _ => comparison.reasons.iter().map(note).collect(),
    };
    let spread =
        Some(spread(comparison)).filter(|_| comparison.groups.iter().any(|g| g.change != Change::Unaffected));
    qualified
        + &spread.iter().map(note).collect::<String>()
        + &comparison.caveats.iter().map(note).collect::<String>()
}

fn spread(comparison: &Comparison) -> String {
    let from = match comparison.spread.measured {
        true => "measured from the reports of one side",
        false => "published; three or more reports a side (--before, --after) would measure it",
    };
    format!(
        "intervals hold rounds and the spread between runs of an unchanged machine, {:.2}x ({from})",
        comparison.spread.factor
    )
}
