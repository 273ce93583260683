//! The verdict in plain sentences: the state, the deep bands, this CPU, milder things apart.

use super::Style;
use super::bands::{Found, found, whereabouts};
use super::lengths::{sampled, windows};
use super::summary::{deepest, has_many_paths, paths, state_of};
use crate::render::number::{bytes, gigabytes, on_circle, span, times};
use crate::render::text::{Paint, listed, paint, paragraph};
use crate::report::{
    Axis, Cell, Depth, Floor, PAGE, PathName, PathVerdict, Phase, Report, Scan, State, printable,
};
use std::collections::{BTreeMap, BTreeSet};

/// More bands than this in one path are counted, not told.
const MOST_BANDS: usize = 4;
/// How the verdict's reason begins that the run ended early.
const CUT_SHORT: &str = "the run was cut short";
/// From this factor on, what a misaligned destination costs is told.
const MISALIGNED: f64 = 1.05;

/// The verdict's paragraphs.
pub fn verdict(report: &Report, style: Style) -> String {
    let mut text = headline(report, style);
    text.extend(details(report).iter().map(|sentence| paragraph("", sentence, style.width)));
    text
}

/// What follows the headline, a paragraph each.
pub fn details(report: &Report) -> Vec<String> {
    let mild: Vec<Option<String>> = match has_many_paths(report) {
        true => vec![mild_of_many(report)],
        false => paths(report).into_iter().map(|path| mild(report, path)).collect(),
    };
    let before = [interrupted(report), reasons(report), Some(this_cpu(report))];
    let after = [misalignment(report), page_crossing(report)];
    before.into_iter().chain(mild).chain(after).flatten().collect()
}

/// A sentence where nothing but lengths was searched for.
fn lengths_alone(report: &Report) -> Option<String> {
    let told = || match report.verdict.state {
        State::Affected => format!("a band exists: {}.", windows(report)),
        State::Clean => format!("none of the lengths sampled, {}, shows a band.", sampled(report)),
        State::Inconclusive => "whether any length shows a band cannot be told.".into(),
    };
    (report.verdict.paths.is_empty() && report.run.options.len_auto).then(told)
}

/// Many paths: those that are slow at the same place together, then those that are not.
fn on_many(report: &Report) -> Vec<String> {
    let mut slow: Vec<(String, Vec<&str>)> = Vec::new();
    let mut rest: BTreeMap<State, Vec<&str>> = BTreeMap::new();
    for path in paths(report) {
        let Some((_, band)) = deepest(report, path).filter(|(_, b)| b.confirmed) else {
            rest.entry(state_of(report, path).unwrap_or(State::Inconclusive)).or_default().push(path.word());
            continue;
        };
        let place = whereabouts(path, band);
        match slow.iter_mut().find(|(known, _)| *known == place) {
            Some((_, paths)) => paths.push(path.word()),
            None => slow.push((place, vec![path.word()])),
        }
    }
    let slow = slow.into_iter().map(|(place, paths)| {
        let are = if paths.len() == 1 { "is" } else { "are" };
        format!("{} {are} slow {place}.", listed(&paths)).replace(" —.", ".")
    });
    let rest = rest.into_iter().map(|(state, paths)| match state {
        State::Clean if report.run.complete => {
            let of_paths = |v: &&PathVerdict| paths.contains(&v.path.word());
            let verdicts: Vec<&PathVerdict> = report.verdict.paths.iter().filter(of_paths).collect();
            let all = listed(&paths).replace(" and ", " or ");
            format!("{}.", is_clean(report, &all, &verdicts, usize::from(PAGE)))
        }
        _ => format!(
            "whether any page offset makes {} slow cannot be told.",
            listed(&paths).replace(" and ", " or ")
        ),
    });
    slow.chain(rest).collect()
}

/// The state, loud, and after it a sentence of what was found.
fn headline(report: &Report, style: Style) -> String {
    headline_of(report, &findings(report), style)
}

/// The state, the model where there is one, and a sentence.
pub(crate) fn headline_of(report: &Report, sentence: &str, style: Style) -> String {
    let state = report.verdict.state;
    let word = state.word().to_uppercase();
    let simulated = report.host.simulated.model();
    let simulated = simulated.map(|m| format!(" (simulated: {})", printable(m, 60))).unwrap_or_default();
    let text = paragraph("", &format!("{word}{simulated}: {sentence}"), style.width);
    let colour = match state {
        State::Affected => Paint::Red,
        State::Inconclusive => Paint::Yellow,
        State::Clean => Paint::Green,
    };
    match text.strip_prefix(&word) {
        Some(rest) if style.colour => paint(&word, colour) + rest,
        _ => text,
    }
}

