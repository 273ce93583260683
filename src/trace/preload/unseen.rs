//! What the object could not see, in words.

use super::counts::{Counts, Head, NAME_BYTES, PROCESSES, Process, Stranger};
use super::looks::Seen;
use crate::report::{Unseen, printable};
use crate::sys::proc::{self, is_running};
use crate::trace::inside::{self, MUCH_NS};
use crate::trace::instruction::may_copy;
use crate::trace::{BY_PTRACE, BY_SAMPLE, still_running};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;

/// Bytes that every program's loader, kernel and C library read or write on their own, at most: far below what matters.
const SLACK_PER_PROGRAM: u64 = 64 << 10;

/// Bytes that the kernel says a command and all it waited for moved by system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Io {
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
}

impl Io {
    /// Of a process that has ended and has not been waited for; none where the kernel does not tell.
    pub fn of(pid: u32) -> Option<Io> {
        Io::parsed(&std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?)
    }

    /// What a process told of itself as it ended, in the last program that it ran.
    pub fn told_by(counts: &Counts, pid: u32) -> Option<Io> {
        let processes = counts.processes();
        let last = processes.iter().rev().find(|process| process.pid == pid)?;
        last.io.map(|[read, written]| Io { read, written })
    }

    fn parsed(text: &str) -> Option<Io> {
        let find = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
        Some(Io { read: find("rchar:")?, written: find("wchar:")? })
    }
}

/// What fsprobe itself knows of the command.
#[derive(Debug)]
pub struct Known {
    /// Bytes that it moved; none where the kernel does not tell.
    pub io: Option<Io>,
    /// Nanoseconds of CPU time, user and system; none where the kernel does not tell.
    pub spent_ns: Option<[u64; 2]>,
    /// What its memory looked like.
    pub looks: Seen,
}

impl Known {
    /// Whether programs without the object, if all has ended, can have copied only what the bytes show: of the time
    /// outside the kernel there was too little to matter.
    fn is_bounded(&self) -> bool {
        self.io.is_some() && self.spent_ns.is_some_and(|[user, _]| user < MUCH_NS)
    }
}

/// Everything that was not seen; `left` runs on.
pub fn tell(counts: &Counts, known: &Known, left: &BTreeSet<u32>) -> Vec<Unseen> {
    let any = !known.is_bounded() || !left.is_empty();
    let mut all = strangers(&counts.strangers(), counts.head(Head::Strangers), any);
    all.extend(filtered(&counts.processes()));
    all.extend(still_running(left));
    all.extend(missing_bytes(counts, known.io));
    all.extend(between_files(counts.head(Head::BetweenFiles)));
    all.extend(beyond(counts.head(Head::Beyond), &known.looks));
    all.extend(without_room(counts));
    let unready = counts.head(Head::Begun).saturating_sub(counts.head(Head::Started));
    if unready > 0 {
        let told = unseen(
            format!("programs started by the command: {unready}"),
            "they ended before their loader had taken the object, or it did not take it",
            Some(BY_PTRACE),
        );
        all.push(Unseen { any, ..told });
    }
    let stale = counts.head(Head::Stale);
    if stale > 0 {
        all.push(unseen(
            "which file some calls were on".into(),
            &format!("descriptors were closed by bare system calls; found {stale} times, when every 256th call was checked"),
            Some(BY_PTRACE),
        ));
    }
    all
}

/// What the shared memory had no room for.
fn without_room(counts: &Counts) -> Vec<Unseen> {
    let mut all = Vec::new();
    let lost = counts.head(Head::LostCopies);
    if lost > 0 {
        let bytes = counts.head(Head::LostBytes);
        let told = unseen(
            format!("{lost} copies of {bytes} bytes in all"),
            "there was no room for so many different ones in the memory shared with the program",
            Some(BY_PTRACE),
        );
        all.push(Unseen { bytes: Some(bytes), ..told });
    }
    for (word, room, what) in [
        (Head::Processes, PROCESSES, "which process some calls were made by"),
        (Head::LostFiles, 0, "which of too many files some calls were on"),
        (Head::NameBytes, NAME_BYTES, "the names of some files"),
    ] {
        if counts.head(word) > room as u64 {
            all.push(unseen(
                what.into(),
                "there was no room for so many in the memory shared with the program",
                Some(BY_PTRACE),
            ));
        }
    }
    all
}

