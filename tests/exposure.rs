//! `fsprobe exposure` through the binary: what holds of offsets on any Linux, libraries that replace malloc,
//! bands from everywhere, refusals.

mod common;

use common::{Place, assert_fails, stderr, stdout, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Few buffers, and no check: a band given by hand is compared with in no time.
const QUICK: [&str; 4] = ["exposure", "--band", "0x1-0xf", "--json"];

fn run(place: &Place, base: &[&str], more: &[&str]) -> Output {
    place.run(&[base, more].concat())
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).expect("JSON on stdout")
}

fn list<'a>(document: &'a Value, name: &str) -> &'a [Value] {
    document["exposure"][name].as_array().expect(name)
}

fn offsets(placed: &Value) -> Vec<u64> {
    placed["offsets"].as_array().unwrap().iter().map(|o| o.as_u64().unwrap()).collect()
}

/// All offsets of an allocator, length and way.
fn all(document: &Value, allocator: &str, len: u64, way: &str) -> Vec<u64> {
    let of = |p: &&Value| p["allocator"] == allocator && p["len"] == len && p["way"] == way;
    list(document, "placements").iter().filter(of).flat_map(offsets).collect()
}

fn is_glibc() -> bool {
    cfg!(target_env = "gnu")
}

#[test]
fn every_offset_is_one_and_every_alignment_is_kept() {
    let place = Place::new();
    let told = json(&run(
        &place,
        &QUICK,
        &[
            "--processes",
            "2",
            "--len",
            "4K,20000,64K,1M,64M",
            "--allocators",
            "glibc,jemalloc,mimalloc,pages",
        ],
    ));
    assert_eq!(told["schema"], serde_json::json!({"name": "fsprobe-exposure", "version": 1}));
    assert_eq!(told["run"]["options"]["len"], serde_json::json!([4096, 20000, 65536, 1 << 20, 64 << 20]));
    let names = if is_glibc() { 4 } else { 3 };
    let mut groups = BTreeSet::new();
    for placed in list(&told, "placements") {
        let (allocator, way) = (placed["allocator"].as_str().unwrap(), placed["way"].as_str().unwrap());
        let offsets = offsets(placed);
        assert!(!offsets.is_empty() && offsets.iter().all(|o| *o < 4096), "{placed}");
        // the least that malloc promises on x86-64, and what posix_memalign was asked for
        let alignment = match way {
            _ if allocator == "pages" => 4096,
            "posix-memalign-64" => 64,
            "posix-memalign-4096" => 4096,
            _ => 16,
        };
        assert!(offsets.iter().all(|o| o % alignment == 0), "{allocator} {way}: {offsets:x?}");
        groups.insert((allocator.to_owned(), way.to_owned(), placed["process"].as_u64().unwrap()));
    }
    assert_eq!(
        groups.len(),
        2 * (6 * (names - 1) + 1),
        "each allocator in each way in two processes, pages in one way"
    );
    for (len, count) in [(4096, 96), (1 << 20, 96), (64 << 20, 32)] {
        for allocator in ["jemalloc", "mimalloc", "pages"] {
            let found = all(&told, allocator, len, "malloc").len();
            // fewer where addresses are short, which is said
            let is_short = !list(&told, "notes").is_empty();
            assert!(found == 2 * 2 * count || is_short && found > 0, "{allocator} {len}: {found}");
        }
    }
}

