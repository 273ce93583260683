//! What of the hosts bears on where copies are slow, and what of it differs between two sides.

use crate::report::{Bearing, Difference, Features, Host, Report, printable};
use std::collections::BTreeSet;

/// A fact of both sides: the distinct values over each side's reports, none standing for unknown.
pub struct Fact {
    pub name: String,
    pub bears_on: Bearing,
    pub before: BTreeSet<Option<String>>,
    pub after: BTreeSet<Option<String>>,
    /// Facts whose change brings this one with it.
    causes: &'static [&'static str],
}

pub const MICROCODE: &str = "microcode";
pub const FIRMWARE: &str = "firmware";
pub const HYPERVISOR: &str = "hypervisor";
pub const COMMAND_LINE: &str = "kernel command line";
pub const LIBC: &str = "libc";
pub const TUNABLES: &str = "GLIBC_TUNABLES";
pub const FSPROBE: &str = "fsprobe";
const BITS: &str = "CPUID bits";
const KERNEL: &str = "kernel";
const SEEN_BITS: &str = "bits the kernel uses";
const CACHES: &str = "caches";

/// What stands for a fact that is known to be nothing.
pub const NONE: &str = "none";

impl Fact {
    pub fn differs(&self) -> bool {
        self.before != self.after || self.before.len() > 1
    }

    /// Whether any report of either side does not know it.
    pub fn is_unknown(&self) -> bool {
        self.before.contains(&None) || self.after.contains(&None)
    }
}

/// The processor in a few words.
pub fn cpu(report: &Report) -> String {
    let cpu = &report.host.cpu;
    let name = cpu.brand.as_ref().or(cpu.microarchitecture.as_ref()).unwrap_or(&cpu.vendor);
    format!("{} ({}, stepping {})", printable(name, 80), printable(&cpu.signature, 20), cpu.stepping)
}

/// Facts that differ, the ones that follow from others told apart.
pub fn differences(facts: &[Fact]) -> Vec<Difference> {
    let changed: Vec<&Fact> = facts.iter().filter(|f| f.differs()).collect();
    let told = |values: &BTreeSet<Option<String>>| {
        let known: Vec<&str> = values.iter().flatten().map(String::as_str).collect();
        (!known.is_empty()).then(|| known.join(" or "))
    };
    let follows = |fact: &Fact| {
        let cause = fact.causes.iter().find(|c| changed.iter().any(|f| f.name == **c));
        cause.map(|c| (*c).to_owned())
    };
    let difference = |fact: &&Fact| Difference {
        fact: fact.name.clone(),
        before: told(&fact.before),
        after: told(&fact.after),
        bears_on: fact.bears_on,
        follows: follows(fact),
    };
    changed.iter().map(difference).collect()
}

/// Every fact of two sides.
pub fn facts(before: &[Report], after: &[Report]) -> Vec<Fact> {
    let [earlier, later] = [before, after].map(|side| side.iter().map(of_report).collect::<Vec<_>>());
    let mut facts: Vec<Fact> = Vec::new();
    let mut told_by: Vec<[usize; 2]> = Vec::new();
    for (is_later, told) in
        earlier.into_iter().map(|t| (false, t)).chain(later.into_iter().map(|t| (true, t)))
    {
        for Told { name, bears_on, causes, value } in told {
            let known = facts.iter().position(|f| f.name == name);
            let at = known.unwrap_or_else(|| {
                facts.push(Fact { name, bears_on, causes, before: BTreeSet::new(), after: BTreeSet::new() });
                told_by.push([0, 0]);
                facts.len() - 1
            });
            let side = if is_later { &mut facts[at].after } else { &mut facts[at].before };
            side.insert(value);
            told_by[at][usize::from(is_later)] += 1;
        }
    }
    // what some reports have no word on is unknown there
    for (fact, [by_before, by_after]) in facts.iter_mut().zip(told_by) {
        if by_before < before.len() {
            fact.before.insert(None);
        }
        if by_after < after.len() {
            fact.after.insert(None);
        }
    }
    facts
}

/// One report's word on a fact.
struct Told {
    name: String,
    bears_on: Bearing,
    causes: &'static [&'static str],
    value: Option<String>,
}

fn of_report(report: &Report) -> Vec<Told> {
    let mut all = of_machine(report);
    all.extend(of_kernel(&report.host));
    all.extend(of_libc(report));
    all.extend(of_speed(&report.host));
    all
}

fn told(name: &str, bears_on: Bearing, causes: &'static [&'static str], value: Option<String>) -> Told {
    Told { name: name.into(), bears_on, causes, value }
}

