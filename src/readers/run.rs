//! One run of one child process: bare, or under the tracer.

use super::watch::{FileId, Seen, Watch};
use crate::sys::child::{self, Ended, Preparation};
use crate::sys::{clock, reason, sandbox, tracer};
use serde::de::DeserializeOwned;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The child that runs at the moment, for whoever may have to end it; 0 where none does.
pub type Running = Arc<AtomicU32>;

/// What a run came to.
#[derive(Debug)]
pub struct Ran<T> {
    /// Nanoseconds from before the start of the process to its end.
    pub process_ns: u64,
    /// How it ended.
    pub ended: Ended,
    /// What it wrote to stdout.
    pub told: T,
    /// What the tracer saw; none of a bare run.
    pub seen: Option<Seen>,
}

/// Runs the command, its stdout discarded, `file` watched where one is named.
pub fn silent(
    mut command: Command,
    refuse_huge: Option<bool>,
    file: Option<FileId>,
    running: &Running,
) -> io::Result<Ran<()>> {
    command.stdout(Stdio::null());
    run(command, refuse_huge, file, running).map(|(ran, _)| ran)
}

/// Runs the command and parses the line that it answers with.
///
/// # Errors
/// As one line: it cannot be started, ended otherwise than well, or said what went wrong.
pub fn answering<T: DeserializeOwned>(
    mut command: Command,
    refuse_huge: Option<bool>,
    file: Option<FileId>,
    running: &Running,
) -> Result<Ran<T>, String> {
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let (ran, mut process) = run(command, refuse_huge, file, running)
        .map_err(|error| format!("it cannot be run: {}", reason(&error)))?;
    let mut text = String::new();
    // An answer is one short line, which fits the pipe, so the child has not waited for its reader.
    if let Some(out) = process.stdout.as_mut() {
        out.read_to_string(&mut text).map_err(|error| reason(&error))?;
    }
    match serde_json::from_str::<Result<T, String>>(&text) {
        Ok(told) => {
            let told = told?;
            Ok(Ran { process_ns: ran.process_ns, ended: ran.ended, told, seen: ran.seen })
        }
        Err(_) => Err(format!("it ended with {} and no answer", ran.ended.status)),
    }
}

fn run(
    mut command: Command,
    refuse_huge_pages: Option<bool>,
    file: Option<FileId>,
    running: &Running,
) -> io::Result<(Ran<()>, Child)> {
    if file.is_some() {
        sandbox::lets(libc::SYS_ptrace)?;
    }
    // A group of its own, so that a signal reaches whatever it starts as well.
    command.stdin(Stdio::null()).process_group(0);
    Preparation { traced: file.is_some(), ends_with_parent: true, refuse_huge_pages, gate: None }
        .of(&mut command);
    let before_ns = clock::now_ns();
    let process = command.spawn()?;
    running.store(process.id(), Ordering::SeqCst);
    let followed = match file {
        None => {
            let ended = child::wait(process.id());
            // what it left running would disturb the next run, and outlive fsprobe
            child::signal_group(process.id(), libc::SIGKILL);
            ended.map(|ended| (ended, None))
        }
        Some(file) => {
            let mut watch = Watch::of(file);
            tracer::follow(process.id(), &mut watch).map(|ended| (ended, Some(watch.seen())))
        }
    };
    let process_ns = clock::now_ns().saturating_sub(before_ns);
    running.store(0, Ordering::SeqCst);
    let (ended, seen) = followed?;
    Ok((Ran { process_ns, ended, told: (), seen }, process))
}

/// A word of the command, with the file's name for each `{}`, as find(1) has it.
pub fn with_file(word: &OsStr, file: &Path) -> OsString {
    let (mut out, mut rest) = (Vec::new(), word.as_bytes());
    while let Some(at) = rest.windows(2).position(|pair| pair == b"{}") {
        out.extend(&rest[..at]);
        out.extend(file.as_os_str().as_bytes());
        rest = &rest[at + 2..];
    }
    out.extend(rest);
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn answers_and_what_takes_their_place() {
        let running = Running::default();
        let told = |script: &str| answering::<u32>(sh(script), None, None, &running).map(|ran| ran.told);
        assert_eq!(told("echo '{\"Ok\":5}'"), Ok(5));
        assert_eq!(told("echo '{\"Err\":\"no\"}'"), Err("no".into()));
        assert!(told("exit 3").unwrap_err().contains("exit status: 3 and no answer"));
        let missing = answering::<u32>(Command::new("/no/such"), None, None, &running).unwrap_err();
        assert_eq!(missing, "it cannot be run: No such file or directory");
        assert_eq!(running.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn the_files_name_stands_for_braces_anywhere() {
        let word = |word: &str| with_file(OsStr::new(word), Path::new("/a b"));
        assert_eq!(
            [word("{}"), word("if={}"), word("{}{"), word("{ }")],
            ["/a b", "if=/a b", "/a b{", "{ }"]
        );
    }

    #[test]
    fn what_a_command_leaves_running_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let script = format!("(sleep 0.3; touch {}) & exit 0", mark.display());
        silent(sh(&script), None, None, &Running::default()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(600));
        assert!(!mark.exists());
    }

    #[test]
    fn ends_and_times_of_silent_commands() {
        let ran = silent(sh("echo hidden; kill -TERM $$"), Some(true), None, &Running::default());
        // A kernel that cannot refuse huge pages says so at the start.
        if let Ok(ran) = ran {
            assert_eq!(ran.ended.status.signal(), Some(15));
            assert!(ran.process_ns > 0 && ran.seen.is_none());
        }
    }
}
