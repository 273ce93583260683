//! `fsprobe cat`: the bytes of one descriptor passed to another by the cheapest way that is correct.
//!
//! [`End`] says what stands at either end, `way` which ways fit, cheapest first, and `transfer` goes
//! through them: a way that is refused, at the start or in the middle, hands over to the next one, and
//! read(2) with write(2), which comes last, decides what is an error and where the input ends. Ways move
//! the descriptors' own positions, which the kernel advances by what has really passed, so that nothing
//! is lost or repeated at a change. This room may use `sys` and the report's words; it prints nothing.

pub mod bench;
mod buffer;
mod calls;
mod end;
mod pipes;
mod transfer;
mod way;

pub use buffer::Buffer;
pub use end::{End, Sort};
pub use transfer::{Leg, Trouble};
pub use way::{Choice, Preference, Way};

use crate::report::printable;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

/// The longest name of an input that is shown, in characters.
const LONGEST_NAME: usize = 4096;

/// How one input passed.
#[derive(Debug)]
pub struct Passage {
    /// The ways taken, in order, each with its bytes.
    pub legs: Vec<Leg>,
    /// The pipes that were widened, in words.
    pub widened: Vec<String>,
    /// What ended it, if not the input's end.
    pub trouble: Option<Trouble>,
}

/// Passes all that is left of `input` to `output`.
pub fn pass(input: BorrowedFd<'_>, output: BorrowedFd<'_>, by: Preference, buffer: &mut Buffer) -> Passage {
    let stopped = |trouble| Passage { legs: vec![], widened: vec![], trouble: Some(trouble) };
    let (from, to) = match (End::of(input), End::of(output)) {
        (Ok(from), Ok(to)) => (from, to),
        (Err(error), _) => return stopped(Trouble::Read(error)),
        (_, Err(error)) => return stopped(Trouble::Write(error)),
    };
    if from.would_feed_itself(&to) {
        return stopped(Trouble::Loop);
    }
    if from.sort == Sort::File {
        // A hint, which some file systems do not take.
        let _ = rustix::fs::fadvise(input, 0, None, rustix::fs::Advice::Sequential);
    }
    let ways = way::ways(&from, &to, by);
    let widened = match by {
        Preference::Auto if ways[0].way == Way::Splice => pipes::widen(input, &from, output, &to),
        _ => vec![],
    };
    let mut calls = calls::Descriptors { input, output };
    let (legs, end) = transfer::transfer(&mut calls, &ways, from.ending(), buffer);
    Passage { legs, widened, trouble: end.err() }
}

/// What the output's file system tells only at close(2), as those do that write late (NFS, quotas): a
/// duplicate is closed, so that the output itself stays open.
///
/// # Errors
/// The system's, such as no space left.
pub fn finish(output: BorrowedFd<'_>) -> io::Result<()> {
    crate::sys::descriptor::close_duplicate(output)
}

/// The name of an input as messages show it: nothing in it can steer a terminal.
pub fn shown(name: &std::path::Path) -> String {
    printable(&name.to_string_lossy(), LONGEST_NAME)
}

impl fmt::Display for Passage {
    /// `splice, 10 bytes (stdout is a pipe; it holds 1 MiB now)`; several ways are parted by `; then `.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, leg) in self.legs.iter().enumerate() {
            let (separator, bytes) = (if index == 0 { "" } else { "; then " }, leg.bytes);
            let plural = if bytes == 1 { "" } else { "s" };
            write!(out, "{separator}{}, {bytes} byte{plural} ({}", leg.choice.way, leg.choice.why)?;
            for widened in self.widened.iter().filter(|_| leg.choice.way == Way::Splice) {
                write!(out, "; {widened}")?;
            }
            write!(out, ")")?;
            if let Some(left) = &leg.left {
                write!(out, ", {left}")?;
            }
        }
        match (&self.trouble, self.legs.is_empty()) {
            (Some(trouble), true) => write!(out, "nothing passed: {trouble}"),
            (Some(trouble), false) => write!(out, ", until {trouble}"),
            (None, _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
