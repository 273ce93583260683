//! How fast each way passes a file through a pipe: the samples of `fsprobe cat --bench`.
//!
//! Every sample is a process of its own, as in the article (endler.dev/2018/fastcat, with `pv` behind it):
//! from its start to the end of what it wrote, drained by this process with read(2) into a page-aligned
//! buffer. FILE is named as often as it takes to make the start of a process a small part.

use super::end::End;
use super::pipes;
use super::way::{Preference, Way, ways};
use crate::report::printable;
use crate::sys::descriptor::pipe_capacity;
use crate::sys::{clock, cpu, reason};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The least bytes of a sample.
const LEAST: u64 = 512 << 20;

/// The most bytes that the names of one command take: below every system's limit.
const NAMES: usize = 64 << 10;

/// Bytes that the reader asks for at a time, and what its buffer is aligned to.
const DRAIN: usize = 128 << 10;
const PAGE: usize = crate::report::PAGE as usize;

/// The longest version of a program that is shown, in characters.
const LONGEST_VERSION: usize = 25;

/// What runs in one row.
#[derive(Debug, Clone)]
pub struct Runner {
    /// The row's name, for people.
    pub name: &'static str,
    /// What it is: the calls, or the program's version.
    pub what: String,
    program: PathBuf,
    options: Vec<OsString>,
}

/// A bench that is ready to run.
#[derive(Debug)]
pub struct Bench {
    /// One a row; the first is read/write.
    pub runners: Vec<Runner>,
    /// Why there is no system's cat, where there is none.
    pub no_cat: Option<String>,
    /// Bytes of the file.
    pub size: u64,
    /// How often it is named in a sample.
    pub times: u64,
    /// The writer's CPU and the reader's; none where both share the only one.
    pub cpus: Option<[u32; 2]>,
    file: PathBuf,
    memory: Vec<u8>,
}

/// Why a bench cannot run.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The file is not one that can be passed again and again.
    #[error("cannot use {name} for --bench: {reason} (name a regular file, best of 64 MiB or more)")]
    File {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A program could not be started or read from.
    #[error("cannot run {program}: {reason}")]
    Program {
        /// Its path.
        program: String,
        /// The system's reason.
        reason: String,
    },
    /// A program did not pass every byte.
    #[error("{program} passed {passed} of {expected} bytes, and ended with {status}")]
    Short {
        /// Its path.
        program: String,
        /// Bytes that arrived.
        passed: u64,
        /// Bytes that it was given.
        expected: u64,
        /// How it ended.
        status: std::process::ExitStatus,
    },
}

impl Bench {
    /// Looks at the file and for the system's cat.
    ///
    /// # Errors
    /// Where the file is not a regular one that holds something.
    pub fn new(file: &Path) -> Result<Bench, BenchError> {
        let size = size_of(file)
            .map_err(|reason| BenchError::File { name: super::shown(file), reason: reason.to_owned() })?;
        let most = (NAMES / (file.as_os_str().len() + 1)).max(1) as u64;
        let own = std::env::current_exe()
            .map_err(|error| BenchError::Program { program: "fsprobe".into(), reason: reason(&error) })?;
        let mut runners = own_runners(&own, file);
        let cat = systems_cat();
        let no_cat = cat.is_none().then(|| "no cat on the PATH".to_owned());
        runners.extend(cat);
        Ok(Bench {
            runners,
            no_cat,
            size,
            times: LEAST.div_ceil(size).min(most),
            cpus: two_cpus(),
            file: file.to_owned(),
            memory: vec![0; DRAIN + PAGE],
        })
    }

    /// Bytes of a sample.
    pub fn bytes(&self) -> u64 {
        self.size * self.times
    }

    /// The nanoseconds that a row's program takes to pass the file so many times.
    ///
    /// # Errors
    /// Where it does not run, or passes too much or too little.
    pub fn sample(&mut self, row: usize) -> Result<u64, BenchError> {
        let program = self.runners[row].program.display().to_string();
        let failed =
            |error: io::Error| BenchError::Program { program: program.clone(), reason: reason(&error) };
        let (mut reader, writer) = io::pipe().map_err(failed)?;
        let mut command = self.command(row);
        command.stdout(writer);
        self.pin(0);
        let before = clock::now_ns();
        let child = command.spawn();
        // this process's copy of the writing end, without which the pipe has no end
        drop(command);
        self.pin(1);
        let mut child = child.map_err(failed)?;
        let passed = drain(&mut reader, &mut self.memory);
        let ns = clock::now_ns().saturating_sub(before);
        drop(reader);
        let status = child.wait().map_err(failed)?;
        let (passed, expected) = (passed.map_err(failed)?, self.bytes());
        match passed == expected && status.success() {
            true => Ok(ns),
            false => Err(BenchError::Short { program, passed, expected, status }),
        }
    }

