//! The text of `fsprobe trace`: what copied, where it landed and what that cost, then the verdict; and one
//! frame of the live view.

mod bands;
mod table;
#[cfg(test)]
mod tests;

use super::number::{counted, offset};
use super::terminal::Style;
use super::text::{Paint, paint, paragraph};
use crate::report::{AtOffset, OwnCopies, State, Trace, TraceRow, Unseen, percent, printable};
use table::{Cell, Table, duration, size};

/// Rows of a table; what is beyond is summed up in one line.
const ROWS: usize = 12;

/// Rows of the smaller tables.
const FEW: usize = 6;

/// Distances and buffers of less than this share are not told one by one.
const LEAST: f64 = 0.005;

/// Things that were not seen, told one by one.
const UNSEEN: usize = 8;

/// Characters of a text that comes from elsewhere.
const LONGEST: usize = 400;

/// The whole text: at most 80 columns, complete without colour.
pub fn text(trace: &Trace, style: Style) -> String {
    let parts = [
        heading(trace, style),
        rows(trace, ROWS, style),
        threads(trace, style),
        distances(trace, style),
        buffers(trace, style),
        unseen(&trace.watched.unseen, style),
        verdict(trace, style),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

/// One frame of the live view, of at most `lines` lines that are no wider than the terminal: so far.
pub fn frame(trace: &Trace, lines: usize, columns: usize, style: Style) -> String {
    let head = format!("{}: {}", name(trace), line(trace));
    // what is cut has no colours that would go on
    let is_narrow = columns < style.width;
    let style = if is_narrow { Style { colour: false, width: columns.max(20) } } else { style };
    let text = paragraph("", &head, style.width) + &rows(trace, lines.saturating_sub(5).max(1), style);
    let cut =
        |line: &str| -> String { line.chars().take(if is_narrow { columns } else { usize::MAX }).collect() };
    text.lines().take(lines.max(1)).map(|line| cut(line) + "\n").collect()
}

/// What was seen so far, in a line.
pub fn line(trace: &Trace) -> String {
    let answer = &trace.answer;
    let copies: u64 = answer.rows.iter().filter_map(|row| row.copy_ns).sum();
    format!(
        "{} of CPU time in {}, {} in rep movs, {} of that in a deep band, {} lost so far",
        duration(answer.of_ns),
        duration(trace.watched.wall_ns),
        duration(copies),
        answer.share_in_band.map_or_else(|| "nothing".into(), percent),
        duration(answer.lost_ns.unwrap_or_default()),
    )
}

fn name(trace: &Trace) -> String {
    match (&trace.program, trace.pid) {
        (Some(program), Some(pid)) => format!("{} (process {pid})", printable(program, 60)),
        (Some(program), None) => printable(program, 60),
        (None, Some(pid)) => format!("process {pid}"),
        (None, None) => "All that was watched".into(),
    }
}

fn heading(trace: &Trace, style: Style) -> String {
    let watched = &trace.watched;
    let mut text = format!("{}: {}", name(trace), duration(watched.wall_ns));
    if let Some(cpu_ns) = watched.cpu_ns {
        let with = if watched.watching_ns.is_some() { " (its stops for fsprobe included)" } else { "" };
        text += &format!(", {} of CPU time{with}", duration(cpu_ns));
    }
    text += &format!(". Watched by {}: {}.", trace.via, printable(&trace.via_reason, LONGEST));
    if let Some(samples) = &watched.samples {
        let copies: u64 = samples.inside.iter().map(|inside| inside.samples).sum();
        text += &format!(
            " {}, one each {} of CPU time; {copies} met a rep movs.",
            counted(samples.taken, "sample"),
            duration(samples.period_ns)
        );
        if samples.lost > 0 {
            text += &format!(" The kernel dropped {} more.", samples.lost);
        }
    }
    if let Some(OwnCopies { samples, .. }) = &watched.own {
        text += &format!(
            " {} of the time outside the kernel looked for copies of its own.",
            counted(samples.taken, "sample")
        );
    }
    paragraph("", &text, style.width) + &bands::told(&trace.bands, style)
}

/// Calls that were counted, and places that samples met.
fn rows(trace: &Trace, most: usize, style: Style) -> String {
    let rows = &trace.answer.rows;
    let several = rows.iter().any(|row| row.program != rows[0].program);
    let (places, calls) = places_and_calls(trace);
    let tables = [calls_table(&calls, several, most, style), places_table(&places, several, most, style)];
    let told: Vec<String> = tables.into_iter().filter(|table| !table.is_empty()).collect();
    told.join("\n")
}

fn places_and_calls(trace: &Trace) -> (Vec<&TraceRow>, Vec<&TraceRow>) {
    trace.answer.rows.iter().partition(|row| row.copy_ns.is_some())
}

fn calls_table(rows: &[&TraceRow], several: bool, most: usize, style: Style) -> String {
    let heads = ["program", "call", "file", "calls", "bytes", "in band", "lost"];
    let mut table = Table::new(&heads[usize::from(!several)..]);
    for row in rows {
        let program = several.then(|| Cell::left(&row.program, 10));
        let file = Cell::tail(&table::file(row));
        let calls = Cell::right(table::count(row.calls.unwrap_or_default()), 8);
        let bytes = Cell::right(size(row.bytes.unwrap_or_default()), 8);
        let call = Cell::left(&row.what, 9);
        let cells = program.into_iter().chain([call, file, calls, bytes]).chain(numbers(row));
        table.push(cells.collect(), row.lost_ns > 0);
    }
    table.text(most, style)
}

fn places_table(rows: &[&TraceRow], several: bool, most: usize, style: Style) -> String {
    let mut table = Table::new(&["what copies", "rep movs", "in band", "lost"]);
    for row in rows {
        let program = if several { format!("{}: ", row.program) } else { String::new() };
        let kernel = row.place.as_ref().map(|kernel| format!(" > {kernel}")).unwrap_or_default();
        let copies = Cell::right(duration(row.copy_ns.unwrap_or_default()), 9);
        let cells = [Cell::wide(&format!("{program}{}{kernel}", row.what)), copies];
        table.push(cells.into_iter().chain(numbers(row)).collect(), row.lost_ns > 0);
    }
    table.text(most, style)
}

/// What lies in a band of a row, and what that lost.
fn numbers(row: &TraceRow) -> [Cell; 2] {
    [Cell::right(row.share_in_band.map_or_else(|| "?".into(), percent), 7), Cell::right(lost(row.lost_ns), 8)]
}

/// Who copies, where it is more than one.
fn threads(trace: &Trace, style: Style) -> String {
    let threads = &trace.answer.threads;
    if threads.len() < 2 {
        return String::new();
    }
    let copied =
        match (threads.iter().any(|t| t.bytes.is_some()), threads.iter().any(|t| t.copy_ns.is_some())) {
            (true, true) => "copied",
            (false, true) => "rep movs",
            _ => "bytes",
        };
    let mut table = Table::new(&["program", "process", "thread", copied, "in band", "lost"]);
    for thread in threads {
        let copied = thread.copy_ns.map(duration).or(thread.bytes.map(size)).unwrap_or_default();
        table.push(
            vec![
                Cell::wide(&thread.program),
                Cell::right(thread.pid.to_string(), 9),
                Cell::right(thread.tid.map_or_else(|| "·".into(), |tid| tid.to_string()), 9),
                Cell::right(copied, 10),
                Cell::right(thread.share_in_band.map_or_else(|| "?".into(), percent), 7),
                Cell::right(lost(thread.lost_ns), 8),
            ],
            thread.lost_ns > 0,
        );
    }
    table.text(FEW, style)
}

fn distances(trace: &Trace, style: Style) -> String {
    let distances = &trace.answer.distances;
    if distances.is_empty() {
        return String::new();
    }
    // they are those of what lost most
    let (places, calls) = places_and_calls(trace);
    let lost = |rows: &[&TraceRow]| rows.iter().map(|row| row.lost_ns).sum::<u64>();
    let moved = calls.iter().any(|row| row.bytes > Some(0));
    let of = if lost(&places) > lost(&calls) || !moved { "of the time in rep movs" } else { "of the bytes" };
    let mut table = Table::new(&["distance", of, "in band"]);
    for at in distances {
        table.push(
            vec![
                Cell::left(&at.distance.map_or_else(|| "unknown".into(), offset), 9),
                Cell::right(percent(at.share), 24),
                Cell::right(at.distance.map_or_else(|| "?".into(), |_| percent(at.share_in_band)), 8),
            ],
            at.share_in_band > 0.0,
        );
    }
    let told = distances.iter().filter(|at| at.share >= LEAST || at.share_in_band > 0.0).count();
    table.text(told.clamp(1, FEW), style)
}

fn buffers(trace: &Trace, style: Style) -> String {
    let buffers = &trace.answer.buffers;
    let all: u64 = buffers.iter().map(|at| at.bytes).sum();
    if all == 0 {
        return String::new();
    }
    let mut table = Table::new(&["buffers at", "copies", "bytes", "share", "placed"]);
    for at in buffers {
        table.push(
            vec![
                Cell::left(&offset(at.offset), 10),
                Cell::right(table::count(at.copies), 8),
                Cell::right(size(at.bytes), 9),
                Cell::right(percent(at.bytes as f64 / all as f64), 8),
                Cell::wide(&format!("  {}", placed(at))),
            ],
            false,
        );
    }
    let told = buffers.iter().filter(|at| at.bytes as f64 >= LEAST * all as f64).count();
    table.text(told.clamp(1, FEW), style)
}

/// Who places long buffers there, where an offset tells.
fn placed(at: &AtOffset) -> &'static str {
    let long = at.bytes / at.copies.max(1) >= 32 << 10;
    match at.offset {
        0x000 => "page-aligned: mmap, mimalloc",
        0x010 if long => "as glibc's malloc places mapped chunks",
        0x030 if long => "as CPython's bytes in glibc's mapped chunks",
        offset if offset % 0x40 == 0 && long => "multiple of 64: jemalloc's large ones, or by hand",
        _ => "",
    }
}

fn lost(ns: u64) -> String {
    if ns == 0 { "·".into() } else { duration(ns) }
}

fn unseen(all: &[Unseen], style: Style) -> String {
    let mut text: String = all
        .iter()
        .take(UNSEEN)
        .map(|unseen| {
            let remedy =
                unseen.remedy.as_ref().map_or(String::new(), |remedy| format!(" To see it: {remedy}."));
            let said = format!("{}: {}.{remedy}", unseen.whose(), unseen.why);
            paragraph("not seen  ", &printable(&said, 2 * LONGEST), style.width)
        })
        .collect();
    if all.len() > UNSEEN {
        text += &paragraph("not seen  ", &format!("and {} more.", all.len() - UNSEEN), style.width);
    }
    text
}

fn verdict(trace: &Trace, style: Style) -> String {
    let (word, colour) = match trace.answer.state {
        State::Affected => ("AFFECTED", Paint::Red),
        State::Clean => ("CLEAN", Paint::Green),
        State::Inconclusive => ("INCONCLUSIVE", Paint::Yellow),
    };
    let said = paragraph("", &format!("{word}: {}", trace.answer.sentence), style.width);
    match style.colour {
        true => said.replacen(word, &paint(word, colour), 1),
        false => said,
    }
}