/// What was found, where it stands alone.
pub fn as_sentence(report: &Report) -> String {
    sentence(&findings(report))
}

/// What was found on each path, in sentences.
pub fn findings(report: &Report) -> String {
    let told: Vec<String> = if has_many_paths(report) {
        on_many(report)
    } else {
        // the state's own paths first
        let mut all: Vec<PathName> = paths(report).into_iter().collect();
        all.sort_by_key(|path| std::cmp::Reverse(state_of(report, *path)));
        all.into_iter().flat_map(|path| on_path(report, path)).chain(lengths_alone(report)).collect()
    };
    let found: Vec<String> =
        told.into_iter().enumerate().map(|(at, text)| if at == 0 { text } else { sentence(&text) }).collect();
    match found.is_empty() {
        true if report.run.options.colours => "how many page colours there are was not found out.".into(),
        true => "no copy path was judged.".into(),
        false => found.join(" "),
    }
}

/// What is to be said of one path: a sentence a deep band, or that there is none.
fn on_path(report: &Report, path: PathName) -> Vec<String> {
    let mut deep = found(report, path, Depth::Deep);
    deep.sort_by_key(|f| !f.is_confirmed());
    if deep.is_empty() {
        return vec![without_bands(report, path)];
    }
    let left = deep.len().saturating_sub(MOST_BANDS);
    let mut told: Vec<String> = deep.iter().take(MOST_BANDS).map(|f| deep_band(report, path, f)).collect();
    if left > 0 {
        told.push(format!("{left} more deep bands are in the report."));
    }
    told
}

fn deep_band(report: &Report, path: PathName, found: &Found) -> String {
    let fresh = report.runs.iter().any(|run| run.phase == Phase::Confirm);
    let (is, doubt) = match found.is_confirmed() {
        true => ("is", ""),
        false if fresh => ("seems", " Fresh rounds did not confirm this."),
        false => ("seems", " No fresh rounds were taken to confirm this."),
    };
    let [place, cost, owners] = [whereabouts(path, found.band()), found.cost(), found.owners(report)];
    format!("{path} {is} slow {place}: {cost}{owners}.{doubt}").replace(" —:", ":")
}

/// A path without a deep band: at which speed, and whether that is an answer.
fn without_bands(report: &Report, path: PathName) -> String {
    let of_path = || report.verdict.paths.iter().filter(|v| v.path == path);
    let mut fastest: BTreeMap<u64, f64> = BTreeMap::new();
    for verdict in of_path().filter(|v| v.baseline_bytes_per_s > 0.0) {
        let speed = fastest.entry(verdict.len).or_insert(verdict.baseline_bytes_per_s);
        *speed = speed.max(verdict.baseline_bytes_per_s);
    }
    let speeds =
        fastest.iter().rev().map(|(len, speed)| format!("{} GB/s at {}", gigabytes(*speed), bytes(*len)));
    let speeds: Vec<String> = speeds.take(3).collect();
    let speeds = if speeds.is_empty() { String::new() } else { format!(" ({})", listed(&speeds)) };
    match of_path().map(|v| v.state).max() {
        _ if !report.run.complete => {
            format!("whether any page offset makes {path} slow is not known yet{speeds}.")
        }
        Some(State::Clean) => {
            let verdicts: Vec<&PathVerdict> = of_path().collect();
            format!("{}{speeds}.", is_clean(report, path.word(), &verdicts, offsets_of(report, path)))
        }
        _ => format!("whether any page offset makes {path} slow cannot be told{speeds}."),
    }
}

/// What has to be said where misalignment alone costs as much as a deep band does.
pub(crate) fn misalignment_apart(report: &Report, verdicts: &[&PathVerdict]) -> &'static str {
    let least = report.run.options.affected_at;
    match verdicts.iter().any(|v| v.misalignment.is_some_and(|factor| factor >= least)) {
        true => ", plain misalignment apart",
        false => "",
    }
}

/// That paths have no deep band, over all page offsets or so many; of a mild band's offsets, single ones may be slower
/// than the band as a whole.
fn is_clean(report: &Report, paths: &str, verdicts: &[&PathVerdict], offsets: usize) -> String {
    let apart = misalignment_apart(report, verdicts);
    let has_bands = verdicts.iter().any(|v| !v.bands.is_empty());
    let all = offsets == usize::from(PAGE);
    let none = match (has_bands, offsets) {
        (false, _) if all => "no page offset".into(),
        (false, 1) => "not the one page offset measured".into(),
        (false, some) => format!("none of the {some} page offsets measured"),
        (true, _) if all => "no band of page offsets".into(),
        (true, some) => format!("no band among the {some} page offsets measured"),
    };
    match has_bands {
        true => {
            format!("{none} makes {paths} {} slower or worse{apart}", times(report.run.options.affected_at))
        }
        false => format!("{none} makes {paths} slow{apart}"),
    }
}

