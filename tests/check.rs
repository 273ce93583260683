//! `fsprobe check`, from the command line to its exit code: on models, and on the machine at hand.

mod common;

use common::{Place, assert_fails, report, stderr, stdout, text};
use fsprobe::commands::check::simulated;
use fsprobe::report::{Axis, Cause, Depth, PathName, PathVerdict, Report, State};
use fsprobe::simulate::{MODELS, Model};
use serde_json::Value;
use std::process::Output;

/// Seeds a model is checked with; `FSPROBE_SEEDS=100` takes that many.
fn seeds() -> u64 {
    std::env::var("FSPROBE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(6)
}

fn checked(model: &str, seed: u64) -> Report {
    simulated(&Model::named(model).expect(model), seed).expect("a check of a model")
}

fn path(report: &Report, path: PathName, len: u64) -> &PathVerdict {
    let found = report.verdict.paths.iter().find(|p| (p.path, p.len) == (path, len));
    found.unwrap_or_else(|| panic!("{path} at {len} was measured"))
}

/// The confirmed deep bands of a path, with their axis.
fn deep(report: &Report, name: PathName, len: u64) -> Vec<(u16, u16, Option<Axis>)> {
    let bands = path(report, name, len).bands.iter();
    bands.filter(|b| b.confirmed && b.depth == Depth::Deep).map(|b| (b.from, b.to, b.axis)).collect()
}

fn cause<'a>(report: &'a Report, layer: &str) -> &'a Cause {
    report.verdict.causes.iter().find(|c| c.layer == layer).expect(layer)
}

const KERNEL: [PathName; 3] = [PathName::Read, PathName::Write, PathName::PipeRead];
const MOVSB: [(u16, u16, Option<Axis>); 1] = [(0x001, 0x00f, Some(Axis::Distance))];

/// The state that each model's check has to give.
fn expected(model: &str) -> State {
    match model {
        "zen5" | "intel" | "clean" | "zen4-mended" => State::Clean,
        _ => State::Affected,
    }
}

#[test]
fn every_model_gets_its_state_with_every_seed() {
    for (model, _) in MODELS {
        for seed in 0..seeds() {
            let report = checked(model, seed);
            assert_eq!(report.verdict.state, expected(model), "{model} {seed}: {:?}", report.verdict.reasons);
        }
    }
}

#[test]
fn noise_may_hide_the_state_but_never_turns_it() {
    for (model, _) in MODELS {
        let mut unsure = 0;
        for seed in 0..seeds() {
            let state = checked(&format!("{model}+noisy"), seed).verdict.state;
            assert!(state == expected(model) || state == State::Inconclusive, "{model} {seed}: {state}");
            unsure += u64::from(state == State::Inconclusive);
        }
        eprintln!("{model}+noisy: {unsure} of {} inconclusive", seeds());
    }
}

#[test]
fn zen4_is_slow_through_every_path_but_the_control() {
    let report = checked("zen4", 1);
    for name in KERNEL.into_iter().chain([PathName::RepMovsb]) {
        assert_eq!(deep(&report, name, 65536), MOVSB, "{name}");
        let penalty = path(&report, name, 65536).bands[0].penalty_ns_per_kib;
        assert!((206.0..344.0).contains(&penalty), "{name}: {penalty}");
    }
    for (name, len) in [(PathName::RepMovsb, 128), (PathName::RepMovsb, 4096), (PathName::Memcpy, 4096)] {
        assert_eq!(deep(&report, name, len), MOVSB, "{name} at {len}");
    }
    assert_eq!(path(&report, PathName::Avx2, 65536).state, State::Clean);
    for layer in ["cpu", "kernel", "libc"] {
        assert_eq!(cause(&report, layer).contradiction, None, "{layer}");
    }
    assert!(cause(&report, "kernel").measured.contains("read runs rep movsb"));
    assert!(cause(&report, "libc").predicted.contains("from 2113 to 1048575 B"));
}

#[test]
fn a_kernel_with_the_bits_cleared_runs_rep_movsq_and_says_so() {
    let report = checked("zen4-cleared", 1);
    for name in KERNEL {
        let bands = &path(&report, name, 65536).bands;
        assert!(deep(&report, name, 65536).is_empty(), "{name}");
        assert!(bands.iter().any(|b| (b.from, b.to, b.depth) == (0x001, 0x01f, Depth::Mild)), "{bands:?}");
    }
    assert_eq!(deep(&report, PathName::RepMovsb, 65536), MOVSB);
    let kernel = cause(&report, "kernel");
    assert!(kernel.measured.contains("read runs rep movsq") && kernel.contradiction.is_none(), "{kernel:?}");
    assert!(cause(&report, "cpu").predicted.contains("cleared by the kernel"));
}

