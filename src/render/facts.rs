//! What a maintainer asks of a machine, in the order they ask it; what is not known says why.

use super::number::{bytes, counted, three};
use crate::report::{Feature, Firmware, Host, Libc, Memory, Phase, Report, printable};

/// The longest fact and the longest reason, in characters.
const LONGEST: usize = 400;

/// A label and its fact, safe to print.
pub(crate) type Fact = (&'static str, String);

/// The machine's facts.
pub(crate) fn machine(report: &Report) -> Vec<Fact> {
    let host = &report.host;
    let mut facts = Vec::new();
    if let Some(model) = host.simulated.model() {
        let source = host.model_source.as_deref().map(|s| format!(" ({})", shown(s))).unwrap_or_default();
        facts
            .push(("SIMULATED", format!("{}{source}: nothing here was measured on a machine", shown(model))));
    }
    if host.cpu.family == 0 {
        facts.push(("CPU", "unknown: the recording holds samples and no facts".into()));
        return facts;
    }
    let kernel = &host.kernel;
    let release = if kernel.release.is_empty() { "unknown".into() } else { shown(&kernel.release) };
    facts.extend([
        ("CPU", cpu(host)),
        ("microcode", microcode(host)),
        ("firmware", firmware(host)),
        ("CPUID bits", bits(host)),
        ("hypervisor", hypervisor(host)),
        ("kernel", format!("{release}, {}", taint(kernel.tainted))),
        ("kernel copies with", known(host, "kernel.copy_routine", kernel.copy_routine.as_deref())),
        ("command line", words(host, "kernel.cmdline", kernel.cmdline.as_deref(), " ")),
        ("C library", libc(host, &host.libc)),
        ("memcpy thresholds", thresholds(host, &host.libc)),
        ("GLIBC_TUNABLES", words(host, "libc.tunables", host.libc.tunables.as_deref(), ":")),
        ("caches", caches(&host.memory)),
        ("pages", pages(report)),
        ("running", running(host)),
    ]);
    facts
}

/// When the run began, and whether it was ended early.
pub(crate) fn when(report: &Report) -> String {
    let early = if report.run.complete { "" } else { ", ENDED EARLY" };
    format!("recorded at {}{early}", shown(&report.recorded_at))
}

/// How the samples were taken.
pub(crate) fn method(report: &Report) -> Vec<Fact> {
    let run = &report.run;
    let rounds = |phase| {
        let of = report.runs.iter().filter(move |r| r.phase == phase);
        let (runs, rounds) = of.fold((0, 0_u64), |(n, sum), r| (n + 1, sum + u64::from(r.rounds)));
        (runs > 0).then(|| format!("{phase}: {} in {}", counted(rounds, "round"), counted(runs, "run")))
    };
    let phases: Vec<String> = Phase::ALL.iter().filter_map(|p| rounds(*p)).collect();
    let warmup: u64 = report.runs.iter().map(|r| u64::from(r.warmup_discarded)).sum();
    let samples: usize = report.cells.iter().map(|c| c.ns.len()).sum();
    let commit = report.tool.commit.as_deref().map(|c| format!(" ({})", shown(c))).unwrap_or_default();
    let mut facts = vec![
        ("tool", format!("fsprobe {}{commit}, {}", shown(&report.tool.version), shown(&report.tool.target))),
        ("run", format!("{}, {}, {} s", shown(&run.command), when(report), three(run.duration_s))),
        (
            "samples",
            format!("{samples} in {}; {}", counted(report.cells.len() as u64, "cell"), phases.join(", ")),
        ),
        (
            "order",
            format!(
                "{}, seed {}; {} discarded",
                shown(&run.shuffle),
                run.seed,
                counted(warmup, "warm-up round")
            ),
        ),
    ];
    if let Some(precision) = report.noise.clock_precision_ns {
        facts.push(("clock", format!("shows differences of {precision} ns and more")));
    }
    if let Some(source) = &report.source {
        let fs = source.fs_type.as_deref().map(|f| format!(" on {}", shown(f))).unwrap_or_default();
        let cached = match source.resident_before.zip(source.resident_after) {
            Some((before, after)) => {
                format!(", in the page cache before: {}, after: {}", yes(Some(before)), yes(Some(after)))
            }
            None => String::new(),
        };
        facts.push(("source", format!("{}{fs}{cached}", bytes(source.size))));
    }
    facts
}

/// The word that a report is headed with: its state, or what it tells of instead.
pub(crate) fn headword(report: &Report) -> String {
    match report.is_colours_alone() {
        true => "PAGE COLOURS".into(),
        false => report.verdict.state.word().to_uppercase(),
    }
}

/// That the report said something else when it was recorded, and what.
pub fn rejudged(report: &Report) -> Option<String> {
    const MOST: usize = 4;
    let again = report.rejudged.as_ref()?;
    let told: Vec<String> = again.differences.iter().take(MOST).map(|d| shown(d)).collect();
    let more = again.differences.len().saturating_sub(MOST);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    Some(format!(
        "Judged again by fsprobe {}, and the verdict is not the recorded one, which was {}: {}{more}.",
        shown(&again.by.version),
        again.recorded_state.word().to_uppercase(),
        told.join("; ")
    ))
}

fn cpu(host: &Host) -> String {
    let cpu = &host.cpu;
    format!(
        "{}; {}; {}, family {:#x}, model {:#x}, stepping {}, signature {}",
        known(host, "cpu.brand", cpu.brand.as_deref()),
        known(host, "cpu.microarchitecture", cpu.microarchitecture.as_deref()),
        shown(&cpu.vendor),
        cpu.family,
        cpu.model,
        cpu.stepping,
        shown(&cpu.signature)
    )
}

fn microcode(host: &Host) -> String {
    match host.cpu.microcode.as_deref() {
        None | Some([]) => unknown(host, "cpu.microcode"),
        Some([one]) => shown(one),
        Some(several) => format!("{} (they differ between CPUs)", shown(&several.join(" and "))),
    }
}

fn firmware(host: &Host) -> String {
    let Some(Firmware { bios_version, bios_date, board }) = &host.firmware else {
        return unknown(host, "firmware");
    };
    let or = |text: &Option<String>| text.as_deref().map_or("unknown".into(), shown);
    format!("{} of {}, board {}", or(bios_version), or(bios_date), or(board))
}

/// Each bit as CPUID tells it, and as the kernel does: `ERMS yes (kernel yes)`.
fn bits(host: &Host) -> String {
    let said = |(name, Feature { cpuid, kernel }): (&str, Feature)| {
        let differs = if kernel.is_some_and(|k| k != cpuid) { " - DIFFERS" } else { "" };
        let kernel = kernel.map_or("has no word", |k| yes(Some(k)));
        format!("{} {} (kernel {kernel}{differs})", name.to_uppercase(), yes(Some(cpuid)))
    };
    host.cpu.features.named().map(said).join(", ")
}

fn hypervisor(host: &Host) -> String {
    match &host.hypervisor {
        Some(name) => shown(name),
        None if host.unknown.contains_key("hypervisor") => unknown(host, "hypervisor"),
        None => "none (bare metal)".into(),
    }
}

fn taint(mask: Option<u64>) -> String {
    match mask {
        None => "taint unknown".into(),
        Some(0) => "not tainted".into(),
        Some(mask) => format!("tainted ({mask})"),
    }
}

fn libc(host: &Host, libc: &Libc) -> String {
    let package = libc.package.as_deref().map(|p| format!(", package {}", shown(p))).unwrap_or_default();
    let version = match &libc.version {
        Some(version) => shown(version),
        None => format!("version {}", unknown(host, "libc.version")),
    };
    format!("{} {version}{package}", shown(&libc.name))
}

fn thresholds(host: &Host, libc: &Libc) -> String {
    let value = |name: &str, value: Option<u64>| {
        value.map_or_else(|| unknown(host, &format!("libc.{name}")), |bytes| format!("{bytes} B"))
    };
    if libc.rep_movsb_threshold.is_none() && libc.non_temporal_threshold.is_none() {
        return unknown(host, "libc.rep_movsb_threshold");
    }
    format!(
        "rep_movsb_threshold {}, rep_movsb_stop_threshold {}, non_temporal_threshold {}",
        value("rep_movsb_threshold", libc.rep_movsb_threshold),
        value("rep_movsb_stop_threshold", libc.rep_movsb_stop_threshold),
        value("non_temporal_threshold", libc.non_temporal_threshold)
    )
}

fn caches(memory: &Memory) -> String {
    let each = |name: &str, size: Option<u64>| format!("{name} {}", size.map_or("unknown".into(), bytes));
    [each("L1d", memory.l1d), each("L2", memory.l2), each("L3", memory.l3)].join(", ")
}

fn pages(report: &Report) -> String {
    let memory = &report.host.memory;
    let thp = memory.thp.as_deref().map_or("unknown".into(), shown);
    format!(
        "{}, transparent huge pages {thp}; buffers in pages of kind {}",
        bytes(memory.page_size),
        shown(&report.run.options.pages)
    )
}

fn running(host: &Host) -> String {
    let pinned = host.cpu_pinned.map_or("no fixed CPU".into(), |cpu| format!("pinned to CPU {cpu}"));
    let or = |text: &Option<String>| text.as_deref().map_or("unknown".into(), shown);
    format!(
        "{pinned}, SMT {}, clock source {}, governor {}, boost {}",
        yes(host.smt),
        or(&host.clocksource),
        or(&host.governor),
        yes(host.boost)
    )
}

/// A list of words: `none` where it is known to be empty.
fn words(host: &Host, field: &str, words: Option<&[String]>, between: &str) -> String {
    match words {
        None => unknown(host, field),
        Some([]) => "nothing that bears on copying".into(),
        Some(words) => shown(&words.join(between)),
    }
}

fn known(host: &Host, field: &str, value: Option<&str>) -> String {
    value.map_or_else(|| unknown(host, field), shown)
}

fn unknown(host: &Host, field: &str) -> String {
    match host.unknown.get(field) {
        Some(reason) => format!("unknown: {}", shown(reason)),
        None => "unknown".into(),
    }
}

fn yes(fact: Option<bool>) -> &'static str {
    match fact {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    }
}

fn shown(text: &str) -> String {
    printable(text, LONGEST)
}
