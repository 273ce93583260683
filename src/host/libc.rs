//! The C library in this process: its version, its package, and the lengths between which its memcpy
//! uses `rep movsb`.
//!
//! Distributions backport fixes, so the thresholds in force count, not the version. The dynamic loader
//! of this very process is asked for them (`ld.so --list-diagnostics`, glibc 2.33 and later), in this
//! environment, so that GLIBC_TUNABLES have had their effect. Nothing but the thresholds is kept.

use super::command::ask;
use super::system::System;
use crate::report::{Fact, Host, Libc, Unknowns};
use crate::sys::machine;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How long the loader and rpm may take; both answer within milliseconds.
const PATIENCE: Duration = Duration::from_millis(500);

/// Where the x86-64 ABI puts glibc's loader.
const USUAL_LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// The loader's own base address in the auxiliary vector (elf.h, AT_BASE).
const AT_BASE: u64 = 7;

/// Thresholds in bytes, or why they are not known.
#[derive(Debug, Clone, PartialEq)]
struct Thresholds {
    rep_movsb: Fact<u64>,
    rep_movsb_stop: Fact<u64>,
    non_temporal: Fact<u64>,
}

/// The facts; the package is looked up only if asked for.
pub fn facts(system: &System, with_package: bool, unknown: &mut Unknowns) -> Libc {
    let version = machine::glibc_version();
    if version.is_none() {
        return another_libc(unknown);
    }
    let thresholds = thresholds(Path::new(&loader()), &[]);
    let package = if with_package { package(system) } else { Fact::because("not looked up") };
    Libc {
        name: "glibc".into(),
        version,
        package: Host::take(unknown, "libc.package", package),
        rep_movsb_threshold: Host::take(unknown, "libc.rep_movsb_threshold", thresholds.rep_movsb),
        rep_movsb_stop_threshold: Host::take(
            unknown,
            "libc.rep_movsb_stop_threshold",
            thresholds.rep_movsb_stop,
        ),
        non_temporal_threshold: Host::take(unknown, "libc.non_temporal_threshold", thresholds.non_temporal),
        tunables: Some(tunables(&std::env::var("GLIBC_TUNABLES").unwrap_or_default())),
    }
}

/// A build for another C library, where there are no thresholds to ask for.
fn another_libc(unknown: &mut Unknowns) -> Libc {
    let name = crate::sys::machine::C_LIBRARY;
    for field in [
        "version",
        "package",
        "rep_movsb_threshold",
        "rep_movsb_stop_threshold",
        "non_temporal_threshold",
        "tunables",
    ] {
        unknown.insert(
            format!("libc.{field}"),
            format!("this build of fsprobe is linked with {name}; only glibc tells it, and programs that use glibc's memcpy may differ"),
        );
    }
    Libc { name: name.into(), ..Libc::default() }
}

/// The lengths above which and below which memcpy copies with `rep movsb`, in programs that this loader
/// starts with these variables added to the environment. The second is not above the first where it never does.
///
/// # Errors
/// The reason, where the loader does not tell.
pub fn rep_movsb_window(loader: &Path, environment: &[(OsString, OsString)]) -> Result<(u64, u64), String> {
    let told = thresholds(loader, environment);
    match (told.rep_movsb, told.rep_movsb_stop, told.non_temporal) {
        (Fact::Unknown(why), _, _) => Err(why),
        (Fact::Known(from), Fact::Known(to), _) | (Fact::Known(from), _, Fact::Known(to)) => Ok((from, to)),
        (Fact::Known(from), _, _) => Ok((from, u64::MAX)),
    }
}

/// Whether programs that this process's loader starts with these words of GLIBC_TUNABLES use ERMS: glibc counts it among
/// the CPU's active features, from which its memcpy is chosen (sysdeps/x86/cpu-features.c). None where the loader does
/// not tell.
pub fn uses_erms(tunables: &str) -> Option<bool> {
    let mut command = Command::new(loader());
    command.arg("--list-diagnostics").env("GLIBC_TUNABLES", tunables);
    erms_in(&ask(&mut command, PATIENCE).ok()?)
}

/// CPUID leaf 7, EBX bit 9, as the line `x86.cpu_features.features[0x1].active[0x1]=0xf1af0b38` has it.
fn erms_in(diagnostics: &str) -> Option<bool> {
    let active =
        |line: &str| line.strip_prefix("x86.cpu_features.features[0x1].active[0x1]=").and_then(hexadecimal);
    diagnostics.lines().find_map(active).map(|bits| bits >> 9 & 1 == 1)
}

