mod lengths;
mod own;
mod sampled;

use super::conclude;
use crate::report::{
    AtOffset, Copies, FileKind, Inside, Landing, PathName, Samples, Site, State, TraceAnswer, TraceBand,
    TraceBands, TracePath, Unseen, Watched,
};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn band(slowdown: f64, penalty_ns_per_kib: f64) -> TraceBand {
    TraceBand { from: 0x001, to: 0x00f, slowdown, penalty_ns_per_kib }
}

fn path(path: PathName, len: u64, bands: Vec<TraceBand>) -> TracePath {
    TracePath { path, len, baseline_bytes_per_s: Some(2e10), bands }
}

/// The bands of a Zen 4, as measured.
fn zen4() -> TraceBands {
    TraceBands {
        source: "a check of this machine, just now".into(),
        simulated: false,
        elsewhere: false,
        state: State::Affected,
        paths: vec![
            path(PathName::Read, 4096, vec![band(8.0, 340.0)]),
            path(PathName::Read, 65536, vec![band(7.2, 275.0)]),
            path(PathName::Write, 65536, vec![band(7.0, 275.0)]),
            path(PathName::PipeRead, 65536, vec![band(4.0, 250.0)]),
            path(PathName::Memcpy, 4096, vec![band(24.0, 370.0)]),
            path(PathName::RepMovsb, 65536, vec![band(16.0, 270.0)]),
        ],
        here: vec![],
    }
}

fn clean() -> TraceBands {
    let paths = zen4().paths.into_iter().map(|p| TracePath { bands: vec![], ..p }).collect();
    TraceBands { state: State::Clean, paths, ..zen4() }
}

fn elsewhere() -> TraceBands {
    TraceBands { source: "a simulated zen4".into(), simulated: true, elsewhere: true, ..zen4() }
}

fn copies(
    call: &str,
    kind: FileKind,
    from_file: Option<bool>,
    distance: Option<u16>,
    len: u64,
    n: u64,
) -> Copies {
    Copies {
        pid: 7,
        program: "app".into(),
        call: call.into(),
        file: (kind == FileKind::PageCache).then(|| "/data/file".into()),
        kind,
        from_file,
        calls: n,
        failed: 0,
        bytes: len * n,
        landings: vec![Landing { distance, class: len.max(1).ilog2() as u8, copies: n, bytes: len * n }],
        buffers: vec![AtOffset { offset: distance.unwrap_or(0), copies: n, bytes: len * n }],
    }
}

fn reads(distance: u16, n: u64) -> Copies {
    copies("read", FileKind::PageCache, Some(true), Some(distance), 65536, n)
}

/// A second of CPU time.
fn watched(copies: Vec<Copies>) -> Watched {
    Watched { wall_ns: 1_500_000_000, cpu_ns: Some(1_000_000_000), copies, ..Watched::default() }
}

fn sampled(inside: &[(u16, Option<&str>, u64)], taken: u64) -> Watched {
    let inside = inside.iter().enumerate().map(|(thread, (distance, kernel, samples))| Inside {
        pid: 7,
        tid: 7 + thread as u32,
        program: "app".into(),
        site: Some(Site { module: Some("/bin/app".into()), address: 0x1234, symbol: None, line: None }),
        kernel: kernel.map(Into::into),
        class: None,
        distance: *distance,
        dst: 0,
        samples: *samples,
    });
    let samples = Samples {
        period_ns: 1_000_000,
        taken,
        lost: 0,
        unread: 0,
        kernel_seen: true,
        inside: inside.collect(),
    };
    Watched {
        wall_ns: taken * 1_000_000,
        cpu_ns: Some(taken * 1_000_000),
        samples: Some(samples),
        ..Watched::default()
    }
}

fn told(watched: &Watched, bands: &TraceBands) -> TraceAnswer {
    conclude(watched, bands, "`app`")
}

#[track_caller]
fn says(answer: &TraceAnswer, state: State, parts: &[&str]) {
    assert_eq!(answer.state, state, "{}", answer.sentence);
    for part in parts {
        assert!(answer.sentence.contains(part), "no '{part}' in: {}", answer.sentence);
    }
}