fn of_machine(report: &Report) -> Vec<Told> {
    let host = &report.host;
    let firmware = host.firmware.as_ref();
    let version = firmware.and_then(|f| f.bios_version.clone()).map(|version| {
        let date = firmware.and_then(|f| f.bios_date.as_ref()).map(|d| format!(" ({d})")).unwrap_or_default();
        version + &date
    });
    let hypervisor = match &host.hypervisor {
        Some(name) => Some(name.clone()),
        None if host.unknown.contains_key("hypervisor") => None,
        None => Some(NONE.into()),
    };
    let memory = &host.memory;
    let caches: Option<Vec<String>> =
        [memory.l1d, memory.l2, memory.l3].iter().map(|size| size.map(crate::report::length)).collect();
    let tool = &report.tool;
    let commit = tool.commit.as_ref().map(|c| format!(" ({c})")).unwrap_or_default();
    vec![
        told(MICROCODE, Bearing::Every, &[], microcode(host)),
        told(FIRMWARE, Bearing::Every, &[], version),
        told("board", Bearing::Every, &[], firmware.and_then(|f| f.board.clone())),
        told(HYPERVISOR, Bearing::Every, &[], hypervisor),
        told(BITS, Bearing::Every, &[], Some(bits(&host.cpu.features, |f| f.cpuid))),
        told(CACHES, Bearing::Every, &[], caches.map(|c| c.join(" / "))),
        told("page size", Bearing::Every, &[], Some(memory.page_size.to_string())),
        told(FSPROBE, Bearing::Every, &[], Some(format!("{}{commit}, {}", tool.version, tool.target))),
        told("file system", Bearing::Files, &[], report.source.as_ref().and_then(|s| s.fs_type.clone())),
    ]
}

/// A kernel may set registers that change the CPU itself, so its facts bear on every path.
fn of_kernel(host: &Host) -> Vec<Told> {
    let kernel = &host.kernel;
    let features = &host.cpu.features;
    // of the others most kernels have no word at all
    let has_word = features.erms.kernel.is_some() && features.fsrm.kernel.is_some();
    let seen = has_word.then(|| bits(features, |f| f.kernel == Some(true)));
    let words = kernel.cmdline.as_ref().map(|w| if w.is_empty() { NONE.into() } else { w.join(" ") });
    let mut all = vec![
        told(KERNEL, Bearing::Every, &[], Some(kernel.release.clone())),
        told(COMMAND_LINE, Bearing::Every, &[], words),
        told(SEEN_BITS, Bearing::Every, &[KERNEL, COMMAND_LINE, MICROCODE, BITS], seen),
        told(
            "kernel's copy routine",
            Bearing::Every,
            &[KERNEL, COMMAND_LINE, MICROCODE, BITS, SEEN_BITS],
            kernel.copy_routine.clone(),
        ),
        told("transparent huge pages", Bearing::Files, &[KERNEL, COMMAND_LINE], host.memory.thp.clone()),
        told("kernel taint", Bearing::Speed, &[], kernel.tainted.map(|t| t.to_string())),
    ];
    for (name, text) in &kernel.vulnerabilities {
        // it decides whether loads may pass older stores, which is what the anomaly is about
        let bearing = if name == "spec_store_bypass" { Bearing::Every } else { Bearing::Speed };
        let name = format!("vulnerability {name}");
        all.push(told(&name, bearing, &[KERNEL, COMMAND_LINE, MICROCODE, FIRMWARE], Some(text.clone())));
    }
    all
}

/// The versions of all CPUs, the lower ones first; none where there is none.
fn microcode(host: &Host) -> Option<String> {
    let versions = host.cpu.microcode.as_ref().filter(|versions| !versions.is_empty())?;
    Some(versions.join(", ").to_ascii_lowercase())
}

fn of_libc(report: &Report) -> Vec<Told> {
    const THRESHOLDS: &[&str] = &[LIBC, TUNABLES, BITS, CACHES];
    let libc = &report.host.libc;
    let package = libc.package.as_ref().map(|p| format!(" ({p})")).unwrap_or_default();
    let version = libc.version.as_ref().map(|v| format!("{} {v}{package}", libc.name));
    let tunables = libc.tunables.as_ref().map(|t| if t.is_empty() { NONE.into() } else { t.join(":") });
    let lengths = libc.rep_movsb_threshold.zip(libc.rep_movsb_stop_threshold);
    let lengths = lengths.map(|(from, stop)| match stop > from.saturating_add(1) {
        true => format!("above {from} B, below {stop} B"),
        false => "never".into(),
    });
    let streamed = libc.non_temporal_threshold.map(|t| format!("from {t} B"));
    vec![
        told(LIBC, Bearing::Libc, &[], version),
        told(TUNABLES, Bearing::Libc, &[], tunables),
        told("memcpy runs rep movsb", Bearing::Libc, THRESHOLDS, lengths),
        told("memcpy streams", Bearing::Libc, THRESHOLDS, streamed),
    ]
}

/// What moves every offset alike.
fn of_speed(host: &Host) -> Vec<Told> {
    let yes = |b: bool| if b { "on".to_owned() } else { "off".to_owned() };
    let speed = |name, value| told(name, Bearing::Speed, &[], value);
    vec![
        speed("CPU measured on", host.cpu_pinned.map(|c| c.to_string())),
        speed("NUMA node", host.memory.numa_node.map(|n| n.to_string())),
        speed("SMT", host.smt.map(yes)),
        speed("clock source", host.clocksource.clone()),
        speed("governor", host.governor.clone()),
        speed("boost", host.boost.map(yes)),
    ]
}

/// The names of the bits that are set.
fn bits(features: &Features, is_set: impl Fn(&crate::report::Feature) -> bool) -> String {
    let named = features.named();
    let set: Vec<&str> = named.iter().filter(|(_, f)| is_set(f)).map(|(name, _)| *name).collect();
    if set.is_empty() { NONE.into() } else { set.join(" ") }
}
