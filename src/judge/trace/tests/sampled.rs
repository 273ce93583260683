//! What interrupts tell, and what they cannot.

use super::*;

#[test]
fn samples_in_a_band_are_time() {
    let read = Some("read: filemap_read");
    let answer = told(&sampled(&[(0x008, read, 500), (0x740, read, 100), (0x008, None, 100)], 1000), &zen4());
    says(&answer, State::Affected, &["86 % of the time that `app` spent in rep movs", "of 1.0 s lost"]);
    // all calls of these bands take 51.2 ns/KiB without one, the instruction among them
    let expected = 500e6 * 275.0 / (275.0 + 51.2) + 100e6 * 270.0 / (270.0 + 51.2);
    assert!((answer.lost_ns.unwrap() as f64 - expected).abs() < 1e3, "{:?}", answer.lost_ns);
    assert!(answer.lost_is_estimate, "by the slowdown at one length");
    assert_eq!(answer.threads.len(), 3);
    assert_eq!(answer.rows[0].copy_ns, Some(600_000_000));
    assert_eq!(answer.rows[0].what, "app+0x1234");
    let there = told(&sampled(&[(0x008, read, 100)], 1000), &elsewhere());
    assert_eq!(there.lost_ns, Some(620_000_000), "100 ms here are 720 ms there");
    assert!(there.lost_is_estimate);
}

#[test]
fn samples_are_of_the_copy_and_not_of_the_call_around_it() {
    let mut bands = zen4();
    for known in &mut bands.paths {
        known.baseline_bytes_per_s = Some(match known.path {
            PathName::RepMovsb => 6e10,
            PathName::PipeRead => 1e10,
            _ => 2e10,
        });
    }
    let lost =
        |kernel| told(&sampled(&[(8, Some(kernel), 100)], 100), &bands).lost_ns.unwrap() as f64 / 100e6;
    // between what the call and what the instruction alone would make of it
    for (kernel, penalty, [call, least]) in
        [("read: filemap_read", 275.0, [51.2, 17.1]), ("read: pipe_read", 250.0, [102.4, 17.1])]
    {
        let [low, high] = [call, least].map(|copy| penalty / (penalty + copy));
        assert!((low + 0.02..high - 0.02).contains(&lost(kernel)), "{kernel}: {} {low} {high}", lost(kernel));
    }
}

#[test]
fn short_calls_leave_open_what_their_copies_lose() {
    let mut seen = sampled(&[(8, Some("read: filemap_read"), 300)], 1000);
    seen.samples.as_mut().unwrap().inside[0].class = Some(7);
    let answer = told(&seen, &zen4());
    says(&answer, State::Inconclusive, &["copies below 512 bytes", "--via preload"]);
    assert_eq!((answer.share_in_band, answer.lost_ns), (Some(1.0), Some(0)));
}

#[test]
fn time_of_an_affected_machine_is_turned_into_bytes_first() {
    let seen =
        sampled(&[(8, Some("read: filemap_read"), 100), (0x740, Some("read: filemap_read"), 100)], 1000);
    let mut there = elsewhere();
    there.paths.iter_mut().for_each(|path| path.bands[0] = TraceBand { to: 0xfff, ..path.bands[0] });
    // here 50 ns/KiB, and ten times as much at distance 8
    let speed = Some(1024e9 / 50.0);
    there.here = vec![TracePath {
        baseline_bytes_per_s: speed,
        ..path(PathName::Read, 65536, vec![band(10.0, 450.0)])
    }];
    let kib = 100e6 / 500.0 + 100e6 / 50.0;
    let lost = told(&seen, &there).lost_ns.unwrap() as f64;
    assert!((lost - kib * 275.0).abs() < 1e3, "{lost}");
}

