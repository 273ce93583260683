//! The text of `fsprobe check`: verdict, one table, causes, what to do, what was tried.

use super::evidence::evidence;
use super::facts::rejudged;
use super::number::{bytes, offset, on_circle, penalty, span, times, times_briefly};
use super::terminal::Style;
use super::terminal::lengths::windows;
use super::terminal::verdict::{self, headline_of, interrupted, misalignment_apart};
use super::text::{listed, paragraph};
use crate::report::{Axis, Band, Depth, PathName, PathVerdict, Remedy, Report, State, printable};
use std::collections::BTreeSet;

/// Characters of a reason or note that come from elsewhere.
const LONGEST: usize = 600;

/// The whole text: at most 80 columns, complete without colour.
pub fn text(report: &Report, style: Style) -> String {
    let again = rejudged(report).map_or(String::new(), |said| paragraph("", &said, style.width));
    joined([again, verdict(report, style), table(report), reasoning(report, style), skipped(report, style)])
}

/// The verdict in sentences, for other formats.
pub(crate) fn told(report: &Report, style: Style) -> String {
    joined([verdict(report, style), reasoning(report, style)])
}

/// The headline, and whether the run ended early.
fn verdict(report: &Report, style: Style) -> String {
    let cut = interrupted(report).map(|said| paragraph("", &said, style.width));
    headline(report, style) + &cut.unwrap_or_default()
}

/// Causes, what to do, what was tried.
fn reasoning(report: &Report, style: Style) -> String {
    joined([
        causes(report, style),
        evidence(report).map_or(String::new(), |said| paragraph("", &said, style.width)),
        what_to_do(report, style),
        tried(report, style),
        placements(report, style),
    ])
}

/// The parts that say something, a line between them.
fn joined<const N: usize>(parts: [String; N]) -> String {
    let parts: Vec<String> = parts.into_iter().filter(|p| !p.is_empty()).collect();
    parts.join("\n")
}

