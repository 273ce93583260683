//! Someone else's CPUID, read from text: the output of `cpuid -r` (etallen.com/cpuid.html), and the
//! `CPUID 00000007: 00000000-219C97A9-0040068C-00000010 [SL 00]` lines of public collections of dumps.
//!
//! The first CPU counts; every line that is not of either form is skipped, for dumps hold much else.
//! The parser holds one line and a bounded number of leaves, whatever it is given.

use super::cpuid::{AMD_FEATURES, EXTENDED_FEATURES};
use crate::report::Unknowns;
use raw_cpuid::CpuIdResult;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};

/// Lines are cut here; register lines have about 80 bytes.
const LONGEST_LINE: u64 = 512;

/// What is read at most: dumps of hundreds of CPUs have a few MiB.
const LONGEST_DUMP: u64 = 64 << 20;

/// Leaves and subleaves kept at most; real CPUs have about a hundred.
const MOST_LEAVES: usize = 4096;

/// Leaf 1: signature and basic features.
const FEATURES: u32 = 0x1;

/// The registers of one CPU by leaf and subleaf.
#[derive(Debug, Clone, Default)]
pub struct Dump {
    leaves: BTreeMap<(u32, u32), CpuIdResult>,
}

/// Why a text is no dump that can be explained.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The text could not be read.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// Nothing in it looks like a dump.
    #[error(
        "holds no CPUID registers; expected the output of `cpuid -r`, or lines \
         `CPUID 00000007: 00000000-219C97A9-0040068C-00000010`"
    )]
    NoRegisters,
    /// A register line does not hold four registers.
    #[error("line {line} begins like CPUID registers but does not hold four of 32 bits; dump the CPU again")]
    Malformed {
        /// Its number, from 1.
        line: u64,
    },
    /// A leaf without which nothing can be said.
    #[error("lacks leaf {leaf:#010x}, {what}; dump all leaves with `cpuid -1 -r`")]
    Missing {
        /// The leaf.
        leaf: u32,
        /// What it would tell.
        what: &'static str,
    },
    /// More than any CPU has.
    #[error("holds more leaves than any CPU has; it is not the dump of one")]
    TooManyLeaves,
}

/// One line of registers.
#[derive(Debug, PartialEq)]
struct Line {
    leaf: u32,
    /// None where the form leaves it out: then lines of a leaf count up.
    subleaf: Option<u32>,
    registers: [u32; 4],
}

/// What a line is.
#[derive(Debug, PartialEq)]
enum Found {
    Registers(Line),
    Malformed,
    Other,
}

impl Dump {
    /// Reads the first CPU of a dump.
    ///
    /// # Errors
    /// Where the text cannot be read, holds no registers or broken ones, or lacks leaf 0, leaf 1, or
    /// leaf 7 although leaf 0 promises it.
    pub fn read(input: impl Read) -> Result<Self, DumpError> {
        let mut input = io::BufReader::new(input.take(LONGEST_DUMP));
        let mut dump = Dump::default();
        let mut bytes = Vec::new();
        for number in 1.. {
            bytes.clear();
            if next_line(&mut input, &mut bytes)? == 0 {
                break;
            }
            match parse_line(&String::from_utf8_lossy(&bytes)) {
                Found::Other => {}
                Found::Malformed => return Err(DumpError::Malformed { line: number }),
                Found::Registers(line) if dump.begins_next_cpu(&line) => break,
                Found::Registers(line) => dump.insert(line)?,
            }
        }
        dump.check()?;
        Ok(dump)
    }

    /// The registers of a leaf; zeroes where the dump does not have it, as CPUs answer.
    pub fn registers(&self, leaf: u32, subleaf: u32) -> CpuIdResult {
        let none = CpuIdResult { eax: 0, ebx: 0, ecx: 0, edx: 0 };
        self.leaves.get(&(leaf, subleaf)).copied().unwrap_or(none)
    }

