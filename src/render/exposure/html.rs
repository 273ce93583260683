//! A page: each allocator's rows with their histograms, then every figure as a table. It asks nothing of any
//! network and runs no script, as the pages of reports.

use super::{bands, factor, heading, heap, notes, percent};
use crate::render::html::tables::{Head, scrolling};
use crate::render::html::{POLICY, STYLE};
use crate::render::markup::escaped;
use crate::render::number::offset;
use crate::render::plot::drawing::{Anchor, Drawing, Ink};
use crate::render::plot::{palette, vector};
use crate::report::{
    Exposure, ExposureRow, Host, MetBand, PlacementSummary, State, Subject, Tool, buffer_length, printable,
};

/// Room around the bars of a figure, and how high they are.
const LEFT: f32 = 14.0;
const TOP: f32 = 20.0;
const HIGH: f32 = 84.0;

/// The page.
pub fn html(exposure: &Exposure, host: &Host, recorded_at: &str) -> String {
    let sections: String = exposure
        .subjects
        .iter()
        .enumerate()
        .filter_map(|(index, subject)| section(exposure, index, subject))
        .collect();
    let tool = Tool::this();
    let commit = tool.commit.as_deref().map(|commit| format!(" ({commit})")).unwrap_or_default();
    let footer = format!("Recorded by fsprobe {}{commit} at {recorded_at}.", tool.version);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>fsprobe exposure: where allocators put buffers</title>\n<style>\n{}{}{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the answer</a>\n<header>\n\
         <h1>fsprobe exposure: where allocators put buffers</h1>\n</header>\n<main id=\"main\" tabindex=\"-1\">\n{}\
         {sections}{}{}</main>\n<footer>\n<p>{}</p>\n</footer>\n</body>\n</html>\n",
        palette::css(),
        palette::svg_css(),
        banner(exposure, host),
        figures(exposure),
        rest(exposure),
        escaped(&footer)
    )
}

/// The bands, in the colours of their state.
fn banner(exposure: &Exposure, host: &Host) -> String {
    let (class, sign) = match exposure.bands.state {
        Some(State::Clean) => ("clean", "\u{2713}"),
        Some(State::Affected) => ("affected", "!"),
        Some(State::Inconclusive) | None => ("inconclusive", "?"),
    };
    let cpu = printable(host.cpu.brand.as_deref().unwrap_or("CPU unknown"), 60);
    format!(
        "<div class=\"verdict {class}\" role=\"region\" aria-label=\"Bands\">\n<p class=\"sign\" \
         aria-hidden=\"true\">{sign}</p>\n<div>\n<p>{}</p>\n<p>{}</p>\n</div>\n</div>\n<div class=\"details\">\n<p>Measured on: {}, Linux {}, \
         {} {}. Not taken from what is published.</p>\n</div>\n",
        escaped(&heading(exposure)),
        escaped(&bands(&exposure.bands)),
        escaped(&cpu),
        escaped(&host.kernel.release),
        escaped(&host.libc.name),
        escaped(host.libc.version.as_deref().unwrap_or(""))
    )
}

fn section(exposure: &Exposure, index: usize, subject: &Subject) -> Option<String> {
    let rows: Vec<&ExposureRow> = exposure.rows.iter().filter(|row| row.allocator == subject.name).collect();
    if rows.is_empty() {
        return None;
    }
    let preloaded = if subject.preloaded { " (preloaded)" } else { "" };
    let published = exposure.published.iter().filter(|p| p.allocator == subject.name && !subject.preloaded);
    let published: String = published.map(|p| format!("<p>{}.</p>\n", escaped(&p.sentence))).collect();
    let figures =
        rows.iter().enumerate().map(|(row, of)| figure(exposure, of, &format!("row-{index}-{row}")));
    Some(format!(
        "<section id=\"allocator-{index}\" aria-labelledby=\"allocator-{index}-h\">\n<h2 \
         id=\"allocator-{index}-h\">{}{preloaded}</h2>\n{published}{}</section>\n",
        escaped(&subject.name),
        figures.collect::<String>()
    ))
}

