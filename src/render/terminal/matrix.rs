//! The page-offset throughput matrices: rows are offsets, columns allocators and lengths.

use super::Style;
use super::column::{Column, Slow};
use super::plane;
use super::rows::{Row, Which, rows};
use super::scanline::{SWEPT, Scanline};
use super::summary::{FEW, state_of};
use crate::render::number::{bytes, counted, gigabytes, offset, times_briefly};
use crate::render::text::{Paint, paint, paragraph};
use crate::report::{self, Allocator, Depth, Options, PathName, Phase, Report, Scan, State};
use comfy_table::{Attribute, Cell, CellAlignment, Color, LineStyle, Table, TableStyle};
use std::collections::BTreeSet;

/// From this length on a column belongs to the first matrix; shorter copies follow in their own.
const LONG: u64 = 16 << 10;
/// Below this, a row inside a band is a hole in it and not marked: bands do not split at aligned
/// offsets, and the edges of mild ones are approximate.
const HOLE: f64 = 1.15;

/// The matrices of every copy path in the report, and what their marks mean.
pub fn matrices(report: &Report, style: Style) -> String {
    if report.cells.is_empty() {
        return paragraph("", "No samples were recorded.", style.width);
    }
    let paths: BTreeSet<PathName> =
        report.cells.iter().filter(|c| is_swept(report, c)).map(|c| c.path).collect();
    let many = paths.len() > FEW;
    let shown = paths.iter().filter(|p| !many || state_of(report, **p) == Some(State::Affected));
    let mut out: Vec<String> =
        shown.clone().take(FEW).flat_map(|path| of_path(report, *path, style)).collect();
    out.extend(legend(&out, style));
    let left = shown.count().saturating_sub(FEW);
    if many && left > 0 {
        let paths = counted(left as u64, "more slow path");
        let text =
            format!("The matrices of {paths} are left out: fsprobe sweep --paths shows one by itself.");
        out.push(paragraph("", &text, style.width));
    }
    out.join("\n")
}

/// Whether a cell is of a sweep over offsets, not of a search for lengths.
pub fn is_swept(report: &Report, cell: &report::Cell) -> bool {
    report.runs.get(cell.run).is_none_or(|run| run.phase != Phase::Lengths)
}

/// The matrix of a path along the allocator's side, after its maps where both sides were swept.
fn of_path(report: &Report, path: PathName, style: Style) -> Vec<String> {
    let (own, other) = (path.own_scan(), held_side(path.own_scan()));
    let mut out = plane::maps(report, path, style);
    let is_plane = !out.is_empty();
    if let Some((line, lines)) = Scanline::fullest(report, path, own) {
        out.extend(of_line(report, line, style));
        if lines > 1 {
            let [_, held] = names(own);
            let text = format!("{path} was swept at {lines} {held} offsets; shown is {}.", offset(line.held));
            out.push(paragraph("", &text, style.width));
        }
    }
    if let Some((line, 1..)) = Scanline::fullest(report, path, other).filter(|_| !is_plane) {
        out.extend(other_side(report, line, style));
    }
    out
}

/// The side that a scan varies, and the other.
fn names(scan: Scan) -> [&'static str; 2] {
    match scan {
        Scan::Dst => ["destination", "source"],
        Scan::Src => ["source", "destination"],
    }
}

/// The matrices of one line: as many lengths side by side as fit.
fn of_line(report: &Report, line: Scanline, style: Style) -> Vec<String> {
    side_by_side(Column::all(report, line), line, style)
}

/// The order of columns: long copies first, then the short ones.
pub fn order(column: &Column) -> (bool, u64, Option<Allocator>) {
    (column.len < LONG, column.len, column.allocator)
}

fn side_by_side(mut left: Vec<Column>, line: Scanline, style: Style) -> Vec<String> {
    left.sort_by_key(order);
    let mut out = Vec::new();
    while !left.is_empty() {
        let (count, text) = widest_that_fits(&left, line, style);
        left.drain(..count);
        out.extend(text);
    }
    out
}

/// Columns of text that a column takes at least: its offset or throughput, and a blank.
const NARROWEST: usize = 4;

/// The matrix of the first lengths that fit side by side (long and short ones apart), or of the first
/// columns where not even one length fits; with the number of columns used up.
fn widest_that_fits(columns: &[Column], line: Scanline, style: Style) -> (usize, Option<String>) {
    let is_end = |n: &usize| columns.get(*n).is_none_or(|next| next.len != columns[*n - 1].len);
    let alike = columns.iter().take_while(|c| (c.len < LONG) == (columns[0].len < LONG)).count();
    // no column is narrower than its blank, digits and point
    let alike = alike.min(style.width / NARROWEST);
    let by_length = (1..=alike).rev().filter(is_end);
    for count in by_length.chain((1..=alike).rev()) {
        let text = matrix(&columns[..count], line, style);
        let fits = |t: &str| t.lines().all(|l| textwrap::core::display_width(l) <= style.width);
        if count == 1 || text.as_deref().is_none_or(fits) {
            return (count, text);
        }
    }
    (columns.len(), None)
}

