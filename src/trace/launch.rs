//! A command started so that it behaves as if the shell had started it.

use crate::sys::child::{self, Environment, Preparation};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Child, Command};

/// What to start.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The command and its arguments.
    pub words: Vec<OsString>,
    /// What is added to its environment.
    pub environment: Vec<(OsString, OsString)>,
}

/// Why a command could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot run {}: {}{}", if name.is_empty() { "''" } else { name.as_str() }, crate::sys::reason(.error), self.advice())]
pub struct Refused {
    /// The command's name.
    pub name: String,
    /// The system's reason.
    pub error: io::Error,
}

impl Refused {
    /// The exit code of the contract: 127 where it is not there, 126 where it cannot be executed, 125 where fsprobe itself
    /// may have too few descriptors or processes to start it.
    pub fn code(&self) -> u8 {
        match self.error.kind() {
            _ if is_own_limit(&self.error) => 125,
            io::ErrorKind::NotFound => 127,
            _ => 126,
        }
    }

    fn advice(&self) -> &'static str {
        // where the file is there, exec looked for another one
        let is_there = self.name.contains('/') && Path::new(&self.name).exists();
        if self.error.kind() == io::ErrorKind::NotFound && is_there {
            return " (the interpreter or loader that it names is missing)";
        }
        advice(&self.error)
    }
}

fn is_own_limit(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::EAGAIN))
}

/// What to do about a limit that fsprobe itself has met; empty for other errors.
pub fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => " (no further process or thread may be started; raise ulimit -u)",
        _ if is_own_limit(error) => " (fsprobe needs some itself; raise ulimit -n)",
        _ => "",
    }
}

impl Launch {
    /// Starts the command in fsprobe's own process group, terminal and streams, prepared so.
    ///
    /// # Errors
    /// With the command's name, where the system refuses.
    pub fn start(&self, preparation: Preparation) -> Result<Child, Refused> {
        let name = self.words.first().cloned().unwrap_or_default();
        let mut command = Command::new(&name);
        command.args(self.words.iter().skip(1));
        child::leave_closed(&mut command);
        child::leave_deaf(&mut command);
        Environment::with(&self.environment).of(&mut command);
        preparation.of(&mut command);
        command.spawn().map_err(|error| Refused { name: name.to_string_lossy().into_owned(), error })
    }
}
