//! A program that is watched behaves as without it; and what happens where watching is not possible, or ends badly.

use super::common::forbid;
use super::programs::{Sum, copies, file, launch, watched};
use fsprobe::report::FileKind;
use fsprobe::trace::{TraceError, ptrace};
use std::cell::Cell;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Names the command that [`a_watcher_of_its_own`] watches, its words between line ends.
const WATCHED: &str = "FSPROBE_TEST_WATCHED";

/// No test: a program that watches, for tests that end it or forbid it things.
#[test]
#[ignore = "a program for the tests beside it"]
fn a_watcher_of_its_own() {
    let Ok(words) = std::env::var(WATCHED) else { return };
    let words: Vec<&str> = words.lines().collect();
    match ptrace::watch(&launch(&words), &|| None) {
        Ok(done) => println!("ended: {:?}", done.status.and_then(|status| status.code())),
        Err(error) => println!("failed: {error}"),
    }
}

/// That program, ready to start.
pub fn watcher(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "behaviour::a_watcher_of_its_own", "--ignored", "--nocapture"]);
    command.env(WATCHED, words.join("\n")).stdout(Stdio::piped()).stderr(Stdio::null()).stdin(Stdio::null());
    command
}

#[test]
fn ends_are_the_programs_own() {
    for (script, code, signal) in [
        ("exit 7", Some(7), None),
        ("kill -TERM $$", None, Some(15)),
        ("kill -KILL $$", None, Some(9)),
        ("trap 'exit 3' USR1; kill -USR1 $$; exit 4", Some(3), None),
        ("(exit 5) & wait $!", Some(5), None),
        ("(sleep 0.3; kill -CONT $$) & kill -STOP $$; exit 6", Some(6), None),
        (
            "(kill -STOP $(exec sh -c 'echo $PPID'); exit 2) & sleep 0.3; kill -CONT $!; wait $!",
            Some(2),
            None,
        ),
    ] {
        let Some(done) = watched(&["sh", "-c", script]) else { return };
        let status = done.status.unwrap();
        assert_eq!((status.code(), status.signal()), (code, signal), "{script}");
    }
    for program in copies() {
        let (_folder, file) = file();
        let Some(done) = watched(&[program.to_str().unwrap(), "dies", file.to_str().unwrap()]) else {
            return;
        };
        assert_eq!(done.status.unwrap().signal(), Some(libc::SIGSEGV));
        assert_eq!(Sum::of_file(&done, "pread64", &file).calls, 10);
    }
}

#[test]
fn streams_and_scripts() {
    let (_folder, out) = file();
    let script = out.with_file_name("script");
    std::fs::write(
        &script,
        format!("#!/bin/sh\nread line <\"$1\"\necho $line-$2 >'{}'\nexit 9\n", out.display()),
    )
    .unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let lines = out.with_file_name("lines");
    std::fs::write(&lines, "one\ntwo\n").unwrap();
    let Some(done) = watched(&[script.to_str().unwrap(), lines.to_str().unwrap(), "x"]) else { return };
    assert_eq!(done.status.unwrap().code(), Some(9));
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "one-x\n");
    assert_eq!(Sum::of_file(&done, "write", &out).bytes, 6);
    assert!(Sum::of_file(&done, "read", &lines).bytes >= 4);
}

#[test]
fn what_cannot_be_started_is_said() {
    let (_folder, plain) = file();
    for (word, code, reason) in [
        ("/no/such/program", 127, "No such file or directory"),
        (plain.to_str().unwrap(), 126, "Permission denied"),
        ("/", 126, "Permission denied"),
    ] {
        match ptrace::watch(&launch(&[word]), &|| None) {
            Err(TraceError::Refused(refused)) => {
                assert_eq!(
                    (refused.code(), refused.to_string()),
                    (code, format!("cannot run {word}: {reason}"))
                );
            }
            Err(TraceError::Closed(reason)) => eprintln!("skipped: {reason}"),
            other => panic!("{word}: {other:?}"),
        }
    }
}