#[test]
fn few_samples_do_not_decide() {
    says(&told(&sampled(&[], 1000), &zen4()), State::Clean, &["of 1000 samples of `app`, none"]);
    let mut none = sampled(&[], 0);
    none.cpu_ns = Some(2_000_000);
    says(&told(&none, &zen4()), State::Inconclusive, &["too few samples"]);
    says(&told(&sampled(&[], 20), &zen4()), State::Inconclusive, &["too few samples", "--via preload"]);
    says(&told(&sampled(&[(8, None, 1)], 20), &zen4()), State::Inconclusive, &["too few samples"]);
    says(&told(&sampled(&[(8, None, 19)], 20), &zen4()), State::Affected, &["lost"]);
}

#[test]
fn what_samples_cannot_see_is_said() {
    let mut blind = sampled(&[], 1000);
    blind.samples.as_mut().unwrap().kernel_seen = false;
    says(&told(&blind, &zen4()), State::Clean, &["not your problem"]);
    blind.cpu_ns = Some(2_000_000_000);
    says(&told(&blind, &zen4()), State::Inconclusive, &["inside the kernel", "perf_event_paranoid"]);
    blind.cpu_ns = None;
    says(&told(&blind, &zen4()), State::Inconclusive, &["inside the kernel"]);
}

#[test]
fn samples_weigh_what_they_did_not_see() {
    let mut unseen = sampled(&[], 1000);
    unseen.unseen = vec![Unseen {
        what: "3 threads of the process".into(),
        why: "no descriptors".into(),
        remedy: Some("sudo prlimit".into()),
        any: true,
        ..Unseen::default()
    }];
    says(&told(&unseen, &zen4()), State::Inconclusive, &["not seen were 3 threads", "sudo prlimit"]);
    says(&told(&unseen, &clean()), State::Clean, &["no deep band"]);
    unseen.samples.as_mut().unwrap().inside = sampled(&[(8, None, 900)], 1000).samples.unwrap().inside;
    says(&told(&unseen, &zen4()), State::Affected, &["lost"]);
    let unread = |number| {
        let mut some = sampled(&[], 1000);
        some.samples.as_mut().unwrap().unread = number;
        told(&some, &zen4())
    };
    says(&unread(1), State::Clean, &["not your problem"]);
    says(&unread(200), State::Inconclusive, &["could not be read"]);
    let took = |ms: u64| told(&Watched { cpu_ns: Some(ms * 1_000_000), ..sampled(&[], 1000) }, &zen4());
    says(&took(1040), State::Clean, &["not your problem"]);
    says(
        &took(1200),
        State::Inconclusive,
        &["live shorter than the time between interrupts", "--via preload"],
    );
    let nothing = Watched { cpu_ns: Some(0), ..sampled(&[], 0) };
    says(&told(&nothing, &zen4()), State::Inconclusive, &["next to no CPU time"]);
}

#[test]
fn the_length_that_samples_do_not_tell_widens_their_bounds() {
    // 1.6 % of the time in the band: 1.3 % lost by the slowdown at 64 KiB, 0.8 % by that of long copies
    let seen = || sampled(&[(8, Some("read: filemap_read"), 1600)], 100_000);
    says(&told(&seen(), &zen4()), State::Affected, &["about 1.3 s", "an estimate"]);
    let mut streams = zen4();
    streams.paths.push(path(PathName::Read, 64 * MIB, vec![band(2.0, 198.0)]));
    says(&told(&seen(), &streams), State::Inconclusive, &["could have lost"]);
    // 1 % of the time in a band that short copies alone have
    let other = || sampled(&[(0x12, Some("read: filemap_read"), 1500)], 100_000);
    says(&told(&other(), &zen4()), State::Clean, &["none was in a copy"]);
    let short = TraceBand { from: 0x010, to: 0x01f, ..band(4.0, 300.0) };
    streams.paths.push(path(PathName::Read, 128, vec![short]));
    says(&told(&other(), &streams), State::Inconclusive, &["lost nothing as far as could be seen"]);
}
