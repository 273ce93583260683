//! `fsprobe readers`: programs that read one file, and why one is slower than another.

use super::document::{Document, Run, now};
use super::sweep::{pin, seed_from_clock, stopped_by};
use super::{Failure, Outcome};
use crate::cli::ReadersArgs;
use crate::path::Source;
use crate::readers::{Measured, Refused, Session, Setup, child};
use crate::render::readers::{BPFTRACE, text};
use crate::report::{Fact, ReaderName, Readers, Reason, SkippedReader, printable};
use crate::sys::signals::{self, Caught};
use crate::sys::{self, memory};
use crate::{host, judge};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGTERM};
use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Bytes of the file that fsprobe makes: the published size.
const OWN_SIZE: u64 = 64 << 20;

/// How long a child may take to end after a signal before it is killed.
const GRACE: Duration = Duration::from_millis(400);

/// Runs the verb.
///
/// # Errors
/// Where the file cannot be read, the command not be started, or output not be written.
pub fn run(args: &ReadersArgs) -> Result<Outcome, Failure> {
    if args.bpftrace {
        super::print(BPFTRACE)?;
        return Ok(Outcome::Done);
    }
    if let (Some(order), Some(file)) = (&args.child, &args.file) {
        super::print(&child::obey(order, file, args.turn))?;
        return Ok(Outcome::Done);
    }
    let done = measured(args);
    // With --exec the codes 0 to 124 are the command's.
    if args.exec.is_empty() { done } else { done.map_err(Failure::beside_a_command) }
}

fn measured(args: &ReadersArgs) -> Result<Outcome, Failure> {
    let caught = signals::note(&[SIGINT, SIGTERM, SIGHUP]).map_err(Failure::line)?;
    let recorded_at = now();
    let began = Instant::now();
    let source = match &args.file {
        Some(file) => Source::open(file),
        None => Source::own(OWN_SIZE),
    }
    .map_err(Failure::line)?;
    has_room(source.size())?;
    source.fault_in(source.size(), &mut || caught.signal().is_some()).map_err(Failure::line)?;
    let mut host = host::gather(args.json);
    let cpu = pin(args.cpu)?;
    host::pin(&mut host, cpu);
    let setup = setup(args, &source)?;
    let measured = session(args, &setup, &caught)?;
    let stop = stopped_by(&caught);
    let status = measured.status;
    let mut readers = told(args, &source, cpu, measured);
    judge::readers::conclude(&mut readers);
    if readers.readers.iter().all(|reader| reader.process.ns.is_empty()) && stop.is_none() {
        let why = readers.skipped.first().map_or("no reader could be run", |skipped| &skipped.reason);
        return Err(Failure::line(format!("nothing can be measured here: {why}")));
    }
    if let Some(status) = status.filter(|status| !status.success()) {
        unjudged(&mut readers, status);
    }
    if args.json {
        let document = Document {
            verb: "readers",
            recorded_at: &recorded_at,
            run: Run {
                command: "readers",
                options: RunOptions::of(args),
                shuffle: None,
                seed: Some(setup.seed),
                duration_s: began.elapsed().as_secs_f64(),
                complete: stop.is_none(),
                stopped_by: stop.as_ref().map(|stop| stop.word()),
            },
            host: &host,
            body: &readers,
        };
        super::print(&document.json()?)?;
    } else {
        super::print(&text(&readers, super::style(io::stdout().is_terminal())))?;
    }
    Ok(match (status, stop) {
        (Some(status), _) => Outcome::of(status),
        (None, Some(_)) => Outcome::Interrupted,
        (None, None) => Outcome::Done,
    })
}

/// A reader holds the file up to twice (a `Vec` that grows), so that much has to be free.
fn has_room(size: u64) -> Result<(), Failure> {
    match memory::available(Path::new("/")) {
        Fact::Known(left) if left.bytes / 2 < size => Err(Failure::line(format!(
            "the file has {} MiB, and {} leaves {} MiB of memory, of which readers take twice the file's size \
             (name a smaller one with --file)",
            size >> 20,
            left.bound,
            left.bytes >> 20
        ))),
        _ => Ok(()),
    }
}

