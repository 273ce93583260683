//! Parses, calls the verb, turns the outcome into an exit code.

use clap::Parser;
use clap::error::ErrorKind;
use fsprobe::sys::reserve::Reserving;
use fsprobe::sys::{child, signals, started};
use fsprobe::{cli, commands};
use signal_hook::low_level;
use std::io::{self, Write};

/// The system's allocator; where it gives nothing, one line says so.
#[global_allocator]
static ALLOCATOR: Reserving = Reserving;

fn main() {
    let code = run();
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
