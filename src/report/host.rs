//! What the machine is. Each fact is known, or unknown because of a reason that stands in
//! [`Host::unknown`] under the field's name (`cpu.microcode`, say) while the field itself is null.

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// A fact, or why it is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact<T> {
    /// The fact.
    Known(T),
    /// Why it is not known, for people.
    Unknown(String),
}

impl<T> Fact<T> {
    /// An unknown fact.
    pub fn because(reason: impl Into<String>) -> Self {
        Fact::Unknown(reason.into())
    }

    /// The same fact in another form.
    pub fn map<U>(self, form: impl FnOnce(T) -> U) -> Fact<U> {
        match self {
            Fact::Known(value) => Fact::Known(form(value)),
            Fact::Unknown(reason) => Fact::Unknown(reason),
        }
    }
}

/// The reasons of unknown facts by field name.
pub type Unknowns = BTreeMap<String, String>;

/// The machine that a report was recorded on, or the one a model stands for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// False for a real machine, else the model's name.
    #[serde(default)]
    pub simulated: Simulated,
    /// Where the model's figures come from; absent for a real machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_source: Option<String>,
    /// The processor.
    pub cpu: Cpu,
    /// The hypervisor's name; null on bare metal, or unknown.
    pub hypervisor: Option<String>,
    /// The firmware.
    pub firmware: Option<Firmware>,
    /// The kernel.
    pub kernel: Kernel,
    /// The C library.
    pub libc: Libc,
    /// Memory and caches.
    pub memory: Memory,
    /// The CPU that sampling was pinned to.
    pub cpu_pinned: Option<u32>,
    /// Whether CPUs share cores.
    pub smt: Option<bool>,
    /// The kernel's clock source.
    pub clocksource: Option<String>,
    /// The frequency governor.
    pub governor: Option<String>,
    /// Whether the clock may rise above nominal.
    pub boost: Option<bool>,
    /// Why fields that are null are not known, by dotted field name.
    #[serde(default)]
    pub unknown: Unknowns,
}

impl Host {
    /// Takes a fact into a field: its value, or null with the reason noted under `field`.
    pub fn take<T>(unknown: &mut Unknowns, field: &str, fact: Fact<T>) -> Option<T> {
        match fact {
            Fact::Known(value) => Some(value),
            Fact::Unknown(reason) => {
                unknown.insert(field.into(), reason);
                None
            }
        }
    }
}

/// False, or the name of the model that made the samples.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Simulated(Option<String>);

impl Simulated {
    /// A real machine.
    pub const REAL: Simulated = Simulated(None);

    /// A machine made of this model.
    pub fn by(model: impl Into<String>) -> Self {
        Simulated(Some(model.into()))
    }

    /// The model's name, or none for a real machine.
    pub fn model(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl Serialize for Simulated {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            None => serializer.serialize_bool(false),
            Some(model) => serializer.serialize_str(model),
        }
    }
}

impl<'de> Deserialize<'de> for Simulated {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FalseOrModel)
    }
}

/// Takes false or a name and nothing else: a derived enum would keep whatever else stands there.
struct FalseOrModel;

impl Visitor<'_> for FalseOrModel {
    type Value = Simulated;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("false or the name of a model")
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Simulated, E> {
        Ok(if flag { Simulated::by("unnamed model") } else { Simulated::REAL })
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Simulated, E> {
        Ok(Simulated::by(name))
    }
}

/// The processor as CPUID describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// CPUID leaf 0, such as `AuthenticAMD`.
    pub vendor: String,
    /// The brand string, trimmed.
    pub brand: Option<String>,
    /// Display family.
    pub family: u32,
    /// Display model.
    pub model: u32,
    /// Stepping.
    pub stepping: u32,
    /// Leaf 1 EAX as `0x00a10f11`.
    pub signature: String,
    /// The microarchitecture's name, where known.
    pub microarchitecture: Option<String>,
    /// Distinct microcode revisions over all CPUs, as `0x0a101148`.
    pub microcode: Option<Vec<String>>,
    /// Fast-string bits.
    pub features: Features,
}

impl Cpu {
    /// Display family and model of a signature (Intel SDM, AMD APM, CPUID leaf 1).
    pub fn family_and_model(signature: u32) -> (u32, u32) {
        let base = signature >> 8 & 0xf;
        let model = signature >> 4 & 0xf;
        let extended_model = signature >> 16 & 0xf;
        match base {
            0xf => (base + (signature >> 20 & 0xff), extended_model << 4 | model),
            0x6 => (base, extended_model << 4 | model),
            _ => (base, model),
        }
    }
}

