//! `fsprobe compare`: did it change between reports, and what may be credited?

use super::document::{Document, now};
use super::{Failure, Outcome, print, style};
use crate::cli::{CompareArgs, CompareFormat};
use crate::judge::compare::{compare, may_be_swapped, trend};
use crate::render::compare as render;
use crate::report::{Change, Comparison, Host, Report, Trend, load};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Instant;

/// Runs the verb.
///
/// # Errors
/// Where a report cannot be loaded, reports are not comparable, or output cannot be written.
pub fn run(args: &CompareArgs) -> Result<Outcome, Failure> {
    let started = Instant::now();
    let recorded_at = now();
    if args.trend {
        let reports = loaded(&args.reports)?;
        let found = trend(&reports).map_err(Failure::line)?;
        show(args, Found::Trend(&found), latest(&reports), started, recorded_at)?;
        return Ok(outcome(&found.overall));
    }
    let (before, after) = sides(args)?;
    let [before, after] = [loaded(&before)?, loaded(&after)?];
    let found = compare(&before, &after).map_err(Failure::line)?;
    if may_be_swapped(&before, &after) {
        // what reads exit codes alone is to have a chance
        let _ = writeln!(
            std::io::stderr(),
            "fsprobe: a report of the earlier side was recorded after one of the later side: are they swapped?"
        );
    }
    show(args, Found::Pair(&found), latest(&after), started, recorded_at)?;
    Ok(outcome(&found))
}

/// The files of both sides, by position or by option.
fn sides(args: &CompareArgs) -> Result<(Vec<PathBuf>, Vec<PathBuf>), Failure> {
    match (args.reports.as_slice(), args.before.is_empty(), args.after.is_empty()) {
        ([before, after], true, true) => Ok((vec![before.clone()], vec![after.clone()])),
        ([], false, false) => Ok((args.before.clone(), args.after.clone())),
        ([], true, true) | ([_], true, true) => {
            Err(Failure::line("compare needs two reports: fsprobe compare BEFORE AFTER"))
        }
        (_, true, true) => Err(Failure::line(
            "compare takes two reports; several a side go with --before and --after, several in a row with --trend",
        )),
        _ => Err(Failure::line("name the reports of both sides with --before and --after, and no others")),
    }
}

/// The host of the report that was recorded last.
fn latest(reports: &[Report]) -> &Host {
    let times = |a: &&Report, b: &&Report| a.recorded_at.cmp(&b.recorded_at);
    // there is one, or there was nothing to compare
    &reports.iter().max_by(times).unwrap_or(&reports[0]).host
}

fn loaded(files: &[PathBuf]) -> Result<Vec<Report>, Failure> {
    files.iter().map(|file| load(file).map_err(Failure::line)).collect()
}

/// The exit code: that it cannot be told wins over the later side's state.
fn outcome(comparison: &Comparison) -> Outcome {
    match comparison.change {
        Change::CannotTell => Outcome::Inconclusive,
        _ => Outcome::of_state(comparison.after.state),
    }
}

/// What was found, in the form that was asked for.
enum Found<'a> {
    Pair(&'a Comparison),
    Trend(&'a Trend),
}

fn show(
    args: &CompareArgs,
    found: Found<'_>,
    host: &Host,
    started: Instant,
    recorded_at: String,
) -> Result<(), Failure> {
    let format = if args.json { CompareFormat::Json } else { args.format };
    let style = style(std::io::stdout().is_terminal());
    let text = match (format, &found) {
        (CompareFormat::Terminal, Found::Pair(found)) => render::text(found, style),
        (CompareFormat::Terminal, Found::Trend(found)) => render::trend(found, style),
        (CompareFormat::Markdown, Found::Pair(found)) => render::markdown(found),
        (CompareFormat::Markdown, Found::Trend(found)) => render::trend_markdown(found),
        (CompareFormat::Json, found) => {
            let document = Document {
                verb: "compare",
                recorded_at: &recorded_at,
                run: Run {
                    command: "compare",
                    options: Options { trend: args.trend },
                    duration_s: started.elapsed().as_secs_f64(),
                },
                host,
                body: match found {
                    Found::Pair(comparison) => Compared { comparison, trend: None },
                    Found::Trend(trend) => {
                        Compared { comparison: &trend.overall, trend: Some(&trend.points) }
                    }
                },
            };
            document.json()?
        }
    };
    print(&text)
}

#[derive(Serialize)]
struct Run {
    command: &'static str,
    options: Options,
    duration_s: f64,
}

#[derive(Serialize)]
struct Options {
    trend: bool,
}

#[derive(Serialize)]
struct Compared<'a> {
    #[serde(flatten)]
    comparison: &'a Comparison,
    /// One entry a report, with `--trend`.
    #[serde(skip_serializing_if = "Option::is_none")]
    trend: Option<&'a [crate::report::TrendPoint]>,
}
