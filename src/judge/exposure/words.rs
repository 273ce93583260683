//! A row in a sentence.

use crate::report::{
    ExposureRow, HeapState, MetBands, OffsetCount, Pattern, PlacementFigures, Way, buffer_length,
};

/// `glibc, 64 MiB, malloc: always 0x010 (240 of 240); outside the band`.
pub(super) fn sentence(row: &ExposureRow, bands: &MetBands) -> String {
    let state = match row.states.as_slice() {
        [HeapState::First] => " first in a process",
        [HeapState::AfterFrees] => " after frees",
        _ => "",
    };
    let ways: Vec<&str> = match row.allocator.as_str() {
        "pages" => vec!["mmap"],
        _ => row.ways.iter().map(|way| name(*way)).collect(),
    };
    format!(
        "{}, {}, {}{state}: {}{}",
        row.allocator,
        lens(&row.lens),
        listed(&ways),
        spread(&row.figures),
        met(&row.figures, bands)
    )
}

/// A way as people call it.
fn name(way: Way) -> &'static str {
    match way {
        Way::Malloc => "malloc",
        Way::Calloc => "calloc",
        Way::Realloc => "growth by realloc",
        Way::Memalign64 => "posix_memalign to 64",
        Way::Memalign4096 => "posix_memalign to 4096",
        Way::Vec => "a growing Vec",
    }
}

/// `64 KiB`, `64 KiB to 64 MiB`.
pub(super) fn lens(lens: &[u64]) -> String {
    match lens {
        [] => "no length".into(),
        [one] => buffer_length(*one),
        [first, .., last] => format!("{} to {}", buffer_length(*first), buffer_length(*last)),
    }
}

fn listed(words: &[&str]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        words => words.concat(),
    }
}

/// How the offsets are spread.
pub(super) fn spread(figures: &PlacementFigures) -> String {
    let PlacementFigures { samples, distinct, step, pattern, even, most, .. } = figures;
    let at = |at: &OffsetCount| format!("0x{:03x}", at.offset);
    let seen = format!("steps of {step}, {distinct} of {} offsets seen", figures.possible());
    let test = even.map(|even| format!("chi-square over {} parts, p {}", even.bins, probability(even.p)));
    match (pattern, most.first(), test) {
        (Pattern::Always, Some(only), _) => format!("always {} ({samples} of {samples})", at(only)),
        (Pattern::Few, ..) => {
            let each: Vec<String> =
                most.iter().map(|m| format!("{} ({} of {samples})", at(m), m.count)).collect();
            listed(&each.iter().map(String::as_str).collect::<Vec<_>>())
        }
        (Pattern::Uniform, _, Some(test)) => {
            format!("{seen}, roughly uniform ({test}; {samples} allocations)")
        }
        (Pattern::Uneven, Some(top), Some(test)) => {
            format!("{seen}, uneven ({test}), {} most often ({} of {samples})", at(top), top.count)
        }
        _ => {
            let offsets: Vec<String> = most.iter().map(at).collect();
            let more = if *distinct as usize > most.len() { ", …" } else { "" };
            let noun = if *samples == 1 { "allocation" } else { "allocations" };
            format!("{samples} {noun}, too few to tell how they are spread ({}{more})", offsets.join(", "))
        }
    }
}

fn probability(p: f64) -> String {
    match p {
        p if p < 0.001 => "< 0.001".into(),
        p => format!("= {p:.3}"),
    }
}

/// Whether they meet a band; nothing where there is none, or none is known.
fn met(figures: &PlacementFigures, bands: &MetBands) -> String {
    let several = bands.lens.iter().any(|at| at.bands.len() > 1);
    let (Some(count), true) = (figures.in_band, bands.lens.iter().any(|at| !at.bands.is_empty())) else {
        return String::new();
    };
    let band = if several { "the bands" } else { "the band" };
    let cost = figures.slowdown.filter(|slowdown| *slowdown >= 1.005);
    let cost = cost.map(|slowdown| format!(", reads take {slowdown:.2}x as long")).unwrap_or_default();
    match count {
        0 => format!("; outside {band}"),
        count if count == figures.samples => format!("; INSIDE {band}{cost}"),
        count => {
            let share = 100.0 * count as f64 / figures.samples as f64;
            format!("; {count} of {} ({share:.1} %) INSIDE {band}{cost}", figures.samples)
        }
    }
}
