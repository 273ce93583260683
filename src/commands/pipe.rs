//! `fsprobe pipe`: the ladder of a published experiment, rerun here.

use super::document::{Document, Run, now};
use super::sweep::{seed_from_clock, stopped_by};
use super::{Failure, Outcome, print, style};
use crate::cli::{PipeArgs, PipeEndArgs};
use crate::host;
use crate::judge::pipe::judge;
use crate::pipe::cpus::{self, Cpus};
use crate::pipe::{self, Plan, RUNGS, Spec, Stopped, Touch, YARDSTICKS};
use crate::render::pipe::text;
use crate::report::{Pipe, length};
use crate::sweep::{Offsets, SHUFFLE, Stop};
use crate::sys::signals;
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{IsTerminal, Write};
use std::time::Instant;

/// Bytes of a call where --buffer-size does not say.
const USUAL_BUFFER: u64 = 256 << 10;

/// Bytes of a sample, without and with a page offset to sweep.
const BYTES: u64 = 256 << 20;
const SWEEP_BYTES: u64 = 8 << 20;

/// Runs the verb.
///
/// # Errors
/// Where nothing can be measured, a process was killed, a byte arrived wrong, or output cannot be written.
pub fn run(args: &PipeArgs) -> Result<Outcome, Failure> {
    let caught = signals::note(&[SIGINT, SIGTERM, SIGHUP]).map_err(Failure::line)?;
    let cpus = cpus::choose(&args.cpus).map_err(Failure::line)?;
    let plan = plan(args, &cpus)?;
    let mut host = host::gather(false);
    host::pin(&mut host, plan.cpus[1]);
    let recorded_at = now();
    let began = Instant::now();
    let mut pipe = Pipe {
        cpus: plan.cpus,
        one_core: cpus.one_core,
        pipe_size: plan.pipe as u64,
        notes: notes(args, &plan, &cpus),
        ..Pipe::default()
    };
    let bar = progress(args, &plan);
    let stopped = pipe::climb(&plan, &mut pipe, &|| caught.signal().is_some(), &mut || bar.inc(1));
    bar.finish_and_clear();
    let broken = match &stopped {
        Some(Stopped::Broken(why)) => Some(why.clone()),
        _ => None,
    };
    let has_samples = pipe.rungs.iter().chain(&pipe.yardsticks).any(|rung| !rung.samples.is_empty());
    if let Some(why) = broken.as_ref().filter(|_| !has_samples) {
        return Err(Failure::line(why));
    }
    if let Some(why) = nothing(&pipe).filter(|_| stopped.is_none()) {
        return Err(Failure::line(format!("nothing can be measured here: {why}")));
    }
    if stopped.is_some() {
        let why = broken.as_deref().unwrap_or("interrupted");
        pipe.notes.push(format!("{why}: these are the samples taken until then"));
    }
    judge(&mut pipe);
    let run = Run {
        command: "pipe",
        options: options(args, &plan),
        shuffle: Some(SHUFFLE),
        seed: Some(plan.seed),
        duration_s: began.elapsed().as_secs_f64(),
        complete: stopped.is_none(),
        stopped_by: match &broken {
            Some(why) => Some(why.clone()),
            None => stopped_by(&caught).as_ref().map(Stop::word).filter(|_| stopped.is_some()),
        },
    };
    if args.json {
        let document = Document { verb: "pipe", recorded_at: &recorded_at, run, host: &host, body: &pipe };
        print(&document.json()?)?;
    } else {
        print(&text(&pipe, style(std::io::stdout().is_terminal())))?;
    }
    match broken {
        Some(why) => Err(Failure::line(format!("{why}: what was measured until then is above"))),
        None => Ok(if stopped.is_some() { Outcome::Interrupted } else { Outcome::Done }),
    }
}

/// Runs one process of a pair. Its standard streams are pipe and shared memory, so it answers on stderr.
///
/// # Errors
/// Where it cannot answer.
pub fn end(args: &PipeEndArgs) -> Result<Outcome, Failure> {
    let answer = pipe::run_end(args.role, args.job_at);
    writeln!(std::io::stderr(), "{answer}")?;
    Ok(Outcome::Done)
}

/// Why not one rung or yardstick could be measured, if so.
fn nothing(pipe: &Pipe) -> Option<&str> {
    let mut all = pipe.rungs.iter().chain(&pipe.yardsticks);
    let first = all.clone().find_map(|r| r.skipped.as_deref())?;
    all.all(|r| r.samples.is_empty()).then_some(first)
}