#[test]
fn bytes_in_a_band_lose_its_penalty() {
    // 640 MiB in the band of 2048 MiB
    let answer = told(&watched(vec![reads(0x008, 10_240), reads(0x740, 22_528)]), &zen4());
    says(
        &answer,
        State::Affected,
        &["31 % of the bytes that `app` read", "1 to 15 bytes past their source's page offset"],
    );
    says(
        &answer,
        State::Affected,
        &["about 180 ms of 1.0 s lost (an estimate", "64-byte alignment", "read at file offsets"],
    );
    assert_eq!(answer.lost_ns, Some(10_240 * 64 * 275));
    assert_eq!(answer.share_in_band, Some(0.3125));
    assert!(answer.lost_is_estimate);
    assert_eq!(
        (answer.rows.len(), answer.rows[0].calls, answer.rows[0].bytes),
        (1, Some(32_768), Some(2048 * MIB))
    );
    assert_eq!(answer.buffers[0].offset, 0x740);
}

#[test]
fn the_nearest_length_and_the_path_of_the_call_decide() {
    let of = |one: Copies| told(&watched(vec![one]), &zen4()).lost_ns.unwrap();
    assert_eq!(of(copies("pread64", FileKind::PageCache, Some(true), Some(8), 4096, 1)), 4 * 340);
    assert_eq!(of(copies("preadv", FileKind::PageCache, Some(true), Some(8), MIB, 1)), 1024 * 275);
    assert_eq!(of(copies("fwrite", FileKind::PageCache, Some(false), Some(15), MIB, 1)), 1024 * 275);
    assert_eq!(of(copies("memmove", FileKind::Memory, None, Some(1), 8192, 1)), 8 * 370);
    assert_eq!(of(copies("read", FileKind::PageCache, Some(true), Some(0), MIB, 1)), 0);
    assert_eq!(of(copies("read", FileKind::PageCache, Some(true), Some(16), MIB, 1)), 0);
    assert_eq!(
        of(copies("read", FileKind::Direct, Some(true), Some(8), MIB, 1)),
        0,
        "O_DIRECT copies nothing"
    );
    assert_eq!(of(copies("read", FileKind::Device, Some(true), Some(8), MIB, 1)), 0);
}

#[test]
fn never_in_a_band_is_not_your_problem() {
    let answer = told(&watched(vec![reads(0x000, 100_000), reads(0x010, 100_000)]), &zen4());
    says(&answer, State::Clean, &["not your problem", "none landed in a deep band (distance 0x001-0x00f)"]);
    let little = told(&watched(vec![reads(0x008, 100)]), &zen4());
    says(&little, State::Clean, &["not your problem: 100 % of the bytes", "about 1.8 ms of 1.0 s"]);
    let direct = copies("read", FileKind::Direct, Some(true), Some(8), MIB, 10_000);
    says(&told(&watched(vec![direct]), &zen4()), State::Clean, &["nothing that"]);
}

#[test]
fn without_a_band_nothing_can_be_lost() {
    let answer = told(&watched(vec![reads(0x008, 100_000)]), &clean());
    says(&answer, State::Clean, &["no deep band in a check of this machine", "--simulate zen4"]);
    let unsure = TraceBands { state: State::Inconclusive, ..clean() };
    says(&told(&watched(vec![reads(0x008, 1)]), &unsure), State::Inconclusive, &["--report"]);
}

