//! Every verb and flag, declared once: parsing and help come from here.

mod cat;
mod exposure;
mod pipe;
mod trace;

pub use cat::CatArgs;
pub use exposure::{BandChoice, ExposureArgs, ExposureFormat};
pub use pipe::{PipeArgs, PipeEndArgs};
pub use trace::TraceArgs;

use crate::report::{Allocator, PathName, UnknownWord};
use crate::sweep::{Length, Offsets};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

/// Finds and explains the page-offset anomaly of `rep movsb` copies on AMD Zen CPUs.
#[derive(Debug, Parser)]
#[command(
    name = "fsprobe",
    version,
    about = "Does this machine copy memory slowly at some page offsets? Where exactly, and why?",
    after_help = "Start with:  fsprobe sweep --file /tmp/64M\n\
        Exit codes: 0 done, 2 a usage or run-time error (one line on stderr), 130 interrupted with what was measured saved.",
    max_term_width = 80
)]
pub struct Cli {
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs that work.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Diagnose: the verdict in a blink, per copy path, with cause and remedies
    Check(CheckArgs),
    /// Diagnose: the page-offset throughput matrix of copy paths, its slow bands flagged to the byte
    Sweep(Box<SweepArgs>),
    /// Diagnose: what this machine is, and what of it decides the copy paths
    Cpu(CpuArgs),
    /// Report: did it change between two reports, and what may be credited?
    Compare(CompareArgs),
    /// My program: do its copies land in a slow band, which calls, and how much time does that cost it?
    Trace(Box<TraceArgs>),
    /// My program: where each allocator puts buffers of each size, and whether that is in a slow band
    Exposure(Box<ExposureArgs>),
    /// Experiment: programs that read one file, and why one is slower than another
    Readers(ReadersArgs),
    /// Report: a saved report for a terminal, a ticket, a forge, a spreadsheet or monitoring
    Report(ReportArgs),
    /// Experiment: files to stdout by the cheapest way that is correct, and how much that saves
    Cat(CatArgs),
    /// Experiment: how fast are Linux pipes here, rung by rung, and which rung's copies can meet a band?
    Pipe(Box<PipeArgs>),
    /// One process of the two that `pipe` starts
    #[command(hide = true)]
    PipeEnd(PipeEndArgs),
}

/// What `report` makes of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// What the verb that recorded it printed
    Terminal,
    /// Plain ASCII in 80 columns for a bug tracker or a mailing list, with a C program that shows the band
    Ticket,
    /// GitHub-flavoured Markdown
    Markdown,
    /// One page to look at, without a network
    Html,
    /// One row a sample
    Csv,
    /// Metrics for Prometheus and others
    Openmetrics,
    /// The report, judged again
    Json,
}

/// Options of `fsprobe report`.
#[derive(Debug, Args)]
#[command(
    after_help = "The report is judged again by this fsprobe's rules; where the verdict is another than the recorded one, the output says so.\n\n\
        Examples:\n  \
        fsprobe report                               the newest report again\n  \
        fsprobe report r.json --format ticket        for a bug tracker or a mailing list\n  \
        fsprobe report r.json --format html --output r.html  to look at\n  \
        fsprobe report r.json --plot profile.png     the profile alone\n  \
        fsprobe report r.json --format csv | gzip > samples.csv.gz"
)]
pub struct ReportArgs {
    /// The report; `-` is stdin [default: the newest one that fsprobe saved by itself]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// What to make of it
    #[arg(long, value_enum, default_value = "terminal")]
    pub format: ReportFormat,
    /// Draw the profile of throughput over page offsets alone, into FILE.svg or FILE.png
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "output"])]
    pub plot: Option<PathBuf>,
    /// Write it here; `-` is stdout [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long)]
    pub force: bool,
}

