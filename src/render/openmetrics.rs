//! A report for monitoring: OpenMetrics text (openmetrics.io), which Prometheus' text format reads as well.
//!
//! Only gauges: older readers know no info or state sets, so those are gauges of 0 and 1 by label.

use super::number::on_circle;
use crate::report::{Allocator, Band, Depth, PathVerdict, Report, State, printable};
use std::fmt::Write;

/// The longest label value, in characters.
const LONGEST: usize = 200;

/// The whole exposition.
pub fn openmetrics(report: &Report) -> String {
    let mut page = Page { text: String::new(), simulated: report.host.simulated.model().map(shown) };
    about(&mut page, report);
    states(&mut page, report);
    paths(&mut page, report);
    bands(&mut page, report);
    run(&mut page, report);
    page.text + "# EOF\n"
}

/// What was measured, on what.
fn about(page: &mut Page, report: &Report) {
    let (host, tool) = (&report.host, &report.tool);
    let or = |text: Option<&str>| text.unwrap_or("").to_owned();
    page.family("fsprobe_report_info", "", "The report that the other metrics are made from.");
    page.sample(
        "fsprobe_report_info",
        &[
            ("version", tool.version.clone()),
            ("commit", or(tool.commit.as_deref())),
            ("command", report.run.command.clone()),
            ("recorded_at", report.recorded_at.clone()),
        ],
        1.0,
    );
    page.family("fsprobe_host_info", "", "The machine that was measured.");
    page.sample(
        "fsprobe_host_info",
        &[
            ("vendor", host.cpu.vendor.clone()),
            ("brand", or(host.cpu.brand.as_deref())),
            ("microarchitecture", or(host.cpu.microarchitecture.as_deref())),
            ("signature", host.cpu.signature.clone()),
            ("microcode", host.cpu.microcode.as_ref().map(|m| m.join(" ")).unwrap_or_default()),
            ("hypervisor", or(host.hypervisor.as_deref())),
            ("kernel", host.kernel.release.clone()),
            ("copy_routine", or(host.kernel.copy_routine.as_deref())),
            ("libc", host.libc.name.clone()),
            ("libc_version", or(host.libc.version.as_deref())),
        ],
        1.0,
    );
    if host.cpu.family == 0 {
        // a recording holds samples alone
        return;
    }
    let name = "fsprobe_cpu_feature";
    page.family(name, "", "Fast-string bits as CPUID (cpuid) and /proc/cpuinfo (kernel) tell them.");
    for (feature, bit) in host.cpu.features.named() {
        for (by, set) in [("cpuid", Some(bit.cpuid)), ("kernel", bit.kernel)] {
            let Some(set) = set else { continue };
            page.sample(name, &[("feature", feature.into()), ("seen_by", by.into())], one_if(set));
        }
    }
}

/// The state of the report and of each path, one of three.
fn states(page: &mut Page, report: &Report) {
    if report.is_colours_alone() {
        // nothing was asked that has a state
        return;
    }
    let name = "fsprobe_state";
    page.family(name, "", "1 for the state of the report: clean, inconclusive or affected.");
    for state in State::ALL {
        page.sample(name, &[("state", state.word().into())], one_if(*state == report.verdict.state));
    }
    let name = "fsprobe_path_state";
    page.family(name, "", "1 for the state of a copy path with an allocator at a length in bytes.");
    for path in &report.verdict.paths {
        for state in State::ALL {
            let labels = [&of_path(path)[..], &[("state", state.word().into())]].concat();
            page.sample(name, &labels, one_if(*state == path.state));
        }
    }
    let name = "fsprobe_verdict_differs_from_recorded";
    page.family(name, "", "1 where today's rules give another verdict than the report recorded.");
    page.sample(name, &[], one_if(report.rejudged.is_some()));
}

fn paths(page: &mut Page, report: &Report) {
    let paths = &report.verdict.paths;
    let name = "fsprobe_slowdown_ratio";
    page.family(name, "ratio", "Slowdown of the slowest confirmed deep band of a path; 1 without one.");
    for path in paths {
        let deep = path.bands.iter().filter(|b| b.depth == Depth::Deep && b.confirmed);
        page.sample(name, &of_path(path), deep.map(|b| b.slowdown).fold(1.0, f64::max));
    }
    let name = "fsprobe_baseline_bytes_per_second";
    page.family(name, "bytes_per_second", "Throughput of the unaffected page offsets.");
    paths.iter().for_each(|path| page.sample(name, &of_path(path), path.baseline_bytes_per_s));
    let name = "fsprobe_misalignment_ratio";
    page.family(name, "ratio", "Time of unaffected offsets off a multiple of 0x20 over that of multiples.");
    for path in paths {
        if let Some(ratio) = path.misalignment {
            page.sample(name, &of_path(path), ratio);
        }
    }
    let name = "fsprobe_noise_floor_ratio";
    page.family(name, "ratio", "The smallest slowdown that could be told from noise.");
    for floor in &report.noise.floors {
        page.sample(name, &labels(floor.path.word(), floor.allocator, floor.len), floor.floor);
    }
}

