//! The processes that are watched: their threads, names and executable memory, kept as the records tell it.

use super::records::{FileId, Record};
use crate::trace::symbols::Module;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

/// Numbers a file or what else executable memory comes from.
pub type ModuleId = usize;

/// A place in a program: the module and the position in its file; without a module the address in memory.
pub type Place = (Option<ModuleId>, u64);

/// A file that executable memory comes from.
#[derive(Debug)]
struct Entry {
    name: String,
    id: FileId,
    /// A process that has it mapped, through whose root it may be found.
    pid: u32,
    module: Option<Option<Module>>,
}

#[derive(Debug, Clone, Copy)]
struct Mapping {
    end: u64,
    offset: u64,
    module: ModuleId,
}

#[derive(Debug, Default)]
struct Process {
    mappings: BTreeMap<u64, Mapping>,
    threads: u32,
    /// Whether it has executed a program of which nothing has been mapped yet.
    is_fresh: bool,
}

/// What is known of all processes.
#[derive(Debug, Default)]
pub struct World {
    processes: HashMap<u32, Process>,
    /// Their names.
    threads: HashMap<u32, String>,
    entries: Vec<Entry>,
    by_file: HashMap<(String, FileId), ModuleId>,
    /// Programs that went out of sight as they were executed.
    pub hidden: Vec<(u32, String)>,
}

impl World {
    /// Takes what a record says; samples say nothing here.
    pub fn learn(&mut self, record: &Record<'_>) {
        match record {
            Record::Mapped { pid, start, end, offset, id, name } => {
                self.map(*pid, *start, *end, *offset, *id, name)
            }
            Record::Named { pid, tid, by_exec, name } => self.name(*pid, *tid, *by_exec, name),
            Record::Began { pid, parent, tid, parent_tid } => self.begin(*pid, *parent, *tid, *parent_tid),
            Record::Ended { pid, tid } => self.end(*pid, *tid),
            Record::Sample(_) | Record::Lost(_) | Record::Throttled => {}
        }
    }

    fn map(&mut self, pid: u32, start: u64, end: u64, offset: u64, id: FileId, name: &str) {
        // Of a process that has not been met its first sample will tell all.
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let key = (name.to_owned(), id);
        let entries = &mut self.entries;
        let module = *self.by_file.entry(key).or_insert_with(|| {
            entries.push(Entry { name: name.to_owned(), id, pid, module: None });
            entries.len() - 1
        });
        process.is_fresh = false;
        // What it replaces, wholly; a remainder of another mapping is left to its start.
        let replaced: Vec<u64> = process.mappings.range(start..end.max(start)).map(|(at, _)| *at).collect();
        for at in replaced {
            process.mappings.remove(&at);
        }
        process.mappings.insert(start, Mapping { end, offset, module });
    }

    fn name(&mut self, pid: u32, tid: u32, by_exec: bool, name: &str) {
        if by_exec {
            let process = self.processes.entry(pid).or_default();
            process.mappings.clear();
            process.is_fresh = true;
            process.threads = 1;
        }
        self.threads.insert(tid, name.to_owned());
    }

    fn begin(&mut self, pid: u32, parent: u32, tid: u32, parent_tid: u32) {
        let name = self.threads.get(&parent_tid).cloned().unwrap_or_default();
        let Some(process) = self.processes.get_mut(&parent) else { return };
        self.threads.insert(tid, name);
        if pid == parent {
            process.threads += 1;
        } else {
            let mappings = process.mappings.clone();
            self.processes.insert(pid, Process { mappings, threads: 1, is_fresh: false });
        }
    }

    fn end(&mut self, pid: u32, tid: u32) {
        let Some(name) = self.threads.remove(&tid) else { return };
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.threads = process.threads.saturating_sub(1);
        if process.is_fresh {
            self.hidden.push((pid, name));
        }
        if process.threads == 0 {
            self.processes.remove(&pid);
        }
    }

    fn knows(&self, tid: u32) -> bool {
        self.threads.contains_key(&tid)
    }

