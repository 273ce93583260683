//! One way after another, until the input's end: the part that must neither lose nor repeat a byte.

use super::buffer::Buffer;
use super::calls::{Calls, Wait};
use super::way::{Choice, Way};
use crate::sys::reason;
use std::io::{self, ErrorKind};

/// Calls in a row that may find a side not ready although both were said to be, before read/write is
/// taken, which knows the side it waits for.
const PATIENCE: u32 = 100;

/// What one way did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// The way, and why it was taken.
    pub choice: Choice,
    /// Bytes that passed on it.
    pub bytes: u64,
    /// Why it was left for the next one, if it was.
    pub left: Option<String>,
}

/// What ended a passage before the input did.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The input cannot be read; the next one may.
    #[error("{}", reason(.0))]
    Read(io::Error),
    /// The output cannot be written: nothing more can pass.
    #[error("write error: {}", reason(.0))]
    Write(io::Error),
    /// The reader has closed the pipe or socket: it has read enough.
    #[error("the reader has closed the pipe")]
    Closed,
    /// The output is the input, and would grow as long as it is read.
    #[error("input file is output file")]
    Loop,
}

/// What is known of an input's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It is met once and final, as that of a pipe.
    Once,
    /// It is to be expected after so many bytes, and read(2) has the last word: some file systems let
    /// other calls say 0 for files that hold more (copy_file_range(2) on /proc and FUSE, its manual's BUGS).
    /// Not asked of the others, since splice(2) waits for room in a full pipe before it sees an end.
    After(u64),
}

/// Passes everything by the given ways, the last of which is read/write.
pub(super) fn transfer(
    calls: &mut impl Calls,
    ways: &[Choice],
    ending: Ending,
    buffer: &mut Buffer,
) -> (Vec<Leg>, Result<(), Trouble>) {
    let mut legs: Vec<Leg> = vec![];
    let mut left = match ending {
        Ending::Once => u64::MAX,
        Ending::After(bytes) => bytes,
    };
    let mut at_end = false;
    for &choice in ways {
        if choice.way != Way::ReadWrite && at_end {
            continue;
        }
        let mut leg = Leg { choice, bytes: 0, left: None };
        let ended = match choice.way {
            Way::ReadWrite => read_and_write(calls, buffer, &mut leg.bytes).map(|()| true),
            _ => pass(calls, &mut leg, left),
        };
        left = left.saturating_sub(leg.bytes);
        // the read that only confirms an end is not worth telling
        if !(at_end && leg.bytes == 0 && ended.is_ok()) {
            legs.push(leg);
        }
        match ended {
            Err(trouble) => return (legs, Err(trouble)),
            Ok(true) if ending == Ending::Once => break,
            Ok(ended) => at_end = ended,
        }
    }
    (legs, Ok(()))
}

/// One way within the kernel, until the input's end or `left` bytes (true), or until it is refused (false).
/// Whatever the refusal is, the next way finds both sides where this one left them, and tells it if it is
/// an error.
fn pass(calls: &mut impl Calls, leg: &mut Leg, left: u64) -> Result<bool, Trouble> {
    let mut waits = 0;
    while leg.bytes < left {
        match calls.pass(leg.choice.way) {
            Ok(0) => return Ok(true),
            Ok(bytes) => {
                leg.bytes += bytes as u64;
                waits = 0;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Err(Trouble::Closed),
            Err(error) if error.kind() == ErrorKind::WouldBlock && waits < PATIENCE => {
                waits += 1;
                calls.wait(Wait::Both).map_err(Trouble::Read)?;
            }
            Err(error) => {
                leg.left = Some(format!("refused: {}", reason(&error)));
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// read(2) and write(2) until the input's end.
fn read_and_write(calls: &mut impl Calls, buffer: &mut Buffer, passed: &mut u64) -> Result<(), Trouble> {
    let (read_at, write_at) = calls.positions();
    loop {
        let part = buffer.between(read_at.wrapping_add(*passed), write_at.wrapping_add(*passed));
        let count = ready(calls, Wait::Input, |calls| calls.read(part)).map_err(Trouble::Read)?;
        if count == 0 {
            return Ok(());
        }
        write_all(calls, &part[..count], passed)?;
    }
}

fn write_all(calls: &mut impl Calls, mut part: &[u8], passed: &mut u64) -> Result<(), Trouble> {
    while !part.is_empty() {
        match ready(calls, Wait::Output, |calls| calls.write(part)) {
            Ok(0) => return Err(Trouble::Write(ErrorKind::WriteZero.into())),
            Ok(count) => {
                part = &part[count..];
                *passed += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Err(Trouble::Closed),
            Err(error) => return Err(Trouble::Write(error)),
        }
    }
    Ok(())
}

/// Repeats a call until it is neither interrupted nor would have to wait.
fn ready<C: Calls>(
    calls: &mut C,
    side: Wait,
    mut call: impl FnMut(&mut C) -> io::Result<usize>,
) -> io::Result<usize> {
    loop {
        match call(calls) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => calls.wait(side)?,
            other => return other,
        }
    }
}

#[cfg(test)]
mod moods;
