//! The events of a target, a ring for each CPU, and what comes out of them in the order of time.
//!
//! While a target is watched a thread of its own empties the rings: what samples are made into, tables of large
//! programs for one, takes longer than a ring lasts.

use super::Target;
use super::machine::{Descriptors, online, system_ns, threads_of};
use super::records::{Raw, Record, split};
use super::tally::Tally;
use super::world::World;
use crate::report::Unseen;
use crate::sys::clock::now_ns;
use crate::sys::perf::PerfError;
use crate::sys::perf_sample::{Counts, Event, Ring, Wanted, Whose};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::HashSet;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Pages of a ring at first, nearly a second's samples: with those of every CPU half of what an ordinary user
/// may lock (perf_event_mlock_kb is 516 for each CPU).
const PAGES: usize = 64;

/// How often rings are looked into where none fills before.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Records this young are left for the next time: another CPU's of the same moment may not be written yet.
const SETTLING_NS: u64 = 1_000_000;

/// At most so many events are read for a live view.
const FEW_EVENTS: usize = 64;

/// Times that a process's threads are listed again for those that began meanwhile.
const LISTINGS: usize = 5;

/// What is open for a target.
#[derive(Debug)]
pub struct Session {
    wanted: Wanted,
    cpus: Vec<u32>,
    events: Vec<Arc<Event>>,
    rings: Rings,
    /// Taken from the rings, in the order of time once settled.
    pending: Vec<Raw>,
    /// CPU time of the system when it began, where that is the target.
    system_ns: Option<u64>,
    unwatched_threads: usize,
}

#[derive(Debug, Default)]
struct Rings {
    /// With the CPU, and the event that it belongs to.
    all: Vec<(u32, Arc<Event>, Ring)>,
    /// Rings that poll says nothing of any more, their first thread having ended.
    deaf: HashSet<usize>,
}

/// What the thread that empties rings hands over.
#[derive(Debug, Default)]
pub struct Emptied {
    records: Vec<Raw>,
    /// When it last looked: nothing older will come.
    at_ns: u64,
}

impl Session {
    /// Opens what the target needs before it starts; a process's threads are left to [`Session::attach`].
    pub fn open(target: &Target, period_ns: u64, kernel: bool) -> Result<Session, PerfError> {
        let wanted = Wanted { period_ns, kernel, chains: kernel, wake_at: (PAGES * 4096 / 4) as u32 };
        let mut session = Session {
            wanted,
            cpus: online(),
            events: Vec::new(),
            rings: Rings::default(),
            pending: Vec::new(),
            system_ns: None,
            unwatched_threads: 0,
        };
        let whose = match target {
            Target::Command(_) => Whose::Started,
            Target::Process(_) => return Ok(session),
            Target::System => Whose::Everyone,
        };
        // The limit goes back to what it was: a command inherits it.
        let _limit = Descriptors::for_events(session.cpus.len());
        session.add(whose)?;
        session.system_ns = (whose == Whose::Everyone).then(system_ns).flatten();
        Ok(session)
    }

    /// An event for each CPU.
    fn add(&mut self, whose: Whose) -> Result<(), PerfError> {
        let before = self.events.len();
        let added = self.cpus.clone().into_iter().try_for_each(|cpu| match self.add_on(whose, cpu) {
            // Taken offline meanwhile.
            Err(PerfError::Absent) => Ok(()),
            added => added,
        });
        if added.is_ok() && self.events.len() == before {
            return Err(PerfError::Absent);
        }
        added
    }

    fn add_on(&mut self, whose: Whose, cpu: u32) -> Result<(), PerfError> {
        let event = Arc::new(Event::open(whose, Some(cpu), &self.wanted)?);
        match self.rings.all.iter().find(|(of, ..)| *of == cpu) {
            Some((_, owner, _)) => event.write_to_ring_of(owner).map_err(PerfError::Other)?,
            None => self.rings.all.push((cpu, event.clone(), ring(&event)?)),
        }
        self.events.push(event);
        Ok(())
    }