#[test]
fn what_is_known_of_each_allocator_is_seen() {
    let place = Place::new();
    let told = json(&run(&place, &QUICK, &["--len", "64K,1M,64M", "--processes", "4"]));
    for way in ["malloc", "calloc", "vec", "posix-memalign-64"] {
        let offsets = all(&told, "jemalloc", 1 << 20, way);
        assert!(offsets.iter().all(|o| o % 64 == 0), "steps of 64: {offsets:x?}");
    }
    let random: BTreeSet<u64> = all(&told, "jemalloc", 1 << 20, "malloc").into_iter().collect();
    assert!(random.len() > 40, "nearly all of 64 places: {random:x?}");
    let mimalloc = list(&told, "published").iter().find(|p| p["allocator"] == "mimalloc").unwrap();
    assert_eq!(mimalloc["holds"], true, "{mimalloc}");
    if is_glibc() {
        let mapped = all(&told, "glibc", 64 << 20, "malloc");
        assert!(mapped.iter().all(|o| *o == 0x010), "{mapped:x?}");
        let glibc = list(&told, "published").iter().find(|p| p["allocator"] == "glibc").unwrap();
        assert_eq!(glibc["holds"], true, "{glibc}");
        // the threshold has moved: what was mapped comes from the heap
        let of = |state: &str| {
            let fits = |s: &&Value| {
                (&s["allocator"], &s["len"], &s["way"], &s["state"])
                    == (&"glibc".into(), &(1 << 20).into(), &"malloc".into(), &state.into())
            };
            list(&told, "summaries").iter().find(fits).unwrap().clone()
        };
        assert_eq!((&of("first")["pattern"], &of("first")["least"]), (&"always".into(), &0x010.into()));
        assert!(of("after-frees")["distinct"].as_u64().unwrap() > 1, "{}", of("after-frees"));
    }
}

#[test]
fn shares_and_samples_are_those_of_the_offsets() {
    let place = Place::new();
    let args = ["exposure", "--json", "--processes", "1", "--len", "5000,1M", "--band", "0xe00-0x3ff"];
    let told = json(&place.run(&args));
    assert_eq!(told["exposure"]["bands"]["from"], "given");
    for summary in list(&told, "summaries") {
        let of = |p: &&Value| ["allocator", "len", "way", "state"].iter().all(|key| p[key] == summary[key]);
        let offsets: Vec<u64> = list(&told, "placements").iter().filter(of).flat_map(offsets).collect();
        let inside = offsets.iter().filter(|o| **o >= 0xe00 || **o <= 0x3ff).count();
        assert_eq!(summary["samples"], offsets.len(), "{summary}");
        assert_eq!(summary["in_band"], inside, "{summary}");
        assert_eq!(summary["slowdown"], Value::Null, "no slowdown was measured");
        let distinct: BTreeSet<u64> = offsets.iter().copied().collect();
        assert_eq!(summary["distinct"], distinct.len(), "{summary}");
    }
    let rows: u64 = list(&told, "rows").iter().map(|r| r["samples"].as_u64().unwrap()).sum();
    let samples: u64 = list(&told, "summaries").iter().map(|r| r["samples"].as_u64().unwrap()).sum();
    assert_eq!(rows, samples);
}

#[test]
fn the_text_fits_and_shows_the_sample_size() {
    let place = Place::new();
    let args = ["exposure", "--simulate", "zen3", "--processes", "1", "--len", "64K,1M,1234567"];
    let output = place.run(&args);
    assert!(output.status.success(), "{}", stderr(&output));
    let shown = stdout(&output);
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    for part in ["fresh allocations in", "SIMULATED", "jemalloc", "0x991-0x00f", "in band"] {
        assert!(shown.contains(part), "no '{part}' in:\n{shown}");
    }
    let (_, rest) = shown.split_once("the page offsets of ").unwrap();
    let samples: u64 = rest.split(' ').next().unwrap().parse().unwrap();
    let row = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|word| !["first", "after", "both"].contains(word));
        words.nth(1)?.parse::<u64>().ok()
    };
    let told: u64 = shown.lines().filter_map(row).sum();
    assert_eq!(told, samples, "every sample stands in a row:\n{shown}");
    let page = place.path("page.html");
    let output = place.run(&[&args[..], &["--format", "html", "--output", text(&page)]].concat());
    assert!(output.status.success() && output.stdout.is_empty(), "{}", stderr(&output));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.starts_with("<!DOCTYPE html>") && page.contains("<svg") && page.contains("SIMULATED"),
        "{page}"
    );
    assert!(!page.contains("<script"));
}

