//! The text of `fsprobe readers`: one table a kind of pages, then a sentence a reader.

use super::number::{bytes, counted, offset, three, times, times_briefly};
use super::terminal::Style;
use super::text::{Paint, paint, paragraph};
use crate::report::{Excess, HugePages, Reader, ReaderName, Readers, Reason, Times, printable};

/// Characters of a name or reason that come from elsewhere.
const LONGEST: usize = 300;

/// Bytes of a file below which times are shown in microseconds.
const SHORT: u64 = 8 << 20;

/// A bpftrace program that shows the same latencies from outside.
pub const BPFTRACE: &str = include_str!("readers/read.bt");

/// The whole text: at most 80 columns, complete without colour.
pub fn text(readers: &Readers, style: Style) -> String {
    let mut parts = vec![heading(readers, style)];
    for kind in [HugePages::Off, HugePages::On, HugePages::AsIs] {
        let of: Vec<&Reader> = readers.readers.iter().filter(|r| r.huge_pages == kind).collect();
        if !of.is_empty() {
            let unit = Unit::of(readers);
            parts.push(table(kind, &of, unit, style));
            parts.push(
                of.iter().map(|r| paragraph("", &sentence(r, readers.size, unit), style.width)).collect(),
            );
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

fn table(kind: HugePages, readers: &[&Reader], unit: Unit, style: Style) -> String {
    let title = format!("huge pages {}", if kind == HugePages::AsIs { "as set" } else { kind.word() });
    let mut reads = readers.iter().filter_map(|reader| reader.read.as_ref());
    let interval = if reads.any(|read| read.ci95_ns.is_some()) { " [95 %]" } else { "" };
    let mut out = format!(
        "{title:<17}{:>6}{:>9}{:>18}{:>9}{:>9}{:>6}{:>6}\n",
        "dst",
        "distance",
        format!("read {}{interval}", unit.name),
        format!("call {}", unit.name),
        format!("proc {}", unit.name),
        "fault",
        "slow"
    );
    out += &format!("{}\n", "─".repeat(style.width.min(80)));
    readers.iter().for_each(|reader| out += &row(reader, unit, style));
    out
}

fn row(reader: &Reader, unit: Unit, style: Style) -> String {
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
        reader.read.as_ref().map_or_else(none, |read| unit.with_interval(read)),
        reader.call.as_ref().map_or_else(none, |call| unit.bare(call.median_ns)),
        unit.bare(reader.process.median_ns),
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

/// The unit of a table's times: short files take microseconds.
#[derive(Debug, Clone, Copy)]
struct Unit {
    name: &'static str,
    ns: f64,
}

impl Unit {
    fn of(readers: &Readers) -> Unit {
        match readers.size {
            size if size < SHORT => Unit { name: "µs", ns: 1e3 },
            _ => Unit { name: "ms", ns: 1e6 },
        }
    }

    fn bare(self, ns: f64) -> String {
        three(ns / self.ns)
    }

    fn with_interval(self, times: &Times) -> String {
        let median = self.bare(times.median_ns);
        match times.ci95_ns {
            Some([low, high]) => format!("{median} [{}-{}]", self.bare(low), self.bare(high)),
            None => median,
        }
    }
}

/// What the article's author needed to know.
fn sentence(reader: &Reader, size: u64, unit: Unit) -> String {
    let slowdown = reader.slowdown.map_or_else(|| "?".into(), times);
    let excess = reader.excess.unwrap_or_default();
    let said = match reader.reason {
        Reason::AsFast if reader.reader == ReaderName::Mmap => "copies nothing; the control".into(),
        Reason::AsFast if reader.moved.as_ref().is_some_and(|moved| moved.slow) => {
            format!("as fast as the best, and yet slowed by the offset: {}", replays(reader))
        }
        Reason::AsFast if reader.slowdown.is_some_and(|slowdown| slowdown <= 1.0) => "the fastest".into(),
        Reason::AsFast if reader.whole().ci95_ns.is_none() => format!("{slowdown}, as fast as the best"),
        Reason::AsFast => "as fast as the best, within the noise".into(),
        Reason::Offset => format!("{slowdown}, slower because of the offset: {}", replays(reader)),
        Reason::Unknown if reader.read_otherwise(size) => match reader.bytes {
            Some(0) | None => "not compared, since it made no read(2) of the file".into(),
            Some(brought) => format!(
                "not compared, since its reads brought {} of a file of {}",
                bytes(brought),
                bytes(size)
            ),
        },
        Reason::Unknown if reader.whole().ci95_ns.is_none() => {
            format!("{slowdown}; why, fewer than six rounds cannot tell")
        }
        Reason::Unknown => "cannot be told".into(),
        reason => format!(
            "{slowdown}, {}: {}{}",
            if reader.moved.is_some() { "not because of the offset" } else { "slower" },
            cause(reason, &excess, unit),
            match replays(reader) {
                replays if replays.is_empty() => String::new(),
                replays => format!(" ({replays})"),
            }
        ),
    };
    let unknown = reader.read_unknown.as_ref().filter(|_| reader.reader != ReaderName::Mmap);
    let unknown = unknown
        .map_or(String::new(), |why| format!(" Time in read(2) unknown: {}.", printable(why, LONGEST)));
    format!("{}: {said}.{unknown}", name(reader))
}

/// Where the time goes that is not the offset's.
fn cause(reason: Reason, excess: &Excess, unit: Unit) -> String {
    let total = format!("{} {}", unit.bare(excess.total_ns), unit.name);
    let of = |ns: f64| match ns {
        ns if ns < excess.total_ns => format!("{} of the {total} more", unit.bare(ns)),
        _ => format!("all of the {total} more"),
    };
    match reason {
        Reason::Faults => format!("page faults, {}", of(excess.faults_ns)),
        Reason::ProcessStart => {
            format!("the program's start and own work outside read(2), {}", of(excess.process_ns))
        }
        Reason::Buffering => {
            format!(
                "work outside read(2) (allocating, buffering, giving memory back), {}",
                of(excess.buffering_ns)
            )
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
    let is_longer = |r: &Reader| r.read.as_ref().is_some_and(|read| read.median_ns > r.whole().median_ns);
    if readers.readers.iter().any(is_longer) {
        say("read is timed in runs of its own, in which the program is watched: noise can make it longer than the \
            call."
            .into());
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Landed, MovedBuffer, SkippedReader};
    use expect_test::expect_file;

    fn times(ms: f64) -> Times {
        let ns = ms * 1e6;
        Times { median_ns: ns, ci95_ns: Some([ns * 0.97, ns * 1.04]), ns: vec![ns as u64] }
    }

    fn reader(reader: ReaderName, dst: u16, read: f64, reason: Reason) -> Reader {
        let total_ns = (read - 10.0) * 1e6;
        let slow = reason == Reason::Offset;
        let ratio = if slow { 1.92 } else { 1.01 };
        Reader {
            reader,
            huge_pages: HugePages::Off,
            program: None,
            landed: Some(Landed::at(dst, 0, 1, 64 << 20)),
            bytes: None,
            read: Some(times(read)),
            read_unknown: None,
            call: Some(times(read * 1.1)),
            process: times(read * 1.1 + 2.0),
            faults: Some(16_388),
            moved: Some(MovedBuffer {
                dst: 0x400 + dst % 0x20,
                same_ns: vec![],
                moved_ns: vec![],
                present_ns: vec![],
                ratio,
                ratio_ci95: Some([ratio * 0.98, ratio * 1.02]),
                slow,
            }),
            slowdown: Some(read / 10.0),
            reason,
            excess: Some(Excess {
                total_ns,
                offset_ns: total_ns * 0.9,
                faults_ns: total_ns * 0.8,
                process_ns: total_ns * 0.7,
                buffering_ns: total_ns * 1.2,
            }),
        }
    }

    fn readers() -> Readers {
        let mut command = reader(ReaderName::Command, 0x000, 31.0, Reason::ProcessStart);
        command.call = None;
        command.read = None;
        command.read_unknown = Some("its 8192 reads are too short".into());
        let mut mmap = reader(ReaderName::Mmap, 0, 1.0, Reason::AsFast);
        (mmap.landed, mmap.moved, mmap.read) = (None, None, None);
        mmap.huge_pages = HugePages::On;
        Readers {
            file: Some("/dev/shm/64M\u{1b}[31m".into()),
            size: 64 << 20,
            fs_type: Some("tmpfs".into()),
            cpu: 1,
            rounds: 7,
            untraced: Some("ptrace(2) is not possible here: Operation not permitted".into()),
            huge_pages_note: None,
            readers: vec![
                reader(ReaderName::Fread, 0x010, 19.2, Reason::Offset),
                reader(ReaderName::FreadMoved, 0x410, 10.0, Reason::AsFast),
                reader(ReaderName::Jemalloc, 0xa40, 15.3, Reason::Faults),
                reader(ReaderName::BufReader, 0xed0, 18.1, Reason::Buffering),
                reader(ReaderName::Python, 0x030, 12.0, Reason::Unexplained),
                command,
                mmap,
            ],
            skipped: vec![SkippedReader {
                reader: ReaderName::Python,
                huge_pages: None,
                reason: "there is no python3 on the PATH".into(),
            }],
        }
    }

    #[test]
    fn the_table_and_its_sentences() {
        let text = text(&readers(), Style { colour: false, ..Style::default() });
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        expect_file!["../../tests/golden/readers.txt"].assert_eq(&text);
    }

    #[test]
    fn short_files_take_microseconds() {
        let short = Readers { size: 1 << 20, ..readers() };
        let text = text(&short, Style { colour: true, ..Style::default() });
        assert!(text.contains("call µs") && text.contains("\u{1b}[1;31m"), "{text}");
    }

    #[test]
    fn few_rounds_and_slow_tracing_are_told() {
        let bare = |ms: f64| Times { ci95_ns: None, ..times(ms) };
        let mut two = readers();
        let mut one = reader(ReaderName::Fread, 0x010, 12.0, Reason::AsFast);
        (one.read, one.call, one.slowdown) = (Some(bare(12.0)), Some(bare(11.0)), Some(1.04));
        let fastest = Reader { slowdown: Some(1.0), ..one.clone() };
        two.readers = vec![one, fastest];
        let text = text(&two, Style::default());
        for part in ["1.04x, as fast as the best.", "C fread: the fastest.", "longer than the"] {
            assert!(text.contains(part), "no {part} in {text}");
        }
        assert!(!text.contains("[95 %]") && !text.contains("noise."), "{text}");
    }

    #[test]
    fn nothing_measured_is_no_panic() {
        let none = Readers { readers: vec![], file: None, fs_type: None, ..readers() };
        assert!(text(&none, Style::default()).starts_with("a file of 64 MiB"));
    }
}
