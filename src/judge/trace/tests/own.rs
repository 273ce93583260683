//! What a program copies itself while its calls are counted.

use super::*;
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
