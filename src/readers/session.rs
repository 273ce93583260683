//! A session: every reader under each kind of pages, looked at once, then measured in shuffled rounds.

use super::huge::{self, Settable};
use super::order::{Answer, Order, Replay, Replayed};
use super::run::{self, Ran, Running};
use super::watch::{FileId, Seen};
use crate::report::{
    HugePages, Landed, MovedBuffer, Reader, ReaderName, Reason, SkippedReader, Times, distance, offset_of,
};
use crate::sys::child;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// The loader's settings, among them malloc's use of huge pages.
const TUNABLES: &str = "GLIBC_TUNABLES";

/// What Python runs: the published line, timed from inside, answered as fsprobe's own readers do.
const PYTHON: &str = "\
import json, resource, sys, time
faults = lambda: (lambda u: u.ru_minflt + u.ru_majflt)(resource.getrusage(resource.RUSAGE_SELF))
f, t = faults(), time.perf_counter_ns()
with open(sys.argv[1], 'rb') as file:
    data = file.read()
t, f = time.perf_counter_ns() - t, faults() - f
print(json.dumps({'Ok': {'call_ns': t, 'read_ns': None, 'faults': f, 'at': None, 'bytes': len(data)}}))
";

/// What to measure.
#[derive(Debug, Clone)]
pub struct Setup {
    /// fsprobe's own program, which runs its readers.
    pub program: PathBuf,
    /// The file that all read.
    pub file: PathBuf,
    /// The same, whatever its name.
    pub file_id: FileId,
    /// The user's command; `{}` stands for the file.
    pub command: Vec<OsString>,
    /// Complete visits to everything.
    pub rounds: u32,
    /// Seed of the orders.
    pub seed: u64,
}

/// Why the user's command could not be run at all.
#[derive(Debug, thiserror::Error)]
#[error("cannot run {name}: {}", crate::sys::reason(.error))]
pub struct Refused {
    /// The command's name.
    pub name: String,
    /// The system's reason.
    pub error: io::Error,
}

/// What was measured; medians and reasons are for the judge.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// One a reader and kind of pages.
    pub readers: Vec<Reader>,
    /// What could not be run.
    pub skipped: Vec<SkippedReader>,
    /// Rounds measured in full.
    pub rounds: u32,
    /// Why nothing could be traced.
    pub untraced: Option<String>,
    /// What of huge pages could not be set.
    pub huge_pages_note: Option<String>,
    /// How the user's command ended: the first end that was not a success, else success; none without a command.
    pub status: Option<ExitStatus>,
}

/// A session under way.
pub struct Session<'a> {
    setup: &'a Setup,
    settable: Settable,
    python: Option<PathBuf>,
    running: Running,
    untraced: Option<String>,
    status: Option<ExitStatus>,
}

/// A reader under one kind of pages, with what was measured of it.
struct Task {
    reader: Reader,
    /// What is done again at another offset; none where nothing landed.
    replay: Option<Replay>,
    replayed: Vec<Replayed>,
    read_ns: Vec<u64>,
    faults: Vec<u64>,
    calls_ns: Vec<u64>,
}

/// What a round does with a task.
#[derive(Clone, Copy)]
enum Job {
    Bare,
    Watched,
    Again,
}