fn plan(args: &PipeArgs, cpus: &Cpus) -> Result<Plan, Failure> {
    if args.cpus.len() > 2 {
        return Err(Failure::line("--cpus takes the writer's and the reader's CPU, or one for both"));
    }
    let wanted = args.pipe_size.unwrap_or(args.buffer_size) as usize;
    let pipe = pipe::granted(wanted).map_err(|e| Failure::line(format!("cannot make a pipe: {e}")))?;
    let asked = |spec: &Spec| args.rungs.is_empty() || args.rungs.contains(spec);
    let specs = RUNGS.into_iter().chain(YARDSTICKS).filter(asked).collect();
    let all = |offsets: &Option<Offsets>| offsets.as_ref().map_or(vec![], |o| o.all().to_vec());
    let bytes = args.bytes.unwrap_or(BYTES);
    let plan = Plan {
        cpus: cpus.pair,
        specs,
        buffer: args.buffer_size as usize,
        pipe,
        bytes,
        sweep_bytes: bytes.min(SWEEP_BYTES),
        rounds: args.rounds,
        seed: args.seed.unwrap_or_else(seed_from_clock),
        gift: args.gift,
        poll: args.poll,
        same_buffer: args.same_buffer,
        touch: args.touch,
        verify: args.verify,
        src: all(&args.src),
        dst: all(&args.dst),
    };
    for (option, asked, can) in [
        ("--dst", &args.dst, plan.specs.iter().any(|s| s.has_dst())),
        ("--src", &args.src, plan.specs.iter().any(|s| s.has_src())),
    ] {
        if asked.is_some() && !can {
            return Err(Failure::line(format!("{option}: none of these rungs has a buffer there to move")));
        }
    }
    Ok(plan)
}

/// What holds for all figures of this run.
fn notes(args: &PipeArgs, plan: &Plan, cpus: &Cpus) -> Vec<String> {
    let mut notes = Vec::new();
    if plan.cpus[0] == plan.cpus[1] {
        let why = if args.cpus.is_empty() { "only one is allowed" } else { "as asked" };
        notes.push(format!(
            "writer and reader share CPU {} ({why}): they take turns, and busy loops give the CPU up at each turn",
            plan.cpus[0]
        ));
    } else if cpus.one_core == Some(true) {
        notes.push(
            "writer and reader are two threads of one core: they share its caches and its units".into(),
        );
    }
    let unusual = unusual(args, plan);
    if plan.same_buffer && plan.verify {
        notes.push(
            "with --verify the one buffer is filled once: nobody writes to pages that are in the pipe".into(),
        );
    }
    if !unusual.is_empty() {
        notes.push(format!("as asked: {}", unusual.join(", ")));
    }
    let wanted = args.pipe_size.unwrap_or(args.buffer_size);
    if (plan.pipe as u64) < wanted {
        notes.push(format!(
            "a pipe of {} was refused (see /proc/sys/fs/pipe-max-size); this one holds {}",
            length(wanted),
            length(plan.pipe as u64)
        ));
    }
    if plan.bytes < BYTES && plan.specs.iter().any(|s| s.name == "ram-read") {
        notes.push(format!(
            "the yardstick ram-read reads {}, which caches may hold: then it tells of them",
            length(plan.bytes)
        ));
    }
    if plan.verify {
        notes.push(
            "every byte is made and checked within the time measured: these are not the rungs' speeds".into(),
        );
    }
    if plan.same_buffer && plan.touch == Touch::Each {
        notes.push(
            "one buffer is written to while its pages are in the pipe: the reader may see later bytes".into(),
        );
    }
    notes
}

/// What was asked for that the article does not do by default.
fn unusual(args: &PipeArgs, plan: &Plan) -> Vec<String> {
    let buffer = (args.buffer_size != USUAL_BUFFER).then(|| format!("calls of {}", length(args.buffer_size)));
    let touch = match plan.touch {
        Touch::Once => None,
        Touch::Each => Some("each page touched before and after each transfer".to_owned()),
        Touch::Never if plan.verify => Some("buffers touched by nothing but the checking".to_owned()),
        Touch::Never => Some("buffers never touched".to_owned()),
    };
    let flags = [
        (args.gift, "pages given away (SPLICE_F_GIFT)"),
        (args.poll, "poll(2) in place of calls that wait"),
        (args.same_buffer, "one buffer sent again and again"),
    ];
    let flags = flags.into_iter().filter(|(set, _)| *set).map(|(_, words)| words.to_owned());
    buffer.into_iter().chain(flags).chain(touch).collect()
}

fn progress(args: &PipeArgs, plan: &Plan) -> ProgressBar {
    if args.quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    ProgressBar::with_draw_target(Some(pipe::length(plan)), ProgressDrawTarget::stderr_with_hz(8))
}

/// Every option as it was really used.
#[derive(Serialize)]
struct RunOptions {
    rungs: Vec<&'static str>,
    dst: Option<String>,
    src: Option<String>,
    verify: bool,
    bytes: u64,
    sweep_bytes: u64,
    buffer_size: u64,
    pipe_size: u64,
    gift: bool,
    poll: bool,
    same_buffer: bool,
    touch: Touch,
    rounds: u32,
    cpus: [u32; 2],
}

fn options(args: &PipeArgs, plan: &Plan) -> RunOptions {
    RunOptions {
        rungs: plan.specs.iter().map(|s| s.name).collect(),
        dst: args.dst.as_ref().map(Offsets::to_string),
        src: args.src.as_ref().map(Offsets::to_string),
        verify: plan.verify,
        bytes: plan.bytes,
        sweep_bytes: plan.sweep_bytes,
        buffer_size: plan.buffer as u64,
        pipe_size: args.pipe_size.unwrap_or(args.buffer_size),
        gift: plan.gift,
        poll: plan.poll,
        same_buffer: plan.same_buffer,
        touch: plan.touch,
        rounds: plan.rounds,
        cpus: plan.cpus,
    }
}
