//! The memory that the object counts in: preload/shared.h, read from the file behind it.

use super::files;
use crate::report::{AtOffset, Copies, FileKind, Landing, PAGE};
use std::collections::BTreeMap;
use std::io;

pub const MAGIC: u64 = 0x316f_6c65_7270_7366;
pub const PROCESSES: usize = 16_384;
const FILES: usize = 8192;
const STRANGERS: usize = 256;
const MODULES: usize = 1024;
pub const NAME_BYTES: usize = 1_048_576;
const ROWS: usize = 262_144;

pub const PROCESSES_AT: usize = 4096;
/// Bytes of what is kept of a process.
pub const PROCESS_BYTES: usize = 72;
const FILES_AT: usize = PROCESSES_AT + PROCESSES * PROCESS_BYTES;
const STRANGERS_AT: usize = FILES_AT + FILES * 64;
pub const MODULES_AT: usize = STRANGERS_AT + STRANGERS * 32;
pub const NAMES_AT: usize = MODULES_AT + MODULES * 32;
const ROWS_AT: usize = NAMES_AT + NAME_BYTES;
/// Bytes of the whole.
pub const ALL_BYTES: usize = ROWS_AT + ROWS * 32;

/// Words of the header, by their place.
#[derive(Debug, Clone, Copy)]
pub enum Head {
    Magic,
    MemcpyAbove,
    MemcpyBelow,
    LoaderDevice,
    LoaderInode,
    Closed,
    Begun,
    Started,
    Processes,
    Strangers,
    NameBytes,
    LostCopies,
    LostBytes,
    Stale,
    MovedBytes,
    BetweenFiles,
    Beyond,
    LostFiles,
    LostModules,
}

/// A call as it is told, and whether bytes come from the file.
const CALLS: [(&str, Option<bool>); 27] = [
    ("read", Some(true)),
    ("pread64", Some(true)),
    ("readv", Some(true)),
    ("preadv", Some(true)),
    ("preadv2", Some(true)),
    ("recv", Some(true)),
    ("recvfrom", Some(true)),
    ("recvmsg", Some(true)),
    ("fread", Some(true)),
    ("fgets", Some(true)),
    ("getline", Some(true)),
    ("getdelim", Some(true)),
    ("write", Some(false)),
    ("pwrite64", Some(false)),
    ("writev", Some(false)),
    ("pwritev", Some(false)),
    ("pwritev2", Some(false)),
    ("send", Some(false)),
    ("sendto", Some(false)),
    ("sendmsg", Some(false)),
    ("fwrite", Some(false)),
    ("fputs", Some(false)),
    ("puts", Some(false)),
    ("memcpy", None),
    ("memmove", None),
    ("mempcpy", None),
    ("realloc", None),
];

/// Calls on sockets, whose bytes /proc/PID/io does not count.
const ON_SOCKETS: [&str; 6] = ["recv", "recvfrom", "recvmsg", "send", "sendto", "sendmsg"];

/// What the object is told in the beginning.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Copies in memory of more bytes than the first and of fewer than the second are counted.
    pub window: (u64, u64),
    /// Device and inode of the loader whose programs can be watched.
    pub loader: (u64, u64),
}

impl Setting {
    /// The header's first words.
    pub fn head(&self) -> Vec<u8> {
        let mut words = [0_u64; Head::LostModules as usize + 1];
        words[Head::Magic as usize] = MAGIC;
        (words[Head::MemcpyAbove as usize], words[Head::MemcpyBelow as usize]) = self.window;
        (words[Head::LoaderDevice as usize], words[Head::LoaderInode as usize]) = self.loader;
        // The command itself; number 0 is for all processes that find no room.
        words[Head::Begun as usize] = 1;
        words[Head::Processes as usize] = 1;
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

/// A process that had the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub name: String,
    /// It put a filter before its system calls.
    pub filtered: bool,
    /// Bytes that it and all that it waited for read and wrote, as the kernel told it at its end; none after another end
    /// than `exit` and `_exit`.
    pub io: Option<[u64; 2]>,
    /// Nanoseconds of its own CPU time, user and system, at its end; zeros as above.
    pub spent_ns: [u64; 2],
}

/// A program that was started without the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranger {
    /// The process that started it.
    pub by: u32,
    /// `enum why` of preload/shared.h.
    pub why: u64,
    pub name: String,
}

/// What was counted.
pub struct Counts {
    words: Vec<u64>,
}

