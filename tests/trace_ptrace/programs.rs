//! Programs built for these tests, and what is expected of them.

use fsprobe::report::{AtOffset, Copies, FileKind, Landing, distance, offset_of};
use fsprobe::trace::{Done, Launch, TraceError, ptrace};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/trace_ptrace");

/// The C program, linked to shared libraries and, where that can be done, statically.
pub fn copies() -> &'static [PathBuf] {
    static BUILT: OnceLock<Vec<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(|| {
        let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let source = format!("{FOLDER}/copies.c");
        let Some(dynamic) = built("copies", &cc, &["-O1", &source, "-lpthread", "-ldl"]) else {
            return vec![];
        };
        let fixed = built("copies-static", &cc, &["-O1", "-static", "-DSTATIC", &source, "-lpthread"]);
        if let Some(Err(error)) = &fixed {
            eprintln!("skipped, nothing can be linked statically: {error}");
        }
        [dynamic.unwrap()].into_iter().chain(fixed.and_then(Result::ok)).collect()
    })
}

/// The Rust program.
pub fn rust() -> Option<PathBuf> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let built = built("copies-rust", &rustc, &["-O", "--edition", "2021", &format!("{FOLDER}/copies.rs")])?;
    Some(built.unwrap())
}

/// A program, or what the compiler says; none, said aloud, where there is no compiler.
pub fn built(name: &str, compiler: &str, args: &[&str]) -> Option<Result<PathBuf, String>> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    match Command::new(compiler).args(args).arg("-o").arg(&program).output() {
        Ok(output) if output.status.success() => Some(Ok(program)),
        Ok(output) => Some(Err(String::from_utf8_lossy(&output.stderr).into_owned())),
        Err(error) => {
            eprintln!("skipped, there is no {compiler}: {error}");
            None
        }
    }
}

/// A file of 64 KiB with nothing else in its folder.
pub fn file() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("source");
    std::fs::write(&path, vec![7; 65536]).unwrap();
    (folder, path)
}

pub fn launch(words: &[&str]) -> Launch {
    Launch { words: words.iter().map(OsString::from).collect(), environment: vec![] }
}

/// Watches a command; none, said aloud, where that is forbidden here.
pub fn watched(words: &[&str]) -> Option<Done> {
    match ptrace::watch(&launch(words), &|| None) {
        Ok(done) => Some(done),
        Err(TraceError::Closed(reason)) => {
            eprintln!("skipped: {reason}");
            None
        }
        Err(error) => panic!("{words:?}: {error}"),
    }
}

/// One copy as programmed: page offset in memory, position in the file, bytes.
pub type Copy = (u64, u64, u64);

/// What rows add up to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub calls: u64,
    pub failed: u64,
    pub bytes: u64,
    pub landings: BTreeMap<(Option<u16>, u8), (u64, u64)>,
    pub buffers: BTreeMap<u16, (u64, u64)>,
}

impl Sum {
    /// Of the rows of one call that are wanted.
    pub fn of(done: &Done, call: &str, wanted: impl Fn(&Copies) -> bool) -> Sum {
        let mut sum = Sum::default();
        for row in done.watched.copies.iter().filter(|row| row.call == call && wanted(row)) {
            sum.calls += row.calls;
            sum.failed += row.failed;
            sum.bytes += row.bytes;
            for &Landing { distance, class, copies, bytes } in &row.landings {
                add(sum.landings.entry((distance, class)).or_default(), copies, bytes);
            }
            for &AtOffset { offset, copies, bytes } in &row.buffers {
                add(sum.buffers.entry(offset).or_default(), copies, bytes);
            }
        }
        sum
    }

    /// Of the calls to a file.
    pub fn of_file(done: &Done, call: &str, file: &Path) -> Sum {
        Sum::of(done, call, |row| row.kind == FileKind::PageCache && row.file.as_deref() == file.to_str())
    }

    /// Of the calls to one kind of descriptor.
    pub fn of_kind(done: &Done, call: &str, kind: FileKind) -> Sum {
        Sum::of(done, call, |row| row.kind == kind)
    }

    /// What these copies by so many calls come to; `reads` tells the direction, `known` whether there is a distance.
    pub fn programmed(calls: u64, failed: u64, reads: bool, known: bool, copies: &[Copy]) -> Sum {
        let mut sum = Sum { calls, failed, ..Sum::default() };
        for &(memory, place, bytes) in copies {
            let (memory, place) = (offset_of(memory), offset_of(place));
            let moved = if reads { distance(memory, place) } else { distance(place, memory) };
            sum.bytes += bytes;
            let class = bytes.ilog2() as u8;
            add(sum.landings.entry((known.then_some(moved), class)).or_default(), 1, bytes);
            add(sum.buffers.entry(memory).or_default(), 1, bytes);
        }
        sum
    }
}

fn add(to: &mut (u64, u64), copies: u64, bytes: u64) {
    *to = (to.0 + copies, to.1 + bytes);
}
