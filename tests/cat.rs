//! `fsprobe cat` through the binary: from everything into everything, every byte compared.

mod common;
#[path = "cat/ends.rs"]
mod ends;

use common::{Place, assert_fails, stderr, stdout, text};
use ends::{Sink, Source, bytes, carry, lines};
use proptest::prelude::*;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::Stdio;

/// Sizes about a page, and one of many pipes.
const SIZES: [usize; 6] = [0, 1, 4095, 4096, 4097, (64 << 20) + 1];

/// Lines that go through a terminal in a moment, and are more than a pipe holds.
const LINES: usize = 6_000;

#[test]
fn every_size_arrives_whole_from_files_and_pipes() {
    let place = Place::new();
    for size in SIZES {
        let content = bytes(size);
        for source in [Source::File, Source::Pipe] {
            for sink in [Sink::Pipe, Sink::File, Sink::Append] {
                assert!(carry(&place, source, sink, &content, &[]) == content, "{size} {source:?} {sink:?}");
            }
        }
    }
}

#[test]
fn every_source_goes_into_every_sink() {
    let place = Place::new();
    let content = lines(LINES);
    for source in Source::ALL {
        for sink in Sink::ALL {
            let arrived = carry(&place, source, sink, &content, &[]);
            assert!(arrived == content, "{source:?} {sink:?}: {} bytes", arrived.len());
        }
    }
}

#[test]
fn ways_asked_for_carry_the_same() {
    let place = Place::new();
    let content = bytes(1_000_001);
    for way in ["auto", "read-write", "splice-16k"] {
        for (source, sink) in
            [(Source::File, Sink::Pipe), (Source::Pipe, Sink::File), (Source::File, Sink::File)]
        {
            assert!(carry(&place, source, sink, &content, &["--way", way]) == content, "{way} {source:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_size_in_any_pieces(
        size in prop_oneof![0usize..10_000, 0usize..2_000_000],
        pieces in prop::collection::vec(1usize..200_000, 1..20),
        reads in prop::collection::vec(1usize..150_000, 1..20),
        source in prop::sample::select(&Source::ALL[..4]),
        sink in prop::sample::select(&Sink::ALL[..4]),
    ) {
        let place = Place::new();
        let content = bytes(size);
        let arrived = ends::carry_in(&place, source, sink, &content, &[], &pieces, &reads);
        prop_assert!(arrived == content, "{} of {size} bytes", arrived.len());
    }
}

#[test]
fn three_gib_with_holes() {
    const SIZE: u64 = 3 << 30;
    if available_bytes().is_none_or(|bytes| bytes < 2 * SIZE) {
        eprintln!("skipped: less than 6 GiB of memory for what the page cache may keep of a 3 GiB file");
        return;
    }
    let place = Place::new();
    let path = place.path("sparse");
    let mut file = File::create(&path).unwrap();
    if let Err(error) = file.set_len(SIZE - 4) {
        eprintln!("skipped: no sparse file of 3 GiB here: {error}");
        return;
    }
    std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).unwrap();
    file.write_all(b"last").unwrap();
    let mut child = place.fsprobe(&["cat", text(&path)]).stdout(Stdio::piped()).spawn().unwrap();
    let (mut part, zeros) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let mut left = SIZE - 4;
    let mut from = child.stdout.take().unwrap();
    while left > 0 {
        let most = part.len().min(usize::try_from(left).unwrap());
        let count = from.read(&mut part[..most]).unwrap();
        assert!(count > 0 && part[..count] == zeros[..count], "{left} bytes before the last");
        left -= count as u64;
    }
    let mut last = vec![];
    from.read_to_end(&mut last).unwrap();
    assert_eq!(last, b"last");
    assert!(child.wait().unwrap().success());
}

fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib << 10)
}

#[test]
fn files_that_say_they_are_empty_are_read() {
    let place = Place::new();
    // clock rates change from one look to the next
    let lasting =
        |text: &str| text.lines().filter(|l| !l.contains("MHz")).map(str::to_owned).collect::<Vec<_>>();
    let file = "/proc/cpuinfo";
    let Ok(expected) = fs::read_to_string(file) else {
        eprintln!("skipped: no {file}");
        return;
    };
    assert!(lasting(&expected).len() > 5);
    assert_eq!(lasting(&stdout(&place.run(&["cat", file]))), lasting(&expected));
    let into = place.path("copy");
    let to_file = place.fsprobe(&["cat", file]).stdout(File::create(&into).unwrap()).status().unwrap();
    assert!(to_file.success());
    assert_eq!(lasting(&fs::read_to_string(&into).unwrap()), lasting(&expected));
}

#[test]
fn stdin_takes_its_place_among_the_files() {
    let place = Place::new();
    fs::write(place.path("a"), "first ").unwrap();
    fs::write(place.path("b"), "last").unwrap();
    let (a, b) = (place.path("a"), place.path("b"));
    let mut child = place.fsprobe(&["cat", text(&a), "-", text(&b), "-"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"middle ").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((stdout(&output), output.status.code()), ("first middle last".into(), Some(0)));
}

#[test]
fn what_cannot_be_read_is_told_and_the_rest_follows() {
    let place = Place::new();
    fs::write(place.path("a"), "a").unwrap();
    let (a, missing) = (place.path("a"), place.path("missing\n"));
    let folder = text(place.folder.path()).to_owned();
    let output = place.run(&["cat", text(&a), text(&missing), &folder, text(&a)]);
    assert_eq!((stdout(&output), output.status.code()), ("aa".into(), Some(1)));
    let lines: Vec<String> = stderr(&output).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].ends_with("/missing\\n: No such file or directory"), "{lines:?}");
    assert_eq!(lines[1], format!("fsprobe: {folder}: Is a directory"));
}

