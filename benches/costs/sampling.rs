//! The sampling loop: what it adds to the copies, and whether it measures what a bare C loop measures.

use crate::program::fsprobe;
use crate::table::{Table, median};
use clap::Parser;
use fsprobe::cli::{Cli, Verb};
use fsprobe::commands::sweep::measure;
use fsprobe::report::{self, Allocator, Phase};
use fsprobe::sys::cpu;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};

/// Copy paths, and the most that the wall time of their blocks may be of the copies' own time.
const PATHS: [(&str, f64); 2] = [("pread", 1.05), ("read", 1.12)];

/// Sweeps of which the median overhead is taken.
const SWEEPS: usize = 9;

/// Alternations of the C loop and fsprobe, and rounds of each.
const TURNS: u64 = 8;
const ROUNDS: &str = "15";

/// How far the median ratio to the C loop may be from 1.
const WITHIN: f64 = 0.03;

/// Offsets in which a `rep movsb` can be slow are compared apart: neighbouring frames decide there.
const NEAR: std::ops::RangeInclusive<u16> = 0x001..=0x0ff;

/// Offsets at which `rep movsb` alone is compared: the fast one, and one that is slow on an affected CPU.
const MOVSB_AT: [u16; 2] = [0x000, 0x008];

/// Samples by destination offset, in nanoseconds.
type Samples = BTreeMap<u16, Vec<f64>>;

/// The word that makes this program sweep once and print what the sampling cost.
pub const ONE_SWEEP: &str = "one-sweep";

/// Wall time of the 64 KiB blocks of a sweep over the sum of their samples.
pub fn overhead(file: &Path, table: &mut Table) -> Result<(), Box<dyn Error>> {
    for (path, goal) in PATHS {
        let (mut ratios, mut extras) = (Vec::new(), Vec::new());
        for _ in 0..SWEEPS {
            let [ratio, extra] = cost_of_a_sweep(path, file)?;
            ratios.push(ratio);
            extras.push(extra);
        }
        table.at_most(format!("{path} 64 KiB: wall time over samples"), median(ratios), goal, "");
        table.for_information(format!("{path} 64 KiB: overhead of a sample"), median(extras), "ns");
    }
    Ok(())
}

/// Runs [`one_sweep`] in a process of its own, with one thread as fsprobe has: system calls on a file
/// that two threads share cost more.
fn cost_of_a_sweep(path: &str, file: &Path) -> Result<[f64; 2], Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.args([ONE_SWEEP, path]).arg(file).stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    numbers
        .try_into()
        .map_err(|_| format!("a sweep in a process of its own ended with {}", output.status).into())
}

/// Sweeps at 64 KiB and prints the wall time over the sum of the samples, and the nanoseconds that a
/// sample costs beside its copy.
pub fn one_sweep(path: &str, file: &str) -> Result<(), Box<dyn Error>> {
    let words = ["fsprobe", "sweep", "--len", "64K", "--paths", path, "--file", file];
    let Verb::Sweep(args) = Cli::try_parse_from(words)?.verb else {
        return Err("these words ask for no sweep".into());
    };
    let (report, cost) = measure(&args)?;
    let of_cells = report.cells.iter().map(|cell| cell.ns.len()).sum::<usize>();
    let of_controls =
        report.noise.controls.iter().map(|pair| pair.ns_a.len() + pair.ns_b.len()).sum::<usize>();
    let (wall, copied) = (cost.wall_ns as f64, cost.copied_ns as f64);
    println!("{} {}", wall / copied, (wall - copied) / (of_cells + of_controls) as f64);
    Ok(())
}

/// Medians by offset of fsprobe and of the C loop, in turns, on one CPU.
pub fn against_the_yardstick(file: &Path, folder: &Path, table: &mut Table) -> Result<(), Box<dyn Error>> {
    let Some(yardstick) = std::env::var_os("FSPROBE_YARDSTICK") else {
        println!("no yardstick to compare with: bench/run.sh builds it");
        return Ok(());
    };
    for (path, _) in PATHS {
        let Turns { bare, own, bare_overheads } = in_turns(path, Path::new(&yardstick), file, folder)?;
        table.for_information(format!("{path} 64 KiB: the same of the C loop"), median(bare_overheads), "");
        let (near, far) = ratios(bare, own);
        table.near_one(format!("{path} 64 KiB: throughput against the C loop"), median(far), WITHIN);
        table.near_one(format!("{path} 64 KiB: the same at offsets 0x001..0x0ff"), median(near), WITHIN);
    }
    let Turns { mut bare, mut own, .. } = in_turns("rep-movsb", Path::new(&yardstick), file, folder)?;
    for at in MOVSB_AT {
        let (bare, own) = bare.remove(&at).zip(own.remove(&at)).ok_or("an offset was not sampled")?;
        let ratio = median(bare) / median(own);
        table.near_one(
            format!("rep-movsb 64 KiB: throughput against the C loop at {at:#05x}"),
            ratio,
            WITHIN,
        );
    }
    Ok(())
}

