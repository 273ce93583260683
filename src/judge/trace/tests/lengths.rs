//! Copies of lengths that a check leaves out.

use super::*;
use crate::judge::trace::unmeasured;

fn names(watched: &Watched) -> Vec<(PathName, u64)> {
    unmeasured(watched, &zen4()).into_iter().collect()
}

fn read_of(len: u64, distance: Option<u16>) -> Watched {
    watched(vec![copies("read", FileKind::PageCache, Some(true), distance, len, 8)])
}

#[test]
fn long_copies_in_a_band_stream() {
    assert_eq!(names(&read_of(64 * MIB, Some(8))), [(PathName::Read, 64 * MIB)]);
    assert_eq!(names(&read_of(3 * MIB, Some(8))), [(PathName::Read, 64 * MIB)]);
    assert_eq!(names(&read_of(MIB, Some(8))), [], "nearer to 64 KiB");
    assert_eq!(names(&read_of(64 * MIB, Some(0x740))), [], "outside");
    assert_eq!(names(&read_of(64 * MIB, None)), [], "unknown");
    let writes = |len| copies("pwrite64", FileKind::PageCache, Some(false), Some(1), len, 1);
    let writes_of = |len| names(&watched(vec![writes(len)]));
    assert_eq!(writes_of(8192), [(PathName::Write, 4096)], "a check measures writes at 64 KiB alone");
    assert_eq!(writes_of(64 * MIB), [(PathName::Write, 64 * MIB)]);
}

#[test]
fn short_calls_in_a_band_pay_for_their_start() {
    for (len, nearest) in [(1, 128), (128, 128), (300, 512), (1400, 512)] {
        assert_eq!(names(&read_of(len, Some(8))), [(PathName::Read, nearest)], "{len}");
    }
    assert_eq!(names(&read_of(512, Some(0x740))), [], "outside");
    assert_eq!(names(&read_of(64 << 10, Some(8))), [], "measured by the check");
    let mut bands = zen4();
    bands.paths.push(path(PathName::Read, 512, vec![band(1.4, 430.0)]));
    let calls = read_of(512, Some(8));
    assert_eq!(unmeasured(&calls, &bands).len(), 0, "known now");
    let bytes: u64 = calls.copies.iter().map(|copies| copies.bytes).sum();
    assert_eq!(told(&calls, &bands).lost_ns, Some(bytes * 430 / 1024));
}

fn class(class: Option<u8>) -> Watched {
    let mut watched = sampled(&[(8, Some("pread64: filemap_read"), 100)], 100);
    watched.samples.as_mut().unwrap().inside[0].class = class;
    watched
}

#[test]
fn the_length_that_a_call_asked_for_decides_what_its_samples_lose() {
    let mut bands = zen4();
    bands.paths.push(path(PathName::Read, 64 * MIB, vec![band(2.5, 200.0)]));
    let lost = |watched: &Watched| told(watched, &bands).lost_ns.unwrap();
    let of_slowdown = |slowdown: f64| (100e6 * (1.0 - 1.0 / slowdown)).round() as u64;
    assert_eq!(lost(&class(Some(26))), of_slowdown(2.5));
    let at_64_kib = (100e6 * 275.0 / (275.0 + 51.2_f64)).round() as u64;
    assert_eq!([Some(16), Some(12), None].map(|of| lost(&class(of))), [at_64_kib; 3]);
    assert_eq!(names(&class(Some(26))), [(PathName::Read, 64 * MIB)]);
    assert_eq!(names(&class(None)), []);
}
