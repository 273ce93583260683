//! The bands that copies were compared with, in a sentence.

use crate::render::number::{span, times};
use crate::render::terminal::Style;
use crate::render::text::{listed, paragraph};
use crate::report::{PathName, TraceBands, printable};

/// Bands told one by one.
const MOST: usize = 4;

/// Where they come from, which they are, for which paths.
pub fn told(bands: &TraceBands, style: Style) -> String {
    let mut spans: Vec<(u16, u16)> =
        bands.paths.iter().flat_map(|path| &path.bands).map(|band| (band.from, band.to)).collect();
    spans.sort_unstable();
    spans.dedup();
    let source = printable(&bands.source, 300);
    let said = match spans.as_slice() {
        [] => {
            let mut paths: Vec<PathName> = bands.paths.iter().map(|path| path.path).collect();
            paths.dedup();
            let words: Vec<&str> = paths.iter().map(|path| path.word()).collect();
            match words.is_empty() {
                true => format!("Bands: none known ({source})."),
                false => format!("Bands: no deep band ({source}; {}).", listed(&words)),
            }
        }
        spans => {
            let shown: Vec<String> = spans.iter().take(MOST).map(|span| one(bands, *span)).collect();
            let more =
                if spans.len() > MOST { format!("; and {} more", spans.len() - MOST) } else { String::new() };
            format!("Bands: {}{more} ({source}).", shown.join("; "))
        }
    };
    paragraph("", &said, style.width)
}

/// `distance 0x001-0x00f, 2.4x to 25x slower by read and memcpy`.
fn one(bands: &TraceBands, (from, to): (u16, u16)) -> String {
    let mut slowdowns = Vec::new();
    let mut paths: Vec<&str> = Vec::new();
    for path in &bands.paths {
        for band in path.bands.iter().filter(|band| (band.from, band.to) == (from, to)) {
            slowdowns.push(band.slowdown);
            if paths.last() != Some(&path.path.word()) {
                paths.push(path.path.word());
            }
        }
    }
    let least = slowdowns.iter().copied().fold(f64::INFINITY, f64::min);
    let most = slowdowns.iter().copied().fold(0.0, f64::max);
    let slower = if times(least) == times(most) {
        times(most)
    } else {
        format!("{} to {}", times(least), times(most))
    };
    format!("distance {}, {slower} slower by {}", span(from, to), listed(&paths))
}
