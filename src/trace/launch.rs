//! A command started so that it behaves as if the shell had started it.

use crate::sys::child::{self, Environment, Preparation};
use std::ffi::OsString;
use std::io;
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
            _ if self.is_own_limit() => 125,
            io::ErrorKind::NotFound => 127,
            _ => 126,
        }
    }

    fn is_own_limit(&self) -> bool {
        matches!(self.error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::EAGAIN))
    }

    fn advice(&self) -> &'static str {
        match self.error.raw_os_error() {
            Some(libc::EAGAIN) => " (no further process may be started; raise ulimit -u)",
            _ if self.is_own_limit() => " (fsprobe needs some itself; raise ulimit -n)",
            _ => "",
        }
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