    /// Learns from /proc of a thread that began before it was watched.
    pub fn meet(&mut self, pid: u32, tid: u32) {
        let is_new = !self.processes.contains_key(&pid);
        if !is_new && self.knows(tid) {
            return;
        }
        let name = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"));
        // It may have ended: threads begin with the name of the one that began them.
        let name = name.map_or_else(|_| self.name_of(pid).to_owned(), |name| name.trim_end().to_owned());
        self.threads.insert(tid, name);
        self.processes.entry(pid).or_default().threads += 1;
        if is_new {
            let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
            for line in String::from_utf8_lossy(&maps).lines() {
                if let Some((start, end, offset, id, name)) = executable(line) {
                    self.map(pid, start, end, offset, id, name);
                }
            }
        }
    }

    /// The processes that have not ended, as far as is known.
    pub fn running(&self) -> impl Iterator<Item = u32> + '_ {
        self.processes.keys().copied()
    }

    /// The thread's name.
    pub fn name_of(&self, tid: u32) -> &str {
        self.threads.get(&tid).map_or("", String::as_str)
    }

    /// Where an address of a process comes from.
    pub fn place(&self, pid: u32, address: u64) -> Place {
        let found = self.processes.get(&pid).and_then(|process| {
            let (start, mapping) = process.mappings.range(..=address).next_back()?;
            let name = &self.entries[mapping.module].name;
            // The kernel's words for other memory: `[vdso]`, `//anon`.
            let is_file = name.starts_with('/') && !name.starts_with("//");
            (address < mapping.end && is_file)
                .then(|| (Some(mapping.module), address - start + mapping.offset))
        });
        found.unwrap_or((None, address))
    }

    /// Whether an address is in the code that the kernel lends to every process, which copies nothing.
    pub fn is_vdso(&self, pid: u32, address: u64) -> bool {
        let mapping =
            self.processes.get(&pid).and_then(|process| process.mappings.range(..=address).next_back());
        mapping.is_some_and(|(_, mapping)| {
            address < mapping.end && self.entries[mapping.module].name.starts_with("[v")
        })
    }

    /// The module's name.
    pub fn module_name(&self, id: ModuleId) -> &str {
        &self.entries[id].name
    }

    /// The module's tables, read when first asked for; none where its file cannot be found.
    pub fn module(&mut self, id: ModuleId) -> Option<&mut Module> {
        let entry = &mut self.entries[id];
        if entry.module.is_none() {
            entry.module = Some(find(entry).map(Module::of));
        }
        entry.module.as_mut()?.as_mut()
    }
}

/// Opens a mapped file: as the process sees it, else by its name here.
fn find(entry: &Entry) -> Option<File> {
    let names = [format!("/proc/{}/root{}", entry.pid, entry.name), entry.name.clone()];
    names.iter().find_map(|name| {
        let file = File::open(name).ok()?;
        let meta = file.metadata().ok()?;
        let (major, minor, inode) = entry.id;
        let device = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
        // On another device (layers of a container) numbers say nothing; on the same another file is another.
        let is_it = inode == 0 || meta.ino() == inode || device != (major, minor);
        (is_it && meta.is_file()).then_some(file)
    })
}

