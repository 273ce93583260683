//! A report for a bug tracker or a mailing list: plain ASCII, at most 80 columns, the facts in the order
//! in which a maintainer asks for them, and a C program that shows it without fsprobe.

use super::ascii::ascii;
use super::band_table::{Row, clean, rows};
use super::facts::{self, Fact};
use super::reproducer::Reproducer;
use super::{said, terminal};
use crate::report::{Report, printable};
use textwrap::{Options, WordSeparator, WordSplitter};

/// Columns.
const WIDTH: usize = 80;
/// Columns of a fact's label.
const LABEL: usize = 20;

/// Columns of the bands, as many as fit: all, without throughput, without the penalty's interval, without any.
const COLUMNS: [&[usize]; 4] = [
    &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    &[0, 1, 2, 3, 4, 6, 7, 8, 9],
    &[0, 1, 2, 3, 4, 6, 7, 8],
    &[0, 1, 2, 3, 4, 6, 8],
];

/// The whole text.
pub fn ticket(report: &Report) -> String {
    let title = format!(
        "fsprobe {}: {}{}, {}",
        printable(&report.run.command, 20),
        facts::headword(report),
        if report.is_simulated() { " (simulated)" } else { "" },
        facts::when(report)
    );
    let title = filled("", &title);
    let machine = section("Machine", &facts(facts::machine(report)));
    let verdict = section("Verdict", &paragraphs(said::verdict(report)));
    let bands = section("Bands", &bands(report));
    let matrix = section("Throughput", &ascii(&terminal::matrices(report)));
    let noise = facts(facts::method(report)) + &paragraphs(said::noise(report));
    let noise = section("Noise, and how it was measured", &noise);
    let parts = [title, machine, verdict, bands, matrix, noise, reproduce(report)];
    // a check has no matrix
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

fn section(title: &str, body: &str) -> String {
    if body.trim().is_empty() {
        return String::new();
    }
    format!("== {title} ==\n{}\n", body.trim_end())
}

fn facts(facts: Vec<Fact>) -> String {
    facts.into_iter().map(|(label, fact)| filled(&format!("{label:<LABEL$}"), &fact)).collect()
}

fn paragraphs(lines: Vec<String>) -> String {
    let line = |line: &String| {
        let (label, text) = said::labelled(line);
        filled(&ascii(label), text)
    };
    lines.iter().map(line).collect()
}

/// A paragraph of ASCII, its first line after the label and the others below.
fn filled(label: &str, text: &str) -> String {
    let indent = " ".repeat(label.len());
    let options = Options::new(WIDTH)
        .initial_indent(label)
        .subsequent_indent(&indent)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation);
    let text = ascii(text);
    let lines = textwrap::wrap(&text, options);
    lines.iter().fold(String::new(), |out, line| out + line.trim_end() + "\n")
}

/// The bands as a table, with the intervals where they fit; then where there is none.
fn bands(report: &Report) -> String {
    let rows = rows(report);
    let clean = clean(report);
    if rows.is_empty() {
        return match clean.is_empty() {
            true if report.is_of_bands() => "Nothing was judged.\n".into(),
            _ => paragraphs(clean),
        };
    }
    let fits = |t: &String| t.lines().all(|l| l.len() <= WIDTH);
    let narrowest = COLUMNS[COLUMNS.len() - 1];
    let columns = COLUMNS.iter().find(|columns| fits(&table(&rows, columns))).copied().unwrap_or(narrowest);
    let table = table(&rows, columns);
    let interval = |of| if columns.contains(&of) { " with its 95 % interval" } else { "" };
    let legend = filled(
        "",
        &format!(
            "Offsets are mod 4096; distance = (dst - src) mod 4096. slower: time over that of unaffected offsets{}; \
             ns/KiB: extra time per KiB copied{}; ?: not confirmed by fresh samples.",
            interval(7),
            interval(9)
        ),
    );
    format!("{legend}\n{table}\n{}", paragraphs(clean))
}

fn table(rows: &[Row], columns: &[usize]) -> String {
    let heading: Row = Row::HEADING;
    let all = || std::iter::once(&heading).chain(rows);
    let width = |column: usize| all().map(|r| r.0[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = columns.iter().map(|c| width(*c)).collect();
    let line = |row: &Row| {
        let cells = columns.iter().zip(&widths).map(|(c, width)| format!("{:<width$}", row.0[*c]));
        ascii(cells.collect::<Vec<_>>().join(" ").trim_end()) + "\n"
    };
    all().map(line).collect()
}

fn reproduce(report: &Report) -> String {
    if report.is_colours_alone() {
        return String::new();
    }
    let program = Reproducer::of(report);
    let pinned = report.host.cpu_pinned.filter(|_| !report.is_simulated()).unwrap_or(1);
    let how = format!(
        "{} Save the rest as repro.c; cc -O2 -o repro repro.c && taskset -c {pinned} ./repro",
        program.explained()
    );
    section("How to reproduce this without fsprobe", &format!("{}\n{}", filled("", &how), program.source()))
}
