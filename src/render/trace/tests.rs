use super::*;
use crate::report::{
    FileKind, PathName, Samples, TraceAnswer, TraceBand, TraceBands, TraceDistance, TracePath, TraceRow,
    TraceThread, Via, Watched,
};
use expect_test::expect_file;

const PLAIN: Style = Style { colour: false, width: 80 };

fn bands() -> TraceBands {
    let band = |slowdown| TraceBand { from: 1, to: 15, slowdown, penalty_ns_per_kib: 275.0 };
    let path = |path, slowdown| TracePath {
        path,
        len: 65536,
        baseline_bytes_per_s: Some(2e10),
        bands: vec![band(slowdown)],
    };
    TraceBands {
        source: "a check of this machine, just now".into(),
        simulated: false,
        elsewhere: false,
        state: State::Affected,
        paths: vec![path(PathName::Read, 7.2), path(PathName::Write, 7.0), path(PathName::Memcpy, 24.0)],
        here: vec![],
    }
}

fn row(what: &str, place: Option<&str>, kind: FileKind, bytes: u64, lost_ns: u64) -> TraceRow {
    TraceRow {
        program: "app".into(),
        what: what.into(),
        place: place.map(Into::into),
        kind: Some(kind),
        calls: Some(bytes / 65536),
        bytes: Some(bytes),
        copy_ns: None,
        share_in_band: (kind == FileKind::PageCache).then_some(if lost_ns > 0 { 0.98 } else { 0.0 }),
        lost_ns,
    }
}

fn counted() -> Trace {
    let hostile =
        "/data/\u{1b}[31mred\u{202e}/a very long name, of which the end tells most/part-00017.parquet";
    let rows = vec![
        row("pread64", Some(hostile), FileKind::PageCache, 9 << 30, 2_100_000_000),
        row("read", Some("/data/表/索引.idx"), FileKind::PageCache, 3 << 20, 0),
        row("recvfrom", None, FileKind::Socket, 70_000, 0),
        row("memcpy", None, FileKind::Memory, 1 << 20, 0),
        row("pread64", Some("/data/direct"), FileKind::Direct, 1 << 30, 0),
    ];
    let thread = |pid, lost_ns| TraceThread {
        pid,
        tid: None,
        program: "app".into(),
        bytes: Some(1 << 30),
        copy_ns: None,
        share_in_band: Some(0.5),
        lost_ns,
    };
    let at = |offset, bytes| AtOffset { offset, copies: 4096, bytes };
    let buffers = vec![at(0x010, 9 << 30), at(0x000, 1 << 30), at(0x9c0, 1 << 20)];
    Trace {
        via: Via::Preload,
        via_reason: "it is dynamically linked, so that every call is counted at next to no cost".into(),
        program: Some("./app --all \u{1b}[2J".into()),
        pid: None,
        watched: Watched {
            wall_ns: 9_400_000_000,
            cpu_ns: Some(9_100_000_000),
            unseen: vec![Unseen {
                what: "a program that process 123 started".into(),
                program: Some("busybox".into()),
                why: "no preloaded object reaches it".into(),
                remedy: Some("--via ptrace".into()),
                ..Unseen::default()
            }],
            ..Watched::default()
        },
        bands: bands(),
        answer: TraceAnswer {
            state: State::Affected,
            sentence: "31 % of the bytes that `app` read landed 1 to 15 bytes past their source's page offset: about \
                2.1 s of 9.1 s lost; allocate buffers with 64-byte alignment, and read at file offsets that are \
                multiples of 64."
                .into(),
            share_in_band: Some(0.31),
            lost_ns: Some(2_100_000_000),
            lost_is_estimate: true,
            of_ns: 9_100_000_000,
            rows,
            threads: vec![thread(123, 2_100_000_000), thread(124, 0)],
            distances: vec![
                TraceDistance { distance: Some(0x008), share: 0.31, share_in_band: 1.0 },
                TraceDistance { distance: Some(0x400), share: 0.6, share_in_band: 0.0 },
                TraceDistance { distance: None, share: 0.09, share_in_band: 0.0 },
            ],
            buffers,
        },
    }
}

