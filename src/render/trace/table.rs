//! Tables of 80 columns whose texts come from programs and files: cut to their columns, made printable.

use crate::render::number::three;
use crate::render::terminal::Style;
use crate::render::text::{Paint, paint};
use crate::report::{FileKind, TraceRow, printable};
use textwrap::core::display_width;

/// The narrowest column of texts.
const NARROWEST: usize = 8;

/// How wide a column is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Width {
    Left(usize),
    Right(usize),
    /// What the others leave; cut at its end.
    Rest,
    /// What the others leave; cut at its beginning, where a file's name says least.
    Tail,
}

/// One cell.
#[derive(Debug)]
pub struct Cell {
    text: String,
    width: Width,
}

impl Cell {
    fn new(text: &str, width: Width) -> Cell {
        Cell { text: printable(text, 4096), width }
    }

    /// A text in a column of its own width.
    pub fn left(text: &str, width: usize) -> Cell {
        Cell::new(text, Width::Left(width))
    }

    /// A number.
    pub fn right(text: String, width: usize) -> Cell {
        Cell { text, width: Width::Right(width) }
    }

    /// A text that gets what the other columns leave.
    pub fn wide(text: &str) -> Cell {
        Cell::new(text, Width::Rest)
    }

    /// The same, of which the end is kept.
    pub fn tail(text: &str) -> Cell {
        Cell::new(text, Width::Tail)
    }
}

/// A table.
#[derive(Debug)]
pub struct Table<'a> {
    heads: Vec<&'a str>,
    rows: Vec<(Vec<Cell>, bool)>,
}

impl<'a> Table<'a> {
    /// A table with its headings.
    pub fn new(heads: &[&'a str]) -> Table<'a> {
        Table { heads: heads.to_vec(), rows: vec![] }
    }

    /// A row; `marked` where it is the one to look at.
    pub fn push(&mut self, cells: Vec<Cell>, marked: bool) {
        self.rows.push((cells, marked));
    }

    /// The text, of at most so many rows; none without rows.
    pub fn text(&self, most: usize, style: Style) -> String {
        let Some((first, _)) = self.rows.first() else { return String::new() };
        let widths: Vec<Width> = first.iter().map(|cell| cell.width).collect();
        let fixed: usize = widths
            .iter()
            .map(|width| match width {
                Width::Left(width) | Width::Right(width) => width + 1,
                Width::Rest | Width::Tail => 1,
            })
            .sum();
        let rest = style.width.min(80).saturating_sub(fixed - 1).max(NARROWEST);
        let heads = self.heads.iter().zip(&widths).map(|(head, width)| placed(head, *width, rest));
        let mut out = line(heads);
        out += &format!("{}\n", "─".repeat(display_width(out.trim_end())));
        for (cells, marked) in self.rows.iter().take(most) {
            let said = line(cells.iter().map(|cell| placed(&cell.text, cell.width, rest)));
            out += &match style.colour && *marked {
                true => paint(said.trim_end(), Paint::Red) + "\n",
                false => said,
            };
        }
        if self.rows.len() > most {
            out += &format!("… and {} more\n", self.rows.len() - most);
        }
        out
    }
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    cells.join(" ").trim_end().to_owned() + "\n"
}

/// A text in its column.
fn placed(text: &str, width: Width, rest: usize) -> String {
    let columns = match width {
        Width::Left(columns) | Width::Right(columns) => columns,
        Width::Rest | Width::Tail => rest,
    };
    let text = if display_width(text) <= columns {
        text.to_owned()
    } else {
        cut(text, columns, width == Width::Tail)
    };
    let pad = " ".repeat(columns.saturating_sub(display_width(&text)));
    if matches!(width, Width::Right(_)) { pad + &text } else { text + &pad }
}

/// As much of a text as columns hold, with a mark where it was cut.
fn cut(text: &str, columns: usize, keep_end: bool) -> String {
    let mut kept = String::new();
    let mut chars: Vec<char> = text.chars().collect();
    if keep_end {
        chars.reverse();
    }
    for c in chars {
        kept.push(c);
        if display_width(&kept) >= columns {
            kept.pop();
            break;
        }
    }
    if keep_end { format!("…{}", kept.chars().rev().collect::<String>()) } else { format!("{kept}…") }
}

/// A row's file, or what stands in its place.
pub fn file(row: &TraceRow) -> String {
    let kind = row.kind.unwrap_or(FileKind::Unknown);
    match (&row.place, kind) {
        (Some(file), FileKind::Direct) => format!("{file} (O_DIRECT)"),
        (Some(file), _) => file.clone(),
        (None, FileKind::Memory) => "(memory)".into(),
        (None, FileKind::Direct) => "(a file, O_DIRECT)".into(),
        (None, FileKind::PageCache) => "(a file)".into(),
        (None, FileKind::Uncached) => "(a file outside the page cache)".into(),
        (None, kind) => format!("({kind})"),
    }
}

/// `9.40 s`, `340 ms`, `12.0 µs`, `800 ns`.
pub fn duration(ns: u64) -> String {
    match ns as f64 {
        ns if ns >= 0.9995e9 => format!("{} s", three(ns / 1e9)),
        ns if ns >= 0.9995e6 => format!("{} ms", three(ns / 1e6)),
        ns if ns >= 0.9995e3 => format!("{} µs", three(ns / 1e3)),
        ns => format!("{ns:.0} ns"),
    }
}

/// A number in at most eight columns.
pub fn count(number: u64) -> String {
    match number {
        ..100_000_000 => number.to_string(),
        _ => format!("{} M", three(number as f64 / 1e6)),
    }
}

/// `64.0 MiB`, `700 B`.
pub fn size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| bytes >= 1 << shift) {
        Some((shift, unit)) => format!("{} {unit}", three(bytes as f64 / f64::from(shift).exp2())),
        None => format!("{bytes} B"),
    }
}
