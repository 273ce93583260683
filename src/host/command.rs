//! Asks another program, with patience that ends: a fact is never worth a hang.

use std::io::{ErrorKind, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What a program may print at most; the rest is left unread.
const LIMIT: u64 = 1 << 20;

/// How often a program that prints or ends at its own time is looked at.
const POLL: Duration = Duration::from_micros(200);

/// Runs a program and returns what it printed.
///
/// # Errors
/// A reason for people, where it cannot be started, fails, or takes longer than `patience`; in that
/// case it is killed.
pub fn ask(command: &mut Command, patience: Duration) -> Result<String, String> {
    let until = Instant::now() + patience;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot be run: {error}"))?;
    let printed = read_until(&mut child, until);
    let ended = wait_until(&mut child, until);
    match (printed, ended) {
        (Some(bytes), Some(status)) if status.success() => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        (None, Some(status)) if status.success() => Err("its output could not be read".into()),
        (_, Some(status)) => Err(format!("failed ({status})")),
        (_, None) => Err(format!("did not answer within {} ms", patience.as_millis())),
    }
}

/// What the child prints; none if its output is still open when the time has come, or cannot be read.
/// No thread is made for it: each would take address space for a heap of its own, and may be refused.
fn read_until(child: &mut Child, until: Instant) -> Option<Vec<u8>> {
    let mut out = child.stdout.take()?;
    let flags = rustix::fs::fcntl_getfl(&out).ok()?;
    rustix::fs::fcntl_setfl(&out, flags | rustix::fs::OFlags::NONBLOCK).ok()?;
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 << 10];
    while (bytes.len() as u64) < LIMIT {
        match out.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock && Instant::now() < until => {
                std::thread::sleep(POLL);
            }
            Err(_) => return None,
        }
    }
    Some(bytes)
}

/// The child's status; none if it had to be killed.
fn wait_until(child: &mut Child, until: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < until => std::thread::sleep(POLL),
            Ok(None) | Err(_) => break,
        }
    }
    // Either fails only where the child has just ended by itself.
    let _ = child.kill();
    let _ = child.wait();
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_it_prints_comes_back() {
        assert_eq!(ask(Command::new("echo").arg("hello"), LONG).unwrap(), "hello\n");
    }

    #[test]
    fn failure_absence_and_endless_waiting_are_reasons() {
        assert!(ask(&mut Command::new("false"), LONG).unwrap_err().contains("failed"));
        assert!(ask(&mut Command::new("/nonexistent/program"), LONG).unwrap_err().contains("cannot be run"));
        let started = Instant::now();
        let slow = ask(Command::new("sleep").arg("600"), Duration::from_millis(50));
        assert!(slow.unwrap_err().contains("did not answer"));
        assert!(started.elapsed() < LONG);
    }
}
