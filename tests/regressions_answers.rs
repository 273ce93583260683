//! Faults that testers found in what is answered: a state that was not earned, options that were not heeded.

mod common;

use common::{Place, assert_fails, stdout, text};

#[test]
fn what_is_aligned_or_nearly_everything_may_be_slow_too() {
    let slow: [fn(u16) -> bool; 2] = [|dst| dst > 0 && dst.is_multiple_of(32), |dst| dst > 0];
    for is_slow in slow {
        let place = Place::new();
        let row = |dst: u16| {
            let ns = if is_slow(dst) { 9000 } else { 3000 };
            let samples: String =
                (0..15).map(|round| format!(",{}", ns + (u64::from(dst) * 7 + round) % 60)).collect();
            format!("{dst},0,65536{samples}\n")
        };
        let head: String = (0..15).map(|round| format!(",ns{round}")).collect();
        let file = place.path("r.csv");
        let rows: String = (0..4096).map(row).collect();
        std::fs::write(&file, format!("dst,src,len{head}\n{rows}")).unwrap();
        let output = place.run(&["sweep", "--simulate", text(&file), "--exit-code", "--no-output"]);
        assert_ne!(output.status.code(), Some(0), "{}", stdout(&output));
        assert!(!stdout(&output).contains("CLEAN"), "{}", stdout(&output));
    }
}

#[test]
fn a_band_that_only_one_side_looked_at_is_not_called_unaffected() {
    let place = Place::new();
    let checked = |model: &str, paths: &str, name: &str| {
        let file = place.path(name);
        place.run(&["check", "--simulate", model, "--paths", paths, "--seed", "1", "--output", text(&file)]);
        file
    };
    let whole = checked("zen4", "read,rep-movsb,avx2", "whole.json");
    let part = checked("zen4", "avx2", "part.json");
    for [before, after] in [[&whole, &part], [&part, &whole]] {
        let output = place.run(&["compare", text(before), text(after)]);
        assert_eq!(output.status.code(), Some(3), "{}", stdout(&output));
        let said = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("CANNOT TELL") && said.contains("and was not measured"), "{said}");
    }
    // one length or allocator of the path is enough
    let shorter = checked("zen4-mended", "read,rep-movsb", "mended.json");
    let output = place.run(&["compare", text(&whole), text(&shorter)]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(stdout(&output).contains("FIXED"));
}

#[test]
fn options_that_would_not_be_heeded_are_refused() {
    let place = Place::new();
    for extra in [["--cpu", "0"], ["--file", "/nonexistent"], ["--pages", "thp"]] {
        let args = [&["sweep", "--simulate", "clean"][..], &extra].concat();
        assert_fails(&place.run(&args), &["cannot be used with"]);
    }
    assert_fails(&place.run(&["sweep", "--simulate", "clean", "--first-touch"]), &["cannot be used with"]);
    for (extra, part) in [
        (["--dst", "0x100"], "--dst"),
        (["--src", "0x8"], "--src"),
        (["--allocators", "jemalloc,pages"], "one allocator"),
    ] {
        let args = [&["sweep", "--paths", "memcpy", "--len", "auto"][..], &extra].concat();
        assert_fails(&place.run(&args), &["--len auto", part]);
    }
}
