//! `fsprobe trace` within limits of time and memory, and where what it is to read never comes.

mod common;

use common::{Place, assert_fails, stderr, stdout, text};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

const WAYS: [&str; 3] = ["sample", "preload", "ptrace"];

/// `trace` of a shell's script in one way, after the limits that `ulimit` sets.
fn limited(place: &Place, ulimit: &str, via: &str, script: &str) -> Command {
    let limits = format!("{ulimit}; exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limits, "sh", env!("CARGO_BIN_EXE_fsprobe"), "trace", "--simulate", "zen4"]);
    command.args(["--via", via, "--", "sh", "-c", script]).env("XDG_STATE_HOME", place.path("state"));
    command
}

fn kill(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn the_soft_limit_of_time_is_the_commands() {
    let place = Place::new();
    for via in WAYS {
        // the shell itself is told so that nothing has to burn a second
        let script = "echo ready; read go; kill -XCPU $$";
        let mut watching = limited(&place, "true", via, script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(watching.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        if ready == "ready\n" {
            kill("-XCPU", &watching);
            drop(watching.stdin.take());
        }
        let output = watching.wait_with_output().unwrap();
        match output.status.code() {
            Some(125) => eprintln!("skipped: {}", stderr(&output)),
            code => assert_eq!(code, Some(128 + libc::SIGXCPU), "{via}: {}", stderr(&output)),
        }
    }
}

#[test]
fn where_memory_ends_nothing_crashes_and_the_status_is_the_commands_or_a_failure() {
    let place = Place::new();
    for via in WAYS {
        for kib in [14_000, 18_000, 24_000, 32_000, 45_000, 60_000, 90_000] {
            let output = limited(&place, &format!("ulimit -v {kib}"), via, "exit 7").output().unwrap();
            let code = output.status.code();
            // 127 is the loader's, which cannot map fsprobe, or the shell's
            assert!(
                [Some(7), Some(125), Some(127)].contains(&code),
                "{via} {kib}: {code:?} {}",
                stderr(&output)
            );
        }
    }
    let cpu = format!("ulimit -v 18000; exec {} cpu", env!("CARGO_BIN_EXE_fsprobe"));
    let output = Command::new("sh").args(["-c", &cpu]).output().unwrap();
    assert!(output.status.code().is_some(), "{:?} after {}", output.status, stdout(&output));
}

#[test]
fn a_report_that_never_comes_is_waited_for_until_a_signal() {
    let place = Place::new();
    let fifo = place.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for args in
        [vec!["trace", "--report", text(&fifo), "--", "true"], vec!["exposure", "--report", text(&fifo)]]
    {
        let mut waiting = place.fsprobe(&args).stdout(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(waiting.try_wait().unwrap().is_none(), "{args:?}");
        kill("-TERM", &waiting);
        assert_eq!(waiting.wait().unwrap().signal(), Some(libc::SIGTERM), "{args:?}");
    }
}

#[test]
fn whatever_the_umask_nothing_is_left_in_the_temporary_folder() {
    let place = Place::new();
    for umask in ["777", "000", "277"] {
        let folder = place.path(umask);
        std::fs::create_dir(&folder).unwrap();
        let mut command = limited(&place, &format!("umask {umask}"), "preload", "umask; exit 7");
        let output = command.env("TMPDIR", &folder).env_remove("XDG_RUNTIME_DIR").output().unwrap();
        if output.status.code() == Some(125) {
            eprintln!("skipped: {}", stderr(&output));
            return;
        }
        assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
        assert_eq!(stdout(&output).trim(), format!("0{umask}"));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "umask {umask}");
    }
}

#[test]
fn the_one_way_that_was_asked_for_is_told_alone() {
    let place = Place::new();
    assert_fails(&place.run(&["trace", "--pid", "4000000"]), &["cannot watch by sample: "]);
    let alone = place.path("alone");
    let source = place.path("alone.c");
    std::fs::write(&source, "int main(void) { return 0; }").unwrap();
    let built = Command::new("cc").args(["-static", "-o", text(&alone), text(&source)]).output();
    if !built.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no static C library here");
        return;
    }
    let output = place.run(&["trace", "--simulate", "zen4", "--via", "preload", "--", text(&alone)]);
    let said = stderr(&output);
    assert!(said.contains("cannot watch by preload: ") && said.contains("(use --via ptrace or"), "{said}");
    assert_eq!(output.status.code(), Some(125));
}