#[test]
fn what_is_unknown_matters_as_far_as_it_could_cost() {
    let pipe = |n| copies("read", FileKind::Socket, Some(true), None, 65536, n);
    says(
        &told(&watched(vec![pipe(100_000)]), &zen4()),
        State::Inconclusive,
        &["cannot tell", "lost nothing", "sockets", "--via sample"],
    );
    says(&told(&watched(vec![pipe(100)]), &zen4()), State::Clean, &["not your problem"]);
    // pipes fill pages from their start, so a buffer tells where whole pages land
    let to_pipe = |offset| {
        let mut one = copies("write", FileKind::Pipe, Some(false), None, 65536, 100_000);
        one.buffers[0].offset = offset;
        told(&watched(vec![one]), &zen4())
    };
    says(&to_pipe(0xff8), State::Inconclusive, &["pipes"]);
    says(&to_pipe(0x008), State::Clean, &["not your problem"]);
    says(&told(&watched(vec![pipe(100_000), reads(0x008, 1000)]), &zen4()), State::Affected, &["lost"]);
    let nothing = Watched {
        unseen: vec![Unseen {
            what: "a program that process 8 started".into(),
            why: "no preloaded object reaches it".into(),
            remedy: Some("--via ptrace".into()),
            ..Unseen::default()
        }],
        ..watched(vec![])
    };
    says(
        &told(&nothing, &zen4()),
        State::Inconclusive,
        &["nothing that `app` copied could be seen", "--via ptrace"],
    );
    says(&told(&watched(vec![]), &zen4()), State::Clean, &["nothing that"]);
}

#[test]
fn pipes_whose_pages_are_not_whole_are_unknown() {
    let landing =
        |len: u64, n| Landing { distance: None, class: len.ilog2() as u8, copies: n, bytes: len * n };
    let pipe = |call: &str, from_file, landings: Vec<Landing>| {
        let mut one = copies(call, FileKind::Pipe, Some(from_file), None, 65536, 0);
        one.calls = landings.iter().map(|l| l.copies).sum();
        one.bytes = landings.iter().map(|l| l.bytes).sum();
        one.buffers = vec![AtOffset { offset: 0, copies: one.calls, bytes: one.bytes }];
        one.landings = landings;
        told(&watched(vec![one]), &zen4())
    };
    // a head of 8 bytes before each 64 KiB: the reader meets its pages 8 bytes late
    let framed = || vec![landing(8, 100_000), landing(65536, 100_000)];
    says(&pipe("read", true, framed()), State::Inconclusive, &["pipes"]);
    says(&pipe("fwrite", false, framed()), State::Inconclusive, &["pipes"]);
    says(&pipe("writev", false, framed()), State::Inconclusive, &["pipes"]);
    // but a write(2) of whole pages begins its own, whatever went before
    says(&pipe("write", false, framed()), State::Clean, &["not your problem"]);
    says(&pipe("write", false, vec![landing(65544, 100_000)]), State::Inconclusive, &["pipes"]);
    says(&pipe("read", true, vec![landing(65536, 100_000)]), State::Clean, &["not your problem"]);
    says(&pipe("read", true, vec![]), State::Clean, &["nothing that"]);
}

#[test]
fn a_measured_path_of_unknown_distance_is_not_an_unmeasured_one() {
    let stream = copies("fread", FileKind::PageCache, Some(true), None, 4096, 10_000_000);
    let answer = told(&watched(vec![stream.clone()]), &zen4());
    says(&answer, State::Inconclusive, &["whose distance could not be told"]);
    let mut other = zen4();
    other.paths.retain(|path| path.path == PathName::Memcpy);
    says(&told(&watched(vec![stream]), &other), State::Inconclusive, &["a path that was not measured"]);
}

#[test]
fn time_inside_the_program_counts_as_far_as_it_could_cost() {
    let unseen = |ms: u64| Unseen {
        what: "copies inside the program".into(),
        program: Some("/opt/app".into()),
        why: "its code may hold rep movs".into(),
        remedy: Some("--via sample".into()),
        within_ns: Some(ms * 1_000_000),
        ..Unseen::default()
    };
    // of 1 s
    let took = |ms| Watched { unseen: vec![unseen(ms)], ..watched(vec![reads(0x740, 1000)]) };
    says(&told(&took(8), &zen4()), State::Clean, &["not your problem"]);
    says(
        &told(&took(50), &zen4()),
        State::Inconclusive,
        &["could have lost up to", "most of that in copies inside the program (/opt/app)", "--via sample"],
    );
    says(&told(&took(8), &elsewhere()), State::Inconclusive, &["could have lost up to"]);
}

