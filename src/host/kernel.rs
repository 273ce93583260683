//! The kernel, its own view of the fast-string bits, and the routine it therefore copies user memory with.
//!
//! The kernel decides by its own flags, which `clearcpuid=` and hidden bits make differ from CPUID.

use super::cpuinfo::CpuInfo;
use super::system::System;
use crate::report::{Fact, Feature, Features, Host, Kernel, Unknowns};
use crate::sys::machine;
use std::collections::{BTreeMap, BTreeSet};

/// Major and minor number of a kernel release.
type Version = (u32, u32);

/// The release from which /proc/cpuinfo has the word `fsrm` (Linux f444a5ff95dc).
const FSRM_WORD: Version = (5, 6);

/// The release from which the copy is inlined with FSRM, else `rep_movs_alternative` (Linux 6.4,
/// arch/x86/lib/copy_user_64.S).
const ALTERNATIVE: Version = (6, 4);

/// The release from which that uses `rep movsq` where there is no ERMS (Linux 6.6, the same file).
const ALTERNATIVE_MOVSQ: Version = (6, 6);

/// Command-line words that bear on copying, on the speed of a CPU or on what runs beside; a word stands
/// for itself and for `word=…`, one that ends in `.` for every parameter of that module.
const RELEVANT: [&str; 57] = [
    "amd_prefcore",
    "amd_pstate",
    "clearcpuid",
    "clocksource",
    "cpufreq.",
    "cpuidle.",
    "cpuidle_haltpoll.",
    "default_hugepagesz",
    "dis_ucode_ldr",
    "gather_data_sampling",
    "haltpoll.",
    "hugepages",
    "hugepagesz",
    "idle",
    "indirect_target_selection",
    "init_on_alloc",
    "init_on_free",
    "intel_idle.",
    "intel_pstate",
    "isolcpus",
    "kpti",
    "l1tf",
    "maxcpus",
    "mds",
    "microcode",
    "microcode.",
    "mitigations",
    "mmio_stale_data",
    "nohz",
    "nohz_full",
    "nopcid",
    "nopti",
    "nosmap",
    "nosmt",
    "nospectre_v1",
    "nospectre_v2",
    "notsc",
    "noxsave",
    "nr_cpus",
    "numa_balancing",
    "page_alloc.",
    "page_poison",
    "preempt",
    "processor.",
    "pti",
    "rcu_nocbs",
    "retbleed",
    "setcpuid",
    "spec_rstack_overflow",
    "spec_store_bypass_disable",
    "spectre_bhi",
    "spectre_v2",
    "srbds",
    "transparent_hugepage",
    "tsa",
    "tsc",
    "tsx",
];

/// The kernel's facts; reasons of unknown ones go into `unknown`.
pub fn facts(system: &System, cpuinfo: &CpuInfo, unknown: &mut Unknowns) -> Kernel {
    let release = Host::take(unknown, "kernel.release", release(system)).unwrap_or_default();
    let routine = copy_routine(&release, &cpuinfo.flags);
    let cmdline = system.text("/proc/cmdline").map(|line| relevant(&line));
    let tainted = number(system, "/proc/sys/kernel/tainted");
    Kernel {
        copy_routine: Host::take(unknown, "kernel.copy_routine", routine),
        cmdline: Host::take(unknown, "kernel.cmdline", cmdline),
        tainted: Host::take(unknown, "kernel.tainted", tainted),
        vulnerabilities: Host::take(unknown, "kernel.vulnerabilities", vulnerabilities(system))
            .unwrap_or_default(),
        release,
    }
}

/// Fills in what the kernel says of each bit: true where its flags list the word, false where they do
/// not although this release knows the word, else null with the reason.
pub fn mark_features(features: &mut Features, release: &str, cpuinfo: &CpuInfo, unknown: &mut Unknowns) {
    let bits: [(&str, &mut Feature); 5] = [
        ("erms", &mut features.erms),
        ("fsrm", &mut features.fsrm),
        ("fzrm", &mut features.fzrm),
        ("fsrs", &mut features.fsrs),
        ("fsrc", &mut features.fsrc),
    ];
    for (word, bit) in bits {
        let says = says(word, release, &cpuinfo.flags);
        bit.kernel = Host::take(unknown, &format!("cpu.features.{word}.kernel"), says);
    }
}

fn says(word: &str, release: &str, flags: &Fact<BTreeSet<String>>) -> Fact<bool> {
    let flags = match flags {
        Fact::Known(flags) => flags,
        Fact::Unknown(reason) => return Fact::because(reason),
    };
    if flags.contains(word) {
        return Fact::Known(true);
    }
    match word {
        "erms" => Fact::Known(false),
        "fsrm" if version(release).is_some_and(|version| version >= FSRM_WORD) => Fact::Known(false),
        "fsrm" => Fact::because("kernels before 5.6 have no word for it in /proc/cpuinfo"),
        // Linux keeps FZRM, FSRS and FSRC out of /proc/cpuinfo (arch/x86/include/asm/cpufeatures.h).
        _ => Fact::because("Linux has no word for it in /proc/cpuinfo, so its absence tells nothing"),
    }
}

