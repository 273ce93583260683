//! The binary as users run it, in a home of its own.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod shell;

use fsprobe::report::{Noise, Report, Tool};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A temporary folder with a source file of `size` bytes.
pub struct Place {
    pub folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file of so many bytes.
    pub fn file(&self, name: &str, size: usize) -> PathBuf {
        let path = self.path(name);
        let bytes: Vec<u8> = (0..size).map(|i| (i * 31 + i / 251) as u8).collect();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// fsprobe with its state in this place.
    pub fn fsprobe(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsprobe"));
        command.args(args).env("XDG_STATE_HOME", self.path("state")).env_remove("GLIBC_TUNABLES");
        heeding(&mut command);
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.fsprobe(args).output().unwrap()
    }
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Has a command heed the signals that end programs, as it would in a terminal: where the tests run as a background
/// job or under nohup, they are ignored, and so they would be in what is started.
pub fn heeding(command: &mut Command) {
    let reset = || {
        for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: a plain number, and no handler of this program's.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls only.
    unsafe { command.pre_exec(reset) };
}

/// The one line of a failure: exit code 2, nothing on stdout, one line on stderr that holds `parts`.
#[track_caller]
pub fn assert_fails(output: &Output, parts: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{text}{}", stdout(output));
    assert_eq!(stdout(output), "", "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("fsprobe: "), "{text}");
    for part in parts {
        assert!(text.contains(part), "no '{part}' in: {text}");
    }
    assert!(!text.contains("panicked"), "{text}");
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The report in a file, as loaded by the library.
pub fn report(path: &Path) -> fsprobe::report::Report {
    fsprobe::report::load(path).unwrap()
}

/// Waits until a sweep has read so many bytes: it is sampling then.
pub fn wait_until_read(child: &std::process::Child, bytes: u64) {
    let io = format!("/proc/{}/io", child.id());
    let read = || {
        let text = std::fs::read_to_string(&io).ok()?;
        text.lines().find_map(|l| l.strip_prefix("rchar: "))?.parse::<u64>().ok()
    };
    let began = Instant::now();
    while read().is_none_or(|r| r < bytes) && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A sweep's report by the binary, with what differs from run to run made equal.
pub fn swept(args: &[&str]) -> Report {
    let place = Place::new();
    let saved = place.path("r.json");
    let args = [&["sweep", "--quiet", "--seed", "1", "--output", text(&saved)], args].concat();
    assert!(place.run(&args).status.success());
    let mut report = report(&saved);
    report.tool = Tool { version: "0.1.0".into(), commit: None, target: "x86_64-unknown-linux-gnu".into() };
    report.recorded_at = "2026-11-30T10:00:00Z".into();
    (report.run.seed, report.run.duration_s) = (1, 1.0);
    report.noise = Noise { floors: report.noise.floors, ..Noise::default() };
    report
}

/// A real Zen 4's samples, affected.
pub fn recorded() -> Report {
    swept(&["--simulate", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/zen4-read-64KiB-dst.csv")])
}

pub fn simulated_clean() -> Report {
    swept(&["--simulate", "clean", "--len", "64K"])
}

/// Has the kernel answer a system call with EPERM from now on.
pub fn forbid(call: libc::c_long) -> std::io::Result<()> {
    filter([call; 3], libc::SECCOMP_RET_ERRNO | libc::EPERM as u32)
}

/// Has the kernel end whoever makes one of these system calls from now on.
pub fn end_at(calls: [libc::c_long; 3]) -> std::io::Result<()> {
    filter(calls, libc::SECCOMP_RET_KILL_PROCESS)
}

/// The filter is set by prctl(2).
fn filter(calls: [libc::c_long; 3], answer: u32) -> std::io::Result<()> {
    let word = |code: u32, jt, k| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    let is = |call, jt| word(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jt, call as u32);
    let mut filter = [
        word(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        is(calls[0], 3),
        is(calls[1], 2),
        is(calls[2], 1),
        word(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
        word(libc::BPF_RET | libc::BPF_K, 0, answer),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: plain numbers, and a program of as many words as it says, which the kernel copies.
    let failed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
    };
    if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}
