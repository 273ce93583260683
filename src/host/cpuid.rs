//! CPUID decoded through raw-cpuid's reader: this CPU's, or one replayed from a dump.
//!
//! Family, caches and the fast-string bits are read from the registers themselves: raw-cpuid 11.6 has no
//! FSRM accessor (what it prints as FSRM is FSRS), and its sums overflow on nonsense that a dump may hold.

use super::microarchitecture::{self, Identity};
use crate::report::{Cpu, Feature, Features, Host, Unknowns};
use raw_cpuid::{CpuId, CpuIdReader, CpuIdResult, Hypervisor};

/// Leaf 1: signature and basic features.
const FEATURES: u32 = 0x1;
/// Leaf 7: extended features.
pub(super) const EXTENDED_FEATURES: u32 = 0x7;
/// Where the hypervisor names itself.
const HYPERVISOR: u32 = 0x4000_0000;
/// The highest extended leaf.
const EXTENDED: u32 = 0x8000_0000;
/// AMD's second leaf of extended features.
pub(super) const AMD_FEATURES: u32 = 0x8000_0021;
/// Cache parameters on Intel.
const CACHES_INTEL: u32 = 0x4;
/// Cache parameters, of the same form, on AMD.
const CACHES_AMD: u32 = 0x8000_001d;
/// CPUs list three or four caches; a list that never ends is nonsense.
const CACHES_AT_MOST: u32 = 16;

/// What CPUID tells.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The processor; microcode and the kernel's view are not CPUID's to tell and stay null.
    pub cpu: Cpu,
    /// The hypervisor's name; none on bare metal.
    pub hypervisor: Option<String>,
    /// Cache sizes.
    pub caches: Caches,
}

/// Cache sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Caches {
    /// L1 data cache.
    pub l1d: Option<u64>,
    /// L2 cache.
    pub l2: Option<u64>,
    /// L3 cache, as far as this CPU shares in it.
    pub l3: Option<u64>,
}

impl Caches {
    /// Notes the size of the data or unified cache of a level.
    pub(super) fn set(&mut self, level: u32, size: u64) {
        match level {
            1 => self.l1d = Some(size),
            2 => self.l2 = Some(size),
            3 => self.l3 = Some(size),
            _ => {}
        }
    }
}

/// Decodes what a reader gives; reasons of unknown facts go into `unknown`.
pub fn decode<R: CpuIdReader>(read: R, unknown: &mut Unknowns) -> Decoded {
    let leaves = Leaves::new(read.clone());
    let id = CpuId::with_cpuid_reader(read);
    let vendor = id.get_vendor_info().map_or_else(String::new, |v| v.as_str().to_owned());
    // the reader's own words for bytes that are no text
    const UNDECODABLE: &str = "Invalid Processor Brand String";
    let told = id.get_processor_brand_string().map(|b| b.as_str().to_owned());
    let brand = told.clone().filter(|b| !b.is_empty() && b != UNDECODABLE);
    if brand.is_none() {
        let why = match told.as_deref() {
            Some(UNDECODABLE) => "CPUID's brand string is no text",
            _ => "CPUID gives no brand string",
        };
        unknown.insert("cpu.brand".into(), why.into());
    }
    let basic = leaves.get(FEATURES, 0);
    let virtual_machine = basic.ecx & (1 << 31) != 0;
    let (family, model) = Cpu::family_and_model(basic.eax);
    let extended = leaves.get(EXTENDED_FEATURES, 0);
    let features = features(&leaves);
    let name = microarchitecture::name(&Identity {
        vendor: &vendor,
        family,
        model,
        fast_strings: features.erms.cpuid || features.fsrm.cpuid,
        avx512: extended.ebx & (1 << 16) != 0,
        amx: extended.edx & (1 << 24) != 0,
    });
    Decoded {
        cpu: Cpu {
            brand,
            family,
            model,
            stepping: basic.eax & 0xf,
            signature: format!("{:#010x}", basic.eax),
            microarchitecture: Host::take(unknown, "cpu.microarchitecture", name),
            microcode: None,
            features,
            vendor,
        },
        hypervisor: virtual_machine.then(|| hypervisor(&id, &leaves)),
        caches: caches(&leaves),
    }
}

/// The fast-string bits. Intel and AMD tell FSRS and FSRC in different places; a bit in either counts.
fn features<R: CpuIdReader>(leaves: &Leaves<R>) -> Features {
    let seven = leaves.get(EXTENDED_FEATURES, 0);
    let seven_one = if seven.eax >= 1 { leaves.get(EXTENDED_FEATURES, 1).eax } else { 0 };
    let amd = leaves.get(AMD_FEATURES, 0).eax;
    let bit = |register: u32, bit: u32| register & (1 << bit) != 0;
    let feature = |cpuid: bool| Feature { cpuid, kernel: None };
    Features {
        erms: feature(bit(seven.ebx, 9)),
        fsrm: feature(bit(seven.edx, 4)),
        fzrm: feature(bit(seven_one, 10)),
        fsrs: feature(bit(seven_one, 11) || bit(amd, 10)),
        fsrc: feature(bit(seven_one, 12) || bit(amd, 11)),
    }
}

