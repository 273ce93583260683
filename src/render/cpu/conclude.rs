//! What follows from the facts for the copy paths: a pure function of a host.

use super::published::{self, Published};
use crate::report::{Feature, Host, Libc};
use serde::Serialize;

/// What the facts are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// The machine that fsprobe runs on.
    Machine,
    /// The CPU of a dump.
    Dump,
}

/// What follows from the facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conclusions {
    /// What it is about.
    pub subject: Subject,
    /// What the kernel copies user memory with.
    pub kernel: String,
    /// What glibc's memcpy copies with.
    pub memcpy: String,
    /// The lengths that memcpy copies by `rep movsb`; null where it copies none so, or where that is unknown.
    pub memcpy_rep_movsb: Option<Lengths>,
    /// What else to know before believing the facts.
    pub cautions: Vec<String>,
    /// What is published about this microarchitecture, or measured by this project.
    pub published: &'static [Published],
}

/// A range of lengths, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lengths {
    /// The shortest, in bytes.
    pub from_len: u64,
    /// The longest, in bytes.
    pub to_len: u64,
}

/// What memcpy does with `rep movsb`.
enum Memcpy {
    Never(&'static str),
    Between(Lengths),
    Unknown,
}

/// Concludes.
pub fn conclude(host: &Host, subject: Subject) -> Conclusions {
    let memcpy = memcpy(host);
    Conclusions {
        subject,
        kernel: match subject {
            Subject::Machine => kernel(host),
            Subject::Dump => kernels(host).into(),
        },
        memcpy: match subject {
            Subject::Machine => memcpy_sentence(&memcpy, &host.libc),
            Subject::Dump => memcpys(host),
        },
        memcpy_rep_movsb: match memcpy {
            Memcpy::Between(lengths) => Some(lengths),
            Memcpy::Never(_) | Memcpy::Unknown => None,
        },
        cautions: cautions(host),
        published: host.cpu.microarchitecture.as_deref().map_or(&[], published::about),
    }
}

/// The kernel of this machine.
fn kernel(host: &Host) -> String {
    let Some(routine) = &host.kernel.copy_routine else {
        return "Which routine the kernel copies user memory with is not known.".into();
    };
    let means = if routine.contains("rep movsb") {
        "read, write, pipes and sockets run the instruction that the anomaly is about"
    } else if routine.contains("rep movsq") {
        "not `rep movsb`, but `rep movsq` was slow too where this project measured it, only less so"
    } else {
        "no `rep movs` at all, so reads and writes should be free of the anomaly"
    };
    format!("Kernel {} copies user memory by {routine}: {means}.", host.kernel.release)
}

/// Kernels on the CPU of a dump (Linux arch/x86/lib/copy_user_64.S and asm/uaccess_64.h).
fn kernels(host: &Host) -> &'static str {
    match (host.cpu.features.fsrm.cpuid, host.cpu.features.erms.cpuid) {
        (true, false) => {
            "With FSRM but not ERMS, Linux 6.4 and later copies user memory by an inline `rep movsb`, older kernels \
             by `rep movsq` (REP_GOOD)."
        }
        (true, true) => {
            "With FSRM, Linux 6.4 and later copies user memory by an inline `rep movsb`, older kernels by \
             `rep movsb` because of ERMS, unless booted with clearcpuid=."
        }
        (false, true) => {
            "With ERMS but not FSRM, Linux up to 6.3 copies user memory by `rep movsb`, later kernels by \
             `rep movsb` from 64 B on."
        }
        (false, false) => {
            "Without ERMS and FSRM, Linux up to 6.3 copies user memory by `rep movsq` (REP_GOOD), 6.4 and 6.5 by \
             unrolled moves, 6.6 and later by `rep movsq` from 64 B on."
        }
    }
}

