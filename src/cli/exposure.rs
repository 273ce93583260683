//! The options of `fsprobe exposure`.

use crate::exposure::LONGEST;
use crate::report::{Allocator, MetBand, PAGE};
use crate::sweep::Length;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::str::FromStr;

/// What `exposure` makes of what it saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExposureFormat {
    /// Text of 80 columns, for people
    Terminal,
    /// One page to look at, without a network
    Html,
    /// Every offset as data
    Json,
}

/// Options of `fsprobe exposure`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 done, 2 a usage or run-time error, 130 interrupted.\n\n\
        Examples:\n  \
        fsprobe exposure                             where each allocator puts buffers of each size\n  \
        fsprobe exposure --simulate zen4             the same, and what it would cost on a Zen 4\n  \
        fsprobe exposure --len 1M --allocators jemalloc,glibc --processes 16\n  \
        fsprobe exposure --preload /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4\n  \
        fsprobe exposure --format html --output exposure.html")]
pub struct ExposureArgs {
    /// Lengths of the buffers, up to 1G [default: powers of two from 4K to 64M, and 5000, 20000, 100000,
    /// 1000000, 10000000 and 50000000]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = length, help_heading = "What to measure")]
    pub len: Vec<u64>,
    /// Whose buffers: glibc, jemalloc, mimalloc, or the control `pages` (mmap) [default: the first three]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "What to measure")]
    pub allocators: Vec<Allocator>,
    /// Also a shared object that replaces malloc, by its path; may be given several times
    #[arg(long, value_name = "LIB.so", help_heading = "What to measure")]
    pub preload: Vec<PathBuf>,
    /// Child processes in which each allocator is asked in each way
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u32).range(1..=64), help_heading = "What to measure")]
    pub processes: u32,

    /// The slow offsets: `auto` takes the deep bands of the last report, or of a quick check now where that is
    /// of no use; or FROM-TO, such as 0x1-0xf
    #[arg(long, value_name = "auto|FROM-TO", default_value = "auto", help_heading = "What to compare with")]
    pub band: BandChoice,
    /// The deep bands of this report
    #[arg(long, value_name = "FILE", help_heading = "What to compare with")]
    pub report: Option<PathBuf>,
    /// The deep bands of a model, as for `check`: zen4, zen3-epyc (as measured by this project), zen3 (as published), zen5,
    /// intel, clean, … Offsets are this machine's
    #[arg(long, value_name = "MODEL", conflicts_with = "report", help_heading = "What to compare with")]
    pub simulate: Option<String>,

    /// What to make of it
    #[arg(long, value_enum, default_value = "terminal", help_heading = "Output")]
    pub format: ExposureFormat,
    /// As --format json
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub json: bool,
    /// Write it here; `-` is stdout [default: stdout]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "output", help_heading = "Output")]
    pub force: bool,

    /// What a child process of `exposure` does
    #[arg(long, hide = true)]
    pub child: Option<String>,
}

/// The value of `--band`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BandChoice {
    /// Whatever was measured.
    Auto,
    /// This one.
    Given(MetBand),
}

impl FromStr for BandChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(BandChoice::Auto);
        }
        let ends = text.split_once("..=").or_else(|| text.split_once('-'));
        let (from, to) = ends.ok_or("expected 'auto', or FROM-TO such as 0x1-0xf")?;
        Ok(BandChoice::Given(MetBand { from: offset(from)?, to: offset(to)?, slowdown: None }))
    }
}

fn offset(text: &str) -> Result<u16, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    match parsed {
        Ok(value) if value < u64::from(PAGE) => Ok(value as u16),
        Ok(_) => Err(format!("page offset {text} is above 0xfff")),
        Err(_) => Err(format!("'{text}' is not a page offset (such as 0x10 or 16)")),
    }
}

fn length(text: &str) -> Result<u64, String> {
    let no_size = || format!("'{text}' is no size (such as 65536, 64K or 1M)");
    match text.parse::<Length>().map_err(|why| if why.contains("'auto'") { no_size() } else { why })? {
        Length::Bytes(bytes) if bytes <= LONGEST => Ok(bytes),
        Length::Bytes(_) => Err("more than 1 GiB".into()),
        Length::File | Length::Auto => Err(no_size()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_as_documented() {
        let given = |from, to| Ok(BandChoice::Given(MetBand { from, to, slowdown: None }));
        assert_eq!("auto".parse(), Ok(BandChoice::Auto));
        assert_eq!("0x1-0xf".parse(), given(1, 15));
        assert_eq!("1..=15".parse(), given(1, 15));
        assert_eq!("0x991-0x00f".parse(), given(0x991, 0xf));
        for (wrong, part) in [
            ("0x1-0x1000", "above 0xfff"),
            ("-5-3", "not a page offset"),
            ("", "expected"),
            ("5", "expected"),
            ("a-b", "not a page offset"),
            ("1-99999999999999999999", "not a page offset"),
        ] {
            let error = wrong.parse::<BandChoice>().unwrap_err();
            assert!(error.contains(part), "{wrong}: {error}");
        }
    }

    #[test]
    fn lengths_are_sizes_up_to_a_gib() {
        assert_eq!(length("1G"), Ok(LONGEST));
        for wrong in ["0", "2G", "file", "auto", "-1", "x"] {
            assert!(length(wrong).is_err(), "{wrong}");
        }
    }
}
