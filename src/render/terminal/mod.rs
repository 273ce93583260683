//! A report as text for a terminal: the machine, one matrix a copy path, the verdict in sentences.
//!
//! At most 80 columns; complete without colour, which only repeats what the text says. Every string
//! of a report passes through [`crate::report::printable`], so a hostile file cannot steer the terminal.

pub(crate) mod allocators;
mod bands;
pub(crate) mod column;
pub(crate) mod header;
pub(crate) mod lengths;
pub(crate) mod matrix;
pub(crate) mod notes;
pub(crate) mod plane;
pub(crate) mod rows;
pub(crate) mod scanline;
pub(crate) mod summary;
pub(crate) mod verdict;

use super::facts::rejudged;
use super::text::paragraph;
use crate::report::Report;

/// The widest output, in columns.
const WIDEST: usize = 80;
/// Below this, lines are longer than asked for rather than unreadable.
const NARROWEST: usize = 40;

/// How to write for the terminal at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether escapes for colour may be used.
    pub colour: bool,
    /// The terminal's width in columns; more than 80 is not used.
    pub width: usize,
}

impl Default for Style {
    fn default() -> Self {
        Style { colour: false, width: WIDEST }
    }
}

/// A sweep's report: the machine, the page-offset throughput matrix of each copy path, the verdict.
pub fn sweep(report: &Report, style: Style) -> String {
    let style = Style { width: style.width.clamp(NARROWEST, WIDEST), ..style };
    let colours_alone = report.is_colours_alone();
    let parts = [
        header::header(report, style),
        rejudged(report).map_or(String::new(), |said| paragraph("", &said, style.width)),
        summary::summary(report, style),
        lengths::lengths(report, style),
        if colours_alone { String::new() } else { matrix::matrices(report, style) },
        crate::render::colours::colours(report, style.width),
        if colours_alone { String::new() } else { verdict::verdict(report, style) },
        allocators::allocators(report, style),
        notes::notes(report, style),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|p| !p.is_empty()).collect();
    parts.join("\n")
}

/// The verdict's sentences and what they mean for allocators, for other formats.
pub(crate) fn told(report: &Report, style: Style) -> String {
    let colours = crate::render::colours::sentences(report);
    let colours: String = colours.iter().map(|s| paragraph("", s, style.width)).collect();
    if report.is_colours_alone() {
        return colours;
    }
    lengths::lengths(report, style)
        + &verdict::verdict(report, style)
        + &colours
        + &allocators::allocators(report, style)
}

/// What the numbers rest on, for other formats.
pub(crate) fn noted(report: &Report, style: Style) -> String {
    notes::notes(report, style)
}

/// The matrices of a sweep, after the summary of many paths, and the profile of page colours, for other formats.
pub(crate) fn matrices(report: &Report) -> String {
    let style = Style::default();
    let mut parts = match report.is_colours_alone() {
        true => vec![],
        false => vec![summary::summary(report, style), matrix::matrices(report, style)],
    };
    parts.extend(report.colours.as_ref().map(crate::render::colours::table));
    parts.retain(|part| !part.trim().is_empty());
    parts.join("\n")
}
