//! What the object cannot count is told, with whether any number of copies may be among it; and what threads do with
//! streams and shells is as without it.

use super::assert_preads;
use super::common::text;
use super::workshop::{Told, Workshop};
use fsprobe::report::{FileKind, OwnCopies};
use std::path::Path;
use std::process::Command;

#[test]
fn copies_of_the_programs_own_are_sampled_or_told() {
    let Some(workshop) = Workshop::new() else { return };
    let copies = workshop.build("acts.c", &["-DCOPIES"]);
    let watched = workshop.watch(&[text(&copies), "inside", text(&workshop.file)]);
    let told: Vec<_> = watched.unseen.iter().filter(|unseen| unseen.within_ns.is_some()).collect();
    match &watched.own {
        Some(OwnCopies { user_ns, samples }) => {
            assert!(told.is_empty() && *user_ns >= 20_000_000, "{told:?} {user_ns}");
            let met: u64 = samples.inside.iter().map(|inside| inside.samples).sum();
            assert!(met * 2 > samples.taken, "{met} of {}", samples.taken);
            assert!(samples.inside.iter().all(|inside| inside.kernel.is_none()), "{samples:?}");
        }
        // where nobody may sample
        None => {
            assert!(told.len() == 1 && told[0].what.contains("copies inside the program"), "{told:?}");
            assert!(told[0].program.as_deref().is_some_and(|name| name.contains("acts")), "{told:?}");
        }
    }
    // its code is there, and no time was spent in it
    let once = workshop.act(&copies, "once", "");
    assert_eq!((once.unseen, once.own), (vec![], None));
    let acts = workshop.build("acts.c", &[]);
    workshop.act(&acts, "computing", "");
}

#[test]
fn what_goes_from_file_to_file_is_told_with_its_bytes() {
    let Some(workshop) = Workshop::new() else { return };
    let acts = workshop.build("acts.c", &[]);
    let out = workshop.place.path("out");
    let watched = workshop.watch(&[text(&acts), "between", text(&workshop.file), text(&out)]);
    assert_eq!(watched.unseen.len(), 1, "{:?}", watched.unseen);
    assert_eq!((watched.unseen[0].bytes, watched.unseen[0].any), (Some(3000), false));
}

#[test]
fn calls_that_may_copy_and_are_not_counted_are_told() {
    let Some(workshop) = Workshop::new() else { return };
    let acts = workshop.build("acts.c", &[]);
    let watched = workshop.watch(&[text(&acts), "beyond", text(&workshop.file)]);
    let told: Vec<_> = watched.unseen.iter().map(|unseen| unseen.what.as_str()).collect();
    assert_eq!(
        told,
        ["recvmmsg or sendmmsg", "process_vm_readv or process_vm_writev", "io_uring", "io_submit"],
        "{:?}",
        watched.unseen
    );
    assert!(watched.unseen.iter().all(|unseen| unseen.any));
}

#[test]
fn shells_of_several_threads_and_a_cancelled_reader() {
    let Some(workshop) = Workshop::new() else { return };
    let acts = workshop.build("acts.c", &[]);
    assert_preads(&workshop.act(&acts, "popens", ""), 40);
    assert_preads(&workshop.act(&acts, "cancelled", ""), 1);
}

#[test]
fn a_file_in_memory_is_copied_also_with_o_direct() {
    let Some(workshop) = Workshop::new() else { return };
    let place = Path::new("/dev/shm");
    let Ok(folder) = tempfile::tempdir_in(place) else {
        eprintln!("skipped: no tmpfs at {}", place.display());
        return;
    };
    let (source, program) = (folder.path().join("source"), workshop.place.path("direct.c"));
    std::fs::write(&source, vec![7; 65536]).unwrap();
    let code = "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <unistd.h>\nint main(int n, char **w) { static char b[8192];\
                int fd = open(w[n - 1], O_RDONLY | O_DIRECT); return fd < 0 ? 77 : pread(fd, b, 4096, 8) != 4096; }";
    std::fs::write(&program, code).unwrap();
    let built = workshop.place.path("direct");
    let status = Command::new("cc").args(["-o", text(&built), text(&program)]).status().unwrap();
    assert!(status.success());
    match workshop.tell(&[text(&built), text(&source)]) {
        Told::Done { watched, code: Some(0), .. } => {
            let row =
                watched.copies.iter().find(|row| row.call == "pread64" && row.kind == FileKind::PageCache);
            let row = row.unwrap_or_else(|| panic!("{:?}", watched.copies));
            assert!(row.landings.len() == 1 && row.landings[0].distance.is_some(), "{row:?}");
        }
        Told::Done { code: Some(77), .. } => eprintln!("skipped: this tmpfs takes no O_DIRECT"),
        _ => panic!("not done"),
    }
}

#[test]
fn a_sanitiser_in_a_library_is_refused() {
    let Some(workshop) = Workshop::new() else { return };
    let code = workshop.place.path("plain.c");
    std::fs::write(&code, "int main(void) { return 0; }\n").unwrap();
    let built = workshop.place.path("sanitised");
    let made = Command::new("cc")
        .args(["-fsanitize=address", "-shared-libasan", "-o", text(&built), text(&code)])
        .output()
        .ok()
        .filter(|made| made.status.success())
        .or_else(|| {
            let made =
                Command::new("cc").args(["-fsanitize=address", "-o", text(&built), text(&code)]).output();
            made.ok().filter(|made| made.status.success())
        });
    if made.is_none() {
        eprintln!("skipped: no AddressSanitizer here");
        return;
    }
    let needed = std::fs::read(&built).unwrap();
    if !needed.windows(10).any(|bytes| bytes == b"libasan.so") {
        eprintln!("skipped: its AddressSanitizer is linked statically");
        return;
    }
    let Told::Closed(why) = workshop.tell(&[text(&built)]) else { panic!("watched") };
    assert!(why.contains("AddressSanitizer") && why.contains("--via ptrace"), "{why}");
    let acts = workshop.build("acts.c", &[]);
    let watched = workshop.watch(&[text(&acts), "start", text(&workshop.file), text(&built)]);
    assert!(watched.unseen[0].why.contains("AddressSanitizer"), "{:?}", watched.unseen);
}