#[test]
fn masked_flags_contradict_what_is_measured() {
    let report = checked("zen4-masked", 1);
    let contradiction = |layer| cause(&report, layer).contradiction.clone().unwrap_or_default();
    assert!(contradiction("cpu").contains("masks the bits"), "{}", contradiction("cpu"));
    assert!(contradiction("kernel").contains("predict rep movsq"), "{}", contradiction("kernel"));
    assert_eq!(cause(&report, "libc").contradiction, None);
}

#[test]
fn a_fixed_glibc_is_clean_on_an_affected_cpu() {
    let report = checked("zen4-fixed-glibc", 1);
    assert_eq!(path(&report, PathName::Memcpy, 4096).state, State::Clean);
    assert_eq!(deep(&report, PathName::Read, 65536), MOVSB);
    let libc = cause(&report, "libc");
    assert!(libc.predicted.contains("never runs rep movsb") && libc.contradiction.is_none(), "{libc:?}");
    assert!(libc.measured.contains("memcpy at 4 KiB is not slow"), "{libc:?}");
}

#[test]
fn short_copies_alone_make_a_machine_affected() {
    let report = checked("zen4-short", 1);
    for len in [128, 4096] {
        assert_eq!(deep(&report, PathName::RepMovsb, len), MOVSB, "{len}");
    }
    for name in KERNEL.into_iter().chain([PathName::RepMovsb]) {
        assert_eq!(path(&report, name, 65536).state, State::Clean, "{name}");
    }
}

#[test]
fn distance_zero_slow_in_the_kernel_only_is_the_published_contradiction() {
    let report = checked("zen3-contradiction", 1);
    assert_eq!(deep(&report, PathName::Read, 65536), [(0x000, 0x00f, Some(Axis::Distance))]);
    assert_eq!(deep(&report, PathName::RepMovsb, 65536), MOVSB);
    let kernel = cause(&report, "kernel").contradiction.clone().unwrap_or_default();
    assert!(kernel.contains("distance 0x000") && kernel.contains("Zen 3"), "{kernel}");
}

#[test]
fn on_an_unaffected_machine_there_is_nothing_to_explain() {
    let report = checked("clean", 1);
    for layer in ["cpu", "kernel", "libc"] {
        let cause = cause(&report, layer);
        assert!(cause.measured.contains("nothing to explain") && cause.contradiction.is_none(), "{cause:?}");
    }
}

#[test]
fn bands_through_zero_are_found_whole_in_reads_and_writes() {
    let report = checked("zen3", 1);
    for name in KERNEL.into_iter().chain([PathName::RepMovsb]) {
        assert_eq!(deep(&report, name, 65536), [(0x991, 0x00f, Some(Axis::Distance))], "{name}");
    }
}

#[track_caller]
fn assert_80_columns(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}{}", stdout(output), stderr(output)))
}

#[test]
fn the_text_tells_verdict_table_cause_and_remedy_in_that_order() {
    let place = Place::new();
    for (model, _) in MODELS {
        for extra in [&[][..], &["--remedies"]] {
            let args = [&["check", "--seed", "1", "--simulate", model][..], extra].concat();
            let output = place.run(&args);
            let said = stdout(&output);
            let code = if expected(model) == State::Affected { 1 } else { 0 };
            assert_eq!(output.status.code(), Some(code), "{model}: {said}{}", stderr(&output));
            assert_80_columns(&said);
            let word = expected(model).word().to_uppercase();
            let parts = [&word, "(simulated", "\npath ", "\nCause", "\nWhat to do"];
            let places = parts.map(|part| said.find(part).unwrap_or_else(|| panic!("no {part} in:\n{said}")));
            assert!(places[0] == 0 && places.is_sorted(), "{said}");
        }
    }
    let said = stdout(&place.run(&["check", "--seed", "1", "--simulate", "zen4"]));
    for part in ["GLIBC_TUNABLES=glibc.cpu.hwcaps=-ERMS", "clearcpuid=fsrm,erms", "debugging only", "taints"]
    {
        assert!(said.contains(part), "no {part} in:\n{said}");
    }
}

