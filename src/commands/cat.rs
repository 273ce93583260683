//! `fsprobe cat`: files to stdout, or with `--bench` how fast that is, way by way.

use super::document::{Document, Run, now};
use super::sweep::{seed_from_clock, stopped_by};
use super::{Failure, Outcome, print};
use crate::cat::bench::{self, Bench};
use crate::cat::{self, Buffer, Trouble};
use crate::cli::CatArgs;
use crate::host;
use crate::judge;
use crate::render;
use crate::report::CatBench;
use crate::sweep::{SHUFFLE, Stop};
use crate::sys::{signals, started};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Rounds of a bench that are left out: they bring the file into the page cache.
const WARMUP: u32 = 1;

/// Runs the verb.
///
/// # Errors
/// Of `--bench` alone; what goes wrong with a file is told at once, and makes the exit code 1.
pub fn run(args: &CatArgs) -> Result<Outcome, Failure> {
    match &args.bench {
        Some(file) => run_bench(args, file),
        None => Ok(if concatenate(args) { Outcome::Done } else { Outcome::Troubled }),
    }
}

/// Passes every file; false where something went wrong.
fn concatenate(args: &CatArgs) -> bool {
    let stdin_alone = [PathBuf::from("-")];
    let files = if args.files.is_empty() { &stdin_alone[..] } else { &args.files };
    if let Err(error) = started::open(1) {
        complain(&Trouble::Write(error).to_string());
        return false;
    }
    let stdout = io::stdout();
    let mut buffer = Buffer::default();
    let mut all_well = true;
    for file in files {
        match pass(args, file, &stdout, &mut buffer) {
            None => {}
            Some(Trouble::Closed) => return false,
            Some(trouble @ Trouble::Write(_)) => {
                complain(&trouble.to_string());
                return false;
            }
            Some(trouble) => {
                complain(&format!("{}: {trouble}", cat::shown(file)));
                all_well = false;
            }
        }
    }
    if let Err(error) = cat::finish(stdout.as_fd()) {
        complain(&Trouble::Write(error).to_string());
        return false;
    }
    all_well
}

/// Passes one file, and explains how if asked to.
fn pass(args: &CatArgs, file: &Path, stdout: &io::Stdout, buffer: &mut Buffer) -> Option<Trouble> {
    let passage = if bench::is_stdin(file) {
        if let Err(error) = started::open(0) {
            return Some(Trouble::Read(error));
        }
        cat::pass(io::stdin().as_fd(), stdout.as_fd(), args.way, buffer)
    } else {
        match File::open(file) {
            Ok(opened) => cat::pass(opened.as_fd(), stdout.as_fd(), args.way, buffer),
            Err(error) => return Some(Trouble::Read(error)),
        }
    };
    if args.explain {
        complain(&format!("{}: {passage}", cat::shown(file)));
    }
    passage.trouble
}

/// One line on stderr; where that is closed or full, the exit code has to do.
fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "fsprobe: {line}");
}

fn run_bench(args: &CatArgs, file: &Path) -> Result<Outcome, Failure> {
    if bench::is_stdin(file) {
        return Err(Failure::line(
            "--bench passes a file again and again, and stdin only once (name a file)",
        ));
    }
    let began = Instant::now();
    let recorded_at = now();
    let caught = signals::note(&[SIGINT, SIGTERM, SIGHUP]).map_err(Failure::line)?;
    let mut bench = Bench::new(file).map_err(Failure::line)?;
    let seed = args.seed.unwrap_or_else(seed_from_clock);
    let ns = samples(&mut bench, args.rounds, seed, &|| caught.signal().is_some()).map_err(Failure::line)?;
    let stop = stopped_by(&caught);
    let rounds = ns[0].len() as u32;
    let outcome = if stop.is_some() { Outcome::Interrupted } else { Outcome::Done };
    if rounds == 0 {
        return Ok(outcome);
    }
    let cat = summary(&bench, rounds, ns);
    if !args.json {
        print(&render::cat::table(&cat))?;
        return Ok(outcome);
    }
    let document = Document {
        verb: "cat",
        recorded_at: &recorded_at,
        run: Run {
            command: "cat",
            options: RunOptions { bench: "<file>", rounds: args.rounds, json: true },
            shuffle: Some(SHUFFLE),
            seed: Some(seed),
            duration_s: began.elapsed().as_secs_f64(),
            complete: stop.is_none(),
            stopped_by: stop.as_ref().map(Stop::word),
        },
        host: &host::gather(true),
        body: cat,
    };
    print(&document.json()?)?;
    Ok(outcome)
}

/// The nanoseconds of every row, one a round: each round all rows, in a fresh random order. A round that is cut
/// short is thrown away.
fn samples(
    bench: &mut Bench,
    rounds: u32,
    seed: u64,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Vec<u64>>, bench::BenchError> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut order: Vec<usize> = (0..bench.runners.len()).collect();
    let mut ns = vec![vec![]; order.len()];
    for round in 0..rounds + WARMUP {
        order.shuffle(&mut random);
        let mut block = vec![0; order.len()];
        for &row in &order {
            let sample = bench.sample(row);
            if stop() {
                // what ended the sample, too, where it failed
                return Ok(ns);
            }
            block[row] = sample?;
        }
        if round >= WARMUP {
            ns.iter_mut().zip(block).for_each(|(row, sample)| row.push(sample));
        }
    }
    Ok(ns)
}

/// Medians and intervals of every row.
fn summary(bench: &Bench, rounds: u32, ns: Vec<Vec<u64>>) -> CatBench {
    let bytes = bench.bytes();
    let plain = ns[0].clone();
    let rows = bench.runners.iter().zip(ns);
    let rows = rows.map(|(runner, ns)| judge::cat::row(runner.name, runner.what.clone(), bytes, &plain, ns));
    CatBench {
        size: bench.size,
        bytes,
        rounds,
        warmup_discarded: WARMUP,
        cpus: bench.cpus,
        rows: rows.collect(),
        skipped: bench.no_cat.iter().map(|reason| format!("the system's cat: {reason}")).collect(),
    }
}

#[derive(Serialize)]
struct RunOptions {
    bench: &'static str,
    rounds: u32,
    json: bool,
}
