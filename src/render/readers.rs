//! The text of `fsprobe readers`: one table a kind of pages, then a sentence a reader.

use super::number::{bytes, counted, offset, three, times, times_briefly};
use super::terminal::Style;
use super::text::{Paint, paint, paragraph};
use crate::report::{Excess, HugePages, Reader, ReaderName, Readers, Reason, Times, printable};

/// Characters of a name or reason that come from elsewhere.
const LONGEST: usize = 300;

/// A bpftrace program that shows the same latencies from outside.
pub const BPFTRACE: &str = include_str!("readers/read.bt");

/// The whole text: at most 80 columns, complete without colour.
pub fn text(readers: &Readers, style: Style) -> String {
    let mut parts = vec![heading(readers, style)];
    for kind in [HugePages::Off, HugePages::On, HugePages::AsIs] {
        let of: Vec<&Reader> = readers.readers.iter().filter(|r| r.huge_pages == kind).collect();
        if !of.is_empty() {
            parts.push(table(kind, &of, style));
            parts.push(of.iter().map(|r| paragraph("", &sentence(r), style.width)).collect());
        }
    }
    parts.push(footer(readers, style));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn heading(readers: &Readers, style: Style) -> String {
    let name = readers.file.as_deref().unwrap_or("a file");
    let fs = readers.fs_type.as_deref().unwrap_or("file system unknown");
    let text = format!(
        "{} of {} ({}), {} on CPU {}; each reader a process of its own.",
        printable(name, LONGEST),
        bytes(readers.size),
        printable(fs, LONGEST),
        counted(u64::from(readers.rounds), "round"),
        readers.cpu
    );
    paragraph("", &text, style.width)
}

fn table(kind: HugePages, readers: &[&Reader], style: Style) -> String {
    let title = format!("huge pages {}", if kind == HugePages::AsIs { "as set" } else { kind.word() });
    let mut out = format!(
        "{title:<17}{:>6}{:>9}{:>18}{:>9}{:>9}{:>6}{:>6}\n",
        "dst", "distance", "read ms [95 %]", "call ms", "proc ms", "fault", "slow"
    );
    out += &format!("{}\n", "─".repeat(style.width.min(80)));
    readers.iter().for_each(|reader| out += &row(reader, style));
    out
}

fn row(reader: &Reader, style: Style) -> String {
    let none = || "·".to_owned();
    let (dst, distance) = match &reader.landed {
        Some(landed) => (offset(landed.dst), offset(landed.distance)),
        None => (none(), none()),
    };
    let faults = reader.faults.map_or_else(none, |faults| match faults {
        100_000.. => three(faults as f64 / 1000.0) + "k",
        _ => faults.to_string(),
    });
    let slow = reader.slowdown.map_or_else(none, times_briefly);
    let slow = format!("{slow:>6}");
    let slow = match reader.reason {
        Reason::Offset if style.colour => paint(&slow, Paint::Red),
        _ => slow,
    };
    format!(
        "{:<17}{dst:>6}{distance:>9}{:>18}{:>9}{:>9}{faults:>6}{slow}\n",
        name(reader),
        reader.read.as_ref().map_or_else(none, with_interval),
        reader.call.as_ref().map_or_else(none, |call| ms(call.median_ns)),
        ms(reader.process.median_ns),
    )
}

fn name(reader: &Reader) -> &'static str {
    match reader.reader {
        ReaderName::Fread => "C fread",
        ReaderName::FreadMoved => "C fread, moved",
        ReaderName::FsRead => "std::fs::read",
        ReaderName::ReadToEnd => "read_to_end",
        ReaderName::BufReader => "BufReader",
        ReaderName::Jemalloc => "jemalloc + read",
        ReaderName::Mimalloc => "mimalloc + read",
        ReaderName::Mmap => "mmap",
        ReaderName::Python => "Python read()",
        ReaderName::Opendal => "OpenDAL fs",
        ReaderName::Command => "--exec",
    }
}

fn ms(ns: f64) -> String {
    three(ns / 1e6)
}

fn with_interval(times: &Times) -> String {
    match times.ci95_ns {
        Some([low, high]) => format!("{} [{}-{}]", ms(times.median_ns), ms(low), ms(high)),
        None => ms(times.median_ns),
    }
}

/// What the article's author needed to know.
fn sentence(reader: &Reader) -> String {
    let slowdown = reader.slowdown.map_or_else(|| "?".into(), times);
    let excess = reader.excess.unwrap_or_default();
    let said = match reader.reason {
        Reason::AsFast if reader.reader == ReaderName::Mmap => "copies nothing; the control".into(),
        Reason::AsFast => "as fast as the best".into(),
        Reason::Offset => format!("{slowdown}, slower because of the offset: {}", replays(reader)),
        Reason::Unknown => "cannot be told".into(),
        reason => format!(
            "{slowdown}, {}: {}{}",
            if reader.moved.is_some() { "not because of the offset" } else { "slower" },
            cause(reason, &excess),
            match replays(reader) {
                replays if replays.is_empty() => String::new(),
                replays => format!(" ({replays})"),
            }
        ),
    };
    let unknown = reader.read_unknown.as_ref().filter(|_| reader.reader != ReaderName::Mmap);
    let unknown =
        unknown.map_or(String::new(), |why| format!(" Time in read(2) unknown: {}.", printable(why, LONGEST)));
    format!("{}: {said}.{unknown}", name(reader))
}

/// Where the time goes that is not the offset's.
fn cause(reason: Reason, excess: &Excess) -> String {
    let of = |ns: f64| format!("{} of {} ms", ms(ns), ms(excess.total_ns));
    match reason {
        Reason::Faults => format!("page faults, {}", of(excess.faults_ns)),
        Reason::ProcessStart => {
            format!("the program's start and own work outside read(2), {}", of(excess.process_ns))
        }
        Reason::Buffering => {
            format!("buffering and other work outside read(2), {}", of(excess.buffering_ns))
        }
        _ => "nothing that was measured explains it".into(),
    }
}

/// What the same reads did at another page offset.
fn replays(reader: &Reader) -> String {
    let (Some(moved), Some(landed)) = (&reader.moved, &reader.landed) else { return String::new() };
    let interval = moved.ratio_ci95.map(|[low, high]| format!(", {} to {}", times(low), times(high)));
    format!(
        "the same reads take {}{} as long at {} as at {}",
        times(moved.ratio),
        interval.unwrap_or_default(),
        offset(landed.dst),
        offset(moved.dst)
    )
}

fn footer(readers: &Readers, style: Style) -> String {
    let mut out = String::new();
    let mut say = |text: String| out += &paragraph("", &text, style.width);
    say("dst, distance: where most bytes landed; read: inside read(2); call: open to close, as the reader \
        tells; proc: from its start to its end; fault: page faults; slow: call (without one: proc) against \
        the best reader's."
        .into());
    if let Some(reason) = &readers.untraced {
        say(format!("Programs were not watched: {}.", printable(reason, LONGEST)));
    }
    if let Some(note) = &readers.huge_pages_note {
        say(format!("Huge pages: {}.", printable(note, LONGEST)));
    }
    for skipped in &readers.skipped {
        let pages = skipped.huge_pages.map_or(String::new(), |kind| format!(" (huge pages {kind})"));
        say(format!("Left out: {}{pages}: {}.", skipped.reader, printable(&skipped.reason, LONGEST)));
    }
    out
}
