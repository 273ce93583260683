//! The file system that facts are read from: this machine's, or a folder that stands for another.

use crate::report::Fact;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

/// More than any file read here has; a bound, in case something else stands in its place.
const LIMIT: u64 = 16 << 20;

/// A machine's /proc, /sys and /var, under a root folder.
#[derive(Debug, Clone)]
pub struct System {
    root: PathBuf,
}

impl System {
    /// This machine.
    pub fn here() -> Self {
        Self::at("/")
    }

    /// The machine whose /proc and /sys lie in a folder: for tests, or a chroot.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        System { root: root.into() }
    }

    /// Whether it is this machine, whose commands may be asked too.
    pub fn is_here(&self) -> bool {
        self.root.as_os_str() == "/"
    }

    /// A file's text without surrounding white space, or why there is none. `path` is absolute.
    pub fn text(&self, path: &str) -> Fact<String> {
        let mut bytes = Vec::new();
        let read = File::open(self.inside(path)).and_then(|file| file.take(LIMIT).read_to_end(&mut bytes));
        match read {
            Err(error) => Fact::because(format!("{path} cannot be read ({})", reason(&error))),
            Ok(_) => match String::from_utf8_lossy(&bytes).trim() {
                "" => Fact::because(format!("{path} is empty")),
                text => Fact::Known(text.to_owned()),
            },
        }
    }

    /// The same, where the reason does not matter.
    pub fn text_if_any(&self, path: &str) -> Option<String> {
        match self.text(path) {
            Fact::Known(text) => Some(text),
            Fact::Unknown(_) => None,
        }
    }

    /// The names in a folder, sorted, or why there are none.
    pub fn names(&self, path: &str) -> Fact<Vec<String>> {
        match fs::read_dir(self.inside(path)) {
            Err(error) => Fact::because(format!("{path} cannot be read ({})", reason(&error))),
            Ok(entries) => {
                let mut names: Vec<String> =
                    entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
                names.sort();
                Fact::Known(names)
            }
        }
    }

    fn inside(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

/// An error's reason in a word or two.
fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is none".into(),
        std::io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_says_so() {
        let empty = tempfile::tempdir().unwrap();
        let system = System::at(empty.path());
        let Fact::Unknown(reason) = system.text("/proc/cpuinfo") else { panic!("nothing is there") };
        assert_eq!(reason, "/proc/cpuinfo cannot be read (there is none)");
        assert!(matches!(system.names("/sys"), Fact::Unknown(_)));
        assert!(!system.is_here());
    }
}