/// One matrix under its title; none where no cell has a sample.
fn matrix(columns: &[Column], line: Scanline, style: Style) -> Option<String> {
    let (labels, texts) = cells(columns);
    if labels.is_empty() {
        return None;
    }
    let mut table = Table::new();
    table.force_no_tty();
    if style.colour {
        // crossterm leaves the colour out under NO_COLOR; the marks and bold remain
        table.enforce_styling().style_text_only();
    }
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─')));
    table.set_header(heading(columns, line.scan));
    for (label, values) in labels.iter().zip(align(texts)) {
        table.add_row(std::iter::once(Cell::new(label)).chain(values));
    }
    if columns.iter().any(|c| !c.natural.is_empty()) {
        table.add_row(
            std::iter::once(Cell::new("")).chain(columns.iter().map(|c| Cell::new(natural_places(c)))),
        );
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((u16::from(index > 0), 0));
        column.set_cell_alignment(if index > 0 { CellAlignment::Right } else { CellAlignment::Left });
    }
    Some(format!("{}\n{}\n", title(line, style), table.trim_fmt()))
}

/// The labels of a matrix's rows and what stands in each, the natural row last; none where no cell has a
/// sample.
pub fn cells(columns: &[Column]) -> (Vec<String>, Vec<Vec<Value>>) {
    let rows = rows(columns);
    let mut labels: Vec<String> = rows.iter().map(|r| r.label(columns).unwrap_or_default()).collect();
    let mut texts: Vec<Vec<Value>> =
        rows.iter().map(|row| columns.iter().map(|c| Value::of_row(c, *row)).collect()).collect();
    if !rows.is_empty() && columns.iter().any(|c| !c.natural.is_empty()) {
        labels.push("natural".into());
        texts.push(columns.iter().map(Value::natural).collect());
    }
    (labels, texts)
}

/// What a matrix shows.
pub fn subject(line: Scanline) -> String {
    let [varied, held] = names(line.scan);
    format!("{}: GB/s by page offset of the {varied} ({held} at {})", line.path, offset(line.held))
}

fn title(line: Scanline, style: Style) -> String {
    let text = paragraph("", &subject(line), style.width);
    if style.colour { paint(text.trim_end(), Paint::Bold) } else { text.trim_end().into() }
}

fn heading(columns: &[Column], scan: Scan) -> Vec<Cell> {
    let of = |c: &Column| Cell::new(format!("{}\n{}", owner(c), bytes(c.len)));
    std::iter::once(Cell::new(format!("\n{scan}"))).chain(columns.iter().map(of)).collect()
}

/// Who placed a column's buffers.
pub fn owner(column: &Column) -> &'static str {
    column.allocator.map_or("recorded", |a| a.word())
}

/// What stands in a cell of the matrix: throughput, and a mark where it is slow.
pub struct Value {
    pub throughput: String,
    pub mark: String,
    pub depth: Option<Depth>,
}

impl Value {
    fn of_row(column: &Column, row: Row) -> Value {
        let aligned = row.which == Which::Aligned || (row.from == row.to && Row::is_aligned(row.from));
        Value::new(column, column.throughput(row), aligned, column.band_of(row))
    }

    /// At the offsets that the allocator returned on its own.
    fn natural(column: &Column) -> Value {
        let aligned = column.natural.iter().all(|o| Row::is_aligned(*o));
        let bands: Vec<Slow> = column.natural.iter().filter_map(|o| column.band_at(*o)).collect();
        let all = bands.len() == column.natural.len();
        let band = bands.first().filter(|_| all).copied();
        let value = Value::new(column, column.natural_throughput(), aligned, band);
        match bands.iter().filter(|b| b.depth == Depth::Deep && b.confirmed).count() {
            deep if deep > 0 && !all => {
                Value { mark: format!("!{deep}/{}", column.natural.len()), depth: Some(Depth::Deep), ..value }
            }
            _ => value,
        }
    }