#[test]
fn bands_come_from_where_it_says() {
    let place = Place::new();
    let report = place.path("zen4.json");
    let made = place.run(&[
        "sweep",
        "--quiet",
        "--simulate",
        "zen4",
        "--seed",
        "1",
        "--len",
        "64K",
        "--output",
        text(&report),
    ]);
    assert!(made.status.success());
    let few = ["exposure", "--json", "--processes", "1", "--len", "64K", "--allocators", "mimalloc"];
    // no report that others left in the temporary folder
    let alone = |more: &[&str]| {
        place.fsprobe(&[&few[..], more].concat()).env("TMPDIR", place.folder.path()).output().unwrap()
    };
    let named = json(&run(&place, &few, &["--report", text(&report)]));
    let bands = &named["exposure"]["bands"];
    assert_eq!((&bands["from"], &bands["state"]), (&"simulated".into(), &"affected".into()));
    let band = &bands["lens"][0]["bands"][0];
    assert_eq!(
        (&bands["lens"][0]["len"], &band["from"], &band["to"]),
        (&65536.into(), &1.into(), &15.into())
    );
    assert!(band["slowdown"].as_f64().unwrap() > 5.0);
    assert!(list(&named, "summaries").iter().all(|s| s["in_band"] == 0 && s["slowdown"] == 1.0));

    // a model's report is no word on this machine
    let saved = place.path("state/fsprobe/sweep-1.json");
    std::fs::create_dir_all(saved.parent().unwrap()).unwrap();
    std::fs::copy(&report, &saved).unwrap();
    let checked = json(&alone(&[]));
    let bands = &checked["exposure"]["bands"];
    assert_eq!(bands["from"], "check");
    let source = bands["source"].as_str().unwrap();
    assert!(
        source.contains("just now (the newest report is a model's)") || source.contains("no check"),
        "{source}"
    );

    // one of this machine is, where it has an answer
    std::fs::remove_file(&saved).unwrap();
    let own = place.path("state/fsprobe/check-1.json");
    place.run(&["check", "--quiet", "--paths", "read", "--output", text(&own)]);
    if common::report(&own).verdict.state != fsprobe::report::State::Inconclusive {
        let found = json(&alone(&[]));
        assert_eq!(found["exposure"]["bands"]["from"], "report", "{}", found["exposure"]["bands"]);
    }
    std::fs::write(&own, "nonsense").unwrap();
    let unfit = json(&alone(&[]));
    assert_eq!(unfit["exposure"]["bands"]["from"], "check");
}

#[test]
fn wrong_options_are_one_line() {
    let place = Place::new();
    let file = place.file("there", 10);
    for (args, parts) in [
        (&["--len", "0"][..], &["--len", "copies nothing"][..]),
        (&["--len", "2G"], &["--len", "more than 1 GiB"]),
        (&["--len", "file"], &["no size"]),
        (&["--len=-4K"], &["-4K"]),
        (&["--allocators", "tcmalloc"], &["tcmalloc", "known: glibc, jemalloc, mimalloc, pages"]),
        (&["--processes", "0"], &["--processes"]),
        (&["--processes", "-1"], &["--processes"]),
        (&["--processes", "65"], &["--processes"]),
        (&["--band", "0x1-0x1000"], &["--band", "above 0xfff"]),
        (&["--band", "slow"], &["FROM-TO"]),
        (&["--band", "1-15", "--report", "r.json"], &["--band", "--report"]),
        (&["--band", "1-15", "--simulate", "zen4"], &["--band", "--simulate"]),
        (&["--report", "r", "--simulate", "zen4"], &["--simulate"]),
        (&["--report", "/no/such"], &["/no/such", "No such file"]),
        (&["--report", text(&file)], &["not an fsprobe report"]),
        (&["--simulate", "zen9"], &["zen9", "known: zen3"]),
        (&["--json", "--format", "html"], &["--format"]),
        (&["--output", text(&file)], &["there exists", "--force"]),
        (&["--force"], &["--output"]),
    ] {
        assert_fails(&run(&place, &["exposure"], args), parts);
    }
    let many = vec!["4096"; 65].join(",");
    assert_fails(&run(&place, &["exposure"], &["--len", &many]), &["more than 64 lengths"]);
    let unwritable =
        run(&place, &QUICK, &["--len", "64K", "--allocators", "pages", "--output", "/no/such/x"]);
    assert_fails(&unwritable, &["/no/such/x", "--output"]);
}

