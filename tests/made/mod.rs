//! Reports made by hand, with deterministic samples: what the renderers and the schema are tested on.

// each test program uses its own part of this
#![allow(dead_code)]

pub mod hostile;

use fsprobe::report::*;
use serde_json::json;
use std::collections::BTreeMap;

pub const KIB_64: u64 = 64 << 10;
pub const MIB_64: u64 = 64 << 20;
pub const THREE: [Allocator; 3] = [Allocator::Glibc, Allocator::Jemalloc, Allocator::Mimalloc];

/// Nanoseconds of one copy of `len` bytes at a (dst, src).
pub type Cost = fn(len: u64, dst: u16, src: u16) -> f64;

/// A clean machine: 23 GB/s in cache, 13 GB/s beyond, misalignment 1.33x beyond.
pub fn clean_cost(len: u64, dst: u16, _src: u16) -> f64 {
    let aligned = dst.is_multiple_of(0x20);
    match len {
        MIB_64 => len as f64 / 12.9 * if aligned { 1.0 } else { 1.33 },
        KIB_64 => len as f64 / 23.1,
        _ => 20.0 + len as f64 / 60.0,
    }
}

/// Zen 4 as measured: distance 0x001..0x00f deep, two mild levels above.
pub fn zen4_cost(len: u64, dst: u16, src: u16) -> f64 {
    let clean = clean_cost(len, dst, src);
    let kib = len as f64 / 1024.0;
    match (distance(dst, src), len) {
        (1..=15, MIB_64) => clean + 110.0 * kib,
        (1..=15, _) => clean + 275.0 * kib,
        (0x11..=0x3f, KIB_64) if !dst.is_multiple_of(0x20) => clean * 1.25,
        _ => clean,
    }
}

/// Zen 3 as published: one band through 0xfff to 0x000.
pub fn zen3_cost(len: u64, dst: u16, src: u16) -> f64 {
    let slow = distance(dst, src) >= 0x991 || distance(dst, src) <= 0x00f;
    len as f64 / 20.0 * if slow { 2.8 } else { 1.0 }
}

/// A report without cells, of a machine of which everything is known.
pub fn empty() -> Report {
    Report {
        schema: Schema::report(),
        tool: Tool { version: "0.1.0".into(), commit: None, target: "x86_64-unknown-linux-gnu".into() },
        recorded_at: "2026-11-30T10:00:00Z".into(),
        run: RunInfo {
            command: "sweep".into(),
            options: Options {
                file: Some("<file>".into()),
                paths: vec![PathName::Read],
                allocators: THREE.to_vec(),
                len: vec![KIB_64, MIB_64],
                ..Options::default()
            },
            shuffle: "Fisher-Yates, xoshiro256++".into(),
            seed: 7,
            duration_s: 11.84,
            complete: true,
            stopped_by: None,
        },
        runs: vec![],
        source: Some(Source {
            kind: "file".into(),
            size: MIB_64,
            fs_type: Some("tmpfs".into()),
            resident_before: Some(true),
            resident_after: Some(true),
            changed: false,
        }),
        host: host(),
        cells: vec![],
        skipped: vec![],
        placements: vec![],
        noise: Noise::default(),
        verdict: Verdict { state: State::Clean, reasons: vec![], ..Verdict::default() },
        remedies: vec![],
        colours: None,
        pmu: None,
        rejudged: None,
    }
}

