//! What a program copies itself while its calls are counted.

use super::*;
use crate::judge::trace::costs;
use crate::report::OwnCopies;

/// Calls that moved so many MiB at a distance, in a second of which half was outside the kernel, and samples of that.
fn both(mib: u64, call_at: u16, own: &[(u16, u64)], taken: u64) -> Watched {
    let inside: Vec<(u16, Option<&str>, u64)> =
        own.iter().map(|(at, samples)| (*at, None, *samples)).collect();
    let samples = sampled(&inside, taken).samples.unwrap();
    let calls = copies("read", FileKind::PageCache, Some(true), Some(call_at), 65536, mib * 16);
    Watched {
        own: Some(OwnCopies { user_ns: 500_000_000, samples: Samples { kernel_seen: false, ..samples } }),
        ..watched(vec![calls])
    }
}

#[test]
fn enough_samples_without_one_in_a_band_are_clean() {
    let answer = told(&both(100, 0x740, &[(0x740, 100)], 500), &zen4());
    says(
        &answer,
        State::Clean,
        &["100 MiB that `app` copied", "nor was any of 500 samples between its calls"],
    );
    assert_eq!((answer.rows.len(), answer.lost_ns), (2, Some(0)));
    let mut few = both(1, 0x740, &[], 30);
    (few.own.as_mut().unwrap().user_ns, few.cpu_ns) = (30_000_000, Some(60_000_000));
    let few = told(&few, &zen4());
    says(&few, State::Inconclusive, &["whether it copies on its own", "a longer run"]);
    let none = told(&both(100, 0x740, &[], 0), &zen4());
    assert_eq!(none.state, State::Inconclusive);
}

#[test]
fn time_that_no_sample_stands_for_is_weighed() {
    let answer = told(&both(100, 0x740, &[], 300), &zen4());
    says(&answer, State::Inconclusive, &["shorter than the time between samples"]);
}

#[test]
fn copies_in_a_band_cost_by_whichever_way_they_were_seen() {
    let own = told(&both(100, 0x740, &[(0x008, 100)], 500), &zen4());
    says(
        &own,
        State::Affected,
        &["100 % of the time that `app` spent in rep movs", "about 84 ms of 1.0 s lost"],
    );
    let calls = told(&both(1000, 0x008, &[], 500), &zen4());
    says(&calls, State::Affected, &["100 % of the bytes that `app` read", "about 282 ms of 1.0 s lost"]);
    let both = told(&both(1000, 0x008, &[(0x008, 100)], 500), &zen4());
    says(&both, State::Affected, &["100 % of the bytes that `app` read", "about 366 ms of 1.0 s lost"]);
    let parts = [&own, &calls].map(|answer| answer.lost_ns.unwrap());
    assert!(both.lost_ns.unwrap().abs_diff(parts[0] + parts[1]) <= 2);
    assert_eq!(both.rows.iter().filter(|row| row.copy_ns.is_some()).count(), 1);
}

#[test]
fn what_samples_could_come_to_elsewhere_bounds_what_was_not_seen() {
    let here = TracePath { bands: vec![], ..zen4().paths.pop().unwrap() };
    let bands = TraceBands { elsewhere: true, here: vec![here], ..zen4() };
    let within = |copies| {
        let unseen = Unseen { what: "copies".into(), within_ns: Some(100_000_000), ..Unseen::default() };
        Watched { unseen: vec![unseen], ..watched(copies) }
    };
    let met = told(&both(1, 0x740, &[(0x008, 100)], 500), &bands);
    says(&met, State::Affected, &["would take up to", "in the cache"]);
    let lost_ns = met.lost_ns.unwrap() as f64;
    let bound = costs::worst_gain(&bands) * 100_000_000.0;
    assert!(bound >= lost_ns, "{bound} {lost_ns}");
    assert_eq!(told(&within(vec![reads(0x740, 1)]), &bands).state, State::Inconclusive);
}

#[test]
fn the_buffers_of_copies_in_a_band_decide_on_the_advice() {
    // 3 % into buffers at 0x005, which is where they land; all others aligned
    let mut calls = reads(0x740, 97_000);
    calls.landings.push(Landing { distance: Some(5), class: 16, copies: 3000, bytes: 3000 << 16 });
    calls.buffers = vec![
        AtOffset { offset: 0x740, copies: 97_000, bytes: calls.bytes },
        AtOffset { offset: 0x005, copies: 3000, bytes: 3000 << 16 },
    ];
    calls.bytes += 3000 << 16;
    let answer = told(&watched(vec![calls]), &zen4());
    says(&answer, State::Affected, &["3.0 % of the bytes", "allocate buffers with 64-byte alignment"]);
}

#[test]
fn the_advice_on_unknown_distances_can_be_followed() {
    for (call, kind, part) in [
        ("fread", FileKind::PageCache, "--via ptrace counts the reads and writes beneath"),
        ("read", FileKind::Socket, "perf_event_paranoid=1, --via sample"),
        ("memcpy", FileKind::Memory, "--via sample sees"),
    ] {
        let answer = told(&watched(vec![copies(call, kind, Some(true), None, 512, 1 << 20)]), &zen4());
        says(&answer, State::Inconclusive, &[part]);
    }
}
