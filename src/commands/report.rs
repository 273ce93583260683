//! `fsprobe report`: a saved report, judged again and rendered for whoever reads it.

use super::{Failure, Outcome, destination, folder};
use crate::cli::{ReportArgs, ReportFormat};
use crate::judge;
use crate::render::csv::csv;
use crate::render::html::html;
use crate::render::markdown::markdown;
use crate::render::openmetrics::openmetrics;
use crate::render::terminal::Style;
use crate::render::ticket::ticket;
use crate::render::{check, plot, rejudged, terminal};
use crate::report::{Report, SaveError, load, printable, to_json, write_whole};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Runs the verb.
///
/// # Errors
/// Where there is no report, the file is none, or output cannot be written.
pub fn run(args: &ReportArgs) -> Result<Outcome, Failure> {
    let named = args.plot.as_deref().or(args.output.as_deref());
    let output = named.filter(|path| *path != Path::new("-"));
    if args.force && named.is_none() {
        return Err(Failure::line("--force has nothing to overwrite (name a file with --output or --plot)"));
    }
    let picture = args.plot.as_deref().map(Picture::of).transpose()?;
    if let Some(path) = output.filter(|path| path.exists() && !path.is_file()) {
        return Err(Failure::line(format!(
            "cannot write to {}: Not a regular file (name another file, or leave that out for stdout)",
            shown(path)
        )));
    }
    if let Some(path) = output.filter(|path| !args.force && path.symlink_metadata().is_ok()) {
        return Err(Failure::line(SaveError::Exists(shown(path))));
    }
    let file = chosen(args)?;
    if let Some(path) = output {
        destination::spare(path, &[&file])?;
    }
    let report = judge::again(load(&file).map_err(Failure::line)?);
    if let Some((picture, path)) = picture.zip(output) {
        tell(rejudged(&report));
        let drawn = picture.drawn(&report)?;
        write_whole(&drawn, path, args.force).map_err(destination::unwritten)?;
        return Ok(Outcome::Done);
    }
    let style = super::style(output.is_none() && std::io::stdout().is_terminal());
    let text = rendered(&report, args.format, style);
    if !tells_verdict(args.format) {
        tell(rejudged(&report));
    }
    match output {
        Some(path) => write_whole(text.as_bytes(), path, args.force).map_err(destination::unwritten)?,
        None => super::print(&text)?,
    }
    Ok(Outcome::Done)
}

/// What `--plot` draws.
#[derive(Debug, Clone, Copy)]
enum Picture {
    Svg,
    Png,
}

impl Picture {
    /// By the file's name.
    fn of(path: &Path) -> Result<Picture, Failure> {
        match path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase).as_deref() {
            Some("svg") => Ok(Picture::Svg),
            Some("png") => Ok(Picture::Png),
            _ => Err(Failure::line(format!("cannot plot to {}: name it .svg or .png", shown(path)))),
        }
    }

    fn drawn(self, report: &Report) -> Result<Vec<u8>, Failure> {
        match self {
            Picture::Svg => Ok(plot::svg(report).into_bytes()),
            Picture::Png => plot::png(report).map_err(Failure::line),
        }
    }
}

/// The report in a format; another format is another line here.
fn rendered(report: &Report, format: ReportFormat, style: Style) -> String {
    match format {
        ReportFormat::Terminal if report.run.command == "check" => check::text(report, style),
        ReportFormat::Terminal => terminal::sweep(report, style),
        ReportFormat::Ticket => ticket(report),
        ReportFormat::Markdown => markdown(report),
        ReportFormat::Html => html(report),
        ReportFormat::Csv => csv(report),
        ReportFormat::Openmetrics => openmetrics(report),
        ReportFormat::Json => to_json(report),
    }
}

/// Whether people read a format's verdict, and so a change of it, in the text itself.
fn tells_verdict(format: ReportFormat) -> bool {
    !matches!(format, ReportFormat::Csv | ReportFormat::Openmetrics | ReportFormat::Json)
}

/// The file named, else the newest report, which is then named on stderr.
fn chosen(args: &ReportArgs) -> Result<PathBuf, Failure> {
    if let Some(file) = &args.file {
        return Ok(file.clone());
    }
    let newest = folder::newest()
        .ok_or_else(|| Failure::line("no report is saved yet: name one, or make one with fsprobe sweep"))?;
    tell(Some(format!("the newest report is {}", shown(&newest))));
    Ok(newest)
}

/// A line beside the data; nobody has to read it.
fn tell(line: Option<String>) {
    if let Some(line) = line {
        let _ = writeln!(std::io::stderr(), "fsprobe: {line}");
    }
}

fn shown(path: &Path) -> String {
    printable(&path.display().to_string(), 300)
}
