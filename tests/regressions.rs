//! Faults that testers found, each by the case it was.

mod common;

use common::{Place, assert_fails, report, stderr, stdout, text};
use fsprobe::report::{Depth, State};
use std::fs::{File, OpenOptions};
use std::process::Stdio;

const IN_THE_BAND: &str = "tests/recordings/zen4-read-64KiB-dst.csv";

/// The rows of a recording whose dst lies in a range.
fn rows(place: &Place, dst: std::ops::RangeInclusive<u16>) -> std::path::PathBuf {
    let all = std::fs::read_to_string(IN_THE_BAND).unwrap();
    let mut lines = all.lines();
    let header = lines.next().unwrap().to_owned();
    let inside = lines.filter(|l| dst.contains(&l.split(',').next().unwrap().parse().unwrap()));
    let kept: Vec<String> = [header].into_iter().chain(inside.map(Into::into)).collect();
    let path = place.path("part.csv");
    std::fs::write(&path, kept.join("\n")).unwrap();
    path
}

#[test]
fn a_recording_of_nothing_but_slow_offsets_is_not_clean() {
    let place = Place::new();
    let output =
        place.run(&["sweep", "--simulate", text(&rows(&place, 1..=15)), "--exit-code", "--no-output"]);
    assert_eq!(output.status.code(), Some(3), "{}", stdout(&output));
    assert!(stdout(&output).contains("nothing to compare"), "{}", stdout(&output));
}

#[test]
fn a_slow_reference_of_the_fresh_rounds_is_never_called_clean() {
    // the mild level at 0x021.. asks for fresh references, of which some lie in the band that was left out
    for seed in ["1", "3", "7", "8"] {
        let place = Place::new();
        let saved = place.path("r.json");
        let args = ["sweep", "--simulate", "zen4", "--dst", "0x20-0x40", "--len", "64K", "--seed", seed];
        assert!(place.run(&[&args[..], &["--output", text(&saved)]].concat()).status.success());
        let report = report(&saved);
        let slow = report.cells.iter().any(|c| (1..=15).contains(&c.dst.unwrap()) && c.src == Some(0));
        assert!(!slow || report.verdict.state != State::Clean, "seed {seed}");
    }
}

#[test]
fn what_was_not_measured_is_not_claimed() {
    let place = Place::new();
    let output = place.run(&["sweep", "--simulate", "zen4", "--dst", "0x10", "--len", "64K", "--no-output"]);
    assert!(!stdout(&output).contains("no page offset"), "{}", stdout(&output));
}

#[test]
fn the_numbers_of_a_band_agree_with_each_other() {
    for model in ["zen3+noisy", "zen4+noisy", "zen4"] {
        let report = fsprobe::commands::sweep::simulated(&fsprobe::simulate::Model::named(model).unwrap(), 1);
        for path in &report.verdict.paths {
            for band in path.bands.iter().filter(|b| b.depth == Depth::Deep) {
                let base_ns_per_kib = 1024e9 / (band.bytes_per_s * band.slowdown);
                let penalty = base_ns_per_kib * (band.slowdown - 1.0);
                let ratio = penalty / band.penalty_ns_per_kib;
                assert!((0.7..1.4).contains(&ratio), "{model} {} B: {ratio} {band:?}", path.len);
            }
        }
    }
}

#[test]
fn near_slow_offsets_are_not_called_misalignment() {
    let report = fsprobe::commands::sweep::simulated(&fsprobe::simulate::Model::named("zen5").unwrap(), 1);
    for path in &report.verdict.paths {
        assert!(path.misalignment.is_none_or(|m| m < 1.05), "{path:?}");
    }
}

