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

#[test]
fn a_limit_of_file_size_is_a_line_and_leaves_nothing() {
    let place = Place::new();
    let report = place.path("r.json");
    let made = place.run(&["sweep", "--simulate", "clean", "--len", "64K", "--output", text(&report)]);
    assert!(made.status.success(), "{}", stderr(&made));
    let files = || std::fs::read_dir(place.folder.path()).unwrap().count();
    let before = files();
    for args in [
        ["check", "--simulate", "clean", "--output", "new.json"].join("\n"),
        ["report", text(&report), "--format", "html", "--output", "new.html"].join("\n"),
        ["exposure", "--band", "0x1-0xf", "--len", "64K", "--processes", "1", "--output", "new.txt"]
            .join("\n"),
        ["trace", "--simulate", "zen4", "--output", "new.txt", "true"].join("\n"),
    ] {
        let args: Vec<&str> = args.split('\n').collect();
        let program = place.fsprobe(&args);
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "ulimit -f 8; exec \"$@\"", "sh"])
            .arg(program.get_program())
            .args(program.get_args());
        shell.current_dir(place.folder.path()).env("XDG_STATE_HOME", place.path("state"));
        let output = shell.output().unwrap();
        let code = if args[0] == "trace" { 125 } else { 2 };
        assert_eq!(output.status.code(), Some(code), "{args:?} {}", stderr(&output));
        assert!(stderr(&output).contains("File too large"), "{args:?} {}", stderr(&output));
        assert_eq!(files(), before, "{args:?}");
    }
}

#[test]
fn a_place_that_cannot_be_written_is_told_before_anything_is_measured() {
    let place = Place::new();
    let nowhere = place.path("none").join("x.html");
    // so many take seconds
    let args = ["exposure", "--processes", "64", "--output", text(&nowhere)];
    assert_fails(&place.run(&args), &["cannot write", "No such file"]);
}

#[test]
fn what_stdin_reads_is_not_written_to() {
    let place = Place::new();
    let report = place.path("r.json");
    let made = place.run(&["sweep", "--simulate", "clean", "--len", "64K", "--output", text(&report)]);
    assert!(made.status.success(), "{}", stderr(&made));
    let before = std::fs::read(&report).unwrap();
    for args in [
        &["report", "-", "--format", "ticket", "--force", "--output", text(&report)][..],
        &["exposure", "--report", "-", "--force", "--output", text(&report)],
    ] {
        let output = place.fsprobe(args).stdin(std::fs::File::open(&report).unwrap()).output().unwrap();
        assert_fails(&output, &["is what is read"]);
        assert!(std::fs::read(&report).unwrap() == before);
    }
}

#[test]
fn lengths_and_colours_are_told_in_every_format() {
    let place = Place::new();
    for (args, wanted, never) in [
        (&["--paths", "memcpy", "--len", "auto"][..], "2113", "named above"),
        (&["--paths", "rep-movsb", "--colours"][..], "PAGE COLOURS: 16", "INCONCLUSIVE"),
    ] {
        let report = place.path(&format!("{wanted}.json"));
        let made = place.run(&[&["sweep", "--simulate", "zen4", "--output", text(&report)], args].concat());
        assert!(made.status.success(), "{}", stderr(&made));
        for format in ["terminal", "ticket", "markdown", "html"] {
            let told = stdout(&place.run(&["report", text(&report), "--format", format]));
            assert!(told.contains(wanted), "{format}: {told}");
            assert!(!told.contains(never), "{format}: {told}");
        }
    }
}

#[test]
fn what_an_error_quotes_cannot_steer_the_terminal() {
    let place = Place::new();
    for args in [&["sweep", "--len", "\u{1b}]0;x\u{7}"][..], &["\u{9b}2J"], &["sweep", "--\u{202e}x"]] {
        let output = place.run(args);
        assert_eq!(output.status.code(), Some(2));
        let said = stderr(&output);
        assert!(said.trim_end().chars().all(|c| !c.is_control() && c != '\u{202e}'), "{said:?}");
    }
}

#[test]
fn a_report_of_very_many_lengths_is_shown() {
    let place = Place::new();
    let report = place.path("r.json");
    let made = place.run(&[
        "sweep",
        "--simulate",
        "clean",
        "--len",
        "64K",
        "--rounds",
        "2",
        "--output",
        text(&report),
    ]);
    assert!(made.status.success(), "{}", stderr(&made));
    let mut parsed: serde_json::Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    let cell = parsed["cells"][0].clone();
    let cells = (0..3000).map(|len| {
        let mut cell = cell.clone();
        cell["len"] = (1000 + len).into();
        cell
    });
    parsed["cells"] = cells.collect();
    std::fs::write(&report, parsed.to_string()).unwrap();
    let shown = place.run(&["report", text(&report)]);
    assert!(shown.status.success() && stdout(&shown).contains("3999 B"), "{}", stderr(&shown));
}

