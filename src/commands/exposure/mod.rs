//! `fsprobe exposure`: where allocators put buffers, and whether that is inside a deep band.

mod bands;

use super::destination::{Destination, unwritten};
use super::document::{Document, Run, now};
use super::sweep::stopped_by;
use super::{Failure, Outcome, print, style};
use crate::cli::{BandChoice, ExposureArgs, ExposureFormat};
use crate::exposure::plan::USUAL;
use crate::exposure::{Library, Plan, Room, Session, Source, child};
use crate::render::exposure::{html, text};
use crate::report::{Allocator, Exposure, write_whole};
use crate::sys::signals;
use crate::{host, judge, sys};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Lengths that are looked at in one run.
const MOST_LENGTHS: usize = 64;

/// Libraries that are.
const MOST_LIBRARIES: usize = 16;

/// Runs the verb.
///
/// # Errors
/// Where bands or a library cannot be had, nothing can be measured, or output cannot be written.
pub fn run(args: &ExposureArgs) -> Result<Outcome, Failure> {
    if let Some(order) = &args.child {
        print(&child::obey(order))?;
        return Ok(Outcome::Done);
    }
    let (recorded_at, began) = (now(), Instant::now());
    let inputs: Vec<&Path> = args.report.iter().chain(&args.preload).map(PathBuf::as_path).collect();
    let destination = match &args.output {
        Some(path) => Destination::named(path, args.force, &inputs)?,
        None => Destination::Stdout,
    };
    let sources = sources(args)?;
    let plan = plan(args)?;
    let format = if args.json { ExposureFormat::Json } else { args.format };
    let host = host::gather(format == ExposureFormat::Json);
    let known = bands::known(args, &host)?;
    // only now, since a report or a library may be a pipe that nobody writes to yet
    let caught = signals::note(&[SIGINT, SIGTERM, SIGHUP]).map_err(Failure::line)?;
    let mut exposure = placed(args, &sources, &plan, &|| caught.signal().is_some())?;
    let stop = stopped_by(&caught);
    // a check pins this process to one CPU, which its children would inherit
    exposure.bands = match known {
        bands::Known::Bands(bands) => bands,
        bands::Known::Unfit(reason) => bands::checked(reason.as_deref(), stop.is_some()),
    };
    judge::exposure::conclude(&mut exposure);
    let text = match format {
        ExposureFormat::Terminal => {
            text(&exposure, style(destination.is_stdout() && std::io::stdout().is_terminal()))
        }
        ExposureFormat::Html => html(&exposure, &host, &recorded_at),
        ExposureFormat::Json => {
            let run = Run {
                command: "exposure",
                options: RunOptions::of(args, &sources),
                shuffle: None,
                seed: None,
                duration_s: began.elapsed().as_secs_f64(),
                complete: stop.is_none(),
                stopped_by: stop.as_ref().map(|stop| stop.word()),
            };
            let (recorded_at, host) = (recorded_at.as_str(), &host);
            Document { verb: "exposure", recorded_at, run, host, body: &exposure }.json()?
        }
    };
    match &destination {
        Destination::File { path, force } => {
            write_whole(text.as_bytes(), path, *force).map_err(unwritten)?;
        }
        Destination::Stdout | Destination::Nowhere | Destination::Own(_) => print(&text)?,
    }
    Ok(if stop.is_some() { Outcome::Interrupted } else { Outcome::Done })
}

/// Whose buffers, each once.
fn sources(args: &ExposureArgs) -> Result<Vec<Source>, Failure> {
    if args.preload.len() > MOST_LIBRARIES {
        return Err(Failure::line(format!(
            "more than {MOST_LIBRARIES} libraries (name fewer with --preload)"
        )));
    }
    let usual = [Allocator::Glibc, Allocator::Jemalloc, Allocator::Mimalloc];
    let chosen = if args.allocators.is_empty() { &usual[..] } else { &args.allocators };
    let built_in = Allocator::ALL.iter().copied().filter(|allocator| chosen.contains(allocator));
    let mut sources: Vec<Source> = built_in.map(Source::BuiltIn).collect();
    for path in &args.preload {
        let library = Library::at(path).map_err(Failure::line)?;
        let subject = Source::Preloaded(library.clone()).subject();
        if sources.iter().any(|known| known.subject().name == subject.name) {
            return Err(Failure::line(format!(
                "two allocators by the name {} (rename one, or make a link to it)",
                subject.name
            )));
        }
        sources.push(Source::Preloaded(library));
    }
    Ok(sources)
}

fn plan(args: &ExposureArgs) -> Result<Plan, Failure> {
    if args.len.len() > MOST_LENGTHS {
        return Err(Failure::line(format!("more than {MOST_LENGTHS} lengths (name fewer with --len)")));
    }
    let lens = if args.len.is_empty() { &USUAL[..] } else { &args.len };
    Ok(Plan::of(lens, Room::here()))
}

/// The offsets, nothing concluded from them yet.
fn placed(
    args: &ExposureArgs,
    sources: &[Source],
    plan: &Plan,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Exposure, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::line(format!("fsprobe cannot find itself: {}", sys::reason(&error))))?;
    let session = Session { program: &program, sources, plan, processes: args.processes };
    let measured = session.measure(stop).map_err(Failure::line)?;
    if measured.placements.is_empty() && !stop() {
        let reasons: Vec<String> = measured.skipped.into_iter().map(|s| s.reason).collect();
        return Err(Failure::line(format!("nothing could be measured: {}", reasons.join("; "))));
    }
    let mut notes = plan.notes.clone();
    notes.extend(measured.notes);
    Ok(Exposure {
        processes: args.processes,
        subjects: sources.iter().map(Source::subject).collect(),
        bands: bands::none(),
        placements: measured.placements,
        skipped: measured.skipped,
        notes,
        summaries: vec![],
        rows: vec![],
        published: vec![],
    })
}

#[derive(Serialize)]
struct RunOptions {
    len: Vec<u64>,
    allocators: Vec<Allocator>,
    preload: Vec<&'static str>,
    processes: u32,
    band: String,
    report: Option<&'static str>,
    simulate: Option<String>,
}

impl RunOptions {
    /// Every option as it was really used; names of files left out.
    fn of(args: &ExposureArgs, sources: &[Source]) -> RunOptions {
        let built_in = |source: &Source| match source {
            Source::BuiltIn(allocator) => Some(*allocator),
            Source::Preloaded(_) => None,
        };
        RunOptions {
            len: if args.len.is_empty() { USUAL.to_vec() } else { args.len.clone() },
            allocators: sources.iter().filter_map(built_in).collect(),
            preload: args.preload.iter().map(|_| "<file>").collect(),
            processes: args.processes,
            band: match args.band {
                BandChoice::Auto => "auto".into(),
                BandChoice::Given(band) => format!("0x{:03x}-0x{:03x}", band.from, band.to),
            },
            report: args.report.as_ref().map(|_| "<file>"),
            simulate: args.simulate.clone(),
        }
    }
}