/// Where the loader does not tell from which length on copies are a `rep movs`.
pub fn thresholds(why: &str) -> Unseen {
    let why = format!("its loader does not tell from which length on it uses one ({why})");
    unseen("which of the C library's copies in memory are a rep movs".into(), &why, Some(BY_SAMPLE))
}

/// Copies of the C library's that its calls do not tell of, where no samples do either; nothing is weighed for them.
pub fn past_what_is_counted(user_ns: u64) -> Option<Unseen> {
    inside::within(user_ns)?;
    Some(unseen(
        "copies inside the C library's further functions (strdup, qsort), and by its memcpy where a library binds to it alone \
         (RTLD_DEEPBIND, dlsym)"
            .into(),
        "no samples are allowed here, which would meet them",
        Some(BY_SAMPLE),
    ))
}

/// Copies that the program or its libraries make themselves, where there was time for many and their code may hold
/// some.
pub fn inside(counts: &Counts, known: &Known) -> Option<Unseen> {
    let (looks, [user_ns, _]) = (&known.looks, known.spent_ns?);
    let within_ns = Some(inside::within(user_ns)?);
    let told = unseen(
        "copies inside the program, past the C library's functions".into(),
        "its code, or a library's, may hold rep movs of its own",
        Some(BY_SAMPLE),
    );
    if counts.head(Head::LostModules) > 0 {
        return Some(Unseen { within_ns, ..told });
    }
    if looks.has_own_code {
        let what = "copies by code that was made while the program ran".into();
        let why = "what it holds is not known";
        return Some(Unseen { within_ns, ..unseen(what, why, Some(BY_SAMPLE)) });
    }
    let all = counts.modules().into_iter().chain(looks.code.iter().cloned());
    let own = all.filter(|name| !is_c_library(name));
    let copier = own.into_iter().find(|name| may_copy(Path::new(name)).unwrap_or(true))?;
    Some(Unseen { program: Some(printable(&copier, 300)), within_ns, ..told })
}

/// Whether a file is the object, the loader or a part of the C library, whose copies are counted.
fn is_c_library(name: &str) -> bool {
    const PARTS: [&str; 9] = [
        "libc",
        "libm",
        "libmvec",
        "libpthread",
        "libdl",
        "librt",
        "libresolv",
        "libutil",
        "ld-linux-x86-64",
    ];
    let name = name.rsplit('/').next().unwrap_or_default();
    let stem = name.split_once(".so").map_or(name, |(stem, _)| stem);
    // `libc-2.31.so` of before glibc 2.34
    let stem = stem.split_once("-2.").map_or(stem, |(stem, _)| stem);
    name == super::place::OBJECT || name.contains(".so") && (PARTS.contains(&stem) || stem == "ld")
}

/// What sendfile and its relatives put into files, of which the kernel copies none, some or all.
fn between_files(bytes: u64) -> Option<Unseen> {
    (bytes > 0).then(|| {
        let why = "sendfile, splice or copy_file_range moved them there, which the kernel does by copying or without";
        let told = unseen(format!("{bytes} bytes from file to file"), why, Some(BY_SAMPLE));
        Unseen { bytes: Some(bytes), ..told }
    })
}

/// Calls that may copy and are not counted: `enum beyond` of preload/shared.h.
fn beyond(called: u64, looks: &Seen) -> Vec<Unseen> {
    let seen = [false, false, looks.has_rings, looks.has_aio];
    [
        ("recvmmsg or sendmmsg", "a call that passes several messages at once is not counted", BY_SAMPLE),
        (
            "process_vm_readv or process_vm_writev",
            "copies from or to another process's memory are not counted",
            BY_SAMPLE,
        ),
        ("io_uring", "the kernel copies without calls there", BY_SAMPLE),
        ("io_submit", "what is read and written by Linux's own asynchronous calls is not counted", BY_SAMPLE),
    ]
    .into_iter()
    .enumerate()
    .filter(|(bit, _)| called >> bit & 1 == 1 || seen[*bit])
    .map(|(_, (what, why, remedy))| Unseen { any: true, ..unseen(what.into(), why, Some(remedy)) })
    .collect()
}

