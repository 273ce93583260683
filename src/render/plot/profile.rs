//! What a profile shows: for one length, the throughput of each allocator over page offsets.

use super::scale::{Speeds, Window};
use crate::render::number::{bytes, counted, gigabytes, offset, span, times};
use crate::render::terminal::column::{Column, Slow};
use crate::render::terminal::matrix::{held_side, order, owner};
use crate::render::terminal::plane::planes;
use crate::render::terminal::rows::{Row, Which};
use crate::render::terminal::scanline::{SWEPT, Scanline};
use crate::report::{Depth, PAGE, PathName, Report, Scan, distance};

/// Fewer offsets than this make no picture.
const FEWEST: usize = 8;
/// And fewer than this no close-up.
const FEWEST_CLOSE: usize = 4;
/// Offsets shown around a band, and around 0x000 where there is none.
const AROUND: u16 = 0x10;
/// The narrowest close-up, in offsets.
const NARROWEST: u16 = 0x58;
/// A wider band is shown at its last edge alone.
const WIDEST: u16 = 0x200;

/// A line through the plane of offsets with what was measured along it.
pub(crate) struct Swept {
    pub line: Scanline,
    /// How many offsets the other side was held at in turn.
    pub lines: usize,
    /// In the order of the matrices: long copies before short ones.
    pub columns: Vec<Column>,
}

/// The lines of a path that were swept: along the allocator's side, and along the other unless both were.
pub(crate) fn swept(report: &Report, path: PathName) -> Vec<Swept> {
    let own = path.own_scan();
    let along = |scan: Scan| {
        let (line, lines) = Scanline::fullest(report, path, scan)?;
        let mut columns = Column::all(report, line);
        columns.sort_by_key(order);
        Some(Swept { line, lines, columns })
    };
    let other = || {
        let mut other = along(held_side(own)).filter(|swept| swept.lines > 0)?;
        other.columns.retain(|c| c.places() >= SWEPT);
        Some(other)
    };
    let both = !planes(report, path).is_empty();
    let other = if both { None } else { other() };
    along(own).into_iter().chain(other).filter(|swept| !swept.columns.is_empty()).collect()
}

/// One length along a line.
pub(crate) struct Profile {
    pub line: Scanline,
    pub len: u64,
    pub series: Vec<Series>,
    /// The bands of all allocators, the slowest first.
    pub bands: Vec<Slow>,
}

/// One allocator.
pub(crate) struct Series {
    pub name: &'static str,
    /// Which of the four kinds of line.
    pub ink: usize,
    /// GB/s over page offset.
    pub points: Vec<(u16, f64)>,
    /// Where the allocator puts buffers itself.
    pub natural: Vec<u16>,
}

/// The profiles of a line, one a length.
pub(crate) fn profiles(swept: &Swept) -> Vec<Profile> {
    let columns: Vec<&Column> = swept.columns.iter().filter(|c| c.places() >= FEWEST).collect();
    let of_length = |columns: &[&Column]| Profile {
        line: swept.line,
        len: columns[0].len,
        series: columns.iter().map(|c| series(c)).collect(),
        bands: bands(columns),
    };
    columns.chunk_by(|a, b| a.len == b.len).map(of_length).collect()
}

fn series(column: &Column) -> Series {
    let whole = Row { from: 0, to: PAGE - 1, which: Which::All };
    let speed = |o: u16| Some((o, column.throughput_at(std::iter::once(o))? / 1e9));
    Series {
        name: owner(column),
        ink: column.allocator.map_or(0, |a| a as usize),
        points: column.measured(whole).filter_map(speed).collect(),
        natural: column.natural.iter().copied().collect(),
    }
}

fn bands(columns: &[&Column]) -> Vec<Slow> {
    let mut all: Vec<Slow> = columns.iter().flat_map(|c| c.bands.iter().copied()).collect();
    all.sort_by(|a, b| b.slowdown.total_cmp(&a.slowdown));
    let mut kept: Vec<Slow> = vec![];
    for band in all {
        if !kept.iter().any(|k| (k.at, k.depth) == (band.at, band.depth)) {
            kept.push(band);
        }
    }
    kept
}

impl Profile {
    /// The axis that holds every point.
    pub fn speeds(&self) -> Option<Speeds> {
        Speeds::over(self.series.iter().flat_map(|s| s.points.iter().map(|(_, speed)| *speed)))
    }

    /// A close-up of the deepest band, or of where the published ones lie; none where hardly anything was
    /// measured there.
    pub fn close_up(&self) -> Option<Window> {
        let deepest = self.bands.iter().min_by_key(|b| b.depth != Depth::Deep);
        let (first, last) = deepest.map_or((0, 0x00f), |b| (b.at.from, b.at.to));
        let first = if distance(last, first) < WIDEST { first } else { last };
        let width = (distance(last, first) + 1 + 2 * AROUND).max(NARROWEST);
        let window = Window { from: distance(first, AROUND), width };
        let inside = |s: &Series| s.points.iter().filter(|(o, _)| window.place(*o).is_some()).count();
        self.series.iter().any(|s| inside(s) >= FEWEST_CLOSE).then_some(window)
    }

    /// What the picture shows, in sentences.
    pub fn description(&self, window: Window) -> String {
        let last = (window.from + window.width - 1) % PAGE;
        let mut text = format!(
            "Throughput in GB/s on a logarithmic scale over page offsets {} to {} of the {}.",
            offset(window.from),
            offset(last),
            side(self.line.scan)
        );
        for series in &self.series {
            let inside = || series.points.iter().filter(|(o, _)| window.place(*o).is_some());
            let slowest = inside().min_by(|a, b| a.1.total_cmp(&b.1));
            let fastest = inside().max_by(|a, b| a.1.total_cmp(&b.1));
            if let (Some(slowest), Some(fastest)) = (slowest, fastest) {
                let at = |(o, speed): &(u16, f64)| format!("{} at {}", gigabytes(speed * 1e9), offset(*o));
                text += &format!(" {}: from {} to {}.", series.name, at(slowest), at(fastest));
            }
        }
        let shown = self.bands.iter().filter(|b| !window.parts(b.at).is_empty());
        for band in shown.clone().take(4) {
            let place = span(band.at.from, band.at.to);
            text += &format!(" {} band at {place}, {} slower.", capital(band.depth), times(band.slowdown));
        }
        let left = shown.count().saturating_sub(4);
        if left > 0 {
            text += &format!(" {} more.", counted(left as u64, "band"));
        }
        text
    }

    /// `read of 64 KiB`.
    pub fn name(&self) -> String {
        format!("{} of {}", self.line.path, bytes(self.len))
    }
}

/// The varied side in a word.
pub(crate) fn side(scan: Scan) -> &'static str {
    match scan {
        Scan::Dst => "destination",
        Scan::Src => "source",
    }
}

fn capital(depth: Depth) -> &'static str {
    match depth {
        Depth::Deep => "Deep",
        Depth::Mild => "Mild",
    }
}
