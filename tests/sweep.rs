//! `fsprobe sweep` on this machine, whatever it is: what is recorded, where it goes, what is refused.

mod common;

use common::{Place, assert_fails, report, stderr, stdout, text, wait_until_read};
use fsprobe::report::{Allocator, PathName, Phase, Report};
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Options of a sweep that takes a fraction of a second.
const SHORT: [&str; 6] = ["--len", "4K", "--dst", "0x0-0x40", "--rounds", "5"];

fn short<'a>(more: &[&'a str]) -> Vec<&'a str> {
    ["sweep"].into_iter().chain(SHORT).chain(more.iter().copied()).collect()
}

/// The default allocators that this build has.
fn allocators() -> Vec<Allocator> {
    let glibc = cfg!(target_env = "gnu").then_some(Allocator::Glibc);
    glibc.into_iter().chain([Allocator::Jemalloc, Allocator::Mimalloc]).collect()
}

/// What holds for any report of any machine.
fn assert_sound(report: &Report) {
    for cell in &report.cells {
        let run = &report.runs[cell.run];
        assert_eq!(cell.ns.len(), run.rounds as usize);
        assert!(cell.ns.iter().all(|ns| ns.is_some_and(|ns| ns > 0)), "a lost sample in {cell:?}");
        let least = report.noise.clock_precision_ns.unwrap() * 50;
        let mut ns: Vec<u64> = cell.ns.iter().flatten().copied().collect();
        ns.sort_unstable();
        // calibrated on a quarter of tries: half the samples may be a little faster, not much
        assert!(
            ns.is_empty() || cell.len >= 1 << 20 || ns[ns.len() / 2] * 2 >= least,
            "too short for the clock: {cell:?}"
        );
    }
    for run in &report.runs {
        assert_eq!(run.pages.len(), run.rounds as usize);
        assert_eq!(run.core_ns.len(), run.rounds as usize);
        assert!(run.warmup_discarded <= 10);
    }
}

#[test]
fn a_sweep_records_every_cell_it_was_asked_for() {
    let place = Place::new();
    let file = place.file("source", 1 << 20);
    let saved = place.path("r.json");
    let args = ["--file", text(&file), "--paths", "read,pread", "--output", text(&saved), "--seed", "7"];
    let output = place.run(&short(&args));
    assert!(output.status.success(), "{}", stderr(&output));
    let report = report(&saved);
    assert_sound(&report);
    assert!(report.run.complete && report.run.seed == 7 && !report.is_simulated());
    let screen = report.runs.iter().position(|r| r.phase == Phase::Screen).unwrap();
    for path in [PathName::Read, PathName::Pread] {
        for allocator in allocators() {
            let own = |c: &&fsprobe::report::Cell| {
                c.run == screen && c.path == path && c.allocator == Some(allocator)
            };
            let dsts: Vec<u16> = report.cells.iter().filter(own).filter_map(|c| c.dst).collect();
            assert!((0..=0x40).all(|dst| dsts.contains(&dst)), "{path} {allocator}: {dsts:x?}");
            let references = report.cells.iter().filter(own).filter(|c| c.reference);
            let (aligned, rest): (Vec<u16>, Vec<u16>) =
                references.filter_map(|c| c.dst).partition(|d| d % 32 == 0);
            assert!(aligned.len() >= 16 && rest.len() >= 16);
            let placed = report.placements.iter().any(|p| p.allocator == allocator && p.offsets.len() >= 3);
            assert!(placed, "no natural offsets of {allocator}");
        }
    }
    let pages = |name: &str| report.runs[screen].pages.iter().map(|p| p[name]).collect::<Vec<_>>();
    for name in allocators().iter().map(|a| a.word()).chain(["source"]) {
        let mut seen = pages(name);
        seen.dedup();
        assert!(seen.len() > 1, "{name} starts on one page in every round");
    }
    assert!(!report.noise.controls.is_empty() && !report.noise.floors.is_empty());
    let mode = std::fs::metadata(&saved).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let last = stdout(&output).lines().last().unwrap().to_owned();
    assert_eq!(last, format!("report: {}", saved.display()));
}

