//! Watching through the object: programs that copy at known offsets are counted exactly, whatever they do,
//! and behave as without it.
//!
//! Each is watched in a process of its own (this test program again), in a temporary folder of its own, in
//! which nothing may be left.

#[path = "trace_preload/apart.rs"]
mod apart;
#[path = "trace_preload/beyond.rs"]
mod beyond;
mod common;
#[path = "trace_preload/workshop.rs"]
mod workshop;

use common::text;
use fsprobe::report::{Copies, FileKind, Watched};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use workshop::{Told, Workshop};

type Landings = Vec<(Option<u16>, u64, u64)>;

/// Calls, failures, bytes and (distance, copies, bytes) of a call on a kind of file, over all processes.
fn sum(watched: &Watched, call: &str, kind: FileKind) -> (u64, u64, u64, Landings) {
    let mut landings: BTreeMap<Option<u16>, (u64, u64)> = BTreeMap::new();
    let (mut calls, mut failed, mut bytes) = (0, 0, 0);
    for row in rows(watched, call).filter(|row| row.kind == kind) {
        (calls, failed, bytes) = (calls + row.calls, failed + row.failed, bytes + row.bytes);
        assert_eq!(row.landings.iter().map(|l| l.bytes).sum::<u64>(), row.bytes, "{row:?}");
        assert_eq!(row.buffers.iter().map(|b| b.bytes).sum::<u64>(), row.bytes, "{row:?}");
        for landing in &row.landings {
            let size = landing.bytes / landing.copies;
            assert!(size >> landing.class == 1, "{landing:?}");
            let sum = landings.entry(landing.distance).or_default();
            *sum = (sum.0 + landing.copies, sum.1 + landing.bytes);
        }
    }
    (calls, failed, bytes, landings.into_iter().map(|(distance, (n, bytes))| (distance, n, bytes)).collect())
}

fn rows<'a>(watched: &'a Watched, call: &'a str) -> impl Iterator<Item = &'a Copies> {
    watched.copies.iter().filter(move |row| row.call == call)
}

/// Preads of 4096 bytes at distance 8, and nothing else from that kind of file by pread.
#[track_caller]
fn assert_preads(watched: &Watched, count: u64) {
    let all = (count, 0, count * 4096, vec![(Some(8), count, count * 4096)]);
    assert_eq!(sum(watched, "pread64", FileKind::PageCache), all);
}

