//! The options of `fsprobe cat`.

use crate::cat::Preference;
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use std::path::PathBuf;

/// Options of `fsprobe cat`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0, or 1 if anything went wrong: a file that cannot be read (one line on stderr, and the next\n\
        one follows), an output that cannot be written, or one that its reader closed early (nothing on stderr).\n\
        2 for usage errors and failures of --bench.\n\n\
        Examples:\n  \
        fsprobe cat a b - > all                 files and stdin, one after the other\n  \
        fsprobe cat --explain big | wc -c       which way the bytes took, and why\n  \
        fsprobe cat --bench big                 read/write, splice and the system's cat, side by side"
)]
pub struct CatArgs {
    /// Files to pass to stdout; `-` is stdin [default: stdin]
    // an empty name is looked for, not refused: cat goes on after a missing file
    #[arg(value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub files: Vec<PathBuf>,
    /// Say on stderr which way each file took, why, and how many bytes
    #[arg(long)]
    pub explain: bool,
    /// The way to take
    #[arg(long, value_enum, default_value = "auto", value_name = "WAY")]
    pub way: Preference,
    /// Measure how fast each way passes FILE through a pipe, the system's cat beside them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "explain", "way"])]
    pub bench: Option<PathBuf>,
    /// Rounds of the bench: every way once, in fresh random order
    // clap forgets a requirement whose own conflict is there: so each of these has that conflict, too
    #[arg(long, requires = "bench", conflicts_with = "files", allow_negative_numbers = true, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Seed of the bench's orders [default: taken from the clock, and recorded]
    #[arg(
        long,
        requires = "bench",
        conflicts_with = "files",
        allow_negative_numbers = true,
        value_name = "N"
    )]
    pub seed: Option<u64>,
    /// Write the bench as JSON
    #[arg(long, requires = "bench", conflicts_with = "files")]
    pub json: bool,
}
