//! `fsprobe trace` end to end: what is refused, whose streams and exit codes are whose, and the answer.

mod common;

use common::{Place, assert_fails, forbid, stderr, stdout, text};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const WAYS: [&str; 3] = ["sample", "preload", "ptrace"];
const MIB_16: usize = 16 << 20;

/// Whether this way is closed here, which is said.
fn is_closed(output: &Output) -> bool {
    let said = stderr(output);
    let closed = output.status.code() == Some(125) && said.contains("cannot watch");
    if closed {
        eprintln!("skipped: {said}");
    }
    closed
}

/// Traces a command in one way, with a model's bands: no check of this machine. None where the way is closed.
fn traced(place: &Place, via: &str, more: &[&str], command: &[&str]) -> Option<Output> {
    let args = [&["trace", "--simulate", "zen3", "--via", via], more, &["--"], command].concat();
    Some(place.run(&args)).filter(|output| !is_closed(output))
}

/// A program that reads a whole file at once: into pages of mimalloc's, or at page offset 0x410.
fn reader(name: &str, file: &Path) -> Vec<String> {
    let order = format!("{{\"read\":{{\"reader\":\"{name}\",\"ask_huge\":false}}}}");
    let fsprobe = env!("CARGO_BIN_EXE_fsprobe");
    [fsprobe, "readers", "--child", &order, "--file", text(file)].map(str::to_owned).into()
}

fn words(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[test]
fn wrong_combinations_are_refused_in_one_line() {
    let place = Place::new();
    place.file("exists", 1);
    let exists = place.path("exists");
    for (args, parts) in [
        (vec![], vec!["nothing to watch", "--pid"]),
        (vec!["--pid", "1", "--system"], vec!["cannot be used with"]),
        (vec!["--pid", "1", "--", "true"], vec!["cannot be used with"]),
        (vec!["--system", "true"], vec!["cannot be used with"]),
        (
            vec!["--pid", "1", "--via", "preload"],
            vec!["--via preload watches a command from its start", "--via sample"],
        ),
        (vec!["--system", "--via", "ptrace"], vec!["--via ptrace watches a command"]),
        (vec!["--live", "--via", "ptrace", "--", "true"], vec!["--live shows samples"]),
        (vec!["--time", "1", "--", "true"], vec!["cannot be used with"]),
        (vec!["--via", "dtrace", "--", "true"], vec!["sample, preload, ptrace"]),
        (vec!["--report", "-", "--", "true"], vec!["stdin"]),
        (vec!["--report", "r.json", "--simulate", "zen4", "--", "true"], vec!["cannot be used with"]),
        (vec!["--no-such", "--", "true"], vec!["--no-such"]),
        (vec!["--pid", "0"], vec!["0"]),
        (vec!["--system", "--simulate", "zen9"], vec!["unknown model", "zen4"]),
        (vec!["--system", "--report", "/no/such/file"], vec!["/no/such/file", "No such file"]),
        (vec!["--system", "--output", text(&exists)], vec!["exists", "--force"]),
    ] {
        let args = [&["trace"], args.as_slice()].concat();
        assert_fails(&place.run(&args), &parts);
    }
}

#[test]
fn a_failure_beside_a_command_is_125() {
    let place = Place::new();
    for more in [["--report", "/no/such/file"], ["--simulate", "zen9"]] {
        let output = place.run(&[&["trace"], &more[..], &["--", "touch", text(&place.path("ran"))]].concat());
        assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1);
        assert!(!place.path("ran").exists(), "the command is not started");
    }
}

#[test]
fn streams_and_exit_codes_are_the_commands() {
    let place = Place::new();
    for via in WAYS {
        let script = "cat; echo out; echo err >&2; exit 7";
        let Some(output) = traced(&place, via, &[], &["sh", "-c", script]) else { continue };
        assert_eq!(output.status.code(), Some(7), "{via}");
        assert_eq!(stdout(&output), "out\n", "{via}");
        let said = stderr(&output);
        assert!(said.starts_with("err\n"), "{said}");
        assert!(said.replace('\n', " ").contains(&format!("Watched by {via}: as asked for")), "{said}");
        assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
        let killed = traced(&place, via, &[], &["sh", "-c", "kill -KILL $$"]).expect("open a moment ago");
        assert_eq!(killed.status.code(), Some(137), "{via}");
    }
}