fn memcpy(host: &Host) -> Memcpy {
    let libc = &host.libc;
    if !host.cpu.features.erms.cpuid {
        return Memcpy::Never("CPUID shows no ERMS");
    }
    if libc.erms_switched_off() {
        return Memcpy::Never("GLIBC_TUNABLES switch ERMS off");
    }
    match (libc.rep_movsb_threshold, libc.rep_movsb_stop_threshold) {
        (Some(above), Some(below)) if above.saturating_add(1) < below => {
            Memcpy::Between(Lengths { from_len: above + 1, to_len: below - 1 })
        }
        (Some(_), Some(_)) => Memcpy::Never("its thresholds leave no length for it"),
        _ => Memcpy::Unknown,
    }
}

fn memcpy_sentence(memcpy: &Memcpy, libc: &Libc) -> String {
    match memcpy {
        _ if libc.name != "glibc" => {
            format!("This build uses {}, so what glibc's memcpy does here is not known.", libc.name)
        }
        Memcpy::Never(why) => format!("glibc's memcpy does not use `rep movsb` at any length: {why}."),
        Memcpy::Between(Lengths { from_len, to_len }) => {
            format!(
                "glibc's memcpy uses `rep movsb` from {from_len} to {to_len} bytes, vector copies otherwise."
            )
        }
        Memcpy::Unknown => "Between which lengths glibc's memcpy uses `rep movsb` is not known.".into(),
    }
}

/// glibc on the CPU of a dump, by version: an expectation, since distributions backport.
fn memcpys(host: &Host) -> String {
    let features = &host.cpu.features;
    let amd = host.cpu.vendor == "AuthenticAMD";
    if !features.erms.cpuid {
        return "glibc's memcpy does not use `rep movsb` at any length: CPUID shows no ERMS.".into();
    }
    let window = match (amd, features.fsrm.cpuid) {
        (true, true) => {
            "glibc 2.34 to 2.39 uses `rep movsb` for memcpy above 2112 B up to the L2 size (2.28 to 2.33 from 2048 B \
             times the vector size over 16); with 2.40, and the 2.39 branch \
             from April 2024, no longer on AMD."
        }
        (true, false) => {
            "glibc 2.28 to 2.39 uses `rep movsb` for memcpy from 2048 B times the vector size over 16 (4096 B with \
             AVX2); with 2.40, and the 2.39 branch from April 2024, no longer on AMD."
        }
        (false, _) => {
            "glibc uses `rep movsb` for memcpy between two thresholds, which the dynamic loader tells."
        }
    };
    format!("{window} Distributions backport: run `fsprobe cpu` there for the thresholds in force.")
}

fn cautions(host: &Host) -> Vec<String> {
    let mut cautions = Vec::new();
    let cpu = &host.cpu;
    if let Some(hypervisor) = &host.hypervisor {
        cautions.push(format!(
            "Below runs a hypervisor ({hypervisor}): model, bits and microcode are what it shows, and it may mask them."
        ));
    }
    if cpu.microcode.as_ref().is_some_and(|revisions| revisions.len() > 1) {
        cautions.push(
            "The CPUs run different microcode revisions: what one of them shows may not hold for all.".into(),
        );
    }
    let bits: [(&str, Feature); 2] = [("ERMS", cpu.features.erms), ("FSRM", cpu.features.fsrm)];
    for (name, bit) in bits {
        if bit.cpuid && bit.kernel == Some(false) {
            cautions.push(format!(
                "The kernel does not use {name} although CPUID shows it (clearcpuid=, perhaps, which taints the kernel \
                 and is for debugging only); glibc still sees it."
            ));
        }
    }
    let zen3_or_later = cpu.vendor == "AuthenticAMD" && cpu.family >= 0x19;
    if zen3_or_later && !(cpu.features.erms.cpuid && cpu.features.fsrm.cpuid) {
        cautions.push(
            "Zen 3 and later normally have ERMS and FSRM: firmware or a hypervisor hides what is missing here. The \
             same slow distances have been reported with and without the bits."
                .into(),
        );
    }
    if cpu.microarchitecture.as_deref().is_some_and(|name| name.starts_with("Zen 3")) {
        cautions.push(
            "Published reports on Zen 3 contradict each other: on whether distance 0 is slow, and on the upper edge. On \
             the one machine that this project measured, 0 is fast and the last slow distance is 0x01f."
                .into(),
        );
    }
    cautions
}
