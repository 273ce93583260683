//! The text of `fsprobe pipe`: the ladder as a table, what it is held against, where copies meet a band.

use super::number::{bytes, counted, gigabytes, span, three, times, times_briefly};
use super::terminal::Style;
use super::text::{Paint, listed, paint, paragraph};
use crate::report::{Estimate, Mapping, OffsetSweep, Pipe, PipeBand, Rung, printable};

/// Characters of a reason that comes from elsewhere.
const LONGEST: usize = 300;

/// The whole text: at most 80 columns, complete without colour.
pub fn text(pipe: &Pipe, style: Style) -> String {
    let parts = [
        heading(pipe, style),
        ladder(pipe),
        legend(style),
        huge_pages(pipe, style),
        mapping(&pipe.mapping, style),
        sweeps(pipe, style),
        skipped(pipe, style),
        pipe.notes.iter().map(|n| paragraph("Note: ", &capital(n), style.width)).collect(),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|p| !p.is_empty()).collect();
    parts.join("\n")
}

fn capital(note: &str) -> String {
    let note = printable(note, LONGEST);
    let mut chars = note.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect::<String>() + ".")
}

fn heading(pipe: &Pipe, style: Style) -> String {
    let [writer, reader] = pipe.cpus;
    let cpus = match writer == reader {
        true => format!("writer and reader both on CPU {writer}"),
        false => format!("writer on CPU {writer}, reader on CPU {reader}"),
    };
    let checked = |r: &Rung| r.verified && !r.samples.is_empty();
    let verified = match pipe.rungs.iter().chain(&pipe.yardsticks).any(checked) {
        true => " Every byte that arrived was checked and was right.",
        false => "",
    };
    let said =
        format!("How fast are Linux pipes here: {cpus}, a pipe of {}.{verified}", bytes(pipe.pipe_size));
    let text = paragraph("", &said, style.width);
    match text.strip_prefix("How fast are Linux pipes here") {
        Some(rest) if style.colour => paint("How fast are Linux pipes here", Paint::Bold) + rest,
        _ => text,
    }
}

/// One line a rung.
fn ladder(pipe: &Pipe) -> String {
    let mut text = row(["rung", "GB/s", "95 %", "factor", "faults", "switches", "exposed"]);
    let measured = |r: &&Rung| r.figures.is_some();
    pipe.rungs.iter().filter(measured).for_each(|r| text += &line(r));
    if pipe.yardsticks.iter().any(|r| r.figures.is_some()) {
        text += "yardsticks\n";
        pipe.yardsticks.iter().filter(measured).for_each(|r| text += &line(r));
    }
    text
}

fn line(rung: &Rung) -> String {
    let Some(figures) = rung.figures else { return String::new() };
    let per_gib = |count: Option<f64>| count.map_or("?".into(), |c| three(c.round()));
    let copies: Vec<String> = rung.exposed.iter().map(|e| printable(&e.copy, 10)).collect();
    let copies = match copies.as_slice() {
        [] => "no copy".to_owned(),
        [a, b] if a == b => format!("2 {a}"),
        copies => copies.join(", "),
    };
    row([
        &printable(&rung.name, 25),
        &gigabytes(figures.bytes_per_s.median),
        &interval(&figures.bytes_per_s, gigabytes),
        &figures.factor.map_or("".into(), |f| times_briefly(f.median)),
        &per_gib(figures.page_faults_per_gib),
        &per_gib(figures.context_switches_per_gib),
        &copies,
    ])
}

fn interval(estimate: &Estimate, word: impl Fn(f64) -> String) -> String {
    estimate.ci95.map_or("-".into(), |[low, high]| format!("{}-{}", word(low), word(high)))
}

fn row([rung, speed, interval, factor, faults, switches, exposed]: [&str; 7]) -> String {
    let line = format!("{rung:<25}{speed:>7}{interval:>12}{factor:>7}{faults:>7}{switches:>9}  {exposed}");
    format!("{}\n", line.trim_end())
}

fn legend(style: Style) -> String {
    let said = "95 %: interval of the median; -: fewer than six rounds. factor: over the rung that it is one step \
        from (huge pages, busy loop, with both over huge pages, or the other call), of yardsticks over write-read, within rounds. faults, switches: page faults and \
        context switches of both processes per GiB. exposed: the copies that a band can slow \
        down, write by the writer's page offset (--src), read by the reader's (--dst).";
    paragraph("", said, style.width)
}