/// Start, end, position, file and name of a line of /proc/PID/maps about executable memory.
fn executable(line: &str) -> Option<(u64, u64, u64, FileId, &str)> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    let offset = words.next()?;
    let (major, minor) = words.next()?.split_once(':')?;
    let inode = words.next()?.parse().ok()?;
    let name = words.next().unwrap_or_default().trim_start();
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let small = |text| u32::from_str_radix(text, 16).ok();
    let id = (small(major)?, small(minor)?, inode);
    rights.contains('x').then_some((hex(start)?, hex(end)?, hex(offset)?, id, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: FileId = (8, 1, 42);

    fn mapped(pid: u32, start: u64, name: &str) -> Record<'static> {
        Record::Mapped { pid, start, end: start + 0x1000, offset: 0x2000, id: ID, name: name.into() }
    }

    fn named(tid: u32, name: &str) -> Record<'static> {
        Record::Named { pid: 7, tid, by_exec: true, name: name.into() }
    }

    fn began(pid: u32, tid: u32) -> Record<'static> {
        Record::Began { pid, parent: 7, tid, parent_tid: 7 }
    }

    #[test]
    fn children_have_their_parents_memory_and_names_until_they_execute() {
        let mut world = World::default();
        for record in [named(7, "sh"), mapped(7, 0x10000, "/bin/sh"), began(8, 8), began(7, 9)] {
            world.learn(&record);
        }
        let place = world.place(8, 0x10010);
        assert_eq!((place.1, world.module_name(place.0.unwrap())), (0x2010, "/bin/sh"));
        assert_eq!([world.name_of(8), world.name_of(9)], ["sh", "sh"]);
        world.learn(&Record::Named { pid: 8, tid: 8, by_exec: true, name: "cat".into() });
        assert_eq!(world.place(8, 0x10010), (None, 0x10010), "another program");
        assert_eq!(world.place(7, 0x10010), place);
        world.learn(&Record::Ended { pid: 8, tid: 8 });
        assert_eq!(world.hidden, [(8, "cat".to_owned())], "it ended before anything was mapped");
        assert!(!world.knows(8) && world.knows(9));
    }

    #[test]
    fn processes_that_were_not_met_are_left_to_their_first_sample() {
        let mut world = World::default();
        let renamed = Record::Named { pid: 7, tid: 7, by_exec: false, name: "sh".into() };
        for record in [renamed, mapped(7, 0x10000, "/lib/late.so"), began(8, 8), began(7, 9)] {
            world.learn(&record);
        }
        assert!(world.processes.is_empty());
        assert_eq!(world.place(7, 0x10010), (None, 0x10010));
    }

    #[test]
    fn what_ends_is_forgotten() {
        let mut world = World::default();
        for record in [named(7, "sh"), mapped(7, 0x10000, "/bin/sh"), began(7, 9)] {
            world.learn(&record);
        }
        world.learn(&Record::Ended { pid: 7, tid: 7 });
        assert!(world.place(7, 0x10010).0.is_some(), "a thread is left");
        world.learn(&Record::Ended { pid: 7, tid: 9 });
        assert!(world.processes.is_empty() && world.threads.is_empty() && world.hidden.is_empty());
    }

    #[test]
    fn memory_without_a_file_has_no_module() {
        let mut world = World::default();
        world.learn(&named(7, "app"));
        world.learn(&mapped(7, 0x10000, "//anon"));
        world.learn(&mapped(7, 0x20000, "[vdso]"));
        for address in [0x10000, 0x20fff, 0x11000, 0] {
            assert_eq!(world.place(7, address), (None, address));
            assert_eq!(world.is_vdso(7, address), address == 0x20fff);
        }
    }

    #[test]
    fn this_process_is_met() {
        let mut world = World::default();
        let pid = std::process::id();
        world.meet(pid, pid);
        assert!(world.knows(pid) && !world.name_of(pid).is_empty());
        let here = this_process_is_met as fn() as usize as u64;
        let (module, offset) = world.place(pid, here);
        let module = module.expect("this program is a file");
        assert!(world.module(module).unwrap().address(offset).is_some());
    }

    #[test]
    fn maps_are_read() {
        let line = "00400000-0048a000 r-xp 00001000 fd:03 960637                             /bin/a b";
        assert_eq!(executable(line), Some((0x400000, 0x48a000, 0x1000, (0xfd, 3, 960637), "/bin/a b")));
        assert_eq!(executable("7fff-8000 r-xp 0 00:00 0").map(|found| found.4), Some(""));
        assert_eq!(executable("00400000-0048a000 r--p 00001000 fd:03 960637 /bin/a"), None);
    }

    proptest! {
        #[test]
        fn lines_of_any_content_are_survived(line: String) {
            let _ = executable(&line);
        }
    }
}