/// The routine that copies to and from user memory: which one a release has, and which the flags choose.
fn copy_routine(release: &str, flags: &Fact<BTreeSet<String>>) -> Fact<String> {
    let flags = match flags {
        Fact::Known(flags) => flags,
        Fact::Unknown(reason) => return Fact::because(format!("the kernel's flags are not known: {reason}")),
    };
    let Some(version) = version(release) else {
        return Fact::because(format!("the kernel release '{release}' begins with no version"));
    };
    let has = |word: &str| flags.contains(word);
    let routine = match version {
        v if v >= ALTERNATIVE && has("fsrm") => "inline rep movsb (FSRM)",
        v if v >= ALTERNATIVE && has("erms") => "rep_movs_alternative: rep movsb from 64 B on (ERMS)",
        v if v >= ALTERNATIVE_MOVSQ => "rep_movs_alternative: rep movsq from 64 B on (no ERMS)",
        v if v >= ALTERNATIVE => "rep_movs_alternative: unrolled moves (no ERMS)",
        _ if has("erms") => "copy_user_enhanced_fast_string: rep movsb (ERMS)",
        _ if has("rep_good") => "copy_user_generic_string: rep movsq (REP_GOOD)",
        _ => "copy_user_generic_unrolled: unrolled moves",
    };
    Fact::Known(routine.into())
}

fn release(system: &System) -> Fact<String> {
    match system.text("/proc/sys/kernel/osrelease") {
        Fact::Unknown(reason) if system.is_here() => {
            machine::kernel_release().map_or(Fact::Unknown(reason), Fact::Known)
        }
        fact => fact,
    }
}

/// The first two numbers of a release such as `6.18.44-fc` or `6.4-rc3`.
fn version(release: &str) -> Option<Version> {
    let (major, rest) = release.split_once('.')?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The words that bear on copying; every other word, names and addresses among them, stays out.
fn relevant(line: &str) -> Vec<String> {
    line.split_whitespace()
        // What follows belongs to init.
        .take_while(|word| *word != "--")
        .filter(|word| {
            let key = word.split_once('=').map_or(*word, |(key, _)| key);
            RELEVANT.iter().any(|known| match known.strip_suffix('.') {
                Some(module) => key.split_once('.').is_some_and(|(name, _)| name == module),
                None => key == *known,
            })
        })
        .map(Into::into)
        .collect()
}

fn vulnerabilities(system: &System) -> Fact<BTreeMap<String, String>> {
    const FOLDER: &str = "/sys/devices/system/cpu/vulnerabilities";
    system.names(FOLDER).map(|names| {
        names
            .into_iter()
            .filter_map(|name| system.text_if_any(&format!("{FOLDER}/{name}")).map(|text| (name, text)))
            .collect()
    })
}

fn number(system: &System, path: &str) -> Fact<u64> {
    match system.text(path) {
        Fact::Unknown(reason) => Fact::Unknown(reason),
        Fact::Known(text) => {
            text.parse().map_or_else(|_| Fact::because(format!("{path} holds no number")), Fact::Known)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(words: &str) -> Fact<BTreeSet<String>> {
        Fact::Known(words.split_whitespace().map(Into::into).collect())
    }

    fn routine(release: &str, words: &str) -> String {
        let Fact::Known(routine) = copy_routine(release, &flags(words)) else { panic!("{release}") };
        routine
    }

    #[test]
    fn release_and_flags_choose_the_routine() {
        let both = "rep_good erms fsrm";
        let erms = "rep_good erms";
        for (release, words, expected) in [
            ("5.15.0-91-generic", both, "copy_user_enhanced_fast_string: rep movsb"),
            ("5.15.0-91-generic", "rep_good", "copy_user_generic_string: rep movsq"),
            ("5.15.0-91-generic", "fpu", "copy_user_generic_unrolled: unrolled"),
            ("6.2.0", both, "copy_user_enhanced_fast_string: rep movsb"),
            ("6.4-rc1", both, "inline rep movsb"),
            ("6.4.0", erms, "rep_movs_alternative: rep movsb from 64 B"),
            ("6.5.13", "rep_good", "rep_movs_alternative: unrolled"),
            ("6.6.1", "rep_good", "rep_movs_alternative: rep movsq from 64 B"),
            ("6.18.44-fc", both, "inline rep movsb"),
            ("6.18.44-fc", erms, "rep_movs_alternative: rep movsb from 64 B"),
            ("6.18.44-fc", "rep_good", "rep_movs_alternative: rep movsq from 64 B"),
            ("7.0.0", both, "inline rep movsb"),
        ] {
            assert!(routine(release, words).starts_with(expected), "{release} {words}");
        }
        assert!(matches!(copy_routine("next", &flags("erms")), Fact::Unknown(_)));
        assert!(matches!(copy_routine("6.6.0", &Fact::because("no /proc")), Fact::Unknown(_)));
    }

    #[test]
    fn absence_of_a_word_tells_only_where_the_kernel_knows_it() {
        let none = flags("fpu");
        assert_eq!(says("erms", "4.19.0", &none), Fact::Known(false));
        assert_eq!(says("fsrm", "6.1.0", &none), Fact::Known(false));
        assert!(matches!(says("fsrm", "5.4.0", &none), Fact::Unknown(_)));
        assert!(matches!(says("fsrs", "6.18.0", &none), Fact::Unknown(_)));
        assert_eq!(says("fsrs", "6.18.0", &flags("fsrs")), Fact::Known(true));
    }

    #[test]
    fn nothing_personal_leaves_the_command_line() {
        let line = "BOOT_IMAGE=/vmlinuz root=UUID=1234-5678 ip=10.0.0.7 quiet clearcpuid=fsrm,erms \
                    transparent_hugepage=never processor.max_cstate=1 nosmt hostname=me -- mitigations=off";
        assert_eq!(
            relevant(line),
            ["clearcpuid=fsrm,erms", "transparent_hugepage=never", "processor.max_cstate=1", "nosmt"]
        );
    }
}
