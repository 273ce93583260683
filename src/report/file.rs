//! Reports as files: loaded with one clear line for every fault, written whole or not at all.

use super::{Report, Schema};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

/// The largest file that is taken for a report, in bytes: a default sweep writes about 4 MB.
const LARGEST: u64 = 256 << 20;

/// Why a file is not a report that can be judged.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be opened or read.
    #[error("cannot read {name}: {reason}")]
    Unreadable {
        /// The file as the user named it.
        name: String,
        /// The system's reason.
        reason: io::Error,
    },
    /// It is far larger than any report.
    #[error("{name} is larger than {} MiB: not an fsprobe report", LARGEST >> 20)]
    TooLarge {
        /// The file as the user named it.
        name: String,
    },
    /// It is not JSON, or JSON of another form.
    #[error("{name} is not an fsprobe report: {reason}")]
    NotAReport {
        /// The file as the user named it.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It is a report of a later version.
    #[error(
        "{name} is an fsprobe report of version {version}; this fsprobe reads version {}",
        Schema::VERSION
    )]
    Version {
        /// The file as the user named it.
        name: String,
        /// Its version.
        version: u64,
    },
}

/// Why a report was not written.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The file exists and `--force` was not given.
    #[error("{0} exists (use --force to overwrite it, or name another file with --output)")]
    Exists(String),
    /// The folder or disk refuses.
    #[error(
        "cannot write the report to {name}: {reason} (name another place with --output, or use --no-output)"
    )]
    Refused {
        /// The file as the user named it.
        name: String,
        /// The system's reason.
        reason: io::Error,
    },
}

/// Loads a report from a file; `-` is standard input.
pub fn load(path: &Path) -> Result<Report, LoadError> {
    let name = path.display().to_string();
    let unreadable = |reason| LoadError::Unreadable { name: name.clone(), reason };
    let mut text = Vec::new();
    let input: Box<dyn Read> = if name == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(unreadable)?)
    };
    input.take(LARGEST + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LARGEST {
        return Err(LoadError::TooLarge { name });
    }
    parse(&text, &name)
}

/// Reads a report from its JSON; `name` stands in error messages.
pub fn parse(text: &[u8], name: &str) -> Result<Report, LoadError> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: HeadSchema,
    }
    #[derive(serde::Deserialize)]
    struct HeadSchema {
        name: String,
        version: u64,
    }
    let not_a_report = |reason: String| LoadError::NotAReport { name: name.into(), reason };
    let head: Head = serde_json::from_slice(text).map_err(|e| not_a_report(e.to_string()))?;
    if head.schema.name != Schema::REPORT {
        return Err(not_a_report(format!("its schema is '{}'", printable(&head.schema.name))));
    }
    if head.schema.version != u64::from(Schema::VERSION) {
        return Err(LoadError::Version { name: name.into(), version: head.schema.version });
    }
    let report: Report = serde_json::from_slice(text).map_err(|e| not_a_report(e.to_string()))?;
    consistent(&report).map_err(not_a_report)?;
    Ok(report)
}

/// What the types do not promise: indices that point somewhere, offsets on the circle, rounds that match.
fn consistent(report: &Report) -> Result<(), String> {
    for (index, cell) in report.cells.iter().enumerate() {
        let Some(run) = report.runs.get(cell.run) else {
            return Err(format!("cell {index} names run {}, and there are {}", cell.run, report.runs.len()));
        };
        if cell.ns.len() != run.rounds as usize {
            return Err(format!("cell {index} has {} samples for {} rounds", cell.ns.len(), run.rounds));
        }
        if cell.dst.max(cell.src).is_some_and(|o| o > super::PAGE) {
            return Err(format!("cell {index} has a page offset above 0x1000"));
        }
        if cell.len == 0 || cell.repeat == 0 {
            return Err(format!("cell {index} copies nothing"));
        }
    }
    if let Some(control) = report.noise.controls.iter().find(|c| c.run >= report.runs.len()) {
        return Err(format!("a control names run {}, and there are {}", control.run, report.runs.len()));
    }
    let at = report.run.options.affected_at;
    if !(at > 1.0 && at.is_finite()) {
        return Err(format!("affected_at is {at}"));
    }
    Ok(())
}

/// A hostile string made fit for one line of an error message.
fn printable(text: &str) -> String {
    text.chars().take(60).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// The report as compact JSON with a final newline.
pub fn to_json(report: &Report) -> String {
    let mut text = serde_json::to_string(report).expect("a report's types have a JSON form");
    text.push('\n');
    text
}

/// Writes a report whole or not at all, mode 0600; an existing file only with `force`.
pub fn save(report: &Report, path: &Path, force: bool) -> Result<(), SaveError> {
    let name = path.display().to_string();
    let refused = |reason| SaveError::Refused { name: name.clone(), reason };
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".fsprobe-").tempfile_in(folder).map_err(refused)?;
    file.write_all(to_json(report).as_bytes()).map_err(refused)?;
    file.as_file().sync_all().map_err(refused)?;
    let kept = if force { file.persist(path) } else { file.persist_noclobber(path) };
    kept.map(drop).map_err(|e| match e.error.kind() {
        io::ErrorKind::AlreadyExists => SaveError::Exists(name.clone()),
        _ => SaveError::Refused { name: name.clone(), reason: e.error },
    })
}
