//! The text: a row for what is alike, with its histogram, then sentences.

use super::{bands, factor, heading, heap, notes, percent};
use crate::render::terminal::Style;
use crate::render::text::{Paint, paint, paragraph};
use crate::report::{Exposure, ExposureRow, PublishedPlacement, Subject, Way, buffer_length, printable};

/// Columns of a histogram: each is two of the record's.
const COLUMNS: usize = 32;

/// Columns that the lengths have.
const LENGTHS: usize = 14;

/// The heights of a bar, in eighths.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The whole text: at most 80 columns, complete without colour.
pub fn text(exposure: &Exposure, style: Style) -> String {
    let mut parts = vec![
        paragraph("", &heading(exposure), style.width) + &paragraph("", &bands(&exposure.bands), style.width),
    ];
    parts.extend(exposure.subjects.iter().filter_map(|subject| of_subject(exposure, subject, style)));
    parts.push(paragraph("", LEGEND, style.width));
    parts.push(
        notes(exposure).iter().map(|note| paragraph("Note: ", &format!("{note}."), style.width)).collect(),
    );
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

const LEGEND: &str = "way: m malloc, c calloc, r growth by realloc, V a growing Vec, a posix_memalign to 64, p \
    posix_memalign to 4096. heap: first in a process, after as many of every length were freed, or both alike. n: \
    allocations. in band: their share in a deep band; reads: the expected time of reads of a page-aligned file into \
    them, 1.00x where no buffer is in a band; ·: not known. kB, MB: powers of ten. Measured on this machine, not taken \
    from what is published.";

fn of_subject(exposure: &Exposure, subject: &Subject, style: Style) -> Option<String> {
    let rows: Vec<&ExposureRow> = exposure.rows.iter().filter(|row| row.allocator == subject.name).collect();
    if rows.is_empty() {
        return None;
    }
    let name = printable(&subject.name, 60);
    let title = match (subject.preloaded, style.colour) {
        (true, _) => format!("{name} (preloaded)"),
        (false, true) => paint(&name, Paint::Bold),
        (false, false) => name,
    };
    let mut out = format!("{title}\n{}", table(&rows, style));
    let told = rows.iter().filter(|row| row.ways.contains(&Way::Malloc)).map(|row| row.sentence.clone());
    let published = exposure.published.iter().filter(|p| p.allocator == subject.name && !subject.preloaded);
    let published = published.map(|PublishedPlacement { sentence, .. }| sentence.clone());
    told.chain(published).for_each(|said| out += &paragraph("- ", &format!("{said}."), style.width));
    Some(out)
}

fn table(rows: &[&ExposureRow], style: Style) -> String {
    let head = format!(
        "{:<LENGTHS$} {:<6} {:<5}{:>6}{:>8}{:>6} {:<16}{:>16}\n{}\n",
        "length",
        "way",
        "heap",
        "n",
        "in band",
        "reads",
        "0x000",
        "0xfff",
        "─".repeat(80)
    );
    head + &rows.iter().map(|row| line(row, style)).collect::<String>()
}

fn line(row: &ExposureRow, style: Style) -> String {
    let label = lengths(&row.lens);
    // a label that is too long has a line of its own
    let label = if label.len() > LENGTHS {
        format!("{label}\n{:<LENGTHS$}", "")
    } else {
        format!("{label:<LENGTHS$}")
    };
    let ways: String = row.ways.iter().map(|way| letter(*way)).collect();
    let share = row.figures.share_in_band();
    let share_text = format!("{:>8}", percent(share));
    let share_text = match share {
        Some(share) if share > 0.0 && style.colour => paint(&share_text, Paint::Red),
        _ => share_text,
    };
    let line = format!(
        "{label} {ways:<6} {:<5}{:>6}{share_text}{:>6} {}",
        heap(&row.states),
        row.figures.samples,
        factor(row.figures.slowdown),
        histogram(&row.histogram)
    );
    format!("{}\n", line.trim_end())
}

/// `64 KiB`, `64 KiB-64 MiB`.
fn lengths(lens: &[u64]) -> String {
    match lens {
        [] => String::new(),
        [one] => buffer_length(*one),
        [first, .., last] => format!("{}-{}", buffer_length(*first), buffer_length(*last)),
    }
}

fn letter(way: Way) -> char {
    match way {
        Way::Malloc => 'm',
        Way::Calloc => 'c',
        Way::Realloc => 'r',
        Way::Memalign64 => 'a',
        Way::Memalign4096 => 'p',
        Way::Vec => 'V',
    }
}

/// Bars, the most frequent part of the page the highest; a part without any is empty.
fn histogram(counts: &[u64]) -> String {
    let columns: Vec<u64> =
        counts.chunks(counts.len().div_ceil(COLUMNS).max(1)).map(|c| c.iter().sum()).collect();
    let highest = columns.iter().copied().max().unwrap_or(0).max(1);
    let bar = |count: u64| match count {
        0 => ' ',
        count => BARS[((count * 8).div_ceil(highest) as usize).clamp(1, 8) - 1],
    };
    columns.into_iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_the_highest_and_the_rarest() {
        let mut counts = vec![0; 64];
        (counts[0], counts[1], counts[63]) = (400, 400, 1);
        let shown = histogram(&counts);
        assert_eq!(shown.chars().count(), 32);
        assert!(
            shown.starts_with('█')
                && shown.ends_with('▁')
                && shown.trim_matches(['█', '▁']).trim().is_empty()
        );
        assert_eq!(histogram(&[]), "");
        assert_eq!(histogram(&[0; 64]).trim(), "");
    }
}