#[test]
fn a_parent_that_ignores_its_children_changes_nothing() {
    let place = Place::new();
    for via in WAYS {
        let deaf = |command: &[&str]| {
            let args = ["trace", "--simulate", "clean", "--via", via, "--output", "-", "--"];
            let mut fsprobe = place.fsprobe(&[&args[..], command].concat());
            // SAFETY: one system call, which is async-signal-safe.
            unsafe {
                fsprobe.pre_exec(|| {
                    libc::signal(libc::SIGCHLD, libc::SIG_IGN);
                    Ok(())
                })
            };
            fsprobe.output().unwrap()
        };
        let output = deaf(&["sh", "-c", "exit 3"]);
        if is_closed(&output) {
            continue;
        }
        assert_eq!(output.status.code(), Some(3), "{via}: {}", stderr(&output));
        assert!(!stdout(&output).contains("did not answer"), "{}", stdout(&output));
        let told = stdout(&deaf(&["grep", "SigIgn", "/proc/self/status"]));
        let mask = told.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
        assert_ne!(u64::from_str_radix(mask, 16).unwrap() & 1 << (libc::SIGCHLD - 1), 0, "{mask}");
    }
}

#[test]
fn what_cannot_be_run_is_126_or_127() {
    let place = Place::new();
    let (file, script) = (place.file("data", 10), place.path("script"));
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    for via in WAYS {
        for (command, code, word) in [
            ("/no/such/program", 127, "No such file or directory\n"),
            (text(&file), 126, "ermission denied"),
            (text(&script), 127, "(the interpreter or loader that it names is missing)"),
        ] {
            let Some(output) = traced(&place, via, &["--exit-code"], &[command]) else { continue };
            assert_eq!(output.status.code(), Some(code), "{via}: {}", stderr(&output));
            assert!(stderr(&output).contains(word) && stdout(&output).is_empty(), "{}", stderr(&output));
        }
    }
}

#[test]
fn copies_in_a_band_are_the_programs_problem_and_others_are_not() {
    let place = Place::new();
    let file = place.file("source", MIB_16);
    for via in ["preload", "ptrace"] {
        // zen3: 0x991 to 0x00f, so that page-aligned buffers are slow
        for (name, code, word) in [("mimalloc", 1, "AFFECTED"), ("fread-moved", 0, "CLEAN: not your problem")]
        {
            let reader = reader(name, &file);
            let Some(output) = traced(&place, via, &["--exit-code"], &words(&reader)) else { continue };
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(code), "{via} {name}: {said}");
            assert!(said.contains(word) && said.contains("source"), "{said}");
        }
    }
}

#[test]
fn json_holds_what_was_seen_and_where_the_bands_are_from() {
    let place = Place::new();
    let file = place.file("secret-source", MIB_16);
    let reader = reader("mimalloc", &file);
    for via in ["preload", "ptrace"] {
        let out = place.path(&format!("{via}.json"));
        let Some(output) = traced(&place, via, &["--json", "--output", text(&out)], &words(&reader)) else {
            continue;
        };
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(stderr(&output), "", "all goes to the file");
        let told: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
        assert_eq!(
            (&told["schema"]["name"], &told["schema"]["version"]),
            (&"fsprobe-trace".into(), &1.into())
        );
        assert_eq!(told["run"]["options"]["command"], "<command>");
        let trace = &told["trace"];
        assert_eq!((&trace["via"], &trace["bands"]["simulated"]), (&via.into(), &true.into()));
        assert_eq!(trace["answer"]["state"], "affected");
        let is_file =
            |copies: &&Value| copies["file"].as_str().is_some_and(|name| name.ends_with("secret-source"));
        let copies: Vec<&Value> =
            trace["watched"]["copies"].as_array().unwrap().iter().filter(is_file).collect();
        let bytes: u64 = copies.iter().map(|copies| copies["bytes"].as_u64().unwrap()).sum();
        assert_eq!(bytes, MIB_16 as u64, "{copies:?}");
        let at_zero =
            |copies: &&Value| copies["landings"].as_array().unwrap().iter().all(|l| l["distance"] == 0);
        assert!(copies.iter().all(at_zero), "{copies:?}");

        let plain =
            traced(&place, via, &["--json", "--anonymous", "--output", "-"], &words(&reader)).unwrap();
        let said = stdout(&plain);
        assert!(said.contains("program 1") && said.contains("fsprobe-trace"), "{said}");
        assert!(!said.contains("secret-source") && !said.contains("readers"), "{said}");
    }
    // why a way is closed may name the program too
    let alone = place.path("secret-alone");
    let source = place.path("alone.c");
    std::fs::write(&source, "int main(void) { return 0; }").unwrap();
    let built = Command::new("cc").args(["-static", "-o", text(&alone), text(&source)]).output();
    if built.is_ok_and(|output| output.status.success()) {
        let args =
            ["trace", "--simulate", "zen4", "--json", "--anonymous", "--output", "-", "--", text(&alone)];
        let said = stdout(&place.run(&args));
        assert!(!said.contains("secret"), "{said}");
    } else {
        eprintln!("skipped: no static C library here");
    }
}