    fn command(&self, row: usize) -> Command {
        let runner = &self.runners[row];
        let mut command = Command::new(&runner.program);
        command.args(&runner.options).arg("--");
        command.args((0..self.times).map(|_| &self.file));
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Puts this thread on one of the CPUs; what it starts stays there.
    fn pin(&self, which: usize) {
        if let Some(cpus) = self.cpus {
            // allowed a moment ago; should it be gone, the sample is only noisier
            let _ = cpu::pin(cpus[which]);
        }
    }
}

/// Bytes of a regular file, or what is wrong with it.
fn size_of(file: &Path) -> Result<u64, String> {
    let opened = fs::File::open(file).and_then(|file| file.metadata());
    match opened {
        Err(error) => Err(reason(&error)),
        Ok(data) if !data.is_file() => Err("it is not a regular file".into()),
        Ok(data) if data.len() == 0 => Err("it is empty".into()),
        Ok(data) => Ok(data.len()),
    }
}

/// fsprobe itself, by each way that is compared.
fn own_runners(program: &Path, file: &Path) -> Vec<Runner> {
    let [small, chosen] = [Preference::Splice16k, Preference::Auto].map(|by| planned(file, by));
    let ways = [
        ("read/write", "128 KiB a call".into(), "read-write"),
        ("splice at 16 KiB", small.unwrap_or_default(), "splice-16k"),
        ("the chosen way", chosen.unwrap_or_default(), "auto"),
    ];
    let runner = |(name, what, word): (_, String, &str)| {
        let options = ["cat", "--way", word].map(OsString::from).into();
        Runner { name, what, program: program.to_owned(), options }
    };
    ways.map(runner).into()
}

/// The way that a file would take into a pipe, and what that pipe would hold.
fn planned(file: &Path, by: Preference) -> io::Result<String> {
    let file = fs::File::open(file)?;
    let (_reader, writer) = io::pipe()?;
    let (from, to) = (End::of(file.as_fd())?, End::of(writer.as_fd())?);
    if by == Preference::Auto {
        pipes::widen(file.as_fd(), &from, writer.as_fd(), &to);
    }
    let way = match ways(&from, &to, by)[0].way {
        Way::SpliceSmall => Way::Splice,
        way => way,
    };
    Ok(format!("{way}, pipe {} KiB", pipe_capacity(writer.as_fd())? >> 10))
}

/// The first cat on the PATH, with the first line of what it says of its version.
fn systems_cat() -> Option<Runner> {
    let path = std::env::var_os("PATH")?;
    let program = std::env::split_paths(&path).map(|folder| folder.join("cat")).find(|p| is_program(p))?;
    let said = Command::new(&program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let first = printable(said.lines().next().unwrap_or_default(), LONGEST_VERSION);
    let what = if first.is_empty() { "of unknown version".into() } else { first };
    Some(Runner { name: "the system's cat", what, program, options: vec![] })
}

fn is_program(path: &Path) -> bool {
    let data = fs::metadata(path);
    path.is_absolute() && data.is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// The last two CPUs allowed.
fn two_cpus() -> Option<[u32; 2]> {
    let allowed = cpu::allowed().ok()?;
    allowed.last_chunk::<2>().copied()
}

/// Reads until the writer is done; returns how many bytes that were.
fn drain(reader: &mut PipeReader, memory: &mut [u8]) -> io::Result<u64> {
    let address = memory.as_ptr() as usize;
    let start = address.next_multiple_of(PAGE) - address;
    let buffer = &mut memory[start..start + DRAIN];
    let mut passed = 0;
    loop {
        match reader.read(buffer) {
            Ok(0) => return Ok(passed),
            Ok(count) => passed += count as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether a name means stdin, which cannot be passed twice.
pub fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == OsStr::new("-")
}
