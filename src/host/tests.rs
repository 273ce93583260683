//! Other machines, made of a folder and a CPUID reader.

use super::*;
use std::fs;
use tempfile::TempDir;

/// A 5950X: leaves 0, 1 and 7, with the hypervisor bit if asked for.
fn zen3(virtual_machine: bool) -> Dump {
    let ecx = if virtual_machine { "0xfed8320b" } else { "0x7ed8320b" };
    let text = format!(
        "0x00000000 0x00: eax=0x00000010 ebx=0x68747541 ecx=0x444d4163 edx=0x69746e65\n\
         0x00000001 0x00: eax=0x00a20f10 ebx=0x00200800 ecx={ecx} edx=0x178bfbff\n\
         0x00000007 0x00: eax=0x00000000 ebx=0x219c97a9 ecx=0x0040068c edx=0x00000010\n\
         0x40000000 0x00: eax=0x40000001 ebx=0x4b4d564b ecx=0x564b4d56 edx=0x0000004d\n"
    );
    Dump::read(text.as_bytes()).unwrap()
}

fn machine(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn gathered(root: &TempDir, dump: &Dump) -> Host {
    gather_from(&System::at(root.path()), |leaf, subleaf| dump.registers(leaf, subleaf), true)
}

#[test]
fn bare_metal_zen_3() {
    let root = machine(&[
        ("proc/cpuinfo", "microcode\t: 0xa201016\nflags\t: rep_good erms fsrm\n\nmicrocode\t: 0xa201025\n"),
        ("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=UUID=12 nosmt mitigations=off\n"),
        ("proc/sys/kernel/osrelease", "5.15.0-91-generic\n"),
        ("proc/sys/kernel/tainted", "4096\n"),
        ("sys/class/dmi/id/bios_version", "F37\n"),
        ("sys/class/dmi/id/bios_date", "02/14/2023\n"),
        ("sys/class/dmi/id/board_name", "X570\n"),
        ("sys/devices/system/cpu/vulnerabilities/retbleed", "Mitigation: untrained return thunk\n"),
        ("sys/devices/system/cpu/smt/active", "1\n"),
        ("sys/devices/system/cpu/cpufreq/boost", "1\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "schedutil\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("sys/devices/system/node/node0/cpulist", "0-31\n"),
        ("sys/devices/system/cpu/cpu0/cache/index2/level", "2\n"),
        ("sys/devices/system/cpu/cpu0/cache/index2/type", "Unified\n"),
        ("sys/devices/system/cpu/cpu0/cache/index2/size", "512K\n"),
    ]);
    let host = gathered(&root, &zen3(false));
    assert_eq!(host.cpu.microarchitecture.as_deref(), Some("Zen 3"));
    assert_eq!(host.cpu.microcode.unwrap(), ["0x0a201016", "0x0a201025"]);
    assert_eq!(host.cpu.features.fsrm.kernel, Some(true));
    assert_eq!(host.hypervisor, None);
    assert_eq!(host.firmware.unwrap().board.as_deref(), Some("X570"));
    assert_eq!(host.kernel.copy_routine.as_deref(), Some("copy_user_enhanced_fast_string: rep movsb (ERMS)"));
    assert_eq!(host.kernel.cmdline.unwrap(), ["nosmt", "mitigations=off"]);
    assert_eq!(host.kernel.tainted, Some(4096));
    assert_eq!(host.kernel.vulnerabilities.len(), 1);
    assert_eq!((host.smt, host.boost), (Some(true), Some(true)));
    assert_eq!(host.governor.as_deref(), Some("schedutil"));
    assert_eq!((host.memory.l2, host.memory.numa_node), (Some(512 << 10), Some(0)));
    assert_eq!(host.memory.thp.as_deref(), Some("madvise"));
    assert!(!host.unknown.contains_key("hypervisor"));
}

#[test]
fn a_hypervisor_invents_microcode() {
    let root = machine(&[("proc/cpuinfo", "microcode\t: 0x1000065\nflags\t: rep_good erms\n")]);
    let host = gathered(&root, &zen3(true));
    assert_eq!(host.hypervisor.as_deref(), Some("KVM"));
    assert_eq!(host.cpu.microcode, None);
    assert!(host.unknown["cpu.microcode"].contains("0x01000065"));
}

#[test]
fn without_proc_and_sys_cpuid_still_tells() {
    let host = gathered(&machine(&[]), &zen3(false));
    assert!(host.cpu.features.fsrm.cpuid);
    assert_eq!(host.cpu.features.fsrm.kernel, None);
    for field in [
        "cpu.features.erms.kernel",
        "cpu.microcode",
        "firmware",
        "kernel.release",
        "kernel.copy_routine",
        "kernel.cmdline",
        "kernel.tainted",
        "kernel.vulnerabilities",
        "memory.thp",
        "memory.l2",
        "memory.numa_node",
        "smt",
        "clocksource",
        "governor",
        "boost",
    ] {
        assert!(host.unknown.contains_key(field), "{field}");
    }
}

#[test]
fn clearcpuid_changes_what_the_kernel_copies_with() {
    let root = machine(&[
        ("proc/cpuinfo", "flags\t: rep_good erms\n"),
        ("proc/cmdline", "quiet clearcpuid=fsrm"),
        ("proc/sys/kernel/osrelease", "6.18.2"),
    ]);
    let host = gathered(&root, &zen3(false));
    assert!(host.cpu.features.fsrm.cpuid);
    assert_eq!(host.cpu.features.fsrm.kernel, Some(false));
    assert_eq!(host.kernel.cmdline.unwrap(), ["clearcpuid=fsrm"]);
    assert!(host.kernel.copy_routine.unwrap().starts_with("rep_movs_alternative: rep movsb"));
}

#[test]
fn pinning_notes_cpu_and_node() {
    let mut host = of_dump(&zen3(false));
    pin(&mut host, 0);
    assert_eq!(host.cpu_pinned, Some(0));
    assert_eq!(host.memory.numa_node.is_none(), host.unknown.contains_key("memory.numa_node"));
}