fn sampled() -> Trace {
    let place = |program: &str, what: &str, kernel: Option<&str>, copy_ns, lost_ns| TraceRow {
        program: program.into(),
        what: what.into(),
        place: kernel.map(Into::into),
        kind: None,
        calls: None,
        bytes: None,
        copy_ns: Some(copy_ns),
        share_in_band: Some(if lost_ns > 0 { 1.0 } else { 0.0 }),
        lost_ns,
    };
    let trace = counted();
    Trace {
        via: Via::Sample,
        via_reason: "what runs already can only be sampled".into(),
        program: Some("server".into()),
        pid: Some(4711),
        watched: Watched {
            samples: Some(Samples {
                period_ns: 1_000_000,
                taken: 9100,
                lost: 3,
                unread: 0,
                kernel_seen: true,
                inside: vec![],
            }),
            ..trace.watched
        },
        answer: TraceAnswer {
            lost_is_estimate: false,
            rows: vec![
                place(
                    "server",
                    "load_table (table.c:120)",
                    Some("read: filemap_read"),
                    2_400_000_000,
                    2_066_000_000,
                ),
                place("worker", "copy_row_with_a_long_name in libtable.so", None, 300_000_000, 0),
            ],
            threads: vec![TraceThread {
                pid: 4711,
                tid: Some(4712),
                program: "worker".into(),
                bytes: None,
                copy_ns: Some(2_700_000_000),
                share_in_band: Some(0.89),
                lost_ns: 2_066_000_000,
            }],
            buffers: vec![],
            ..trace.answer
        },
        ..trace
    }
}

fn fits(text: &str) {
    for line in text.lines() {
        assert!(textwrap::core::display_width(line) <= 80, "{line}");
        assert!(!line.contains(char::is_control) && !line.contains('\u{202e}'), "{line:?}");
    }
}

#[test]
fn counted_calls() {
    let text = text(&counted(), PLAIN);
    fits(&text);
    expect_file!["../../../tests/golden/trace/counted.txt"].assert_eq(&text);
}

#[test]
fn samples() {
    let text = text(&sampled(), PLAIN);
    fits(&text);
    expect_file!["../../../tests/golden/trace/sampled.txt"].assert_eq(&text);
}

#[test]
fn counted_calls_with_copies_of_the_program_itself() {
    let (mut trace, samples) = (counted(), sampled());
    let samples_of = |trace: &Trace| trace.watched.samples.clone().unwrap();
    trace.watched.own = Some(OwnCopies { user_ns: 3_000_000_000, samples: samples_of(&samples) });
    trace.answer.rows.extend(samples.answer.rows);
    trace.answer.threads.extend(samples.answer.threads);
    let text = text(&trace, PLAIN);
    fits(&text);
    expect_file!["../../../tests/golden/trace/both.txt"].assert_eq(&text);
}

#[test]
fn a_frame_keeps_to_its_lines() {
    let mut trace = sampled();
    let row = trace.answer.rows[1].clone();
    trace.answer.rows.extend(vec![row; 50]);
    let narrow = super::frame(&trace, 20, 40, PLAIN);
    assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
    let frame = frame(&trace, 20, 80, PLAIN);
    fits(&frame);
    assert!(frame.lines().count() <= 20 && frame.contains("and 37 more"), "{frame}");
    expect_file!["../../../tests/golden/trace/frame.txt"].assert_eq(&frame);
}

#[test]
fn nothing_seen_is_no_panic_and_many_things_are_few_lines() {
    let mut trace = counted();
    trace.answer =
        TraceAnswer { rows: vec![], threads: vec![], distances: vec![], buffers: vec![], ..trace.answer };
    trace.bands.paths.clear();
    trace.watched.unseen.clear();
    let bare = text(&trace, PLAIN);
    assert!(bare.contains("none known") && bare.contains("AFFECTED"), "{bare}");
    let mut many = counted();
    many.answer.rows = vec![many.answer.rows[0].clone(); 5000];
    many.watched.unseen = vec![many.watched.unseen[0].clone(); 500];
    many.answer.distances = (0..4096)
        .map(|at| TraceDistance { distance: Some(at), share: 1.0 / 4096.0, share_in_band: 0.0 })
        .collect();
    assert!(text(&many, PLAIN).lines().count() < 90, "{}", text(&many, PLAIN));
}

#[test]
fn colour_repeats_what_the_text_says() {
    let colours = text(&counted(), Style { colour: true, ..PLAIN });
    assert!(colours.contains("\u{1b}[1;31mAFFECTED\u{1b}[0m"), "{colours}");
    let codes = ["\u{1b}[1;31m", "\u{1b}[0m"];
    let stripped = codes.iter().fold(colours, |text, code| text.replace(code, ""));
    assert_eq!(stripped, text(&counted(), PLAIN));
}
