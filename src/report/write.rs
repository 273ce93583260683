//! Writing reports and other files: whole or not at all.

use super::Report;
use super::file::{shown, to_json};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Why a report was not written.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The file exists and `--force` was not given.
    #[error("{0} exists (use --force to overwrite it, or name another file)")]
    Exists(String),
    /// The folder or disk refuses.
    #[error("cannot write the report to {name}: {reason} (name another place with --output)")]
    Refused {
        /// The file as the user named it.
        name: String,
        /// The system's reason.
        reason: io::Error,
    },
}

impl SaveError {
    /// A refusal by the system, without the name of the temporary file that a report is first written to.
    pub fn refused(name: String, reason: io::Error) -> SaveError {
        let text = reason.to_string();
        let words = text.split(" (os error ").next().and_then(|words| words.split(" at path ").next());
        let reason = io::Error::new(reason.kind(), words.unwrap_or_default());
        SaveError::Refused { name, reason }
    }
}

/// Whether a path is that of a character device, no link to one.
pub fn is_device(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.file_type().is_char_device())
}

/// Writes a report whole or not at all, as [`write_whole`] does.
pub fn save(report: &Report, path: &Path, force: bool) -> Result<(), SaveError> {
    write_whole(to_json(report).as_bytes(), path, force)
}

/// Writes a file whole or not at all, mode 0600; an existing file only with `force`, and only a
/// regular one, since a rename would replace what else there is. Into a device such as /dev/null it is just written.
pub fn write_whole(content: &[u8], path: &Path, force: bool) -> Result<(), SaveError> {
    let name = shown(path);
    let refused = |reason| SaveError::refused(name.clone(), reason);
    if path.is_symlink() {
        return Err(refused(io::Error::other(
            "it is a symbolic link, and what it leads to would stay as it is",
        )));
    }
    if is_device(path) {
        return OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|mut file| file.write_all(content))
            .map_err(refused);
    }
    if force && path.metadata().is_ok_and(|m| !m.is_file()) {
        return Err(refused(io::Error::other("it is not a regular file")));
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".fsprobe-").tempfile_in(folder).map_err(refused)?;
    file.write_all(content).map_err(refused)?;
    file.as_file().sync_all().map_err(refused)?;
    let kept = if force { file.persist(path) } else { file.persist_noclobber(path) };
    kept.map(drop).map_err(|e| match e.error.kind() {
        io::ErrorKind::AlreadyExists => SaveError::Exists(name.clone()),
        _ => SaveError::refused(name.clone(), e.error),
    })
}