#[test]
fn every_call_is_counted_where_it_landed() {
    let Some(workshop) = Workshop::new() else { return };
    let calls = workshop.build("calls.c", &[]);
    let (out, lines) = (workshop.place.path("out"), workshop.place.path("lines"));
    std::fs::write(&lines, "123456789\n".repeat(7)).unwrap();
    let watched = workshop.watch(&[text(&calls), text(&workshop.file), text(&out), text(&lines)]);
    assert_eq!(watched.unseen, vec![]);
    let check = |call: &str, kind, calls, failed, bytes, landings: &[(i32, u64, u64)]| {
        let mut wanted: Landings = landings
            .iter()
            .map(|&(distance, copies, bytes)| {
                (Some(distance).filter(|d| *d != NONE).map(|d| d.rem_euclid(4096) as u16), copies, bytes)
            })
            .collect();
        wanted.sort();
        assert_eq!(sum(&watched, call, kind), (calls, failed, bytes, wanted), "{call} {kind}");
    };
    const NONE: i32 = i32::MIN;
    use FileKind::{Device, Memory, PageCache, Pipe, Socket, Unknown};
    check("read", PageCache, 2, 1, 5600, &[(8, 1, 5000), (0, 1, 600)]);
    check("read", Unknown, 0, 1, 0, &[]);
    check("read", Pipe, 1, 0, 700, &[(NONE, 1, 700)]);
    check("pread64", PageCache, 5, 0, 8212, &[(8, 1, 4096), (9, 1, 4096), (1, 2, 20)]);
    check("readv", PageCache, 1, 0, 5000, &[(1, 1, 3000), (-3000, 1, 2000)]);
    check("preadv", PageCache, 2, 0, 200, &[(2, 2, 200)]);
    check("preadv2", PageCache, 2, 0, 200, &[(5, 1, 100), (10 - 5000, 1, 100)]);
    check("write", PageCache, 3, 0, 5200, &[(-24, 1, 5000), (5080, 1, 100), (5180, 1, 100)]);
    check("write", Pipe, 1, 0, 700, &[(NONE, 1, 700)]);
    check("pwrite64", PageCache, 2, 0, 200, &[(8, 2, 200)]);
    check("writev", PageCache, 1, 0, 30, &[(4000, 1, 10), (5010, 1, 20)]);
    check("pwritev", PageCache, 2, 0, 100, &[(3, 2, 100)]);
    check("pwritev2", PageCache, 2, 0, 100, &[(6, 1, 50), (5030, 1, 50)]);
    check("send", Socket, 1, 0, 3000, &[(NONE, 1, 3000)]);
    check("recv", Socket, 2, 1, 3000, &[(NONE, 2, 3000)]);
    check("sendto", Socket, 1, 0, 300, &[(NONE, 1, 300)]);
    check("recvfrom", Socket, 2, 0, 300, &[(NONE, 2, 300)]);
    check("sendmsg", Socket, 1, 0, 30, &[(NONE, 2, 30)]);
    check("recvmsg", Socket, 1, 0, 30, &[(NONE, 2, 30)]);
    let through_buffer = (NONE, 3, 1808 + 100 + 2188);
    let straight = [(8, 1, 8192), (2188 - 12288, 1, 4096), (0, 2, 16384), (5, 1, 5000), (7, 1, 1 << 20)];
    let bytes = 10_000 + 100 + 6284 + 16_384 + 5000 + (1 << 20);
    check("fread", PageCache, 8, 0, bytes, &[&straight[..], &[through_buffer]].concat());
    check("fgets", PageCache, 4, 0, 40, &[(NONE, 4, 40)]);
    check("getline", PageCache, 3, 0, 20, &[(NONE, 2, 20)]);
    check("getdelim", PageCache, 2, 0, 10, &[(NONE, 2, 10)]);
    check("fwrite", PageCache, 2, 0, 15_000, &[(8, 1, 8192), (NONE, 3, 6808)]);
    check("fwrite", Device, 0, 1, 0, &[]);
    check("fputs", PageCache, 2, 0, 24, &[(NONE, 2, 24)]);
    check("puts", PageCache, 1, 0, 7, &[(NONE, 1, 7)]);

    let loader = Path::new("/lib64/ld-linux-x86-64.so.2");
    let window = fsprobe::host::rep_movsb_window(loader, &[]).unwrap_or((0, u64::MAX));
    let is_counted = window.0 < 65_536 && 65_536 < window.1;
    for (call, distances) in [("memcpy", &[8][..]), ("memmove", &[9, -8]), ("mempcpy", &[10])] {
        let all: Vec<_> =
            distances.iter().map(|&d| if d > 0 { (d, 2, 131_072) } else { (d, 1, 65_536) }).collect();
        let (copies, bytes) =
            all.iter().fold((0, 0), |sum, (_, copies, bytes)| (sum.0 + copies, sum.1 + bytes));
        match is_counted {
            true => check(call, Memory, copies, 0, bytes, &all),
            false => check(call, Memory, 0, 0, 0, &[]),
        }
    }
    let named = rows(&watched, "pread64").next().unwrap();
    assert_eq!(named.file.as_deref(), Some(text(&workshop.file)));
    assert!(named.program.starts_with("calls-built") && named.from_file == Some(true));
    assert_eq!(
        named.buffers.iter().map(|b| (b.offset, b.copies)).collect::<Vec<_>>(),
        [(0, 2), (16, 1), (17, 1)]
    );
    assert!(rows(&watched, "recv").all(|row| row.file.is_none()));
    assert!(watched.cpu_ns.is_some() && watched.wall_ns > 0 && watched.samples.is_none());
}