#[test]
fn what_the_watching_took_makes_no_loss_small() {
    // 5 ms lost of 1 s, of which fsprobe's stops may be nearly all
    let some = || watched(vec![reads(0x008, 300), reads(0x740, 300)]);
    says(&told(&some(), &zen4()), State::Clean, &["not your problem"]);
    let stopped = Watched { watching_ns: Some(900_000_000), ..some() };
    says(&told(&stopped, &zen4()), State::Inconclusive, &["cannot tell"]);
    let nothing = Watched { watching_ns: Some(2_000_000_000), ..watched(vec![reads(0x740, 300)]) };
    says(&told(&nothing, &zen4()), State::Clean, &["none landed"]);
}

#[test]
fn bytes_that_were_not_seen_count_as_far_as_they_could_cost() {
    let missing = |bytes| Watched {
        unseen: vec![Unseen {
            what: format!("about {bytes} bytes"),
            why: "by bare system calls".into(),
            remedy: Some("--via ptrace".into()),
            bytes: Some(bytes),
            ..Unseen::default()
        }],
        ..watched(vec![reads(0x740, 1000)])
    };
    says(&told(&missing(MIB), &zen4()), State::Clean, &["not your problem"]);
    says(&told(&missing(1 << 40), &zen4()), State::Inconclusive, &["not seen", "--via ptrace"]);
    says(&told(&missing(1 << 40), &clean()), State::Clean, &["no deep band"]);
}

#[test]
fn bytes_without_a_landing_are_unknown() {
    let mut read = reads(0x008, 100_000);
    read.landings.clear();
    let answer = told(&watched(vec![read]), &zen4());
    assert_eq!((answer.share_in_band, answer.state), (None, State::Inconclusive));
    assert_eq!(answer.distances[0].distance, None);
}

#[test]
fn a_simulated_machine_is_what_would_be() {
    let answer = told(&watched(vec![reads(0x008, 10_000)]), &elsewhere());
    says(
        &answer,
        State::Affected,
        &["on the machine of a simulated zen4", "would take", "on top of the 1.0 s here"],
    );
}

#[test]
fn bands_through_zero_need_a_distance_of_their_own() {
    let mut bands = zen4();
    bands
        .paths
        .iter_mut()
        .for_each(|p| p.bands = vec![TraceBand { from: 0x991, to: 0x00f, ..band(2.8, 100.0) }]);
    let answer = told(&watched(vec![reads(0x000, 100_000)]), &bands);
    says(&answer, State::Affected, &["at distance 0x991-0x00f from their source", "at 0x4c0, say"]);
}

#[test]
fn aligned_buffers_leave_the_file_offsets() {
    let mut read = reads(0x008, 100_000);
    read.buffers = vec![AtOffset { offset: 0x040, copies: 100_000, bytes: read.bytes }];
    let answer = told(&watched(vec![read]), &zen4());
    says(&answer, State::Affected, &["aligned already", "read at file offsets that are multiples of 64"]);
}

#[test]
fn bands_of_one_side_alone_say_nothing_of_distances() {
    let bands = TraceBands { paths: vec![], ..zen4() };
    says(&told(&watched(vec![reads(8, 1)]), &bands), State::Inconclusive, &["one side alone"]);
}

#[test]
fn next_to_nothing_is_no_problem_whatever_the_watching_took() {
    let pipe = copies("write", FileKind::Pipe, Some(false), None, 14, 1);
    let took = Watched { watching_ns: Some(1_000_000_000), ..watched(vec![reads(0x740, 10), pipe]) };
    says(&told(&took, &zen4()), State::Clean, &["not your problem"]);
}

#[test]
fn who_ran_what_lost_and_no_more_than_all_is_told() {
    let mut run = reads(8, 100_000);
    run.program = "child".into();
    let answer = told(&watched(vec![run]), &zen4());
    says(&answer, State::Affected, &["that `child` (run by `app`) read", "nearly all of 1.0 s lost"]);
}

#[test]
fn bytes_that_nobody_saw_are_weighed_also_where_nothing_else_was_seen() {
    let unseen = |bytes| Unseen { what: "calls".into(), bytes: Some(bytes), ..Unseen::default() };
    let watched = |bytes| Watched { unseen: vec![unseen(bytes)], ..watched(vec![]) };
    says(&told(&watched(1221), &zen4()), State::Clean, &["not your problem"]);
    says(
        &told(&watched(1 << 30), &zen4()),
        State::Inconclusive,
        &["nothing that `app` copied could be seen"],
    );
}

