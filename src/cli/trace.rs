//! The flags of `fsprobe trace`.

use super::positive;
use crate::report::Via;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// Options of `fsprobe trace`.
#[derive(Debug, Args)]
#[command(after_help = "\
Ways of watching; the best that is open here is chosen, and the output says why:
  sample   Interrupts look at the registers: the distance of every rep movs that
           they meet, and the time spent there. Any program, static or not, its
           threads and children, running or to be started. Costs under 1 %. For
           the kernel's copies: perf_event_paranoid 1 or CAP_PERFMON
  preload  A shared object between the program and its C library counts every
           call. No privilege, next to no cost; not for static, setuid programs
  ptrace   Counts every system call, of static programs too. 5 to 50 µs a call

The command behaves as without fsprobe; its streams are its own. What fsprobe
says goes to stderr after it has ended, or to --output FILE; without a command
to stdout, and Ctrl-C ends the watching.

Exit codes: the command's; 128 and its number after a signal, 127 not found, 126
cannot be run, 125 fsprobe failed. Without a command 0, or 2 after a failure.
With --exit-code: 0 not your problem, 1 affected, 3 cannot tell.

Examples:
  fsprobe trace -- ./app -x file             do its copies land in a slow band?
  fsprobe trace --simulate zen4 -- ./app     what would it lose on a Zen 4?
  fsprobe trace --pid 1234 --time 10         a program that runs already
  fsprobe trace --system --live              all that runs here, like top
  fsprobe trace --via preload --json --output t.json -- ./app  calls, as data")]
pub struct TraceArgs {
    /// A command to start and watch, with its arguments; best after `--`
    #[arg(value_name = "CMD", trailing_var_arg = true, num_args = 1.., conflicts_with_all = ["pid", "system"])]
    pub command: Vec<OsString>,
    /// Watch this process and its threads and children, until it ends, Ctrl-C or --time
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)), conflicts_with = "system", help_heading = "What to watch")]
    pub pid: Option<u32>,
    /// Watch everything that runs here, until Ctrl-C or --time
    #[arg(long, help_heading = "What to watch")]
    pub system: bool,
    /// With --pid and --system: watch for so long
    #[arg(long, allow_negative_numbers = true, value_name = "SECONDS", value_parser = positive, conflicts_with = "command", help_heading = "What to watch")]
    pub time: Option<f64>,
    /// How to watch: sample, preload or ptrace [default: the best one that is open here]
    #[arg(long, value_name = "WAY", help_heading = "What to watch")]
    pub via: Option<Via>,

    /// Take the bands from this report of `sweep` or `check` [default: a check of this machine before the start,
    /// in a fraction of a second]
    #[arg(long, value_name = "FILE", conflicts_with = "simulate", help_heading = "What to compare with")]
    pub report: Option<PathBuf>,
    /// Take the bands of a model: what would the program lose there? zen4, zen3-epyc (as measured by this
    /// project), zen3 (as published), zen5, intel, clean and the others of `check --simulate`
    #[arg(long, value_name = "MODEL", help_heading = "What to compare with")]
    pub simulate: Option<String>,

    /// Show what is seen while it is seen, like top: on stderr, where that is a terminal; with `sample` only
    #[arg(long, help_heading = "Output")]
    pub live: bool,
    /// JSON in place of text, to the same place. It names the program and its files
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Write what fsprobe says into this file; `-` is stdout
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "output", help_heading = "Output")]
    pub force: bool,
    /// Name neither programs nor files, so that the output can go into a public ticket
    #[arg(long, help_heading = "Output")]
    pub anonymous: bool,
    /// End with 0 not your problem, 1 affected, 3 cannot tell, in place of the command's exit code
    #[arg(long, help_heading = "Output")]
    pub exit_code: bool,
    /// Show no progress
    #[arg(long, short, conflicts_with = "live", help_heading = "Output")]
    pub quiet: bool,
}
