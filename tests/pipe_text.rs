//! The text of `fsprobe pipe` from made results: a golden file, its width, and hostile words.

use expect_test::expect_file;
use fsprobe::judge::pipe::judge;
use fsprobe::render::pipe::text;
use fsprobe::render::terminal::Style;
use fsprobe::report::{
    Counted, Exposed, HugeFound, Mapping, Moved, OffsetCell, OffsetSweep, Pipe, PipeSample, Rung,
};

const GIB: u64 = 1 << 30;

/// A rung at so many GiB/s, a little different in each round.
fn rung(name: &str, over: Option<&str>, speed: f64, copies: &[(&str, &str)]) -> Rung {
    let counted = Some(Counted { page_faults: 3, voluntary_switches: 1200, involuntary_switches: 4 });
    let sample = |round: u32| PipeSample {
        round,
        bytes: GIB,
        ns: (1e9 / speed * (1.0 + f64::from(round % 3) / 100.0)) as u64,
        writer: counted.filter(|_| name != "ram-read"),
        reader: counted,
    };
    let whole = HugeFound { asked: 4 << 20, found: Some(4 << 20), unknown: None };
    Rung {
        name: name.into(),
        over: over.map(Into::into),
        exposed: copies.iter().map(|(c, by)| Exposed { copy: (*c).into(), by: (*by).into() }).collect(),
        huge: Some(whole).filter(|_| name.contains("huge")),
        samples: (0..9).map(sample).collect(),
        ..Rung::default()
    }
}

fn mapping(pages: &str, ns: f64, huge: bool) -> Mapping {
    Mapping {
        pages: pages.into(),
        huge: huge.then_some(HugeFound { asked: 2 << 20, found: Some(2 << 20), unknown: None }),
        samples: (0..9).map(|round| ns + f64::from(round) / 10.0).collect(),
        ..Mapping::default()
    }
}

fn sweep(rung: &str, slow: std::ops::RangeInclusive<u16>) -> OffsetSweep {
    let cell = |offset: u16| {
        let ns = if slow.contains(&offset) { 4_000_000 } else { 1_000_000 };
        OffsetCell { offset, ns: (0..9).map(|round| ns + round * 1000).collect(), slowdown: None }
    };
    OffsetSweep {
        rung: rung.into(),
        moved: Moved::Dst,
        cells: (0..64).map(cell).collect(),
        bytes: 8 << 20,
        bands: vec![],
        skipped: None,
    }
}

/// What the article measured, with a band of this project's own.
fn ladder() -> Pipe {
    let both = [("write", "src"), ("read", "dst")];
    let mut refused = rung("vmsplice-splice-busy", Some("vmsplice-splice"), 1.0, &[]);
    refused.samples.clear();
    refused.skipped = Some("splice: Operation not permitted".into());
    let mut pipe = Pipe {
        cpus: [1, 3],
        one_core: Some(false),
        pipe_size: 256 << 10,
        rungs: vec![
            rung("write-read", None, 3.7, &both),
            rung("write-read-huge", Some("write-read"), 3.9, &both),
            rung("vmsplice-read", Some("write-read"), 12.7, &[("read", "dst - src")]),
            rung("vmsplice-splice", Some("vmsplice-read"), 32.8, &[]),
            rung("vmsplice-splice-huge", Some("vmsplice-splice"), 51.0, &[]),
            refused,
            rung("vmsplice-splice-huge-busy", Some("vmsplice-splice-huge"), 62.5, &[]),
        ],
        yardsticks: vec![
            rung("ram-read", None, 16.0, &[]),
            rung("shared-ring", Some("write-read"), 9.0, &[("memcpy", "src"), ("memcpy", "dst")]),
        ],
        mapping: vec![mapping("4k", 41.0, false), mapping("huge", 17.0, true)],
        sweeps: vec![sweep("write-read", 1..=15), sweep("vmsplice-read", 99..=99)],
        notes: vec!["writer and reader are two threads of one core".into()],
    };
    judge(&mut pipe);
    pipe
}

fn assert_fit(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "too wide: {line}");
        assert_eq!(line, line.trim_end(), "blanks at the end");
        assert!(!line.chars().any(char::is_control), "steers: {line:?}");
    }
}

#[test]
fn the_ladder_as_text() {
    let text = text(&ladder(), Style::default());
    assert_fit(&text);
    expect_file!["golden/pipe.txt"].assert_eq(&text);
}

#[test]
fn pages_that_are_not_huge_are_told() {
    let mut pipe = ladder();
    pipe.rungs[4].huge = Some(HugeFound { asked: 4 << 20, found: Some(0), unknown: None });
    pipe.mapping[1].huge = pipe.rungs[4].huge.clone();
    let said = text(&pipe, Style::default());
    assert!(said.contains("NOT all: 0 B of 4 MiB on vmsplice-splice-huge"), "{said}");
    assert!(said.replace('\n', " ").contains("which are not"), "{said}");
    pipe.rungs[4].huge = Some(HugeFound { asked: 1, found: None, unknown: Some("no /proc".into()) });
    assert!(text(&pipe, Style::default()).contains("Huge pages: not known: no /proc."));
}

#[test]
fn intervals_that_reach_a_deep_band_leave_it_open() {
    let mut pipe = ladder();
    let noisy = |round: u64| if round.is_multiple_of(2) { 3_000_000 } else { 900_000 };
    pipe.sweeps = vec![sweep("write-read", 99..=99)];
    pipe.sweeps[0].cells[9].ns = (0..9).map(|round| noisy(round) / 3 + 600_000).collect();
    pipe.sweeps[0].cells[10].ns = (0..9).map(noisy).collect();
    judge(&mut pipe);
    let said = text(&pipe, Style::default());
    assert!(said.contains("cannot be told") && !said.contains("no band"), "{said}");
}

#[test]
fn nothing_measured_is_still_a_text() {
    let empty = text(&Pipe::default(), Style { colour: true, ..Style::default() });
    assert!(empty.contains("How fast are Linux pipes here"));
    let mut hostile = ladder();
    hostile.rungs[5].skipped = Some("a\u{1b}[31m\u{202e}b\r\n".repeat(99));
    hostile.notes = vec!["\u{1b}]0;x\u{7}".into()];
    assert_fit(&text(&hostile, Style::default()));
}