#[test]
fn an_error_that_cannot_be_written_is_no_panic() {
    let place = Place::new();
    for args in [["sweep", "--file", "nope"].as_slice(), &["cpu", "--dump", "nope"], &["bogus"]] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let status = place.fsprobe(args).stderr(full).stdout(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn the_exit_code_survives_a_reader_who_left() {
    let place = Place::new();
    let args = ["sweep", "--simulate", "zen4", "--exit-code", "--no-output", "--len", "64K"];
    let mut child = place.fsprobe(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_hangup_keeps_what_was_measured() {
    let place = Place::new();
    let saved = place.path("r.json");
    let args = ["sweep", "--len", "64K", "--rounds", "1000", "--output", text(&saved)];
    let child = place.fsprobe(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    common::wait_until_read(&child, 3 << 30);
    assert!(
        std::process::Command::new("kill")
            .args(["-HUP", &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert_eq!(report(&saved).run.stopped_by.as_deref(), Some("SIGHUP"));
}

#[test]
fn what_nohup_has_ignored_stays_ignored() {
    let place = Place::new();
    let saved = place.path("r.json");
    let args = ["sweep", "--len", "64K", "--rounds", "15", "--output", text(&saved)];
    let program = place.fsprobe(&args);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(program.get_program()).args(program.get_args());
    let child = shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    common::wait_until_read(&child, 64 << 20);
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
    assert!(report(&saved).run.complete);
}

#[test]
fn the_last_line_carries_no_escapes() {
    let place = Place::new();
    let args =
        ["sweep", "--simulate", "clean", "--len", "4K", "--dst", "0x0-0x10", "--output", "o\u{1b}[31m.json"];
    let output = place.fsprobe(&args).current_dir(place.folder.path()).output().unwrap();
    assert!(output.status.success() && !stdout(&output).contains('\u{1b}'), "{}", stdout(&output));
}

#[test]
fn nobodys_text_gets_into_a_report() {
    let place = Place::new();
    let args =
        ["sweep", "--len", "4K", "--dst", "0x0-0x10", "--rounds", "2", "--format", "json", "--no-output"];
    let tunables = "glibc.cpu.x=HOSTNAME-secret:glibc.cpu.hwcaps=secret-words:glibc.malloc.top_pad=4096";
    let output = place.fsprobe(&args).env("GLIBC_TUNABLES", tunables).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!stdout(&output).contains("secret"));
    assert!(cfg!(not(target_env = "gnu")) || stdout(&output).contains("glibc.malloc.top_pad=4096"));
}

#[test]
fn places_that_are_no_files_are_refused_before_measuring() {
    let place = Place::new();
    let socket = place.path("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for force in [&[][..], &["--force"]] {
        let args = [&["sweep", "--output", text(&socket)][..], force].concat();
        assert_fails(&place.run(&args), &["Not a regular file"]);
    }
}

#[test]
fn recordings_of_another_form_are_refused() {
    let place = Place::new();
    for (text_of, part) in [
        ("ns0,len,src,dst\n1,64,0,0\n", "columns"),
        ("dst,src,len,ns0\n0,0,18446744073709551615,5\n", "a length of"),
    ] {
        let csv = place.path("x.csv");
        std::fs::write(&csv, text_of).unwrap();
        assert_fails(&place.run(&["sweep", "--simulate", text(&csv), "--no-output"]), &[part]);
    }
    assert!(File::open("/dev/null").is_ok());
}

#[test]
fn a_dump_of_zeros_names_no_cpu() {
    let place = Place::new();
    let dump = place.path("zeros");
    let line = |leaf: u32| format!("CPUID {leaf:08X}: 00000000-00000000-00000000-00000000\n");
    std::fs::write(&dump, [0, 1, 7].map(line).concat()).unwrap();
    assert_fails(&place.run(&["cpu", "--dump", text(&dump)]), &["vendor"]);
}

#[test]
fn a_fresh_mapping_is_fresh_at_every_offset() {
    let place = Place::new();
    let saved = place.path("r.json");
    let args = [
        "sweep",
        "--first-touch",
        "--len",
        "4K",
        "--dst",
        "0x0-0x20",
        "--rounds",
        "5",
        "--output",
        text(&saved),
    ];
    assert!(place.run(&args).status.success());
    let report = report(&saved);
    let median = |dst: u16| {
        let cells = report.cells.iter().filter(|c| c.dst == Some(dst) && c.run == 0);
        let mut ns: Vec<u64> =
            cells.flat_map(|c| c.ns.iter().flatten().map(|ns| ns / u64::from(c.repeat))).collect();
        ns.sort_unstable();
        ns[ns.len() / 2]
    };
    // two pages are faulted in where one is at dst 0: it may not be the other way round
    assert!(median(8) > median(0), "{} at 8, {} at 0", median(8), median(0));
}

#[test]
fn a_short_copys_sample_outlasts_the_clock_without_the_clocks_own_cost() {
    let place = Place::new();
    let saved = place.path("r.json");
    let args = ["sweep", "--paths", "rep-movsb", "--dst", "0x0-0x100:0x10", "--len", "128", "--quiet"];
    assert!(place.run(&[&args[..], &["--output", text(&saved)]].concat()).status.success());
    let report = report(&saved);
    let mut samples: Vec<u64> = report.cells.iter().flat_map(|c| c.ns.iter().copied().flatten()).collect();
    samples.sort_unstable();
    let precision = fsprobe::sys::clock::precision_ns();
    // fifty times, with room for a clock that reads otherwise in another process
    assert!(samples[samples.len() / 2] > 30 * precision, "{} of {precision}", samples[samples.len() / 2]);
}

#[test]
fn paths_that_leave_pages_cold_share_no_round_with_others() {
    let place = Place::new();
    let saved = place.path("r.json");
    let args = ["sweep", "--simulate", "clean", "--paths", "memcpy,non-temporal", "--len", "64K,4K"];
    assert!(place.run(&[&args[..], &["--output", text(&saved)]].concat()).status.success());
    let report = report(&saved);
    let runs = |path: &str| -> std::collections::BTreeSet<usize> {
        report.cells.iter().filter(|c| c.path.word() == path).map(|c| c.run).collect()
    };
    assert!(runs("non-temporal").is_disjoint(&runs("memcpy")) && !runs("non-temporal").is_empty());
}

#[test]
fn a_second_signal_at_once_loses_nothing() {
    let place = Place::new();
    let file = place.file("source", 8 << 20);
    for gap_ms in [0, 20] {
        let saved = place.path("r.json");
        let args = ["sweep", "--file", text(&file), "--output", text(&saved), "--force"];
        let child = place.fsprobe(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        common::wait_until_read(&child, 32 << 20);
        let signal = |name: &str| {
            std::process::Command::new("kill").args([name, &child.id().to_string()]).status().unwrap()
        };
        signal("-INT");
        std::thread::sleep(std::time::Duration::from_millis(gap_ms));
        signal("-TERM");
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
        assert!(!report(&saved).run.complete && stdout(&output).contains("ended early"));
    }
}

#[test]
fn the_exit_code_survives_a_reader_of_json_who_left() {
    let place = Place::new();
    let args = ["--simulate", "zen4", "--seed", "1", "--exit-code", "--len", "64K", "--output", "-"];
    let mut child = place
        .fsprobe(&[&["sweep"], &args[..]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn threads_and_processes_may_be_forbidden() {
    let place = Place::new();
    let script = "ulimit -u 1; exec \"$0\" \"$@\"";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_fsprobe"), "cpu"]);
    let output = command.env("XDG_STATE_HOME", place.path("state")).output().unwrap();
    assert!(output.status.success() && !stderr(&output).contains("panicked"), "{}", stderr(&output));
}

#[test]
fn nothing_is_run_for_a_simulated_machine() {
    let output = Place::new().run(&["check", "--simulate", "zen4", "--seed", "1", "--remedies", "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for remedy in told["check"]["remedies"].as_array().unwrap() {
        let is_libc = remedy["setting"].as_str().unwrap().starts_with("GLIBC_TUNABLES");
        assert!(!is_libc || remedy["after"].is_null(), "{remedy}");
    }
}

#[test]
fn a_check_claims_no_more_than_it_measured() {
    let place = Place::new();
    let said = stdout(&place.run(&["check", "--simulate", "zen4", "--paths", "avx2,splice"]));
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("makes avx2 or splice 2.0x slower") || said.contains("makes splice or avx2 2.0x"));
    assert!(!said.contains("any copy path"), "{said}");
    let mild = stdout(&place.run(&["check", "--simulate", "intel", "--seed", "1"]));
    assert!(mild.contains("below 2x only") && !mild.contains("at no page offset"), "{mild}");
}

#[test]
fn a_high_limit_makes_no_contradictions() {
    for at in ["6", "100"] {
        let said =
            stdout(&Place::new().run(&["check", "--simulate", "zen4", "--seed", "1", "--affected-at", at]));
        assert!(!said.contains("CONTRADICTION"), "{said}");
    }
}

#[test]
fn a_checks_report_goes_where_a_sweeps_would() {
    let place = Place::new();
    let check = ["check", "--simulate", "zen4", "--seed", "1", "--output"];
    let output = place.run(&[&check[..], &["-"]].concat());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["schema"]["name"], output.status.code()), (&"fsprobe-report".into(), Some(1)));
    assert!(stderr(&output).starts_with("AFFECTED"));
    let folder = place.folder.path().to_path_buf();
    for (target, part) in [(place.path("no/such.json"), "No such file"), (folder, "Is a directory")] {
        let output = place.run(&[&check[..], &[text(&target)]].concat());
        assert_fails(&output, &["cannot write the report", part]);
        assert!(!stderr(&output).contains(".fsprobe-"));
    }
}

#[test]
fn the_models_agree_with_their_own_libc() {
    let place = Place::new();
    let args =
        ["sweep", "--simulate", "zen4", "--seed", "1", "--paths", "memcpy", "--len", "auto", "--no-output"];
    let said = stdout(&place.run(&args));
    assert!(said.contains("2113") && !said.contains("ontradiction"), "{said}");
}

#[test]
fn a_recording_from_offset_zero_matches_what_is_published() {
    let said = stdout(&Place::new().run(&["sweep", "--simulate", IN_THE_BAND, "--no-output"]));
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("matches Zen 4, rep movsb at distance 0x001..0x00f"), "{said}");
    assert!(said.contains("if it depends on distance") && !said.contains("bare metal"), "{said}");
}

#[test]
fn endless_recordings_are_refused() {
    let output = Place::new().run(&["sweep", "--simulate", "/dev/zero"]);
    assert_eq!(output.status.code(), Some(2));
    let place = Place::new();
    let link = place.path("zero.csv");
    std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
    assert_fails(&place.run(&["sweep", "--simulate", text(&link)]), &["larger than 256 MiB"]);
}

#[test]
fn bits_that_a_dump_leaves_out_are_not_called_absent() {
    let place = Place::new();
    let dump = place.path("dump.txt");
    let lines = "CPUID 00000000: 00000010-68747541-444D4163-69746E65\n\
                 CPUID 00000001: 00A10F11-00080800-7EFA320B-178BFBFF\n\
                 CPUID 00000007: 00000001-F1BF97A9-00405FCE-00000010 [SL 00]\n";
    std::fs::write(&dump, lines).unwrap();
    let said = stdout(&place.run(&["cpu", "--dump", text(&dump)]));
    let bits = said.lines().find(|l| l.contains("CPUID's bits")).unwrap();
    assert!(bits.contains("fzrm ?") && bits.contains("fsrm yes"), "{said}");
}

#[test]
fn half_a_band_still_tells_the_routine() {
    let place = Place::new();
    for seed in ["1", "3", "7"] {
        let said = stdout(&place.run(&["check", "--simulate", "zen4-half", "--seed", seed]));
        assert!(!said.contains("CONTRADICTION") && !said.contains("cannot be told"), "{said}");
    }
}

#[test]
fn the_published_zen3_contradicts_nothing() {
    let said = stdout(&Place::new().run(&["check", "--simulate", "zen3", "--seed", "3"]));
    assert!(!said.contains("CONTRADICTION"), "{said}");
}

#[test]
fn destinations_of_a_path_without_any_stand_for_distances() {
    let place = Place::new();
    let args = ["sweep", "--simulate", "zen4", "--seed", "1", "--paths", "pipe-write", "--len", "64K"];
    let output = place.run(&[&args[..], &["--dst", "0x0-0x40", "--exit-code", "--no-output"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
}

#[test]
fn nonsense_in_a_report_is_refused() {
    let place = Place::new();
    let saved = place.path("r.json");
    let args =
        ["sweep", "--simulate", "clean", "--len", "64K", "--dst", "0x0-0x10", "--output", text(&saved)];
    assert!(place.run(&args).status.success());
    let whole: serde_json::Value = serde_json::from_slice(&std::fs::read(&saved).unwrap()).unwrap();
    for (pointer, value, part) in [
        ("/recorded_at", serde_json::json!("yesterday"), "recorded_at"),
        ("/recorded_at", serde_json::json!("2026-02-31T00:00:00Z"), "recorded_at"),
        ("/run/duration_s", serde_json::json!(-1.0), "duration_s"),
        ("/run/duration_s", serde_json::json!(1e300), "duration_s"),
        ("/host/simulated", serde_json::json!(""), "without a name"),
        ("/cells/0/len", serde_json::json!(u64::MAX), "1 TiB"),
    ] {
        let mut broken = whole.clone();
        *broken.pointer_mut(pointer).unwrap() = value;
        std::fs::write(&saved, broken.to_string()).unwrap();
        assert_fails(&place.run(&["report", text(&saved)]), &[part]);
    }
}

#[test]
fn a_file_that_was_written_to_settles_nothing() {
    let place = Place::new();
    let saved = place.path("r.json");
    let made = place.run(&["sweep", "--simulate", "clean", "--len", "64K", "--output", text(&saved)]);
    assert!(made.status.success(), "{}", stderr(&made));
    let mut clean = report(&saved);
    assert_eq!(fsprobe::judge::judge(&clean).verdict.state.word(), "clean");
    clean.source = Some(fsprobe::report::Source {
        kind: "file".into(),
        size: 1 << 26,
        fs_type: None,
        resident_before: None,
        resident_after: None,
        changed: true,
    });
    let verdict = fsprobe::judge::judge(&clean).verdict;
    assert_eq!(verdict.state.word(), "inconclusive");
    assert!(verdict.reasons.iter().any(|reason| reason.contains("written to")), "{:?}", verdict.reasons);
}
