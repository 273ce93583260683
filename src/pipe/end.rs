//! One process of a pair: what it is told through shared memory, what it does, what it answers.

use super::job::{Answer, Counts, Ended, Job, Role, Take, Waiting};
use super::{mapping, ram, reader, ring, writer};
use crate::report::Counted;
use crate::sys::clock::now_ns;
use crate::sys::shared::Shared;
use crate::sys::usage::{self, ThreadUsage};
use crate::sys::{cpu, descriptor};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::process;

/// Runs a process of a pair whose job stands in shared memory from byte `job_at` on; returns its answer
/// as one line of JSON.
pub fn run(role: Role, job_at: u64) -> String {
    let answer = done(role, job_at).unwrap_or_else(Answer::Ended);
    serde_json::to_string(&answer).unwrap_or_default()
}

fn done(role: Role, job_at: u64) -> Result<Answer, Ended> {
    let (memory, pipe) = streams(role).map_err(|e| Ended::refused("the standard streams", &e))?;
    let job = job(&memory, job_at)?;
    end_with(job.parent)?;
    let shared = Shared::map(&memory, job.ring()).map_err(|e| Ended::refused("shared memory", &e))?;
    let own_cpu = job.cpus[usize::from(role != Role::Writer)];
    cpu::pin(own_cpu).map_err(|e| Ended::refused(&format!("cannot pin to CPU {own_cpu}"), &e))?;
    let (segments, huge) = match (role, job.way.take) {
        (Role::Writer, Take::Ring) => (ring::put(&job, &shared)?, None),
        (Role::Reader, Take::Ring) => (ring::take(&job, &shared)?, None),
        (Role::Writer, _) => writer::write(&job, &shared, Stream::new(pipe, &job, PollFlags::OUT)?)?,
        (Role::Reader, _) => reader::read(&job, &shared, Stream::new(pipe, &job, PollFlags::IN)?)?,
        (Role::Alone, Take::Mapping) => mapping::map(&job)?,
        (Role::Alone, _) => (ram::read(&job)?, None),
    };
    Ok(Answer::Done { segments, huge })
}

/// Shared memory and pipe, as [`Role`] says.
fn streams(role: Role) -> io::Result<(File, File)> {
    let owned = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().map(File::from);
    let (stdin, stdout) = (owned(io::stdin().as_fd())?, owned(io::stdout().as_fd())?);
    Ok(if role == Role::Reader { (stdout, stdin) } else { (stdin, stdout) })
}

fn job(memory: &File, at: u64) -> Result<Job, Ended> {
    let refused = |e: io::Error| Ended::refused("the job in shared memory", &e);
    let size = memory.metadata().map_err(refused)?.len();
    // A job of every page offset is below a megabyte.
    let len = size.saturating_sub(at).min(16 << 20);
    let mut text = vec![0; len as usize];
    memory.read_exact_at(&mut text, at).map_err(refused)?;
    serde_json::from_slice(&text).map_err(|e| Ended::Refused(format!("the job in shared memory: {e}")))
}

/// Ends with whoever started this process, however that one ends: nobody else would end it.
fn end_with(parent: u32) -> Result<(), Ended> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| Ended::refused("cannot ask to end with fsprobe", &e.into()))?;
    // It may have ended before that was asked for.
    match getppid() {
        Some(id) if id.as_raw_nonzero().get() as u32 == parent => Ok(()),
        _ => process::exit(1),
    }
}

/// One end of the pipe, and what to do when a call would wait.
pub struct Stream {
    /// The end.
    pub pipe: File,
    waiting: Waiting,
    ready: PollFlags,
    one_cpu: bool,
}

impl Stream {
    fn new(pipe: File, job: &Job, ready: PollFlags) -> Result<Stream, Ended> {
        let stream = Stream { pipe, waiting: job.waiting, ready, one_cpu: job.one_cpu() };
        if stream.returns_at_once() {
            descriptor::never_wait(stream.pipe.as_fd()).map_err(|e| Ended::refused("the pipe", &e))?;
        }
        Ok(stream)
    }

    /// Whether calls return in place of waiting.
    pub fn returns_at_once(&self) -> bool {
        self.waiting != Waiting::Block
    }

    /// After a call that would have had to wait. poll(2) also returns when the other end is closed, and the
    /// call that follows tells that.
    fn wait(&self) {
        match self.waiting {
            Waiting::Busy if self.one_cpu => rustix::thread::sched_yield(),
            Waiting::Busy => {}
            Waiting::Block | Waiting::Poll => {
                let _ = poll(&mut [PollFd::new(&self.pipe, self.ready)], None);
            }
        }
    }
}

/// One call that moved bytes, after as many as would have had to wait.
pub fn once(
    stream: &Stream,
    name: &str,
    mut call: impl FnMut() -> rustix::io::Result<usize>,
) -> Result<usize, Ended> {
    loop {
        match call() {
            Ok(0) => return Err(Ended::PeerGone),
            Ok(moved) => return Ok(moved),
            Err(Errno::AGAIN) => stream.wait(),
            Err(Errno::INTR) => {}
            Err(Errno::PIPE) => return Err(Ended::PeerGone),
            Err(error) => return Err(Ended::refused(name, &error.into())),
        }
    }
}

/// Calls until `len` bytes have been moved; `call` gets the number of those that have.
pub fn complete(
    stream: &Stream,
    name: &str,
    len: usize,
    mut call: impl FnMut(usize) -> rustix::io::Result<usize>,
) -> Result<(), Ended> {
    let mut done = 0;
    while done < len {
        done += once(stream, name, || call(done))?;
    }
    Ok(())
}

/// Times what moves so many bytes, and counts meanwhile.
pub fn timed(bytes: u64, mut moved: impl FnMut() -> Result<(), Ended>) -> Result<Counts, Ended> {
    let before = usage::thread();
    let began_ns = now_ns();
    moved()?;
    let ended_ns = now_ns();
    Ok(Counts { began_ns, ended_ns, bytes, counted: counted_since(before) })
}

/// What the kernel has counted for this thread since.
pub fn counted_since(before: Option<ThreadUsage>) -> Option<Counted> {
    let (before, now) = (before?, usage::thread()?);
    Some(Counted {
        page_faults: now.page_faults - before.page_faults,
        voluntary_switches: now.voluntary_switches - before.voluntary_switches,
        involuntary_switches: now.involuntary_switches - before.involuntary_switches,
    })
}