/// Options of `fsprobe check`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Exit codes: 0 clean, 1 affected, 3 inconclusive, 2 a usage or run-time error, 130 interrupted.\n\n\
        Examples:\n  \
        fsprobe check                    is this machine affected, through which calls, why, and what to do\n  \
        fsprobe check --remedies         try what is said to help, and show what it did here\n  \
        fsprobe check --paths memcpy     one path, at every length that tells anything\n  \
        fsprobe check --simulate zen4    what an affected machine looks like"
)]
pub struct CheckArgs {
    /// Copy paths, each at every length that tells anything, or `all` [default: rep-movsb, avx2, read,
    /// write, pipe-read and memcpy, each at the lengths that tell most]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub paths: Vec<PathChoice>,
    /// Try the remedies for real, in child processes, and show what each did
    #[arg(long)]
    pub remedies: bool,
    /// The CPU to measure on [default: the last one allowed]
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub cpu: Option<u32>,
    /// Seed of every random choice [default: taken from the clock, and recorded]
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub seed: Option<u64>,
    /// The slowdown from which a band is deep, and the machine affected
    #[arg(long, allow_negative_numbers = true, value_name = "FACTOR", default_value = "2.0", value_parser = factor)]
    pub affected_at: f64,
    /// Check a model instead of this machine: zen3, zen4, zen5, intel, clean, zen4-cleared, zen4-masked,
    /// zen4-fixed-glibc, zen4-short, zen4-half, zen4-mended, zen3-epyc or zen3-contradiction, each also with +noisy
    #[arg(long, value_name = "MODEL")]
    pub simulate: Option<String>,
    /// Write JSON to stdout instead of text
    #[arg(long)]
    pub json: bool,
    /// Save the whole report here, raw samples included
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwrite an existing report
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// Options of `fsprobe cpu`.
#[derive(Debug, Args)]
#[command(after_help = "Example: ssh other 'cpuid -1 -r' | fsprobe cpu --dump -")]
pub struct CpuArgs {
    /// Write JSON to stdout instead of text
    #[arg(long)]
    pub json: bool,
    /// Explain the CPU of a CPUID dump instead of this one: the output of `cpuid -r`, or a text with
    /// lines `CPUID 00000007: 00000000-219C97A9-0040068C-00000010`; `-` is stdin
    #[arg(long, value_name = "FILE")]
    pub dump: Option<PathBuf>,
}

/// What `compare` writes to stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// Text of 80 columns, for people
    Terminal,
    /// Markdown, for a forge
    Markdown,
    /// The comparison as data
    Json,
}

/// Options of `fsprobe compare`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 the later report is clean, 1 it is affected, 3 cannot tell, 2 not comparable, or a usage or\n\
        run-time error. 2 and 3 win over 0 and 1.\n\n\
        Both sides are judged again by this fsprobe's rules; deep bands alone decide.\n\n\
        Examples:\n  \
        fsprobe compare before.json after.json                     did the update fix it?\n  \
        fsprobe compare --before b1 b2 b3 --after a1 a2 a3         several runs a side measure the spread between runs\n  \
        fsprobe compare --trend jan.json feb.json mar.json         one line a report, in the order of time"
)]
pub struct CompareArgs {
    /// The earlier report and the later one; with --trend two or more in any order
    #[arg(value_name = "REPORT")]
    pub reports: Vec<PathBuf>,
    /// Reports of the earlier side
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "trend")]
    pub before: Vec<PathBuf>,
    /// Reports of the later side
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "trend")]
    pub after: Vec<PathBuf>,
    /// Each report against the one before it, in the order of time
    #[arg(long)]
    pub trend: bool,
    /// Write JSON to stdout, as --format json does
    #[arg(long)]
    pub json: bool,
    /// What to write to stdout
    #[arg(long, value_enum, default_value = "terminal", conflicts_with = "json")]
    pub format: CompareFormat,
}

