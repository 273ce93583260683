//! Reports as files: loaded with one clear line for every fault.

use super::{Report, Schema, printable};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The largest file that is taken for a report, in bytes: a default sweep writes about 4 MB.
const LARGEST: u64 = 256 << 20;

/// How much of a name or of a parser's words stands in an error message, in characters.
const LONGEST: usize = 300;

/// The longest copy that is believed: 1 TiB.
const LONGEST_COPY: u64 = 1 << 40;

/// The longest run that is believed, in seconds: some thirty years.
const LONGEST_RUN_S: f64 = 1e9;

/// Why a file is not a report that can be judged.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be opened or read.
    #[error("cannot read {name}: {reason}")]
    Unreadable {
        /// The file as the user named it.
        name: String,
        /// The system's reason.
        reason: io::Error,
    },
    /// It is far larger than any report.
    #[error("{name} is larger than {} MiB: not an fsprobe report", LARGEST >> 20)]
    TooLarge {
        /// The file as the user named it.
        name: String,
    },
    /// It is not JSON, or JSON of another form.
    #[error("{name} is not an fsprobe report: {reason}")]
    NotAReport {
        /// The file as the user named it.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It is a report of a later version.
    #[error(
        "{name} is an fsprobe report of version {version}; this fsprobe reads version {}",
        Schema::VERSION
    )]
    Version {
        /// The file as the user named it.
        name: String,
        /// Its version.
        version: u64,
    },
}

/// Loads a report from a file; `-` is standard input.
pub fn load(path: &Path) -> Result<Report, LoadError> {
    let name = shown(path);
    let unreadable = |reason| LoadError::Unreadable { name: name.clone(), reason };
    let mut text = Vec::new();
    let input: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(unreadable)?)
    };
    input.take(LARGEST + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LARGEST {
        return Err(LoadError::TooLarge { name });
    }
    parse(&text, &name)
}

/// Reads a report from its JSON; `name` stands in error messages.
pub fn parse(text: &[u8], name: &str) -> Result<Report, LoadError> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: HeadSchema,
    }
    #[derive(serde::Deserialize)]
    struct HeadSchema {
        name: String,
        version: u64,
    }
    // a parser's message may quote the file, which is not to be trusted
    let not_a_report =
        |reason: String| LoadError::NotAReport { name: name.into(), reason: printable(&reason, LONGEST) };
    // editors of another system put a byte order mark first
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let head: Head = serde_json::from_slice(text).map_err(|e| not_a_report(e.to_string()))?;
    if head.schema.name != Schema::REPORT {
        let advice = if head.schema.name.starts_with("fsprobe-") {
            "; --output FILE saves the report itself"
        } else {
            ""
        };
        return Err(not_a_report(format!("its schema is '{}'{advice}", head.schema.name)));
    }
    if head.schema.version != u64::from(Schema::VERSION) {
        return Err(LoadError::Version { name: name.into(), version: head.schema.version });
    }
    super::density::check(text).map_err(not_a_report)?;
    let report: Report = serde_json::from_slice(text).map_err(|e| not_a_report(e.to_string()))?;
    consistent(&report).map_err(not_a_report)?;
    Ok(report)
}

/// What the types do not promise: indices that point somewhere, offsets on the circle, rounds that match.
fn consistent(report: &Report) -> Result<(), String> {
    for (index, cell) in report.cells.iter().enumerate() {
        let Some(run) = report.runs.get(cell.run) else {
            return Err(format!("cell {index} names run {}, and there are {}", cell.run, report.runs.len()));
        };
        if cell.ns.len() != run.rounds as usize {
            return Err(format!("cell {index} has {} samples for {} rounds", cell.ns.len(), run.rounds));
        }
        if cell.dst.max(cell.src).is_some_and(|o| o > super::PAGE) {
            return Err(format!("cell {index} has a page offset above 0x1000"));
        }
        if cell.len > LONGEST_COPY {
            return Err(format!("cell {index} copies more than 1 TiB"));
        }
        if cell.len == 0 || cell.repeat == 0 {
            return Err(format!("cell {index} copies nothing"));
        }
    }
    if let Some(control) = report.noise.controls.iter().find(|c| c.run >= report.runs.len()) {
        return Err(format!("a control names run {}, and there are {}", control.run, report.runs.len()));
    }
    if report.recorded_at.parse::<jiff::Timestamp>().is_err() {
        return Err("recorded_at is no RFC 3339 time".into());
    }
    if !(0.0..=LONGEST_RUN_S).contains(&report.run.duration_s) {
        return Err(format!("duration_s is {}", report.run.duration_s));
    }
    if report.host.simulated.model().is_some_and(|model| model.trim().is_empty()) {
        return Err("it is simulated by a model without a name".into());
    }
    let at = report.run.options.affected_at;
    if !(at > 1.0 && at.is_finite()) {
        return Err(format!("affected_at is {at}"));
    }
    Ok(())
}

