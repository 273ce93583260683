//! Every copy path in a sweep: on this machine, whatever it is, and on simulated ones.

mod common;

use clap::Parser;
use common::{Place, assert_fails, report, stderr, stdout, text};
use fsprobe::cli::{Cli, Verb};
use fsprobe::commands::sweep::simulated_with;
use fsprobe::path::{Opener, Source};
use fsprobe::report::{Axis, Band, CellSpec, Depth, PathName, Phase, Report, Scan, State, distance};
use fsprobe::simulate::Model;
use std::collections::BTreeSet;

/// Paths that copy without `rep movs`, or not at all.
const IMMUNE: [PathName; 6] = [
    PathName::MovUnrolled,
    PathName::Avx2,
    PathName::Avx512,
    PathName::NonTemporal,
    PathName::Splice,
    PathName::Zero,
];

fn simulate(model: &Model, options: &[&str]) -> Report {
    let words = ["fsprobe", "sweep", "--seed", "3"].iter().chain(options);
    let Verb::Sweep(args) = Cli::try_parse_from(words).unwrap().verb else { panic!("a sweep was asked for") };
    simulated_with(model, &args).unwrap_or_else(|_| panic!("{options:?} go together"))
}

fn deep(report: &Report, path: PathName) -> Vec<&Band> {
    let bands = report.verdict.paths.iter().filter(|v| v.path == path).flat_map(|v| &v.bands);
    bands.filter(|b| b.depth == Depth::Deep).collect()
}

