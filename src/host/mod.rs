//! What this machine is, each fact known or unknown because of a reason: CPUID, microcode, firmware,
//! kernel, C library, memory. One small file a concern.
//!
//! Files are read below a root folder, so that a folder can stand for another machine; CPUID comes from
//! a reader, so that a dump can. This room measures nothing and may use `sys` and the report's types only.

mod command;
mod cpuid;
mod cpuinfo;
mod dump;
mod firmware;
mod kernel;
mod libc;
mod memory;
mod microarchitecture;
mod microcode;
mod running;
mod system;

pub use dump::{Dump, DumpError};
pub use libc::{rep_movsb_window, uses_erms};
pub use system::System;

use crate::report::{Host, Kernel, Libc, Memory, PAGE, Simulated, Unknowns};
use cpuinfo::CpuInfo;
use raw_cpuid::{CpuIdReader, CpuIdReaderNative};
use std::collections::BTreeMap;

/// The facts of this machine. `with_package` also looks up the C library's package. No CPU is pinned yet:
/// see [`pin`].
pub fn gather(with_package: bool) -> Host {
    gather_from(&System::here(), CpuIdReaderNative, with_package)
}

/// The facts of a machine whose files lie under a root and whose CPUID a reader gives; page size and
/// C library are those of this process.
pub fn gather_from(system: &System, cpuid: impl CpuIdReader, with_package: bool) -> Host {
    let mut unknown = Unknowns::new();
    let decoded = cpuid::decode(cpuid, &mut unknown);
    let cpuinfo = CpuInfo::read(system);
    let kernel = kernel::facts(system, &cpuinfo, &mut unknown);
    let mut cpu = decoded.cpu;
    kernel::mark_features(&mut cpu.features, &kernel.release, &cpuinfo, &mut unknown);
    let revisions = microcode::revisions(system, &cpuinfo, decoded.hypervisor.is_some());
    cpu.microcode = Host::take(&mut unknown, "cpu.microcode", revisions);
    Host {
        simulated: Simulated::REAL,
        model_source: None,
        cpu,
        hypervisor: decoded.hypervisor,
        firmware: firmware::facts(system, &mut unknown),
        kernel,
        libc: libc::facts(system, with_package, &mut unknown),
        memory: memory::facts(system, decoded.caches, &mut unknown),
        cpu_pinned: None,
        smt: Host::take(&mut unknown, "smt", running::smt(system)),
        clocksource: Host::take(&mut unknown, "clocksource", running::clocksource(system)),
        governor: Host::take(&mut unknown, "governor", running::governor(system)),
        boost: Host::take(&mut unknown, "boost", running::boost(system)),
        unknown,
    }
}

/// Notes the CPU that sampling was pinned to, its NUMA node and its caches.
pub fn pin(host: &mut Host, cpu: u32) {
    host.cpu_pinned = Some(cpu);
    let caches = memory::caches(&System::here(), cpu);
    for (field, seen, known) in [
        ("memory.l1d", caches.l1d, &mut host.memory.l1d),
        ("memory.l2", caches.l2, &mut host.memory.l2),
        ("memory.l3", caches.l3, &mut host.memory.l3),
    ] {
        if seen.is_some() {
            host.unknown.remove(field);
            *known = seen;
        }
    }
    host.unknown.remove("memory.numa_node");
    let node = memory::node_of(&System::here(), cpu);
    host.memory.numa_node = Host::take(&mut host.unknown, "memory.numa_node", node);
}

/// Fields that a CPUID dump cannot tell.
const NOT_IN_A_DUMP: [&str; 25] = [
    "boost",
    "clocksource",
    "cpu.features.erms.kernel",
    "cpu.features.fsrc.kernel",
    "cpu.features.fsrm.kernel",
    "cpu.features.fsrs.kernel",
    "cpu.features.fzrm.kernel",
    "cpu.microcode",
    "firmware",
    "governor",
    "kernel.cmdline",
    "kernel.copy_routine",
    "kernel.release",
    "kernel.tainted",
    "kernel.vulnerabilities",
    "libc.name",
    "libc.non_temporal_threshold",
    "libc.package",
    "libc.rep_movsb_stop_threshold",
    "libc.rep_movsb_threshold",
    "libc.tunables",
    "libc.version",
    "memory.numa_node",
    "memory.thp",
    "smt",
];

/// The facts of the CPU of a dump. Whatever else a host has is unknown, and its texts are empty.
pub fn of_dump(dump: &Dump) -> Host {
    let mut unknown = Unknowns::new();
    let decoded = cpuid::decode(|leaf, subleaf| dump.registers(leaf, subleaf), &mut unknown);
    dump.note_gaps(&mut unknown);
    let caches = decoded.caches;
    for field in NOT_IN_A_DUMP {
        unknown.insert(field.into(), "a CPUID dump does not tell it".into());
    }
    for (field, size) in [("l1d", caches.l1d), ("l2", caches.l2), ("l3", caches.l3)] {
        let field = format!("memory.{field}");
        if size.is_some() {
            unknown.remove(&field);
        } else {
            unknown.insert(field, "the dump's cache leaves do not tell it".into());
        }
    }
    Host {
        simulated: Simulated::REAL,
        model_source: None,
        cpu: decoded.cpu,
        hypervisor: decoded.hypervisor,
        firmware: None,
        kernel: Kernel {
            release: String::new(),
            copy_routine: None,
            cmdline: None,
            tainted: None,
            vulnerabilities: BTreeMap::new(),
        },
        libc: Libc::default(),
        memory: Memory {
            // The base page of x86-64.
            page_size: u64::from(PAGE),
            thp: None,
            l1d: caches.l1d,
            l2: caches.l2,
            l3: caches.l3,
            numa_node: None,
        },
        cpu_pinned: None,
        smt: None,
        clocksource: None,
        governor: None,
        boost: None,
        unknown,
    }
}

#[cfg(test)]
mod tests;