#[test]
fn signals_of_fsprobe_alone_are_passed_on_and_children_are_waited_for() {
    let sent = Cell::new(false);
    let signal = || (!sent.replace(true)).then_some(libc::SIGTERM);
    let began = Instant::now();
    match ptrace::watch(&launch(&["sh", "-c", "(sleep 1; echo x >/dev/null) & exec sleep 60"]), &signal) {
        Ok(done) => {
            assert_eq!(done.status.unwrap().signal(), Some(libc::SIGTERM));
            assert!(began.elapsed() < Duration::from_secs(30));
            assert_eq!(Sum::of_kind(&done, "write", FileKind::Device).bytes, 2, "by the child left behind");
        }
        Err(error) => eprintln!("skipped: {error}"),
    }
}

#[test]
fn programs_of_32_bits_run_and_are_named() {
    let (_folder, program) = file();
    let number = |value: u32| value.to_le_bytes();
    let head = [b"\x7fELF\x01\x01\x01".as_slice(), &[0; 9], &[2, 0, 3, 0, 1, 0, 0, 0]].concat();
    let sizes = [52, 0, 32, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    let words = [0x0804_8054, 52, 0, 0].map(number).concat();
    let segment = [1, 0, 0x0804_8000, 0x0804_8000, 96, 96, 5, 4096].map(number).concat();
    // exit(3): mov $1, %eax; mov $3, %ebx; int $0x80
    let code = [0xb8, 1, 0, 0, 0, 0xbb, 3, 0, 0, 0, 0xcd, 0x80];
    std::fs::write(&program, [&head, &words, &sizes[..], &segment, &code].concat()).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    if Command::new(&program).status().map_or(None, |status| status.code()) != Some(3) {
        eprintln!("skipped: this kernel runs no 32-bit programs");
        return;
    }
    let Some(done) = watched(&[program.to_str().unwrap()]) else { return };
    assert_eq!(done.status.unwrap().code(), Some(3));
    assert!(done.watched.unseen.iter().any(|unseen| unseen.whose() == "a program's calls (source)"));
}

/// The state of a process as /proc tells it; none where it is gone.
pub fn state(process: &str) -> Option<char> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(process).join("stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Waits until something holds.
pub fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_turn_is_given_back_at_exec() {
    let Some(program) = copies().first() else { return };
    let (_folder, source) = file();
    let words = [program.to_str().unwrap(), "exec-in-a-read", source.to_str().unwrap()];
    let mut watcher = watcher(&words).spawn().unwrap();
    let began = Instant::now();
    while watcher.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(60) {
            watcher.kill().unwrap();
            watcher.wait().unwrap();
            panic!("a child waits for a turn that nobody has");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = std::io::read_to_string(watcher.stdout.take().unwrap()).unwrap();
    assert!(said.contains("ended: Some(0)") || said.contains("is not possible here"), "{said}");
}

#[test]
fn a_killed_watcher_leaves_nothing_stopped() {
    let Some(program) = copies().first() else { return };
    let (_folder, source) = file();
    let told = source.with_file_name("pids");
    let script = format!(
        "'{0}' waits '{1}' & echo $! >'{2}.new'; echo $$ >>'{2}.new'; mv '{2}.new' '{2}'; exec '{0}' waits '{1}'",
        program.display(),
        source.display(),
        told.display()
    );
    let mut watcher = watcher(&["sh", "-c", &script]).spawn().unwrap();
    let began = Instant::now();
    while !told.exists() {
        if watcher.try_wait().unwrap().is_some() {
            eprintln!("skipped: nothing can be watched here");
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    for process in std::fs::read_to_string(&told).unwrap().lines() {
        wait_until("it has ended", || state(process).is_none_or(|state| state == 'Z'));
    }
}

#[test]
fn a_sandbox_that_forbids_it_is_named_with_the_other_ways() {
    for (call, name) in [(libc::SYS_ptrace, "ptrace(2)"), (libc::SYS_seccomp, "seccomp(2)")] {
        let mut command = watcher(&["true"]);
        // SAFETY: the closure makes system calls only.
        unsafe { command.pre_exec(move || forbid(call)) };
        let Ok(output) = command.output() else {
            eprintln!("skipped: no seccomp filter can be set here");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let said = format!(
            "failed: {name} is not possible here (Operation not permitted); a dynamically linked program is watched without by --via preload"
        );
        assert!(text.contains(&said), "{text}");
    }
}