/// The report as compact JSON with a final newline, inert.
pub fn to_json(report: &Report) -> String {
    let mut text = serde_json::to_string(report).expect("a report's types have a JSON form");
    text.push('\n');
    inert(text)
}

/// JSON in which whatever could steer a terminal that it is printed to is written as an escape: JSON itself
/// leaves some control characters and all invisible ones as they are.
pub fn inert(text: String) -> String {
    if text.bytes().all(|b| b == b'\n' || (b' '..=b'~').contains(&b)) {
        return text;
    }
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '\u{7f}'.. if c.escape_debug().len() > 1 => {
                let mut units = [0; 2];
                out.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
            }
            _ => out.push(c),
        }
        out
    })
}

/// A file's name for one line of an error message.
pub fn shown(path: &Path) -> String {
    printable(&path.display().to_string(), LONGEST)
}

#[cfg(test)]
mod tests {
    use super::super::write::{SaveError, save};
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A small report: two cells of one run.
    fn document() -> Value {
        let bit = json!({"cpuid": true, "kernel": null});
        let cell = |dst: u16| {
            json!({"run": 0, "path": "read", "allocator": "glibc", "dst": dst, "src": 0, "len": 65536,
                "repeat": 1, "reference": false, "ns": [2800, null]})
        };
        json!({
            "schema": {"name": "fsprobe-report", "version": 1},
            "tool": {"version": "0.1.0", "commit": null, "target": "x86_64-unknown-linux-gnu"},
            "recorded_at": "2026-11-30T10:00:00Z",
            "run": {"command": "sweep", "options": {"affected_at": 2.0}, "shuffle": "Fisher-Yates", "seed": 1,
                "duration_s": 1.5, "complete": true, "stopped_by": null},
            "runs": [{"phase": "screen", "rounds": 2, "warmup_discarded": 1,
                "pages": [{"glibc": 1, "source": 2}, {"glibc": 3, "source": 4}], "core_ns": [10, 11]}],
            "source": null,
            "host": {
                "simulated": false,
                "cpu": {"vendor": "AuthenticAMD", "brand": null, "family": 25, "model": 17, "stepping": 1,
                    "signature": "0x00a10f11", "microarchitecture": null, "microcode": null,
                    "features": {"erms": bit, "fsrm": bit, "fzrm": bit, "fsrs": bit, "fsrc": bit}},
                "hypervisor": null, "firmware": null,
                "kernel": {"release": "6.18.0", "copy_routine": null, "cmdline": null, "tainted": null},
                "libc": {"name": "glibc", "version": null, "package": null, "rep_movsb_threshold": null,
                    "rep_movsb_stop_threshold": null, "non_temporal_threshold": null, "tunables": null},
                "memory": {"page_size": 4096, "thp": null, "l1d": null, "l2": null, "l3": null, "numa_node": null},
                "cpu_pinned": null, "smt": null, "clocksource": null, "governor": null, "boost": null
            },
            "cells": [cell(0), cell(8)]
        })
    }

    fn read(document: &Value) -> Result<Report, LoadError> {
        parse(document.to_string().as_bytes(), "r.json")
    }

    /// The document with one value replaced.
    fn with(pointer: &str, value: Value) -> Value {
        let mut document = document();
        *document.pointer_mut(pointer).expect(pointer) = value;
        document
    }

    fn report() -> Report {
        read(&document()).expect("a report")
    }

    /// The one-line message for a text that is no report.
    fn complaint(text: &[u8]) -> String {
        let message = parse(text, "r.json").expect_err("no report").to_string();
        assert!(message.starts_with("r.json is "), "{message}");
        assert!(!message.contains(char::is_control), "{message:?}");
        assert!(message.len() < 600, "{message}");
        message
    }

    #[test]
    fn text_that_is_no_report_is_refused_in_one_line() {
        let whole = document().to_string();
        assert!(complaint(b"").contains("EOF"));
        for length in [1, whole.len() / 2, whole.len() - 1] {
            assert!(complaint(&whole.as_bytes()[..length]).contains("EOF"), "{length}");
        }
        complaint(b"dst,src,len,ns0\n0,0,65536,2800\n");
        complaint(b"\x7fELF\x02\x01");
        complaint(b"\xff\xfe{\0}\0");
        complaint(b"null");
        complaint(b"{}");
        complaint(&[b'['; 1 << 20]);
        let deep = format!("{{\"remedies\":{}{},{}", "[".repeat(200), "]".repeat(200), &whole[1..]);
        complaint(deep.as_bytes());
        let nested = format!("{{\"schema\":{}", "{\"schema\":".repeat(1 << 16));
        complaint(nested.as_bytes());
        complaint(whole.replace("1.5", "NaN").as_bytes());
        complaint(whole.replace("1.5", "1e999").as_bytes());
        complaint(format!("{whole}{whole}").as_bytes());
    }

