//! Job control: where the command stops, fsprobe stops as well, so that the shell that watches it gets the terminal, as
//! without fsprobe. What the terminal's stop key does is the command's to say.

use crate::sys::signals::{self, Outlived};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::time::Duration;

/// How long a shell may take to continue every process of a job.
const ALL_CONTINUED: Duration = Duration::from_millis(10);

/// A command as a part of fsprobe's job, from before it is started.
pub struct Job {
    _key: Outlived,
}

impl Job {
    /// From here on the stop key does nothing to fsprobe itself.
    pub fn begin() -> Job {
        Job { _key: Outlived::begin(libc::SIGTSTP) }
    }

    /// Stops where the command is stopped and a shell watches for that; returns once continued, and has the command go on
    /// too where it has not. To be called now and then.
    pub fn follow(&self, command: Pid) {
        if let Some(signal) = stopped(command)
            && signals::is_watched_job()
        {
            signals::stop_here(signal);
            std::thread::sleep(ALL_CONTINUED);
            if stopped(command).is_some() {
                // whoever continued fsprobe alone means the command; it may have ended meanwhile
                let _ = kill_process(command, Signal::CONT);
            }
        }
    }
}

/// The signal by which a child is stopped now.
fn stopped(child: Pid) -> Option<i32> {
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(child), options).ok()??.stopping_signal()
}