    /// Notes the bits that read as false only because the dump leaves out where they stand.
    pub fn note_gaps(&self, unknown: &mut Unknowns) {
        let lacks = |leaf: u32, subleaf: u32| !self.leaves.contains_key(&(leaf, subleaf));
        let amd = self.registers(0x8000_0000, 0).eax >= AMD_FEATURES && lacks(AMD_FEATURES, 0);
        let seven_one = self.registers(EXTENDED_FEATURES, 0).eax >= 1 && lacks(EXTENDED_FEATURES, 1);
        let mut note = |bits: &[&str], reason: &str| {
            for bit in bits {
                unknown.insert(format!("cpu.features.{bit}.cpuid"), reason.into());
            }
        };
        if seven_one {
            note(&["fzrm", "fsrs", "fsrc"], "the dump lacks leaf 7 subleaf 1, which the CPU has");
        }
        if amd {
            note(&["fsrs", "fsrc"], "the dump lacks leaf 0x80000021, which the CPU has");
        }
    }

    /// Leaf 0 comes once a CPU.
    fn begins_next_cpu(&self, line: &Line) -> bool {
        line.leaf == 0 && line.subleaf.unwrap_or(0) == 0 && self.leaves.contains_key(&(0, 0))
    }

    fn insert(&mut self, line: Line) -> Result<(), DumpError> {
        let next = || {
            let last = self.leaves.range((line.leaf, 0)..=(line.leaf, u32::MAX)).next_back();
            last.map_or(0, |((_, subleaf), _)| subleaf.saturating_add(1))
        };
        let subleaf = line.subleaf.unwrap_or_else(next);
        if self.leaves.len() >= MOST_LEAVES {
            return Err(DumpError::TooManyLeaves);
        }
        let [eax, ebx, ecx, edx] = line.registers;
        // Where a CPU's leaf stands twice, the first counts, as the first CPU does.
        self.leaves.entry((line.leaf, subleaf)).or_insert(CpuIdResult { eax, ebx, ecx, edx });
        Ok(())
    }

    /// Whether the leaves are there without which nothing can be said.
    fn check(&self) -> Result<(), DumpError> {
        if self.leaves.is_empty() {
            return Err(DumpError::NoRegisters);
        }
        let has = |leaf: u32| self.leaves.contains_key(&(leaf, 0));
        let names = self.registers(0, 0);
        let vendor = [names.ebx, names.edx, names.ecx].map(u32::to_le_bytes).concat();
        if has(0) && !vendor.iter().all(|b| b.is_ascii_graphic() || *b == b' ') {
            return Err(DumpError::Missing { leaf: 0, what: "with a vendor's name in it" });
        }
        if !has(0) {
            return Err(DumpError::Missing { leaf: 0, what: "which names the vendor" });
        }
        if !has(FEATURES) {
            return Err(DumpError::Missing { leaf: FEATURES, what: "which holds family and model" });
        }
        if self.registers(0, 0).eax >= EXTENDED_FEATURES && !has(EXTENDED_FEATURES) {
            return Err(DumpError::Missing { leaf: EXTENDED_FEATURES, what: "which holds ERMS and FSRM" });
        }
        Ok(())
    }
}