#[test]
fn a_hostile_name_stays_in_its_sentence() {
    let answer = conclude(&watched(vec![reads(8, 10_000)]), &zen4(), "`a\u{1b}[31m\nb`");
    assert!(!answer.sentence.contains(char::is_control), "{:?}", answer.sentence);
}

fn any_kind() -> impl Strategy<Value = FileKind> {
    prop::sample::select(FileKind::ALL)
}

fn any_copies() -> impl Strategy<Value = Copies> {
    let call =
        prop::sample::select(vec!["read", "preadv2", "write", "pwritev", "recvmsg", "memcpy", "fread", ""]);
    let landing = (prop::option::of(0u16..4096), 0u8..63, 0u64..1000, 0u64..1 << 40)
        .prop_map(|(distance, class, copies, bytes)| Landing { distance, class, copies, bytes });
    (call, any_kind(), any::<Option<bool>>(), 0u32..3, prop::collection::vec(landing, 0..5), 0u64..1 << 42)
        .prop_map(|(call, kind, from_file, pid, landings, bytes)| Copies {
            pid,
            landings,
            bytes,
            ..copies(call, kind, from_file, None, 1, 1)
        })
}

proptest! {
    #[test]
    fn sums_agree_whatever_was_watched(all in prop::collection::vec(any_copies(), 0..6), has_band in any::<bool>(), cpu in any::<Option<u64>>()) {
        let bands = if has_band { zen4() } else { clean() };
        let answer = told(&Watched { cpu_ns: cpu, ..watched(all.clone()) }, &bands);
        let lost = answer.lost_ns.unwrap() as f64;
        let close = |sum: u64| (sum as f64 - lost).abs() <= 1e-9 * lost + all.len() as f64 + 8.0;
        prop_assert!(close(answer.rows.iter().map(|row| row.lost_ns).sum()));
        prop_assert!(close(answer.threads.iter().map(|thread| thread.lost_ns).sum()));
        prop_assert!(answer.share_in_band.is_none_or(|share| (0.0..=1.0).contains(&share)));
        let shares: f64 = answer.distances.iter().map(|at| at.share).sum();
        prop_assert!(answer.distances.is_empty() || (shares - 1.0).abs() < 1e-6 || shares == 0.0);
        prop_assert!(has_band || lost == 0.0);
        prop_assert!(!answer.sentence.is_empty() && !answer.sentence.contains("NaN"));
    }

    #[test]
    fn the_order_of_what_was_seen_does_not_matter(all in prop::collection::vec(any_copies(), 0..6)) {
        let mut reversed = all.clone();
        reversed.reverse();
        let (one, other) = (told(&watched(all), &zen4()), told(&watched(reversed), &zen4()));
        prop_assert_eq!(one.state, other.state);
        prop_assert!(one.lost_ns.unwrap().abs_diff(other.lost_ns.unwrap()) <= 1 + one.lost_ns.unwrap() / 1_000_000_000);
    }

    #[test]
    fn more_in_the_band_never_costs_less(few in 0u64..1000, more in 0u64..1000, outside in 0u64..1000) {
        let lost = |hit| told(&watched(vec![reads(8, hit), reads(0x800, outside)]), &zen4()).lost_ns.unwrap();
        prop_assert!(lost(few) <= lost(few + more));
    }

    #[test]
    fn samples_never_lose_more_than_the_time(hits in 0u64..500, misses in 0u64..500, rest in 0u64..500, kernel in any::<bool>()) {
        let mut watched = sampled(&[(8, Some("write: x"), hits), (0x100, None, misses)], hits + misses + rest);
        let samples = watched.samples.as_mut().unwrap();
        samples.kernel_seen = kernel;
        let answer = told(&watched, &zen4());
        prop_assert!(answer.lost_ns.unwrap() <= hits * 1_000_000);
        prop_assert!(answer.state != State::Clean || hits * 100 <= (hits + misses + rest) * 2);
    }
}