#[test]
fn closed_streams_are_told_and_nothing_is_lost_without_a_word() {
    let place = Place::new();
    for (args, redirect, code, said) in [
        (&["cpu"][..], ">&-", 2, "cannot write"),
        (&["cat", "/dev/null"], ">&-", 1, "write error"),
        (&["cat"], "<&-", 1, "-: Bad file descriptor"),
    ] {
        let program = place.fsprobe(args);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec \"$@\" {redirect}"), "sh"]);
        let output = shell.arg(program.get_program()).args(program.get_args()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn placements_are_held_against_the_bands_of_the_paths_that_have_them() {
    let place = Place::new();
    let args = ["sweep", "--simulate", "zen4", "--seed", "3", "--no-output", "--paths"];
    let told = stdout(&place.run(&[&args[..], &["read,rep-movsq"]].concat()));
    assert!(told.contains("outside the band") && !told.contains("INSIDE"), "{told}");
    let told = stdout(&place.run(&[&args[..], &["rep-movsq"]].concat()));
    assert!(told.contains("INSIDE"), "its own band holds 0x010: {told}");
}

#[test]
fn what_reads_no_file_needs_none() {
    let place = Place::new();
    let report = place.path("r.json");
    for args in [
        &["sweep", "--paths", "rep-movsb", "--len", "4K", "--dst", "0x0-0x10", "--rounds", "2"][..],
        &["check", "--paths", "rep-movsb"],
    ] {
        let program = place.fsprobe(&[args, &["--output", text(&report), "--force"]].concat());
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -f 20000; TMPDIR=/nowhere exec \"$@\"", "sh"]);
        let output = shell.arg(program.get_program()).args(program.get_args()).output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{}", stderr(&output));
        let recorded: serde_json::Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
        assert!(recorded["source"].is_null(), "{args:?}");
    }
}

#[test]
fn the_length_of_the_file_is_never_nothing() {
    let place = Place::new();
    let report = place.path("r.json");
    let args =
        ["sweep", "--paths", "rep-movsb", "--len", "file", "--dst", "0x0", "--rounds", "1", "--output"];
    let output = place.run(&[&args[..], &[text(&report)]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let recorded: serde_json::Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    let cells = recorded["cells"].as_array().unwrap().iter();
    let lens: Vec<u64> = cells.map(|cell| cell["len"].as_u64().unwrap()).collect();
    assert!(lens.iter().all(|len| *len > 0) && lens.iter().any(|len| *len >= 1 << 20));
}

#[test]
fn a_device_is_written_to_and_stays_one() {
    use std::os::unix::fs::FileTypeExt;
    let place = Place::new();
    for args in [
        &["sweep", "--simulate", "clean", "--len", "4K", "--dst", "0x0-0x10", "--output", "/dev/null"][..],
        &["trace", "--simulate", "zen4", "--via", "preload", "--output", "/dev/null", "--", "true"],
    ] {
        let output = place.run(args);
        assert!(output.status.success() || output.status.code() == Some(125), "{}", stderr(&output));
        assert!(!stderr(&output).contains("regular file"), "{}", stderr(&output));
    }
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

#[test]
fn an_ignored_sigpipe_stays_ignored_in_the_command() {
    let fsprobe = env!("CARGO_BIN_EXE_fsprobe");
    for ignored in ["trap '' PIPE; ", ""] {
        for via in ["sample", "preload", "ptrace"] {
            let inner = "grep SigIgn /proc/self/status";
            let script = |before: &str| format!("{ignored}exec {before} {inner}");
            let sh = |script: String| Command::new("sh").args(["-c", &script]).output().unwrap();
            let traced = sh(script(&format!("{fsprobe} trace --simulate zen4 --via {via} --")));
            if traced.status.code() == Some(125) {
                eprintln!("skipped: {}", stderr(&traced));
                continue;
            }
            // not of the C library's own signals, 32 and 33
            let pipe = |output: &std::process::Output| {
                let mask = stdout(output).split_whitespace().nth(1).map(|word| u64::from_str_radix(word, 16));
                mask.unwrap().unwrap() >> (libc::SIGPIPE - 1) & 1
            };
            assert_eq!(pipe(&traced), u64::from(!ignored.is_empty()), "{via}");
        }
    }
}

#[test]
fn without_descriptors_nothing_is_left_in_the_temporary_folder() {
    for limit in 4..10 {
        let place = Place::new();
        let folder = place.path("temporary");
        std::fs::create_dir(&folder).unwrap();
        let script = format!(
            "ulimit -n {limit}; exec {} trace --simulate zen4 --via preload -- true",
            env!("CARGO_BIN_EXE_fsprobe")
        );
        let output = Command::new("sh").args(["-c", &script]).env("TMPDIR", &folder).output().unwrap();
        let left: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path()).collect();
        assert!(left.is_empty(), "{limit}: {left:?} {}", stderr(&output));
    }
}
