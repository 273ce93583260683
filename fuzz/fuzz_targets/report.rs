//! Any bytes as a report: refused with a word of error, or judged and rendered in every format.

#![no_main]

use fsprobe::judge::again;
use fsprobe::render::terminal::{Style, sweep};
use fsprobe::render::{check, csv, markdown, openmetrics, ticket};
use fsprobe::report::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(report) = parse(bytes, "fuzzed") else { return };
    let report = again(report);
    assert!(ticket::ticket(&report).lines().all(|l| l.len() <= 80 && l.is_ascii()));
    assert!(!sweep(&report, Style::default()).contains('\u{1b}'));
    assert!(!check::text(&report, Style::default()).contains('\u{1b}'));
    let _ = (markdown::markdown(&report), openmetrics::openmetrics(&report), csv::csv(&report));
});