#[test]
fn a_check_whose_remedies_were_cut_short_keeps_its_verdict() {
    let place = Place::new();
    let file = place.path("clean.json");
    let name = file.to_str().unwrap();
    place.run(&["check", "--seed", "1", "--simulate", "clean", "--remedies", "--output", name]);
    let mut told = report(&file);
    assert!(!told.remedies.is_empty());
    (told.run.complete, told.run.stopped_by) = (false, Some("SIGINT".into()));
    let shown = |report: &Report| {
        std::fs::write(&file, serde_json::to_string(report).unwrap()).unwrap();
        stdout(&place.run(&["report", name]))
    };
    let said = shown(&told);
    assert!(said.contains("CLEAN") && said.contains("not every setting was"), "{said}");
    assert!(!said.contains("INCONCLUSIVE") && !said.contains("Judged again"), "{said}");
    told.remedies.clear();
    assert!(shown(&told).contains("INCONCLUSIVE"), "cut short before its cells were measured");
}

#[test]
fn json_holds_the_contracts_fields() {
    let output = Place::new().run(&["check", "--json", "--seed", "1", "--simulate", "zen4"]);
    let document = json(&output);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(document["schema"], serde_json::json!({"name": "fsprobe-check", "version": 1}));
    for field in ["tool", "recorded_at", "run", "host"] {
        assert!(!document[field].is_null(), "{field}");
    }
    let check = &document["check"];
    assert_eq!(check["verdict"]["state"], "affected");
    assert_eq!(check["verdict"]["causes"].as_array().map(Vec::len), Some(3));
    let read = check["paths"].as_array().unwrap().iter().find(|p| p["path"] == "read").unwrap();
    assert_eq!(read["profile"]["routine"], "rep movsb");
    assert_eq!((&read["bands"][0]["from"], &read["bands"][0]["to"]), (&1.into(), &15.into()));
}

#[test]
fn a_saved_report_is_whole_and_kept_unless_forced() {
    let place = Place::new();
    let file = place.path("r.json");
    let args = ["check", "--seed", "1", "--simulate", "zen4", "--output", text(&file)];
    assert_eq!(place.run(&args).status.code(), Some(1));
    let saved = report(&file);
    assert_eq!((saved.run.command.as_str(), saved.verdict.state), ("check", State::Affected));
    assert_eq!(fsprobe::judge::judge(&saved).verdict, saved.verdict, "judged again, the same");
    assert_fails(&place.run(&args), &["exists", "--force"]);
    assert_eq!(place.run(&[&args[..], &["--force"]].concat()).status.code(), Some(1));
}

#[test]
fn what_is_not_known_is_named() {
    let place = Place::new();
    assert_fails(&place.run(&["check", "--simulate", "zen9"]), &["zen9", "zen4-masked"]);
    assert_fails(&place.run(&["check", "--paths", "reed"]), &["reed", "pipe-read", "all"]);
    assert_fails(&place.run(&["check", "--cpu", "99999"]), &["99999", "--cpu"]);
}

#[test]
fn every_path_can_be_checked_on_its_own() {
    let place = Place::new();
    let document =
        json(&place.run(&["check", "--json", "--seed", "1", "--simulate", "zen4", "--paths", "all"]));
    let affected = |path: &str| {
        let all = document["check"]["paths"].as_array().unwrap().iter();
        all.filter(|p| p["path"] == path && p["len"] == 65536).any(|p| p["state"] == "affected")
    };
    let causes = document["check"]["verdict"]["causes"].as_array().unwrap();
    let kernel = causes.iter().find(|c| c["layer"] == "kernel").unwrap();
    assert!(kernel["contradiction"].is_null(), "a source 1 byte before a page's end is distance 1: {kernel}");
    for path in ["pread", "pipe-write", "socket-read", "io-uring-read", "mmap", "memcpy"] {
        assert!(affected(path), "{path}");
    }
    for path in ["avx2", "avx512", "mov-unrolled", "zero", "splice"] {
        assert!(!affected(path), "{path}");
    }
}

#[test]
fn the_machine_at_hand_gets_an_answer() {
    let output = Place::new().run(&["check", "--json", "--remedies"]);
    let document = json(&output);
    let state = document["check"]["verdict"]["state"].as_str().unwrap();
    let code = match state {
        "clean" => 0,
        "affected" => 1,
        _ => 3,
    };
    assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
    let remedies = document["check"]["remedies"].as_array().unwrap();
    for remedy in remedies {
        for field in ["setting", "accepted", "before", "after"] {
            assert!(remedy.get(field).is_some(), "{remedy}");
        }
    }
    let is_glibc = document["host"]["libc"]["name"] == "glibc";
    let tunables = remedies.iter().filter(|r| r["setting"].as_str().unwrap().starts_with("GLIBC_TUNABLES="));
    assert_eq!(tunables.clone().count(), if is_glibc { 3 } else { 0 });
    assert!(tunables.clone().all(|r| r["after"].is_number()), "{remedies:?}");
}
