//! Bands in words: where, on which axis, how much slower.

use super::summary::as_distance;
use crate::render::number::{bytes, gigabytes, offset, on_circle, span, three, times};
use crate::render::text::listed;
use crate::report::{Allocator, Axis, Band, Depth, PAGE, PathName, PathVerdict, Report, Scan};
use std::collections::BTreeSet;

/// One band of a path, as it was found in several columns.
pub struct Found<'a> {
    /// The columns it was found in, shorter lengths last.
    pub seen: Vec<(&'a PathVerdict, &'a Band)>,
}

/// The bands of a depth in a path; the same band in several columns is one.
pub fn found(report: &Report, path: PathName, depth: Depth) -> Vec<Found<'_>> {
    let mut all: Vec<Found> = Vec::new();
    let verdicts = report.verdict.paths.iter().filter(|v| v.path == path);
    for (verdict, band) in verdicts.flat_map(|v| v.bands.iter().map(move |b| (v, b))) {
        let same = |f: &&mut Found| place(f.band()) == place(band);
        match all.iter_mut().find(same) {
            _ if band.depth != depth => {}
            Some(found) => found.seen.push((verdict, band)),
            None => all.push(Found { seen: vec![(verdict, band)] }),
        }
    }
    all
}

fn place(band: &Band) -> (u16, u16, Scan, Option<Axis>) {
    (band.from, band.to, band.scan, band.axis)
}

impl Found<'_> {
    /// The band as one of its columns has it.
    pub fn band(&self) -> &Band {
        self.seen[0].1
    }

    /// Whether fresh rounds confirmed it in any column.
    pub fn is_confirmed(&self) -> bool {
        self.seen.iter().any(|(_, band)| band.confirmed)
    }

    /// The columns that confirm it; all of them where none does.
    fn told(&self) -> impl Iterator<Item = &(&PathVerdict, &Band)> {
        let any = self.is_confirmed();
        self.seen.iter().filter(move |(_, band)| band.confirmed || !any)
    }

    /// `7.3x slower at 64 KiB (3.20 instead of 23.1 GB/s, +275 ns per KiB) and 2.4x at 64 MiB (…)`.
    pub fn cost(&self) -> String {
        let lens: BTreeSet<u64> = self.told().map(|(verdict, _)| verdict.len).collect();
        // whatever length the reader came for, the numbers of a few tell the story
        let told: Vec<String> = lens.into_iter().rev().take(5).map(|len| self.cost_at(len)).collect();
        let told: Vec<String> = told.into_iter().rev().collect();
        listed(&told)
    }

    fn cost_at(&self, len: u64) -> String {
        let mut at: Vec<_> = self.told().filter(|(verdict, _)| verdict.len == len).collect();
        at.sort_by(|a, b| a.1.slowdown.total_cmp(&b.1.slowdown));
        // the speeds are of the same blocks as the slowdown, so that they agree
        let (_, band) = at[at.len() / 2];
        let [low, high] = [at[0].1.slowdown, at[at.len() - 1].1.slowdown].map(times);
        let factor = if low == high { high } else { format!("{low} to {high}") };
        format!(
            "{factor} slower at {} ({} instead of {} GB/s, {} ns per KiB)",
            bytes(len),
            gigabytes(band.bytes_per_s),
            gigabytes(band.bytes_per_s * band.slowdown),
            signed(band.penalty_ns_per_kib)
        )
    }

    /// ` (seen with glibc)`, where not every allocator of the path shows it: others may not have been
    /// measured there.
    pub fn owners(&self, report: &Report) -> String {
        let path = self.seen[0].0.path;
        let of = |verdicts: &mut dyn Iterator<Item = &PathVerdict>| -> BTreeSet<Allocator> {
            verdicts.filter_map(|v| v.allocator).collect()
        };
        let seen = of(&mut self.told().map(|(verdict, _)| *verdict));
        let all = of(&mut report.verdict.paths.iter().filter(|v| v.path == path));
        let names: Vec<&str> = seen.iter().map(|a| a.word()).collect();
        match (seen.len(), all.len()) {
            (0, _) | (_, 1) => String::new(),
            (seen, all) if seen == all => ", whichever allocator".into(),
            _ => format!(" (seen with {})", listed(&names)),
        }
    }
}