fn host() -> Host {
    serde_json::from_value(json!({
        "simulated": false,
        "cpu": {
            "vendor": "AuthenticAMD", "brand": "AMD EPYC 9R14 96-Core Processor", "family": 25, "model": 17,
            "stepping": 1, "signature": "0x00a10f11", "microarchitecture": "Zen 4", "microcode": null,
            "features": {
                "erms": {"cpuid": true, "kernel": true}, "fsrm": {"cpuid": true, "kernel": true},
                "fzrm": {"cpuid": false, "kernel": null}, "fsrs": {"cpuid": false, "kernel": null},
                "fsrc": {"cpuid": false, "kernel": null}
            }
        },
        "hypervisor": "KVM", "firmware": null,
        "kernel": {
            "release": "6.18.0-1-amd64", "copy_routine": "inline rep movsb (FSRM)", "cmdline": [],
            "tainted": 0, "vulnerabilities": {"meltdown": "Not affected"}
        },
        "libc": {
            "name": "glibc", "version": "2.36", "package": "2.36-9+deb12u13", "rep_movsb_threshold": 2112,
            "rep_movsb_stop_threshold": 1048576, "non_temporal_threshold": 25165824, "tunables": []
        },
        "memory": {"page_size": 4096, "thp": "madvise", "l1d": 32768, "l2": 1048576, "l3": 33554432, "numa_node": 0},
        "cpu_pinned": 1, "smt": false, "clocksource": "kvm-clock", "governor": null, "boost": null,
        "unknown": {
            "cpu.microcode": "under a hypervisor the value is made up",
            "governor": "no cpufreq", "boost": "no cpufreq"
        }
    }))
    .expect("a host")
}

/// Adds a run of `rounds` over a line of offsets; samples vary by a few per cent from round to round.
pub fn measure(
    report: &mut Report,
    rounds: u32,
    owners: &[Option<Allocator>],
    len: u64,
    places: impl Iterator<Item = (u16, u16)> + Clone,
    cost: Cost,
) {
    let run = report.runs.len();
    let pages = |round| BTreeMap::from([("glibc".to_owned(), round), ("source".to_owned(), 2 * round)]);
    report.runs.push(Run {
        phase: Phase::Screen,
        rounds,
        warmup_discarded: 2,
        pages: (0..u64::from(rounds)).map(pages).collect(),
        core_ns: vec![1000; rounds as usize],
    });
    for &allocator in owners {
        let tilt = 1.0 + allocator.map_or(0.0, |a| 0.004 * f64::from(a as u8));
        report.cells.extend(places.clone().map(|(dst, src)| {
            Cell {
                run,
                path: if allocator.is_some() { PathName::Read } else { PathName::Pread },
                allocator,
                dst: Some(dst),
                src: Some(src),
                len,
                repeat: 1,
                reference: dst.is_multiple_of(0x100),
                ns: (0..rounds)
                    .map(|round| {
                        let wobble = f64::from((u32::from(dst) * 7 + round * 13) % 11) / 1000.0;
                        Some((cost(len, dst, src) * tilt * (1.0 + wobble)).round() as u64)
                    })
                    .collect(),
            }
        }));
    }
}

/// The offsets of a whole-file column: edges, natural offsets, and a coarse grid, aligned and not.
pub fn coarse() -> Vec<(u16, u16)> {
    let grid = (0..16).flat_map(|i| [i * 0x100, i * 0x100 + 0x55]);
    let mut all: Vec<u16> = [1, 2, 8, 14, 15, 16, 17, 31, 33].into_iter().chain(grid).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter().map(|dst| (dst, 0)).collect()
}

/// Cells of a default sweep (64 KiB at every dst, 64 MiB on the coarse grid) and the placements.
pub fn sweep_of(cost: Cost) -> Report {
    let mut report = empty();
    let owners = THREE.map(Some);
    measure(&mut report, 5, &owners, KIB_64, (0..=PAGE).map(|dst| (dst, 0)), cost);
    measure(&mut report, 3, &owners, MIB_64, coarse().into_iter(), cost);
    for len in [KIB_64, MIB_64] {
        let placed = |allocator, offsets: &[u16]| Placement {
            allocator,
            len,
            how: "malloc, fresh".into(),
            process: 0,
            offsets: offsets.to_vec(),
        };
        report.placements.extend([
            placed(Allocator::Glibc, &[0x010; 8]),
            placed(Allocator::Jemalloc, &[0x000, 0x040, 0x2c0, 0x500, 0x800, 0xa40, 0xc00, 0xf80]),
            placed(Allocator::Mimalloc, &[0x000; 8]),
        ]);
    }
    let floor = |(path, allocator, len, floor)| Floor { path, allocator, len, floor };
    report.noise.floors = THREE
        .iter()
        .flat_map(|a| [(PathName::Read, Some(*a), KIB_64, 1.03), (PathName::Read, Some(*a), MIB_64, 1.08)])
        .map(floor)
        .collect();
    report.noise.context_switches = Some(12);
    report
}

