//! `fsprobe report`, from the command line: which report, which verdict, where it goes, and whom it names.

mod common;
mod made;

use common::{Place, assert_fails, stderr, stdout, text};
use fsprobe::report::{State, save, to_json};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

const FORMATS: [&str; 7] = ["terminal", "ticket", "markdown", "html", "csv", "openmetrics", "json"];

/// A simulated sweep's report.
fn swept(place: &Place, name: &str, model: &str) -> PathBuf {
    let saved = place.path(name);
    let dst = "0x0-0x40";
    let args = ["sweep", "--quiet", "--simulate", model, "--seed", "1", "--len", "64K", "--dst", dst];
    assert!(place.run(&[&args[..], &["--output", text(&saved)]].concat()).status.success());
    saved
}

fn ok(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    stdout(output)
}

#[test]
fn the_terminal_format_is_what_the_verb_itself_printed() {
    let place = Place::new();
    let saved = place.path("sweep.json");
    let args = ["sweep", "--quiet", "--simulate", "zen4", "--len", "64K", "--output", text(&saved)];
    let printed = ok(&place.run(&args));
    let printed = printed.rsplit_once("\nreport: ").expect("the last line").0.to_owned();
    assert_eq!(ok(&place.run(&["report", text(&saved)])), printed);

    let saved = place.path("check.json");
    let args = ["check", "--quiet", "--simulate", "zen4", "--output", text(&saved)];
    let printed = stdout(&place.run(&args));
    assert_eq!(ok(&place.run(&["report", text(&saved)])), printed);
}

#[test]
fn a_report_comes_from_a_file_or_stdin_and_goes_to_stdout_or_a_file() {
    let place = Place::new();
    let saved = swept(&place, "r.json", "zen4");
    for format in FORMATS {
        let printed = ok(&place.run(&["report", text(&saved), "--format", format]));
        let mut child = place.fsprobe(&["report", "-", "--format", format, "--output", "-"]);
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&std::fs::read(&saved).unwrap()).unwrap();
        assert_eq!(ok(&child.wait_with_output().unwrap()), printed, "{format}");
        let out = place.path(format);
        let args = ["report", text(&saved), "--format", format, "--output", text(&out)];
        assert_eq!(ok(&place.run(&args)), "");
        assert_eq!(std::fs::read_to_string(&out).unwrap(), printed);
        assert_eq!(std::fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o600);
        assert_fails(&place.run(&args), &["exists", "--force"]);
        ok(&place.run(&[&args[..], &["--force"]].concat()));
    }
    let args = ["report", text(&saved), "--output", "/nowhere/at/all"];
    assert_fails(&place.run(&args), &["/nowhere/at/all", "No such file"]);
    assert_fails(&place.run(&["report", text(&saved), "--force"]), &["--output"]);
}

#[test]
fn a_report_that_is_judged_as_before_is_written_as_it_was() {
    let place = Place::new();
    let saved = swept(&place, "r.json", "zen4");
    let output = place.run(&["report", text(&saved), "--format", "json"]);
    assert_eq!(ok(&output), std::fs::read_to_string(&saved).unwrap());
    assert_eq!(stderr(&output), "");
}

#[test]
fn another_verdict_than_the_recorded_one_is_told_in_every_format() {
    let place = Place::new();
    let mut report = common::report(&swept(&place, "r.json", "zen4"));
    report.verdict.state = State::Clean;
    report.verdict.paths[0].bands.clear();
    let saved = place.path("old.json");
    save(&report, &saved, false).unwrap();
    for format in FORMATS {
        let output = place.run(&["report", text(&saved), "--format", format]);
        let told = ok(&output) + &stderr(&output);
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains("Judged again by fsprobe"), "{format}: {told}");
        assert!(told.contains("the state was clean and is affected"), "{format}: {told}");
        assert!(told.contains("at 64 KiB: no deep band then, distance 0x001-0x00f now"), "{format}: {told}");
    }
    let output = place.run(&["report", text(&saved), "--format", "json"]);
    let again = fsprobe::report::parse(&output.stdout, "json").unwrap();
    assert_eq!(again.verdict.state, State::Affected);
    assert_eq!(again.rejudged.as_ref().map(|r| r.recorded_state), Some(State::Clean));
    assert_eq!(fsprobe::judge::again(again.clone()), again, "the note stays");
    let metrics = ok(&place.run(&["report", text(&saved), "--format", "openmetrics"]));
    assert!(
        metrics.lines().any(|l| l.starts_with("fsprobe_verdict_differs_from_recorded") && l.ends_with(" 1"))
    );
}