#[test]
fn a_rust_program_is_counted_as_well() {
    let Some(workshop) = Workshop::new() else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/trace/reads.rs");
    let (program, out) = (workshop.place.path("reads"), workshop.place.path("out"));
    let built =
        Command::new("rustc").args(["--edition=2024", "-O", "-o", text(&program), text(&source)]).output();
    let Some(built) = built.ok().filter(|built| built.status.success()) else {
        eprintln!("skipped: rustc cannot be run here");
        return;
    };
    drop(built);
    let watched = workshop.watch(&[text(&program), text(&workshop.file), text(&out)]);
    assert_eq!(watched.unseen, vec![]);
    let here = |call: &str| {
        let mut of_file = watched.clone();
        of_file.copies.retain(|row| row.file.as_deref() == Some(text(&workshop.file)));
        sum(&of_file, call, FileKind::PageCache)
    };
    assert_eq!(here("read"), (1, 0, 5000, vec![(Some(8), 1, 5000)]));
    let preads = vec![(Some(8), 1, 4096), (Some(9), 1, 6000), (Some(13), 200, 819_200)];
    assert_eq!(here("pread64"), (202, 0, 829_296, preads));
    assert_eq!(here("readv"), (1, 0, 5000, vec![(Some(1), 1, 3000), (Some(1096), 1, 2000)]));
    assert_eq!(sum(&watched, "write", FileKind::PageCache), (1, 0, 5000, vec![(Some(4072), 1, 5000)]));
    assert_eq!(sum(&watched, "pwrite64", FileKind::PageCache), (1, 0, 100, vec![(Some(8), 1, 100)]));
}

#[test]
fn threads_children_and_programs_that_are_started() {
    let Some(workshop) = Workshop::new() else { return };
    let acts = workshop.build("acts.c", &[]);
    assert_preads(&workshop.act(&acts, "threads", "200"), 200 * 100);
    let children = workshop.act(&acts, "children", "500");
    assert_preads(&children, 500);
    assert_eq!(rows(&children, "pread64").count(), 500, "each by itself");
    assert_preads(&workshop.act(&acts, "starts", ""), 16);
    let library = workshop.build("library.c", &["-shared", "-fPIC"]);
    assert_preads(&workshop.act(&acts, "library", text(&library)), 1);
    let vforks = workshop.act(&acts, "vforks", "");
    assert_preads(&vforks, 2);
    assert_eq!(sum(&vforks, "read", FileKind::Device), (1, 0, 0, vec![]));
    let turns = workshop.act(&acts, "turns", "");
    assert_eq!(sum(&turns, "read", FileKind::PageCache), (20, 0, 20 * 4096, vec![(Some(8), 20, 20 * 4096)]));
}

#[test]
fn signals_full_pipes_and_descriptors_that_change() {
    let Some(workshop) = Workshop::new() else { return };
    let acts = workshop.build("acts.c", &[]);
    let signals = workshop.act(&acts, "signals", "");
    assert_preads(&signals, 3);
    assert_eq!(sum(&signals, "read", FileKind::Pipe), (0, 7, 0, vec![]));
    let again = workshop.act(&acts, "again", "");
    assert_preads(&again, 4);
    assert_eq!(sum(&again, "read", FileKind::Pipe), (4, 0, 40, vec![(None, 4, 40)]));
    assert!(sum(&again, "pread64", FileKind::Direct).0 <= 1);
}

#[test]
fn hostile_programs_behave_as_ever_and_are_counted() {
    let Some(workshop) = Workshop::new() else { return };
    let acts = workshop.build("acts.c", &[]);
    for act in ["close-all", "undumpable"] {
        assert_preads(&workshop.act(&acts, act, ""), 2);
    }
    assert_preads(&workshop.act(&acts, "clear-environment", ""), 1);
    let filtered = workshop.watch(&[text(&acts), "filtered", text(&workshop.file)]);
    assert_preads(&filtered, 2);
    assert_eq!(sum(&filtered, "read", FileKind::Unknown), (1, 0, 100, vec![(None, 1, 100)]));
    assert!(filtered.unseen.len() == 1 && filtered.unseen[0].why.contains("filter"), "{:?}", filtered.unseen);
    for signal in [11, 9, 15] {
        match workshop.tell(&[text(&acts), "die", text(&workshop.file), &signal.to_string()]) {
            Told::Done { watched, code: None, signal: Some(died) } if died == signal => {
                assert_preads(&watched, 1)
            }
            _ => panic!("signal {signal}"),
        }
    }
}

