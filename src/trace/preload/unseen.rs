//! What the object could not see, in words.

use super::counts::{Counts, Head, NAME_BYTES, PROCESSES, Process, Stranger};
use crate::report::{Unseen, printable};
use std::collections::{BTreeMap, BTreeSet};

/// What shows all that the object cannot.
const REMEDY: &str = "fsprobe trace --via ptrace";

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

    fn parsed(text: &str) -> Option<Io> {
        let find = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
        Some(Io { read: find("rchar:")?, written: find("wchar:")? })
    }
}

/// Everything that was not seen.
pub fn tell(counts: &Counts, io: Option<Io>) -> Vec<Unseen> {
    let mut all = strangers(&counts.strangers(), counts.head(Head::Strangers));
    let processes = counts.processes();
    all.extend(filtered(&processes));
    all.extend(running(&processes, &|pid| is_running(pid)));
    all.extend(missing_bytes(counts, io));
    let lost = counts.head(Head::LostCopies);
    if lost > 0 {
        let bytes = counts.head(Head::LostBytes);
        let told = unseen(
            format!("{lost} copies of {bytes} bytes in all"),
            "there was no room for so many different ones in the memory shared with the program",
            Some(REMEDY),
        );
        all.push(Unseen { bytes: Some(bytes), ..told });
    }
    for (word, room, what) in [
        (Head::Processes, PROCESSES, "which process some calls were made by"),
        (Head::NameBytes, NAME_BYTES, "the names of some files"),
    ] {
        if counts.head(word) > room as u64 {
            all.push(unseen(
                what.into(),
                "there was no room for so many in the memory shared with the program",
                Some(REMEDY),
            ));
        }
    }
    let unready = counts.head(Head::Begun).saturating_sub(counts.head(Head::Started));
    if unready > 0 {
        all.push(unseen(
            format!("programs started by the command: {unready}"),
            "they ended before their loader had taken the object, or it did not take it",
            Some(REMEDY),
        ));
    }
    let stale = counts.head(Head::Stale);
    if stale > 0 {
        all.push(unseen(
            "which file some calls were on".into(),
            &format!("descriptors were closed by bare system calls; found {stale} times, when every 256th call was checked"),
            Some(REMEDY),
        ));
    }
    all
}

fn unseen(what: String, why: &str, remedy: Option<&str>) -> Unseen {
    Unseen { what, why: why.into(), remedy: remedy.map(Into::into), ..Unseen::default() }
}

/// Programs without the object, those of one name together.
fn strangers(told: &[Stranger], started: u64) -> Vec<Unseen> {
    let mut by_name: BTreeMap<(&str, u64), Vec<u32>> = BTreeMap::new();
    for stranger in told {
        by_name.entry((&stranger.name, stranger.why)).or_default().push(stranger.by);
    }
    let mut all: Vec<Unseen> = by_name
        .into_iter()
        .map(|((name, why), by)| {
            let times = if by.len() > 1 { format!(", {} times", by.len()) } else { String::new() };
            let what = format!("a program that process {} started{times}", by[0]);
            Unseen { program: Some(printable(name, 300)), ..unseen(what, because(why), Some(REMEDY)) }
        })
        .collect();
    let untold = started.saturating_sub(told.len() as u64);
    if untold > 0 {
        all.push(unseen(
            format!("{untold} further programs without the object"),
            "only the first are listed",
            Some(REMEDY),
        ));
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
        _ => "the process that started it had put a filter before its system calls",
    }
}

fn filtered(processes: &[Process]) -> Vec<Unseen> {
    let behind = processes.iter().filter(|process| process.filtered);
    behind
        .map(|process| {
            let what = format!("files and distances, in part, of process {}", process.pid);
            let why = "it put a filter before its system calls, which any call of the object's own might have offended";
            Unseen { program: Some(printable(&process.name, 20)), ..unseen(what, why, Some(REMEDY)) }
        })
        .collect()
}

/// Processes that the command left running.
fn running(processes: &[Process], is_running: &dyn Fn(u32) -> bool) -> Option<Unseen> {
    let left: BTreeSet<u32> =
        processes.iter().map(|process| process.pid).filter(|&pid| pid > 0 && is_running(pid)).collect();
    let list: Vec<String> = left.iter().take(5).map(ToString::to_string).collect();
    let more = if left.len() > list.len() { ", …" } else { "" };
    (!left.is_empty()).then(|| {
        unseen(
            format!("what processes that still run do from here on: {}{more}", list.join(", ")),
            "the command has ended before them",
            None,
        )
    })
}

/// Whether a process is there and no zombie.
pub fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Bytes that the kernel counted and the object did not see.
fn missing_bytes(counts: &Counts, io: Option<Io>) -> Vec<Unseen> {
    let Some(io) = io else {
        return vec![unseen(
            "calls that go past the C library's public functions, if there were any".into(),
            "the kernel does not tell how much the command read and wrote (/proc/PID/io)",
            Some(REMEDY),
        )];
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
            Unseen { bytes: Some(missing), ..unseen(what, &why, Some(REMEDY)) }
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
    use crate::trace::preload::counts::{ALL_BYTES, Setting};

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

    #[test]
    fn only_what_is_missing_is_told() {
        let all_well = counts(&[(Head::Started, 1)]);
        let small = Io { read: 1000, written: 0 };
        assert_eq!(tell(&all_well, Some(small)), vec![]);
        assert_eq!(tell(&all_well, None).len(), 1);
        let told = tell(&all_well, Some(Io { read: 10 << 20, written: 0 }));
        assert!(told.len() == 1 && told[0].what.contains("10485760 bytes") && told[0].what.contains("read"));
        let moved = counts(&[(Head::Started, 1), (Head::MovedBytes, 10 << 20)]);
        assert_eq!(tell(&moved, Some(Io { read: 10 << 20, written: 10 << 20 })), vec![]);
        let many = counts(&[(Head::Started, 1), (Head::Processes, 16_385), (Head::NameBytes, 1 << 21)]);
        assert_eq!(tell(&many, Some(small)).len(), 2);
        let worse = counts(&[(Head::LostCopies, 3), (Head::LostBytes, 99), (Head::Stale, 2)]);
        let told = tell(&worse, Some(small));
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0].what.contains("3 copies of 99 bytes"));
        assert!(told[1].what.contains("1") && told[1].why.contains("loader"));
    }

    #[test]
    fn strangers_of_one_name_are_told_together() {
        let stranger = |by, name: &str| Stranger { by, why: 1, name: name.into() };
        let told = strangers(&[stranger(1, "/bin/a"), stranger(2, "/bin/b"), stranger(3, "/bin/a")], 5);
        assert_eq!(told.len(), 3);
        assert!(
            told[0].whose() == "a program that process 1 started, 2 times (/bin/a)"
                && told[0].why.contains("static")
        );
        assert!(told[2].what.starts_with("2 further"));
        let left: Vec<Process> =
            (1..9).map(|pid| Process { pid, name: "x".into(), filtered: pid == 3 }).collect();
        let told = running(&left, &|pid| pid != 4).unwrap();
        assert!(told.what.ends_with("1, 2, 3, 5, 6, …"), "{}", told.what);
        assert_eq!(running(&left, &|_| false), None);
        assert!(filtered(&left)[0].whose().ends_with("process 3 (x)"));
        assert!(is_running(std::process::id()) && !is_running(u32::MAX));
    }
}
