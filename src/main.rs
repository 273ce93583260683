//! Parses, calls the verb, turns the outcome into an exit code.

use clap::Parser;
use clap::error::ErrorKind;
use fsprobe::sys::reserve::{self, Reserving};
use fsprobe::sys::{child, signals, started};
use fsprobe::{cli, commands};
use signal_hook::low_level;
use std::backtrace::BacktraceStatus;
use std::io::{self, Write};
use std::panic::PanicHookInfo;

/// The system's allocator; where it gives nothing, one line says so.
#[global_allocator]
static ALLOCATOR: Reserving = Reserving;

fn main() {
    std::panic::set_hook(Box::new(own_fault));
    let code = std::panic::catch_unwind(run).unwrap_or_else(|_| reserve::code());
    let _ = io::stdout().flush();
    // not through the libraries' destructors: mimalloc's crashes where it found no memory to begin with
    low_level::exit(code.into())
}

/// What main does, up to the exit code.
fn run() -> u8 {
    child::hear_of_children();
    // where signals cannot be set up, the verbs that need them say so
    let _ = signals::write_past_the_limit_fails();
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    match commands::run(cli.verb) {
        Ok(outcome) => outcome.code(),
        Err(failure) => {
            complain(&failure.to_string());
            failure.code()
        }
    }
}

/// A fault of fsprobe's own as one line; with RUST_BACKTRACE the way to it too.
fn own_fault(info: &PanicHookInfo<'_>) {
    let at = info.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
    let what = text.lines().collect::<Vec<_>>().join(" ");
    complain(
        &commands::Failure::line(format!(
            "internal error{at}: {what} (please report it, unless a sandbox forbids what every program does)"
        ))
        .to_string(),
    );
    let way = std::backtrace::Backtrace::capture();
    if way.status() == BacktraceStatus::Captured {
        let _ = writeln!(io::stderr(), "{way}");
    }
}

/// One line on stderr; where that is closed or full, the exit code has to do.
fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "fsprobe: {line}");
}

/// Help as it is; a usage error as one line with the tip that clap has for it.
fn usage(error: &clap::Error) -> u8 {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let closed = if error.use_stderr() { Ok(()) } else { started::open(1) };
            match closed.and_then(|()| error.print()) {
                // a reader who closed the pipe has read enough
                Err(failed) if failed.kind() != io::ErrorKind::BrokenPipe => {
                    complain(&commands::Failure::Output(failed).to_string());
                    2
                }
                _ => error.exit_code() as u8,
            }
        }
        _ => {
            let text = error.render().to_string();
            let mut paragraphs =
                text.split("\n\n").map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "));
            let first = paragraphs.next().unwrap_or_default();
            let tip =
                paragraphs.find(|p| p.starts_with("tip:")).map(|tip| format!(" ({tip})")).unwrap_or_default();
            // what it quotes of the arguments is not to be trusted
            complain(
                &commands::Failure::line(format!("{}{tip}", first.trim_start_matches("error: "))).to_string(),
            );
            2
        }
    }
}