#[test]
fn the_environment_is_as_without() {
    let Some(workshop) = Workshop::new() else { return };
    let acts = workshop.build("acts.c", &[]);
    let (plain, with) = (workshop.place.path("plain"), workshop.place.path("with"));
    let library = workshop.build("library.c", &["-shared", "-fPIC"]);
    for preloaded in [None, Some(""), Some(text(&library))] {
        let words = |out: &Path| {
            [text(&acts).to_owned(), "environment".into(), text(&workshop.file).into(), text(out).into()]
        };
        let mut bare = workshop.watcher(&words(&with).each_ref().map(String::as_str));
        let mut direct = Command::new(&acts);
        direct.args(&words(&plain)[1..]);
        if let Some(value) = preloaded {
            bare.env("LD_PRELOAD", value);
            direct.env("LD_PRELOAD", value);
        }
        assert!(matches!(workshop.told(&bare.output().unwrap()), Told::Done { code: Some(0), .. }));
        assert!(direct.status().unwrap().success());
        let list = |file: &Path| {
            let told = std::fs::read_to_string(file).unwrap();
            let kept = |line: &&str| line.starts_with("LD_") || line.starts_with("PATH");
            told.lines().filter(kept).map(Into::into).collect::<Vec<String>>()
        };
        assert_eq!(list(&plain), list(&with), "{preloaded:?}");
        assert_eq!(list(&plain).iter().any(|line| line.starts_with("LD_PRELOAD")), preloaded.is_some());
    }
}

