//! Parses, calls the verb, turns the outcome into an exit code.

use clap::Parser;
use fsprobe::{cli, commands};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match commands::run(cli.verb) {
        Ok(outcome) => ExitCode::from(outcome.code()),
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("fsprobe: {failure}");
            ExitCode::from(2)
        }
    }
}