/// The page offsets of one side at which a path was measured.
fn offsets_of(report: &Report, path: PathName) -> usize {
    let varied = |side: &dyn Fn(&Cell) -> Option<u16>| -> usize {
        let of_path = report.cells.iter().filter(|c| c.path == path);
        of_path.filter_map(side).map(|o| o % PAGE).collect::<BTreeSet<u16>>().len()
    };
    varied(&|c| c.dst).max(varied(&|c| c.src))
}

/// A run that ended early says so before anything is drawn from it.
pub fn interrupted(report: &Report) -> Option<String> {
    let how = match report.run.stopped_by.as_deref() {
        Some("time") => "The time limit ended the run".into(),
        Some(by) => format!("The run ended early ({})", printable(by, 80)),
        None => "The run is incomplete".into(),
    };
    let rest = match report.run.stopped_by.as_deref() {
        _ if report.is_whole() => "the verdict is whole, but not every setting was tried.",
        Some("time") => {
            "only what was measured until then is judged; a longer --time, or none, gives the whole answer."
        }
        _ => "only what was measured until then is judged; run it again for the whole answer.",
    };
    (!report.run.complete).then(|| format!("{how}: {rest}"))
}

/// Why an answer is missing, and what would settle it.
fn reasons(report: &Report) -> Option<String> {
    let unsettled = std::iter::once(report.verdict.state).chain(report.verdict.paths.iter().map(|v| v.state));
    let unsettled = unsettled.into_iter().any(|s| s == State::Inconclusive);
    // that the run ended early has a paragraph of its own
    let told = report.verdict.reasons.iter().filter(|r| report.is_whole() || !r.starts_with(CUT_SHORT));
    let reasons: Vec<String> = told.take(4).map(|r| sentence(&printable(r, 300))).collect();
    (unsettled && !reasons.is_empty()).then(|| format!("Why not settled: {}", reasons.join(" ")))
}

/// The text as a sentence: a capital letter, unless a path's name comes first, and a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let text = text.trim();
    let stop = if text.ends_with(['.', '!', '?', '…']) { "" } else { "." };
    let first = text.split([' ', ',']).next().unwrap_or_default();
    if first.parse::<PathName>().is_ok() {
        return format!("{text}{stop}");
    }
    let mut rest = text.chars();
    let first: String = rest.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}{stop}", rest.as_str())
}

/// What this CPU is, and which published signature the bands match.
fn this_cpu(report: &Report) -> String {
    let cpu = &report.host.cpu;
    let vendor = match cpu.vendor.as_str() {
        "AuthenticAMD" => "AMD".into(),
        "GenuineIntel" => "Intel".into(),
        "HygonGenuine" => "Hygon".into(),
        other => printable(other, 20),
    };
    let name = match &cpu.microarchitecture {
        Some(name) => printable(name, 60),
        None => format!("CPU of family {:#x}, model {:#x}", cpu.family, cpu.model),
    };
    let matches = match (&report.verdict.signature, report.verdict.state) {
        (Some(signature), _) => format!("; what was found matches {}", printable(signature, 200)),
        (None, State::Affected) if !report.verdict.paths.is_empty() => {
            "; what was found matches no published signature".into()
        }
        (None, _) => String::new(),
    };
    if cpu.family == 0 {
        // a recording holds samples alone
        return sentence(&format!("The recording does not say which CPU it is from{matches}"));
    }
    let subject = if report.is_simulated() { "The model stands for" } else { "This CPU is" };
    let name = name.strip_prefix(&format!("{vendor} ")).unwrap_or(&name);
    sentence(&format!("{subject} {} {vendor} {name}{matches}", article(&vendor)))
}

fn article(word: &str) -> &'static str {
    if word.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" }
}