#[test]
fn every_path_yields_sound_cells_or_says_why_not() {
    let place = Place::new();
    let saved = place.path("r.json");
    let options = ["--paths", "all", "--len", "4K", "--dst", "0x0-0x20", "--rounds", "3"];
    let output = place.run(&[&["sweep", "--output", text(&saved)], &options[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let report = report(&saved);
    assert_eq!(report.run.options.paths, PathName::ALL);
    for &path in PathName::ALL {
        let cells: Vec<_> = report.cells.iter().filter(|c| c.path == path).collect();
        let skipped = report.skipped.iter().any(|s| s.path == path);
        assert!(skipped || cells.len() > 40, "{path}: {} cells", cells.len());
        for cell in cells {
            let run = &report.runs[cell.run];
            assert!(path.takes(cell.dst.unwrap(), cell.src.unwrap()), "{cell:?}");
            assert_eq!(cell.ns.len(), run.rounds as usize);
            assert!(cell.ns.iter().all(|ns| ns.is_some_and(|ns| ns > 0)), "{cell:?}");
        }
    }
    let paths: BTreeSet<PathName> = report.cells.iter().map(|c| c.path).collect();
    assert!(paths.len() > 10, "{paths:?}");
    assert!(stdout(&output).contains("Copy paths, each with its deepest band"), "{}", stdout(&output));
}

#[test]
fn the_table_of_what_paths_can_have_agrees_with_the_paths() {
    let source = Source::own(1 << 20).unwrap();
    let opener = Opener::new(&source, 65536);
    for path in PathName::ALL.iter().filter_map(|&name| opener.open(name).ok()) {
        let name = path.name();
        for (dst, src) in [(0, 0), (7, 0), (0, 7), (7, 7), (0x1000, 7), (7, 0x1000)] {
            for len in [128, 4096] {
                let cell = CellSpec { path: name, allocator: None, len, dst, src, reference: false };
                let told = name.takes(dst, src) && len >= name.shortest();
                assert_eq!(path.can(&cell).is_ok(), told, "{cell:?}");
            }
        }
    }
}

#[test]
fn a_simulated_zen4_shows_its_band_by_distance_on_every_path() {
    let report = simulate(&Model::named("zen4").unwrap(), &["--paths", "all", "--len", "64K"]);
    assert_eq!(report.verdict.state, State::Affected);
    assert!(report.skipped.is_empty(), "{:?}", report.skipped);
    for &path in PathName::ALL {
        let deep = deep(&report, path);
        if IMMUNE.contains(&path) {
            assert!(deep.is_empty(), "{path}: {deep:?}");
            continue;
        }
        if path == PathName::RepMovsq {
            let all = report.verdict.paths.iter().filter(|v| v.path == path).flat_map(|v| &v.bands);
            let all: Vec<_> = all.map(|b| (b.from, b.to, b.axis, b.depth, b.confirmed)).collect();
            assert_eq!(
                all,
                [(0x001, 0x01f, Some(Axis::Distance), Depth::Deep, true)],
                "as measured on Zen 4"
            );
            continue;
        }
        let allocators = if matches!(path, PathName::Read | PathName::Pread) { 3 } else { 1 };
        assert_eq!(deep.len(), allocators, "{path}: {deep:?}");
        for band in deep {
            assert!(band.confirmed && band.scan == path.own_scan(), "{path}: {band:?}");
            let place = match band.axis {
                Some(Axis::Distance) => (band.from, band.to),
                // with the destination always at 0x000, source and distance say the same
                None if path.fixed() == Some(Scan::Dst) => (distance(0, band.to), distance(0, band.from)),
                other => panic!("{path}: {other:?}"),
            };
            assert_eq!(place, (0x001, 0x00f), "{path}");
        }
    }
}

#[test]
fn a_clean_machine_is_clean_on_every_path_at_every_default_length() {
    let report = simulate(&Model::named("clean").unwrap(), &["--paths", "read,write,pipe-write,memcpy"]);
    assert_eq!(report.verdict.state, State::Clean, "{:?}", report.verdict.reasons);
    assert!(report.verdict.paths.iter().all(|v| v.bands.is_empty() && v.page_crossing.is_none()));
    let long = report.cells.iter().filter(|c| c.len >= 1 << 20).map(|c| c.path);
    assert_eq!(long.collect::<BTreeSet<_>>(), BTreeSet::from([PathName::Read]));
    let write = report.verdict.paths.iter().find(|v| v.path == PathName::Write && v.len == 4096);
    assert!(write.is_some_and(|v| v.misalignment.is_some()));
}

#[test]
fn the_window_of_lengths_is_found_to_the_byte() {
    for (from, to) in [(2113, 1_048_575), (100, 100_000), (3000, 3500)] {
        for noisy in [false, true] {
            let model = Model::with_window(from, to, 7.0, noisy);
            let report = simulate(&model, &["--paths", "memcpy", "--len", "auto"]);
            let [window] = &report.verdict.windows[..] else { panic!("{:?}", report.verdict.windows) };
            assert_eq!((window.from_len, window.to_len), (from, to), "noisy: {noisy}");
            assert!(!window.from_open && !window.to_open);
            assert_eq!(report.verdict.state, State::Affected);
            assert!(report.runs.iter().all(|run| run.phase == Phase::Lengths));
        }
    }
}

#[test]
fn without_a_band_no_length_shows_one() {
    let report =
        simulate(&Model::named("clean+noisy").unwrap(), &["--paths", "memcpy,avx2", "--len", "auto"]);
    assert_eq!(report.verdict.state, State::Clean, "{:?}", report.verdict.reasons);
    assert!(report.verdict.windows.is_empty());
    assert!(report.verdict.reasons[0].contains("from 64 B to 4194304 B"), "{:?}", report.verdict.reasons);
    let args = ["sweep", "--simulate", "clean", "--paths", "memcpy", "--len", "auto", "--no-output"];
    let said = stdout(&Place::new().run(&args));
    assert!(said.contains("none of the lengths sampled, 64 B to 4 MiB"), "{said}");
    let everywhere =
        simulate(&Model::with_window(1, 1 << 30, 7.0, false), &["--paths", "memcpy", "--len", "auto"]);
    let [window] = &everywhere.verdict.windows[..] else { panic!("{:?}", everywhere.verdict.windows) };
    assert!(window.from_open && window.to_open);
}

#[test]
fn lengths_are_searched_on_this_machine_too() {
    let place = Place::new();
    let saved = place.path("r.json");
    let output = place.run(&["sweep", "--paths", "memcpy", "--len", "auto", "--output", text(&saved)]);
    assert!(output.status.success(), "{}", stderr(&output));
    let report = report(&saved);
    let lens: BTreeSet<u64> = report.cells.iter().map(|c| c.len).collect();
    assert!(lens.len() > 30 && lens.contains(&64) && lens.contains(&(4 << 20)), "{lens:?}");
    assert!(stdout(&output).contains("own thresholds"), "{}", stdout(&output));
}

#[test]
fn searching_lengths_is_for_user_space_and_alone() {
    let place = Place::new();
    assert_fails(&place.run(&["sweep", "--len", "auto"]), &["user space", "--paths memcpy", "read"]);
    assert_fails(
        &place.run(&["sweep", "--paths", "memcpy", "--len", "auto,4K"]),
        &["--len auto", "no others"],
    );
}
