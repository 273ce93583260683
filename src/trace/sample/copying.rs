//! Whether an interrupted instruction is a `rep movs`.
//!
//! In user space its bytes tell. So they do in the kernel where /proc/kcore may be read (root, if the kernel has it).
//! Elsewhere the registers must **fit**: kernels from 6.4 on have `rep movsb` inlined wherever they copy, so that no
//! symbol tells. They fit where RCX holds a count that a copy can have left (1 byte to 2 GiB), and
//! * RSI and RDI point the one into user space and the other into the kernel, and AC is set in RFLAGS: where the CPU
//!   has SMAP, the kernel sets that flag for the very instructions that access user memory; or
//! * both point into the kernel, inside a function known to copy (`memcpy`, `copy_page`).
//!
//! A short `rep movs` is over before the interrupt is taken, which then meets the instruction behind it: with RCX at 0,
//! and RSI and RDI as far apart as ever. That counts, too, where the bytes can be read.

use super::kernel::Kernel;
use super::records::Registers;
use super::world::{ModuleId, World};
use crate::trace::instruction::{LONGEST, ends_rep_movs, is_rep_movs};
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// The most that one system call moves (MAX_RW_COUNT).
pub const MOST_BYTES: u64 = 0x7fff_f000;

/// RFLAGS.AC.
const ACCESS: u64 = 1 << 18;

/// Bytes before an instruction that are looked at: the longest `rep movs` that compilers write, and one.
const BEHIND: usize = 4;

/// What an address means for an interrupt there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Met {
    /// A `rep movs`.
    Copy,
    /// The instruction behind one.
    Behind,
    Other,
}

impl Met {
    /// By what stands before an address and at it.
    fn of(before: &[u8], at: &[u8]) -> Met {
        match (is_rep_movs(at), ends_rep_movs(before)) {
            (true, _) => Met::Copy,
            (_, true) => Met::Behind,
            _ => Met::Other,
        }
    }

    fn is_copy(self, registers: Registers) -> bool {
        self == Met::Copy || (self == Met::Behind && registers.cx == 0)
    }
}

/// What tells copies, with what has been told already.
#[derive(Debug)]
pub struct Copying {
    user: HashMap<(ModuleId, u64), Met>,
    kernel: HashMap<u64, Met>,
    core: Option<KernelMemory>,
    has_smap: bool,
    /// Samples of user space whose instruction could not be read.
    pub unread: u64,
}

impl Copying {
    /// With the kernel's memory where it may be read.
    pub fn new() -> Copying {
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        // The kernel's view of the CPU's flags, which booting with `nosmap` changes.
        let has_smap = cpu.lines().find(|line| line.starts_with("flags"));
        Copying {
            user: HashMap::new(),
            kernel: HashMap::new(),
            core: File::open("/proc/kcore").ok().and_then(KernelMemory::of),
            has_smap: has_smap.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "smap")),
            unread: 0,
        }
    }

    /// Whether user space was interrupted in a `rep movs`.
    pub fn in_user(&mut self, world: &mut World, pid: u32, ip: u64, registers: Registers) -> bool {
        let (module, position) = world.place(pid, ip);
        if let Some(known) = module.and_then(|module| self.user.get(&(module, position))) {
            return known.is_copy(registers);
        }
        let memory = File::open(format!("/proc/{pid}/mem")).ok();
        let mut read = |back: u64, bytes: &mut [u8]| {
            let own = memory.as_ref().and_then(|memory| memory.read_at(bytes, ip.checked_sub(back)?).ok());
            own.filter(|len| *len > 0).or_else(|| {
                // It has ended, or is not ours to read: the file has the same bytes.
                let module = module.and_then(|module| world.module(module))?;
                Some(module.bytes(position.checked_sub(back)?, bytes).len())
            })
        };
        let (mut at, mut before) = ([0; LONGEST], [0; BEHIND]);
        let len = read(0, &mut at).unwrap_or(0);
        // less than all of it says nothing of what ends there
        let is_whole = read(BEHIND as u64, &mut before) == Some(BEHIND);
        self.unread += u64::from(len == 0 && !world.is_vdso(pid, ip));
        let met = Met::of(if is_whole { &before } else { &[] }, &at[..len]);
        // Memory without a file (code made at run time) may hold something else the next time.
        if let (Some(module), true) = (module, len > 0) {
            self.user.insert((module, position), met);
        }
        met.is_copy(registers)
    }

    /// Whether the kernel was interrupted in a `rep movs`; `names` are read where they are needed for that.
    pub fn in_kernel(&mut self, names: &mut Option<Kernel>, ip: u64, registers: Registers) -> bool {
        let Some(core) = &self.core else {
            return fits(registers, self.has_smap, || {
                let names = names.get_or_insert_with(Kernel::of_this_machine);
                names.function(ip).is_some_and(is_copier)
            });
        };
        let read = || {
            let (mut at, mut before) = ([0; LONGEST], [0; BEHIND]);
            let len = core.read(ip, &mut at);
            let is_whole = core.read(ip.wrapping_sub(BEHIND as u64), &mut before) == BEHIND;
            Met::of(if is_whole { &before } else { &[] }, &at[..len])
        };
        self.kernel.entry(ip).or_insert_with(read).is_copy(registers)
    }
}

