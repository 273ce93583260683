//! The machine in a few lines; what is not known says why.

use super::Style;
use crate::render::number::{bytes, three};
use crate::render::text::{Paint, paint, paragraph};
use crate::report::{Feature, Host, Report, printable};

/// The longest single fact, in characters.
const LONGEST: usize = 60;
/// The longest reason why something is not known.
const LONGEST_REASON: usize = 48;

/// The machine (first of all, whether it is one), and how the run went.
pub fn header(report: &Report, style: Style) -> String {
    let lines = facts(report).map(|(label, text)| paragraph(&format!("{label:<8}"), &text, style.width));
    let simulated = simulated(report).map(|text| {
        let text = paragraph("", &text, style.width);
        let text = text.trim_end();
        format!("{}\n\n", if style.colour { paint(text, Paint::Yellow) } else { text.into() })
    });
    simulated.into_iter().chain(lines).collect()
}

/// The facts that decide the copy paths, a label and a line each.
pub fn facts(report: &Report) -> [(&'static str, String); 5] {
    [
        ("CPU", cpu(&report.host)),
        ("Bits", bits(&report.host)),
        ("Kernel", kernel(&report.host)),
        ("libc", libc(&report.host)),
        ("Run", run(report)),
    ]
}

/// That nothing was measured, where that is so.
pub fn simulated(report: &Report) -> Option<String> {
    let model = fact(report.host.simulated.model()?);
    let source = report.host.model_source.as_deref();
    let source = source.map(|s| format!(" ({})", printable(s, 200))).unwrap_or_default();
    Some(format!("SIMULATED: {model} — nothing below was measured on this machine{source}"))
}

fn cpu(host: &Host) -> String {
    let cpu = &host.cpu;
    if cpu.family == 0 {
        // a recording holds samples alone
        return "unknown: the recording does not say".into();
    }
    let brand = cpu.brand.as_deref().map_or_else(|| unknown(host, "cpu.brand"), fact);
    let architecture = cpu.microarchitecture.as_deref().map(fact);
    let architecture = architecture
        .unwrap_or_else(|| format!("microarchitecture {}", unknown(host, "cpu.microarchitecture")));
    let microcode = match cpu.microcode.as_deref() {
        Some([]) | None => unknown(host, "cpu.microcode"),
        Some(revisions) => fact(&revisions.join(" and ")),
    };
    format!(
        "{brand}, {architecture} ({}, family {:#x}, model {:#x}, stepping {}, {}); microcode {microcode}",
        fact(&cpu.vendor),
        cpu.family,
        cpu.model,
        cpu.stepping,
        fact(&cpu.signature),
    )
}

/// ERMS and FSRM always, the other fast-string bits where one is set; the kernel's word beside CPUID's.
fn bits(host: &Host) -> String {
    if host.cpu.family == 0 {
        return "unknown".into();
    }
    let named = host.cpu.features.named().into_iter();
    let shown = named.filter(|(name, bit)| matches!(*name, "erms" | "fsrm") || bit.cpuid);
    let bits: Vec<String> =
        shown.map(|(name, bit)| format!("{} {}", name.to_uppercase(), said(bit))).collect();
    bits.join(", ")
}

fn said(bit: Feature) -> String {
    let word = |set| if set { "yes" } else { "no" };
    match bit.kernel {
        None => format!("{} (kernel: no word)", word(bit.cpuid)),
        Some(kernel) if kernel == bit.cpuid => format!("{} (kernel: {})", word(bit.cpuid), word(kernel)),
        Some(kernel) => format!("{} (kernel: {}!)", word(bit.cpuid), word(kernel)),
    }
}

fn kernel(host: &Host) -> String {
    if host.cpu.family == 0 {
        return "unknown: a recording holds samples alone".into();
    }
    let routine = host.kernel.copy_routine.as_deref();
    let routine = routine.map_or_else(|| unknown(host, "kernel.copy_routine"), fact);
    let under = match &host.hypervisor {
        Some(name) => format!("under {}", fact(name)),
        None if host.unknown.contains_key("hypervisor") => {
            format!("under a hypervisor {}", unknown(host, "hypervisor"))
        }
        None => "on bare metal".into(),
    };
    format!("{} {under}; copies with {routine}", fact(&host.kernel.release))
}

fn libc(host: &Host) -> String {
    let libc = &host.libc;
    let version = match libc.version.as_deref() {
        Some(version) => format!(" {}", fact(version)),
        None => format!(", version {}", unknown(host, "libc.version")),
    };
    let package = libc.package.as_deref().map(|p| format!(" ({})", fact(p))).unwrap_or_default();
    let window = match (libc.rep_movsb_threshold, libc.rep_movsb_stop_threshold) {
        (Some(_), _) if libc.erms_switched_off() => "memcpy: never rep movsb (GLIBC_TUNABLES)".into(),
        (Some(start), Some(stop)) if stop.saturating_sub(start) > 1 => {
            format!("memcpy: rep movsb for {} to {}", bytes(start + 1), bytes(stop - 1))
        }
        (Some(_), Some(_)) => "memcpy: never rep movsb".into(),
        (Some(start), None) => format!(
            "memcpy: rep movsb above {}, up to {}",
            bytes(start),
            unknown(host, "libc.rep_movsb_stop_threshold")
        ),
        (None, _) => format!("memcpy's rep movsb window {}", unknown(host, "libc.rep_movsb_threshold")),
    };
    format!("{}{version}{package}; {window}", fact(&libc.name))
}

fn run(report: &Report) -> String {
    let pinned = match report.host.cpu_pinned {
        Some(cpu) => format!("CPU {cpu}"),
        None => "no fixed CPU".into(),
    };
    let mut text = fact(&report.run.command);
    if let Some(source) = &report.source {
        let fs = source.fs_type.as_deref().map(|f| format!(" ({})", fact(f))).unwrap_or_default();
        text += &format!(" of {}{fs}", bytes(source.size));
    }
    text += &format!(", {pinned}, {} s", three(report.run.duration_s));
    let options = &report.run.options;
    if options.pages != "4k" {
        text += &format!(", pages {}", fact(&options.pages));
    }
    if options.first_touch {
        text += ", into fresh pages (page faults included)";
    }
    text + &format!(", {}", fact(&report.recorded_at))
}

fn fact(text: &str) -> String {
    printable(text, LONGEST)
}

fn unknown(host: &Host, field: &str) -> String {
    match host.unknown.get(field) {
        // a long reason would hide the facts beside it: `fsprobe cpu` and the report tell it whole
        Some(reason) if reason.chars().count() <= LONGEST_REASON => {
            format!("unknown ({})", printable(reason, LONGEST_REASON))
        }
        _ => "unknown".into(),
    }
}
