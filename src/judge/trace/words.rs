//! Numbers and names in a verdict's sentence.

use crate::report::{self, FileKind, TraceBands, Unseen, printable};

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
    report::percent(share).replace('<', "under ")
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

/// Where bytes of a kind of file lie whose distance is not known; `measured` tells whether it is only that.
pub fn kind(kind: FileKind, measured: bool) -> &'static str {
    match kind {
        FileKind::PageCache if measured => {
            "files whose distance could not be told (a stream's own buffer, for one)"
        }
        FileKind::PageCache => "files by a path that was not measured",
        FileKind::Direct => "files opened with O_DIRECT",
        FileKind::Pipe => "pipes",
        FileKind::Socket => "sockets",
        FileKind::Device => "devices",
        FileKind::Uncached => "files outside the page cache",
        FileKind::Memory if measured => "memory, of which nobody knows which copies are a rep movs",
        FileKind::Memory => "memory, by a path that was not measured",
        FileKind::Unknown => "files that could not be told",
    }
}

/// What was not seen and what would show it, as the end of a sentence.
pub fn not_seen(unseen: &Unseen) -> String {
    let remedy = unseen.remedy.as_deref().unwrap_or(NOTHING);
    format!("not seen were {} ({})", printable(&unseen.whose(), 200), printable(remedy, 200))
}

/// Where there is no remedy.
pub const NOTHING: &str = "nothing shows them";

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