#[test]
fn the_default_place_is_the_state_folder_and_names_do_not_clash() {
    let place = Place::new();
    let run = || {
        let output = place.run(&["sweep", "--simulate", "clean", "--len", "4K", "--dst", "0x0-0x40"]);
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output).lines().last().unwrap().trim_start_matches("report: ").to_owned()
    };
    let saved = [run(), run(), run()];
    for path in &saved {
        assert!(path.starts_with(text(&place.path("state/fsprobe"))) && std::path::Path::new(path).exists());
    }
    assert!(saved[0] != saved[1] && saved[1] != saved[2]);
}

#[test]
fn json_on_stdout_leaves_the_table_to_stderr() {
    let place = Place::new();
    for args in [["--format", "json", "--no-output"].as_slice(), &["--output", "-"]] {
        let output = place.run(&short(args));
        let report = fsprobe::report::parse(stdout(&output).as_bytes(), "stdout").unwrap();
        assert!(report.source.is_some_and(|s| s.kind == "own"));
        assert!(stderr(&output).contains("GB/s by page offset"));
    }
}

#[test]
fn files_that_are_no_source_are_refused_in_one_line() {
    let place = Place::new();
    let fifo = place.path("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let missing = place.path("missing");
    for (file, parts) in [
        (missing.as_path(), ["cannot open", "No such file", "omit --file"]),
        (place.file("empty", 0).as_path(), ["empty", "omit --file", ""]),
        (place.folder.path(), ["directory", "omit --file", ""]),
        (fifo.as_path(), ["regular file", "omit --file", ""]),
        (std::path::Path::new("/dev/zero"), ["regular file", "omit --file", ""]),
        (place.file("small", 3000).as_path(), ["holds 3000 B", "copies of 4 KiB", "--len"]),
    ] {
        let output = place.run(&short(&["--file", text(file), "--no-output"]));
        assert_fails(&output, &parts);
    }
}

#[test]
fn an_unreadable_file_is_refused_unless_one_may_read_all() {
    let place = Place::new();
    let file = place.file("secret", 1 << 20);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    let output = place.run(&short(&["--file", text(&file), "--no-output"]));
    match std::fs::File::open(&file) {
        Ok(_) => assert!(output.status.success(), "{}", stderr(&output)),
        Err(_) => assert_fails(&output, &["cannot open", "Permission denied", "omit --file"]),
    }
}

#[test]
fn wrong_options_are_refused_in_one_line() {
    let place = Place::new();
    for (args, part) in [
        (vec!["--dst", "0x2000"], "above 0x1000"),
        (vec!["--dst", "9-1"], "backwards"),
        (vec!["--src", "q"], "not a page offset"),
        (vec!["--len", "0"], "copies nothing"),
        (vec!["--len", "64Q"], "not a length"),
        (vec!["--allocators", "tcmalloc"], "known: glibc, jemalloc, mimalloc, pages"),
        (vec!["--paths", "mmap2"], "unknown copy path 'mmap2'"),
        (vec!["--rounds", "0"], "--rounds"),
        (vec!["--time", "-1"], "--time"),
        (vec!["--affected-at", "1.0"], "--affected-at"),
        (vec!["--cpu", "100000"], "CPU 100000 is not allowed"),
        (vec!["--seed", "x"], "--seed"),
        (vec!["--pages", "hugetlb"], "--allocators pages"),
        (vec!["--simulate", "zen9"], "known: zen3, zen4, zen5, intel, clean"),
        (vec!["--simulate", "missing.csv"], "cannot replay missing.csv"),
        (vec!["--nonsense"], "--nonsense"),
        (vec!["--output", "x", "--no-output"], "cannot be used with"),
        (vec!["--src", "0x0-0x1000"], "give a step"),
    ] {
        let output = place.run(&["sweep"].iter().chain(&args).copied().collect::<Vec<_>>());
        assert_fails(&output, &[part]);
    }
}

#[test]
fn a_place_that_cannot_be_written_is_found_before_measuring() {
    let place = Place::new();
    let exists = place.file("exists.json", 10);
    let began = Instant::now();
    for (target, parts) in [
        (exists.clone(), ["exists", "--force"]),
        (place.path("no/such/r.json"), ["cannot write the report", "--output"]),
        (place.folder.path().to_path_buf(), ["cannot write the report", "directory"]),
        ("/proc/r.json".into(), ["cannot write the report", "--output"]),
    ] {
        let output = place.run(&["sweep", "--output", text(&target)]);
        assert_fails(&output, &parts);
    }
    assert!(began.elapsed() < Duration::from_secs(5), "four default sweeps would take longer");
    assert_eq!(std::fs::read(&exists).unwrap().len(), 10, "left alone");
    let forced = place.run(&short(&["--output", text(&exists), "--force"]));
    assert!(forced.status.success(), "{}", stderr(&forced));
    report(&exists);
}

/// A sweep that takes minutes, with its report's path.
fn long_sweep(place: &Place, file: &std::path::Path) -> (std::process::Child, std::path::PathBuf) {
    let saved = place.path("partial.json");
    let args = ["sweep", "--file", text(file), "--len", "64K", "--rounds", "1000", "--output", text(&saved)];
    let child = place.fsprobe(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    (child, saved)
}

#[test]
fn ctrl_c_and_sigterm_keep_what_was_measured() {
    for (signal, name) in [("-INT", "SIGINT"), ("-TERM", "SIGTERM")] {
        let place = Place::new();
        let (child, saved) = long_sweep(&place, &place.file("source", 2 << 20));
        wait_until_read(&child, 3 << 30);
        let sent =
            std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
        let report = report(&saved);
        assert!(!report.run.complete && report.run.stopped_by.as_deref() == Some(name));
        assert_sound(&report);
        assert!(stdout(&output).ends_with(&format!("report: {}\n", saved.display())));
    }
}

#[test]
fn a_file_that_shrinks_ends_the_run_and_keeps_what_was_measured() {
    let place = Place::new();
    let file = place.file("source", 2 << 20);
    let (child, saved) = long_sweep(&place, &file);
    wait_until_read(&child, 3 << 30);
    std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(4096).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("became shorter"), "{}", stderr(&output));
    let report = report(&saved);
    assert!(!report.run.complete && report.source.as_ref().unwrap().changed);
    assert_sound(&report);
}

#[test]
fn a_file_that_is_rewritten_is_told() {
    let place = Place::new();
    let file = place.file("source", 2 << 20);
    let saved = place.path("r.json");
    let args = ["sweep", "--file", text(&file), "--len", "64K", "--rounds", "60", "--output", text(&saved)];
    let child = place.fsprobe(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until_read(&child, 50 << 20);
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, [&bytes[..], &bytes[..]].concat()).unwrap();
    child.wait_with_output().unwrap();
    assert!(report(&saved).source.unwrap().changed);
}

#[test]
fn the_time_given_is_kept() {
    let place = Place::new();
    let saved = place.path("r.json");
    let file = place.file("source", 2 << 20);
    let args = [
        "sweep",
        "--file",
        text(&file),
        "--len",
        "64K",
        "--rounds",
        "1000",
        "--time",
        "1",
        "--output",
        text(&saved),
    ];
    let output = place.run(&args);
    assert!(output.status.success(), "{}", stderr(&output));
    let report = report(&saved);
    assert_eq!(report.run.stopped_by.as_deref(), Some("time"));
    assert!(!report.run.complete);
}

#[test]
fn a_reader_who_closes_the_pipe_ends_it_quietly() {
    let place = Place::new();
    let args = ["sweep", "--simulate", "clean", "--format", "json", "--no-output"];
    let mut child = place.fsprobe(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{said}");
    assert!(!said.contains("panicked") && !said.contains("fsprobe: "), "{said}");
}

#[test]
fn little_memory_leaves_the_long_copies_out_or_says_so() {
    let place = Place::new();
    let limited = |kib: u64, args: &[&str]| {
        let script = format!("ulimit -v {kib}; exec \"$0\" \"$@\"");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_fsprobe")]).args(args);
        command.env("XDG_STATE_HOME", place.path("state")).output().unwrap()
    };
    let file = place.file("source", 64 << 20);
    let saved = place.path("r.json");
    // room for 64 KiB pools, not for three of 64 MiB
    let output =
        limited(260_000, &["sweep", "--file", text(&file), "--rounds", "2", "--output", text(&saved)]);
    assert!(output.status.success(), "{}", stderr(&output));
    let report = report(&saved);
    assert!(
        report.cells.iter().all(|c| c.len <= 65536)
            && report.skipped.iter().any(|s| s.reason.contains("64 MiB"))
    );
    let explicit = ["sweep", "--file", text(&file), "--len", "64M", "--no-output"];
    assert_fails(&limited(220_000, &explicit), &["memory", "--len"]);
}

#[test]
fn a_limit_on_file_sizes_is_like_a_full_disk() {
    let place = Place::new();
    let script = "ulimit -f 100; exec \"$0\" sweep --simulate clean --output r.json";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_fsprobe")]).current_dir(place.folder.path());
    assert_fails(&command.output().unwrap(), &["cannot write the report to r.json", "--output"]);
}

#[test]
fn huge_pages_and_first_touch_say_what_they_did() {
    let place = Place::new();
    for (args, told) in [(["--pages", "thp"].as_slice(), "huge"), (&["--first-touch"], "page fault")] {
        let output = place.run(&short(&[args, &["--no-output"]].concat()));
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stdout(&output).contains(told), "{}", stdout(&output));
    }
}

#[test]
fn exit_codes_tell_the_state_only_when_asked() {
    let place = Place::new();
    for (model, code) in [("clean", 0), ("zen4", 1)] {
        let args = ["sweep", "--simulate", model, "--no-output", "--seed", "3"];
        assert_eq!(place.run(&args).status.code(), Some(0));
        let asked = [&args[..], &["--exit-code"]].concat();
        assert_eq!(place.run(&asked).status.code(), Some(code), "{model}");
    }
    let at_100 = ["sweep", "--simulate", "zen4", "--no-output", "--exit-code", "--affected-at", "100"];
    assert_eq!(place.run(&at_100).status.code(), Some(0), "no band is that deep");
}

#[test]
fn a_report_names_nobody() {
    let home = Place::new();
    let file = home.file("planted-file-name", 1 << 20);
    let saved = home.path("planted-report.json");
    let mut command = home.fsprobe(&short(&["--file", text(&file), "--output", text(&saved)]));
    command
        .env("USER", "planted-user")
        .env("HOME", home.path("planted-home"))
        .env("HOSTNAME", "planted-host");
    assert!(command.output().unwrap().status.success());
    let text = std::fs::read_to_string(&saved).unwrap();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let folder = home.folder.path().to_str().unwrap().to_owned();
    for secret in ["planted", folder.as_str(), host.trim()] {
        // a host named 'vm' would be found in any word
        assert!(secret.len() < 4 || !text.contains(secret), "{secret}");
    }
}

#[test]
fn two_dimensions_in_one_sweep() {
    let place = Place::new();
    let saved = place.path("r.json");
    let args = [
        "sweep",
        "--simulate",
        "zen4",
        "--len",
        "64K",
        "--dst",
        "0x0-0x20",
        "--src",
        "0x0-0x20",
        "--output",
        text(&saved),
    ];
    assert!(place.run(&args).status.success());
    let report = report(&saved);
    let mut seen: BTreeMap<(u16, u16), usize> = BTreeMap::new();
    for cell in &report.cells {
        *seen.entry((cell.dst.unwrap(), cell.src.unwrap())).or_default() += 1;
    }
    assert!((0..=0x20).all(|d| (0..=0x20).all(|s| seen.contains_key(&(d, s)))));
    let glibc = report.verdict.paths.iter().find(|p| p.allocator == Some(Allocator::Glibc)).unwrap();
    let deep: Vec<_> = glibc.bands.iter().map(|b| (b.from, b.to, b.axis.map(|a| a.word()))).collect();
    assert_eq!(deep, [(1, 15, Some("distance"))]);
}