#[test]
fn without_a_file_the_newest_report_is_taken() {
    let place = Place::new();
    let report = |args: &[&str]| {
        let mut command = place.fsprobe(&[&["report"], args].concat());
        command.env("TMPDIR", place.folder.path()).output().unwrap()
    };
    assert_fails(&report(&[]), &["no report is saved yet", "fsprobe sweep"]);
    let folder = place.path("state/fsprobe");
    std::fs::create_dir_all(&folder).unwrap();
    let put = |name: &str, report: &fsprobe::report::Report, age: u64| {
        let path = folder.join(name);
        save(report, &path, false).unwrap();
        let time = SystemTime::now() - Duration::from_secs(age);
        std::fs::File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
    };
    put("sweep-1.json", &made::clean(), 100);
    put("sweep-2.json", &made::zen3(), 50);
    put("sweep-0.json", &made::clean(), 200);
    put("notes.txt", &made::clean(), 0);
    std::fs::create_dir(folder.join("sweep-9.json")).unwrap();
    let output = report(&["--format", "ticket"]);
    assert!(ok(&output).contains("zen3"));
    assert!(stderr(&output).contains("sweep-2.json") && !ok(&output).contains("sweep-2.json"));
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let place = Place::new();
    let saved = swept(&place, "r.json", "clean");
    for format in FORMATS {
        let mut child = place.fsprobe(&["report", text(&saved), "--format", format]);
        let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()), "{format}");
    }
}

/// A host name of this run's own, where a namespace for it can be had.
fn with_host_name(command: &str) -> Command {
    let set =
        "hostname planted-host 2>/dev/null || echo planted-host > /proc/sys/kernel/hostname; exec \"$@\"";
    let spaces = ["--uts", "--map-root-user"];
    let has = Command::new("unshare").args(spaces).args(["sh", "-c", "hostname planted-host"]).output();
    if has.is_ok_and(|o| o.status.success()) {
        let mut unshared = Command::new("unshare");
        unshared.args(spaces).args(["sh", "-c", set, "sh", command]);
        return unshared;
    }
    eprintln!("no host name of its own can be had here: this machine's is looked for");
    Command::new(command)
}

#[test]
fn no_format_names_anybody() {
    let place = Place::new();
    let home = place.path("planted-home");
    std::fs::create_dir(&home).unwrap();
    let file = home.join("planted-file-name");
    std::fs::write(&file, vec![7; 1 << 20]).unwrap();
    let run = |args: &[&str]| {
        let mut command = with_host_name(env!("CARGO_BIN_EXE_fsprobe"));
        command.args(args).current_dir(&home);
        command.env("HOME", &home).env("XDG_STATE_HOME", home.join("planted-state"));
        for name in ["USER", "LOGNAME", "HOSTNAME", "SUDO_USER"] {
            command.env(name, format!("planted-{}", name.to_lowercase()));
        }
        command.output().unwrap()
    };
    let [swept, checked] = ["planted-sweep.json", "planted-check.json"].map(|name| home.join(name));
    let sweep = ["sweep", "--quiet", "--len", "4K", "--dst", "0x0-0x40", "--file", text(&file)];
    ok(&run(&[&sweep[..], &["--output", text(&swept)]].concat()));
    let check = ["check", "--quiet", "--paths", "read,memcpy", "--output", text(&checked)];
    assert_ne!(run(&check).status.code(), Some(2));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let folder = text(place.folder.path());
    for saved in [swept, checked] {
        for format in FORMATS {
            let shown = ok(&run(&["report", text(&saved), "--format", format]));
            for secret in ["planted", folder, host.trim()] {
                // a host named 'vm' would be found in any word
                assert!(secret.len() < 4 || !shown.contains(secret), "{secret} in {format}");
            }
        }
    }
}

#[test]
fn hostile_reports_are_rendered_by_the_binary_too() {
    let place = Place::new();
    for attack in made::hostile::ATTACKS {
        let saved = place.path("hostile.json");
        std::fs::write(&saved, to_json(&made::hostile::hostile(attack))).unwrap();
        for format in FORMATS {
            let output = place.run(&["report", text(&saved), "--format", format]);
            let (shown, beside) = (ok(&output), stderr(&output));
            let steers = |c: char| c.is_control() && c != '\n' && !(c == '\r' && format == "csv");
            let steering = shown.split('\n').chain(beside.split('\n')).find(|l| l.contains(steers));
            assert_eq!(steering.map(|l| l.chars().take(300).collect::<String>()), None, "{format}");
        }
    }
}
