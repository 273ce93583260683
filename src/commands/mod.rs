//! One file a verb: it gathers facts, runs the pipeline and prints what `render` made.
//!
//! Only this room knows all the others. What goes wrong is one line for people; what a run found is
//! an [`Outcome`], which main turns into the exit code.

pub mod cat;
pub mod check;
pub mod compare;
pub mod cpu;
mod destination;
mod document;
pub mod exposure;
mod folder;
pub mod pipe;
pub mod readers;
pub mod report;
pub mod sweep;
pub mod trace;

use crate::cli::Verb;
use crate::render::terminal::Style;
use crate::report::{State, printable};
use crate::sys::started;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// How a verb ended, where it did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Exit code 0.
    Done,
    /// Exit code 1, where the verb's exit codes tell the state.
    Affected,
    /// Exit code 1: something went wrong, as told on stderr, and the rest was done (`cat`).
    Troubled,
    /// Exit code 3, where the verb's exit codes tell the state.
    Inconclusive,
    /// Exit code 130: interrupted, what was measured is saved.
    Interrupted,
    /// The exit code of the command that was run.
    OfCommand(u8),
}

impl Outcome {
    /// A state, where the verb's exit codes tell it.
    pub fn of_state(state: State) -> Outcome {
        match state {
            State::Clean => Outcome::Done,
            State::Affected => Outcome::Affected,
            State::Inconclusive => Outcome::Inconclusive,
        }
    }

    /// As a command ended, as shells tell it: its exit code, or 128 and its signal's number.
    pub fn of(status: ExitStatus) -> Outcome {
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        Outcome::OfCommand(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(125))
    }

    /// The exit code of the contract.
    pub fn code(self) -> u8 {
        match self {
            Outcome::Done => 0,
            Outcome::Affected | Outcome::Troubled => 1,
            Outcome::Inconclusive => 3,
            Outcome::Interrupted => 130,
            Outcome::OfCommand(code) => code,
        }
    }
}

/// Characters of a failure's line.
const LONGEST_LINE: usize = 4000;

/// Why a verb failed: one line for stderr, and the exit code.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The line, with what to do about it.
    #[error("{0}")]
    Line(String),
    /// Output could not be written.
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
    /// A verb that ends as a command does could not run it.
    #[error("{line}")]
    Command {
        /// 125 for a failure of fsprobe's own, 126 not executable, 127 not found: as env(1) does.
        code: u8,
        /// The line, with what to do about it.
        line: String,
    },
}

impl Failure {
    /// A failure with its line.
    pub fn line(text: impl ToString) -> Self {
        // whatever a message quotes is not to be trusted
        Failure::Line(printable(&without_numbers(&text.to_string()), LONGEST_LINE))
    }

    /// The same failure of a verb that ends as a command does: the codes 0 to 124 are the command's.
    pub fn beside_a_command(self) -> Self {
        match self {
            Failure::Command { .. } => self,
            other => Failure::Command { code: 125, line: other.to_string() },
        }
    }

    /// The exit code of the contract.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Command { code, .. } => *code,
            Failure::Line(_) | Failure::Output(_) => 2,
        }
    }
}

/// A message without ` (os error 2)`, which says nothing to people that the words before it do not.
fn without_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(')').map_or(part, |(_, rest)| rest))
}

/// Runs a verb.
pub fn run(verb: Verb) -> Result<Outcome, Failure> {
    match verb {
        Verb::Cat(args) => cat::run(&args),
        Verb::Check(args) => check::run(&args),
        Verb::Compare(args) => compare::run(&args),
        Verb::Cpu(args) => cpu::run(&args),
        Verb::Exposure(args) => exposure::run(&args),
        Verb::Pipe(args) => pipe::run(&args),
        Verb::PipeEnd(args) => pipe::end(&args),
        Verb::Readers(args) => readers::run(&args),
        Verb::Report(args) => report::run(&args),
        Verb::Sweep(args) => sweep::run(&args),
        Verb::Trace(args) => trace::run(&args),
    }
}

/// How to write for people: in colour on a terminal that has it, unless `NO_COLOR` says no.
fn style(is_terminal: bool) -> Style {
    let unset = |name: &str| std::env::var_os(name).is_none_or(|v| v.is_empty());
    let plain = std::env::var_os("TERM").is_none_or(|t| t.is_empty() || t == "dumb");
    Style { colour: is_terminal && unset("NO_COLOR") && !plain, ..Style::default() }
}

/// Writes to stdout whole. A reader who closed the pipe has seen enough, and the exit code still tells
/// the verdict.
pub fn print(text: &str) -> Result<(), Failure> {
    started::open(1)?;
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_errors_are_left_out() {
        let told = Failure::line("cannot read a: No such file (os error 2); b: no (os error 13)").to_string();
        assert_eq!(told, "cannot read a: No such file; b: no");
        assert_eq!(Failure::line("odd (os error ").to_string(), "odd");
    }
}