/// A deep band by distance.
pub fn band(from: u16, to: u16, slowdown: f64, penalty: f64) -> Band {
    Band {
        from,
        to,
        from_range: None,
        to_range: None,
        scan: Scan::Dst,
        axis: Some(Axis::Distance),
        depth: if slowdown >= 2.0 { Depth::Deep } else { Depth::Mild },
        confirmed: true,
        slowdown,
        slowdown_ci95: Some([slowdown * 0.98, slowdown * 1.02]),
        spread: None,
        penalty_ns_per_kib: penalty,
        penalty_ci95: Some([penalty - 4.0, penalty + 4.0]),
        bytes_per_s: 23.1e9 / slowdown,
    }
}

/// A verdict for each allocator at a length.
pub fn judge(report: &mut Report, len: u64, state: State, baseline: f64, misalignment: f64, bands: &[Band]) {
    for allocator in THREE {
        report.verdict.paths.push(PathVerdict {
            path: PathName::Read,
            allocator: Some(allocator),
            len,
            state,
            baseline_bytes_per_s: baseline,
            misalignment: Some(misalignment),
            page_crossing: None,
            bands: bands.iter().map(|b| Band { bytes_per_s: baseline / b.slowdown, ..b.clone() }).collect(),
        });
    }
    report.verdict.state = report.verdict.state.max(state);
}

/// The main case: Zen 4, deep at distances 0x001..0x00f at both lengths, mild above, and a src sweep.
pub fn zen4() -> Report {
    let mut report = sweep_of(zen4_cost);
    measure(&mut report, 5, &[Some(Allocator::Glibc)], KIB_64, (1..PAGE).map(|src| (0, src)), zen4_cost);
    let mild = Band { spread: Some([1.0, 1.9]), ..band(0x011, 0x03f, 1.25, 11.0) };
    judge(&mut report, KIB_64, State::Affected, 23.1e9, 1.01, &[band(1, 15, 7.3, 275.0), mild]);
    judge(&mut report, MIB_64, State::Affected, 9.7e9, 1.33, &[band(1, 15, 2.04, 110.0)]);
    report.verdict.signature = Some("the Zen 4 band 0x001..0x00f (sourceware BZ 30994)".into());
    report
}

/// A machine without the anomaly.
pub fn clean() -> Report {
    let mut report = sweep_of(clean_cost);
    measure(&mut report, 5, &[Some(Allocator::Glibc)], KIB_64, (1..PAGE).map(|src| (0, src)), clean_cost);
    judge(&mut report, KIB_64, State::Clean, 23.1e9, 1.01, &[]);
    judge(&mut report, MIB_64, State::Clean, 12.9e9, 1.33, &[]);
    report
}

/// Zen 3 as published, on a simulated machine.
pub fn zen3() -> Report {
    let mut report = sweep_of(zen3_cost);
    report.host.simulated = Simulated::by("zen3");
    report.host.cpu.microarchitecture = Some("Zen 3".into());
    for len in [KIB_64, MIB_64] {
        judge(&mut report, len, State::Affected, 20e9, 1.0, &[band(0x991, 0x00f, 2.8, 90.0)]);
    }
    report.verdict.signature = Some("the published Zen 3 band 0x991..0x00f (opendal#3665)".into());
    report
}

