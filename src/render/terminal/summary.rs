//! Many copy paths at a glance: a line each, with its deepest band.

use super::Style;
use crate::render::number::{bytes, gigabytes, on_circle, span, three, times_briefly};
use crate::render::text::{Paint, paint};
use crate::report::{Axis, Band, Depth, PathName, PathVerdict, Report, Scan, State, distance};
use comfy_table::{Attribute, Cell, CellAlignment, Color, LineStyle, Table, TableStyle};
use std::collections::BTreeSet;

/// Up to so many paths need no summary: each has its matrix.
pub const FEW: usize = 3;

/// Whether the report holds more paths than can be shown one by one.
pub fn has_many_paths(report: &Report) -> bool {
    paths(report).len() > FEW
}

/// The copy paths judged.
pub fn paths(report: &Report) -> BTreeSet<PathName> {
    report.verdict.paths.iter().map(|v| v.path).collect()
}

/// The worst state of a path.
pub fn state_of(report: &Report, path: PathName) -> Option<State> {
    report.verdict.paths.iter().filter(|v| v.path == path).map(|v| v.state).max()
}

/// The columns, those that a narrow terminal keeps, and those of words.
const HEADING: [&str; 8] = ["path", "state", "at", "GB/s", "slow", "", "ns/KiB", "deepest band"];
const NARROW: [usize; 4] = [0, 1, 5, 7];
const LEFT: [usize; 3] = [0, 1, 7];

/// The table; nothing where few paths were measured.
pub fn summary(report: &Report, style: Style) -> String {
    if !has_many_paths(report) {
        return String::new();
    }
    let rows: Vec<(State, [String; 8])> =
        paths(report).into_iter().filter_map(|path| row(report, path)).collect();
    let wide = table(&rows, &[0, 1, 2, 3, 4, 5, 6, 7], style);
    let fits = wide.lines().all(|line| textwrap::core::display_width(line) <= style.width);
    let table = if fits { wide } else { table(&rows, &NARROW, style) };
    let title = "Copy paths, each with its deepest band";
    let title = if style.colour { paint(title, Paint::Bold) } else { title.into() };
    format!("{title}\n{table}\n")
}

fn table(rows: &[(State, [String; 8])], columns: &[usize], style: Style) -> String {
    let mut table = Table::new();
    table.force_no_tty();
    if style.colour {
        table.enforce_styling().style_text_only();
    }
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─')));
    table.set_header(columns.iter().map(|c| HEADING[*c]));
    for (state, texts) in rows {
        let colour = match state {
            State::Affected => Color::Red,
            State::Inconclusive => Color::Yellow,
            State::Clean => Color::Green,
        };
        table.add_row(columns.iter().map(|column| match column {
            1 => Cell::new(&texts[1]).fg(colour).add_attribute(Attribute::Bold),
            column => Cell::new(&texts[*column]),
        }));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((u16::from(index > 0), 0));
        let left = LEFT.contains(&columns[index]);
        column.set_cell_alignment(if left { CellAlignment::Left } else { CellAlignment::Right });
    }
    table.trim_fmt()
}

/// A path's line: at the length of its deepest band, else at the longest of its short lengths.
fn row(report: &Report, path: PathName) -> Option<(State, [String; 8])> {
    let of_path = || report.verdict.paths.iter().filter(move |v| v.path == path);
    let state = state_of(report, path)?;
    let (verdict, rest) = match deepest(report, path) {
        Some((verdict, band)) => (
            verdict,
            [
                gigabytes(band.bytes_per_s),
                times_briefly(band.slowdown),
                three(band.penalty_ns_per_kib),
                place(path, band),
            ],
        ),
        None => {
            let longest = of_path().filter(|v| v.len <= 64 << 10).max_by_key(|v| v.len);
            (longest.or(of_path().next())?, ["", "", "", "none"].map(String::from))
        }
    };
    let [speed, factor, penalty, place] = rest;
    let [path, word] = [path.word(), state.word()].map(String::from);
    let (len, clean) = (bytes(verdict.len), gigabytes(verdict.baseline_bytes_per_s));
    Some((state, [path, word, len, clean, speed, factor, penalty, place]))
}

/// A path's slowest deep band, confirmed ones first.
pub fn deepest(report: &Report, path: PathName) -> Option<(&PathVerdict, &Band)> {
    let of_path = report.verdict.paths.iter().filter(|v| v.path == path);
    let deep =
        of_path.flat_map(|v| v.bands.iter().map(move |b| (v, b))).filter(|(_, b)| b.depth == Depth::Deep);
    deep.max_by(|a, b| a.1.confirmed.cmp(&b.1.confirmed).then(a.1.slowdown.total_cmp(&b.1.slowdown)))
}

/// `distance 0x001-0x00f`: where a band lies, in its axis.
fn place(path: PathName, band: &Band) -> String {
    let (from, to) = (on_circle(band.from), on_circle(band.to));
    match band.axis {
        Some(axis) if axis != Axis::Mixed => format!("{axis} {}", span(from, to)),
        _ => match as_distance(path, band) {
            Some([from, to]) => format!("distance {}", span(from, to)),
            None => format!("{} {}", band.scan, span(from, to)),
        },
    }
}

/// A band without an axis of a path whose destination is always at 0x000, as distances: there, distance
/// and source offset say the same.
pub fn as_distance(path: PathName, band: &Band) -> Option<[u16; 2]> {
    let told = band.axis.is_none() && band.scan == Scan::Src && path.fixed() == Some(Scan::Dst);
    told.then(|| [distance(0, on_circle(band.to)), distance(0, on_circle(band.from))])
}
