//! The host that a model stands for: its own, so that two reports of one model are comparable.

use super::MODELS;
use crate::report::{Cpu, Feature, Features, Host, Kernel, Libc, Memory, Simulated, Unknowns};
use std::collections::BTreeMap;

/// What differs between the models' hosts.
struct Identity {
    vendor: &'static str,
    brand: &'static str,
    signature: u32,
    microarchitecture: &'static str,
    has_fsrm: bool,
    l2: u64,
    l3: u64,
}

/// The host of a model; a replayed recording has that of no machine at all.
pub fn host_of(model: &str) -> Host {
    let base = model.trim_end_matches("+noisy");
    let id = identity(base);
    let masked = base == "zen4-masked";
    let has_fsrm = id.has_fsrm && !masked;
    let kernel_sees = has_fsrm && base != "zen4-cleared";
    let bit = Feature { cpuid: has_fsrm, kernel: Some(kernel_sees) };
    let thresholds = thresholds(base);
    let known = id.vendor != "unknown";
    let is_told = |field: &&str| thresholds.is_none() || !TOLD.contains(field);
    let copy_routine = match id.has_fsrm {
        true if kernel_sees => Some("rep movsb".into()),
        true => Some("rep_movs_alternative: rep movsq".into()),
        false => None,
    };
    let unmodelled = copy_routine.is_none().then_some("kernel.copy_routine");
    let unknown: Unknowns = unknown_fields(known)
        .into_iter()
        .filter(is_told)
        .chain(unmodelled)
        .map(|field| (field.into(), "not modelled".into()))
        .collect();
    let (family, number) = Cpu::family_and_model(id.signature);
    Host {
        simulated: Simulated::by(model),
        model_source: MODELS.iter().find(|(name, _)| *name == base).map(|(_, source)| (*source).into()),
        cpu: Cpu {
            vendor: id.vendor.into(),
            brand: known.then(|| id.brand.into()),
            family,
            model: number,
            stepping: id.signature & 0xf,
            signature: format!("0x{:08x}", id.signature),
            microarchitecture: known.then(|| id.microarchitecture.into()),
            microcode: None,
            features: Features { erms: bit, fsrm: bit, ..Features::default() },
        },
        hypervisor: None,
        firmware: None,
        kernel: Kernel {
            release: "simulated".into(),
            copy_routine,
            cmdline: None,
            tainted: None,
            vulnerabilities: BTreeMap::new(),
        },
        libc: Libc {
            name: "glibc".into(),
            version: thresholds.map(|(version, ..)| version.into()),
            rep_movsb_threshold: thresholds.map(|(_, from, _)| from),
            rep_movsb_stop_threshold: thresholds.map(|(.., stop)| stop),
            ..Libc::default()
        },
        memory: Memory {
            page_size: 4096,
            thp: None,
            l1d: known.then_some(32 << 10),
            l2: known.then_some(id.l2),
            l3: known.then_some(id.l3),
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

/// Fields that a model with thresholds tells.
const TOLD: [&str; 3] = ["libc.version", "libc.rep_movsb_threshold", "libc.rep_movsb_stop_threshold"];

/// glibc's version and the lengths between which it runs `rep movsb`, where the model says.
pub(super) fn thresholds(model: &str) -> Option<(&'static str, u64, u64)> {
    match model {
        "zen4-fixed-glibc" => Some(("2.41", 3 << 18, 3 << 18)),
        "zen4-short" | "zen3-epyc" | "zen3-contradiction" => Some(("2.36", 2112, 512 << 10)),
        name if name.starts_with("zen4") => Some(("2.36", 2112, 1 << 20)),
        _ => None,
    }
}

/// The CPU that each model is a model of.
fn identity(model: &str) -> Identity {
    let (vendor, brand, signature, microarchitecture, has_fsrm, l2, l3) = match model {
        "zen3" | "zen3-contradiction" => {
            ("AuthenticAMD", "AMD Ryzen 9 5950X", 0x00a2_0f10, "Zen 3", true, 512 << 10, 32 << 20)
        }
        "zen3-epyc" => {
            ("AuthenticAMD", "AMD EPYC 7003 series", 0x00a0_0f11, "Zen 3", true, 512 << 10, 32 << 20)
        }
        name if name == "zen4" || name.starts_with("zen4-") => {
            ("AuthenticAMD", "AMD EPYC 9004 series", 0x00a1_0f11, "Zen 4", true, 1 << 20, 32 << 20)
        }
        "zen5" => ("AuthenticAMD", "AMD Ryzen 9 9950X", 0x00b4_0f40, "Zen 5", true, 1 << 20, 32 << 20),
        "intel" => (
            "GenuineIntel",
            "11th Gen Intel Core i7-1165G7",
            0x0008_06c1,
            "Tiger Lake",
            true,
            1280 << 10,
            12 << 20,
        ),
        "clean" => ("AuthenticAMD", "AMD Ryzen 9 3950X", 0x0087_0f10, "Zen 2", false, 512 << 10, 16 << 20),
        _ => ("unknown", "", 0, "", false, 0, 0),
    };
    Identity { vendor, brand, signature, microarchitecture, has_fsrm, l2, l3 }
}

fn unknown_fields(cpu_known: bool) -> Vec<&'static str> {
    let always = [
        "cpu.microcode",
        "firmware",
        "kernel.cmdline",
        "kernel.tainted",
        "libc.version",
        "libc.package",
        "libc.rep_movsb_threshold",
        "libc.rep_movsb_stop_threshold",
        "libc.non_temporal_threshold",
        "libc.tunables",
        "memory.thp",
        "memory.numa_node",
        "cpu_pinned",
        "smt",
        "clocksource",
        "governor",
        "boost",
    ];
    let of_cpu = ["cpu.brand", "cpu.microarchitecture", "memory.l1d", "memory.l2", "memory.l3"];
    always.into_iter().chain(of_cpu.into_iter().filter(|_| !cpu_known)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_has_a_host_of_its_own() {
        let hosts: Vec<Host> = MODELS.iter().map(|(name, _)| host_of(name)).collect();
        for (host, (name, _)) in hosts.iter().zip(MODELS) {
            assert_eq!(host.simulated.model(), Some(name));
            assert!(host.cpu.brand.is_some() && host.cpu.family > 0);
        }
        assert_eq!((hosts[0].cpu.family, hosts[0].cpu.model), (0x19, 0x21));
        assert_eq!((hosts[1].cpu.family, hosts[1].cpu.model, hosts[1].cpu.stepping), (0x19, 0x11, 1));
        assert_eq!(host_of("zen4+noisy").cpu, host_of("zen4").cpu);
        assert_eq!(host_of("replay of recorded samples").cpu.vendor, "unknown");
    }
}
