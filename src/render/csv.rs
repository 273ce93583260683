//! The samples as a table for analysts: one row a sample, RFC 4180, decimal numbers and fsprobe's own words.
//!
//! No text of a report goes in, so no cell can hold a formula, a line feed or a terminal escape.

use crate::report::{Cell, Report, distance};
use csv::{ByteRecord, Terminator, WriterBuilder};

/// The columns, in order (docs/report-format.md).
pub const COLUMNS: [&str; 13] = [
    "path",
    "allocator",
    "dst",
    "src",
    "distance",
    "len",
    "repeat",
    "reference",
    "run",
    "phase",
    "simulated",
    "round",
    "ns",
];
/// Columns that differ between the samples of one cell: the round and its nanoseconds.
const OF_SAMPLE: usize = 2;

/// The whole table with its heading; a lost sample has an empty `ns`.
pub fn csv(report: &Report) -> String {
    let samples: usize = report.cells.iter().map(|c| c.ns.len()).sum();
    let buffer = Vec::with_capacity(samples.saturating_mul(80));
    let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(buffer);
    let written = rows(report, &mut writer);
    let bytes = written.and_then(|()| writer.into_inner().map_err(|e| e.into_error().into()));
    String::from_utf8(bytes.expect("memory takes every row")).expect("numbers and words are ASCII")
}

fn rows(report: &Report, writer: &mut csv::Writer<Vec<u8>>) -> csv::Result<()> {
    writer.write_record(COLUMNS)?;
    let simulated = report.is_simulated();
    for cell in &report.cells {
        let same = of_cell(report, cell, simulated);
        let mut row = ByteRecord::from(&same[..]);
        for (round, ns) in cell.ns.iter().enumerate() {
            row.truncate(COLUMNS.len() - OF_SAMPLE);
            row.push_field(round.to_string().as_bytes());
            row.push_field(ns.map_or(String::new(), |ns| ns.to_string()).as_bytes());
            writer.write_byte_record(&row)?;
        }
    }
    Ok(())
}

/// What every sample of a cell has in common.
fn of_cell(report: &Report, cell: &Cell, simulated: bool) -> [String; COLUMNS.len() - OF_SAMPLE] {
    let offset = |offset: Option<u16>| offset.map_or(String::new(), |o| o.to_string());
    let phase = report.runs.get(cell.run).map_or("", |run| run.phase.word());
    [
        cell.path.word().into(),
        cell.allocator.map_or("", |a| a.word()).into(),
        offset(cell.dst),
        offset(cell.src),
        offset(cell.dst.zip(cell.src).map(|(dst, src)| distance(dst, src))),
        cell.len.to_string(),
        cell.repeat.to_string(),
        cell.reference.to_string(),
        cell.run.to_string(),
        phase.into(),
        simulated.to_string(),
    ]
}
