//! The C program of a ticket: short, compiles without a warning, and copies at the offsets claimed.

mod made;

use fsprobe::render::reproducer::{Place, Reproducer};
use fsprobe::render::ticket::ticket;
use fsprobe::report::{Axis, PathName, Report, Scan};
use std::process::Command;

/// Zen 4's reads as those of another path, with its band on another axis.
fn on(path: PathName, axis: Option<Axis>, scan: Scan) -> Report {
    let mut report = made::zen4();
    for verdict in &mut report.verdict.paths {
        verdict.path = path;
        verdict.bands.iter_mut().for_each(|b| (b.axis, b.scan) = (axis, scan));
    }
    report
}

fn has_compiler() -> bool {
    let found = Command::new("cc").arg("--version").output().is_ok_and(|o| o.status.success());
    if !found {
        eprintln!("skipped: no C compiler (cc) here");
    }
    found
}

/// Compiles and runs a program, and returns what it printed.
fn run(source: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (file, program) = (folder.path().join("repro.c"), folder.path().join("repro"));
    std::fs::write(&file, source).unwrap();
    let compiled = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&program, &file])
        .output();
    let compiled = compiled.unwrap();
    assert!(compiled.status.success(), "{}\n{source}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// The two lines on copies: buffer's and other side's page offset, nanoseconds.
fn told(output: &str) -> Vec<(u16, u16, f64)> {
    let hex = |text: &str| u16::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let line = |line: &str| {
        let words: Vec<&str> = line.split([' ', ',', ':']).filter(|w| !w.is_empty()).collect();
        let after = |word| words.iter().position(|w| *w == word).map(|at| words[at + 1]).expect(line);
        let other = words.iter().rposition(|w| *w == "at").map(|at| words[at + 1]).expect(line);
        let ns = words[words.iter().position(|w| *w == "ns").expect(line) - 1];
        (hex(after("at")), hex(other), ns.parse().unwrap())
    };
    output.lines().filter(|l| l.contains("buffer at")).map(line).collect()
}

/// The program of a report copies where the report's band is, and where none is.
fn assert_reproduces(report: &Report, slow: [u16; 2], len: u64) {
    let program = Reproducer::of(report);
    assert_eq!(program.len, len);
    let source = program.source();
    assert!(source.lines().count() <= 60, "{} lines\n{source}", source.lines().count());
    assert!(source.lines().all(|l| l.len() <= 80) && source.is_ascii(), "{source}");
    assert!(!source.contains('@'), "filled in: {source}");
    assert!(ticket(report).ends_with(&(source.trim_end().to_owned() + "\n")));
    if !has_compiler() {
        return;
    }
    let output = run(&source);
    let copies = told(&output);
    assert_eq!(copies.len(), 2, "{output}");
    assert_eq!([copies[0].0, copies[0].1], slow, "{output}");
    // the fast place differs in one side alone, by a multiple of a cache line
    let apart = [copies[0].0.abs_diff(copies[1].0), copies[0].1.abs_diff(copies[1].1)];
    assert!(apart.contains(&0) && apart != [0, 0] && apart.iter().all(|a| a.is_multiple_of(64)), "{output}");
    assert!(copies.iter().all(|(_, _, ns)| *ns > 0.0), "{output}");
    let ratio: f64 = output.lines().last().unwrap().trim_start_matches("ratio: ").parse().unwrap();
    assert!((ratio - copies[0].2 / copies[1].2).abs() < 0.02 + 0.05 * ratio, "{output}");
}

#[test]
fn a_band_by_distance_is_shown_by_reads_and_writes() {
    let distance = Some(Axis::Distance);
    assert_reproduces(&on(PathName::Read, distance, Scan::Dst), [0x008, 0], 65536);
    assert_reproduces(&on(PathName::Write, distance, Scan::Src), [0xff8, 0], 65536);
}

#[test]
fn bands_of_one_side_are_shown_on_that_side() {
    assert_reproduces(&on(PathName::Pread, Some(Axis::Src), Scan::Src), [0, 0x008], 65536);
    assert_reproduces(&on(PathName::Pread, Some(Axis::Dst), Scan::Dst), [0x008, 0], 65536);
    assert_reproduces(&on(PathName::Pread, None, Scan::Src), [0, 0x008], 65536);
}

#[test]
fn user_space_is_shown_where_it_alone_is_slow() {
    for path in [PathName::Memcpy, PathName::RepMovsb, PathName::RepMovsq] {
        assert_reproduces(&on(path, Some(Axis::Distance), Scan::Dst), [0x008, 0], 65536);
        let mut both = on(path, Some(Axis::Distance), Scan::Dst);
        both.verdict.paths.extend(made::zen4().verdict.paths);
        assert_eq!(Reproducer::of(&both).path, PathName::Read, "reads come first");
    }
}

#[test]
fn without_a_band_a_sample_offset_is_shown() {
    let program = Reproducer::of(&made::clean());
    assert!(!program.has_band);
    assert_reproduces(&made::clean(), [0x008, 0], 65536);
    assert_reproduces(&made::interrupted(), [0x008, 0], 65536);
}

#[test]
fn the_fast_place_is_clear_of_every_band() {
    // a band around nearly the whole circle leaves 0x0c0..0x13f
    let mut report = made::zen4();
    for verdict in &mut report.verdict.paths {
        verdict.bands = vec![made::band(0x140, 0x0bf, 7.0, 275.0)];
    }
    let Reproducer { first, second, .. } = Reproducer::of(&report);
    let band = made::band(0x140, 0x0bf, 7.0, 275.0);
    assert!(band.contains(first.dst) && !band.contains(second.dst), "{first:?} {second:?}");
    assert_eq!(first.dst % 64, second.dst % 64);
    assert_eq!(Place { dst: 0, ..first }, Place { dst: 0, ..second });
}

#[test]
fn lengths_that_no_machine_could_copy_are_cut() {
    let mut report = made::zen4();
    report.verdict.paths.iter_mut().for_each(|v| v.len = u64::MAX);
    assert_eq!(Reproducer::of(&report).len, 64 << 20);
}