impl<'a> Session<'a> {
    /// Gets ready. `running` tells which child runs, so that another thread can end it.
    pub fn new(setup: &'a Setup, running: Running) -> Session<'a> {
        let settable = huge::settable(Path::new("/"));
        Session { setup, settable, python: None, running, untraced: None, status: None }
    }

    /// Measures until all rounds are done or `stopped` says so; `advance` is called with done and all.
    ///
    /// # Errors
    /// Where the user's command cannot be started.
    pub fn measure(
        mut self,
        stopped: &dyn Fn() -> bool,
        advance: &dyn Fn(u64, u64),
    ) -> Result<Measured, Refused> {
        let mut skipped = Vec::new();
        let mut tasks = self.look(stopped, &mut skipped)?;
        let mut jobs: Vec<(usize, Job)> = Vec::new();
        for (index, task) in tasks.iter().enumerate() {
            jobs.push((index, Job::Bare));
            jobs.extend(self.needs_tracer(task).then_some((index, Job::Watched)));
            let first = tasks[..index].iter().all(|t| key(t) != key(task));
            jobs.extend((task.replay.is_some() && first).then_some((index, Job::Again)));
        }
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.setup.seed);
        let (mut rounds, mut done) = (0, 0);
        'rounds: while rounds < self.setup.rounds && !stopped() {
            jobs.shuffle(&mut random);
            for &(index, job) in &jobs {
                if stopped() {
                    break 'rounds;
                }
                self.visit(&mut tasks[index], job, rounds as usize);
                done += 1;
                advance(done, jobs.len() as u64 * u64::from(self.setup.rounds));
            }
            rounds += 1;
        }
        share_replays(&mut tasks);
        Ok(Measured {
            readers: tasks.into_iter().map(finished).collect(),
            skipped,
            rounds,
            untraced: self.untraced,
            huge_pages_note: self.settable.note,
            status: self.status,
        })
    }

    /// Runs every reader once, watched where that is allowed, which also warms everything up.
    fn look(
        &mut self,
        stopped: &dyn Fn() -> bool,
        skipped: &mut Vec<SkippedReader>,
    ) -> Result<Vec<Task>, Refused> {
        let mut tasks = Vec::new();
        let kinds = self.settable.kinds.clone();
        if !self.setup.command.is_empty() {
            self.try_command()?;
        }
        self.try_tracer();
        self.find_python(skipped);
        for kind in kinds {
            for &name in ReaderName::ALL {
                let absent = match name {
                    ReaderName::Command => self.setup.command.is_empty(),
                    ReaderName::Python => self.python.is_none(),
                    ReaderName::Opendal => !cfg!(feature = "opendal"),
                    _ => false,
                };
                if absent || stopped() {
                    continue;
                }
                match self.first(name, kind) {
                    Ok(task) => tasks.push(task),
                    Err(reason) => {
                        skipped.push(SkippedReader { reader: name, huge_pages: Some(kind), reason });
                    }
                }
            }
        }
        Ok(tasks)
    }

    /// Starts the command once as it is, its stderr shown: whether it can be, and how it ends.
    fn try_command(&mut self) -> Result<(), Refused> {
        let mut command = self.command(ReaderName::Command, HugePages::AsIs);
        command.stderr(Stdio::inherit());
        let name = crate::report::printable(&self.setup.command[0].to_string_lossy(), 300);
        let ran = run::silent(command, None, None, &self.running).map_err(|error| Refused { name, error })?;
        self.status = Some(ran.ended.status);
        Ok(())
    }

    /// Whether a child can be traced here.
    fn try_tracer(&mut self) {
        let command = self.command(ReaderName::FsRead, HugePages::AsIs);
        if let Err(error) = run::silent(command, None, Some(self.setup.file_id), &self.running) {
            self.untraced = Some(format!("ptrace(2) is not possible here: {}", crate::sys::reason(&error)));
        }
    }

    /// The interpreter behind `python3`, which may be a script that starts it.
    fn find_python(&mut self, skipped: &mut Vec<SkippedReader>) {
        let asked = Command::new("python3")
            .args(["-c", "import sys; print(sys.executable)"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        let reason = match asked {
            Ok(output) if output.status.success() => {
                let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                self.python = Some(PathBuf::from(name));
                return;
            }
            Ok(output) => format!("python3 ended with {}", output.status),
            Err(error) if error.kind() == io::ErrorKind::NotFound => "there is no python3 on the PATH".into(),
            Err(error) => format!("python3 cannot be run: {}", crate::sys::reason(&error)),
        };
        skipped.push(SkippedReader { reader: ReaderName::Python, huge_pages: None, reason });
    }

    fn first(&mut self, name: ReaderName, kind: HugePages) -> Result<Task, String> {
        let mut task = Task {
            reader: Reader {
                reader: name,
                huge_pages: kind,
                program: self.program_name(name),
                landed: None,
                bytes: None,
                read: None,
                read_unknown: None,
                call: None,
                process: Times::default(),
                faults: None,
                moved: None,
                slowdown: None,
                reason: Reason::Unknown,
                excess: None,
            },
            replay: None,
            replayed: vec![],
            read_ns: vec![],
            faults: vec![],
            calls_ns: vec![],
        };
        let file = self.untraced.is_none().then_some(self.setup.file_id);
        let ran = self.run(name, kind, file)?;
        // Only a command of the user's may mean another file.
        let seen = ran.seen.as_ref().filter(|seen| !seen.of_others || name == ReaderName::Command);
        let own = ran.told.as_ref().and_then(own_landing);
        task.reader.bytes = ran.seen.as_ref().map(|seen| seen.bytes);
        task.reader.landed = seen.and_then(|seen| seen.landed).or(own);
        task.reader.read_unknown = match (name, seen) {
            (ReaderName::Mmap, _) => Some("it makes no read(2)".into()),
            (_, Some(Seen { read_ns: Err(reason), .. })) => Some(reason.clone()),
            (_, Some(_)) => None,
            (_, None) => self.untraced.clone().or(Some("it did not read the file".into())),
        };
        let ask_huge = self.asks(kind);
        task.replay = task.reader.landed.map(|landed| Replay {
            dst: landed.dst,
            moved: landed.moved(),
            src: landed.src,
            len: landed.len,
            reused: landed.reused,
            ask_huge,
        });
        Ok(task)
    }

    /// Whether only a tracer can time its reads.
    fn needs_tracer(&self, task: &Task) -> bool {
        let owns_its_calls = [ReaderName::BufReader, ReaderName::Jemalloc, ReaderName::Mimalloc];
        self.untraced.is_none()
            && task.reader.read_unknown.is_none()
            && !owns_its_calls.contains(&task.reader.reader)
    }

    fn visit(&mut self, task: &mut Task, job: Job, round: usize) {
        let (name, kind) = (task.reader.reader, task.reader.huge_pages);
        match job {
            Job::Bare => {
                if let Ok(ran) = self.run(name, kind, None) {
                    task.reader.process.ns.push(ran.process_ns);
                    task.calls_ns.extend(ran.told.as_ref().map(|answer| answer.call_ns));
                    task.read_ns.extend(ran.told.as_ref().and_then(|answer| answer.read_ns));
                    let told = ran.told.as_ref().and_then(|answer| answer.faults);
                    task.faults.push(told.unwrap_or(ran.ended.faults));
                }
            }
            Job::Watched => {
                let ran = self.run(name, kind, Some(self.setup.file_id));
                if let Ok(Ran { seen: Some(Seen { read_ns: Ok(ns), .. }), .. }) = ran {
                    task.read_ns.push(ns);
                }
            }
            Job::Again => {
                let Some(replay) = task.replay else { return };
                let command = self.own(&Order::Replay(replay), kind, round);
                if let Ok(ran) = run::answering(command, self.refuses(kind), None, &self.running) {
                    task.replayed.push(ran.told);
                }
            }
        }
    }

    /// One run of a reader; what it told, where it tells anything.
    fn run(
        &mut self,
        name: ReaderName,
        kind: HugePages,
        file: Option<FileId>,
    ) -> Result<Ran<Option<Answer>>, String> {
        let command = self.command(name, kind);
        let refused = self.refuses(kind);
        if name == ReaderName::Command {
            let ran = run::silent(command, refused, file, &self.running);
            let ran = ran.map_err(|error| format!("it cannot be run: {}", crate::sys::reason(&error)))?;
            if self.status.is_none_or(|status| status.success()) {
                self.status = Some(ran.ended.status);
            }
            return Ok(Ran { process_ns: ran.process_ns, ended: ran.ended, told: None, seen: ran.seen });
        }
        let ran: Ran<Answer> = run::answering(command, refused, file, &self.running)?;
        Ok(Ran { process_ns: ran.process_ns, ended: ran.ended, told: Some(ran.told), seen: ran.seen })
    }

    fn command(&self, name: ReaderName, kind: HugePages) -> Command {
        let mut command = match name {
            ReaderName::Command => {
                let mut words = self.setup.command.iter().map(|word| run::with_file(word, &self.setup.file));
                let mut command = Command::new(words.next().unwrap_or_default());
                command.args(words).stderr(Stdio::null());
                command
            }
            ReaderName::Python => {
                let mut command = Command::new(self.python.as_deref().unwrap_or(Path::new("python3")));
                command.args(["-c", PYTHON]).arg(&self.setup.file);
                command
            }
            name => return self.own(&Order::Read { reader: name, ask_huge: self.asks(kind) }, kind, 0),
        };
        self.set_tunables(&mut command, kind);
        command
    }

    /// fsprobe itself, with an order.
    fn own(&self, order: &Order, kind: HugePages, turn: usize) -> Command {
        let mut command = Command::new(&self.setup.program);
        let order = serde_json::to_string(order).unwrap_or_default();
        command.args(["readers", "--child", &order, "--turn", &turn.to_string(), "--file"]);
        command.arg(&self.setup.file);
        self.set_tunables(&mut command, kind);
        command
    }

    /// glibc's malloc asks for huge pages where it is told to, also inside programs that know nothing of them.
    fn set_tunables(&self, command: &mut Command, kind: HugePages) {
        if self.asks(kind) {
            let own = "glibc.malloc.hugetlb=1";
            let words = match std::env::var(TUNABLES) {
                Ok(already) if !already.is_empty() => format!("{already}:{own}"),
                _ => own.to_owned(),
            };
            command.env(TUNABLES, words);
        }
    }

    fn asks(&self, kind: HugePages) -> bool {
        kind == HugePages::On && self.settable.by_asking
    }

    fn refuses(&self, kind: HugePages) -> Option<bool> {
        let can = child::huge_pages_refused().is_some();
        match kind {
            HugePages::Off => can.then_some(true),
            HugePages::On => can.then_some(false),
            HugePages::AsIs => None,
        }
    }

    fn program_name(&self, name: ReaderName) -> Option<String> {
        match name {
            ReaderName::Python => self.python.as_ref().map(|path| path.display().to_string()),
            ReaderName::Command => {
                let words: Vec<_> = self.setup.command.iter().map(|w| w.to_string_lossy()).collect();
                Some(words.join(" "))
            }
            _ => None,
        }
    }
}

/// What a reader says itself of where its bytes came to, for want of a tracer: one read of the whole, which
/// all but `BufReader` make.
fn own_landing(answer: &Answer) -> Option<Landed> {
    answer.at.map(|at| Landed::at(offset_of(at), distance(0, 0), 1, answer.bytes))
}

/// What makes two replays the same.
fn key(task: &Task) -> (HugePages, Option<Replay>) {
    (task.reader.huge_pages, task.replay)
}

/// Gives each task the replays of the one that they were made for.
fn share_replays(tasks: &mut [Task]) {
    for index in 1..tasks.len() {
        let (before, rest) = tasks.split_at_mut(index);
        if let Some(first) = before.iter().find(|task| key(task) == key(&rest[0])) {
            rest[0].replayed = first.replayed.clone();
        }
    }
}

fn finished(task: Task) -> Reader {
    let times = |ns: Vec<u64>| (!ns.is_empty()).then(|| Times { ns, ..Times::default() });
    let moved = task.replay.filter(|_| !task.replayed.is_empty()).map(|replay| MovedBuffer {
        dst: replay.moved,
        same_ns: task.replayed.iter().map(|r| r.same_ns).collect(),
        moved_ns: task.replayed.iter().map(|r| r.moved_ns).collect(),
        present_ns: task.replayed.iter().map(|r| r.present_ns).collect(),
        ratio: 1.0,
        ratio_ci95: None,
        slow: false,
    });
    let mut faults = task.faults;
    faults.sort_unstable();
    Reader {
        read_unknown: task.reader.read_unknown.filter(|_| task.read_ns.is_empty()),
        read: times(task.read_ns),
        call: times(task.calls_ns),
        faults: faults.get(faults.len() / 2).copied(),
        moved,
        ..task.reader
    }
}
