//! Any bytes as a CPUID dump: refused with a word of error, or explained.

#![no_main]

use fsprobe::host::{Dump, of_dump};
use fsprobe::render::cpu::{Subject, text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(dump) = Dump::read(bytes) {
        let _ = text(&of_dump(&dump), Subject::Dump);
    }
});