/// Asks the loader's diagnostics, else, for what they do not tell, its list of tunables.
fn thresholds(loader: &Path, environment: &[(OsString, OsString)]) -> Thresholds {
    let list = |option: &str| {
        let mut command = Command::new(loader);
        ask(command.arg(option).envs(environment.iter().cloned()), PATIENCE)
    };
    let diagnostics = list("--list-diagnostics");
    let found = from_diagnostics(&diagnostics);
    if matches!((&found.rep_movsb, &found.non_temporal), (Fact::Known(_), Fact::Known(_))) {
        return found;
    }
    match list("--list-tunables") {
        Err(_) => found,
        Ok(text) => Thresholds {
            rep_movsb: tunable(&text, "glibc.cpu.x86_rep_movsb_threshold")
                .map_or(found.rep_movsb, Fact::Known),
            non_temporal: tunable(&text, "glibc.cpu.x86_non_temporal_threshold")
                .map_or(found.non_temporal, Fact::Known),
            ..found
        },
    }
}

/// Lines `x86.cpu_features.rep_movsb_threshold=0x840`.
fn from_diagnostics(answer: &Result<String, String>) -> Thresholds {
    let find = |key: &str| match answer {
        Err(why) => Fact::because(format!("the dynamic loader asked with --list-diagnostics {why}")),
        Ok(text) => text
            .lines()
            .filter_map(|line| line.strip_prefix("x86.cpu_features.")?.split_once('='))
            .find(|(name, _)| *name == key)
            .and_then(|(_, value)| hexadecimal(value))
            .map_or_else(|| Fact::because("the dynamic loader's diagnostics do not list it"), Fact::Known),
    };
    Thresholds {
        rep_movsb: find("rep_movsb_threshold"),
        rep_movsb_stop: find("rep_movsb_stop_threshold"),
        non_temporal: find("non_temporal_threshold"),
    }
}

/// Lines `glibc.cpu.x86_rep_movsb_threshold: 0x840 (min: 0x1, max: 0xffffffffffffffff)`.
fn tunable(text: &str, name: &str) -> Option<u64> {
    let (_, value) = text.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| *key == name)?;
    hexadecimal(value.split_whitespace().next()?)
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

/// The loader of this process: the file mapped at the base that the kernel told, else the usual one.
fn loader() -> String {
    let here = System::here();
    let base = std::fs::read("/proc/self/auxv").ok().and_then(|auxv| base_of_loader(&auxv));
    let maps = here.text_if_any("/proc/self/maps");
    base.zip(maps).and_then(|(base, maps)| mapped_at(&maps, base)).unwrap_or_else(|| USUAL_LOADER.into())
}

/// AT_BASE in an auxiliary vector of pairs of 64-bit words; none in a static program, where it is zero.
fn base_of_loader(auxv: &[u8]) -> Option<u64> {
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).ok();
    auxv.chunks_exact(16)
        .find(|pair| word(&pair[..8]) == Some(AT_BASE))
        .and_then(|pair| word(&pair[8..]))
        .filter(|base| *base != 0)
}

/// The path of the mapping that starts at `base` in the text of /proc/self/maps.
fn mapped_at(maps: &str, base: u64) -> Option<String> {
    let start = format!("{base:x}-");
    let line = maps.lines().find(|line| line.trim_start_matches('0').starts_with(&start))?;
    line.find('/').map(|at| line[at..].to_owned()).filter(|path| !path.ends_with(" (deleted)"))
}

/// Names of glibc 2.32 to 2.41's tunables that bear on copying or on where buffers land.
fn bears(name: &str) -> bool {
    const CPU: [&str; 9] = [
        "hwcaps",
        "x86_data_cache_size",
        "x86_shared_cache_size",
        "x86_non_temporal_threshold",
        "x86_rep_movsb_threshold",
        "x86_rep_stosb_threshold",
        "x86_memset_non_temporal_threshold",
        "prefer_map_32bit_exec",
        "plt_rewrite",
    ];
    const MALLOC: [&str; 8] = [
        "mmap_threshold",
        "mmap_max",
        "top_pad",
        "trim_threshold",
        "arena_max",
        "tcache_count",
        "tcache_max",
        "hugetlb",
    ];
    name.strip_prefix("glibc.cpu.").is_some_and(|n| CPU.contains(&n))
        || name.strip_prefix("glibc.malloc.").is_some_and(|n| MALLOC.contains(&n))
}

/// Whether a value is a number or a list of CPU features, and not somebody's text: reports are public.
fn impersonal(value: &str) -> bool {
    let number = |v: &str| {
        let digits = v.strip_prefix("0x").unwrap_or(v);
        !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit())
    };
    let feature = |v: &str| {
        let name = v.trim_start_matches(['-', '+']);
        name.len() <= 24 && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    number(value) || value.split(',').all(feature)
}

/// The words of GLIBC_TUNABLES that bear on copying or on where buffers land.
fn tunables(variable: &str) -> Vec<String> {
    variable
        .split(':')
        .filter(|word| word.split_once('=').is_some_and(|(name, value)| bears(name) && impersonal(value)))
        .map(Into::into)
        .collect()
}