/// Zen 5 as published: a bounded penalty, which only the shortest copies feel.
pub fn zen5() -> Report {
    let cost: Cost = |len, dst, src| {
        let clocks = if (1..=63).contains(&distance(dst, src)) { 20.0 } else { 0.0 };
        (400.0 + len as f64 / 6.4 + clocks * 10.0) / 5.0
    };
    let mut report = sweep_of(cost);
    report.host.cpu.microarchitecture = Some("Zen 5".into());
    measure(&mut report, 5, &THREE.map(Some), 128, (0..=0x48).map(|dst| (dst, 0)), cost);
    for len in [KIB_64, MIB_64] {
        judge(&mut report, len, State::Clean, 32e9, 1.0, &[]);
    }
    judge(&mut report, 128, State::Clean, 1.52e9, 1.0, &[band(0x001, 0x03f, 1.48, 320.0)]);
    report
}

/// Ended by Ctrl-C before the second length.
pub fn interrupted() -> Report {
    let mut report = clean();
    report.run.complete = false;
    report.run.stopped_by = Some("SIGINT".into());
    report.cells.retain(|c| c.len == KIB_64 && c.allocator == Some(Allocator::Glibc) && c.src == Some(0));
    report.cells.retain(|c| c.dst.is_some_and(|d| d % 3 != 1));
    report.verdict.paths.clear();
    report.verdict.state = State::Inconclusive;
    report.verdict.reasons = vec!["only 2 of 15 screening rounds were measured".into()];
    report
}

/// Too noisy for an answer.
pub fn inconclusive() -> Report {
    let mut report = sweep_of(clean_cost);
    judge(&mut report, KIB_64, State::Inconclusive, 21.0e9, 1.02, &[]);
    report.verdict.reasons = vec![
        "the noise floor at 64 KiB is 2.6x, so that a band of 2.0x could hide in it".into(),
        "stop what runs beside fsprobe, or give it more time with --rounds 60".into(),
    ];
    report.noise.floors.iter_mut().for_each(|f| f.floor = 2.6);
    report.noise.steal_ns = Some(1_834_000_000);
    report.noise.throttled = Some(3);
    report.skipped.push(Skipped {
        path: PathName::Read,
        allocator: Some(Allocator::Jemalloc),
        reason: "not enough memory for a buffer of 64 MiB at 64 pages (cgroup limit 48 MiB)".into(),
    });
    report
}

/// Short copies beside the long ones, on the grid of a default sweep.
pub fn short() -> Report {
    let mut report = zen4();
    let grid: Vec<(u16, u16)> = (0..=0x48).chain((0x60..PAGE).step_by(0x70)).map(|dst| (dst, 0)).collect();
    for len in [128, 512, 4096] {
        measure(&mut report, 5, &THREE.map(Some), len, grid.iter().copied(), zen4_cost);
        let clean = clean_cost(len, 0, 0);
        let penalty = 275.0 * len as f64 / 1024.0;
        let deep = band(1, 15, (clean + penalty) / clean, 275.0);
        judge(&mut report, len, State::Affected, len as f64 / clean * 1e9, 1.0, &[deep]);
    }
    report
}

/// A recording of dst by src, replayed: no allocators, no placements.
pub fn recorded() -> Report {
    let mut report = empty();
    report.host.simulated = Simulated::by("replay of recorded samples");
    let plane = (0..=0x48).flat_map(|dst| (0..=0x48).map(move |src| (dst, src)));
    measure(&mut report, 3, &[None], KIB_64, plane, zen4_cost);
    report.verdict.state = State::Affected;
    report.verdict.paths = vec![PathVerdict {
        path: PathName::Pread,
        allocator: None,
        len: KIB_64,
        state: State::Affected,
        baseline_bytes_per_s: 23.1e9,
        misalignment: None,
        page_crossing: None,
        bands: vec![Band { confirmed: false, from_range: Some([0, 2]), ..band(1, 15, 7.3, 275.0) }],
    }];
    report
}

