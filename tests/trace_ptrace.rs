//! Programs watched by `trace::ptrace`: their calls, bytes and distances are those programmed, and they behave as
//! they do unwatched.

#[path = "trace_ptrace/behaviour.rs"]
mod behaviour;
mod common;
#[path = "trace_ptrace/job.rs"]
mod job;
#[path = "trace_ptrace/own.rs"]
mod own;
#[path = "trace_ptrace/programs.rs"]
mod programs;
#[path = "trace_ptrace/strace.rs"]
mod strace;

use fsprobe::report::FileKind;
use fsprobe::trace::Done;
use programs::{Copy, Sum, copies, file, rust, watched};
use std::path::{Path, PathBuf};

/// Runs the C program in each way that it could be linked, on a file of its own each time.
#[track_caller]
fn each(way: &str, check: impl Fn(&Done, &Path)) {
    for program in copies() {
        let (_folder, file) = file();
        let words = [program.to_str().unwrap(), way, file.to_str().unwrap()];
        let Some(done) = watched(&words) else { return };
        assert_eq!(done.status.and_then(|status| status.code()), Some(0), "{words:?}");
        check(&done, &file);
    }
}

#[track_caller]
fn reads(done: &Done, call: &str, file: &Path, calls: u64, copies: &[Copy]) {
    let programmed = Sum::programmed(calls, 0, true, true, copies);
    assert_eq!(Sum::of_file(done, call, file), programmed, "{call}");
}

#[track_caller]
fn writes(done: &Done, call: &str, file: &Path, calls: u64, copies: &[Copy]) {
    let programmed = Sum::programmed(calls, 0, false, true, copies);
    assert_eq!(Sum::of_file(done, call, file), programmed, "{call}");
}

/// As many preads of a page into page offset 8 as said.
#[track_caller]
fn preads(done: &Done, file: &Path, count: usize) {
    reads(done, "pread64", file, count as u64, &vec![(8, 0, 4096); count]);
}

#[test]
fn every_call_that_reads() {
    each("reads", |done, file| {
        reads(done, "read", file, 2, &[(0x10, 100, 5000), (0x10, 5100, 5000)]);
        reads(done, "readv", file, 1, &[(1, 10100, 100), (3, 10200, 5000)]);
        reads(done, "preadv", file, 1, &[(1, 65336, 100), (3, 65436, 100)]);
        reads(done, "preadv2", file, 2, &[(1, 7, 100), (1, 15200, 100)]);
        reads(done, "pread64", file, 2, &[(8, 4096, 4096)]);
        let failed = Sum::of(done, "read", |row| row.kind == FileKind::Unknown && row.file.is_none());
        assert_eq!((failed.calls, failed.failed), (0, 1));
        assert_eq!(done.watched.samples, None);
        assert!(done.watched.wall_ns > 0);
    });
}

#[test]
fn every_call_that_writes() {
    each("writes", |done, file| {
        writes(done, "write", file, 3, &[(0x10, 0, 4000), (0, 9000, 300), (0, 9300, 300)]);
        writes(done, "writev", file, 1, &[(5, 4000, 1000), (6, 5000, 2000)]);
        writes(done, "pwrite64", file, 2, &[(0x20, 50, 100), (0, 9600, 300)]);
        writes(done, "pwritev", file, 1, &[(5, 0x1003, 1000), (6, 0x1003 + 1000, 2000)]);
        writes(done, "pwritev2", file, 2, &[(5, 7000, 1000), (5, 8000, 1000)]);
    });
}

#[test]
fn messages_and_pipes_have_no_distance() {
    each("messages", |done, _| {
        let of = |call, kind, failed, reads, copies: &[Copy]| {
            let calls = if call == "recvmsg" || call == "sendmsg" { 1 } else { copies.len() as u64 };
            let programmed = Sum::programmed(calls, failed, reads, false, copies);
            assert_eq!(Sum::of_kind(done, call, kind), programmed, "{call}");
        };
        of("sendto", FileKind::Socket, 0, false, &[(0x30, 0, 500)]);
        of("recvfrom", FileKind::Socket, 1, true, &[(0x40, 0, 500)]);
        of("sendmsg", FileKind::Socket, 0, false, &[(7, 0, 100), (9, 0, 900)]);
        of("recvmsg", FileKind::Socket, 0, true, &[(7, 0, 100), (9, 0, 900)]);
        of("write", FileKind::Pipe, 0, false, &[(0x50, 0, 64)]);
        of("read", FileKind::Pipe, 1, true, &[(0x60, 0, 64)]);
    });
}

#[test]
fn threads_and_the_position_that_they_share() {
    each("threads", |done, file| {
        let own = |thread: u64| vec![(0x100 * thread, 0, 100); 100];
        reads(done, "pread64", file, 800, &(0..8).flat_map(own).collect::<Vec<Copy>>());
        let shared: Vec<Copy> = (0..800).map(|turn| (0, 70 * turn, 70)).collect();
        reads(done, "read", file, 800, &shared);
    });
    each("threads-200", |done, file| preads(done, file, 200));
}

#[test]
fn children_of_every_kind() {
    for (way, count) in [("forks", 20), ("forks-500", 500)] {
        each(way, |done, file| {
            preads(done, file, count);
            let shared: Vec<Copy> = (0..count as u64).map(|turn| (0, 10 * turn, 10)).collect();
            reads(done, "read", file, count as u64, &shared);
            let rows = done.watched.copies.iter().filter(|row| row.call == "pread64" && row.calls == 1);
            assert!(rows.count() >= count, "a row a process");
        });
    }
    for way in ["exec", "vfork"] {
        each(way, |done, file| preads(done, file, 13));
    }
}