    /// Watches every thread of a process; those that these begin are watched by the kernel's doing.
    pub fn attach(&mut self, pid: u32, world: &mut World) -> Result<(), PerfError> {
        let mut watched = HashSet::new();
        let mut has_room = true;
        for listing in 0..LISTINGS {
            let threads = threads_of(pid);
            if listing == 0 && threads.is_empty() {
                return Err(PerfError::Gone);
            }
            let _limit = Descriptors::for_events(self.events.len() + threads.len() * self.cpus.len());
            // Those that a watched thread began have been told of by now, and are watched.
            std::thread::sleep(Duration::from_millis(1));
            self.rings.empty(&mut self.pending);
            watched.extend(self.pending.iter().filter_map(|raw| match raw.read(self.wanted.chains) {
                Some(Record::Began { tid, .. }) => Some(tid),
                _ => None,
            }));
            let new: Vec<u32> = threads.into_iter().filter(|tid| !watched.contains(tid)).collect();
            if new.is_empty() {
                break;
            }
            for tid in new {
                watched.insert(tid);
                world.meet(pid, tid);
                has_room &= self.events.len() + self.cpus.len() <= Descriptors::room();
                match has_room.then(|| self.add(Whose::Thread(tid))) {
                    Some(Ok(()) | Err(PerfError::Gone)) => {}
                    Some(Err(error)) if self.events.is_empty() => return Err(error),
                    Some(Err(_)) | None => {
                        has_room = false;
                        self.unwatched_threads += 1;
                    }
                }
            }
        }
        if self.events.is_empty() { Err(PerfError::Gone) } else { Ok(()) }
    }

    /// Whether the kernel is seen.
    pub fn kernel(&self) -> bool {
        self.wanted.kernel
    }

    /// Runs `work` while a thread of its own empties the rings; `work` is given what to [`Session::drain`] from.
    pub fn emptied<R>(&mut self, work: impl FnOnce(&mut Session, &Mutex<Emptied>) -> R) -> R {
        let mut rings = std::mem::take(&mut self.rings);
        let emptied = Mutex::new(Emptied::default());
        let over = Over::default();
        let done = std::thread::scope(|scope| {
            let empty = || {
                while !over.is_over.load(Ordering::Relaxed) {
                    rings.wait(over.told.as_ref());
                    let at_ns = now_ns();
                    let mut records = Vec::new();
                    rings.empty(&mut records);
                    let mut emptied = emptied.lock().unwrap_or_else(PoisonError::into_inner);
                    emptied.records.append(&mut records);
                    emptied.at_ns = at_ns;
                }
            };
            // without a thread the rings are emptied at the end, and what they lost is told
            let _emptying = std::thread::Builder::new().spawn_scoped(scope, empty);
            let _telling = Telling(&over);
            work(self, &emptied)
        });
        self.rings = rings;
        let emptied = emptied.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.pending.extend(emptied.records);
        done
    }

    /// Takes all records that have settled.
    pub fn drain(&mut self, emptied: &Mutex<Emptied>, tally: &mut Tally) {
        let mut emptied = emptied.lock().unwrap_or_else(PoisonError::into_inner);
        self.pending.append(&mut emptied.records);
        let settled = emptied.at_ns.saturating_sub(SETTLING_NS);
        drop(emptied);
        self.give(tally, settled);
    }

    /// Takes all records.
    pub fn drain_all(&mut self, tally: &mut Tally) {
        self.rings.empty(&mut self.pending);
        self.give(tally, u64::MAX);
    }

    fn give(&mut self, tally: &mut Tally, until: u64) {
        self.pending.sort_by_key(|raw| raw.time);
        let settled = self.pending.partition_point(|raw| raw.time <= until);
        for raw in self.pending.drain(..settled) {
            if let Some(record) = raw.read(self.wanted.chains) {
                tally.take(&record);
            }
        }
    }