/// Functions of the kernel that are a `rep movs` between addresses of its own.
fn is_copier(function: &str) -> bool {
    const COPIERS: [&str; 6] =
        ["memcpy", "memmove", "copy_page", "copy_page_regs", "memcpy_erms", "rep_movs_alternative"];
    COPIERS.contains(&function.trim_start_matches('_'))
}

/// Whether the kernel's registers are those of a copy.
fn fits(registers: Registers, has_smap: bool, in_a_copier: impl FnOnce() -> bool) -> bool {
    let Registers { cx, si, di, flags } = registers;
    if !(1..=MOST_BYTES).contains(&cx) {
        return false;
    }
    match (half(si), half(di)) {
        (Some(Half::User), Some(Half::Kernel)) | (Some(Half::Kernel), Some(Half::User)) => {
            flags & ACCESS != 0 || !has_smap
        }
        (Some(Half::Kernel), Some(Half::Kernel)) => in_a_copier(),
        _ => false,
    }
}

#[derive(Debug, PartialEq)]
enum Half {
    User,
    Kernel,
}

/// Which half of the address space a pointer leads to, with five levels of page tables at most; none for what is
/// no pointer (the first 64 KiB are never mapped).
fn half(address: u64) -> Option<Half> {
    match address {
        0x1_0000..=0x00ff_ffff_ffff_ffff => Some(Half::User),
        0xff00_0000_0000_0000..=0xffff_ffff_ffff_f000 => Some(Half::Kernel),
        _ => None,
    }
}

/// /proc/kcore: the kernel's memory as an ELF file.
#[derive(Debug)]
struct KernelMemory {
    file: File,
    /// Address, size and position.
    segments: Vec<(u64, u64, u64)>,
}

impl KernelMemory {
    fn of(file: File) -> Option<KernelMemory> {
        use object::elf::{FileHeader64, PT_LOAD};
        use object::read::elf::{FileHeader, ProgramHeader};
        let mut head = vec![0; 1 << 16];
        let len = file.read_at(&mut head, 0).ok()?;
        let head = &head[..len];
        let header = FileHeader64::<object::Endianness>::parse(head).ok()?;
        let endian = header.endian().ok()?;
        let loaded =
            header.program_headers(endian, head).ok()?.iter().filter(|part| part.p_type(endian) == PT_LOAD);
        let segments = loaded.map(|part| (part.p_vaddr(endian), part.p_memsz(endian), part.p_offset(endian)));
        let segments: Vec<_> = segments.collect();
        let memory = KernelMemory { file, segments };
        (!memory.segments.is_empty()).then_some(memory)
    }

    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let holds =
            |(start, size, _): &&(u64, u64, u64)| address.checked_sub(*start).is_some_and(|at| at < *size);
        let Some((start, _, position)) = self.segments.iter().find(holds) else { return 0 };
        self.file.read_at(into, position.saturating_add(address - start)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_fit_or_not() {
        let (user, kernel) = (0x7f00_1234_5678, 0xffff_8880_0000_1000);
        let of = |cx, si, di, flags| Registers { cx, si, di, flags };
        let fit = |cx, si, di, copier: bool| fits(of(cx, si, di, ACCESS), true, || copier);
        assert!(fit(4096, kernel, user, false), "to user space");
        assert!(fit(1, user, kernel, false), "from user space");
        assert!(fit(4096, kernel, kernel, true) && !fit(4096, kernel, kernel, false), "memcpy");
        assert!(!fits(of(4096, kernel, user, 0x202), true, || false), "user memory is closed");
        assert!(fits(of(4096, kernel, user, 0x202), false, || false), "it never is");
        assert!(!fit(0, kernel, user, false), "done");
        assert!(!fit(kernel, user, kernel, false), "vfs_read(file, buffer, count, &position)");
        assert!(!fit(4096, user, user, true), "the kernel copies nothing so");
        assert!(!fit(4096, 3, kernel, false), "a descriptor");
        assert!(!fit(4096, kernel, 0x8000_0000_0000_0000, false), "no address");
    }

    #[test]
    fn memory_is_read_through_the_tables_of_its_file() {
        // Any ELF file will do: this program, whose first part begins with the file's first bytes.
        let memory = KernelMemory::of(File::open("/proc/self/exe").unwrap()).unwrap();
        let (start, size, position) = memory.segments[0];
        assert!(size > 4 && position == 0);
        let mut bytes = [0; 4];
        assert_eq!((memory.read(start, &mut bytes), &bytes), (4, b"\x7fELF"));
        assert_eq!(memory.read(u64::MAX, &mut bytes), 0, "in no part");
        assert!(KernelMemory::of(File::open("/proc/version").unwrap()).is_none());
    }

    #[test]
    fn copiers_by_name() {
        assert!(is_copier("__memcpy") && is_copier("copy_page") && is_copier("rep_movs_alternative"));
        assert!(!is_copier("memcpy_orig") && !is_copier("vfs_read"));
    }
}
