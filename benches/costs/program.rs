//! The program as people start it: a default sweep, and how fast it answers.

use crate::table::{Table, median};
use fsprobe::{judge, report};
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Repetitions of whatever takes milliseconds.
const TIMES: usize = 10;

/// How often the memory of a running sweep is looked at.
const GLANCE: Duration = Duration::from_millis(5);

const MIB: f64 = (1 << 20) as f64;

/// fsprobe itself, its output thrown away.
pub fn fsprobe() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsprobe"));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Wall time, memory and report of a default sweep, and what it takes to judge it.
pub fn default_sweep(file: &Path, folder: &Path, table: &mut Table) -> Result<(), Box<dyn Error>> {
    let saved = folder.join("default.json");
    let mut sweep = fsprobe();
    sweep.args(["sweep", "--quiet", "--file"]).arg(file).arg("--output").arg(&saved);
    let began = Instant::now();
    let mut child = sweep.spawn()?;
    let mut peak = 0.0;
    let status = loop {
        peak = peak_bytes(child.id()).unwrap_or(peak);
        match child.try_wait()? {
            Some(status) => break status,
            None => std::thread::sleep(GLANCE),
        }
    };
    let wall = began.elapsed();
    if !status.success() {
        return Err(format!("the default sweep ended with {status}").into());
    }
    table.at_most("default sweep, wall time", wall.as_secs_f64(), 20.0, "s");
    table.at_most("default sweep, peak memory (VmHWM)", peak / MIB, 300.0, "MiB");
    table.at_most("default sweep, report", std::fs::metadata(&saved)?.len() as f64 / 1e6, 4.0, "MB");
    judging(&saved, table)
}

/// The peak of a process's resident memory; none once it has ended.
fn peak_bytes(process: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse::<f64>().ok().map(|kib| kib * 1024.0)
}

fn judging(saved: &Path, table: &mut Table) -> Result<(), Box<dyn Error>> {
    let loaded = report::load(saved)?;
    let judging = times_ms(|| drop(judge::judge(&loaded)));
    table.at_most("judging it, median of 10", judging, 100.0, "ms");
    let loading = times_ms(|| drop(report::load(saved)));
    table.for_information("loading it, median of 10", loading, "ms");
    Ok(())
}

/// How long fsprobe takes to answer.
pub fn start_up(table: &mut Table) -> Result<(), Box<dyn Error>> {
    for (argument, goal) in [("cpu", Some(50.0)), ("--version", None)] {
        if !fsprobe().arg(argument).status()?.success() {
            return Err(format!("fsprobe {argument} failed").into());
        }
        // it has just succeeded: only the time is of interest here
        let wall = times_ms(|| drop(fsprobe().arg(argument).status()));
        let name = format!("fsprobe {argument}, wall time, median of 10");
        match goal {
            Some(goal) => table.at_most(name, wall, goal, "ms"),
            None => table.for_information(name, wall, "ms"),
        }
    }
    Ok(())
}

/// The median of [`TIMES`] runs, in milliseconds.
fn times_ms(mut run: impl FnMut()) -> f64 {
    let one = |_| {
        let began = Instant::now();
        run();
        began.elapsed().as_secs_f64() * 1e3
    };
    median((0..TIMES).map(one).collect())
}