#[test]
fn streams_and_statuses_are_the_commands_own() {
    let Some(workshop) = Workshop::new() else { return };
    let script = workshop.place.path("script");
    std::fs::write(&script, "#!/bin/sh\nread line; echo \"got $line\"; echo wrong >&2; exit 7\n").unwrap();
    let mut permissions = std::fs::metadata(&script).unwrap().permissions();
    permissions.set_mode(0o755);
    std::fs::set_permissions(&script, permissions.clone()).unwrap();
    let mut watcher = workshop.watcher(&[text(&script)]);
    let input = workshop.place.path("input");
    std::fs::write(&input, "a line\n").unwrap();
    let output = watcher.stdin(Stdio::from(std::fs::File::open(&input).unwrap())).output().unwrap();
    assert!(matches!(workshop.told(&output), Told::Done { code: Some(7), .. }));
    assert!(String::from_utf8_lossy(&output.stdout).contains("got a line\n"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("wrong\n"));

    assert!(matches!(workshop.tell(&["/none/such"]), Told::Refused(127, why) if why.contains("/none/such")));
    assert!(matches!(workshop.tell(&["no-such-command"]), Told::Refused(127, _)));
    permissions.set_mode(0o644);
    std::fs::set_permissions(&script, permissions).unwrap();
    assert!(matches!(workshop.tell(&[text(&script)]), Told::Refused(126, _)));
}

#[test]
fn what_cannot_be_watched_is_said() {
    let Some(workshop) = Workshop::new() else { return };
    let acts = workshop.build("acts.c", &[]);
    let alone = workshop.place.path("alone.c");
    let source = "#include <fcntl.h>\n#include <unistd.h>\nint main(void) { static char b[1 << 16]; int fd = open(\"/proc/self/exe\", O_RDONLY);\
                  for (int i = 0; i < 100; i++) if (pread(fd, b, sizeof b, 0) < 1) return 1; return 0; }";
    std::fs::write(&alone, source).unwrap();
    let own = workshop.place.path("own");
    let build = |compiler: &str| {
        let built = Command::new(compiler).args(["-static", "-o", text(&own), text(&alone)]).output();
        built.is_ok_and(|output| output.status.success())
    };
    if build("cc") {
        let Told::Closed(why) = workshop.tell(&[text(&own)]) else { panic!("watched") };
        assert!(why.contains("statically linked") && why.contains("--via ptrace"), "{why}");
        let watched = workshop.watch(&[text(&acts), "start", text(&workshop.file), text(&own)]);
        assert_eq!(watched.unseen.len(), 2, "{:?}", watched.unseen);
        assert!(watched.unseen[0].whose().contains("/own") && watched.unseen[0].why.contains("static"));
        assert!(watched.unseen[1].what.contains("bytes"), "{:?}", watched.unseen);
    } else {
        eprintln!("skipped: no static C library here");
    }
    let musl = Command::new("musl-gcc").args(["-o", text(&own), text(&alone)]).output();
    if musl.is_ok_and(|output| output.status.success()) {
        let Told::Closed(why) = workshop.tell(&[text(&own)]) else { panic!("watched") };
        assert!(why.contains("another C library"), "{why}");
        let watched = workshop.watch(&[text(&acts), "start", text(&workshop.file), text(&own)]);
        assert!(watched.unseen[0].why.contains("another C library"), "{:?}", watched.unseen);
    }
    let watched =
        workshop.watch(&["sh", "-c", &format!("exec {} once {}", text(&acts), text(&workshop.file))]);
    assert_preads(&watched, 1);
}

#[test]
fn what_the_command_leaves_running_is_told_and_runs_on() {
    let Some(workshop) = Workshop::new() else { return };
    let acts = workshop.build("acts.c", &[]);
    let out = workshop.place.path("later");
    let mut watcher = workshop.watcher(&[text(&acts), "leave", text(&workshop.file), text(&out)]);
    let errors = workshop.place.path("errors");
    watcher.stdout(Stdio::null()).stderr(Stdio::from(std::fs::File::create(&errors).unwrap()));
    let output = watcher.output().unwrap();
    let Told::Done { watched, code: Some(0), .. } = workshop.told(&output) else { panic!("not done") };
    assert_preads(&watched, 1);
    assert!(
        watched.unseen.len() == 1 && watched.unseen[0].what.contains("still run"),
        "{:?}",
        watched.unseen
    );
    wait_until(|| std::fs::read_to_string(&out).is_ok_and(|told| !told.is_empty()));
    assert!(
        !std::fs::read_to_string(&out).unwrap().contains("LD_PRELOAD"),
        "started after the folder had gone"
    );
    assert!(!std::fs::read_to_string(&errors).unwrap().contains("ld.so"));
}

#[test]
fn a_killed_fsprobe_is_not_missed() {
    let Some(workshop) = Workshop::new() else { return };
    let acts = workshop.build("acts.c", &[]);
    let out = workshop.place.path("later");
    let mut watcher = workshop.watcher(&[text(&acts), "late", text(&workshop.file), text(&out)]);
    let mut watcher = watcher.stdout(Stdio::null()).spawn().unwrap();
    let told = || std::fs::read_to_string(&out);
    wait_until(|| told().is_ok());
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    wait_until(|| told().is_ok_and(|told| !told.is_empty()));
    assert!(!told().unwrap().contains("LD_PRELOAD"));
    // The next one tidies up, as soon as the program is gone.
    wait_until(|| {
        assert!(
            workshop.watcher(&[text(&acts), "once", text(&workshop.file)]).output().unwrap().status.success()
        );
        std::fs::read_dir(workshop.place.path("tmp")).unwrap().count() == 0
    });
}

#[track_caller]
fn wait_until(holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_object_compiles_without_a_warning() {
    let Some(workshop) = Workshop::new() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("preload");
    for entry in std::fs::read_dir(folder).unwrap() {
        let source = entry.unwrap().path();
        if source.extension().is_none_or(|extension| extension != "c") {
            continue;
        }
        let object = workshop.place.path("object.o");
        let built = Command::new("cc")
            .args(["-std=c11", "-O2", "-fPIC", "-fno-builtin", "-Wall", "-Wextra", "-Werror", "-c", "-o"])
            .args([text(&object), text(&source)])
            .output()
            .unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    }
}
