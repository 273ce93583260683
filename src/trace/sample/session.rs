//! The events of a target, a ring for each CPU, and what comes out of them in the order of time.

use super::Target;
use super::records::{Raw, Record, split};
use super::tally::Tally;
use super::world::World;
use crate::report::Unseen;
use crate::sys::clock::now_ns;
use crate::sys::perf::PerfError;
use crate::sys::perf_sample::{Event, Ring, Wanted, Whose};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::collections::HashSet;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Pages of a ring at first, a third of a second's samples: with those of every CPU half of what an ordinary user
/// may lock (perf_event_mlock_kb is 516 for each CPU).
const PAGES: usize = 64;

/// How often rings are looked into where none fills before.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Records this young are left for the next time: another CPU's of the same moment may not be written yet.
const SETTLING_NS: u64 = 1_000_000;

/// Descriptors that this process needs besides.
const OTHER_DESCRIPTORS: u64 = 64;

/// At most so many events are read for a live view.
const FEW_EVENTS: usize = 64;

/// Times that a process's threads are listed again for those that began meanwhile.
const LISTINGS: usize = 5;

/// What is open for a target.
#[derive(Debug)]
pub struct Session {
    wanted: Wanted,
    cpus: Vec<u32>,
    events: Vec<Event>,
    /// With the CPU, and which event's it is.
    rings: Vec<(u32, usize, Ring)>,
    /// Rings that poll says nothing of any more, their first thread having ended.
    deaf: HashSet<usize>,
    pending: Vec<Raw>,
    /// CPU time of the system when it began, where that is the target.
    system_ns: Option<u64>,
    unwatched_threads: usize,
}

impl Session {
    /// Opens what the target needs before it starts; a process's threads are left to [`Session::attach`].
    pub fn open(target: &Target, period_ns: u64, kernel: bool) -> Result<Session, PerfError> {
        let wanted = Wanted { period_ns, kernel, chains: kernel, wake_at: (PAGES * 4096 / 4) as u32 };
        let mut session = Session {
            wanted,
            cpus: online(),
            events: Vec::new(),
            rings: Vec::new(),
            deaf: HashSet::new(),
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
        let event = Event::open(whose, Some(cpu), &self.wanted)?;
        match self.rings.iter().find(|(of, ..)| *of == cpu) {
            Some((_, owner, _)) => event.write_to_ring_of(&self.events[*owner]).map_err(PerfError::Other)?,
            None => self.rings.push((cpu, self.events.len(), ring(&event)?)),
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
            self.gather();
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

    /// Waits until a ring fills, `end` tells of an end, or a moment is over.
    pub fn wait(&mut self, end: Option<BorrowedFd<'_>>) {
        let heard: Vec<usize> = (0..self.rings.len()).filter(|ring| !self.deaf.contains(ring)).collect();
        let ring_fds = heard.iter().map(|ring| self.events[self.rings[*ring].1].as_fd());
        let mut fds: Vec<PollFd<'_>> =
            ring_fds.chain(end).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // Interrupted by a signal, or over: the caller looks at once.
        let _ = poll(&mut fds, Some(&LOOK));
        let hung =
            heard.iter().zip(&fds).filter(|(_, fd)| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR));
        let hung: Vec<usize> = hung.map(|(ring, _)| *ring).collect();
        self.deaf.extend(hung);
    }

    /// Takes all records that have settled.
    pub fn drain(&mut self, tally: &mut Tally) {
        let settled = now_ns().saturating_sub(SETTLING_NS);
        self.gather();
        self.give(tally, settled);
    }

    /// Takes all records.
    pub fn drain_all(&mut self, tally: &mut Tally) {
        self.gather();
        self.give(tally, u64::MAX);
    }

    fn gather(&mut self) {
        let mut bytes = Vec::new();
        for (_, _, ring) in &mut self.rings {
            bytes.clear();
            ring.take(&mut bytes);
            split(&bytes, &mut self.pending);
        }
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

    /// Nanoseconds of CPU time, user and system, since it began; none where that is not told, or would take
    /// too long before the end.
    pub fn ran_ns(&self, is_last: bool) -> Option<u64> {
        if let Some(before) = self.system_ns {
            return system_ns().map(|now| now.saturating_sub(before));
        }
        if !is_last && self.events.len() > FEW_EVENTS {
            return None;
        }
        self.events.iter().map(|event| event.ran_ns().ok()).sum()
    }

    /// Threads that no descriptors were left for.
    pub fn unwatched(&self) -> Option<Unseen> {
        (self.unwatched_threads > 0).then(|| Unseen {
            what: format!("{} threads of the process", self.unwatched_threads),
            why: format!("each takes {} descriptors, and the limit is reached", self.cpus.len()),
            remedy: Some("sudo prlimit --nofile=1048576 fsprobe trace".into()),
            bytes: None,
        })
    }
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

/// The CPUs that are online; as /sys tells, else those that this process may use.
pub fn online() -> Vec<u32> {
    let listed =
        fs::read_to_string("/sys/devices/system/cpu/online").ok().and_then(|text| listed(text.trim()));
    listed.or_else(|| crate::sys::cpu::allowed().ok()).unwrap_or_else(|| vec![0])
}

/// The numbers of a list such as `0-3,8`.
fn listed(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        // No kernel is built for more.
        if to > 1 << 16 {
            return None;
        }
        numbers.extend(from..=to);
    }
    (!numbers.is_empty()).then_some(numbers)
}

fn threads_of(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// CPU time of the whole system that was not idle.
fn system_ns() -> Option<u64> {
    busy_ns(&fs::read_to_string("/proc/stat").ok()?)
}

/// User, nice, system, irq and softirq of the first line, in ticks of 10 ms (USER_HZ is 100 on x86).
fn busy_ns(stat: &str) -> Option<u64> {
    let words = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let &[user, nice, system, _idle, _waiting, irq, softirq, ..] = &ticks[..] else { return None };
    Some((user + nice + system + irq + softirq) * 10_000_000)
}

/// The limit of open descriptors, raised as far as needed and possible; set back when dropped.
struct Descriptors(Option<rustix::process::Rlimit>);

impl Descriptors {
    fn for_events(events: usize) -> Descriptors {
        let before = getrlimit(Resource::Nofile);
        let needed = events as u64 + OTHER_DESCRIPTORS;
        if before.current.is_none_or(|current| current >= needed) {
            return Descriptors(None);
        }
        let raised = before.maximum.map_or(needed, |maximum| maximum.min(needed));
        let limit = rustix::process::Rlimit { current: Some(raised), maximum: before.maximum };
        Descriptors(setrlimit(Resource::Nofile, limit).is_ok().then_some(before))
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            // Lowering is always allowed; what is open stays open.
            let _ = setrlimit(Resource::Nofile, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(listed("0-3,8"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(listed("0"), Some(vec![0]));
        for wrong in ["", "a", "0-", "0-4294967295"] {
            assert_eq!(listed(wrong), None, "{wrong}");
        }
        assert!(!online().is_empty());
    }

    #[test]
    fn busy_time_leaves_idle_out() {
        assert_eq!(busy_ns("cpu  1 2 3 1000 1000 4 5 6 0 0\ncpu0 1"), Some(150_000_000));
        assert_eq!(busy_ns("cpu  1 2 3"), None);
        assert_eq!(busy_ns(""), None);
    }

    #[test]
    fn limits_go_back() {
        let before = getrlimit(Resource::Nofile);
        drop(Descriptors::for_events(before.current.unwrap_or(0) as usize + 1));
        assert_eq!(getrlimit(Resource::Nofile), before);
    }
}
