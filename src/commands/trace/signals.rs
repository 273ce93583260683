//! Signals while something is watched: a command's are its own, without one they end the watching.

use crate::commands::Failure;
use crate::sys::signals::{self, Caught};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a terminal sends to the whole process group, so that the command has it already; from anybody else it is for
/// fsprobe alone.
const OF_GROUP: [i32; 2] = [SIGINT, SIGQUIT];

/// What others send to fsprobe alone, and mean the command.
const PASSED_ON: [i32; 4] = [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];

/// What a signal does.
pub enum Signals {
    /// A command runs: fsprobe outlives them all, and passes on what was sent to it alone.
    OfCommand {
        /// Signals to pass on.
        sent: Vec<(i32, Arc<AtomicBool>)>,
        /// Whether an interrupt came, from whomever.
        interrupted: Arc<AtomicBool>,
    },
    /// The first one ends the watching.
    Ending(Arc<Caught>),
}

impl Signals {
    /// For a command. What is ignored stays ignored, so that the command ignores it too.
    pub fn of_command() -> Result<Signals, Failure> {
        // whoever watches by ptrace may need more time than what it watches
        signals::outlive_the_limit_of_time().map_err(Failure::line)?;
        let interrupted = Arc::new(AtomicBool::new(false));
        let mut sent = Vec::new();
        for number in heeded(&OF_GROUP) {
            let alone = Arc::new(AtomicBool::new(false));
            signals::note_sender(number, Arc::clone(&interrupted), Arc::clone(&alone))
                .map_err(Failure::line)?;
            sent.push((number, alone));
        }
        for number in heeded(&PASSED_ON) {
            let came = Arc::new(AtomicBool::new(false));
            flag::register(number, Arc::clone(&came)).map_err(Failure::line)?;
            sent.push((number, came));
        }
        Ok(Signals::OfCommand { sent, interrupted })
    }

    /// For what runs already.
    pub fn ending() -> Result<Signals, Failure> {
        signals::note(&[SIGINT, SIGTERM, SIGHUP]).map(Signals::Ending).map_err(Failure::line)
    }

    /// A signal that the command has not got yet.
    pub fn to_pass_on(&self) -> Option<i32> {
        match self {
            Signals::OfCommand { sent, .. } => {
                let came = |(_, came): &&(i32, Arc<AtomicBool>)| came.swap(false, Ordering::SeqCst);
                sent.iter().find(came).map(|(number, _)| *number)
            }
            Signals::Ending(_) => None,
        }
    }

    /// The signal that ends fsprobe before a command has been started, by its number.
    pub fn end_before(&self) -> Option<i32> {
        let Signals::OfCommand { sent, interrupted } = self else { return None };
        let came =
            |number: i32| sent.iter().any(|(other, came)| *other == number && came.load(Ordering::SeqCst));
        let other = [SIGTERM, SIGHUP, SIGQUIT].into_iter().find(|number| came(*number));
        other.or_else(|| interrupted.load(Ordering::SeqCst).then_some(SIGINT))
    }

    /// Whether a signal asked for the end: before a command has been started, or of watching.
    pub fn ended(&self) -> bool {
        match self {
            Signals::OfCommand { sent, interrupted } => {
                let is_end = |(number, came): &(i32, Arc<AtomicBool>)| {
                    [SIGTERM, SIGHUP].contains(number) && came.load(Ordering::SeqCst)
                };
                interrupted.load(Ordering::SeqCst) || sent.iter().any(is_end)
            }
            Signals::Ending(caught) => caught.signal().is_some(),
        }
    }
}

fn heeded(numbers: &[i32]) -> impl Iterator<Item = i32> {
    numbers.iter().copied().filter(|number| !signals::is_ignored(*number))
}
