//! `fsprobe readers` end to end: every reader once, where its bytes landed, and every way a command can end.

mod common;

use common::{Place, assert_fails, forbid, stderr, stdout, text};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const SIZE: usize = 1 << 20;

/// fsprobe's own readers that any build has.
const OWN: [&str; 8] =
    ["fread", "fread-moved", "fs-read", "read-to-end", "buf-reader", "jemalloc", "mimalloc", "mmap"];

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", stderr(output)))
}

/// `readers --json` of a file, two rounds.
fn told(place: &Place, file: &Path, more: &[&str]) -> Value {
    let args = [&["readers", "--json", "--rounds", "2", "--seed", "1", "--file", text(file)], more].concat();
    json(&place.run(&args))
}

fn list(told: &Value) -> &Vec<Value> {
    told["readers"]["readers"].as_array().unwrap()
}

/// The readers' names under each kind of pages.
fn names(told: &Value) -> Vec<(String, Vec<String>)> {
    let mut kinds: Vec<(String, Vec<String>)> = Vec::new();
    for reader in list(told) {
        let (kind, name) = (reader["huge_pages"].as_str().unwrap(), reader["reader"].as_str().unwrap());
        match kinds.last_mut().filter(|(last, _)| last == kind) {
            Some((_, names)) => names.push(name.into()),
            None => kinds.push((kind.into(), vec![name.into()])),
        }
    }
    kinds
}

/// The very arguments that fsprobe gives its readers: where malloc's heap puts a buffer depends on them.
fn child(file: &Path, reader: &str) -> [String; 7] {
    let order = format!("{{\"read\":{{\"reader\":\"{reader}\",\"ask_huge\":false}}}}");
    let turn = ["--turn", "0", "--file", text(file)].map(String::from);
    let [turn, number, option, file] = turn;
    ["readers".into(), "--child".into(), order, turn, number, option, file]
}

/// Files on disk and, where there is one, on tmpfs; the latter removed with the second value.
fn files(place: &Place) -> (Vec<PathBuf>, Option<tempfile::TempDir>) {
    let mut files = vec![place.file("source", SIZE)];
    let shm = tempfile::tempdir_in("/dev/shm").ok();
    if let Some(folder) = &shm {
        let file = folder.path().join("source");
        std::fs::copy(&files[0], &file).unwrap();
        files.push(file);
    }
    (files, shm)
}

#[test]
fn every_reader_is_reported_once_and_says_where_it_reads() {
    let place = Place::new();
    let (files, _shm) = files(&place);
    for file in &files {
        let told = told(&place, file, &[]);
        assert_eq!(told["schema"]["name"], "fsprobe-readers");
        assert_eq!((&told["readers"]["size"], &told["readers"]["rounds"]), (&SIZE.into(), &2.into()));
        for (kind, names) in names(&told) {
            let own: Vec<&str> = names.iter().map(String::as_str).filter(|n| OWN.contains(n)).collect();
            assert_eq!(own, OWN, "{kind}");
        }
        for reader in list(&told) {
            let (name, landed) = (reader["reader"].as_str().unwrap(), &reader["landed"]);
            assert_eq!(landed.is_null(), name == "mmap", "{reader}");
            assert!(reader["process"]["median_ns"].as_f64().unwrap() > 0.0, "{reader}");
            if name == "fread-moved" {
                assert_eq!(landed["dst"], 0x410);
            }
            if !landed.is_null() {
                assert_eq!(landed["distance"], landed["dst"], "read from the start: {reader}");
                assert!(!reader["moved"].is_null(), "{reader}");
            }
        }
    }
}

/// The buffer's address in the first long read that strace shows.
fn straced(program: &Path, args: &[String]) -> Option<u64> {
    let log = tempfile::NamedTempFile::new().unwrap();
    let output = Command::new("strace")
        .args(["-f", "-e", "trace=read", "-e", "raw=read", "-o", text(log.path())])
        .arg(program)
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let lines = std::fs::read_to_string(log.path()).unwrap();
    let number = |text: &str| u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok();
    // 123 read(0x3, 0x7f…, 0x100000) = 0x100000
    let reads = lines.lines().filter_map(|line| {
        let (call, result) = line.split_once("read(")?.1.split_once(") = ")?;
        Some((number(call.split(", ").nth(1)?)?, number(result.split_whitespace().next()?)?))
    });
    let longest = reads.max_by_key(|(_, len)| *len)?;
    if let Some(at) = said["Ok"]["at"].as_u64().filter(|_| longest.1 > 100_000) {
        assert_eq!(at, longest.0, "what the reader says itself");
    }
    Some(longest.0)
}