/// One gauge of bands: its name, its unit, what it tells and how it is got.
type OfBand = (&'static str, &'static str, &'static str, fn(&Band) -> f64);

const OF_BANDS: [OfBand; 6] = [
    ("fsprobe_band_from_offset", "", "First slow page offset of a band, in its axis.", |b| {
        f64::from(on_circle(b.from))
    }),
    ("fsprobe_band_to_offset", "", "Last slow page offset of a band; below the first through 0xfff.", |b| {
        f64::from(on_circle(b.to))
    }),
    ("fsprobe_band_slowdown_ratio", "ratio", "Time in a band over that of unaffected offsets.", |b| {
        b.slowdown
    }),
    (
        "fsprobe_band_penalty_seconds_per_byte",
        "seconds_per_byte",
        "Extra time of a band per byte copied.",
        |b| b.penalty_ns_per_kib / 1e9 / 1024.0,
    ),
    ("fsprobe_band_bytes_per_second", "bytes_per_second", "Throughput inside a band.", |b| b.bytes_per_s),
    ("fsprobe_band_confirmed", "", "1 where fresh samples confirmed a band.", |b| one_if(b.confirmed)),
];

fn bands(page: &mut Page, report: &Report) {
    for (name, unit, help, value) in OF_BANDS {
        page.family(name, unit, help);
        for path in &report.verdict.paths {
            for (index, band) in path.bands.iter().enumerate() {
                let axis = band.axis.map_or("unknown", |a| a.word());
                let of_band = [
                    ("band", index.to_string()),
                    ("axis", axis.into()),
                    ("scan", band.scan.word().into()),
                    ("depth", band.depth.word().into()),
                ];
                page.sample(name, &[&of_path(path)[..], &of_band].concat(), value(band));
            }
        }
    }
}

fn run(page: &mut Page, report: &Report) {
    page.family("fsprobe_run_complete", "", "1 where everything planned was measured.");
    page.sample("fsprobe_run_complete", &[], one_if(report.run.complete));
    page.family("fsprobe_run_duration_seconds", "seconds", "Wall time of the measuring.");
    page.sample("fsprobe_run_duration_seconds", &[], report.run.duration_s);
    let noise = &report.noise;
    let counts = [
        (
            "fsprobe_run_context_switches",
            "Involuntary context switches while measuring.",
            noise.context_switches,
        ),
        ("fsprobe_run_page_faults", "Page faults while measuring.", noise.page_faults),
        ("fsprobe_run_throttled_periods", "Periods throttled by the control group.", noise.throttled),
        ("fsprobe_run_lost_samples", "Samples lost.", Some(noise.lost)),
    ];
    for (name, help, count) in counts {
        if let Some(count) = count {
            page.family(name, "", help);
            page.sample(name, &[], count as f64);
        }
    }
    if let Some(ns) = noise.steal_ns {
        let name = "fsprobe_run_stolen_seconds";
        page.family(name, "seconds", "Time that a hypervisor took from the CPUs while measuring.");
        page.sample(name, &[], ns as f64 / 1e9);
    }
}

type Label = (&'static str, String);

fn of_path(path: &PathVerdict) -> [Label; 3] {
    labels(path.path.word(), path.allocator, path.len)
}

fn labels(path: &str, allocator: Option<Allocator>, len: u64) -> [Label; 3] {
    let allocator = allocator.map_or("", Allocator::word);
    [("path", path.into()), ("allocator", allocator.into()), ("len", len.to_string())]
}

fn one_if(set: bool) -> f64 {
    f64::from(u8::from(set))
}

struct Page {
    text: String,
    /// The model's name, a label of every sample, so that no alert takes it for a machine.
    simulated: Option<String>,
}

impl Page {
    fn family(&mut self, name: &str, unit: &str, help: &str) {
        let unit = if unit.is_empty() { String::new() } else { format!("# UNIT {name} {unit}\n") };
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} gauge\n{unit}");
    }

    fn sample(&mut self, name: &str, labels: &[Label], value: f64) {
        let simulated = self.simulated.iter().map(|model| format!("simulated=\"{}\"", quoted(model)));
        let labels = labels.iter().map(|(label, text)| format!("{label}=\"{}\"", quoted(&shown(text))));
        let labels: Vec<String> = labels.chain(simulated).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "{name}{labels} {value}");
    }
}

fn shown(text: &str) -> String {
    printable(text, LONGEST)
}

/// A label value with what would end it escaped.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
