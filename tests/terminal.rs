//! The terminal output: golden files, width, escapes, and no panic on any report that loads.

mod made;

use expect_test::expect_file;
use fsprobe::render::check;
use fsprobe::render::csv::csv;
use fsprobe::render::markdown::markdown;
use fsprobe::render::openmetrics::openmetrics;
use fsprobe::render::terminal::{Style, sweep};
use fsprobe::render::ticket::ticket;
use fsprobe::report::{self, Band, Report};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::LazyLock;

fn plain(report: &Report) -> String {
    sweep(report, Style::default())
}

fn all() -> [Report; 11] {
    [
        made::zen4(),
        made::clean(),
        made::zen3(),
        made::zen5(),
        made::interrupted(),
        made::inconclusive(),
        made::short(),
        made::recorded(),
        made::plane(),
        made::many(),
        made::lengths(),
    ]
}

/// No line wider than 80 columns, no blanks at a line's end, nothing that steers a terminal.
fn assert_fit(text: &str) {
    for line in text.lines() {
        assert!(textwrap::core::display_width(line) <= 80, "too wide: {line}");
        assert!(line.chars().all(|c| !c.is_control() && !is_bidi(c)), "steers: {line:?}");
    }
}

fn is_bidi(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text without the escapes of colour.
fn stripped(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| out + part.split_once('m').expect("a colour escape").1)
}

#[test]
fn golden_outputs() {
    let [zen4, clean, zen3, zen5, interrupted, inconclusive, short, recorded, plane, many, lengths] =
        all().map(|r| plain(&r));
    expect_file!["golden/zen4.txt"].assert_eq(&zen4);
    expect_file!["golden/clean.txt"].assert_eq(&clean);
    expect_file!["golden/zen3.txt"].assert_eq(&zen3);
    expect_file!["golden/zen5.txt"].assert_eq(&zen5);
    expect_file!["golden/interrupted.txt"].assert_eq(&interrupted);
    expect_file!["golden/inconclusive.txt"].assert_eq(&inconclusive);
    expect_file!["golden/short.txt"].assert_eq(&short);
    expect_file!["golden/recorded.txt"].assert_eq(&recorded);
    expect_file!["golden/plane.txt"].assert_eq(&plane);
    expect_file!["golden/many.txt"].assert_eq(&many);
    expect_file!["golden/lengths.txt"].assert_eq(&lengths);
}

#[test]
fn fits_80_columns_and_less() {
    for report in all() {
        assert_fit(&plain(&report));
        assert_eq!(sweep(&report, Style { colour: false, width: 500 }), plain(&report));
        let narrow = sweep(&report, Style { colour: false, width: 50 });
        assert!(narrow.lines().all(|l| textwrap::core::display_width(l) <= 50), "{narrow}");
    }
}

#[test]
fn colour_adds_nothing_but_colour() {
    for report in all() {
        let coloured = sweep(&report, Style { colour: true, width: 80 });
        assert!(coloured.contains('\u{1b}'));
        assert_eq!(stripped(&coloured), plain(&report));
        assert!(!plain(&report).contains('\u{1b}'));
    }
}

#[test]
fn slow_cells_are_marked_to_the_byte() {
    let text = plain(&made::zen4());
    let row = |label: &str| text.lines().find(|l| l.starts_with(label)).expect(label).to_owned();
    for slow in ["0x001 ", "0x002-0x00e", "0x00f "] {
        assert_eq!(row(slow).matches('!').count(), 6, "{slow}");
    }
    for fast in ["0x000 ", "0x010 ", "0x041-0xfff", "natural"] {
        assert!(!row(fast).contains(['!', '~']), "{fast}");
    }
    assert_eq!(row("0x011-0x03f").matches('~').count(), 3);
}

#[test]
fn a_band_through_zero_is_marked_on_both_sides() {
    let text = plain(&made::zen3());
    for slow in ["0x000 ", "0x00f ", "0x991 ", "0x992-0xfff"] {
        assert!(text.lines().any(|l| l.starts_with(slow) && l.contains("!2.8x")), "{slow}");
    }
    assert!(text.lines().any(|l| l.starts_with("0x990 ") && !l.contains('!')));
    assert!(text.contains("up to 1647"), "{text}");
}

#[test]
fn a_simulation_says_so_first_and_in_the_verdict() {
    let text = plain(&made::zen3());
    assert!(text.starts_with("SIMULATED: zen3 "), "{text}");
    assert!(text.contains("AFFECTED (simulated: zen3)"), "{text}");
    assert!(!plain(&made::zen4()).to_lowercase().contains("simulated"));
}

