//! Faults that testers found in what is read and written, and where memory ends, each by the case it was.

mod common;

use common::{Place, assert_fails, stderr, stdout, text};
use std::os::unix::fs::symlink;
use std::process::Command;

const QUICK: [&str; 8] = ["--dst", "0x0-0x20", "--len", "64K", "--allocators", "pages", "--rounds", "2"];

#[test]
fn an_output_is_never_what_is_read() {
    let place = Place::new();
    let recording = place.path("r.csv");
    std::fs::copy("tests/recordings/zen4-read-64KiB-dst.csv", &recording).unwrap();
    let file = place.file("source", 1 << 20);
    let report = place.path("r.json");
    let made = place.run(&["sweep", "--simulate", "clean", "--len", "64K", "--output", text(&report)]);
    assert!(made.status.success(), "{}", stderr(&made));
    let alias = place.path("alias");
    symlink(&file, &alias).unwrap();
    let sweep = |input: [&str; 2], output: &str| {
        [&["sweep"], &input[..], &QUICK[..], &["--output", output, "--force"]].concat().join("\n")
    };
    let cases = [
        (&file, sweep(["--file", text(&file)], text(&file))),
        (&file, sweep(["--file", text(&alias)], text(&file))),
        (&recording, sweep(["--simulate", text(&recording)], text(&recording))),
        (&report, ["report", text(&report), "--output", text(&report), "--force"].join("\n")),
    ];
    for (kept, args) in cases {
        let before = std::fs::read(kept).unwrap();
        let output = place.run(&args.split('\n').collect::<Vec<_>>());
        assert_fails(&output, &["is what is read", "--output"]);
        assert!(std::fs::read(kept).unwrap() == before, "{args}");
    }
}

#[test]
fn links_are_not_replaced() {
    let place = Place::new();
    let target = place.path("target.json");
    let link = place.path("link.json");
    symlink(&target, &link).unwrap();
    for (exists, force) in [(false, true), (true, true), (true, false)] {
        if exists {
            std::fs::write(&target, "mine").unwrap();
        }
        let force: &[&str] = if force { &["--force"] } else { &[] };
        let args = ["sweep", "--simulate", "clean", "--len", "64K", "--output", text(&link)];
        assert_fails(&place.run(&[&args, force].concat()), &["symbolic link", "- for stdout"]);
        assert!(link.is_symlink());
    }
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "mine");
}

/// fsprobe with at most so many KiB of addresses.
fn within(place: &Place, kib: u64, args: &[&str]) -> Command {
    let program = place.fsprobe(args);
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -v \"$0\"; exec \"$@\"", &kib.to_string()]);
    shell.arg(program.get_program()).args(program.get_args());
    shell.env("XDG_STATE_HOME", place.path("state")).env_remove("GLIBC_TUNABLES");
    shell
}

#[test]
fn the_end_of_memory_is_one_line() {
    let place = Place::new();
    for kib in [20_000, 35_000, 60_000, 90_000, 120_000, 150_000, 165_000, 180_000] {
        for args in [
            &["sweep", "--simulate", "zen4", "--no-output"][..],
            &["sweep", "--time", "1", "--quiet"],
            &["check", "--simulate", "zen4"],
        ] {
            let output = within(&place, kib, args).output().unwrap();
            let (code, said) = (output.status.code(), stderr(&output));
            // a loader that has no room speaks for itself
            if said.contains("error while loading shared libraries") {
                continue;
            }
            assert!([0, 1, 2, 3].map(Some).contains(&code), "{kib} KiB {args:?}: {code:?} {said}");
            assert!(
                !said.contains("panicked") && !said.contains("RUST_BACKTRACE"),
                "{kib} KiB {args:?}: {said}"
            );
            if code == Some(2) {
                assert_eq!(said.lines().count(), 1, "{kib} KiB {args:?}: {said}");
            }
        }
    }
}

#[test]
fn a_fifo_without_a_writer_is_no_recording() {
    let place = Place::new();
    let fifo = place.path("f.csv");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    assert_fails(&place.run(&["sweep", "--simulate", text(&fifo), "--no-output"]), &["holds no samples"]);
    // a writer waits for a reader, and is not waited for
    let script = format!("cat \"$1\" > {0} & \"$0\" sweep --no-output --simulate {0}; kill $!", text(&fifo));
    let mut shell = Command::new("sh");
    let recording = "tests/recordings/zen4-read-64KiB-dst.csv";
    let output = shell.args(["-c", &script, env!("CARGO_BIN_EXE_fsprobe"), recording]).output().unwrap();
    // who comes first is chance: whole, or nothing
    assert!(stdout(&output).contains("AFFECTED") || stderr(&output).contains("no samples"), "{output:?}");
}

#[test]
fn a_recording_says_that_it_is_replayed_whole() {
    let place = Place::new();
    let recording = "tests/recordings/zen4-read-64KiB-dst.csv";
    let told = |more: &[&str]| {
        stderr(&place.run(&[&["sweep", "--simulate", recording, "--no-output"], more].concat()))
    };
    assert_eq!(told(&[]), "");
    let said = told(&["--dst", "0-0x40", "--len", "4K"]);
    assert!(said.contains("--dst, --len") && said.lines().count() == 1, "{said}");
}

#[test]
fn glibc_without_erms_is_told_alike_everywhere() {
    let place = Place::new();
    for args in [
        &["check", "--paths", "memcpy,rep-movsb"][..],
        &["sweep", "--paths", "memcpy", "--len", "auto"],
        &["cpu"],
    ] {
        let output = place.fsprobe(args).env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-ERMS").output().unwrap();
        let said = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        if !said.contains("GLIBC_TUNABLES") {
            eprintln!("skipped: this libc has no such setting");
            return;
        }
        assert!(!said.contains("runs rep movsb from") && !said.contains("uses rep movsb from"), "{said}");
    }
}

#[test]
fn advice_names_options_that_are_there() {
    let place = Place::new();
    let output = place.run(&["check", "--simulate", "clean+noisy", "--affected-at", "1.01"]);
    assert!(!stdout(&output).contains("--rounds"), "{}", stdout(&output));
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    let place = Place::new();
    for args in [&["--help"][..], &["--version"], &["sweep", "--help"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = place.fsprobe(args).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains("cannot write"), "{args:?}: {}", stderr(&output));
    }
}
