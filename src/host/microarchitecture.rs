//! The microarchitecture's name by vendor, family and model, where the rest of CPUID does not contradict.
//!
//! Hypervisors may show a model of their own choice over another CPU's features; a name that the
//! features rule out is not given.

use crate::report::Fact;
use std::ops::RangeInclusive;

/// What decides the name.
#[derive(Debug, Clone, Copy)]
pub struct Identity<'a> {
    /// CPUID's vendor string.
    pub vendor: &'a str,
    /// Display family.
    pub family: u32,
    /// Display model.
    pub model: u32,
    /// Whether CPUID shows ERMS or FSRM.
    pub fast_strings: bool,
    /// Whether CPUID shows AVX512F.
    pub avx512: bool,
    /// Whether CPUID shows AMX tiles.
    pub amx: bool,
}

/// What a microarchitecture may show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Has {
    /// Neither ERMS, FSRM nor AVX-512.
    NoFastStrings,
    /// No AVX-512.
    NoAvx512,
    /// AVX-512, or it is fused off in some products.
    Avx512,
    /// AMX as well.
    Amx,
}

/// Families and models of one microarchitecture.
type Row = (u32, RangeInclusive<u32>, &'static str, Has);

/// AMD: Linux arch/x86/kernel/cpu/amd.c (bsp_init_amd); Zen+ and Zen 3+ are told apart by the models of
/// Pinnacle Ridge and Picasso, and of Rembrandt.
const AMD: [Row; 23] = [
    (0x17, 0x08..=0x08, "Zen+", Has::NoFastStrings),
    (0x17, 0x18..=0x18, "Zen+", Has::NoFastStrings),
    (0x17, 0x00..=0x2f, "Zen", Has::NoFastStrings),
    (0x17, 0x50..=0x5f, "Zen", Has::NoFastStrings),
    (0x17, 0x30..=0x4f, "Zen 2", Has::NoFastStrings),
    (0x17, 0x60..=0x7f, "Zen 2", Has::NoFastStrings),
    (0x17, 0x90..=0x91, "Zen 2", Has::NoFastStrings),
    (0x17, 0xa0..=0xaf, "Zen 2", Has::NoFastStrings),
    (0x19, 0x00..=0x0f, "Zen 3", Has::NoAvx512),
    (0x19, 0x40..=0x4f, "Zen 3+", Has::NoAvx512),
    (0x19, 0x20..=0x5f, "Zen 3", Has::NoAvx512),
    (0x19, 0x10..=0x1f, "Zen 4", Has::Avx512),
    (0x19, 0x60..=0xaf, "Zen 4", Has::Avx512),
    (0x1a, 0x00..=0x2f, "Zen 5", Has::Avx512),
    (0x1a, 0x40..=0x4f, "Zen 5", Has::Avx512),
    (0x1a, 0x60..=0x7f, "Zen 5", Has::Avx512),
    (0x1a, 0x50..=0x5f, "Zen 6", Has::Avx512),
    (0x1a, 0x90..=0xaf, "Zen 6", Has::Avx512),
    (0x1a, 0xc0..=0xcf, "Zen 6", Has::Avx512),
    (0x10, 0x00..=0xff, "K10", Has::NoFastStrings),
    (0x15, 0x00..=0xff, "Bulldozer family", Has::NoFastStrings),
    (0x14, 0x00..=0xff, "Bobcat", Has::NoFastStrings),
    (0x16, 0x00..=0xff, "Jaguar", Has::NoFastStrings),
];

/// Hygon: licensed Zen; later models are not described publicly.
const HYGON: [Row; 1] = [(0x18, 0x00..=0x03, "Dhyana (Zen)", Has::NoFastStrings)];

/// Intel: Linux arch/x86/include/asm/intel-family.h.
const INTEL: [Row; 40] = [
    (6, 0x2a..=0x2a, "Sandy Bridge", Has::NoAvx512),
    (6, 0x2d..=0x2d, "Sandy Bridge", Has::NoAvx512),
    (6, 0x3a..=0x3a, "Ivy Bridge", Has::NoAvx512),
    (6, 0x3e..=0x3e, "Ivy Bridge", Has::NoAvx512),
    (6, 0x3c..=0x3c, "Haswell", Has::NoAvx512),
    (6, 0x3f..=0x3f, "Haswell", Has::NoAvx512),
    (6, 0x45..=0x46, "Haswell", Has::NoAvx512),
    (6, 0x3d..=0x3d, "Broadwell", Has::NoAvx512),
    (6, 0x47..=0x47, "Broadwell", Has::NoAvx512),
    (6, 0x4f..=0x4f, "Broadwell", Has::NoAvx512),
    (6, 0x56..=0x56, "Broadwell", Has::NoAvx512),
    (6, 0x4e..=0x4e, "Skylake", Has::NoAvx512),
    (6, 0x5e..=0x5e, "Skylake", Has::NoAvx512),
    (6, 0x55..=0x55, "Skylake server", Has::Avx512),
    (6, 0x8e..=0x8e, "Kaby Lake", Has::NoAvx512),
    (6, 0x9e..=0x9e, "Kaby Lake", Has::NoAvx512),
    (6, 0xa5..=0xa6, "Comet Lake", Has::NoAvx512),
    (6, 0x66..=0x66, "Cannon Lake", Has::Avx512),
    (6, 0x6a..=0x6a, "Ice Lake server", Has::Avx512),
    (6, 0x6c..=0x6c, "Ice Lake server", Has::Avx512),
    (6, 0x7d..=0x7e, "Ice Lake", Has::Avx512),
    (6, 0x8c..=0x8d, "Tiger Lake", Has::Avx512),
    (6, 0xa7..=0xa7, "Rocket Lake", Has::Avx512),
    (6, 0x8f..=0x8f, "Sapphire Rapids", Has::Amx),
    (6, 0xcf..=0xcf, "Emerald Rapids", Has::Amx),
    (6, 0xad..=0xae, "Granite Rapids", Has::Amx),
    (6, 0x97..=0x97, "Alder Lake", Has::Avx512),
    (6, 0x9a..=0x9a, "Alder Lake", Has::Avx512),
    (6, 0xbe..=0xbe, "Gracemont", Has::NoAvx512),
    (6, 0xb7..=0xb7, "Raptor Lake", Has::NoAvx512),
    (6, 0xba..=0xba, "Raptor Lake", Has::NoAvx512),
    (6, 0xbf..=0xbf, "Raptor Lake", Has::NoAvx512),
    (6, 0xaa..=0xaa, "Meteor Lake", Has::NoAvx512),
    (6, 0xac..=0xac, "Meteor Lake", Has::NoAvx512),
    (6, 0xbd..=0xbd, "Lunar Lake", Has::NoAvx512),
    (6, 0xc5..=0xc6, "Arrow Lake", Has::NoAvx512),
    (6, 0xaf..=0xaf, "Sierra Forest", Has::NoAvx512),
    (6, 0x5c..=0x5c, "Goldmont", Has::NoAvx512),
    (6, 0x5f..=0x5f, "Goldmont", Has::NoAvx512),
    (6, 0x86..=0x86, "Tremont", Has::NoAvx512),
];

/// The name, or why none is given.
pub fn name(id: &Identity) -> Fact<String> {
    let rows: &[Row] = match id.vendor {
        "AuthenticAMD" => &AMD,
        "HygonGenuine" => &HYGON,
        "GenuineIntel" => &INTEL,
        _ => return Fact::because("fsprobe knows no microarchitectures of this vendor"),
    };
    let found = rows.iter().find(|(family, models, ..)| *family == id.family && models.contains(&id.model));
    let Some((_, _, name, has)) = found else {
        return Fact::because(format!(
            "family {:#x}, model {:#x} is not in fsprobe's table",
            id.family, id.model
        ));
    };
    match contradiction(id, *has) {
        None => Fact::Known((*name).into()),
        Some(feature) => Fact::because(format!(
            "the model number {:#x} is that of {name}, but CPUID shows {feature}, which {name} does not have: \
             a masked model, so the CPU below is another",
            id.model
        )),
    }
}

/// A feature that is shown although this microarchitecture does not have it.
fn contradiction(id: &Identity, has: Has) -> Option<&'static str> {
    if id.amx && has != Has::Amx {
        Some("AMX")
    } else if id.avx512 && matches!(has, Has::NoAvx512 | Has::NoFastStrings) {
        Some("AVX-512")
    } else if id.fast_strings && has == Has::NoFastStrings {
        Some("ERMS or FSRM")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(vendor: &str, family: u32, model: u32) -> Fact<String> {
        name(&Identity { vendor, family, model, fast_strings: false, avx512: false, amx: false })
    }

    #[test]
    fn models_have_names() {
        for (vendor, family, model, expected) in [
            ("AuthenticAMD", 0x17, 0x01, "Zen"),
            ("AuthenticAMD", 0x17, 0x08, "Zen+"),
            ("AuthenticAMD", 0x17, 0x71, "Zen 2"),
            ("AuthenticAMD", 0x19, 0x21, "Zen 3"),
            ("AuthenticAMD", 0x19, 0x44, "Zen 3+"),
            ("AuthenticAMD", 0x19, 0x50, "Zen 3"),
            ("AuthenticAMD", 0x19, 0x11, "Zen 4"),
            ("AuthenticAMD", 0x19, 0xa0, "Zen 4"),
            ("AuthenticAMD", 0x1a, 0x44, "Zen 5"),
            ("HygonGenuine", 0x18, 0x01, "Dhyana (Zen)"),
            ("GenuineIntel", 6, 0x8f, "Sapphire Rapids"),
        ] {
            assert_eq!(of(vendor, family, model), Fact::Known(expected.into()), "{vendor} {family} {model}");
        }
        assert!(matches!(of("AuthenticAMD", 0x1b, 0), Fact::Unknown(_)));
        assert!(matches!(of("CentaurHauls", 7, 0), Fact::Unknown(_)));
    }

    #[test]
    fn a_masked_model_gets_no_name() {
        let rocket = Identity {
            vendor: "GenuineIntel",
            family: 6,
            model: 0xa7,
            fast_strings: true,
            avx512: true,
            amx: false,
        };
        assert_eq!(name(&rocket), Fact::Known("Rocket Lake".into()));
        let Fact::Unknown(reason) = name(&Identity { amx: true, ..rocket }) else { panic!("AMX") };
        assert!(reason.contains("Rocket Lake") && reason.contains("AMX"));
        let zen3 = Identity { vendor: "AuthenticAMD", family: 0x19, model: 0x01, ..rocket };
        assert!(matches!(name(&zen3), Fact::Unknown(_)));
        let zen2 = Identity { family: 0x17, model: 0x31, avx512: false, ..zen3 };
        assert!(matches!(name(&zen2), Fact::Unknown(_)));
    }
}
