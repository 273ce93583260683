//! `fsprobe pipe`, end to end: every rung, every byte, and no process left whoever ends.

mod common;

use common::{Place, assert_fails, stderr, stdout};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Time that an end may take: a second, and what a busy machine adds.
const AN_END: Duration = Duration::from_secs(if cfg!(debug_assertions) { 5 } else { 2 });

const ALL: [&str; 10] = [
    "write-read",
    "write-read-huge",
    "vmsplice-read",
    "vmsplice-read-huge",
    "vmsplice-splice",
    "vmsplice-splice-huge",
    "vmsplice-splice-busy",
    "vmsplice-splice-huge-busy",
    "ram-read",
    "shared-ring",
];

fn json(args: &[&str]) -> Value {
    let output = Place::new().run(&[&["pipe", "--json", "--quiet"], args].concat());
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

/// Rungs and yardsticks.
fn rungs(document: &Value) -> Vec<&Value> {
    let of = |field: &str| document["pipe"][field].as_array().unwrap();
    of("rungs").iter().chain(of("yardsticks")).collect()
}

/// Whether this sandbox has the calls at all; said aloud where it has not.
fn is_measured(rung: &Value) -> bool {
    match rung["skipped"].as_str() {
        Some(why) => {
            eprintln!("{} is not to be had here: {why}", rung["name"]);
            assert_ne!(rung["name"], "write-read");
            false
        }
        None => true,
    }
}

#[test]
fn every_rung_runs_and_is_told_in_json() {
    let document = json(&["--bytes", "1M", "--rounds", "6", "--seed", "7"]);
    assert_eq!(document["schema"], serde_json::json!({"name": "fsprobe-pipe", "version": 1}));
    assert_eq!(document["run"]["command"], "pipe");
    assert_eq!(document["run"]["seed"], 7);
    assert_eq!(document["run"]["complete"], true);
    assert_eq!(document["run"]["options"]["bytes"], 1 << 20);
    assert_eq!(document["host"]["cpu_pinned"], document["pipe"]["cpus"][1]);
    let rungs = rungs(&document);
    assert_eq!(rungs.iter().map(|r| r["name"].as_str().unwrap()).collect::<Vec<_>>(), ALL);
    for rung in rungs.iter().filter(|r| is_measured(r)) {
        let name = rung["name"].as_str().unwrap();
        assert_eq!(rung["samples"].as_array().unwrap().len(), 6, "{name}");
        let figures = &rung["figures"];
        assert!(figures["bytes_per_s"]["median"].as_f64().unwrap() > 1e6, "{rung}");
        assert!(figures["bytes_per_s"]["ci95"].is_array(), "{rung}");
        assert_eq!(figures["factor"].is_null(), rung["over"].is_null(), "{rung}");
        assert_eq!(name.contains("huge"), rung["huge"].is_object(), "{rung}");
        let copies = rung["exposed"].as_array().unwrap().len();
        assert_eq!(copies == 0, name.starts_with("vmsplice-splice") || name == "ram-read", "{name}");
        assert_eq!(rung["verified"], false);
    }
    for mapping in document["pipe"]["mapping"].as_array().unwrap() {
        let measured = mapping["skipped"].is_null();
        assert_eq!(mapping["ns_per_page"].is_object(), measured, "{mapping}");
    }
}

#[test]
fn every_byte_arrives_whatever_the_sizes_and_calls() {
    let ways: [&[&str]; 7] = [
        &[],
        &["--same-buffer"],
        &["--poll", "--gift"],
        &["--buffer-size", "64K", "--pipe-size", "4K"],
        &["--buffer-size", "12K", "--pipe-size", "128K", "--touch", "each"],
        &["--touch", "never", "--src", "0x1,0x7ff,0x1000", "--dst", "0x1,0xfff"],
        &["--buffer-size", "4K", "--pipe-size", "4K"],
    ];
    for way in ways {
        let document = json(&[&["--verify", "--bytes", "2052K", "--rounds", "1"], way].concat());
        for rung in rungs(&document).into_iter().filter(|r| is_measured(r)) {
            assert_eq!(rung["verified"], rung["name"] != "ram-read");
            assert_eq!(rung["samples"][0]["bytes"], 2052 << 10, "{way:?} {rung}");
        }
        for sweep in document["pipe"]["sweeps"].as_array().unwrap() {
            let cells = sweep["cells"].as_array().unwrap();
            assert!(cells.len() >= 3 && cells.iter().all(|c| c["ns"].as_array().unwrap().len() == 1));
        }
    }
}

#[test]
fn offsets_move_the_buffers_that_there_are() {
    let document = json(&[
        "--rungs",
        "write-read,vmsplice-splice,shared-ring",
        "--bytes",
        "1M",
        "--rounds",
        "1",
        "--src",
        "0xff0-0xfff",
        "--dst",
        "0x1",
    ]);
    let sweeps = document["pipe"]["sweeps"].as_array().unwrap();
    let of = |s: &Value| format!("{} {}", s["rung"].as_str().unwrap(), s["moved"].as_str().unwrap());
    let named: Vec<String> = sweeps.iter().map(of).collect();
    assert_eq!(named, ["write-read src", "write-read dst", "vmsplice-splice src"]);
    assert_eq!(sweeps[0]["cells"].as_array().unwrap().len(), 17, "0x000 is what they are compared with");
}

#[test]
fn one_cpu_is_enough_and_said_aloud() {
    let output = std::thread::spawn(|| {
        let allowed = fsprobe::sys::cpu::allowed().unwrap();
        fsprobe::sys::cpu::pin(allowed[0]).unwrap();
        Place::new().run(&["pipe", "--bytes", "64K", "--rounds", "1"])
    });
    let output = output.join().unwrap();
    let text = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(text.contains("both on CPU") && text.contains("only one is allowed"), "{text}");
    assert!(text.contains("write-read") && text.contains("shared-ring"), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let place = Place::new();
    for (args, word) in [
        (&["--rungs", "cat"][..], "no such rung"),
        (&["--bytes", "1000"], "multiple of 4096"),
        (&["--buffer-size", "2G"], "more than 1 GiB"),
        (&["--cpus", "999999"], "not allowed"),
        (&["--rungs", "vmsplice-splice", "--dst", "0x1"], "--dst"),
        (&["--rungs", "ram-read", "--src", "0x1"], "--src"),
    ] {
        assert_fails(&place.run(&[&["pipe"], args].concat()), &[word]);
    }
}

#[test]
fn a_process_started_by_hand_answers_and_ends() {
    for role in ["writer", "reader", "alone"] {
        let mut command = Place::new().fsprobe(&["pipe-end", role, "4096"]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(stderr(&output).contains("Refused"), "{}", stderr(&output));
    }
}

/// A run that would last for long.
fn long_run(rung: &str) -> Child {
    let mut command = Place::new().fsprobe(&["pipe", "--rungs", rung, "--bytes", "1000G", "--rounds", "1"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().unwrap()
}

/// The processes that it started, each with its role, once both are under way.
fn ends_of(parent: &Child) -> Vec<(u32, String)> {
    let began = Instant::now();
    loop {
        let ends: Vec<(u32, String)> = children(parent.id());
        if ends.len() == 2 {
            // under way: past the meeting
            std::thread::sleep(Duration::from_millis(200));
            return ends;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "two processes: {ends:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn children(parent: u32) -> Vec<(u32, String)> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
    processes
        .filter_map(|id: u32| {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            let of: u32 = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
            let line = fs::read_to_string(format!("/proc/{id}/cmdline")).ok()?;
            let mut words = line.split('\0').skip_while(|w| *w != "pipe-end").skip(1);
            (of == parent).then_some((id, words.next()?.to_owned()))
        })
        .collect()
}

fn send(id: u32, signal: Signal) {
    kill_process(Pid::from_raw(id as i32).unwrap(), signal).unwrap();
}

/// Whether a process is gone, or dead and only waited for by nobody.
fn is_gone(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

#[track_caller]
fn assert_gone(ends: &[(u32, String)]) {
    let began = Instant::now();
    while !ends.iter().all(|(id, _)| is_gone(*id)) {
        assert!(began.elapsed() < AN_END, "left behind: {ends:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_killed_process_ends_the_other_and_is_told() {
    for (rung, victim) in [
        ("write-read", "writer"),
        ("write-read", "reader"),
        ("vmsplice-splice-busy", "writer"),
        ("vmsplice-splice-busy", "reader"),
        ("shared-ring", "writer"),
        ("shared-ring", "reader"),
    ] {
        let run = long_run(rung);
        let ends = ends_of(&run);
        let began = Instant::now();
        send(ends.iter().find(|(_, role)| role == victim).unwrap().0, Signal::KILL);
        let output = run.wait_with_output().unwrap();
        assert!(began.elapsed() < AN_END, "{rung}: {:?}", began.elapsed());
        assert_fails(&output, &[rung, victim, "killed by signal 9"]);
        assert_gone(&ends);
    }
}

#[test]
fn an_interrupt_leaves_nothing_and_shows_what_there_is() {
    // a terminal sends it to the whole group, kill(1) to one process
    for (signal, to_group) in [(Signal::INT, true), (Signal::INT, false), (Signal::TERM, false)] {
        let run = long_run("vmsplice-read");
        let ends = ends_of(&run);
        let began = Instant::now();
        match to_group {
            true => kill_process_group(Pid::from_raw(run.id() as i32).unwrap(), signal).unwrap(),
            false => send(run.id(), signal),
        }
        let output = run.wait_with_output().unwrap();
        assert!(began.elapsed() < AN_END);
        assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
        assert!(stdout(&output).contains("Note: Interrupted"), "{}", stdout(&output));
        assert_gone(&ends);
    }
}

#[test]
fn processes_end_with_whoever_started_them() {
    let mut run = long_run("shared-ring");
    let ends = ends_of(&run);
    run.kill().unwrap();
    run.wait().unwrap();
    assert_gone(&ends);
}
