//! Child processes for every allocator and way, two at a time, and what they answered.

use super::{Answer, Library, Order, Plan};
use crate::report::{Allocator, Placed, SkippedPlacement, Subject, Way, printable};
use crate::sys::child::{self, Preparation};
use crate::sys::reason;
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a child may take: a preloaded library can hang.
const DEADLINE: Duration = Duration::from_secs(30);

/// Bytes of an answer, and of what else a child says, that are read.
const LONGEST_ANSWER: u64 = 16 << 20;
const LONGEST_WORDS: u64 = 4096;

/// Whose buffers are looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An allocator of fsprobe's own process.
    BuiltIn(Allocator),
    /// What replaces malloc in a process that it is preloaded into.
    Preloaded(Library),
}

impl Source {
    /// As it is recorded.
    pub fn subject(&self) -> Subject {
        match self {
            Source::BuiltIn(allocator) => Subject { name: allocator.word().into(), preloaded: false },
            Source::Preloaded(library) => Subject { name: library.name.clone(), preloaded: true },
        }
    }

    /// The ways in which it is asked: mmap(2) has one only.
    fn ways(&self) -> &'static [Way] {
        match self {
            Source::BuiltIn(Allocator::Pages) => &[Way::Malloc],
            _ => Way::ALL,
        }
    }
}

/// Why there is nothing to tell of a library.
#[derive(Debug, thiserror::Error)]
#[error("cannot measure {name}: {reason}")]
pub struct SessionError {
    /// The library's file name.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Measured {
    /// The offsets.
    pub placements: Vec<Placed>,
    /// What could not be measured.
    pub skipped: Vec<SkippedPlacement>,
    /// What was refused, for people.
    pub notes: Vec<String>,
}

/// What is to be measured.
pub struct Session<'a> {
    /// fsprobe itself.
    pub program: &'a Path,
    /// Whose buffers.
    pub sources: &'a [Source],
    /// How many of which length.
    pub plan: &'a Plan,
    /// Processes for each allocator and way.
    pub processes: u32,
}

/// One child.
struct Job<'a> {
    source: &'a Source,
    way: Way,
    process: u32,
}

/// The children that run at the moment, by number of the worker that waits for them.
type Running = Mutex<BTreeMap<usize, (u32, Instant)>>;