/// Reads a line, or as much of it as a register line can have; the rest of a longer one is passed over.
fn next_line(input: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<usize> {
    let read = input.by_ref().take(LONGEST_LINE).read_until(b'\n', bytes)?;
    if bytes.len() as u64 == LONGEST_LINE && !bytes.ends_with(b"\n") {
        input.skip_until(b'\n')?;
    }
    Ok(read)
}

fn parse_line(line: &str) -> Found {
    let line = line.trim_start_matches('\u{feff}').trim();
    if let Some(rest) = line.strip_prefix("CPUID ") {
        return match rest.split_once(':').map(|(leaf, values)| (hex8(leaf.trim()), values)) {
            Some((Some(leaf), values)) => or_malformed(collection_line(leaf, values)),
            _ => Found::Other,
        };
    }
    match line.split_once(": eax=") {
        Some((place, values)) if place.starts_with("0x") => or_malformed(cpuid_line(place, values)),
        _ => Found::Other,
    }
}

fn or_malformed(line: Option<Line>) -> Found {
    line.map_or(Found::Malformed, Found::Registers)
}

/// `00000000-219C97A9-0040068C-00000010`, perhaps followed by `[SL 00]` or other remarks.
fn collection_line(leaf: u32, values: &str) -> Option<Line> {
    let values = values.trim();
    let (registers, remark) = values.split_once(char::is_whitespace).unwrap_or((values, ""));
    let mut parts = registers.split('-');
    let registers = [(); 4].map(|()| parts.next().and_then(hex8));
    let subleaf = remark
        .split_once("[SL ")
        .and_then(|(_, rest)| u32::from_str_radix(rest.split(']').next()?.trim(), 16).ok());
    let [Some(a), Some(b), Some(c), Some(d)] = registers else { return None };
    parts.next().is_none().then_some(Line { leaf, subleaf, registers: [a, b, c, d] })
}

/// `0x00000007 0x00: eax=0x00000000 ebx=0x219c97a9 ecx=0x0040068c edx=0x00000010`, cut at `: eax=`.
fn cpuid_line(place: &str, values: &str) -> Option<Line> {
    let mut place = place.split_whitespace().map(prefixed_hex);
    let leaf = place.next()??;
    let subleaf = match place.next() {
        None => None,
        Some(subleaf) => Some(subleaf?),
    };
    let mut values = values.split_whitespace();
    let mut register = |name: &str| prefixed_hex(values.next()?.strip_prefix(name)?);
    let registers = [register("")?, register("ebx=")?, register("ecx=")?, register("edx=")?];
    Some(Line { leaf, subleaf, registers })
}

/// Eight hexadecimal digits.
fn hex8(text: &str) -> Option<u32> {
    let digits = text.len() == 8 && text.bytes().all(|b| b.is_ascii_hexdigit());
    digits.then(|| u32::from_str_radix(text, 16).ok()).flatten()
}

/// `0x` and one to eight hexadecimal digits.
fn prefixed_hex(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0x")?;
    let plain = digits.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host;
    use proptest::prelude::*;

    const ZEN3: &str = "CPU 0:\n   \
        0x00000000 0x00: eax=0x00000010 ebx=0x68747541 ecx=0x444d4163 edx=0x69746e65\n   \
        0x00000001 0x00: eax=0x00a20f10 ebx=0x00200800 ecx=0x7ed8320b edx=0x178bfbff\n   \
        0x00000007 0x00: eax=0x00000000 ebx=0x219c97a9 ecx=0x0040068c edx=0x00000010\n";

    fn read(text: &str) -> Result<Dump, DumpError> {
        Dump::read(text.as_bytes())
    }

    #[test]
    fn the_first_cpu_counts() {
        let other = ZEN3.replace("CPU 0", "CPU 1").replace("0x00a20f10", "0x00870f10");
        let dump = read(&format!("{ZEN3}{other}")).unwrap();
        assert_eq!(dump.registers(1, 0).eax, 0x00a2_0f10);
    }

    #[test]
    fn subleaves_are_named_or_counted() {
        let head = "CPUID 00000000: 00000010-68747541-444D4163-69746E65 [AuthenticAMD]\r\n\
                    CPUID 00000001: 00A20F10-00200800-7ED8320B-178BFBFF\r\n\
                    CPUID 00000007: 00000000-219C97A9-0040068C-00000010\r\n";
        let named = read(&format!("{head}CPUID 8000001D: 00000001-0-0-0 [SL 00]\n"));
        assert!(matches!(named, Err(DumpError::Malformed { line: 4 })));
        let named =
            read(&format!("{head}CPUID 8000001D: 00004143-01C0003F-000003FF-00000002 [SL 02]\n")).unwrap();
        assert_eq!(named.registers(0x8000_001d, 2).ecx, 0x3ff);
        let counted = read(&format!(
            "{head}CPUID 8000001D: 00004121-01C0003F-0000003F-00000000\n\
             CPUID 8000001d: 00004122-01c0003f-0000003f-00000000\n"
        ))
        .unwrap();
        assert_eq!(counted.registers(0x8000_001d, 1).eax, 0x4122);
    }

    #[test]
    fn what_is_missing_is_named() {
        let without = |word: &str| {
            let text: Vec<&str> = ZEN3.lines().filter(|line| !line.contains(word)).collect();
            read(&text.join("\n")).unwrap_err().to_string()
        };
        assert!(without("0x00000000 0x00").contains("leaf 0x00000000"));
        assert!(without("0x00000001 0x00").contains("leaf 0x00000001"));
        assert!(without("0x00000007 0x00").contains("leaf 0x00000007"));
        assert!(without("0x").contains("no CPUID registers"));
        assert!(read(&ZEN3.replace("0x219c97a9", "219c")).unwrap_err().to_string().contains("line 4"));
    }

    #[test]
    fn a_cpu_without_leaf_7_needs_none() {
        let old = ZEN3.replace("eax=0x00000010 ebx=0x68747541", "eax=0x00000005 ebx=0x68747541");
        let old: Vec<&str> = old.lines().filter(|line| !line.contains("0x00000007")).collect();
        assert!(!host::of_dump(&read(&old.join("\n")).unwrap()).cpu.features.erms.cpuid);
    }

    #[test]
    fn gaps_are_unknown_rather_than_false() {
        let gap = ZEN3.replace("eax=0x00000000 ebx=0x219c97a9", "eax=0x00000001 ebx=0x219c97a9")
            + "   0x80000000 0x00: eax=0x80000028 ebx=0x68747541 ecx=0x444d4163 edx=0x69746e65\n";
        let unknown = host::of_dump(&read(&gap).unwrap()).unknown;
        assert!(unknown["cpu.features.fzrm.cpuid"].contains("subleaf 1"));
        assert!(unknown["cpu.features.fsrs.cpuid"].contains("0x80000021"));
        let whole = host::of_dump(&read(ZEN3).unwrap()).unknown;
        assert!(!whole.contains_key("cpu.features.fzrm.cpuid"));
    }

    #[test]
    fn long_lines_and_noise_are_passed_over() {
        let noise = format!("{}\n{ZEN3}{}", "x".repeat(100_000), "\u{1b}[31mCPU\n".repeat(1000));
        assert_eq!(read(&noise).unwrap().registers(1, 0).eax, 0x00a2_0f10);
    }

    #[test]
    fn a_dump_of_more_leaves_than_any_cpu_has_ends() {
        let many: String = (0..=MOST_LEAVES as u32)
            .map(|subleaf| format!("0x00000004 {subleaf:#x}: eax=0x1 ebx=0x0 ecx=0x0 edx=0x0\n"))
            .collect();
        assert!(matches!(read(&many), Err(DumpError::TooManyLeaves)));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            if let Ok(dump) = Dump::read(bytes.as_slice()) {
                host::of_dump(&dump);
            }
        }

        #[test]
        fn no_registers_make_it_panic(
            leaves in proptest::collection::vec((0u32..0x30, 0u32..4, any::<[u32; 4]>(), any::<bool>()), 0..60)
        ) {
            let mut text = String::from(ZEN3);
            for (leaf, subleaf, [a, b, c, d], extended) in leaves {
                let leaf = leaf | if extended { 0x8000_0000 } else { 0 };
                text += &format!("{leaf:#010x} {subleaf:#x}: eax={a:#x} ebx={b:#x} ecx={c:#x} edx={d:#x}\n");
            }
            host::of_dump(&read(&text).unwrap());
        }
    }
}