/// The CPUID bits about fast string operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Features {
    /// Enhanced REP MOVSB/STOSB: leaf 7 EBX bit 9.
    pub erms: Feature,
    /// Fast short REP MOV: leaf 7 EDX bit 4.
    pub fsrm: Feature,
    /// Fast zero-length REP MOVSB: leaf 7.1 EAX bit 10 (Intel).
    pub fzrm: Feature,
    /// Fast short REP STOSB: leaf 7.1 EAX bit 11 (Intel), 0x80000021 EAX bit 10 (AMD).
    pub fsrs: Feature,
    /// Fast short REP CMPSB/SCASB: leaf 7.1 EAX bit 12 (Intel), 0x80000021 EAX bit 11 (AMD).
    pub fsrc: Feature,
}

impl Features {
    /// Name and bit, in the order people read them.
    pub fn named(&self) -> [(&'static str, Feature); 5] {
        [
            ("erms", self.erms),
            ("fsrm", self.fsrm),
            ("fzrm", self.fzrm),
            ("fsrs", self.fsrs),
            ("fsrc", self.fsrc),
        ]
    }
}

/// One bit, as the CPU and as the kernel tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Feature {
    /// What CPUID says to user space.
    pub cpuid: bool,
    /// Whether /proc/cpuinfo lists it; null where the kernel has no word for it or no list was to be had.
    pub kernel: Option<bool>,
}

/// The firmware, as far as it is readable without root and impersonal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Firmware {
    /// BIOS version.
    pub bios_version: Option<String>,
    /// BIOS date.
    pub bios_date: Option<String>,
    /// Board name.
    pub board: Option<String>,
}

/// The kernel and what it copies with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// `uname -r`.
    pub release: String,
    /// The routine that copies to and from user space, as release and flags predict it.
    pub copy_routine: Option<String>,
    /// The words of the command line that bear on copying, only those.
    pub cmdline: Option<Vec<String>>,
    /// The taint mask.
    pub tainted: Option<u64>,
    /// /sys/devices/system/cpu/vulnerabilities, name to text.
    #[serde(default)]
    pub vulnerabilities: BTreeMap<String, String>,
}

/// The C library and the thresholds in force in this process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Libc {
    /// `glibc`, `musl` or what it calls itself.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
    /// The package's version where dpkg or rpm knows it: distributions backport fixes.
    pub package: Option<String>,
    /// Above this many bytes memcpy uses `rep movsb`.
    pub rep_movsb_threshold: Option<u64>,
    /// From this many bytes on it no longer does.
    pub rep_movsb_stop_threshold: Option<u64>,
    /// From this many bytes on it uses non-temporal stores.
    pub non_temporal_threshold: Option<u64>,
    /// The GLIBC_TUNABLES words in force that bear on copying; empty if none.
    pub tunables: Option<Vec<String>>,
}

impl Libc {
    /// Whether the last word about glibc's view of the CPU, which is the one in force, takes ERMS away:
    /// memcpy then runs no `rep movsb`, whatever the thresholds.
    pub fn erms_switched_off(&self) -> bool {
        let words = self.tunables.iter().flatten();
        let hwcaps = words.filter_map(|word| word.strip_prefix("glibc.cpu.hwcaps=")).next_back();
        hwcaps.is_some_and(|caps| caps.split(',').any(|cap| cap.trim() == "-ERMS"))
    }
}

/// Memory and caches; sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// The kernel's page size.
    pub page_size: u64,
    /// The selected mode of transparent huge pages.
    pub thp: Option<String>,
    /// L1 data cache of one core.
    pub l1d: Option<u64>,
    /// L2 cache.
    pub l2: Option<u64>,
    /// L3 cache.
    pub l3: Option<u64>,
    /// The NUMA node of the pinned CPU.
    pub numa_node: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_is_false_or_a_name() {
        assert_eq!(serde_json::to_string(&Simulated::REAL).unwrap(), "false");
        assert_eq!(serde_json::to_string(&Simulated::by("zen4")).unwrap(), "\"zen4\"");
        assert_eq!(serde_json::from_str::<Simulated>("\"zen3\"").unwrap().model(), Some("zen3"));
        assert_eq!(serde_json::from_str::<Simulated>("false").unwrap(), Simulated::REAL);
        assert!(serde_json::from_str::<Simulated>("3").is_err());
    }

    #[test]
    fn an_unknown_fact_leaves_its_reason() {
        let mut unknown = Unknowns::new();
        let value: Option<u64> = Host::take(&mut unknown, "kernel.tainted", Fact::because("no /proc"));
        assert_eq!(value, None);
        assert_eq!(unknown["kernel.tainted"], "no /proc");
        assert_eq!(Host::take(&mut unknown, "x", Fact::Known(2)), Some(2));
        assert_eq!(unknown.len(), 1);
    }
}