/// A row: its sentence, the whole page and the first offsets.
fn figure(exposure: &Exposure, row: &ExposureRow, id: &str) -> String {
    let deep: Vec<MetBand> = exposure.bands.lens.iter().flat_map(|at| at.bands.iter().copied()).collect();
    let drawings = [
        drawing("The whole page, 64 offsets a bar", &row.histogram, 64, 512.0, &deep),
        drawing("The first 64 offsets, one a bar", &row.close_up, 1, 420.0, &deep),
    ];
    let panels = drawings.iter().enumerate().map(|(number, drawing)| {
        format!(
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\" style=\"--grow:{}\">\n{}</div>\n",
            escaped(&drawing.title),
            drawing.width,
            vector::element(drawing, &format!("{id}-{number}"))
        )
    });
    format!(
        "<figure>\n<figcaption>{}.</figcaption>\n<div class=\"panels\">\n{}</div>\n</figure>\n",
        escaped(&row.sentence),
        panels.collect::<String>()
    )
}

/// Bars of `per_bar` offsets each; deep bands are shaded behind them.
fn drawing(title: &str, counts: &[u64], per_bar: u16, inner: f32, deep: &[MetBand]) -> Drawing {
    let total: u64 = counts.iter().sum();
    let description = format!("{total} allocations lie here.");
    let mut drawing = Drawing::new(inner + 2.0 * LEFT, TOP + HIGH + 22.0, title.into(), description);
    let wide = inner / counts.len().max(1) as f32;
    let bottom = TOP + HIGH;
    let x = |bar: usize| LEFT + bar as f32 * wide;
    for bar in 0..counts.len() {
        let first = bar as u16 * per_bar;
        if (first..first + per_bar).any(|offset| deep.iter().any(|band| band.contains(offset))) {
            drawing.block(Ink::Deep, [x(bar), TOP], [wide, HIGH]);
        }
    }
    let highest = counts.iter().copied().max().unwrap_or(0).max(1) as f32;
    for (bar, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        // even the rarest is seen
        let high = (*count as f32 / highest * HIGH).max(1.5);
        drawing.block(Ink::Series(0), [x(bar) + 0.5, bottom - high], [(wide - 1.0).max(1.0), high]);
    }
    drawing.rule(Ink::Frame, [LEFT, bottom], [LEFT + inner, bottom]);
    drawing.text(Ink::Muted, [LEFT, 13.0], Anchor::Start, format!("{title}; {total} allocations"));
    for bar in (0..counts.len()).step_by(16) {
        drawing.rule(Ink::Frame, [x(bar), bottom], [x(bar), bottom + 4.0]);
        drawing.text(Ink::Muted, [x(bar), bottom + 17.0], Anchor::Start, offset(bar as u16 * per_bar));
    }
    drawing
}

/// Every summary as a table, on demand.
fn figures(exposure: &Exposure) -> String {
    let heads = [
        Head::text("allocator, length"),
        Head::text("way"),
        Head::text("heap"),
        Head::number("allocations"),
        Head::number("different offsets"),
        Head::number("step"),
        Head::text("most often"),
        Head::text("spread"),
        Head::number("in band"),
        Head::number("reads"),
    ];
    let rows: Vec<Vec<String>> = exposure.summaries.iter().map(summary).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "<section id=\"figures\" aria-labelledby=\"figures-h\">\n<h2 id=\"figures-h\">Every figure</h2>\n<details>\n\
         <summary>One row an allocator, length, way and state of the heap</summary>\n{}</details>\n</section>\n",
        scrolling(
            "every",
            "in band: share in a deep band; reads: expected time of reads of a page-aligned file",
            &heads,
            &rows
        )
    )
}

fn summary(summary: &PlacementSummary) -> Vec<String> {
    let PlacementSummary { allocator, len, way, state, figures } = summary;
    let most =
        figures.most.first().map(|at| format!("{} ({})", offset(at.offset), at.count)).unwrap_or_default();
    let test =
        figures.even.map(|even| format!(" (p {:.3}, {} parts)", even.p, even.bins)).unwrap_or_default();
    let name = format!("{}, {}", printable(allocator, 100), buffer_length(*len));
    vec![
        escaped(&name),
        way.word().into(),
        heap(&[*state]).into(),
        figures.samples.to_string(),
        figures.distinct.to_string(),
        figures.step.to_string(),
        most,
        format!("{}{test}", figures.pattern),
        percent(figures.share_in_band()),
        factor(figures.slowdown),
    ]
}

fn rest(exposure: &Exposure) -> String {
    let items: String = notes(exposure).iter().map(|note| format!("<li>{}.</li>\n", escaped(note))).collect();
    match items.is_empty() {
        true => items,
        false => format!(
            "<section id=\"notes\" aria-labelledby=\"notes-h\">\n<h2 id=\"notes-h\">What the numbers rest \
             on</h2>\n<ul>\n{items}</ul>\n</section>\n"
        ),
    }
}
