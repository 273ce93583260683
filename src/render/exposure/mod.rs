//! What people see of `fsprobe exposure`: text of 80 columns, or a page.

mod html;
mod text;

pub use html::html;
pub use text::text;

use super::number::{span, times};
use crate::report::{BandsFrom, Exposure, HeapState, MetBand, MetBands, State, Way, printable};
use std::collections::BTreeSet;

/// Characters of a name or reason that comes from elsewhere.
const LONGEST: usize = 300;

/// What was looked at, with the sample size.
fn heading(exposure: &Exposure) -> String {
    let allocations: usize = exposure.placements.iter().map(|placed| placed.offsets.len()).sum();
    let processes: BTreeSet<(&str, Way, u32)> =
        exposure.placements.iter().map(|p| (p.allocator.as_str(), p.way, p.process)).collect();
    format!(
        "Where allocators put buffers: the page offsets of {allocations} fresh allocations in {} processes.",
        processes.len()
    )
}

/// The bands, where they come from, and what that means for reads.
fn bands(bands: &MetBands) -> String {
    let source = printable(&bands.source, LONGEST);
    let some = bands.lens.iter().any(|at| !at.bands.is_empty());
    if bands.from == BandsFrom::Given {
        let each: Vec<String> = bands.lens.iter().flat_map(|at| &at.bands).map(place).collect();
        return format!(
            "Band: {}, {source}. It has no measured slowdown, so only shares are told.",
            each.join(", ")
        );
    }
    let simulated = if bands.from == BandsFrom::Simulated {
        " SIMULATED: these bands are not this machine's; the offsets below are."
    } else {
        ""
    };
    match bands.state {
        _ if some => {
            let each: Vec<String> = bands
                .lens
                .iter()
                .flat_map(|at| at.bands.iter().map(|band| (at.len, band)))
                .map(|(len, band)| {
                    format!("{}{} at {}", place(band), slower(band), crate::report::length(len))
                })
                .collect();
            format!(
                "Deep band of reads (distance from a page-aligned file position): {} (by {source}).{simulated} \
                 Lengths in between take the slowdown of the nearest.",
                each.join(", ")
            )
        }
        Some(State::Inconclusive) | None => format!(
            "Whether reads have a deep band here is not known ({source}): fsprobe check tells more.{simulated}"
        ),
        Some(_) => format!(
            "No deep band (by {source}): a read takes 1.00x as long wherever its buffer lies.{simulated}{}",
            if simulated.is_empty() {
                " fsprobe exposure --simulate zen4 shows what it would be on a Zen 4."
            } else {
                ""
            }
        ),
    }
}

fn place(band: &MetBand) -> String {
    span(band.from, band.to)
}

fn slower(band: &MetBand) -> String {
    band.slowdown.map(|slowdown| format!(" {} slower", times(slowdown))).unwrap_or_default()
}

/// What was left out, and what a reader has to know.
fn notes(exposure: &Exposure) -> Vec<String> {
    let skipped = exposure.skipped.iter().map(|skipped| {
        let way = skipped.way.map(|way| format!(" ({way})")).unwrap_or_default();
        let [allocator, reason] = [&skipped.allocator, &skipped.reason].map(|text| printable(text, LONGEST));
        format!("not measured: {allocator}{way}: {reason}")
    });
    let noted = exposure.notes.iter().map(|note| printable(note, LONGEST));
    skipped.chain(noted).collect()
}

/// The state in a word.
fn heap(states: &[HeapState]) -> &'static str {
    match states {
        [HeapState::First] => "first",
        [HeapState::AfterFrees] => "after",
        _ => "both",
    }
}

/// A share, `12.5 %`, or `·` where it is not known.
fn percent(share: Option<f64>) -> String {
    match share {
        None => "·".into(),
        Some(0.0) => "0 %".into(),
        Some(share) if share >= 0.9995 => "100 %".into(),
        Some(share) => format!("{:.1} %", 100.0 * share),
    }
}

/// A slowdown in at most five letters and an `x`, or `·` where it is not known.
fn factor(slowdown: Option<f64>) -> String {
    match slowdown {
        None => "·".into(),
        Some(slowdown) if slowdown < 9.995 => format!("{slowdown:.2}x"),
        Some(slowdown) => times(slowdown),
    }
}