impl Session<'_> {
    /// Measures; once `stop` says so, no child is started any more.
    ///
    /// # Errors
    /// Where a preloaded library gives no answer to malloc.
    pub fn measure(&self, stop: &(dyn Fn() -> bool + Sync)) -> Result<Measured, SessionError> {
        let jobs = self.jobs();
        let answers: Vec<Mutex<Option<Result<Answer, String>>>> =
            jobs.iter().map(|_| Mutex::new(None)).collect();
        let (next, over, running) = (AtomicUsize::new(0), AtomicBool::new(false), Running::default());
        std::thread::scope(|scope| {
            // without threads one child runs after another
            let start = std::thread::Builder::new;
            let _ending = start().spawn_scoped(scope, || end_overdue(&running, stop, &over));
            let worker = |number: usize| {
                let (jobs, answers, next, running) = (&jobs, &answers, &next, &running);
                move || {
                    while !stop() {
                        let index = next.fetch_add(1, Ordering::SeqCst);
                        let Some(job) = jobs.get(index) else { break };
                        *lock(&answers[index]) = Some(self.run(job, number, running));
                    }
                }
            };
            let started = |number| start().spawn_scoped(scope, worker(number)).ok();
            let workers: Vec<_> = (0..self.plan.at_once).filter_map(started).collect();
            if workers.is_empty() {
                worker(0)();
            }
            for worker in workers {
                // a worker that panicked has left its answer out
                let _ = worker.join();
            }
            over.store(true, Ordering::SeqCst);
        });
        let answered =
            jobs.iter().zip(&answers).filter_map(|(job, answer)| Some((job, lock(answer).take()?)));
        // what a signal ended is not a failure of the allocator's
        filed(answered.filter(|(_, answer)| answer.is_ok() || !stop()))
    }

    fn jobs(&self) -> Vec<Job<'_>> {
        let of = |source| {
            let ways = |source: &Source| source.ways().iter().copied();
            ways(source)
                .flat_map(move |way| (0..self.processes).map(move |process| Job { source, way, process }))
        };
        self.sources
            .iter()
            .flat_map(of)
            .filter(|job| !self.plan.lens(job.way, job.process).is_empty())
            .collect()
    }

    /// Runs one child and reads what it answers.
    fn run(&self, job: &Job, worker: usize, running: &Running) -> Result<Answer, String> {
        let (allocator, preload) = match job.source {
            Source::BuiltIn(allocator) => (Some(*allocator), None),
            Source::Preloaded(library) => (None, Some(&library.path)),
        };
        let order = Order { allocator, way: job.way, lens: self.plan.lens(job.way, job.process) };
        let order = serde_json::to_string(&order).map_err(|error| error.to_string())?;
        let mut said = tempfile::tempfile().map_err(|error| reason(&error))?;
        let stderr = said.try_clone().map_err(|error| reason(&error))?;
        let mut command = Command::new(self.program);
        command.args(["exposure", "--child", &order]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        if let Some(preload) = preload {
            command.env("LD_PRELOAD", preload);
        }
        // a group of its own: Ctrl-C ends fsprobe's wait for it, and what was measured is told. No huge pages: a
        // header that the allocator writes before a buffer would take 2 MiB
        command.process_group(0);
        let refuse_huge_pages = child::huge_pages_refused().map(|_| true);
        Preparation { ends_with_parent: true, refuse_huge_pages, ..Preparation::default() }.of(&mut command);
        let mut process =
            command.spawn().map_err(|error| format!("fsprobe cannot be run again: {}", reason(&error)))?;
        let began = Instant::now();
        lock(running).insert(worker, (process.id(), began));
        let mut text = String::new();
        let read = process.stdout.take().map(|out| out.take(LONGEST_ANSWER).read_to_string(&mut text));
        // it may go on with its stdout closed; until it is waited for, its number is its own
        await_end(process.id());
        lock(running).remove(&worker);
        let ended = child::wait(process.id()).map_err(|error| reason(&error))?;
        let mut words = String::new();
        let _ =
            said.seek(SeekFrom::Start(0)).and_then(|_| said.take(LONGEST_WORDS).read_to_string(&mut words));
        // a library may print something of its own before
        let last = text.lines().next_back().unwrap_or_default();
        match serde_json::from_str::<Result<Answer, String>>(last) {
            Ok(Ok(answer)) if ended.status.success() => Ok(answer),
            Ok(Err(reason)) => Err(refused_by_loader(&words).unwrap_or(reason)),
            _ if began.elapsed() >= DEADLINE => Err(format!("no answer within {} s", DEADLINE.as_secs())),
            _ => {
                let words = words
                    .lines()
                    .next()
                    .map(|line| format!(": {}", printable(line, 300)))
                    .unwrap_or_default();
                let unreadable = if matches!(read, Some(Ok(_))) { "" } else { " that can be read" };
                Err(format!("fsprobe with it ended with {} and no answer{unreadable}{words}", ended.status))
            }
        }
    }
}

/// Returns when a child has ended, which is not waited for yet.
fn await_end(child: u32) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let Some(pid) = Pid::from_raw(child.cast_signed()) else { return };
    while waitid(WaitId::Pid(pid), options).is_err_and(|error| error == Errno::INTR) {}
}

/// The loader's own words where it does not take a library: it says so, and goes on without.
fn refused_by_loader(words: &str) -> Option<String> {
    let line = words.lines().find(|line| line.contains("cannot be preloaded"))?;
    let (_, why) = line.split_once("cannot be preloaded (")?;
    Some(format!("the loader refuses it: {}", printable(why.split("):").next()?, 300)))
}

