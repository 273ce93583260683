//! The object leaves a program's heap alone, hears of what the program leaves behind, and needs no privilege for that.

use super::common::text;
use super::workshop::{Told, Workshop};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

#[test]
fn buffers_lie_where_they_lie_without_the_object() {
    let Some(workshop) = Workshop::new() else { return };
    let heap = workshop.build("heap.c", &[]);
    // the heap's start is random in whole pages only
    let alone = Command::new(&heap).output().unwrap().stderr;
    let output = workshop.watcher(&[text(&heap)]).output().unwrap();
    let Told::Done { code: Some(0), .. } = workshop.told(&output) else { panic!("not done") };
    let watched = String::from_utf8_lossy(&output.stderr);
    assert!(watched.contains(String::from_utf8_lossy(&alone).trim_end()), "{watched} {alone:?}");
}

/// Where the C library has no `rep movsb` at these lengths, nothing is counted.
#[test]
fn what_realloc_moves_is_counted() {
    let Some(workshop) = Workshop::new() else { return };
    let heap = workshop.build("heap.c", &[]);
    let watched = workshop.watch(&[text(&heap), "grow"]);
    let moved: Vec<(u64, u64)> = watched
        .copies
        .iter()
        .filter(|copies| copies.call == "realloc")
        .map(|copies| (copies.landings.iter().map(|landing| landing.copies).sum(), copies.bytes))
        .collect();
    let (most, bytes) = moved.first().copied().unwrap_or((0, 0));
    let loader = std::path::Path::new("/lib64/ld-linux-x86-64.so.2");
    let window = fsprobe::host::rep_movsb_window(loader, &[]).unwrap_or((0, u64::MAX));
    let is_counted = window.0 < 65504 && 65536 < window.1;
    assert_eq!(moved.is_empty(), !is_counted, "{moved:?}");
    assert!(!is_counted || (most == 50 && (50 * 65504..50 * 65536).contains(&bytes)), "{moved:?}");
}

#[test]
fn a_daemon_is_heard_of_that_has_not_copied_yet() {
    let Some(workshop) = Workshop::new() else { return };
    let heap = workshop.build("heap.c", &[]);
    let watched = workshop.watch(&[text(&heap), "daemon"]);
    let told: Vec<&str> = watched.unseen.iter().map(|unseen| unseen.what.as_str()).collect();
    assert!(told.iter().any(|what| what.contains("still run")), "{told:?}");
}

#[test]
fn the_time_of_those_that_nobody_waited_for_counts() {
    let Some(workshop) = Workshop::new() else { return };
    let heap = workshop.build("heap.c", &[]);
    let script = format!("{} orphan; sleep 2", text(&heap));
    let watched = workshop.watch(&["sh", "-c", &script]);
    // on a machine so busy that it still runs it is told of
    let is_left = watched.unseen.iter().any(|unseen| unseen.what.contains("still run"));
    assert!(is_left || watched.cpu_ns >= Some(190_000_000), "{:?}", watched.cpu_ns);
}

/// Where this is root: as nobody, whom the kernel tells nothing of a process that has ended.
#[test]
fn ordinary_users_learn_what_a_program_read_and_wrote() {
    let Some(workshop) = Workshop::new() else { return };
    let acts = workshop.build("acts.c", &[]);
    workshop.act(&acts, "once", "");
    if !rustix::process::getuid().is_root() {
        return;
    }
    let everyone = std::fs::Permissions::from_mode(0o777);
    for path in [workshop.place.path("."), workshop.place.path("tmp"), workshop.file.clone()] {
        std::fs::set_permissions(path, everyone.clone()).unwrap();
    }
    // made by root above, and to be made anew
    std::fs::remove_file(workshop.place.path("result")).unwrap();
    let mut watcher = workshop.watcher(&[text(&acts), "once", text(&workshop.file)]);
    watcher.uid(65534).gid(65534);
    let Ok(output) = watcher.output() else {
        eprintln!("skipped: nobody may not run this test program");
        return;
    };
    let Told::Done { watched, code: Some(0), .. } = workshop.told(&output) else { panic!("not done") };
    assert_eq!(watched.unseen, vec![]);
}
