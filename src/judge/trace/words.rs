//! Numbers and names in a verdict's sentence.

use crate::report::{FileKind, TraceBands};

/// `2.1 s`, `340 ms`, `12 µs`: two digits, as an estimate deserves.
pub fn duration(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns >= 0.9995e9 => (ns / 1e9, "s"),
        ns if ns >= 0.9995e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e3, "µs"),
    };
    if value >= 9.95 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

/// `31 %`, `0.4 %`, `under 0.1 %`.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".into(),
        p if p < 0.1 => "under 0.1 %".into(),
        p if p < 9.95 => format!("{p:.1} %"),
        p if p > 99.5 && p < 100.0 => format!("{:.1} %", p.min(99.9)),
        p => format!("{p:.0} %"),
    }
}

/// `3.2 GiB`, `12 MiB`, `700 B`.
pub fn size(bytes: f64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| bytes >= f64::from(1u32 << shift)) {
        Some((shift, unit)) => {
            let value = bytes / f64::from(1u32 << shift);
            if value >= 9.95 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
        }
        None => format!("{bytes:.0} B"),
    }
}

/// Where bytes of a kind of file lie.
pub fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::PageCache => "files by a path that was not measured",
        FileKind::Direct => "files opened with O_DIRECT",
        FileKind::Pipe => "pipes",
        FileKind::Socket => "sockets",
        FileKind::Device => "devices",
        FileKind::Uncached => "files outside the page cache",
        FileKind::Memory => "memory",
        FileKind::Unknown => "files that could not be told",
    }
}

/// `distance 0x001-0x00f`, each band once.
pub fn bands(bands: &TraceBands) -> String {
    let mut all: Vec<(u16, u16)> =
        bands.paths.iter().flat_map(|path| &path.bands).map(|band| (band.from, band.to)).collect();
    all.sort_unstable();
    all.dedup();
    let shown: Vec<String> = all.iter().take(4).map(|(from, to)| span(*from, *to)).collect();
    let more = if all.len() > shown.len() { " and others" } else { "" };
    format!("distance {}{more}", shown.join(", "))
}

/// `0x001-0x00f`, or `0x001` alone.
pub fn span(from: u16, to: u16) -> String {
    if from == to { format!("0x{from:03x}") } else { format!("0x{from:03x}-0x{to:03x}") }
}