#[test]
fn a_full_output_is_an_error() {
    let place = Place::new();
    let file = place.file("source", 100_000);
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let from_file = place.fsprobe(&["cat", text(&file)]).stdout(full()).output().unwrap();
    let stdin = File::open(&file).unwrap();
    let from_stdin = place.fsprobe(&["cat"]).stdin(stdin).stdout(full()).output().unwrap();
    let mut from_pipe = place.fsprobe(&["cat"]);
    let from_pipe = from_pipe.stdin(Stdio::piped()).stdout(full()).stderr(Stdio::piped()).spawn().unwrap();
    from_pipe.stdin.as_ref().unwrap().write_all(b"x").unwrap();
    for output in [from_file, from_stdin, from_pipe.wait_with_output().unwrap()] {
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(stderr(&output), "fsprobe: write error: No space left on device\n");
    }
}

#[test]
fn nothing_is_wrong_with_dev_null() {
    let place = Place::new();
    let file = place.file("source", 5_000_000);
    let output = place.fsprobe(&["cat", "--explain", text(&file)]).stdout(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("5000000 bytes"), "{}", stderr(&output));
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let place = Place::new();
    let file = place.file("source", 5_000_000);
    for way in ["auto", "read-write", "splice-16k"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let closed = place.fsprobe(&["cat", "--way", way, text(&file)]).stdout(writer).output().unwrap();
        assert_eq!((closed.status.code(), stderr(&closed)), (Some(1), String::new()), "{way}");

        let mut child = place.fsprobe(&["cat", "--way", way, text(&file), text(&file)]);
        let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0; 100]).unwrap();
        let left = child.wait_with_output().unwrap();
        assert_eq!((left.status.code(), stderr(&left)), (Some(1), String::new()), "{way}");
    }
}

#[test]
fn a_file_that_would_feed_itself_is_refused() {
    let place = Place::new();
    let (file, other) = (place.path("file"), place.path("other"));
    fs::write(&file, "content").unwrap();
    fs::write(&other, " more").unwrap();
    let append = File::options().append(true).open(&file).unwrap();
    let output = place.fsprobe(&["cat", text(&file), text(&other)]).stdout(append).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), format!("fsprobe: {}: input file is output file\n", text(&file)));
    assert_eq!(fs::read_to_string(&file).unwrap(), "content more");
    // an output that was emptied before it is read holds nothing that could be repeated
    let emptied = File::create(&file).unwrap();
    let output = place.fsprobe(&["cat", text(&file), text(&other)]).stdout(emptied).output().unwrap();
    assert_eq!((output.status.code(), fs::read_to_string(&file).unwrap()), (Some(0), " more".into()));
}

#[test]
fn explanations_name_way_reason_and_bytes() {
    let place = Place::new();
    let file = place.file("source", 3_000_000);
    let explain = || place.fsprobe(&["cat", "--explain", text(&file), "/dev/null"]);
    let piped = stderr(&explain().output().unwrap());
    assert!(piped.contains(": splice, 3000000 bytes (the output is a pipe"), "{piped}");
    assert!(piped.contains("fsprobe: /dev/null: read/write, 0 bytes (the input is a device"), "{piped}");
    let append = File::options().append(true).create(true).open(place.path("log")).unwrap();
    let appended = stderr(&explain().stdout(append).output().unwrap());
    assert!(appended.contains("read/write, 3000000 bytes (the output is in append mode"), "{appended}");
    let written = stderr(&explain().stdout(File::create(place.path("copy")).unwrap()).output().unwrap());
    assert!(written.contains("copy_file_range, ") && written.contains("(both sides are files)"), "{written}");
}

#[test]
fn the_bench_compares_ways_and_finds_the_systems_cat() {
    let place = Place::new();
    let file = place.file("source", 10_000);
    let bench = ["cat", "--bench", text(&file), "--rounds", "6", "--seed", "1"];
    let output = place.run(&[&bench[..], &["--json"]].concat());
    let document: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(document["schema"]["name"], "fsprobe-cat");
    assert_eq!(document["run"]["options"]["bench"], "<file>");
    let rows = document["cat"]["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names[..3], ["read/write", "splice at 16 KiB", "the chosen way"]);
    assert_eq!(names.len() + document["cat"]["skipped"].as_array().unwrap().len(), 4);
    for row in rows {
        assert_eq!(row["ns"].as_array().unwrap().len(), 6);
        let interval = row["bytes_per_s_ci95"].as_array().unwrap();
        assert!(interval[0].as_f64() <= row["bytes_per_s"].as_f64());
    }
    assert_eq!(rows[0]["factor"], 1.0);
    let table = stdout(&place.fsprobe(&bench).env("PATH", "").output().unwrap());
    assert!(table.contains("\nthe chosen way ") && table.contains("left out: the system's cat"), "{table}");
}

#[test]
fn what_cannot_be_benched_is_told() {
    let place = Place::new();
    let empty = place.file("empty", 0);
    assert_fails(&place.run(&["cat", "--bench", "-"]), &["stdin only once"]);
    assert_fails(&place.run(&["cat", "--bench", text(&empty)]), &["it is empty"]);
    assert_fails(&place.run(&["cat", "--bench", "/dev/zero"]), &["not a regular file"]);
    assert_fails(&place.run(&["cat", "--bench", "/no/such"]), &["No such file"]);
    assert_fails(&place.run(&["cat", "--json"]), &["--bench"]);
}
