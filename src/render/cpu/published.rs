//! What is published about the anomaly on each microarchitecture, and what this project has measured.
//! docs/ has the whole list with its sources.

use serde::Serialize;

/// A condition under which copies were slow, and who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Published {
    /// What was found, in a sentence.
    pub says: &'static str,
    /// Where it stands.
    pub source: &'static str,
    /// How it is known.
    pub basis: Basis,
}

/// How a condition is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// This project measured it.
    Measured,
    /// Read in the primary source.
    Published,
    /// Published, and known at second hand.
    SecondHand,
}

impl Basis {
    /// The words for people.
    pub fn word(self) -> &'static str {
        match self {
            Basis::Measured => "measured by this project",
            Basis::Published => "published",
            Basis::SecondHand => "published, second hand",
        }
    }
}

const ZEN: [Published; 1] = [Published {
    says: "Zen, Zen+ and Zen 2 have neither ERMS nor FSRM, so neither glibc nor the kernel chooses `rep movsb`.",
    source: "CPUID dumps of Matisse, Rome and Dhyana",
    basis: Basis::Published,
}];

const ZEN3: [Published; 7] = [
    Published {
        says: "`rep movsb` is slow at distances 0x001 to 0x01f: a 64 KiB read from the page cache runs at 2.7 GB/s instead \
               of 25 (9x, +330 ns/KiB), a 64 MiB read 2.4x to 3.9x slower; 0x000 and 0x020 are fast (EPYC 0x00a00f11 in KVM, Linux 6.18).",
        source: "recordings of this project",
        basis: Basis::Measured,
    },
    Published {
        says: "glibc 2.36 memcpy of 2113 B up to the L2 size has the same band: 15x to 20x at 4 KiB and 64 KiB.",
        source: "recordings of this project",
        basis: Basis::Measured,
    },
    Published {
        says: "`rep movsq` is slow at the same distances, 2.7x to 3x: milder, not immune. Vector copies have no such band.",
        source: "recordings of this project",
        basis: Basis::Measured,
    },
    Published {
        says: "read(2) of 64 MiB into page offset 0x010 takes 23.7 ms, into 0x030 8.9 ms (5950X and others).",
        source: "xuanwo.io, April 2023",
        basis: Basis::Published,
    },
    Published {
        says: "read(2) is slow at distances above 0x990 and at small ones, zero included, and fast from 0x010 to \
               0x990 (5900HX).",
        source: "apache/opendal#3665",
        basis: Basis::Published,
    },
    Published {
        says: "memcpy of 4 KiB to a destination one byte off takes 4 s instead of 0.16 s (5950X).",
        source: "microsoft/STL#5658, cpython#137121",
        basis: Basis::Published,
    },
    Published {
        says: "memcpy of 2113 B from page offset 0 to 1 runs at 3.2 GB/s, of 2111 B above 100 GB/s (Milan and others).",
        source: "Launchpad 2030515",
        basis: Basis::SecondHand,
    },
];

const ZEN4: [Published; 4] = [
    Published {
        says: "`rep movsb` is slow at distances 0x001 to 0x00f: a 64 KiB read from the page cache runs at 3.2 GB/s \
               instead of 23 (7.1x to 7.3x, +275 ns/KiB), a 64 MiB read 2.4x slower (EPYC 0x00a10f11 in KVM, Linux 6.18).",
        source: "recordings of this project",
        basis: Basis::Measured,
    },
    Published {
        says: "glibc 2.36 memcpy of 2113 B up to the L2 size has the same band: 824 ns at 2113 B, 34 ns at 2112 B.",
        source: "recordings of this project",
        basis: Basis::Measured,
    },
    Published {
        says: "`rep movsq` is slow at 0x001 to 0x01f, 2.5x to 4x: milder, not immune. Vector copies have no such band.",
        source: "recordings of this project",
        basis: Basis::Measured,
    },
    Published {
        says: "`rep movsb` of 2113 B to page offset 15 runs at 4.43 GB/s, to 0 at 84.2.",
        source: "sourceware BZ 30994",
        basis: Basis::SecondHand,
    },
];

const ZEN5: [Published; 4] = [
    Published {
        says: "`rep movsb` at distances 0x001 to 0x03f costs 10 ns more a copy, whatever its length, and 8 to 10 ns a page: 5x \
               below 128 B (13 ns instead of 2.6), 1.8x at 128 B, 1.3x from 4 to 64 KiB, nothing from 256 KiB on; reads and \
               writes of 4 KiB and more lose nothing to speak of (EPYC 0x00b00f21 in KVM, Linux 6.18).",
        source: "runs of this project",
        basis: Basis::Measured,
    },
    Published {
        says: "`rep movsq` has the same band: 4.3x at 128 B, 1.6x at 512 B, 1.3x from 4 KiB on. Vector copies have none.",
        source: "runs of this project",
        basis: Basis::Measured,
    },
    Published {
        says: "Pages have 16 colours, as on Zen 3 and Zen 4: `rep movsb` of 2048 B at distances 0x048 to 0x1a8 takes 25 to \
               33 ns between pages of one colour, 19 between others.",
        source: "runs of this project",
        basis: Basis::Measured,
    },
    Published {
        says: "`rep movsb` at distances 1 to 63 costs about 55 clocks, 75 at 128 B, then grows slowly: a bounded penalty.",
        source: "LKML, March 2025 (D. Laight)",
        basis: Basis::Published,
    },
];

const TIGER_LAKE: [Published; 1] = [Published {
    says: "`rep movsb` at distances 1 to about 511 is 1.3x to 1.9x slower, most at 128 to 256: a mild level.",
    source: "N. Goldstein's notes",
    basis: Basis::Published,
}];

/// What is known of a microarchitecture.
pub fn about(microarchitecture: &str) -> &'static [Published] {
    match microarchitecture {
        "Zen" | "Zen+" | "Zen 2" | "Dhyana (Zen)" => &ZEN,
        "Zen 3" | "Zen 3+" => &ZEN3,
        "Zen 4" => &ZEN4,
        "Zen 5" => &ZEN5,
        "Tiger Lake" => &TIGER_LAKE,
        _ => &[],
    }
}
