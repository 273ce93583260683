//! The same commands under strace(1): the same calls, bytes and page offsets of buffers.

use super::programs::{file, watched};
use std::collections::{BTreeMap, HashMap};
use std::process::{Command, Stdio};

/// Calls of one kind: ended well, failed, bytes, and for those that name a buffer, its page offsets.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    calls: u64,
    failed: u64,
    bytes: u64,
    buffers: BTreeMap<u64, u64>,
}

const CALLS: &str = "read,pread64,readv,preadv,preadv2,write,pwrite64,writev,pwritev,pwritev2,recvfrom,recvmsg,sendto,sendmsg";

/// What strace's output tells.
fn parsed(text: &str) -> BTreeMap<String, Seen> {
    let mut unfinished = HashMap::new();
    let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
    for line in text.lines() {
        let (process, rest) = line.split_once(' ').unwrap();
        let rest = rest.trim_start();
        if let Some(begun) = rest.strip_suffix(" <unfinished ...>") {
            unfinished.insert(process, begun.to_owned());
            continue;
        }
        let whole = match rest.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>")) {
            Some((_, end)) => unfinished.remove(process).unwrap_or_default() + end,
            None => rest.to_owned(),
        };
        let Some((call, after)) = whole.split_once('(') else { continue };
        let Some((arguments, result)) = after.rsplit_once("= ") else { continue };
        let number = |text: &str| {
            let text = text.trim();
            text.strip_prefix("0x").map_or(text.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())
        };
        let result = result.split(' ').next().unwrap_or_default();
        let row = seen.entry(call.to_owned()).or_default();
        let Some(bytes) = number(result).filter(|_| !result.starts_with('-')) else {
            row.failed += 1;
            continue;
        };
        row.calls += 1;
        row.bytes += bytes;
        let buffer = arguments.split(',').nth(1).and_then(number).unwrap_or(0);
        if bytes > 0 && ["read", "pread64", "write", "pwrite64", "recvfrom", "sendto"].contains(&call) {
            *row.buffers.entry(buffer % 4096).or_default() += 1;
        }
    }
    seen
}

/// What strace and what fsprobe counted of a command, run twice; none, said aloud, where one of them cannot.
fn counted_twice(folder: &str, words: &[&str]) -> Option<(BTreeMap<String, Seen>, BTreeMap<String, Seen>)> {
    let log = format!("{folder}/log");
    let mut strace = Command::new("setarch");
    strace.args([
        "-R",
        "strace",
        "-f",
        "-q",
        "-s",
        "0",
        "-o",
        &log,
        "-e",
        &format!("trace={CALLS}"),
        "-e",
        "raw=all",
        "-e",
        "signal=none",
    ]);
    strace.args(words).stderr(Stdio::null()).status().unwrap();
    let told = std::fs::read_to_string(&log).unwrap();
    if told.is_empty() {
        eprintln!("skipped: strace cannot trace here");
        return None;
    }
    let done = watched(&[&["setarch", "-R"], words].concat())?;
    let mut own: BTreeMap<String, Seen> = BTreeMap::new();
    for row in done.watched.copies.iter().filter(|row| row.program != "setarch") {
        let seen = own.entry(row.call.clone()).or_default();
        (seen.calls, seen.failed, seen.bytes) =
            (seen.calls + row.calls, seen.failed + row.failed, seen.bytes + row.bytes);
        for at in row.buffers.iter().filter(|_| !row.call.contains(['v', 'm'])) {
            *seen.buffers.entry(u64::from(at.offset)).or_default() += at.copies;
        }
    }
    // recvfrom has a 'v' of its own; none of these commands uses it.
    Some((parsed(&told), own))
}

#[test]
fn the_same_counts_and_page_offsets() {
    let has =
        |program: &str| Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
    if !has("strace") || !has("setarch") {
        eprintln!("skipped: strace or setarch is not installed");
        return;
    }
    let (folder, source) = file();
    let (folder, source) = (folder.path().to_str().unwrap(), source.to_str().unwrap());
    let into = format!("of={folder}/copy");
    let from = format!("if={source}");
    let python = format!("d = open('{source}', 'rb').read(); open('{folder}/copy', 'wb').write(d[5:])");
    let shell = format!(
        "cat <'{source}' >'{folder}/c'; (tar -cf '{folder}/t' -C '{folder}' source); grep -c x '{source}'"
    );
    let archive = format!("{folder}/archive");
    let commands: [&[&str]; 6] = [
        &["dd", &from, &into, "bs=4099", "status=none"],
        &["python3", "-I", "-S", "-c", &python],
        &["cat", source, source],
        &["tar", "-cf", &archive, "-C", folder, "source"],
        &["grep", "-c", "needle", source],
        &["sh", "-c", &shell],
    ];
    for words in commands {
        if !has(words[0]) && words[0] != "sh" {
            eprintln!("skipped: {} is not installed", words[0]);
            continue;
        }
        // The shell around it gives the command a stdout of its own.
        let script = format!("exec \"$@\" >'{folder}/out'");
        let words = [&["sh", "-c", &script, "sh"], words].concat();
        // Once unwatched, so that what it leaves behind is there each time.
        Command::new(words[0]).args(&words[1..]).stderr(Stdio::null()).status().unwrap();
        let mut seen = counted_twice(folder, &words);
        if matches!(&seen, Some((told, own)) if told != own) {
            // what the command reads may have changed between the two
            seen = counted_twice(folder, &words);
        }
        let Some((told, own)) = seen else { return };
        assert_eq!(own, told, "{words:?}");
        assert!(own["read"].bytes > 0);
    }
}

#[test]
fn lines_of_strace_are_understood() {
    let seen = parsed(
        "12 read(0x3, 0x7fff1008, 0x100) = 0x20\n12 read(0x3, 0x7fff1008, 0x100 <unfinished ...>\n\
         13 write(0x1, 0x10, 0x5)  = 5\n12 <... read resumed>) = -1 EAGAIN (x)\n13 +++ exited with 0 +++\n",
    );
    let buffers = BTreeMap::from([(8, 1)]);
    assert_eq!(seen["read"], Seen { calls: 1, failed: 1, bytes: 32, buffers });
    assert_eq!((seen["write"].calls, seen["write"].bytes), (1, 5));
}