#[test]
fn bands_of_a_report_and_of_this_machine() {
    let place = Place::new();
    let saved = place.path("r.json");
    assert!(place.run(&["check", "--simulate", "zen4", "--output", text(&saved)]).status.code() == Some(1));
    for (more, word) in
        [(vec!["--report", text(&saved)], "r.json"), (vec![], "a check of this machine, just now")]
    {
        let args = [&["trace", "--via", "ptrace"], more.as_slice(), &["--", "true"]].concat();
        let output = place.run(&args);
        if !is_closed(&output) {
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            assert!(stderr(&output).replace('\n', " ").contains(word), "{}", stderr(&output));
        }
    }
}

#[test]
fn the_way_is_chosen_and_said() {
    let place = Place::new();
    let output = place.run(&["trace", "--simulate", "zen4", "--", "true"]);
    if !is_closed(&output) {
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let said = stderr(&output).replace('\n', " ");
        assert!(WAYS.iter().any(|via| said.contains(&format!("Watched by {via}: "))), "{said}");
    }
}

#[test]
fn signals_sent_to_fsprobe_reach_the_command() {
    let place = Place::new();
    for (via, signal) in WAYS.iter().flat_map(|via| ["TERM", "INT", "QUIT"].map(|signal| (*via, signal))) {
        let script = format!("trap 'exit 9' {signal}; echo ready; while :; do sleep 0.05; done");
        let mut command =
            place.fsprobe(&["trace", "--simulate", "zen3", "--via", via, "--", "sh", "-c", &script]);
        // SAFETY: the closure makes system calls only.
        unsafe {
            command.pre_exec(|| {
                // where the tests run as a background job, these are ignored
                for signal in [libc::SIGINT, libc::SIGQUIT] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                Ok(())
            })
        };
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        if ready == "ready\n" {
            let pid = child.id().to_string();
            assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        }
        let output = child.wait_with_output().unwrap();
        if is_closed(&output) {
            continue;
        }
        assert_eq!(output.status.code(), Some(9), "{via} {signal}: {}", stderr(&output));
        let said = stderr(&output).replace('\n', " ");
        assert!(said.contains("Watched by"), "{via}: the table comes all the same: {said}");
    }
}

#[test]
fn a_running_process_is_sampled_and_left_running() {
    let place = Place::new();
    let mut sleep = Command::new("sleep").arg("100").spawn().unwrap();
    let pid = sleep.id().to_string();
    let output = place.run(&["trace", "--simulate", "zen4", "--pid", &pid, "--time", "0.5", "--live"]);
    let still_runs = sleep.try_wait().unwrap().is_none();
    sleep.kill().unwrap();
    sleep.wait().unwrap();
    assert!(still_runs);
    if output.status.code() == Some(2) && stderr(&output).contains("cannot watch") {
        eprintln!("skipped: {}", stderr(&output));
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains(&format!("sleep (process {pid})")), "{}", stdout(&output));
    assert!(stderr(&output).contains("--live needs a terminal"), "{}", stderr(&output));
    let gone = place.run(&["trace", "--simulate", "zen4", "--pid", &pid]);
    assert_fails(&gone, &["cannot watch by sample"]);
}

#[test]
fn what_a_command_leaves_running_gets_the_signal() {
    let place = Place::new();
    let args = ["trace", "--simulate", "zen3", "--via", "ptrace", "--", "sh", "-c", "sleep 300 & exit 3"];
    let mut command = place.fsprobe(&args);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id().to_string();
    let over = std::sync::atomic::AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            // again and again: it may come before the command has ended
            while !over.load(std::sync::atomic::Ordering::SeqCst) {
                std::thread::sleep(std::time::Duration::from_millis(500));
                let _ = Command::new("kill").arg(&pid).stderr(Stdio::null()).status();
            }
        });
        let output = child.wait_with_output().unwrap();
        over.store(true, std::sync::atomic::Ordering::SeqCst);
        output
    });
    if !is_closed(&output) {
        // the shell itself may have been met by the first one
        assert!([Some(3), Some(143)].contains(&output.status.code()), "{}", stderr(&output));
        assert!(stderr(&output).contains("Watched by"), "{}", stderr(&output));
    }
}