/// A penalty with its sign.
fn signed(value: f64) -> String {
    let plus = if value >= 0.0 { "+" } else { "" };
    format!("{plus}{}", three(value))
}

/// Where the band lies, as a clause: `when the destination lies 1 to 15 bytes past its source, modulo
/// 4096 (distance 0x001-0x00f)`.
pub fn whereabouts(path: PathName, band: &Band) -> String {
    let (from, to) = (on_circle(band.from), on_circle(band.to));
    let at = span(from, to);
    let place = match band.axis {
        Some(Axis::Distance) => {
            format!("when the destination lies {} its source, modulo 4096 (distance {at})", apart(from, to))
        }
        Some(Axis::Dst) => format!("when the destination starts at page offset {at}, whatever the source"),
        Some(Axis::Src) => format!("when the source starts at page offset {at}, whatever the destination"),
        Some(Axis::Mixed) => {
            format!(
                "at {} offsets {at} (neither destination, source nor distance alone decides)",
                side(band.scan)
            )
        }
        None if as_distance(path, band).is_some() => {
            let [near, far] = as_distance(path, band).unwrap_or_default();
            format!(
                "when the source starts at page offset {at}, which is distance {}, as the destination is always at 0x000",
                span(near, far)
            )
        }
        None => format!(
            "at {} offsets {at} (whether destination, source or distance decides, the data cannot tell)",
            side(band.scan)
        ),
    };
    place + &edges(band)
}

fn side(scan: Scan) -> &'static str {
    match scan {
        Scan::Dst => "destination",
        Scan::Src => "source",
    }
}

/// A run of distances in words: forwards to half a page, backwards beyond.
fn apart(from: u16, to: u16) -> String {
    let back = |distance: u16| PAGE - distance;
    let bytes = |few: u16, many: u16| match (few, many) {
        (1, 1) => "1 byte".into(),
        (few, many) if few == many => format!("{few} bytes"),
        (few, many) => format!("{few} to {many} bytes"),
    };
    if from <= to && from < PAGE / 2 {
        return format!("{} past", bytes(from, to));
    }
    match to {
        0 if from > 0 => format!("0 to {} bytes before", back(from)),
        _ if from <= to => format!("{} before", bytes(back(to), back(from))),
        _ => format!("up to {} bytes before or up to {to} bytes past", back(from)),
    }
}

/// How sure the edges are, where they are not exact.
fn edges(band: &Band) -> String {
    let range = |name: &str, range: Option<[u16; 2]>| {
        range.map(|[low, high]| {
            format!("{name} lies between {} and {}", offset(on_circle(low)), offset(on_circle(high)))
        })
    };
    let unsure: Vec<String> = [range("its first offset", band.from_range), range("its last", band.to_range)]
        .into_iter()
        .flatten()
        .collect();
    if unsure.is_empty() { String::new() } else { format!(" — {} —", listed(&unsure)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_read_as_people_think_of_them() {
        assert_eq!(apart(1, 15), "1 to 15 bytes past");
        assert_eq!(apart(8, 8), "8 bytes past");
        assert_eq!(apart(1, 1), "1 byte past");
        assert_eq!(apart(0, 15), "0 to 15 bytes past");
        assert_eq!(apart(0xff1, 0xfff), "1 to 15 bytes before");
        assert_eq!(apart(0xff1, 0), "0 to 15 bytes before");
        assert_eq!(apart(0x991, 0x00f), "up to 1647 bytes before or up to 15 bytes past");
        assert_eq!(apart(0, 0xfff), "0 to 4095 bytes past");
    }
}