#[test]
fn offsets_are_those_that_strace_shows() {
    if !Command::new("strace").arg("-V").output().is_ok_and(|o| o.status.success()) {
        let installed = std::env::var_os("CI").is_some()
            && Command::new("apt-get")
                .args(["install", "-y", "strace"])
                .output()
                .is_ok_and(|o| o.status.success());
        if !installed {
            eprintln!("skipped: there is no strace here to compare with");
            return;
        }
    }
    let place = Place::new();
    let (files, _shm) = files(&place);
    for file in &files {
        let told = told(&place, file, &[]);
        if !told["readers"]["untraced"].is_null() {
            eprintln!("skipped: ptrace is forbidden here");
            return;
        }
        for reader in
            list(&told).iter().filter(|r| ["off", "as-is"].contains(&r["huge_pages"].as_str().unwrap()))
        {
            let name = reader["reader"].as_str().unwrap();
            let address = match name {
                "mmap" | "opendal" | "command" => continue,
                "python" => {
                    let program = Path::new(reader["program"].as_str().unwrap());
                    let script = "import sys; open(sys.argv[1], 'rb').read()";
                    straced(program, &["-c".into(), script.into(), text(file).into()])
                }
                name => straced(Path::new(env!("CARGO_BIN_EXE_fsprobe")), &child(file, name)),
            };
            // jemalloc picks one of 64 cache lines at random for each allocation.
            let circle = if name == "jemalloc" { 64 } else { 4096 };
            let dst = reader["landed"]["dst"].as_u64().unwrap();
            assert_eq!(dst % circle, address.unwrap() % circle, "{name}");
        }
    }
}