#[test]
fn a_program_that_may_copy_unseen_is_not_clean() {
    let place = Place::new();
    let script = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done";
    let args = ["trace", "--simulate", "zen4", "--via", "ptrace", "--exit-code", "--", "sh", "-c", script];
    let mut command = place.fsprobe(&args);
    // SAFETY: prctl(2) is all that runs in the child.
    unsafe { command.pre_exec(|| forbid(libc::SYS_perf_event_open)) };
    let output = command.output().unwrap();
    if stderr(&output).contains("cannot watch") {
        eprintln!("skipped: {}", stderr(&output));
        return;
    }
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let said = stderr(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("copies inside the program") && said.contains("--via sample"), "{said}");
}

/// A program of tests/fixtures/trace; none where there is no compiler.
fn built(place: &Place, name: &str) -> Option<std::path::PathBuf> {
    let program = place.path(name);
    let source = format!("{}/tests/fixtures/trace/{name}.c", env!("CARGO_MANIFEST_DIR"));
    match Command::new("cc").args(["-O1", &source, "-o", text(&program), "-ldl"]).status() {
        Ok(built) => assert!(built.success()),
        Err(error) => {
            eprintln!("skipped, there is no compiler: {error}");
            return None;
        }
    }
    Some(program)
}

#[test]
fn copies_of_the_c_library_that_no_call_shows_are_never_called_clean() {
    let place = Place::new();
    let Some(program) = built(&place, "past") else { return };
    for act in ["dlsym", "strdup", "both"] {
        let by = |via| {
            let args =
                ["--simulate", "zen4", "--via", via, "--json", "--exit-code", "--", text(&program), act];
            place.run(&[&["trace"], &args[..]].concat())
        };
        // where this machine's memcpy is no rep movs, or nobody may sample, there is nothing to find
        let sampled = by("sample");
        let counted = by("preload");
        let Ok(told) = serde_json::from_str::<Value>(&stderr(&counted)) else {
            eprintln!("skipped: {}", stderr(&counted));
            continue;
        };
        let unseen = told["trace"]["watched"]["unseen"].to_string();
        match sampled.status.code() {
            Some(1) => assert_eq!(counted.status.code(), Some(1), "{act}: {told}"),
            _ if stderr(&sampled).contains("cannot watch") => {
                assert!(unseen.contains("dlsym"), "{act}: {unseen}");
            }
            other => eprintln!("not slow on the model by samples: {other:?}"),
        }
    }
}

#[test]
fn a_programs_own_copies_are_found_beside_its_calls() {
    let place = Place::new();
    let Some(program) = built(&place, "own") else { return };
    for via in ["preload", "ptrace"] {
        let args = ["--simulate", "zen4", "--via", via, "--json", "--exit-code", "--", text(&program)];
        let output = place.run(&[&["trace"], &args[..]].concat());
        let Ok(told) = serde_json::from_str::<Value>(&stderr(&output)) else {
            eprintln!("skipped: {}", stderr(&output));
            continue;
        };
        let (watched, answer) = (&told["trace"]["watched"], &told["trace"]["answer"]);
        if watched["own"].is_null() {
            assert_eq!(output.status.code(), Some(3), "samples are forbidden here: {answer}");
            continue;
        }
        assert_eq!(output.status.code(), Some(1), "{answer}");
        let sentence = answer["sentence"].as_str().unwrap();
        assert!(sentence.contains("of the time that `own` spent in rep movs"), "{sentence}");
        let rows = answer["rows"].as_array().unwrap();
        let own = rows.iter().find(|row| row["copy_ns"].as_u64() > Some(0)).unwrap();
        assert!(own["what"].as_str().unwrap().contains("copy"), "{own}");
    }
}

#[test]
fn messages_that_are_no_memory_fail_as_without() {
    let place = Place::new();
    let Some(program) = built(&place, "bad") else { return };
    let alone = Command::new(&program).output().unwrap();
    assert_eq!(stdout(&alone).lines().count(), 4);
    for via in WAYS {
        let Some(output) = traced(&place, via, &[], &[text(&program)]) else { continue };
        assert_eq!((stdout(&output), output.status.code()), (stdout(&alone), Some(0)), "{via}");
    }
}

#[test]
fn a_fifo_is_no_program_and_is_not_waited_for() {
    let place = Place::new();
    let fifo = place.path("fifo");
    assert!(Command::new("mkfifo").args(["-m", "777", text(&fifo)]).status().unwrap().success());
    for via in WAYS {
        let Some(output) = traced(&place, via, &[], &[text(&fifo)]) else { continue };
        assert_eq!(output.status.code(), Some(126), "{via}: {}", stderr(&output));
    }
}