fn unseen(what: String, why: &str, remedy: Option<&str>) -> Unseen {
    Unseen { what, why: why.into(), remedy: remedy.map(Into::into), ..Unseen::default() }
}

/// Programs without the object, those of one name together.
fn strangers(told: &[Stranger], started: u64, any: bool) -> Vec<Unseen> {
    let mut by_name: BTreeMap<(&str, u64), Vec<u32>> = BTreeMap::new();
    for stranger in told {
        by_name.entry((&stranger.name, stranger.why)).or_default().push(stranger.by);
    }
    let mut all: Vec<Unseen> = by_name
        .into_iter()
        .map(|((name, why), by)| {
            let times = if by.len() > 1 { format!(", {} times", by.len()) } else { String::new() };
            let what = format!("a program that process {} started{times}", by[0]);
            Unseen { program: Some(printable(name, 300)), any, ..unseen(what, because(why), Some(BY_PTRACE)) }
        })
        .collect();
    let untold = started.saturating_sub(told.len() as u64);
    if untold > 0 {
        let what = format!("{untold} further programs without the object");
        all.push(Unseen { any, ..unseen(what, "only the first are listed", Some(BY_PTRACE)) });
    }
    all
}

/// `enum why` of preload/shared.h.
fn because(why: u64) -> &'static str {
    match why {
        1 => "it is statically linked, so nothing can be put between it and its C library",
        2 => {
            "it runs with rights that its caller has not, and the loader then ignores what it is asked to load"
        }
        3 => "it uses another C library",
        4 => "it is not a program for 64-bit x86",
        5 => "the process that started it could not read the object, after a change of user or root folder",
        6 => "the process that started it had put a filter before its system calls",
        _ => "its AddressSanitizer is a library that ends the program unless it is loaded first",
    }
}

fn filtered(processes: &[Process]) -> Vec<Unseen> {
    let behind = processes.iter().filter(|process| process.filtered);
    behind
        .map(|process| {
            let what = format!("files and distances, in part, of process {}", process.pid);
            let why = "it put a filter before its system calls, which any call of the object's own might have offended";
            Unseen { program: Some(printable(&process.name, 20)), ..unseen(what, why, Some(BY_PTRACE)) }
        })
        .collect()
}

/// Processes with the object that the command left running: those that have counted, and those that have it mapped, of
/// all that began since the command did.
pub fn left(counts: &Counts, object: &OsStr, began_tick: Option<u64>) -> BTreeSet<u32> {
    let pids = counts.processes().into_iter().map(|process| process.pid);
    let counting = pids.filter(|&pid| pid > 0 && is_running(pid));
    let object = object.to_string_lossy();
    let mapping = proc::began_since(began_tick.unwrap_or(0)).into_iter().filter(|pid| {
        let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        String::from_utf8_lossy(&maps).contains(&*object)
    });
    counting.chain(mapping).collect()
}