    fn new(column: &Column, throughput: Option<f64>, aligned: bool, band: Option<Slow>) -> Value {
        let Some(throughput) = throughput else {
            return Value { throughput: "·".into(), mark: String::new(), depth: None };
        };
        let is_slow = |band: &Slow| {
            column.slowdown(throughput, aligned, *band) >= HOLE || (band.depth == Depth::Deep && !aligned)
        };
        let slow = band.filter(is_slow);
        // a row's own samples; where noise takes those beyond its band's depth, the figure that was judged
        let mark = |band: Slow| {
            let own = column.slowdown(throughput, aligned, band);
            let fits = (own >= Options::AFFECTED_AT) == (band.slowdown >= Options::AFFECTED_AT);
            format!("{}{}", sign(band), times_briefly(if fits { own } else { band.slowdown }))
        };
        Value {
            throughput: gigabytes(throughput),
            mark: slow.map(mark).unwrap_or_default(),
            depth: slow.filter(|band| band.confirmed).map(|band| band.depth),
        }
    }
}

fn sign(band: Slow) -> char {
    match band.depth {
        _ if !band.confirmed => '?',
        Depth::Deep => '!',
        Depth::Mild => '~',
    }
}

/// Cells whose numbers stand below each other, with the marks sticking out to the right.
fn align(rows: Vec<Vec<Value>>) -> Vec<Vec<Cell>> {
    let widest =
        |column: usize, part: fn(&Value) -> usize| rows.iter().map(|r| part(&r[column])).max().unwrap_or(0);
    let columns = rows.first().map_or(0, Vec::len);
    let marks: Vec<usize> = (0..columns).map(|c| widest(c, |v| v.mark.chars().count())).collect();
    let cell = |value: &Value, widest: usize| {
        let gap = if widest > 0 { " " } else { "" };
        let cell = Cell::new(format!("{}{gap}{:<widest$}", value.throughput, value.mark));
        match value.depth {
            Some(Depth::Deep) => cell.fg(Color::Red).add_attribute(Attribute::Bold),
            Some(Depth::Mild) => cell.fg(Color::Yellow),
            None => cell,
        }
    };
    rows.iter().map(|row| row.iter().zip(&marks).map(|(v, w)| cell(v, *w)).collect()).collect()
}

/// The second line of the natural row: which offset, or how many.
pub fn natural_places(column: &Column) -> String {
    match column.natural.len() {
        0 => String::new(),
        1 => column.natural.iter().map(|o| format!("@{}", offset(*o))).collect(),
        count => format!("@{}", counted(count as u64, "offset")),
    }
}

/// A sweep over the path's own side: a matrix where a band lies in it, else one line.
fn other_side(report: &Report, line: Scanline, style: Style) -> Vec<String> {
    let mut columns = Column::all(report, line);
    columns.retain(|c| c.places() >= SWEPT);
    if columns.iter().any(Column::has_slow_places) {
        return side_by_side(columns, line, style);
    }
    let whole = Row { from: 0, to: crate::report::PAGE - 1, which: Which::All };
    let Some(range) = whole.label(&columns) else { return vec![] };
    let speeds = columns.iter().filter_map(|c| Some((c, c.throughput(whole)?)));
    let with = |c: &Column| c.allocator.map(|a| format!(" with {a}")).unwrap_or_default();
    let speeds: Vec<String> = speeds
        .map(|(c, speed)| format!("{} GB/s at {}{}", gigabytes(speed), bytes(c.len), with(c)))
        .collect();
    let text = format!(
        "{}: {} {range} at {} {}: no band ({}).",
        line.path,
        line.scan,
        held_side(line.scan),
        offset(line.held),
        speeds.join(", ")
    );
    vec![paragraph("", &text, style.width)]
}

/// The side that a scan holds.
pub fn held_side(scan: Scan) -> Scan {
    match scan {
        Scan::Dst => Scan::Src,
        Scan::Src => Scan::Dst,
    }
}

/// What the signs that occur mean.
fn legend(shown: &[String], style: Style) -> Option<String> {
    let occurs = |is: &dyn Fn(&str) -> bool| shown.iter().flat_map(|t| t.split_whitespace()).any(is);
    let signs = [
        (occurs(&|w| w.contains('!') && w.contains('x')), "!: in a deep band, so many times slower"),
        (occurs(&|w| w.contains('~')), "~: in a mild band"),
        (occurs(&|w| w.starts_with('?') && w.ends_with('x')), "?: seems slow, not confirmed by fresh rounds"),
        (occurs(&|w| w.contains('!') && w.contains('/')), "!4/8: so many of the offsets in a deep band"),
        (occurs(&|w| w == "natural"), "natural: where the allocator itself puts buffers"),
        (
            occurs(&|w| w.starts_with("0x") && w.ends_with('*')),
            "*: multiples of 0x20 only, left out of the row above",
        ),
        (occurs(&|w| w == "·"), "·: not measured"),
    ];
    let meant: Vec<&str> = signs.into_iter().filter(|(occurs, _)| *occurs).map(|(_, text)| text).collect();
    (!meant.is_empty()).then(|| paragraph("", &meant.join("; "), style.width))
}