/// The band that decides a path: the deepest confirmed one, else the slowest found.
fn telling(path: &PathVerdict) -> Option<&Band> {
    let key = |b: &&Band| (b.depth == Depth::Deep && b.confirmed, b.slowdown);
    path.bands.iter().max_by(|a, b| {
        let (a, b) = (key(a), key(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    })
}

fn deep(path: &PathVerdict) -> Option<&Band> {
    telling(path).filter(|b| b.depth == Depth::Deep && b.confirmed)
}

fn headline(report: &Report, style: Style) -> String {
    headline_of(report, &sentence(report), style)
}

/// What was found, where it stands alone.
pub(super) fn as_sentence(report: &Report) -> String {
    verdict::sentence(&sentence(report))
}

fn sentence(report: &Report) -> String {
    let verdict = &report.verdict;
    match verdict.state {
        State::Affected => affected(report),
        State::Clean => {
            let names: BTreeSet<PathName> = verdict.paths.iter().map(|p| p.path).collect();
            let names: Vec<&str> = names.iter().map(|p| p.word()).collect();
            let at = times(report.run.options.affected_at);
            let apart = misalignment_apart(report, &verdict.paths.iter().collect::<Vec<_>>());
            let names = listed(&names).replace(" and ", " or ");
            format!("no band of page offsets makes {names} {at} slower or worse{apart}.")
        }
        State::Inconclusive => {
            let reasons: Vec<String> = verdict.reasons.iter().map(|r| printable(r, LONGEST)).collect();
            format!("{}.", reasons.join("; "))
        }
    }
}

/// Which paths are slow, where and by how much.
fn affected(report: &Report) -> String {
    let slow: Vec<(&PathVerdict, &Band)> =
        report.verdict.paths.iter().filter_map(|p| Some((p, deep(p)?))).collect();
    if slow.is_empty() {
        return format!("a band exists: {}.", windows(report));
    }
    let names: BTreeSet<PathName> = slow.iter().map(|(p, _)| p.path).collect();
    let names: Vec<&str> = names.iter().map(|p| p.word()).collect();
    let factors = || slow.iter().map(|(_, b)| b.slowdown);
    let [low, high] = [factors().fold(f64::INFINITY, f64::min), factors().fold(0.0, f64::max)].map(times);
    let factor = if low == high { low } else { format!("{low} to {high}") };
    let places: BTreeSet<String> = slow.iter().map(|(p, b)| place(p, b)).collect();
    let places: Vec<String> = places.into_iter().collect();
    let signature = report.verdict.signature.as_ref();
    let signature = signature.map(|s| format!(" It matches {}.", printable(s, 200))).unwrap_or_default();
    format!("{} {factor} slower at {}.{signature}", is_or_are(&names), listed(&places))
}

fn place(path: &PathVerdict, band: &Band) -> String {
    if let Some((from, to)) = path.by_distance(band) {
        return format!("distance {}", span(from, to));
    }
    let axis = band.axis.map_or(band.scan.word(), Axis::word);
    format!("{axis} {}", span(on_circle(band.from), on_circle(band.to)))
}

fn is_or_are(names: &[&str]) -> String {
    format!("{} {}", listed(names), if names.len() == 1 { "is" } else { "are" })
}

/// One line a path and length.
fn table(report: &Report) -> String {
    if report.verdict.paths.is_empty() {
        return String::new();
    }
    let mut text = row(["path", "length", "state", "band", "axis", "slowdown", "ns/KiB"]);
    for path in &report.verdict.paths {
        let band = telling(path);
        let cell = |tell: &dyn Fn(&Band) -> String| band.map_or("-".to_owned(), tell);
        let unsure = |b: &Band| if b.confirmed { "" } else { "?" };
        text += &row([
            path.path.word(),
            &bytes(path.len),
            path.state.word(),
            &cell(&|b| {
                let (from, to) = path.by_distance(b).unwrap_or((on_circle(b.from), on_circle(b.to)));
                span(from, to) + unsure(b)
            }),
            &cell(&|b| match (path.by_distance(b), b.axis) {
                (Some(_), _) => "distance".into(),
                (None, axis) => axis.map_or("unknown", Axis::word).into(),
            }),
            &cell(&|b| times_briefly(b.slowdown)),
            &cell(&|b| penalty(b.penalty_ns_per_kib)),
        ]);
    }
    text
}

fn row([path, len, state, band, axis, slowdown, penalty]: [&str; 7]) -> String {
    format!("{path:<16}{len:>8}  {state:<13}{band:<13} {axis:<9}{slowdown:>8}{penalty:>8}\n")
}

fn causes(report: &Report, style: Style) -> String {
    let mut text = String::new();
    for cause in &report.verdict.causes {
        // one clause a path that was measured
        let say = |t: &str| printable(t, 4 * LONGEST);
        text += &paragraph(
            &format!("{:<8}", printable(&cause.layer, 20)),
            &format!("measured: {}. Predicted: {}.", say(&cause.measured), say(&cause.predicted)),
            style.width,
        );
        if let Some(contradiction) = &cause.contradiction {
            text += &paragraph("        ", &format!("CONTRADICTION: {}.", say(contradiction)), style.width);
        }
    }
    if text.is_empty() { text } else { format!("Cause\n{text}") }
}

/// Paths on which libc, not the kernel, copies.
const IN_USER_SPACE: [PathName; 2] = [PathName::Memcpy, PathName::Mmap];

/// Whether it is a routine that is measured on its own: nobody's remedy applies to it.
fn is_bare(path: PathName) -> bool {
    path.is_user_space() && path != PathName::Memcpy
}

fn what_to_do(report: &Report, style: Style) -> String {
    if report.verdict.state == State::Clean {
        return "What to do: nothing.\n".into();
    }
    let advice = advice(report);
    let lines = advice.iter().map(|(who, what)| paragraph(&format!("{who:<9}"), what, style.width));
    format!("What to do\n{}", lines.collect::<String>())
}

/// What to do, and who can; nothing where nothing is slow.
pub(super) fn advice(report: &Report) -> Vec<(&'static str, String)> {
    match report.verdict.state {
        State::Clean => vec![],
        State::Inconclusive => vec![(
            "again",
            "stop what else runs here and check again; fsprobe sweep takes seconds and sees more.".into(),
        )],
        State::Affected => remedies(report),
    }
}

fn remedies(report: &Report) -> Vec<(&'static str, String)> {
    let paths = &report.verdict.paths;
    let bands: Vec<(&PathVerdict, &Band)> = paths.iter().filter_map(|p| Some((p, deep(p)?))).collect();
    let slow = |wanted: &dyn Fn(PathName) -> bool| paths.iter().any(|p| wanted(p.path) && deep(p).is_some());
    let mut advice: Vec<_> = (!bands.is_empty()).then(|| ("buffers", buffers(&bands))).into_iter().collect();
    let libc = &report.host.libc.name;
    if slow(&|p| IN_USER_SPACE.contains(&p)) && libc != "glibc" {
        let libc = printable(libc, 20);
        advice.push(("libc", format!("{libc} has no setting for its memcpy: choose buffers as above.")));
    } else if slow(&|p| IN_USER_SPACE.contains(&p)) {
        let try_it = if report.remedies.is_empty() { "; fsprobe check --remedies tries both" } else { "" };
        advice.push((
            "libc",
            format!(
                "upgrade to glibc 2.40 or a package with its fix; until then \
                 GLIBC_TUNABLES=glibc.cpu.hwcaps=-ERMS or \
                 GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1099511627776 (ignored for setuid programs; unknown names \
                 are ignored silently{try_it})."
            ),
        ));
    } else if paths.iter().any(|p| p.path == PathName::Memcpy && p.state == State::Clean) {
        advice.push((
            "libc",
            "nothing: memcpy is not slow. Do not raise glibc.cpu.x86_non_temporal_threshold alone: on a fixed \
             glibc that opens lengths at which memcpy runs rep movsb again."
                .into(),
        ));
    }
    if slow(&|p| !is_bare(p) && !IN_USER_SPACE.contains(&p)) {
        advice.push((
            "kernel",
            "no setting of a running kernel helps. The boot option clearcpuid=fsrm,erms is for debugging only: it \
             taints the kernel, programs do not see it, and rep movsq, which is left, has a band of its own."
                .into(),
        ));
    }
    advice
}

/// How to keep buffers out of the bands.
fn buffers(bands: &[(&PathVerdict, &Band)]) -> String {
    let places = |by_distance: bool| {
        let of = bands.iter().filter(|(p, b)| p.by_distance(b).is_some() == by_distance);
        of.map(|(p, b)| place(p, b)).collect::<BTreeSet<String>>().into_iter().collect::<Vec<String>>()
    };
    let (distances, others) = (places(true), places(false));
    let mut free = (0..4096u16).step_by(64).filter(|o| !bands.iter().any(|(_, b)| b.contains(*o)));
    let hint = match free.next() {
        Some(0) => "page-aligned buffers are, for sources at page offset 0x000".to_owned(),
        Some(other) => format!("page offset {} is, for sources at page offset 0x000", offset(other)),
        None => "no multiple of 0x40 is".to_owned(),
    };
    let clear_of_distances = format!(
        "keep distance = (dst - src) mod 4096 clear of {}: {hint}. For a read from a file, src is the file offset \
         mod 4096.",
        listed(&distances).replace("distance ", "")
    );
    let clear_of_others = format!("keep buffers clear of {}.", listed(&others));
    let told = [(distances, clear_of_distances), (others, clear_of_others)];
    told.into_iter()
        .filter(|(places, _)| !places.is_empty())
        .map(|(_, told)| told)
        .collect::<Vec<_>>()
        .join(" ")
}

fn tried(report: &Report, style: Style) -> String {
    if report.remedies.is_empty() {
        return String::new();
    }
    let mut text = String::from("Remedies (slowdown at distance 0x001-0x00f, before and after)\n");
    if report.verdict.state == State::Clean {
        let nothing = "Nothing is slow here, so there is nothing to remedy: what still differs is what \
            routines cost by alignment.";
        text += &paragraph("", nothing, style.width);
    }
    for remedy in &report.remedies {
        text += &paragraph(&format!("{:<8}", printable(&remedy.layer, 8)), &one_tried(remedy), style.width);
    }
    text
}

pub(crate) fn one_tried(remedy: &Remedy) -> String {
    let factor = |f: Option<f64>| f.map_or("?".into(), times);
    let effect = |len, before: Option<f64>, after: Option<f64>| {
        let to = after.map(|f| format!(" to {}", times(f))).unwrap_or_default();
        before.or(after).map(|_| format!("{}{to} at {}", factor(before), bytes(len)))
    };
    let first = effect(remedy.len, remedy.before, remedy.after);
    let others = remedy.others.iter().map(|o| effect(o.len, o.before, o.after));
    let effects: Vec<String> = std::iter::once(first).chain(others).flatten().collect();
    let effects = if effects.is_empty() { "not measured".into() } else { listed(&effects) };
    let accepted = match remedy.accepted {
        Some(true) => ", accepted",
        Some(false) => ", NOT accepted",
        None => "",
    };
    let note = remedy.note.as_ref().map(|n| format!(" ({})", printable(n, LONGEST))).unwrap_or_default();
    format!("{}: {}{accepted}{note}.", printable(&remedy.setting, 200), effects)
}

/// Which allocators put buffers outside every band of `read`.
fn placements(report: &Report, style: Style) -> String {
    let bands: Vec<&Band> = report
        .verdict
        .paths
        .iter()
        .filter(|p| p.path == PathName::Read)
        .flat_map(|p| p.bands.iter().filter(|b| b.confirmed))
        .collect();
    if report.placements.is_empty() || !report.verdict.paths.iter().any(|p| p.path == PathName::Read) {
        return String::new();
    }
    let mut text = String::from("Buffers as allocators place them, for read at file offset 0\n");
    for placement in &report.placements {
        let offsets: BTreeSet<u16> = placement.offsets.iter().map(|o| on_circle(*o)).collect();
        let inside: Vec<String> = offsets
            .iter()
            .filter_map(|o| {
                let band = bands.iter().find(|b| b.contains(*o))?;
                Some(format!("{} is {} slower", offset(*o), times(band.slowdown)))
            })
            .collect();
        let verdict = if inside.is_empty() { "outside every band".into() } else { inside.join(", ") };
        let shown: Vec<String> = offsets.iter().take(8).map(|o| offset(*o)).collect();
        text += &paragraph(
            &format!("{:<10}", placement.allocator.word()),
            &format!("{} at {}: {verdict}.", bytes(placement.len), shown.join(" ")),
            style.width,
        );
    }
    text
}

fn skipped(report: &Report, style: Style) -> String {
    let line =
        |s: &crate::report::Skipped| paragraph("not measured: ", &printable(&s.told(), LONGEST), style.width);
    report.skipped.iter().map(line).collect()
}
