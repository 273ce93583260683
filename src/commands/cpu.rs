//! `fsprobe cpu`: what this machine is, and what of it decides the copy paths.

use super::document::{Document, now};
use super::{Failure, Outcome, print};
use crate::cli::CpuArgs;
use crate::host::{self, Dump};
use crate::render::cpu::{Subject, conclude, text};
use serde::Serialize;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Instant;

/// Runs the verb.
///
/// # Errors
/// Where the dump cannot be read or explained, or output cannot be written.
pub fn run(args: &CpuArgs) -> Result<Outcome, Failure> {
    let started = Instant::now();
    let recorded_at = now();
    let (host, subject) = match &args.dump {
        None => (host::gather(true), Subject::Machine),
        Some(file) => (host::of_dump(&read_dump(file)?), Subject::Dump),
    };
    if args.json {
        let document = Document {
            verb: "cpu",
            recorded_at: &recorded_at,
            run: Run {
                command: "cpu",
                options: RunOptions { json: true, dump: args.dump.as_ref().map(|_| "<file>") },
                duration_s: started.elapsed().as_secs_f64(),
            },
            host: &host,
            body: conclude(&host, subject),
        };
        print(&document.json()?)?;
    } else {
        print(&text(&host, subject))?;
    }
    Ok(Outcome::Done)
}

#[derive(Serialize)]
struct Run {
    command: &'static str,
    options: RunOptions,
    duration_s: f64,
}

#[derive(Serialize)]
struct RunOptions {
    json: bool,
    dump: Option<&'static str>,
}

fn read_dump(file: &Path) -> Result<Dump, Failure> {
    if file == Path::new("-") {
        return Dump::read(io::stdin().lock())
            .map_err(|error| Failure::line(format!("the dump on stdin {error}")));
    }
    // Quoted with escapes, so that the error stays one line whatever the name holds.
    let opened =
        File::open(file).map_err(|error| Failure::line(format!("cannot open the dump {file:?}: {error}")))?;
    Dump::read(opened).map_err(|error| Failure::line(format!("the dump {file:?} {error}")))
}
