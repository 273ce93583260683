//! Samples counted, and told as a result.

use super::copying::{Copying, MOST_BYTES};
use super::kernel::Kernel;
use super::records::{Record, Sample, User};
use super::world::{Place, World};
use crate::report::{Inside, Samples, Site, Unseen};
use crate::trace::symbols::unwind::{Frame, Rule};
use crate::trace::symbols::{Lines, Module, demangled, is_plumbing};
use std::collections::{BTreeMap, HashMap};

/// Frames that are looked through for a place outside the C library.
const FRAMES: usize = 16;

/// What samples have in common that are told as one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    pid: u32,
    tid: u32,
    program: String,
    place: Option<Place>,
    /// The kernel's calls; none in user space.
    chain: Option<Vec<u64>>,
    /// Whether it is a copy of the C library's own.
    in_libc: bool,
    /// Binary logarithm of the third argument of the call into the kernel, if it is one that may be a length.
    class: Option<u8>,
    distance: u16,
}

#[derive(Debug, Default)]
struct Count {
    samples: u64,
    dst: u16,
}

/// What the samples said so far.
#[derive(Debug)]
pub struct Tally {
    pub world: World,
    pub copying: Copying,
    kernel: Option<Kernel>,
    taken: u64,
    lost: u64,
    inside: HashMap<Key, Count>,
    /// This process, which is not told of itself.
    own: u32,
}

impl Tally {
    /// Nothing yet.
    pub fn new() -> Tally {
        Tally {
            world: World::default(),
            copying: Copying::new(),
            kernel: None,
            taken: 0,
            lost: 0,
            inside: HashMap::new(),
            own: std::process::id(),
        }
    }

    /// Takes a record.
    pub fn take(&mut self, record: &Record<'_>) {
        match record {
            Record::Sample(sample) => self.sample(sample),
            Record::Lost(count) => self.lost += count,
            Record::Throttled => self.lost += 1,
            _ => self.world.learn(record),
        }
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        if sample.pid == self.own {
            return;
        }
        self.taken += 1;
        let Some(registers) = sample.registers else { return };
        self.world.meet(sample.pid, sample.tid);
        let is_copy = match sample.in_kernel {
            true => self.copying.in_kernel(&mut self.kernel, sample.ip, registers),
            false => self.copying.in_user(&mut self.world, sample.pid, sample.ip, registers),
        };
        if !is_copy {
            return;
        }
        let in_libc = self.is_in_libc(sample);
        let place = match (&sample.user, sample.in_kernel) {
            (Some(user), in_kernel) => Some(self.calling(sample.pid, user, in_kernel)),
            (None, false) => Some(self.world.place(sample.pid, sample.ip)),
            (None, true) => None,
        };
        let key = Key {
            pid: sample.pid,
            tid: sample.tid,
            program: self.world.name_of(sample.tid).to_owned(),
            place,
            chain: sample.in_kernel.then(|| sample.chain.clone()),
            in_libc,
            class: sample.user.filter(|user| sample.in_kernel && user.is_64).and_then(|user| class(user.dx)),
            distance: registers.di.wrapping_sub(registers.si) as u16 & 0xfff,
        };
        let count = self.inside.entry(key).or_default();
        count.samples += 1;
        count.dst = registers.di as u16 & 0xfff;
    }

    /// Leaves out what calls that were counted explain: copies of the C library's up to so many nanoseconds at each
    /// distance.
    pub fn without_counted(&mut self, period_ns: u64, explained_ns: impl Fn(u16) -> u64) {
        let mut taken: BTreeMap<u16, u64> = BTreeMap::new();
        for (key, count) in self.inside.iter().filter(|(key, _)| key.in_libc) {
            *taken.entry(key.distance).or_default() += count.samples;
        }
        for (key, count) in self.inside.iter_mut().filter(|(key, _)| key.in_libc) {
            let all = taken[&key.distance];
            let left = all.saturating_sub(explained_ns(key.distance) / period_ns.max(1));
            count.samples = (count.samples * left).div_ceil(all.max(1));
        }
        self.inside.retain(|_, count| count.samples > 0);
    }

    /// Whether it met user space inside the C library.
    fn is_in_libc(&self, sample: &Sample<'_>) -> bool {
        let (module, _) = self.world.place(sample.pid, sample.ip);
        !sample.in_kernel && module.is_some_and(|id| is_plumbing(self.world.module_name(id), None))
    }

    /// The innermost place outside the C library: of the copy itself, or of the call into the kernel.
    fn calling(&mut self, pid: u32, user: &User<'_>, in_kernel: bool) -> Place {
        // What called the kernel is the instruction before.
        let mut before = u64::from(in_kernel);
        let mut frame = Frame { ip: user.ip, sp: user.sp, bp: user.bp };
        let first = self.world.place(pid, frame.ip.wrapping_sub(before));
        for _ in 0..FRAMES {
            let place = self.world.place(pid, frame.ip.wrapping_sub(before));
            let (Some(id), position) = place else { break };
            let name = self.world.module_name(id).to_owned();
            let Some(module) = self.world.module(id) else { break };
            let Some(address) = module.address(position) else { break };
            if !is_plumbing(&name, module.function(address)) {
                return place;
            }
            let rule = module.rule(address).unwrap_or(Rule::FRAME_POINTER);
            let caller = frame.caller(rule, user.sp, user.stack).filter(|_| user.is_64);
            let Some(caller) = caller else { break };
            frame = caller;
            before = 1;
        }
        first
    }