/// Options of `fsprobe readers`.
#[derive(Debug, Args)]
#[command(
    after_help = "With --exec fsprobe ends as the command did: with its exit code, 128 and its number after a signal, 127 if it is\n\
        not found, 126 if it cannot be run, 125 after a failure of fsprobe's own.\n\n\
        Examples:\n  \
        fsprobe readers                                  the published table on a 64 MiB file of fsprobe's own\n  \
        fsprobe readers --file /tmp/64M --exec cat {}    and a program of yours; {} stands for the file\n  \
        fsprobe readers --bpftrace > read.bt             the script that shows the same from outside"
)]
pub struct ReadersArgs {
    /// The file to read; never opened for writing. Without it fsprobe makes a 64 MiB file of its own
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// A command to measure beside the others, run many times: its stdin is empty, its stdout discarded, its
    /// stderr shown the first time. A word `{}` stands for the file. Must come last
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true)]
    pub exec: Vec<OsString>,
    /// Complete visits to every reader, in fresh random order
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value = "7", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// The CPU that all run on [default: the last one allowed]
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub cpu: Option<u32>,
    /// Seed of the orders [default: taken from the clock, and recorded]
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub seed: Option<u64>,
    /// Write JSON to stdout instead of text. It names the file and the programs
    #[arg(long)]
    pub json: bool,
    /// Name neither the file nor the programs, so that the output can go into a public ticket
    #[arg(long)]
    pub anonymous: bool,
    /// Write a bpftrace script that shows read latencies by page offset from outside, and measure nothing
    #[arg(long, conflicts_with_all = ["file", "exec", "json"])]
    pub bpftrace: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
    /// What a child process of `readers` does
    #[arg(long, hide = true, requires = "file")]
    pub child: Option<String>,
    /// In which order it does it
    #[arg(long, hide = true, default_value = "0")]
    pub turn: usize,
}

/// How pages back the buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PageKind {
    /// Pages of 4 KiB, transparent huge pages refused
    #[value(name = "4k")]
    Small,
    /// Transparent huge pages asked for
    #[value(name = "thp")]
    Transparent,
    /// Reserved huge pages (with --allocators pages only)
    #[value(name = "hugetlb")]
    Reserved,
}

/// What `sweep` writes to stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The matrix and the verdict, for people
    Terminal,
    /// The report
    Json,
}