#[test]
fn interrupted_calls_that_begin_again_are_one_and_others_fail() {
    each("interrupted", |done, _| {
        let read = Sum::programmed(2, 2, true, false, &[(8, 0, 5), (8, 0, 5)]);
        assert_eq!(Sum::of_kind(done, "read", FileKind::Pipe), read);
        let write = Sum::programmed(2, 0, false, false, &[(0, 0, 5), (0, 0, 5)]);
        assert_eq!(Sum::of_kind(done, "write", FileKind::Pipe), write);
    });
}

#[test]
fn descriptors_that_lead_elsewhere() {
    each("descriptors", |done, file| {
        let beside = |end: &str| PathBuf::from(format!("{}.{end}", file.display()));
        reads(done, "read", file, 1, &[(0, 0, 10)]);
        reads(done, "read", &beside("other"), 3, &[(0, 0, 20), (0, 20, 20), (0, 40, 20)]);
        writes(done, "write", &beside("1"), 1, &[(0, 0, 100)]);
        writes(done, "write", &beside("2"), 1, &[(0, 0, 200)]);
    });
}

#[test]
fn direct_reads_are_counted_and_not_copied() {
    for program in copies() {
        let (_folder, file) = file();
        let Some(done) = watched(&[program.to_str().unwrap(), "direct", file.to_str().unwrap()]) else {
            return;
        };
        if done.status.and_then(|status| status.code()) == Some(77) {
            eprintln!("skipped: no O_DIRECT in {}", file.display());
            return;
        }
        let direct = Sum::of_kind(&done, "pread64", FileKind::Direct);
        if direct.calls > 0 {
            assert_eq!((direct.calls, direct.bytes), (1, 4096));
            assert!(direct.landings.is_empty() && direct.buffers.is_empty());
            reads(&done, "pread64", &file, 1, &[(8, 0, 100)]);
        } else {
            // A file system that is in memory itself.
            reads(&done, "pread64", &file, 2, &[(0, 0, 4096), (8, 0, 100)]);
        }
    }
}

#[test]
fn what_goes_from_file_to_file_is_told_with_its_bytes() {
    each("between", |done, _| {
        let told: Vec<(&str, Option<u64>)> = done
            .watched
            .unseen
            .iter()
            .filter(|u| u.bytes.is_some())
            .map(|u| (u.what.as_str(), u.bytes))
            .collect();
        let wanted = [
            ("1000 bytes that sendfile put into files", Some(1000)),
            ("2000 bytes that splice put into files", Some(2000)),
            ("3000 bytes that copy_file_range put into files", Some(3000)),
        ];
        assert_eq!(told, wanted, "what a pipe took is not among them");
    });
}

#[test]
fn cpu_time_that_nobody_waited_for_is_sampled_or_not_told() {
    let script = |last: &str| format!("(i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done){last}");
    let Some(done) = watched(&["sh", "-c", &script("")]) else { return };
    assert!(done.watched.cpu_ns.is_some());
    let Some(left) = watched(&["sh", "-c", &script(" & exit 0")]) else { return };
    let whole = done.watched.cpu_ns.map(|ns| ns / 2);
    match (&left.watched.own, left.watched.cpu_ns) {
        (None, cpu_ns) => assert_eq!(cpu_ns, None, "of {} ns", left.watched.wall_ns),
        (Some(_), cpu_ns) => assert!(cpu_ns > whole, "{cpu_ns:?} {whole:?}"),
    }
}

#[test]
fn programs_that_guard_or_bare_themselves() {
    for way in ["own-filter", "not-dumpable", "closes-all"] {
        for program in copies() {
            let (_folder, file) = file();
            let Some(done) = watched(&[program.to_str().unwrap(), way, file.to_str().unwrap()]) else {
                return;
            };
            assert_eq!(done.status.and_then(|status| status.code()), Some(0), "{way}");
            if way == "not-dumpable" && Sum::of_file(&done, "pread64", &file).calls == 0 {
                // Without the right to look into it, its calls are counted and no file is known.
                let counted = Sum::programmed(10, 0, true, false, &[(8, 0, 4096); 10]);
                assert_eq!(Sum::of_kind(&done, "pread64", FileKind::Unknown), counted);
                assert!(done.watched.unseen.iter().any(|unseen| unseen.whose().ends_with("files (copies)")));
            } else {
                preads(&done, &file, 10);
            }
        }
    }
}

#[test]
fn libraries_loaded_later_change_nothing() {
    let Some(program) = copies().first() else { return };
    let (_folder, file) = file();
    let Some(done) = watched(&[program.to_str().unwrap(), "dlopen", file.to_str().unwrap()]) else { return };
    if done.status.and_then(|status| status.code()) == Some(0) {
        preads(&done, &file, 10);
        assert!(
            done.watched.copies.iter().any(|row| row.file.as_deref().is_some_and(|f| f.contains("libm")))
        );
    }
}

#[test]
fn a_rust_program() {
    let Some(program) = rust() else { return };
    let (_folder, file) = file();
    let Some(done) = watched(&[program.to_str().unwrap(), file.to_str().unwrap()]) else { return };
    let of = |memory, place, len, count| vec![(memory, place, len); count];
    reads(&done, "pread64", &file, 100, &[of(0x10, 0x1000, 4096, 50), of(0x20, 0x1000, 4096, 50)].concat());
    reads(&done, "read", &file, 2, &[(0x10, 3, 100), (0x20, 3, 100)]);
}
