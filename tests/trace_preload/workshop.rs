//! Programs that are built and watched, each watching in a process and a temporary folder of its own.

use super::common::{Place, text};
use fsprobe::report::Watched;
use fsprobe::trace::{Launch, TraceError, preload};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Set for the process that watches: the words, separated by newlines.
pub const WORDS: &str = "FSPROBE_TEST_WORDS";
/// Where it puts what it saw.
pub const RESULT: &str = "FSPROBE_TEST_RESULT";

#[derive(Serialize, Deserialize)]
pub enum Told {
    Done { watched: Box<Watched>, code: Option<i32>, signal: Option<i32> },
    Refused(u8, String),
    Closed(String),
}

/// What the process that watches does.
#[test]
fn watcher() {
    let Some(words) = std::env::var_os(WORDS) else { return };
    let words = words.to_str().unwrap().split('\n').map(OsString::from).collect();
    let told = match preload::watch(&Launch { words, environment: vec![] }, &|| None) {
        Ok(done) => {
            let status = done.status.unwrap();
            Told::Done { watched: Box::new(done.watched), code: status.code(), signal: status.signal() }
        }
        Err(TraceError::Refused(refused)) => Told::Refused(refused.code(), refused.to_string()),
        Err(error) => Told::Closed(error.to_string()),
    };
    std::fs::write(std::env::var_os(RESULT).unwrap(), serde_json::to_vec(&told).unwrap()).unwrap();
}

/// A place with test programs and a file of 1 MiB; none where nothing can be built or watched.
pub struct Workshop {
    pub place: Place,
    pub file: PathBuf,
}

impl Workshop {
    pub fn new() -> Option<Workshop> {
        if !cfg!(target_env = "gnu") || Command::new("cc").arg("--version").output().is_err() {
            eprintln!("skipped: no C compiler (cc) or another C library");
            return None;
        }
        let place = Place::new();
        std::fs::create_dir(place.path("tmp")).unwrap();
        let file = place.file("source", 1 << 20);
        Some(Workshop { place, file })
    }

    /// A program built of a fixture.
    pub fn build(&self, source: &str, options: &[&str]) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/trace").join(source);
        let out = self.place.path(&format!("{}-built", source.file_stem().unwrap().display()));
        let usual =
            ["-O1", "-fno-builtin", "-Wall", "-Wextra", "-Werror", "-Wno-stringop-overflow", "-pthread"];
        let built = Command::new("cc")
            .args(usual)
            .args(options)
            .arg(&source)
            .arg("-o")
            .arg(&out)
            .arg("-ldl")
            .output();
        let built = built.unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        out
    }

    /// A command of the process that watches.
    pub fn watcher(&self, words: &[&str]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["workshop::watcher", "--exact", "--nocapture"]).env(WORDS, words.join("\n"));
        command.env(RESULT, self.place.path("result")).env("TMPDIR", self.place.path("tmp"));
        command.env_remove("XDG_RUNTIME_DIR").env_remove("LD_PRELOAD");
        command
    }

    #[track_caller]
    pub fn told(&self, output: &Output) -> Told {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(!said.contains("preload"), "the loader complained: {said}");
        let left: Vec<_> = std::fs::read_dir(self.place.path("tmp")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        serde_json::from_slice(&std::fs::read(self.place.path("result")).unwrap()).unwrap()
    }

    pub fn tell(&self, words: &[&str]) -> Told {
        self.told(&self.watcher(words).output().unwrap())
    }

    /// What a command did that ended well.
    #[track_caller]
    pub fn watch(&self, words: &[&str]) -> Watched {
        let output = self.watcher(words).output().unwrap();
        match self.told(&output) {
            Told::Done { watched, code: Some(0), .. } => *watched,
            Told::Done { code, signal, .. } => panic!("{code:?} {signal:?} {output:?}"),
            Told::Refused(_, why) | Told::Closed(why) => panic!("{why}"),
        }
    }

    /// The program of many acts, doing one of them; nothing unseen but what samples alone show, where they are forbidden.
    #[track_caller]
    pub fn act(&self, acts: &Path, act: &str, more: &str) -> Watched {
        let mut watched = self.watch(&[text(acts), act, text(&self.file), more]);
        watched.unseen.retain(|unseen| !unseen.why.contains("no samples are allowed"));
        assert_eq!(watched.unseen, vec![]);
        watched
    }
}