/// Options of `fsprobe sweep`.
#[derive(Debug, Args)]
#[command(
    after_help = "Offsets: 0x0-0x1000, 0x0-0x1000:0x10, 0x0..=0x40, or a list by commas. Lengths: 128, 64K, 64KiB, 64M, file.\n\
        A band is deep from --affected-at on (2.0); only deep bands decide. distance = (dst - src) mod 4096.\n\n\
        Examples:\n  \
        fsprobe sweep --file /tmp/64M                      the whole picture in under 20 seconds\n  \
        fsprobe sweep --len 64K --dst 0x0-0x40             a close look at the first offsets\n  \
        fsprobe sweep --paths all --output r.json          every copy path, the report in r.json\n  \
        fsprobe sweep --paths memcpy --len auto            at which lengths memcpy has a band\n  \
        fsprobe sweep --len 4K --dst 0-0x3f --src 0-0x3f   a map of both sides\n  \
        fsprobe sweep --simulate zen4                      what an affected machine looks like"
)]
pub struct SweepArgs {
    /// The file to read; never opened for writing. Without it fsprobe makes a 64 MiB file of its own
    #[arg(long, value_name = "FILE", help_heading = "What to measure")]
    pub file: Option<PathBuf>,
    /// Who places the buffers: glibc, jemalloc, mimalloc, or the control `pages` (mmap) [default: the first
    /// three for read and pread, the first of them for other paths]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "What to measure")]
    pub allocators: Vec<Allocator>,
    /// Copy paths, or `all`: read, pread, readv, preadv, write, pwrite, pipe-read, pipe-write, socket-read,
    /// socket-write, process-vm-read, io-uring-read, mmap, memcpy, rep-movsb, rep-movsq, mov-unrolled, avx2,
    /// avx512, non-temporal, and the controls splice (copies nothing) and zero (only clears)
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "read",
        help_heading = "What to measure"
    )]
    pub paths: Vec<PathChoice>,
    /// Destination page offsets; without --src, all of them stand for the source's where a path writes
    #[arg(long, value_name = "OFFSETS", default_value = "0x0-0x1000", help_heading = "What to measure")]
    pub dst: Offsets,
    /// Source page offsets [default: 0x0, and one sweep of every src at dst 0x0]
    #[arg(long, value_name = "OFFSETS", help_heading = "What to measure")]
    pub src: Option<Offsets>,
    /// Lengths of one copy; `auto`, for paths in user space, finds those at which a band begins and ends
    /// [default: 64K at every offset; 128, 512, 4K on coarser grids, and the whole file for read and pread].
    /// From 1M on copies only test bands found at shorter lengths: with none shorter, 64K is added
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "What to measure")]
    pub len: Vec<Length>,
    /// How pages back the buffers
    #[arg(long, value_enum, default_value = "4k", help_heading = "What to measure")]
    pub pages: PageKind,
    /// Find the page colours instead: the classes of page frames between which `rep movsb` is slow at mild
    /// distances. With --paths rep-movsb
    #[arg(
        long,
        conflicts_with_all = [
            "file", "allocators", "dst", "src", "len", "pages", "first_touch", "rounds", "affected_at", "exit_code",
        ],
        help_heading = "What to measure"
    )]
    pub colours: bool,
    /// Write each sample into fresh pages, so that page faults are part of it
    #[arg(long, help_heading = "What to measure")]
    pub first_touch: bool,

    /// Rounds of the screen phase: complete blocks over all cells, in fresh random order (at whole-file length 7)
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "How to measure")]
    pub rounds: Option<u32>,
    /// Upper bound of the measuring in seconds: whole-file cells first become fewer, then the run stops
    #[arg(long, allow_negative_numbers = true, value_name = "SECONDS", value_parser = positive, help_heading = "How to measure")]
    pub time: Option<f64>,
    /// The CPU to measure on [default: the last one allowed]
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "How to measure")]
    pub cpu: Option<u32>,
    /// Seed of every random choice [default: taken from the clock, and recorded]
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "How to measure")]
    pub seed: Option<u64>,
    /// The slowdown from which a band is deep, and the machine affected
    #[arg(long, allow_negative_numbers = true, value_name = "FACTOR", default_value = "2.0", value_parser = factor, help_heading = "How to measure")]
    pub affected_at: f64,
    /// Measure a model instead of this machine: zen3, zen4, zen5, intel, clean (or one that `check` knows), each
    /// also with +noisy, or FILE.csv, which replays recorded samples (columns dst,src,len,ns0,ns1,…)
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["file", "cpu", "first_touch", "pages"], help_heading = "How to measure")]
    pub simulate: Option<String>,

    /// Save the report here; `-` writes it to stdout [default: a new file in ~/.local/state/fsprobe]
    #[arg(long, value_name = "FILE", conflicts_with = "no_output", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Save no report
    #[arg(long, help_heading = "Output")]
    pub no_output: bool,
    /// Overwrite an existing report
    #[arg(long, help_heading = "Output")]
    pub force: bool,
    /// What to write to stdout
    #[arg(long, value_enum, default_value = "terminal", help_heading = "Output")]
    pub format: Format,
    /// End with 0 clean, 1 affected, 3 inconclusive
    #[arg(long, help_heading = "Output")]
    pub exit_code: bool,
    /// Show no progress
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

/// One word of `--paths`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathChoice {
    /// Every path.
    All,
    /// This one.
    One(PathName),
}

impl FromStr for PathChoice {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word.trim() {
            "all" => Ok(PathChoice::All),
            word => word.parse().map(PathChoice::One).map_err(|e: UnknownWord| format!("{e}, or all")),
        }
    }
}

impl SweepArgs {
    /// The copy paths asked for.
    pub fn chosen_paths(&self) -> Vec<PathName> {
        let of = |choice: &PathChoice| match choice {
            PathChoice::All => PathName::ALL.to_vec(),
            PathChoice::One(path) => vec![*path],
        };
        self.paths.iter().flat_map(of).collect()
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("expected a number of seconds above 0".into()),
    }
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (1.2..=100.0).contains(&value) => Ok(value),
        _ => Err("expected a factor from 1.2 (below, a band is noise or misalignment) to 100".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn flags_are_consistent() {
        Cli::command().debug_assert();
    }
}