impl Counts {
    /// What the file holds.
    ///
    /// # Errors
    /// Where it is none of the object's.
    pub fn of(bytes: &[u8]) -> io::Result<Counts> {
        let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
        let counts = Counts { words: words.collect() };
        match bytes.len() == ALL_BYTES && counts.head(Head::Magic) == MAGIC {
            true => Ok(counts),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// A word of the header.
    pub fn head(&self, word: Head) -> u64 {
        self.words[word as usize]
    }

    fn record<const WORDS: usize>(&self, at: usize, number: usize) -> [u64; WORDS] {
        let first = at / 8 + number * WORDS;
        std::array::from_fn(|word| self.words[first + word])
    }

    /// The text at a place that is one less than told.
    fn name(&self, at: u64, len: u64) -> Option<String> {
        let at = usize::try_from(at).ok()?.checked_sub(1)?;
        let end = at.checked_add(usize::try_from(len).ok()?).filter(|&end| end <= NAME_BYTES)?;
        let byte = |at: usize| self.words[(NAMES_AT + at) / 8].to_ne_bytes()[at % 8];
        let bytes: Vec<u8> = (at..end).map(byte).collect();
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Processes that had the object; the first stands for all that found no room.
    pub fn processes(&self) -> Vec<Process> {
        let count = (self.head(Head::Processes) as usize).min(PROCESSES);
        (0..count)
            .map(|number| {
                let [pid, first, second, filtered, has_ended, read, written, user_ns, system_ns]: [u64; 9] =
                    self.record(PROCESSES_AT, number);
                let name = [first, second];
                let name: Vec<u8> = name.iter().flat_map(|word| word.to_ne_bytes()).collect();
                let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
                let name = String::from_utf8_lossy(name).into_owned();
                let io = (has_ended != 0).then_some([read, written]);
                let spent_ns = [user_ns, system_ns];
                Process { pid: pid as u32, name, filtered: filtered != 0, io, spent_ns }
            })
            .collect()
    }

    /// CPU time that processes told at their ends, user and system: also of those that nobody waited for.
    pub fn spent_ns(&self) -> [u64; 2] {
        let all = self.processes();
        [0, 1].map(|part| all.iter().map(|process| process.spent_ns[part]).sum())
    }

    /// Programs that were started without the object, as many as found room.
    pub fn strangers(&self) -> Vec<Stranger> {
        let count = (self.head(Head::Strangers) as usize).min(STRANGERS);
        let told = (0..count).map(|number| self.record::<4>(STRANGERS_AT, number));
        told.filter(|[_, why, ..]| *why != 0)
            .map(|[by, why, at, len]| Stranger {
                by: by as u32,
                why,
                name: self.name(at, len).unwrap_or_else(|| "a program".into()),
            })
            .collect()
    }

    /// The files of programs and libraries that were loaded, as many as found room.
    pub fn modules(&self) -> Vec<String> {
        let told = (0..MODULES).map(|number| self.record::<4>(MODULES_AT, number));
        told.filter(|[.., ready]| *ready != 0)
            // a name that found no room is one that cannot be opened
            .map(|[_, at, len, _]| self.name(at, len).unwrap_or_default())
            .collect()
    }

    /// A file's kind and name.
    fn file(&self, number: usize) -> (FileKind, Option<String>) {
        if number == 0 {
            return (FileKind::Memory, None);
        }
        let [_, mode, system, direct, at, len, ready, _]: [u64; 8] = self.record(FILES_AT, number);
        match ready {
            0 => (FileKind::Unknown, None),
            _ => (files::kind(mode as u32, system, direct != 0), self.name(at, len)),
        }
    }

    /// Every row: its key and its three counts.
    fn rows(&self) -> impl Iterator<Item = (Key, [u64; 3])> {
        let told = (0..ROWS).map(|number| self.record::<4>(ROWS_AT, number));
        told.filter(|[key, ..]| *key != 0).filter_map(|[key, counts @ ..]| Some((Key::of(key)?, counts)))
    }

    /// Bytes that calls moved which /proc/PID/io counts too: from files, and to files.
    pub fn in_io(&self) -> (u64, u64) {
        let (mut from, mut to) = (0, 0);
        for (key, [_, bytes, _]) in self.rows().filter(|(key, _)| key.kind == Kind::Landing) {
            match CALLS[key.call] {
                (name, _) if ON_SOCKETS.contains(&name) => {}
                (_, Some(true)) => from += bytes,
                (_, Some(false)) => to += bytes,
                (_, None) => {}
            }
        }
        (from, to)
    }

    /// The calls, by process, call and file.
    pub fn copies(&self) -> Vec<Copies> {
        let processes = self.processes();
        let mut all: BTreeMap<(usize, usize, usize), Copies> = BTreeMap::new();
        for (key, [copies, bytes, extra]) in self.rows() {
            let Some(process) = processes.get(key.process) else { continue };
            let row = all.entry((key.process, key.call, key.file)).or_insert_with(|| {
                let (kind, file) = self.file(key.file);
                let (call, from_file) = CALLS[key.call];
                Copies {
                    pid: process.pid,
                    program: process.name.clone(),
                    call: call.into(),
                    file,
                    kind,
                    from_file,
                    calls: 0,
                    failed: 0,
                    bytes: 0,
                    landings: vec![],
                    buffers: vec![],
                }
            });
            match key.kind {
                Kind::Landing => {
                    row.calls += copies.saturating_sub(extra);
                    row.bytes += bytes;
                    let has_source = matches!(row.kind, FileKind::PageCache | FileKind::Memory);
                    let distance = Some(key.value).filter(|value| has_source && *value < PAGE);
                    row.landings.push(Landing { distance, class: key.class, copies, bytes });
                }
                Kind::Buffer => row.buffers.push(AtOffset { offset: key.value, copies, bytes }),
                Kind::Failed => row.failed += copies,
                Kind::Empty => row.calls += copies,
            }
        }
        let mut all: Vec<Copies> = all.into_values().collect();
        for row in &mut all {
            row.landings = merged(std::mem::take(&mut row.landings));
            row.buffers.sort();
        }
        all
    }
}

/// Takes the distances from copies in memory, of which nobody knows whether they are a `rep movs`.
pub fn without_distances(copies: &mut [Copies]) {
    for row in copies.iter_mut().filter(|row| row.kind == FileKind::Memory) {
        let unknown = row.landings.drain(..).map(|landing| Landing { distance: None, ..landing });
        row.landings = merged(unknown.collect());
    }
}

/// Sorted, those of one distance and class together.
fn merged(mut landings: Vec<Landing>) -> Vec<Landing> {
    landings.sort();
    landings.dedup_by(|next, kept| {
        let is_same = (next.distance, next.class) == (kept.distance, kept.class);
        if is_same {
            kept.copies += next.copies;
            kept.bytes += next.bytes;
        }
        is_same
    });
    landings
}

/// What a row counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Landing,
    Buffer,
    Failed,
    Empty,
}

/// A row's key, taken apart.
struct Key {
    process: usize,
    call: usize,
    file: usize,
    kind: Kind,
    class: u8,
    value: u16,
}

impl Key {
    fn of(mut key: u64) -> Option<Key> {
        let mut take = |bits: u32| {
            let part = key & ((1 << bits) - 1);
            key >>= bits;
            part as usize
        };
        let (value, class, kind, file, call, process) =
            (take(13), take(6), take(2), take(13), take(6), take(14));
        let kind = [Kind::Landing, Kind::Buffer, Kind::Failed, Kind::Empty][kind];
        (call < CALLS.len()).then_some(Key {
            process,
            call,
            file,
            kind,
            class: class as u8,
            value: value as u16,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../../../preload/shared.h");

    /// What the header says after `#define NAME`.
    fn defined(name: &str) -> u64 {
        let line = HEADER.lines().find_map(|line| line.strip_prefix(&format!("#define {name} "))).unwrap();
        let word = line.split_whitespace().next().unwrap();
        let number = word.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
        number.unwrap_or_else(|| word.parse()).unwrap()
    }

    #[test]
    fn the_object_has_the_same_layout() {
        let numbers = [
            ("MAGIC", MAGIC),
            ("PROCESSES", PROCESSES as u64),
            ("FILES", FILES as u64),
            ("STRANGERS", STRANGERS as u64),
            ("MODULES", MODULES as u64),
            ("NAME_BYTES", NAME_BYTES as u64),
            ("ROWS", ROWS as u64),
            ("HEADER_BYTES", PROCESSES_AT as u64),
        ];
        for (name, number) in numbers {
            assert_eq!(defined(name), number, "{name}");
        }
        let bits = ["VALUE", "CLASS", "KIND", "FILE", "CALL", "PROCESS"]
            .map(|part| defined(&format!("{part}_BITS")));
        assert_eq!(bits, [13, 6, 2, 13, 6, 14]);
    }

    #[test]
    fn the_object_numbers_the_same_calls() {
        let list = HEADER.split("#define CALLS(X)").nth(1).unwrap().split("\n\n").next().unwrap();
        let names: Vec<&str> = list.split("X(").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
        assert_eq!(names, CALLS.map(|(name, _)| name));
        assert!(ON_SOCKETS.iter().all(|name| names.contains(name)));
    }

    #[test]
    fn what_is_none_of_the_objects_is_refused() {
        assert!(Counts::of(&[]).is_err() && Counts::of(&vec![0; ALL_BYTES]).is_err());
        let mut bytes = Setting { window: (5, 9), loader: (1, 2) }.head();
        bytes.resize(ALL_BYTES, 0);
        let counts = Counts::of(&bytes).unwrap();
        assert_eq!((counts.head(Head::MemcpyBelow), counts.head(Head::LoaderInode)), (9, 2));
        assert_eq!((counts.copies(), counts.strangers(), counts.processes().len()), (vec![], vec![], 1));
        // A damaged key names no call.
        bytes[ROWS_AT..ROWS_AT + 8].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(Counts::of(&bytes).unwrap().copies(), vec![]);
    }
}