/// The hypervisor's name for people; what names itself otherwise is given as it does.
fn hypervisor<R: CpuIdReader>(id: &CpuId<R>, leaves: &Leaves<R>) -> String {
    let known = match id.get_hypervisor_info().map(|info| info.identify()) {
        Some(Hypervisor::Xen) => "Xen",
        Some(Hypervisor::VMware) => "VMware",
        Some(Hypervisor::HyperV) => "Microsoft Hyper-V",
        Some(Hypervisor::KVM) => "KVM",
        Some(Hypervisor::QEMU) => "QEMU (TCG)",
        Some(Hypervisor::Bhyve) => "bhyve",
        Some(Hypervisor::QNX) => "QNX",
        Some(Hypervisor::ACRN) => "ACRN",
        Some(Hypervisor::Unknown(..)) | None => {
            let own = leaves.read.cpuid1(HYPERVISOR);
            let bytes: Vec<u8> = [own.ebx, own.ecx, own.edx].iter().flat_map(|r| r.to_le_bytes()).collect();
            let name = String::from_utf8_lossy(&bytes).trim_matches(['\0', ' ']).to_owned();
            return if name.is_empty() { "unnamed hypervisor".into() } else { name };
        }
    };
    known.into()
}

/// Sizes of the data and unified caches.
fn caches<R: CpuIdReader>(leaves: &Leaves<R>) -> Caches {
    let leaf = if leaves.has(CACHES_AMD) { CACHES_AMD } else { CACHES_INTEL };
    let mut caches = Caches::default();
    for subleaf in 0..CACHES_AT_MOST {
        let CpuIdResult { eax, ebx, ecx, .. } = leaves.get(leaf, subleaf);
        let parts = [ebx & 0xfff, ebx >> 12 & 0x3ff, ebx >> 22, ecx].map(|part| u64::from(part) + 1);
        match eax & 0x1f {
            1 | 3 => caches.set(eax >> 5 & 7, parts.into_iter().fold(1, u64::saturating_mul)),
            2 => {}
            _ => break,
        }
    }
    caches
}

/// Leaves up to the highest that the CPU has: beyond it CPUs answer with another leaf's registers.
struct Leaves<R> {
    read: R,
    highest: u32,
    highest_extended: u32,
}

impl<R: CpuIdReader> Leaves<R> {
    fn new(read: R) -> Self {
        Leaves { highest: read.cpuid1(0).eax, highest_extended: read.cpuid1(EXTENDED).eax, read }
    }

    fn has(&self, leaf: u32) -> bool {
        leaf <= if leaf < EXTENDED { self.highest } else { self.highest_extended }
    }

    /// A leaf's registers, all zero where the CPU does not have it.
    fn get(&self, leaf: u32, subleaf: u32) -> CpuIdResult {
        if self.has(leaf) {
            self.read.cpuid2(leaf, subleaf)
        } else {
            CpuIdResult { eax: 0, ebx: 0, ecx: 0, edx: 0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn family_and_model_of_signatures() {
        assert_eq!(Cpu::family_and_model(0x00a1_0f11), (0x19, 0x11));
        assert_eq!(Cpu::family_and_model(0x0087_0f10), (0x17, 0x71));
        assert_eq!(Cpu::family_and_model(0x00b4_0f40), (0x1a, 0x44));
        assert_eq!(Cpu::family_and_model(0x0008_06f8), (0x6, 0x8f));
        assert_eq!(Cpu::family_and_model(u32::MAX), (0x10e, 0xff));
    }

    #[test]
    fn nonsense_registers_do_no_harm() {
        let mut unknown = Unknowns::new();
        for value in [0, 1, 0x7fff_ffff, u32::MAX] {
            let all = move |_, _| CpuIdResult { eax: value, ebx: value, ecx: value, edx: value };
            decode(all, &mut unknown);
        }
    }

    #[test]
    fn a_hypervisor_names_itself() {
        let named = |name: &'static [u8; 12]| {
            let register = move |i: usize| u32::from_le_bytes(name[i..i + 4].try_into().unwrap());
            let read = move |leaf: u32, _| match leaf {
                0 | EXTENDED => CpuIdResult { eax: leaf + 1, ebx: 0, ecx: 0, edx: 0 },
                1 => CpuIdResult { eax: 0, ebx: 0, ecx: 1 << 31, edx: 0 },
                HYPERVISOR => {
                    CpuIdResult { eax: HYPERVISOR, ebx: register(0), ecx: register(4), edx: register(8) }
                }
                _ => CpuIdResult { eax: 0, ebx: 0, ecx: 0, edx: 0 },
            };
            decode(read, &mut Unknowns::new()).hypervisor.unwrap()
        };
        assert_eq!(named(b"KVMKVMKVM\0\0\0"), "KVM");
        assert_eq!(named(b"Microsoft Hv"), "Microsoft Hyper-V");
        assert_eq!(named(b"VMwareVMware"), "VMware");
        assert_eq!(named(b"XenVMMXenVMM"), "Xen");
        assert_eq!(named(b"NewOneNewOne"), "NewOneNewOne");
        assert_eq!(named(&[0; 12]), "unnamed hypervisor");
    }

    #[test]
    fn this_cpu_decodes() {
        let decoded = decode(raw_cpuid::CpuIdReaderNative, &mut Unknowns::new());
        assert_eq!(decoded.cpu.vendor.len(), 12);
        assert_ne!(decoded.cpu.signature, "0x00000000");
    }
}
