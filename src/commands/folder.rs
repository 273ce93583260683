//! fsprobe's own folder: where reports go that nobody named a place for.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// `$XDG_STATE_HOME/fsprobe`, else `~/.local/state/fsprobe`; none where neither variable names a folder.
pub fn state() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    state.map(|folder| folder.join("fsprobe"))
}

/// The report written last, in fsprobe's folder or where a sweep goes without one: the temporary folder.
pub fn newest() -> Option<PathBuf> {
    let own = state().into_iter().flat_map(|folder| reports(&folder, |_| true));
    // others write there too
    let me = rustix::process::geteuid().as_raw();
    let rescued = reports(&std::env::temp_dir(), |file| file.uid() == me);
    own.chain(rescued).max().map(|(_, path)| path)
}

/// Files named like a sweep's or a check's report, with their time of writing.
fn reports(folder: &Path, fits: impl Fn(&fs::Metadata) -> bool) -> Vec<(SystemTime, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else { return vec![] };
    let report = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let named = name.ends_with(".json") && ["sweep-", "check-"].iter().any(|verb| name.starts_with(verb));
        let metadata = entry.metadata().ok().filter(|m| named && m.is_file() && fits(m))?;
        Some((metadata.modified().ok()?, entry.path()))
    };
    entries.flatten().filter_map(report).collect()
}