/// A shared object made of C source; none, said aloud, without a compiler or for a build that takes none.
fn library(place: &Place, name: &str, source: &str) -> Option<PathBuf> {
    if !is_glibc() {
        eprintln!("SKIPPED: this build takes no LD_PRELOAD");
        return None;
    }
    let (code, object) = (place.path(&format!("{name}.c")), place.path(&format!("lib{name}.so")));
    std::fs::write(&code, source).unwrap();
    let made = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).args([&object, &code]).status();
    match made {
        Ok(status) => assert!(status.success(), "{name} compiles"),
        Err(error) => {
            eprintln!("SKIPPED: no C compiler: {error}");
            return None;
        }
    }
    Some(object)
}

/// An allocator that puts every buffer of 4 KiB and more at page offset 0x3a0.
const AT_3A0: &str = r#"
#include <stddef.h>
#include <string.h>
#include <errno.h>
#include <sys/mman.h>
static char *place(size_t want, size_t at) {
    size_t len = (want + at + 4095 + 4096) & ~(size_t)4095;
    char *start = mmap(0, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) { errno = ENOMEM; return 0; }
    char *out = start + at;
    ((size_t *)out)[-1] = want; ((size_t *)out)[-2] = at; ((size_t *)out)[-3] = len;
    return out;
}
void *malloc(size_t want) { return place(want, want >= 4096 ? 0x3a0 : 0x20); }
void free(void *old) {
    if (old) munmap((char *)old - ((size_t *)old)[-2], ((size_t *)old)[-3]);
}
void *calloc(size_t n, size_t want) { return malloc(n * want); }
void *realloc(void *old, size_t want) {
    char *out = malloc(want);
    if (out && old) { size_t had = ((size_t *)old)[-1]; memcpy(out, old, had < want ? had : want); free(old); }
    return out;
}
int posix_memalign(void **out, size_t alignment, size_t want) {
    *out = place(want, alignment < 64 ? 64 : alignment);
    return *out ? 0 : ENOMEM;
}
void *memalign(size_t alignment, size_t want) { void *out = 0; posix_memalign(&out, alignment, want); return out; }
void *aligned_alloc(size_t alignment, size_t want) { return memalign(alignment, want); }
size_t malloc_usable_size(void *old) { return old ? ((size_t *)old)[-1] : 0; }
"#;

#[test]
fn a_library_that_replaces_malloc_is_measured_by_its_path() {
    let place = Place::new();
    let Some(object) = library(&place, "at3a0", AT_3A0) else { return };
    let args =
        ["--processes", "2", "--len", "4K,100000,1M", "--allocators", "mimalloc", "--preload", text(&object)];
    let told = json(&run(&place, &QUICK, &args));
    let subjects = list(&told, "subjects");
    assert_eq!(subjects[1], serde_json::json!({"name": "libat3a0.so", "preloaded": true}));
    assert!(!stdout(&run(&place, &QUICK, &args)).contains(text(place.folder.path())), "no folder is named");
    for way in ["malloc", "calloc", "realloc", "vec"] {
        for len in [4096, 100_000, 1 << 20] {
            let offsets = all(&told, "libat3a0.so", len, way);
            assert!(!offsets.is_empty() && offsets.iter().all(|o| *o == 0x3a0), "{way} {len}: {offsets:x?}");
        }
    }
    assert!(all(&told, "libat3a0.so", 4096, "posix-memalign-64").iter().all(|o| *o == 64));
    assert!(
        list(&told, "published").iter().all(|p| p["allocator"] == "mimalloc"),
        "nothing is published of it"
    );
    let twice = run(&place, &QUICK, &["--preload", text(&object), "--preload", text(&object)]);
    assert_fails(&twice, &["two allocators by the name libat3a0.so"]);
}

