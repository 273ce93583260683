//! Where the report goes, found writable before anything is measured.

use super::{Failure, folder};
use crate::report::{Report, SaveError, is_device, printable, save};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes written and removed again to see that the disk has room for a report.
const ROOM: usize = 4 << 20;

/// Where a report is saved.
pub enum Destination {
    /// `--no-output`.
    Nowhere,
    /// `--output -`.
    Stdout,
    /// `--output FILE`.
    File {
        /// The file.
        path: PathBuf,
        /// Whether it may be overwritten.
        force: bool,
    },
    /// A new file in fsprobe's own folder.
    Own(PathBuf),
}

impl Destination {
    /// A new file in fsprobe's own folder.
    ///
    /// # Errors
    /// Where no folder is writable.
    pub fn own() -> Result<Destination, Failure> {
        own_folder().map(Destination::Own)
    }

    /// The file that the user named, or stdout for `-`.
    ///
    /// # Errors
    /// Where the place is not writable, a file is there already, or it is one of the `inputs`, which are kept
    /// whatever is forced.
    pub fn named(path: &Path, force: bool, inputs: &[&Path]) -> Result<Destination, Failure> {
        match path {
            path if path.as_os_str() == "-" => Ok(Destination::Stdout),
            path => {
                spare(path, inputs)?;
                let name = path.display().to_string();
                if path.is_symlink() {
                    return Err(Failure::line(format!(
                        "cannot write the report to {name}: Is a symbolic link (name another file, or - for stdout)"
                    )));
                }
                if is_device(path) {
                    return Ok(Destination::File { path: path.to_owned(), force });
                }
                if path.exists() && !path.is_file() {
                    let what = if path.is_dir() { "Is a directory" } else { "Not a regular file" };
                    return Err(Failure::line(format!(
                        "cannot write the report to {name}: {what} (name another file, or - for stdout)"
                    )));
                }
                if !force && path.symlink_metadata().is_ok() {
                    return Err(Failure::line(SaveError::Exists(name)));
                }
                let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
                room_in(folder).map_err(|reason| Failure::line(SaveError::refused(name, reason)))?;
                Ok(Destination::File { path: path.to_owned(), force })
            }
        }
    }

    /// Whether the report itself goes to stdout.
    pub fn is_stdout(&self) -> bool {
        matches!(self, Destination::Stdout)
    }

    /// Saves the report and returns the line that says where; none where nothing is saved.
    pub fn save(&self, report: &Report) -> Result<Option<String>, Failure> {
        let path = match self {
            Destination::Nowhere | Destination::Stdout => return Ok(None),
            Destination::File { path, force } => save(report, path, *force).map(|()| path.clone()),
            Destination::Own(folder) => save_own(report, folder),
        };
        match path {
            Ok(path) => Ok(Some(format!("report: {}", printable(&path.display().to_string(), 4096)))),
            Err(error) => match save_own(report, &std::env::temp_dir()) {
                Ok(rescued) => Err(Failure::line(format!("{error}; it is in {} instead", rescued.display()))),
                Err(_) => Err(Failure::line(error)),
            },
        }
    }
}

/// A file that could not be written, with the way out.
pub fn unwritten(error: SaveError) -> Failure {
    match error {
        SaveError::Refused { name, reason } => {
            Failure::line(format!("cannot write to {name}: {reason} (name another place with --output)"))
        }
        exists => Failure::line(exists),
    }
}

/// That an output is none of the inputs, by whatever name or link.
///
/// # Errors
/// Naming it, where it is.
pub fn spare(output: &Path, inputs: &[&Path]) -> Result<(), Failure> {
    let identity = |path: &Path| path.metadata().map(|meta| (meta.dev(), meta.ino())).ok();
    let own = identity(output);
    let file = |input: &'static str| Path::new(input);
    let read = inputs.iter().map(|input| if *input == file("-") { file("/dev/stdin") } else { input });
    match read.into_iter().any(|input| own.is_some() && identity(input) == own) {
        true => Err(Failure::line(format!(
            "{} is what is read: writing to it would destroy it (name another file with --output)",
            output.display()
        ))),
        false => Ok(()),
    }
}

/// Saves under a new name made of the verb and the time.
fn save_own(report: &Report, folder: &Path) -> Result<PathBuf, SaveError> {
    let time: String = report.recorded_at.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let mut name = format!("{}-{time}.json", report.run.command);
    for count in 2.. {
        let path = folder.join(&name);
        match save(report, &path, false) {
            Err(SaveError::Exists(_)) => name = format!("{}-{time}-{count}.json", report.run.command),
            other => return other.map(|()| path),
        }
    }
    unreachable!("a free name is found before the numbers end")
}

/// `$XDG_STATE_HOME/fsprobe`, else `~/.local/state/fsprobe`, else the temporary folder.
fn own_folder() -> Result<PathBuf, Failure> {
    let wanted = folder::state();
    let made = wanted.filter(|folder| {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.and_then(|()| room_in(folder)).is_ok()
    });
    if let Some(folder) = made {
        return Ok(folder);
    }
    let folder = std::env::temp_dir();
    match room_in(&folder) {
        Ok(()) => Ok(folder),
        Err(reason) => Err(Failure::line(SaveError::refused(folder.display().to_string(), reason))),
    }
}

/// Whether a report fits into a folder: tried with a file that is removed again.
fn room_in(folder: &Path) -> io::Result<()> {
    let mut file = tempfile::tempfile_in(folder)?;
    file.write_all(&vec![0; ROOM])?;
    file.flush()
}