/// Whether huge pages were really huge.
fn huge_pages(pipe: &Pipe, style: Style) -> String {
    let asked: Vec<_> = pipe.rungs.iter().filter_map(|r| Some((r, r.huge.as_ref()?))).collect();
    if asked.is_empty() {
        return String::new();
    }
    let doubt = asked.iter().find(|(_, h)| h.whole() != Some(true));
    let said = match doubt {
        None => "all buffers of the rungs that asked for them, by /proc/self/smaps.".to_owned(),
        Some((rung, huge)) => match (huge.found, &huge.unknown) {
            (Some(found), _) => format!(
                "NOT all: {} of {} on {}, by /proc/self/smaps: its figures are those of the pages it got. See \
                 /sys/kernel/mm/transparent_hugepage/enabled.",
                bytes(found),
                bytes(huge.asked),
                printable(&rung.name, 40)
            ),
            (None, why) => {
                format!("not known: {}.", printable(why.as_deref().unwrap_or("no reason"), LONGEST))
            }
        },
    };
    paragraph("Huge pages: ", &said, style.width)
}

/// What mapping costs.
fn mapping(mapping: &[Mapping], style: Style) -> String {
    let words: Vec<String> = mapping
        .iter()
        .filter_map(|m| {
            let cost = m.ns_per_page?;
            let pages = match m.huge.as_ref().map(|h| h.whole()) {
                None => "pages of 4 KiB",
                Some(Some(true)) => "huge pages",
                Some(Some(false)) => "pages asked to be huge, which are not",
                Some(None) => "pages asked to be huge",
            };
            let ci = interval(&cost, three);
            Some(format!("{} ns ({ci}) from {pages}", three(cost.median)))
        })
        .collect();
    if words.is_empty() {
        return String::new();
    }
    let said = format!(
        "vmsplice into a drained pipe takes {} for each 4 KiB: an upper bound of what finding the pages costs \
         (get_user_pages).",
        words.join(", ")
    );
    paragraph("Mapping: ", &said, style.width)
}

/// From this factor on an offset without a band is not called fast, nor where its interval reaches a deep band's.
const UNTOLD: f64 = 1.5;
const DEEP: f64 = 2.0;

fn sweeps(pipe: &Pipe, style: Style) -> String {
    let all = pipe.sweeps.iter().filter(|s| s.skipped.is_none());
    all.map(|s| sweep(s, pipe.verified(), style)).collect()
}

fn sweep(sweep: &OffsetSweep, verified: bool, style: Style) -> String {
    let label = format!("{} by {}: ", printable(&sweep.rung, 40), sweep.moved.word());
    let told = match verified {
        true => "every byte was checked, and of bands nothing is told.".into(),
        false => bands(sweep),
    };
    paragraph(&label, &told, style.width)
}

fn bands(sweep: &OffsetSweep) -> String {
    let others: Vec<(u16, Estimate)> =
        sweep.cells.iter().filter(|c| c.offset > 0).filter_map(|c| Some((c.offset, c.slowdown?))).collect();
    let worst = others.iter().max_by(|a, b| a.1.median.total_cmp(&b.1.median));
    let count = counted(others.len() as u64, "page offset");
    let Some((offset, slowdown)) = worst else {
        return "nothing to compare with 0x000.".into();
    };
    if slowdown.ci95.is_none() {
        return format!("{count} measured in fewer than six rounds, which tells no band from noise.");
    }
    let band = |b: &PipeBand| {
        format!("{} slower at {} ({} GB/s)", times(b.slowdown), span(b.from, b.to), gigabytes(b.bytes_per_s))
    };
    let slowest = format!(
        "of {count} the slowest, {}, takes {} as long as 0x000 ({})",
        span(*offset, *offset),
        times(slowdown.median),
        interval(slowdown, times)
    );
    match sweep.bands.as_slice() {
        [] if slowdown.median >= UNTOLD || slowdown.ci95.is_some_and(|[_, high]| high >= DEEP) => {
            format!(
                "cannot be told: {slowest}, and neither the rounds nor its neighbours agree on that; a quieter machine or more rounds would tell."
            )
        }
        [] => format!("no band: {slowest}."),
        bands => {
            let bands: Vec<String> = bands.iter().map(band).collect();
            format!("{} than at 0x000; {count} measured.", listed(&bands))
        }
    }
}

fn skipped(pipe: &Pipe, style: Style) -> String {
    let rungs = pipe.rungs.iter().chain(&pipe.yardsticks).map(|r| (r.name.as_str(), &r.skipped));
    let mapping = pipe.mapping.iter().map(|m| ("mapping pages", &m.skipped));
    let sweeps = pipe.sweeps.iter().map(|s| (s.rung.as_str(), &s.skipped));
    let lines = rungs.chain(mapping).chain(sweeps).filter_map(|(name, why)| Some((name, why.as_ref()?)));
    lines
        .map(|(name, why)| {
            let said = format!("{}: {}", printable(name, 40), printable(why, LONGEST));
            paragraph("not measured: ", &said, style.width)
        })
        .collect()
}