/// Bytes that the kernel counted and the object did not see.
fn missing_bytes(counts: &Counts, io: Option<Io>) -> Vec<Unseen> {
    let Some(io) = io else {
        let told = unseen(
            "calls that go past the C library's public functions, if there were any".into(),
            "the kernel does not tell how much the command read and wrote (/proc/PID/io)",
            Some(BY_PTRACE),
        );
        return vec![Unseen { any: true, ..told }];
    };
    let (read, written) = counts.in_io();
    let moved = counts.head(Head::MovedBytes);
    let slack = SLACK_PER_PROGRAM * counts.head(Head::Started).max(1);
    let miss = |all: u64, seen: u64, verb: &str, like: &str| {
        let missing = all.saturating_sub(seen).saturating_sub(moved);
        (missing > slack && missing > all / 100).then(|| {
            let what = format!("about {missing} of {all} bytes that the command and its children {verb}");
            let why = format!(
                "by programs without the object, by bare system calls, or inside the C library ({like}, for one)"
            );
            Unseen { bytes: Some(missing), ..unseen(what, &why, Some(BY_PTRACE)) }
        })
    };
    [miss(io.read, read, "read", "getc"), miss(io.written, written, "wrote", "printf")]
        .into_iter()
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::preload::counts::{ALL_BYTES, MODULES_AT, NAMES_AT, Setting};

    fn counts(words: &[(Head, u64)]) -> Counts {
        let mut bytes = Setting { window: (0, 0), loader: (0, 0) }.head();
        bytes.resize(ALL_BYTES, 0);
        for (word, value) in words {
            bytes[*word as usize * 8..][..8].copy_from_slice(&value.to_ne_bytes());
        }
        Counts::of(&bytes).unwrap()
    }

    #[test]
    fn io_is_read_or_unknown() {
        let text = "rchar: 12\nwchar: 34\nsyscr: 1\n";
        assert_eq!(Io::parsed(text), Some(Io { read: 12, written: 34 }));
        assert_eq!(Io::parsed("rchar: 12\n"), None);
        assert_eq!(Io::parsed("rchar: x\nwchar: 1\n"), None);
    }

    /// What is told of a command that moved so many bytes and spent next to no time.
    fn told(counts: &Counts, io: Option<(u64, u64)>) -> Vec<Unseen> {
        told_of(counts, io, [1000, 1000])
    }

    fn told_of(counts: &Counts, io: Option<(u64, u64)>, spent_ns: [u64; 2]) -> Vec<Unseen> {
        let io = io.map(|(read, written)| Io { read, written });
        tell(counts, &Known { io, spent_ns: Some(spent_ns), looks: Seen::default() }, &BTreeSet::new())
    }

    #[test]
    fn only_what_is_missing_is_told() {
        let all_well = counts(&[(Head::Started, 1)]);
        let small = Some((1000, 0));
        assert_eq!(told(&all_well, small), vec![]);
        let unknown = told(&all_well, None);
        assert!(unknown.len() == 1 && unknown[0].any, "{unknown:?}");
        let missing = told(&all_well, Some((10 << 20, 0)));
        assert!(
            missing.len() == 1
                && missing[0].what.contains("10485760 bytes")
                && missing[0].what.contains("read")
        );
        let moved = counts(&[(Head::Started, 1), (Head::MovedBytes, 10 << 20)]);
        assert_eq!(told(&moved, Some((10 << 20, 10 << 20))), vec![]);
        let many =
            [(Head::Started, 1), (Head::Processes, 16_385), (Head::NameBytes, 1 << 21), (Head::LostFiles, 1)];
        assert_eq!(told(&counts(&many), small).len(), 3);
        let worse = counts(&[(Head::LostCopies, 3), (Head::LostBytes, 99), (Head::Stale, 2)]);
        let worse = told(&worse, small);
        assert_eq!(worse.len(), 3, "{worse:?}");
        assert!(worse[0].what.contains("3 copies of 99 bytes"));
        assert!(worse[1].what.contains("1") && worse[1].why.contains("loader"));
    }

    #[test]
    fn calls_that_are_not_counted_are_told() {
        let between = told(&counts(&[(Head::Started, 1), (Head::BetweenFiles, 77)]), Some((0, 0)));
        assert!(between.len() == 1 && between[0].bytes == Some(77) && !between[0].any, "{between:?}");
        let called = told(&counts(&[(Head::Started, 1), (Head::Beyond, 0b110)]), Some((0, 0)));
        let words: Vec<&str> = called.iter().map(|unseen| unseen.what.as_str()).collect();
        assert_eq!(words, ["process_vm_readv or process_vm_writev", "io_uring"]);
        assert!(called.iter().all(|unseen| unseen.any));
    }

    #[test]
    fn programs_without_the_object_may_copy_unless_there_was_no_time() {
        let unready = counts(&[(Head::Started, 0)]);
        let any = |io, spent_ns| told_of(&unready, io, spent_ns).iter().any(|unseen| unseen.any);
        assert!(!any(Some((0, 0)), [MUCH_NS - 1, 0]), "next to nothing");
        assert!(any(Some((0, 0)), [MUCH_NS, 100 * MUCH_NS]) && any(None, [0, 0]));
        let known =
            Known { io: Some(Io { read: 0, written: 0 }), spent_ns: Some([0, 0]), looks: Seen::default() };
        let told = tell(&unready, &known, &BTreeSet::from([7]));
        assert!(told.iter().any(|unseen| unseen.any), "one that still runs may have been among them");
    }

    #[test]
    fn code_that_may_copy_is_told_where_it_had_time() {
        let mut bytes = Setting { window: (0, 0), loader: (0, 0) }.head();
        bytes.resize(ALL_BYTES, 0);
        let put = |bytes: &mut Vec<u8>, number: usize, name: &str, at: usize| {
            bytes[NAMES_AT + at..][..name.len()].copy_from_slice(name.as_bytes());
            let words = [9, at as u64 + 1, name.len() as u64, 1].map(u64::to_ne_bytes).concat();
            bytes[MODULES_AT + number * 32..][..32].copy_from_slice(&words);
        };
        put(&mut bytes, 3, "/lib/libc.so.6", 0);
        let harmless = Counts::of(&bytes).unwrap();
        let inside_of = |counts: &Counts, looks: &Seen, user_ns| {
            inside(counts, &Known { io: None, spent_ns: Some([user_ns, 0]), looks: looks.clone() })
        };
        let looks = Seen::default();
        assert_eq!(inside_of(&harmless, &looks, MUCH_NS), None, "its copies are counted");
        put(&mut bytes, 4, "/proc/self/exe", 100);
        let own = Counts::of(&bytes).unwrap();
        assert_eq!(own.modules(), ["/lib/libc.so.6", "/proc/self/exe"]);
        let found = inside_of(&own, &looks, MUCH_NS).unwrap();
        assert!(
            found.within_ns == Some(MUCH_NS) && found.program.as_deref() == Some("/proc/self/exe"),
            "{found:?}"
        );
        assert_eq!(inside_of(&own, &looks, MUCH_NS - 1), None);
        let loaded = Seen { code: ["/gone/library.so".into()].into(), ..Seen::default() };
        assert!(inside_of(&harmless, &loaded, MUCH_NS).is_some(), "it was dropped before the end");
        let made = Seen { has_own_code: true, has_rings: true, ..Seen::default() };
        assert!(inside_of(&harmless, &made, MUCH_NS).is_some_and(|told| told.what.contains("made while")));
        assert_eq!(beyond(0, &made).iter().map(|told| told.what.as_str()).collect::<Vec<_>>(), ["io_uring"]);
        assert!(inside_of(&counts(&[(Head::LostModules, 1)]), &looks, MUCH_NS).is_some());
    }

    #[test]
    fn parts_of_the_c_library_by_name() {
        for name in ["/lib/libc.so.6", "/usr/lib/libm.so.6", "/lib64/ld-linux-x86-64.so.2", "/l/libc-2.31.so"]
        {
            assert!(is_c_library(name), "{name}");
        }
        for name in ["/usr/bin/libc", "/lib/libcrypto.so.3", "/opt/app", ""] {
            assert!(!is_c_library(name), "{name}");
        }
    }

    #[test]
    fn strangers_of_one_name_are_told_together() {
        let stranger = |by, name: &str| Stranger { by, why: 1, name: name.into() };
        let told = strangers(&[stranger(1, "/bin/a"), stranger(2, "/bin/b"), stranger(3, "/bin/a")], 5, true);
        assert_eq!(told.len(), 3);
        assert!(
            told[0].whose() == "a program that process 1 started, 2 times (/bin/a)"
                && told[0].why.contains("static")
        );
        assert!(told[2].what.starts_with("2 further") && told.iter().all(|unseen| unseen.any));
        let told = still_running(&(1..9).filter(|pid| *pid != 4).collect()).unwrap();
        assert!(told.what.ends_with("1, 2, 3, 5, 6, …"), "{}", told.what);
        assert_eq!(still_running(&BTreeSet::new()), None);
        let process = |filtered| Process { pid: 3, name: "x".into(), filtered, io: None, spent_ns: [0; 2] };
        assert!(filtered(&[process(false), process(true)])[0].whose().ends_with("process 3 (x)"));
    }
}