#[test]
fn the_text_names_each_reader_within_80_columns() {
    let place = Place::new();
    let file = place.file("source", SIZE);
    let output = place.run(&["readers", "--rounds", "6", "--file", text(&file)]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told = stdout(&output);
    for name in ["C fread, moved", "std::fs::read", "BufReader", "jemalloc + read", "mmap"] {
        assert!(told.contains(name), "{name} in {told}");
    }
    assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
    assert_eq!(stderr(&output), "");
}

#[test]
fn without_python_the_rest_is_measured() {
    let place = Place::new();
    let file = place.file("source", SIZE);
    let args = ["readers", "--json", "--rounds", "1", "--file", text(&file)];
    let told = json(&place.fsprobe(&args).env("PATH", "").output().unwrap());
    assert!(list(&told).iter().all(|r| r["reader"] != "python"));
    let skipped = &told["readers"]["skipped"][0];
    assert_eq!(
        (&skipped["reader"], &skipped["reason"]),
        (&"python".into(), &"there is no python3 on the PATH".into())
    );
}

#[test]
fn names_are_told_unless_they_are_not_to_be() {
    let place = Place::new();
    let file = place.file("secret-source", SIZE);
    let run = |more: &[&str]| {
        let args = [&["readers", "--json", "--rounds", "1", "--file", text(&file)], more].concat();
        place.run(&[&args[..], &["--exec", "cat", "{}"]].concat())
    };
    let (open, closed) = (stdout(&run(&[])), stdout(&run(&["--anonymous"])));
    assert!(open.contains("secret-source") && open.contains("cat "));
    assert!(!closed.contains("secret-source") && !closed.contains("python3\""), "{closed}");
}

#[test]
fn a_command_gives_its_exit_code() {
    let place = Place::new();
    let file = place.file("source", SIZE);
    let run = |command: &[&str]| {
        let args = [&["readers", "--rounds", "1", "--file", text(&file), "--exec"], command].concat();
        place.run(&args)
    };
    for (command, code) in [
        (&["sh", "-c", "cat \"$1\"; echo heard >&2; exit 7", "sh", "{}"][..], 7),
        (&["sh", "-c", "kill -TERM $$"], 143),
        (&["true"], 0),
    ] {
        let output = run(command);
        assert_eq!(output.status.code(), Some(code), "{command:?} {}", stderr(&output));
        assert!(stdout(&output).contains("--exec"), "{command:?}");
        assert_eq!(stderr(&output).matches("heard").count(), usize::from(code == 7));
    }
    let missing = run(&["no-such-program-anywhere"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(stderr(&missing).contains("cannot run no-such-program-anywhere: No such file"));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = run(&["{}"]);
    assert_eq!(
        (refused.status.code(), stderr(&refused).lines().count()),
        (Some(126), 1),
        "{}",
        stderr(&refused)
    );
}

#[test]
fn a_command_that_does_not_read_the_file_once_is_not_compared() {
    let place = Place::new();
    let file = place.file("source", SIZE);
    for (command, part) in [
        (&["true"][..], "made no read(2) of the file"),
        (&["sh", "-c", "cat \"$1\"; cat \"$1\"", "sh", "{}"], "its reads brought"),
        (&["sh", "-c", "exec cat <\"${1#file=}\"", "sh", "file={}"], ""),
    ] {
        let args = [&["readers", "--rounds", "1", "--file", text(&file), "--exec"], command].concat();
        let said = stdout(&place.run(&args)).split_whitespace().collect::<Vec<_>>().join(" ");
        if said.contains("ptrace(2) is not possible") {
            eprintln!("programs cannot be watched here");
            return;
        }
        let is_compared = !said.contains("--exec: not compared");
        assert!(is_compared == part.is_empty() && said.contains(part), "{command:?} {said}");
    }
}

#[test]
fn failures_are_one_line() {
    let place = Place::new();
    assert_fails(&place.run(&["readers", "--file", "/no/such/file"]), &["/no/such/file", "No such file"]);
    assert_fails(&place.run(&["readers", "--file", "/tmp"]), &["is a directory"]);
    let own = place.run(&["readers", "--file", "/no/such/file", "--exec", "true"]);
    assert_eq!((own.status.code(), stderr(&own).lines().count()), (Some(125), 1));
}

#[test]
fn where_ptrace_is_forbidden_the_rest_is_measured_and_the_reason_said() {
    let place = Place::new();
    let file = place.file("source", SIZE);
    let mut command = place.fsprobe(&["readers", "--json", "--rounds", "1", "--file", text(&file)]);
    // SAFETY: the closure makes system calls only.
    unsafe { command.pre_exec(|| forbid(libc::SYS_ptrace)) };
    let Ok(output) = command.output() else {
        eprintln!("skipped: no seccomp filter can be set here");
        return;
    };
    let told = json(&output);
    let reason = told["readers"]["untraced"].as_str().unwrap();
    assert!(reason.starts_with("ptrace(2) is not possible here: "), "{reason}");
    let find = |name: &str| list(&told).iter().find(|r| r["reader"] == name).unwrap();
    assert_eq!(find("fread")["read_unknown"], reason);
    assert_eq!(find("fread-moved")["landed"]["dst"], 0x410, "the reader says it itself");
    assert!(find("mimalloc")["read"]["median_ns"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_signal_ends_it_soon_and_leaves_no_child() {
    let place = Place::new();
    let file = place.file("source", SIZE);
    for (command, code) in [(&[][..], 130), (&["--exec", "sh", "-c", "exec sleep 54.321"][..], 143)] {
        let args = [&["readers", "--rounds", "1000", "--file", text(&file)], command].concat();
        let mut child = place.fsprobe(&args).stdout(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let began = Instant::now();
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert!(began.elapsed() < Duration::from_secs(20));
    }
    let left = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        std::fs::read(entry.ok()?.path().join("cmdline"))
            .ok()
            .filter(|line| line.starts_with(b"sleep\x0054.321"))
    });
    assert_eq!(left.count(), 0);
}

#[test]
fn the_script_is_printed_alone() {
    let output = Place::new().run(&["readers", "--bpftrace"]);
    let script = stdout(&output);
    assert!(script.starts_with("#!/usr/bin/env bpftrace\n") && script.contains("sys_exit_read"), "{script}");
    assert_eq!(script.matches('{').count(), script.matches('}').count());
}
