//! Names of the kernel's functions, where /proc/kallsyms tells them, and the path that a copy took there.

use std::fs;

/// What a path is called where names are hidden.
const UNNAMED: &str = "kernel";

/// Ends of the names under which system calls are entered.
const ENTRIES: [&str; 7] = [
    "__x64_sys_",
    "__ia32_sys_",
    "__ia32_compat_sys_",
    "__x32_compat_sys_",
    "__se_sys_",
    "__do_sys_",
    "ksys_",
];

/// Functions that copy for whoever called them.
const COPIERS: [&str; 14] = [
    "rep_movs_alternative",
    "copy_user_",
    "copy_to_user",
    "copy_from_user",
    "copy_to_iter",
    "copy_from_iter",
    "copy_page_to_iter",
    "copy_page_from_iter",
    "copy_folio_",
    "copyin",
    "copyout",
    "raw_copy_",
    "memcpy",
    "memmove",
];

/// The kernel's functions, sorted by address.
#[derive(Debug, Default)]
pub struct Kernel {
    names: String,
    /// Address, and where the name stands in `names`.
    functions: Vec<(u64, u32, u32)>,
}

impl Kernel {
    /// As this kernel tells them; none where it hides addresses (kptr_restrict).
    pub fn of_this_machine() -> Kernel {
        let text = fs::read("/proc/kallsyms").unwrap_or_default();
        Kernel::of(&String::from_utf8_lossy(&text))
    }

    /// From lines `address kind name [module]`.
    pub fn of(text: &str) -> Kernel {
        let mut kernel = Kernel::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let address = u64::from_str_radix(address, 16).unwrap_or(0);
            if address == 0 || !["t", "T", "w", "W"].contains(&kind) {
                continue;
            }
            let Ok(from) = u32::try_from(kernel.names.len()) else { break };
            kernel.names.push_str(name);
            kernel.functions.push((address, from, name.len() as u32));
        }
        kernel.functions.sort_unstable();
        kernel
    }

    /// Whether names are told at all.
    pub fn is_named(&self) -> bool {
        !self.functions.is_empty()
    }

    /// The function that holds an address.
    pub fn function(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|(start, ..)| *start <= address);
        let (_, from, len) = *self.functions.get(after.checked_sub(1)?)?;
        self.names.get(from as usize..(from + len) as usize)
    }

    /// The path of a copy, from the calls that led to it, the innermost first: the system call, and the function that
    /// wanted the copy (`read: filemap_read`).
    pub fn path(&self, chain: &[u64]) -> String {
        // All but the innermost are return addresses, which may stand behind their function's end.
        let address = |(index, address): (usize, &u64)| address.wrapping_sub(u64::from(index > 0));
        let names: Vec<&str> =
            chain.iter().enumerate().map(address).filter_map(|at| self.function(at)).collect();
        let call = names.iter().rev().find_map(|name| entered(name));
        let wanting = names.iter().find(|name| !is_copier(name));
        match (call, wanting) {
            (Some(call), Some(wanting)) => format!("{call}: {wanting}"),
            (None, Some(wanting)) => (*wanting).to_owned(),
            _ => UNNAMED.to_owned(),
        }
    }
}

/// The system call that a function is the entry of; page faults copy too.
fn entered(name: &str) -> Option<&str> {
    if name == "asm_exc_page_fault" {
        return Some("page fault");
    }
    ENTRIES.iter().find_map(|entry| name.strip_prefix(entry))
}

fn is_copier(name: &str) -> bool {
    let bare = name.trim_start_matches('_');
    COPIERS.iter().any(|copier| bare.starts_with(copier))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SYMBOLS: &str = "\
        ffffffff81000000 T _stext\n\
        ffffffff81000100 T filemap_read\n\
        ffffffff81000200 t vfs_read\n\
        ffffffff81000300 T __x64_sys_pread64\n\
        ffffffff81000400 t do_syscall_64\n\
        ffffffff81000500 T _copy_to_iter\n\
        ffffffff81000600 D not_a_function\n\
        ffffffffc0000000 t fuse_copy_fill\t[fuse]\n";

    #[test]
    fn paths_are_named() {
        let kernel = Kernel::of(SYMBOLS);
        let base = 0xffff_ffff_8100_0000;
        let read = [0x510, 0x150, 0x210, 0x400, 0x410].map(|at| base + at);
        assert_eq!(kernel.path(&read), "pread64: filemap_read", "a call at its function's very end");
        assert_eq!(kernel.path(&[0xffff_ffff_c000_0010]), "fuse_copy_fill", "a thread of the kernel");
        assert_eq!(kernel.path(&[]), UNNAMED);
        assert_eq!(kernel.function(0x1000), None);
        assert!(kernel.is_named());
    }

    #[test]
    fn hidden_names_are_none() {
        let kernel = Kernel::of("0000000000000000 T filemap_read\n0000000000000000 T vfs_read\n");
        assert!(!kernel.is_named());
        assert_eq!(kernel.path(&[0xffff_ffff_8100_0000]), UNNAMED);
    }

    proptest! {
        #[test]
        fn symbols_of_any_content_are_survived(text: String, chain: Vec<u64>) {
            let _ = Kernel::of(&text).path(&chain);
        }
    }
}