/// Zen 4, both sides swept at 4 KiB.
pub fn plane() -> Report {
    let mut report = empty();
    let near = (0..0x48).flat_map(|dst| (0..0x48).map(move |src| (dst, src)));
    let references = (0..0x30).map(|i| (i * 0x55, 0));
    let places: Vec<(u16, u16)> = near.chain(references).collect();
    measure(&mut report, 3, &[Some(Allocator::Glibc)], 4096, places.iter().copied(), zen4_cost);
    judged(report)
}

/// Six paths of a Zen 4 at 64 KiB, one of which copies without `rep movs`.
pub fn many() -> Report {
    let mut report = zen4();
    report.cells.retain(|c| c.allocator == Some(Allocator::Glibc) && c.len == KIB_64);
    report.verdict.paths.retain(|p| p.allocator == Some(Allocator::Glibc) && p.len == KIB_64);
    let (cells, verdict) = (report.cells.clone(), report.verdict.paths.remove(0));
    report.cells.clear();
    for path in [PathName::Read, PathName::Pread, PathName::PipeWrite, PathName::Memcpy, PathName::Write] {
        report.cells.extend(cells.iter().cloned().map(|c| turned(Cell { path, ..c })));
        let mut verdict = PathVerdict { path, ..verdict.clone() };
        if path.own_scan() == Scan::Src {
            verdict.bands.iter_mut().for_each(|b| b.scan = Scan::Src);
        }
        if path == PathName::PipeWrite {
            for band in &mut verdict.bands {
                (band.from, band.to, band.axis) = (PAGE - band.to, PAGE - band.from, None);
            }
        }
        report.verdict.paths.push(verdict);
    }
    report.cells.extend(cells.into_iter().map(|c| Cell { path: PathName::Avx2, ..c }));
    let clean = PathVerdict { path: PathName::Avx2, state: State::Clean, bands: vec![], ..verdict };
    report.verdict.paths.push(PathVerdict { len: 128, page_crossing: Some(5.4), ..clean });
    report
}

/// A cell of a path that writes has its buffer as the source: the same distance.
fn turned(cell: Cell) -> Cell {
    match (cell.path.own_scan(), cell.dst) {
        (Scan::Src, Some(dst)) => Cell { dst: Some(0), src: Some((PAGE - dst % PAGE) % PAGE), ..cell },
        _ => cell,
    }
}

/// A search for lengths on a Zen 4 with glibc 2.36.
pub fn lengths() -> Report {
    let mut report = empty();
    report.run.options.paths = vec![PathName::Memcpy, PathName::Avx2];
    report.run.options.len_auto = true;
    for (path, slow) in [(PathName::Memcpy, true), (PathName::Avx2, false)] {
        for len in [64, 2112, 2113, 65536, 1_048_575, 1_048_576] {
            let run = report.runs.len();
            report.runs.push(Run {
                phase: Phase::Lengths,
                rounds: 4,
                warmup_discarded: 2,
                pages: vec![BTreeMap::new(); 4],
                core_ns: vec![1000; 4],
            });
            report.cells.extend([1, 15, 0x405, 0x635].map(|dst: u16| {
                let is_slow = slow && dst < 16 && (2113..1_048_576).contains(&len);
                Cell {
                    run,
                    path,
                    allocator: Some(Allocator::Glibc),
                    dst: Some(dst),
                    src: Some(0),
                    len,
                    repeat: 1,
                    reference: dst > 16,
                    ns: vec![Some(if is_slow { 900 } else { 100 }); 4],
                }
            }));
        }
    }
    judged(report)
}

fn judged(mut report: Report) -> Report {
    let judged = fsprobe::judge::judge(&report);
    (report.verdict, report.noise.floors) = (judged.verdict, judged.floors);
    report
}