/// What the C loop and fsprobe measured in turns, on one CPU.
struct Turns {
    bare: Samples,
    own: Samples,
    bare_overheads: Vec<f64>,
}

fn in_turns(path: &str, yardstick: &Path, file: &Path, folder: &Path) -> Result<Turns, Box<dyn Error>> {
    let cpu = cpu::allowed()?.last().copied().unwrap_or(0).to_string();
    let mut turns = Turns { bare: Samples::new(), own: Samples::new(), bare_overheads: vec![] };
    let saved = folder.join("turn.json");
    for turn in 0..TURNS {
        // who goes first changes, so that a drift hits both alike
        for c in [turn % 2 == 0, turn % 2 != 0] {
            if c {
                let overhead = run_c(yardstick, path, file, &cpu, turn, &mut turns.bare)?;
                turns.bare_overheads.push(overhead);
            } else {
                run_fsprobe(path, file, &cpu, &saved, &mut turns.own)?;
            }
        }
    }
    Ok(turns)
}

/// fsprobe's median throughput over the C loop's, by offset: near ones, and the rest.
fn ratios(bare: Samples, mut own: Samples) -> (Vec<f64>, Vec<f64>) {
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for (dst, samples) in bare {
        if let Some(ours) = own.remove(&dst) {
            let side = if NEAR.contains(&dst) { &mut near } else { &mut far };
            side.push(median(samples) / median(ours));
        }
    }
    (near, far)
}

/// Runs the C loop once and tells its overhead, from the comment that ends its output.
fn run_c(
    program: &Path,
    path: &str,
    file: &Path,
    cpu: &str,
    seed: u64,
    into: &mut Samples,
) -> Result<f64, Box<dyn Error>> {
    let mut command = Command::new(program);
    command.arg(path).arg(file).args([cpu, ROUNDS, &seed.to_string()]);
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{} ended with {}", program.display(), output.status).into());
    }
    let text = String::from_utf8(output.stdout)?;
    for row in text.lines().skip(1).filter(|row| !row.starts_with('#')) {
        let mut fields = row.split(',');
        let dst = fields.next().unwrap_or_default().parse()?;
        let samples = into.entry(dst).or_default();
        for field in fields.skip(2) {
            samples.push(field.parse()?);
        }
    }
    let value = |name: &str| {
        let word = text.split_whitespace().rev().find_map(|word| word.strip_prefix(name));
        word.and_then(|number| number.parse::<f64>().ok()).ok_or(format!("the C loop told no {name}"))
    };
    Ok(value("wall_ns=")? / value("copied_ns=")?)
}

/// Runs fsprobe once on the same cells: memory from mmap, src 0, as many rounds.
fn run_fsprobe(
    path: &str,
    file: &Path,
    cpu: &str,
    saved: &Path,
    into: &mut Samples,
) -> Result<(), Box<dyn Error>> {
    let mut command = fsprobe();
    command.args(["sweep", "--quiet", "--force", "--len", "64K", "--allocators", "pages"]);
    command.args(["--paths", path, "--cpu", cpu, "--rounds", ROUNDS]);
    let status = command.arg("--file").arg(file).arg("--output").arg(saved).status()?;
    if !status.success() {
        return Err(format!("fsprobe sweep ended with {status}").into());
    }
    let report = report::load(saved)?;
    let screened = |cell: &&report::Cell| {
        let phase = report.runs.get(cell.run).map(|run| run.phase);
        phase == Some(Phase::Screen) && cell.allocator == Some(Allocator::Pages) && cell.src == Some(0)
    };
    for cell in report.cells.iter().filter(screened) {
        let Some(dst) = cell.dst else { continue };
        into.entry(dst)
            .or_default()
            .extend(cell.ns.iter().flatten().map(|ns| *ns as f64 / f64::from(cell.repeat)));
    }
    Ok(())
}