#[test]
fn a_library_that_is_of_no_use_is_one_line() {
    let place = Place::new();
    let refused = |library: &Path, parts: &[&str]| {
        let args = ["--len", "64K", "--allocators", "mimalloc", "--preload", text(library)];
        assert_fails(&run(&place, &QUICK, &args), parts);
    };
    if !is_glibc() {
        return refused(Path::new("/no/such.so"), &["static"]);
    }
    refused(Path::new("/no/such.so"), &["/no/such.so", "No such file"]);
    refused(Path::new("/"), &["regular file"]);
    refused(&place.file("text.so", 5000), &["text.so", "no ELF file"]);
    refused(Path::new(env!("CARGO_BIN_EXE_fsprobe")), &["fsprobe"]);
    let crash =
        "#include <stddef.h>\nvoid *malloc(size_t n) { return (void *)8 + n * 0; }\nvoid free(void *p) {}\n";
    let cases = [
        (
            "bystander",
            "int nothing(void) { return 0; }\n",
            &["libbystander.so", "does not replace malloc"][..],
        ),
        ("crash", crash, &["libcrash.so", "ended with signal"]),
        (
            "leaver",
            "#include <unistd.h>\n__attribute__((constructor)) static void leave(void) { _exit(7); }\n",
            &["exit status: 7"],
        ),
        (
            "lacking",
            "extern int not_there(void);\nint f(void) { return not_there(); }\nint (*g)(void) = not_there;\n",
            &["liblacking.so"],
        ),
    ];
    for (name, source, parts) in cases {
        let Some(object) = library(&place, name, source) else { return };
        refused(&object, parts);
    }
}

#[test]
fn little_address_space_takes_fewer_buffers_and_says_so() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_fsprobe");
    let script = "ulimit -v 3000000; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, program]).args(QUICK).args(["--processes", "2", "--len", "64K,32M,64M"]);
    let output = command.env("XDG_STATE_HOME", place.path("state")).output().unwrap();
    let told = json(&output);
    let notes = told["exposure"]["notes"].to_string();
    assert!(notes.contains("MiB of addresses are left"), "{notes}");
    let found = all(&told, "jemalloc", 64 << 20, "malloc").len();
    assert!((2..2 * 2 * 32).contains(&found), "{found}");
}

/// Waits until a process has a handler for a signal.
fn wait_until_caught(process: u32, signal: u32) {
    let has = || {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?.trim().to_owned();
        Some(u64::from_str_radix(&mask, 16).ok()? >> (signal - 1) & 1 == 1)
    };
    let began = Instant::now();
    while has() != Some(true) && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(200));
}

#[test]
fn a_library_that_hangs_is_ended_with_the_run() {
    let place = Place::new();
    let source = "#include <unistd.h>\n__attribute__((constructor)) static void hang(void) { close(1); for (;;) pause(); }\n";
    let Some(object) = library(&place, "hang", source) else { return };
    let mut command = Command::new("timeout");
    command.args(["--preserve-status", "-k", "20", "2", env!("CARGO_BIN_EXE_fsprobe")]).args(QUICK);
    command.args(["--len", "4K", "--allocators", "pages", "--preload", text(&object)]);
    assert_eq!(command.output().unwrap().status.code(), Some(130), "it waits for what hangs");
}

#[test]
fn a_signal_ends_it_with_what_was_seen() {
    let place = Place::new();
    let args =
        ["exposure", "--json", "--band", "0x1-0xf", "--allocators", "jemalloc,mimalloc", "--processes", "64"];
    let child = place.fsprobe(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until_caught(child.id(), 15);
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let began = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(began.elapsed() < Duration::from_secs(20));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["run"]["complete"], &told["run"]["stopped_by"]), (&false.into(), &"SIGTERM".into()));
    assert!(
        list(&told, "skipped").is_empty(),
        "what was ended is no failure: {}",
        told["exposure"]["skipped"]
    );
}
