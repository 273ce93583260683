//! `fsprobe trace` as a job of an interactive shell: it stops where its command stops, by whatever key or signal, and not
//! where the command goes on.

mod common;

use common::shell::Shell;
use common::{Place, text};
use std::path::Path;
use std::time::{Duration, Instant};

const WAYS: [&str; 3] = ["sample", "preload", "ptrace"];

/// The line that traces a script in one way.
fn line(place: &Place, via: &str, script: &str) -> String {
    let (fsprobe, state) = (env!("CARGO_BIN_EXE_fsprobe"), place.path("state"));
    let trace =
        format!("{fsprobe} trace --simulate zen4 --via {via} --output {} --force", text(&place.path("told")));
    format!("XDG_STATE_HOME={} {trace} -- sh -c '{script}'; echo \"code $?.\"\n", text(&state))
}

/// A file's words once it is there.
fn told(file: &Path) -> String {
    let began = Instant::now();
    loop {
        match std::fs::read_to_string(file) {
            Ok(told) if told.ends_with('\n') => return told.trim().to_owned(),
            _ => assert!(began.elapsed() < Duration::from_secs(30), "no {file:?}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether the way is open here, said aloud where not.
fn is_open(place: &Place, via: &str) -> bool {
    let output = place.run(&["trace", "--simulate", "zen4", "--via", via, "--", "true"]);
    let is_open = output.status.code() == Some(0);
    if !is_open {
        eprintln!("skipped: {}", common::stderr(&output));
    }
    is_open
}

#[test]
fn a_command_that_stops_itself_gives_the_terminal_back() {
    let place = Place::new();
    for via in WAYS.into_iter().filter(|via| is_open(&place, via)) {
        for signal in ["STOP", "TSTP"] {
            let mut shell = Shell::start(&[]);
            shell.press(&line(&place, via, &format!("kill -{signal} $$; echo went o$((1 - 1))n; exit 7")));
            // as for a command by itself, whose status is then that of the stop
            let number = if signal == "STOP" { libc::SIGSTOP } else { libc::SIGTSTP };
            shell.wait_for(&format!("code {}.", 128 + number));
            assert!(!shell.has_said("went o0n"), "{via} {signal}");
            shell.press("fg; echo \"code $?.\"\n");
            shell.wait_for("went o0n");
            shell.wait_for("code 7.");
            shell.exit();
        }
    }
}

#[test]
fn a_command_that_ignores_the_stop_key_goes_on() {
    let place = Place::new();
    let ready = place.path("ready");
    for via in WAYS.into_iter().filter(|via| is_open(&place, via)) {
        let mut shell = Shell::start(&[]);
        let script = format!("trap \"\" TSTP; echo ready >{}; sleep 1; exit 9", text(&ready));
        shell.press(&line(&place, via, &script));
        told(&ready);
        shell.press("\x1a");
        shell.wait_for("code 9.");
        std::fs::remove_file(&ready).unwrap();
        shell.exit();
    }
}