fn setup(args: &ReadersArgs, source: &Source) -> Result<Setup, Failure> {
    let file = match &args.file {
        Some(file) => file.clone(),
        None => source.name_for_children(),
    };
    let meta = std::fs::metadata(&file).map_err(|error| {
        let file = printable(&file.display().to_string(), 300);
        Failure::line(format!("cannot open {file}: {} (name a file with --file)", sys::reason(&error)))
    })?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::line(format!("fsprobe cannot find itself: {}", sys::reason(&error))))?;
    Ok(Setup {
        program,
        file,
        file_id: (meta.dev(), meta.ino()),
        command: args.exec.clone(),
        rounds: args.rounds,
        seed: args.seed.unwrap_or_else(seed_from_clock),
    })
}

/// Measures, with progress; a signal ends the child that runs, and so the session.
fn session(args: &ReadersArgs, setup: &Setup, caught: &Arc<Caught>) -> Result<Measured, Failure> {
    let bar = match !args.quiet && io::stderr().is_terminal() {
        true => ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr_with_hz(4)),
        false => ProgressBar::hidden(),
    };
    let style = ProgressStyle::with_template("{msg:34} {bar:28} {percent:>3} % {eta:>4}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message("fsprobe: a first look");
    let running = Arc::new(AtomicU32::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let measured = std::thread::scope(|scope| {
        let watcher = std::thread::Builder::new();
        if let Err(error) = watcher.spawn_scoped(scope, || end_on_signal(caught, &running, &over)) {
            let reason = sys::reason(&error);
            return Err(Failure::line(format!("cannot start a thread: {reason} (see ulimit -u)")));
        }
        let advance = |done, all| {
            bar.set_message("fsprobe: measuring");
            bar.set_length(all);
            bar.set_position(done);
        };
        let measured =
            Session::new(setup, Arc::clone(&running)).measure(&|| caught.signal().is_some(), &advance);
        over.store(true, Ordering::SeqCst);
        measured.map_err(refused)
    });
    bar.finish_and_clear();
    measured
}

/// Passes a signal on to the child that runs, once, and kills it where it does not end. A child that is
/// waited for has not been reaped, so its number is its own but for the instant between the two.
fn end_on_signal(caught: &Caught, running: &AtomicU32, over: &AtomicBool) {
    let mut passed: Option<Instant> = None;
    while !over.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(20));
        let Some(signal) = caught.signal() else { continue };
        let child = running.load(Ordering::SeqCst);
        match passed {
            None => {
                sys::child::signal_group(child, signal);
                passed = Some(Instant::now());
            }
            Some(at) if at.elapsed() > GRACE => {
                sys::child::signal_group(child, SIGKILL);
            }
            Some(_) => {}
        }
    }
}

fn refused(refused: Refused) -> Failure {
    let code = if refused.error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    Failure::Command { code, line: refused.to_string() }
}

/// Nothing is said of how fast a command is that failed.
fn unjudged(readers: &mut Readers, status: ExitStatus) {
    for reader in readers.readers.iter_mut().filter(|reader| reader.reader == ReaderName::Command) {
        (reader.reason, reader.slowdown, reader.excess) = (Reason::Unknown, None, None);
    }
    let reason = format!("the command failed ({status}), so its times tell nothing");
    readers.skipped.push(SkippedReader { reader: ReaderName::Command, huge_pages: None, reason });
}

fn told(args: &ReadersArgs, source: &Source, cpu: u32, measured: Measured) -> Readers {
    let named = args.file.as_ref().filter(|_| !args.anonymous);
    let mut readers = Readers {
        file: named.map(|file| printable(&file.display().to_string(), 4096)),
        size: source.size(),
        fs_type: source.fs_type(),
        cpu,
        rounds: measured.rounds,
        untraced: measured.untraced,
        huge_pages_note: measured.huge_pages_note,
        readers: measured.readers,
        skipped: measured.skipped,
    };
    if args.anonymous {
        readers.readers.iter_mut().for_each(|reader| reader.program = None);
    }
    readers
}

#[derive(Serialize)]
struct RunOptions {
    json: bool,
    anonymous: bool,
    rounds: u32,
    cpu: Option<u32>,
    file: Option<&'static str>,
    exec: Option<&'static str>,
}

impl RunOptions {
    fn of(args: &ReadersArgs) -> RunOptions {
        RunOptions {
            json: args.json,
            anonymous: args.anonymous,
            rounds: args.rounds,
            cpu: args.cpu,
            file: args.file.as_ref().map(|_| "<file>"),
            exec: (!args.exec.is_empty()).then_some("<command>"),
        }
    }
}