    /// Nanoseconds of CPU time, user and system, since it began, and records lost; none where that is not told, or
    /// would take too long before the end.
    pub fn counts(&self, is_last: bool) -> Option<Counts> {
        if !is_last && self.events.len() > FEW_EVENTS {
            return None;
        }
        let add =
            |sum: Counts, one: Counts| Counts { ran_ns: sum.ran_ns + one.ran_ns, lost: sum.lost + one.lost };
        let all: Option<Vec<Counts>> = self.events.iter().map(|event| event.counts().ok()).collect();
        let counts = all?.into_iter().fold(Counts::default(), add);
        match self.system_ns {
            // The events of whole CPUs count idle time too.
            Some(before) => Some(Counts { ran_ns: system_ns()?.saturating_sub(before), ..counts }),
            None => Some(counts),
        }
    }

    /// Ends the samples.
    pub fn stop(&self) {
        self.events.iter().for_each(|event| event.disable());
    }

    /// Threads that no descriptors were left for.
    pub fn unwatched(&self) -> Option<Unseen> {
        (self.unwatched_threads > 0).then(|| Unseen {
            what: format!("{} threads of the process", self.unwatched_threads),
            why: format!("each takes {} descriptors, and the limit is reached", self.cpus.len()),
            remedy: Some("sudo prlimit --nofile=1048576 fsprobe trace".into()),
            any: true,
            ..Unseen::default()
        })
    }
}

impl Rings {
    /// Waits until one fills, it is told to be over, or a moment has passed.
    fn wait(&mut self, over: Option<&OwnedFd>) {
        let heard: Vec<usize> = (0..self.all.len()).filter(|ring| !self.deaf.contains(ring)).collect();
        let owners = heard.iter().map(|ring| PollFd::new(&*self.all[*ring].1, PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> =
            owners.chain(over.map(|over| PollFd::new(over, PollFlags::IN))).collect();
        // Interrupted by a signal, or past: then they are looked into at once.
        let _ = poll(&mut fds, Some(&LOOK));
        let is_hung = |fd: &PollFd<'_>| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR);
        let hung = heard.iter().zip(&fds).filter(|(_, fd)| is_hung(fd)).map(|(ring, _)| *ring);
        let hung: Vec<usize> = hung.collect();
        self.deaf.extend(hung);
    }

    fn empty(&mut self, into: &mut Vec<Raw>) {
        let mut bytes = Vec::new();
        for (_, _, ring) in &mut self.all {
            bytes.clear();
            ring.take(&mut bytes);
            split(&bytes, into);
        }
    }
}

/// What ends the thread that empties, at once where descriptors are left for that.
struct Over {
    is_over: AtomicBool,
    told: Option<OwnedFd>,
}

impl Default for Over {
    fn default() -> Over {
        Over { is_over: AtomicBool::new(false), told: eventfd(0, EventfdFlags::CLOEXEC).ok() }
    }
}

/// Tells, however the work ends.
struct Telling<'a>(&'a Over);

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
        if let Some(told) = &self.0.told {
            let _ = rustix::io::write(told, &1u64.to_ne_bytes());
        }
    }
}

/// Waits until `end` tells of an end, or a moment is over.
pub fn wait(end: Option<BorrowedFd<'_>>) {
    let mut fds: Vec<PollFd<'_>> =
        end.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    // Interrupted by a signal, or over: the caller looks at once.
    let _ = poll(&mut fds, Some(&LOOK));
}

/// As large a ring as this user may lock.
fn ring(event: &Event) -> Result<Ring, PerfError> {
    let mut pages = PAGES;
    loop {
        match Ring::of(event, pages) {
            Err(error) if pages == 1 => return Err(no_room(error)),
            Err(_) => pages /= 2,
            Ok(ring) => return Ok(ring),
        }
    }
}

fn no_room(error: std::io::Error) -> PerfError {
    match error.raw_os_error() {
        Some(libc::EPERM) => PerfError::Locked,
        _ => PerfError::Other(error),
    }
}
