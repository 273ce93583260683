//! The field's words as types: copy paths, allocators, phases and page-offset arithmetic.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Bytes in a page of the offset circle. The anomaly's hazard check looks at the low 12 address
/// bits whatever the page size in use, so this is a constant of the hardware, not of the kernel.
pub const PAGE: u16 = 4096;

/// The distance (dst - src) mod 4096 of two page offsets.
pub fn distance(dst: u16, src: u16) -> u16 {
    dst.wrapping_sub(src) % PAGE
}

/// The page offset of an address or file position.
pub fn offset_of(address: u64) -> u16 {
    (address % u64::from(PAGE)) as u16
}

/// A length for people: `64 KiB`.
pub fn length(len: u64) -> String {
    match len {
        l if l % (1 << 30) == 0 => format!("{} GiB", l >> 30),
        l if l % (1 << 20) == 0 => format!("{} MiB", l >> 20),
        l if l % (1 << 10) == 0 => format!("{} KiB", l >> 10),
        l => format!("{l} B"),
    }
}

/// A word of the vocabulary that is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {kind} '{word}' (known: {known})")]
pub struct UnknownWord {
    kind: &'static str,
    word: String,
    known: String,
}

impl UnknownWord {
    pub(crate) fn new(kind: &'static str, word: &str, known: impl Iterator<Item = &'static str>) -> Self {
        UnknownWord { kind, word: word.into(), known: known.collect::<Vec<_>>().join(", ") }
    }
}

/// Declares an enum whose variants have one fixed spelling in code, JSON, help and docs.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $kind:literal, { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every word, in the order of the documentation.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word as written everywhere.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;
            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                let known = Self::ALL.iter().copied();
                known.clone().find(|w| w.word() == word.trim()).ok_or_else(|| {
                    UnknownWord::new($kind, word, known.map(|w| w.word()))
                })
            }
        }
    };
}
pub(crate) use words;

words! {
    /// One way bytes move.
    PathName, "copy path", {
        /// read(2) from the page cache.
        Read = "read",
        /// pread(2) from the page cache.
        Pread = "pread",
        /// readv(2).
        Readv = "readv",
        /// preadv(2).
        Preadv = "preadv",
        /// write(2) into the page cache.
        Write = "write",
        /// pwrite(2) into the page cache.
        Pwrite = "pwrite",
        /// read(2) from a pipe.
        PipeRead = "pipe-read",
        /// write(2) into a pipe.
        PipeWrite = "pipe-write",
        /// read(2) from a Unix stream socket.
        SocketRead = "socket-read",
        /// write(2) into a Unix stream socket.
        SocketWrite = "socket-write",
        /// process_vm_readv(2).
        ProcessVmRead = "process-vm-read",
        /// A read through io_uring.
        IoUringRead = "io-uring-read",
        /// memcpy from a file mapping.
        Mmap = "mmap",
        /// The C library's memcpy.
        Memcpy = "memcpy",
        /// The instruction `rep movsb` in user space.
        RepMovsb = "rep-movsb",
        /// The instruction `rep movsq` in user space.
        RepMovsq = "rep-movsq",
        /// An unrolled loop of 64-bit integer moves.
        MovUnrolled = "mov-unrolled",
        /// A loop of AVX2 vector moves.
        Avx2 = "avx2",
        /// A loop of AVX-512 vector moves.
        Avx512 = "avx512",
        /// Non-temporal stores.
        NonTemporal = "non-temporal",
        /// Control: splice(2), which copies nothing.
        Splice = "splice",
        /// Control: read(2) of /dev/zero, which only clears.
        Zero = "zero",
    }
}

impl From<PathName> for &'static str {
    fn from(path: PathName) -> &'static str {
        path.word()
    }
}

words! {
    /// Who placed the buffer.
    Allocator, "allocator", {
        /// The C library's malloc, called through libc.
        Glibc = "glibc",
        /// jemalloc, under a prefix of its own.
        Jemalloc = "jemalloc",
        /// mimalloc.
        Mimalloc = "mimalloc",
        /// Control: pages straight from mmap(2).
        Pages = "pages",
    }
}

words! {
    /// What a run of cells is for: `screen` proposes, `confirm` decides on fresh rounds only; `lengths`
    /// stands apart.
    Phase, "phase", {
        /// Proposes candidates.
        Screen = "screen",
        /// Decides on them.
        Confirm = "confirm",
        /// Searches for the lengths at which a band begins and ends.
        Lengths = "lengths",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_is_circular() {
        assert_eq!(distance(0x00f, 0x000), 0x00f);
        assert_eq!(distance(0x000, 0xff1), 0x00f);
        assert_eq!(distance(0x1000, 0x000), 0);
        assert_eq!(offset_of(0x7f00_1234_5678), 0x678);
    }

    #[test]
    fn words_round_trip_and_name_the_known_ones() {
        for &path in PathName::ALL {
            assert_eq!(path.word().parse(), Ok(path));
            assert_eq!(serde_json::to_value(path).unwrap(), path.word());
        }
        let error = "glib".parse::<Allocator>().unwrap_err().to_string();
        assert!(error.contains("glibc, jemalloc, mimalloc, pages"), "{error}");
    }
}