/// Ends children that take too long, and all of them once everything is to stop.
fn end_overdue(running: &Running, stop: &(dyn Fn() -> bool + Sync), over: &AtomicBool) {
    while !over.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(5));
        let stop = stop();
        // a child in this list has not been waited for, so its number is its own
        let overdue = |began: &Instant| stop || began.elapsed() >= DEADLINE;
        for (child, _) in lock(running).values().filter(|(_, began)| overdue(began)) {
            child::signal_group(*child, libc::SIGKILL);
            // it may have left its group
            child::kill(*child);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Answers as they are recorded.
fn filed<'a>(
    answered: impl Iterator<Item = (&'a Job<'a>, Result<Answer, String>)>,
) -> Result<Measured, SessionError> {
    let mut measured = Measured::default();
    for (job, answer) in answered {
        let allocator = job.source.subject().name;
        match answer {
            Ok(answer) => {
                for (len, reason) in answer.refused {
                    let len = crate::report::buffer_length(len);
                    note(&mut measured.notes, format!("{allocator} gave fewer buffers of {len}: {reason}"));
                }
                let filled = answer.groups.into_iter().filter(|group| !group.offsets.is_empty());
                measured.placements.extend(filled.map(|group| Placed {
                    allocator: allocator.clone(),
                    len: group.len,
                    way: job.way,
                    state: group.state,
                    process: job.process,
                    offsets: group.offsets,
                }));
            }
            Err(reason) if job.way == Way::Malloc && matches!(job.source, Source::Preloaded(_)) => {
                return Err(SessionError { name: allocator, reason });
            }
            Err(reason) => {
                skip(&mut measured.skipped, SkippedPlacement { allocator, way: Some(job.way), reason })
            }
        }
    }
    Ok(measured)
}

fn note(notes: &mut Vec<String>, note: String) {
    if !notes.contains(&note) {
        notes.push(note);
    }
}

/// Notes what was skipped once, and for all ways together where another way has the same reason.
fn skip(skipped: &mut Vec<SkippedPlacement>, new: SkippedPlacement) {
    match skipped.iter_mut().find(|s| (&s.allocator, &s.reason) == (&new.allocator, &new.reason)) {
        Some(known) if known.way == new.way => {}
        Some(known) => known.way = None,
        None => skipped.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_words_are_found() {
        let words = "ERROR: ld.so: object '/x.so' from LD_PRELOAD cannot be preloaded (cannot open shared object \
            file): ignored.\n";
        assert_eq!(
            refused_by_loader(words).unwrap(),
            "the loader refuses it: cannot open shared object file"
        );
        assert_eq!(refused_by_loader("something else"), None);
    }

    #[test]
    fn failures_are_filed_once() {
        let source = Source::BuiltIn(Allocator::Glibc);
        let job = |way| Job { source: &source, way, process: 0 };
        let jobs = [job(Way::Malloc), job(Way::Calloc), job(Way::Calloc)];
        let failed = || Err("it is not here".to_owned());
        let measured = filed(jobs[1..].iter().map(|job| (job, failed()))).unwrap();
        assert_eq!(measured.skipped.len(), 1);
        assert_eq!(measured.skipped[0].way, Some(Way::Calloc));
        let measured = filed(jobs.iter().map(|job| (job, failed()))).unwrap();
        assert_eq!((measured.skipped.len(), measured.skipped[0].way), (1, None));
        let library = Library { path: "/x.so".into(), name: "x.so".into() };
        let source = Source::Preloaded(library);
        let lone = [Job { source: &source, way: Way::Malloc, process: 0 }];
        let error = filed(lone.iter().map(|job| (job, failed()))).unwrap_err();
        assert_eq!(error.to_string(), "cannot measure x.so: it is not here");
    }

    #[test]
    fn what_cannot_be_started_has_its_reason() {
        let plan = Plan::of(&[4096], super::super::Room::default());
        let sources = [Source::BuiltIn(Allocator::Glibc), Source::BuiltIn(Allocator::Pages)];
        let session =
            Session { program: Path::new("/no/such"), sources: &sources, plan: &plan, processes: 1 };
        let measured = session.measure(&|| false).unwrap();
        assert!(measured.placements.is_empty());
        assert!(
            measured.skipped[0].reason.starts_with("fsprobe cannot be run again: "),
            "{:?}",
            measured.skipped
        );
        assert_eq!(session.jobs().len(), Way::ALL.len() + 1);
        assert!(session.measure(&|| true).unwrap().skipped.is_empty(), "stopped before anything began");
    }
}
