//! Files that are no reports: one line, exit code 2, and no more memory than ten times the file.

mod common;
mod made;

use common::{Place, assert_fails, text};
use fsprobe::report::to_json;
use proptest::prelude::*;
use std::process::{Command, Stdio};

/// A report's JSON with another value in one place.
fn damaged(from: &str, to: &str) -> String {
    let mut report = made::zen4();
    report.cells.truncate(10);
    let whole = to_json(&report);
    assert!(whole.contains(from), "{from}");
    whole.replacen(from, to, 1)
}

#[test]
fn whatever_is_no_report_is_refused_in_one_line() {
    let place = Place::new();
    let file = place.path("r.json");
    let whole = to_json(&made::clean());
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    // where anything may stand, depth is nothing to fear
    let later = whole.replacen('{', &format!("{{\"later\":{deep},"), 1);
    assert!(fsprobe::report::parse(later.as_bytes(), "later").is_ok());
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (vec![], "not an fsprobe report"),
        (whole.as_bytes()[..whole.len() / 2].to_vec(), "EOF"),
        (damaged("\"remedies\":[", &format!("\"remedies\":[{deep}")).into(), "invalid type"),
        (damaged("\"seed\":7", "\"seed\":\"seven\"").into(), "expected u64"),
        (damaged("\"duration_s\":11.84", "\"duration_s\":NaN").into(), "not an fsprobe report"),
        (damaged("\"duration_s\":11.84", "\"duration_s\":1e999").into(), "out of range"),
        (damaged("\"simulated\":false", "\"simulated\":[[[1]]]").into(), "false or the name of a model"),
        (damaged("\"version\":1}", "\"version\":2}").into(), "version 2; this fsprobe reads version 1"),
        (damaged("fsprobe-report", "fsprobe-check").into(), "its schema is 'fsprobe-check'"),
        (b"{\"name\":\"package.json\"}".to_vec(), "missing field"),
        (b"[]".to_vec(), "not an fsprobe report"),
        (b"dst,src,len,ns0\n0,0,64,1\n".to_vec(), "not an fsprobe report"),
        (b"\x7fELF\0\0\0".to_vec(), "not an fsprobe report"),
        (vec![0xff; 100], "not an fsprobe report"),
    ];
    for (bytes, part) in cases {
        std::fs::write(&file, bytes).unwrap();
        assert_fails(&place.run(&["report", text(&file)]), &["r.json", part]);
    }
    assert_fails(&place.run(&["report", text(&place.path("none.json"))]), &["none.json: No such file"]);
    assert_fails(&place.run(&["report", text(place.folder.path())]), &["Is a directory"]);
    let huge = place.path("huge.json");
    std::fs::File::create(&huge).unwrap().set_len(1 << 40).unwrap();
    assert_fails(&place.run(&["report", text(&huge)]), &["larger than"]);
}

/// A file of `MIB` MiB that swells when it is parsed.
const MIB: usize = 24;

/// Peak resident memory of loading a text, in KiB, as seen while the child runs.
fn peak_kib(place: &Place, content: &str) -> u64 {
    let file = place.path("swelling.json");
    std::fs::write(&file, content).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_fsprobe"))
        .args(["report", text(&file), "--format", "openmetrics"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let told = std::fs::read_to_string(&status).unwrap_or_default();
        let now = told.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        peak = peak.max(now.and_then(|n| n.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    peak
}

#[test]
fn no_file_takes_more_than_ten_times_its_size() {
    let place = Place::new();
    let mut report = made::zen4();
    report.cells.truncate(1);
    report.placements.clear();
    let whole = to_json(&report);
    let fill = |pattern: &str, with: &str| {
        assert!(whole.contains(pattern), "{pattern}");
        let many = with.repeat((MIB << 20) / with.len());
        whole.replacen(pattern, &format!("{pattern}{many}"), 1)
    };
    for swelling in [
        fill("\"ns\":[", "1,"),
        fill("\"core_ns\":[", "1,"),
        fill("\"pages\":[", "{},"),
        fill("\"pages\":[", "{\"a\":1},"),
        fill("\"reasons\":[", "\"\","),
        fill("\"cmdline\":[", "\"\","),
        fill("\"simulated\":", "["),
        fill("\"len\":[", "1,"),
        fill("\"skipped\":[", "{\"path\":\"zero\",\"allocator\":null,\"reason\":\"\"},"),
        fill("\"remedies\":[", "{\"setting\":\"\"},"),
    ] {
        let size = swelling.len() as u64 / 1024;
        let peak = peak_kib(&place, &swelling);
        // what a process takes that loads nothing
        let spare = 24 << 10;
        assert!(peak <= 10 * size + spare, "{peak} KiB for {size} KiB: {}…", &swelling[..40]);
        assert!(peak > size / 2, "the peak was seen: {peak} of {size} KiB");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever bytes come, loading and reading a CPUID dump end with a value or a word of error.
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _ = fsprobe::report::parse(&bytes, "bytes");
        let _ = fsprobe::host::Dump::read(&bytes[..]);
    }

    /// The same for bytes that look like a dump of CPUID registers.
    #[test]
    fn no_dump_panics(text in "(CPUID |CPU [0-9]:|   0x)?[0-9a-fA-F]{0,9}[ :x]{0,3}(0x0000000[0-9a-f]|eax=0x[0-9a-f]{0,9}|[-, =\n0-9a-f]{0,40}){0,8}") {
        if let Ok(dump) = fsprobe::host::Dump::read(text.as_bytes()) {
            let _ = fsprobe::host::of_dump(&dump);
        }
    }
}