    /// What was seen so far. Functions and lines are looked up on request only, since debug information may be
    /// large.
    pub fn told(&mut self, period_ns: u64, kernel_seen: bool, with_names: bool) -> Samples {
        let mut names = Names::default();
        let mut inside: BTreeMap<Inside, (u64, u16)> = BTreeMap::new();
        // Read only now: that takes a tenth of a second of CPU time, which is not to be the program's.
        if self.inside.keys().any(|key| key.chain.is_some()) {
            self.kernel.get_or_insert_with(Kernel::of_this_machine);
        }
        let path = |chain: &Vec<u64>| self.kernel.as_ref().map(|kernel| kernel.path(chain));
        for (key, count) in &self.inside {
            let kernel = key.chain.as_ref().and_then(path);
            let told = Inside {
                pid: key.pid,
                tid: key.tid,
                program: key.program.clone(),
                site: key.place.map(|place| names.site(&mut self.world, place, with_names)),
                class: key.class.filter(|_| kernel.as_deref().is_some_and(tells_length)),
                kernel,
                distance: key.distance,
                dst: 0,
                samples: 0,
            };
            let (samples, dst) = inside.entry(told).or_default();
            *samples += count.samples;
            *dst = count.dst;
        }
        let inside = inside.into_iter().map(|(told, (samples, dst))| Inside { dst, samples, ..told });
        Samples {
            period_ns,
            taken: self.taken,
            lost: self.lost,
            unread: self.copying.unread,
            kernel_seen,
            inside: inside.collect(),
        }
    }

    /// What the samples could not tell.
    pub fn unseen(&self) -> Vec<Unseen> {
        let mut unseen: Vec<Unseen> = Vec::new();
        let is_hidden = self.kernel.as_ref().is_some_and(|kernel| !kernel.is_named());
        if is_hidden && self.inside.keys().any(|key| key.chain.is_some()) {
            unseen.push(Unseen {
                what: "names of the kernel's functions".into(),
                why: "/proc/kallsyms hides them from this user (kptr_restrict)".into(),
                remedy: Some("sudo sysctl kernel.kptr_restrict=0".into()),
                ..Unseen::default()
            });
        }
        if self.copying.unread > 0 {
            unseen.push(Unseen {
                what: format!("what {} of {} samples interrupted", self.copying.unread, self.taken),
                why: "neither the process's memory nor its file could be read".into(),
                ..Unseen::default()
            });
        }
        let mut hidden: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        self.world.hidden.iter().for_each(|(pid, name)| hidden.entry(name).or_default().push(*pid));
        unseen.extend(hidden.into_iter().map(|(name, pids)| Unseen {
            what: match pids[..] {
                [pid] => format!("process {pid}"),
                _ => format!("{} processes", pids.len()),
            },
            program: Some(name.to_owned()),
            why: "it took other privileges (a setuid program), so the kernel stopped the watching".into(),
            remedy: Some("sudo fsprobe trace".into()),
            any: true,
            ..Unseen::default()
        }));
        unseen
    }
}

/// The class of a length, if it can be one: no call moves more.
fn class(argument: u64) -> Option<u8> {
    (1..=MOST_BYTES).contains(&argument).then(|| argument.ilog2() as u8)
}

/// Whether a path of the kernel begins with a call whose third argument is the length that it asks for.
fn tells_length(path: &str) -> bool {
    const CALLS: [&str; 6] = ["read", "pread64", "write", "pwrite64", "recvfrom", "sendto"];
    path.split_once(": ").is_some_and(|(call, _)| CALLS.contains(&call))
}

/// Places with their names, looked up once.
#[derive(Default)]
struct Names {
    sites: HashMap<Place, Site>,
    lines: HashMap<usize, Lines>,
}

impl Names {
    fn site(&mut self, world: &mut World, place: Place, with_names: bool) -> Site {
        if let Some(site) = self.sites.get(&place) {
            return site.clone();
        }
        let site = self.find(world, place, with_names);
        self.sites.insert(place, site.clone());
        site
    }

    fn find(&mut self, world: &mut World, place: Place, with_names: bool) -> Site {
        let (Some(id), position) = place else {
            return Site { module: None, address: place.1, symbol: None, line: None };
        };
        let name = Some(world.module_name(id).to_owned());
        let module = world.module(id);
        let Some((module, address)) = module.and_then(|m| m.address(position).map(|address| (&*m, address)))
        else {
            return Site { module: name, address: position, symbol: None, line: None };
        };
        let (function, line) = match with_names {
            true => self.lines.entry(id).or_insert_with(|| Module::lines(module)).of(address),
            false => (None, None),
        };
        let symbol = function.or_else(|| module.function(address).map(demangled));
        Site { module: name, address, symbol, line }
    }
}