    #[test]
    fn wrong_values_are_refused_by_name() {
        let huge = json!(u64::MAX);
        for (pointer, value, word) in [
            ("/cells", json!({}), "sequence"),
            ("/cells/0/ns/0", json!("2800"), "u64"),
            ("/cells/0/ns/0", json!(-1), "u64"),
            ("/cells/0/path", json!("\u{1b}[31mteleport"), "teleport"),
            ("/cells/1/path", json!("x".repeat(100_000)), "unknown variant"),
            ("/cells/0/run", json!(1), "cell 0 names run 1"),
            ("/cells/1/run", huge.clone(), "cell 1 names run"),
            ("/cells/0/ns", json!([1]), "1 samples for 2 rounds"),
            ("/cells/0/dst", json!(0x1001), "above 0x1000"),
            ("/cells/0/src", json!(0xffff), "above 0x1000"),
            ("/cells/0/dst", huge.clone(), "u16"),
            ("/cells/0/len", json!(0), "copies nothing"),
            ("/cells/0/repeat", json!(0), "copies nothing"),
            ("/runs/0/rounds", huge, "u32"),
            ("/runs/0/phase", json!("guess"), "screen"),
            ("/run/duration_s", json!(null), "f64"),
            ("/run/options/affected_at", json!(1.0), "affected_at"),
            ("/host/simulated", json!(3), "r.json"),
            ("/schema/name", json!("fsprobe-\u{202e}cpu"), "fsprobe-\\u{202e}cpu"),
        ] {
            let message = complaint(with(pointer, value).to_string().as_bytes());
            assert!(message.contains(word), "{pointer}: {message}");
        }
    }

    #[test]
    fn a_control_without_a_run_is_refused() {
        let mut document = document();
        let control =
            json!({"run": 9, "path": "read", "allocator": null, "len": 1, "dst": 0, "ns_a": [], "ns_b": []});
        document["noise"] = json!({"controls": [control]});
        let message = read(&document).unwrap_err().to_string();
        assert!(message.contains("a control names run 9"), "{message}");
    }

    #[test]
    fn a_later_version_is_told_from_a_broken_file() {
        // whatever its other fields have become
        let later = json!({"schema": {"name": "fsprobe-report", "version": 2}, "cells": "elsewhere"});
        let error = read(&later).unwrap_err();
        assert!(matches!(error, LoadError::Version { version: 2, .. }), "{error}");
        assert!(error.to_string().contains("version 2; this fsprobe reads version 1"), "{error}");
    }

    #[test]
    fn unknown_fields_are_ignored() {
        let mut document = document();
        document["later"] = json!({"deep": [[1]]});
        document["host"]["cpu"]["later"] = json!(1);
        document["cells"][0]["later"] = json!(null);
        assert_eq!(read(&document).expect("a report"), report());
    }

    #[test]
    fn a_missing_file_a_folder_and_a_large_file_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let missing = load(&folder.path().join("none.json")).unwrap_err();
        assert!(matches!(missing, LoadError::Unreadable { .. }), "{missing}");
        assert!(missing.to_string().contains("none.json: No such file"), "{missing}");
        assert!(matches!(load(folder.path()), Err(LoadError::Unreadable { .. })));
        let large = folder.path().join("large");
        File::create(&large).unwrap().set_len(LARGEST + 1).unwrap();
        let large = load(&large).unwrap_err();
        assert!(matches!(large, LoadError::TooLarge { .. }), "{large}");
    }

    #[test]
    fn what_was_saved_loads_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.json");
        save(&report(), &path, false).unwrap();
        assert_eq!(load(&path).unwrap(), report());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.ends_with("}\n") && text.lines().count() == 1, "compact, with a final newline");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_existing_file_is_kept_unless_forced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.json");
        fs::write(&path, "precious").unwrap();
        let error = save(&report(), &path, false).unwrap_err();
        assert!(matches!(error, SaveError::Exists(_)) && error.to_string().contains("--force"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
        save(&report(), &path, true).unwrap();
        assert_eq!(load(&path).unwrap(), report());
    }

    #[test]
    fn what_is_no_regular_file_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.json");
        fs::create_dir(&path).unwrap();
        for force in [false, true] {
            assert!(save(&report(), &path, force).is_err());
        }
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let error = save(&report(), &socket, true).unwrap_err().to_string();
        assert!(error.contains("not a regular file") && error.contains("--output"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = save(&report(), &folder.path().join("none/r.json"), false).unwrap_err().to_string();
        assert!(error.contains("none/r.json: No such file") && !error.contains(".fsprobe-"), "{error}");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&bytes, "r.json");
        }

        #[test]
        fn no_damage_panics(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
            let mut text = document().to_string().into_bytes();
            let place = at.index(text.len());
            text[place] = byte;
            let _ = parse(&text, "r.json");
            text.truncate(cut.index(text.len()));
            prop_assert!(parse(&text, "r.json").is_err());
        }
    }
}