/// Mild bands, which decide nothing, in one sentence a path.
fn mild(report: &Report, path: PathName) -> Option<String> {
    let mut by_len: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut spread: Option<[f64; 2]> = None;
    for found in found(report, path, Depth::Mild) {
        let lens: BTreeSet<u64> = found.seen.iter().map(|(verdict, _)| verdict.len).collect();
        for len in lens {
            let at = found.seen.iter().filter(|(verdict, _)| verdict.len == len).map(|(_, band)| *band);
            let most = at.clone().map(|b| b.slowdown).fold(f64::MIN, f64::max);
            for [low, high] in at.filter_map(|b| b.spread) {
                spread = Some(spread.map_or([low, high], |[l, h]| [l.min(low), h.max(high)]));
            }
            let band = found.band();
            let axis = band.axis.filter(|a| *a != Axis::Mixed).map_or(band.scan.word(), Axis::word);
            let unknown = if band.axis.is_none() { " (axis unknown)" } else { "" };
            let place = format!("{axis} {}{unknown}", span(on_circle(band.from), on_circle(band.to)));
            by_len.entry(len).or_default().push(format!("{} at {place}", times(most)));
        }
    }
    let by_len = by_len.into_iter().map(|(len, bands)| format!("{} for {}", few(bands), bytes(len)));
    let by_len: Vec<String> = by_len.collect();
    let spread =
        spread.map(|[low, high]| format!("; single samples range from {} to {}", times(low), times(high)));
    (!by_len.is_empty()).then(|| {
        let told = by_len.join("; ");
        format!(
            "Milder, deciding nothing, with approximate edges: {path} {told}{}.",
            spread.unwrap_or_default()
        )
    })
}

/// Which of many paths have mild bands.
fn mild_of_many(report: &Report) -> Option<String> {
    let has = |path: &PathName| !found(report, *path, Depth::Mild).is_empty();
    let paths: Vec<&str> = paths(report).into_iter().filter(has).map(PathName::word).collect();
    let have = if paths.len() == 1 { "has" } else { "have" };
    (!paths.is_empty()).then(|| format!("{} {have} milder bands too, which decide nothing.", listed(&paths)))
}

/// At most [`MOST_BANDS`] of them, and how many more.
fn few(mut texts: Vec<String>) -> String {
    let left = texts.len().saturating_sub(MOST_BANDS);
    texts.truncate(MOST_BANDS);
    if left > 0 { format!("{} and {left} more", texts.join(", ")) } else { listed(&texts) }
}

/// What destinations off a multiple of 0x40 or 0x20 mostly cost, named for what it is.
fn misalignment(report: &Report) -> Option<String> {
    let most = worst_by_length(report, |verdict| {
        let own = |f: &&Floor| (f.path, f.allocator, f.len) == (verdict.path, verdict.allocator, verdict.len);
        let floor = report.noise.floors.iter().find(own).map_or(1.0, |f| f.floor);
        verdict.misalignment.filter(|f| *f >= MISALIGNED.max(floor))
    });
    (!most.is_empty()).then(|| {
        format!(
            "A {} off a multiple of 0x40 (on some CPUs 0x20) mostly costs {}: plain misalignment, not the anomaly.",
            varied(report),
            few(most)
        )
    })
}

/// What short copies that end in the next page cost, named for what it is.
fn page_crossing(report: &Report) -> Option<String> {
    let most = worst_by_length(report, |verdict| verdict.page_crossing);
    (!most.is_empty()).then(|| {
        format!(
            "A {} that crosses into the next page costs up to {}: page crossing, not the anomaly.",
            varied(report),
            few(most)
        )
    })
}

/// The largest of a factor at each length, the longest first; with the path that has it, where there are
/// several.
fn worst_by_length(report: &Report, factor: impl Fn(&PathVerdict) -> Option<f64>) -> Vec<String> {
    let mut most: BTreeMap<u64, (f64, PathName)> = BTreeMap::new();
    for verdict in &report.verdict.paths {
        let Some(factor) = factor(verdict) else { continue };
        let known = most.entry(verdict.len).or_insert((factor, verdict.path));
        if factor > known.0 {
            *known = (factor, verdict.path);
        }
    }
    let several = paths(report).len() > 1;
    let whose = |path: PathName| if several { format!(" ({path})") } else { String::new() };
    let told = |(len, (f, path)): (&u64, &(f64, PathName))| {
        format!("{} at {}{}", times(*f), bytes(*len), whose(*path))
    };
    most.iter().rev().map(told).collect()
}

/// The side of the copies that was varied: `buffer` where that differs between paths.
fn varied(report: &Report) -> &'static str {
    let scans: BTreeSet<Scan> = paths(report).into_iter().map(PathName::own_scan).collect();
    match (scans.contains(&Scan::Dst), scans.contains(&Scan::Src)) {
        (true, true) => "buffer",
        (false, true) => "source",
        _ => "destination",
    }
}