#[test]
fn many_bands_stay_within_40_rows() {
    let mut report = made::zen4();
    for (index, verdict) in report.verdict.paths.iter_mut().enumerate() {
        let start = |i: u16| 0x20 + i * 0x60 + index as u16 * 0x15;
        let bands = (0..40).map(|i| made::band(start(i), start(i) + 7, 1.3 + f64::from(i % 9), 30.0));
        verdict.bands = bands.collect::<Vec<Band>>();
    }
    let text = plain(&report);
    let table = text.split("\n\n").find(|part| part.contains("(source at 0x000)")).expect("a matrix");
    assert!(table.lines().count() < 45, "{table}");
    assert_fit(&text);
}

#[test]
fn nothing_in_a_report_steers_the_terminal() {
    for attack in made::hostile::ATTACKS {
        let report = made::hostile::hostile(&(attack.to_owned() + &"x".repeat(3000)));
        let text = plain(&report);
        assert_fit(&text);
        assert!(text.len() < 20_000, "{} bytes", text.len());
        assert_fit(&stripped(&sweep(&report, Style { colour: true, width: 80 })));
        assert_fit(&fsprobe::render::check::text(&report, Style::default()));
    }
    assert!(plain(&made::hostile::hostile("\u{1b}[2J")).contains("\\u{1b}[2J"));
}

/// A small report with everything in it, as JSON to be mutated.
static SEED: LazyLock<Value> = LazyLock::new(|| {
    let mut report = made::zen4();
    report.cells.retain(|c| c.dst.max(c.src).is_some_and(|o| o < 0x13 || o % 0xd5 == 0));
    report.runs.iter_mut().for_each(|r| r.pages.truncate(1));
    report.skipped = made::inconclusive().skipped;
    serde_json::to_value(&report).expect("a report")
});

/// Replaces, removes or repeats one value, found by walking down with `steps`.
fn mutate(value: &mut Value, steps: &[usize], to: &Value) {
    let Some((step, rest)) = steps.split_first() else {
        *value = to.clone();
        return;
    };
    match value {
        Value::Array(items) if !items.is_empty() => {
            let index = step % items.len();
            match (rest, step % 7) {
                ([], 0) => items.clear(),
                ([], 1) => drop(items.remove(index)),
                ([], 2) => items.push(items[index].clone()),
                _ => mutate(&mut items[index], rest, to),
            }
        }
        Value::Object(fields) if !fields.is_empty() => {
            let key = fields.keys().nth(step % fields.len()).cloned().expect("a key");
            mutate(&mut fields[&key], rest, to);
        }
        other => *other = to.clone(),
    }
}

fn odd_value() -> impl Strategy<Value = Value> {
    let words =
        ["dst", "src", "distance", "mixed", "deep", "mild", "jemalloc", "pread", "clean", "screen", "\u{1b}"];
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (0..0x1001u64).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        proptest::sample::select(vec![0.0, -1.0, 1e-300, 1e300, 1.5, 65535.0]).prop_map(Value::from),
        proptest::sample::select(words.to_vec()).prop_map(Value::from),
        Just(json!([])),
        Just(json!([0xfff, 3])),
        Just(json!({})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_report_that_loads_panics(
        changes in proptest::collection::vec((proptest::collection::vec(any::<usize>(), 1..6), odd_value()), 1..4),
        width in 0usize..120,
    ) {
        let mut value = SEED.clone();
        for (steps, to) in &changes {
            let mut changed = value.clone();
            mutate(&mut changed, steps, to);
            // a change that the loader refuses would hide the others
            if report::parse(changed.to_string().as_bytes(), "mutated").is_ok() {
                value = changed;
            }
        }
        let report = report::parse(value.to_string().as_bytes(), "mutated").expect("still a report");
        assert_fit(&sweep(&report, Style { colour: false, width }));
        assert_fit(&stripped(&sweep(&report, Style { colour: true, width })));
        assert!(fsprobe::render::html::html(&report).ends_with("</html>\n"));
        assert!(fsprobe::render::plot::svg(&report).ends_with("</svg>\n"));
        let report = fsprobe::judge::again(report);
        assert_fit(&ticket(&report));
        let _ = (markdown(&report), openmetrics(&report), csv(&report), check::text(&report, Style::default()));
    }
}