/// The C library's package version as dpkg's status file, or else rpm, tells it.
fn package(system: &System) -> Fact<String> {
    if let Some(status) = system.text_if_any("/var/lib/dpkg/status") {
        return dpkg_version(&status)
            .map_or_else(|| Fact::because("dpkg has no libc6 for amd64"), Fact::Known);
    }
    let has_rpm = ["/var/lib/rpm", "/usr/lib/sysimage/rpm"]
        .iter()
        .any(|folder| matches!(system.names(folder), Fact::Known(names) if !names.is_empty()));
    if !has_rpm || !system.is_here() {
        return Fact::because("neither dpkg nor rpm has a database here");
    }
    let mut rpm = Command::new("rpm");
    rpm.args(["-q", "--qf", "%{VERSION}-%{RELEASE}\\n", "glibc"]);
    match ask(&mut rpm, PATIENCE) {
        Err(why) => Fact::because(format!("rpm {why}")),
        Ok(text) => match text.lines().next() {
            Some(version) if !version.is_empty() => Fact::Known(version.into()),
            _ => Fact::because("rpm knows no glibc"),
        },
    }
}

/// The version of the installed libc6 for amd64 in a dpkg status file.
fn dpkg_version(status: &str) -> Option<String> {
    status.split("\n\n").find_map(|stanza| {
        let stanza = stanza.trim_start();
        let rest = stanza.strip_prefix("Package: libc6\n")?;
        let field = |name: &str| rest.lines().find_map(|line| line.strip_prefix(name));
        let installed = field("Status: ").is_some_and(|s| s.ends_with(" installed"));
        (installed && field("Architecture: ") == Some("amd64")).then(|| field("Version: ").map(Into::into))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_of_the_diagnostics() {
        let text = "uname.nodename=\"private\"\n\
                    x86.cpu_features.non_temporal_threshold=0xb580000\n\
                    x86.cpu_features.rep_movsb_threshold=0x840\n";
        let found = from_diagnostics(&Ok(text.into()));
        assert_eq!(found.rep_movsb, Fact::Known(2112));
        assert_eq!(found.non_temporal, Fact::Known(0xb58_0000));
        assert!(matches!(found.rep_movsb_stop, Fact::Unknown(_)));
        let failed = from_diagnostics(&Err("failed".into()));
        assert!(
            matches!(failed.rep_movsb, Fact::Unknown(reason) if reason.contains("--list-diagnostics failed"))
        );
    }

    #[test]
    fn erms_of_the_diagnostics() {
        let line = |bits: &str| format!("x=1\nx86.cpu_features.features[0x1].active[0x1]={bits}\n");
        assert_eq!(erms_in(&line("0xf1af0b38")), Some(true));
        assert_eq!(erms_in(&line("0xf1af0938")), Some(false));
        assert_eq!((erms_in(&line("?")), erms_in("")), (None, None));
    }

    #[test]
    fn thresholds_of_the_tunables() {
        let text = "glibc.malloc.check: 0 (min: 0, max: 3)\n\
                    glibc.cpu.x86_rep_movsb_threshold: 0x840 (min: 0x200, max: 0xffffffffffffffff)\n";
        assert_eq!(tunable(text, "glibc.cpu.x86_rep_movsb_threshold"), Some(2112));
        assert_eq!(tunable(text, "glibc.cpu.x86_non_temporal_threshold"), None);
    }

    #[test]
    fn only_tunables_of_copies_and_buffers_are_kept() {
        assert_eq!(
            tunables("glibc.cpu.hwcaps=-ERMS:glibc.rtld.nns=2:glibc.malloc.arena_max=1:/home/me"),
            ["glibc.cpu.hwcaps=-ERMS", "glibc.malloc.arena_max=1"]
        );
        assert!(tunables("").is_empty());
    }

    #[test]
    fn the_loader_is_the_file_mapped_at_its_base() {
        let mut auxv = Vec::new();
        for word in [6u64, 4096, AT_BASE, 0x7fc6_ce3b_5000, 0, 0] {
            auxv.extend(word.to_ne_bytes());
        }
        let base = base_of_loader(&auxv).unwrap();
        let maps = "55d0aa000000-55d0aa010000 r--p 00000000 08:01 99 /usr/bin/fsprobe\n\
                    7fc6ce3b5000-7fc6ce3b6000 r--p 00000000 08:01 12 /usr/lib/ld-linux-x86-64.so.2\n";
        assert_eq!(mapped_at(maps, base).as_deref(), Some("/usr/lib/ld-linux-x86-64.so.2"));
        assert_eq!(mapped_at(maps, 1), None);
        assert_eq!(base_of_loader(&[7, 0, 0]), None);
    }

    #[test]
    fn dpkg_knows_the_revision() {
        let status = "Package: libc6\nStatus: install ok installed\nArchitecture: i386\nVersion: 1\n\n\
                      Package: libc6-dev\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2\n\n\
                      Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.36-9+deb12u14\n";
        assert_eq!(dpkg_version(status).as_deref(), Some("2.36-9+deb12u14"));
        assert_eq!(
            dpkg_version("Package: libc6\nStatus: deinstall ok config-files\nArchitecture: amd64\n"),
            None
        );
    }

    #[test]
    fn a_system_without_databases_says_so() {
        let root = tempfile::tempdir().unwrap();
        assert!(matches!(package(&System::at(root.path())), Fact::Unknown(_)));
    }
}
