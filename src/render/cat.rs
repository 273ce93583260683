//! The table of `fsprobe cat --bench`.

use super::number::{bytes, counted, gigabytes, times};
use super::text::paragraph;
use crate::report::{CatBench, CatRow};

/// Columns of the table.
const WIDTH: usize = 80;

/// The table, with what was measured above it and what was left out below.
pub fn table(bench: &CatBench) -> String {
    let cpus = match bench.cpus {
        Some([writer, reader]) => format!("writer on CPU {writer}, reader on CPU {reader}"),
        None => "writer and reader share the only CPU allowed".into(),
    };
    let has_interval = bench.rows.iter().any(|row| row.factor_ci95.is_some());
    let intervals = if has_interval { " with 95 % intervals" } else { ", too few for intervals" };
    let head = format!(
        "A file of {}, {} a sample, through a pipe into a reader that drains it by read(2) of 128 KiB: \
         medians of {}{intervals}; {cpus}.",
        bytes(bench.size),
        bytes(bench.bytes),
        counted(u64::from(bench.rounds), "round")
    );
    let mut text = paragraph("", &head, WIDTH) + "\n";
    text += &line("way", "GB/s", "interval", "factor", "interval", "what it is");
    text.extend(bench.rows.iter().map(row));
    text.extend(bench.skipped.iter().map(|reason| paragraph("left out: ", reason, WIDTH)));
    text
}

fn row(row: &CatRow) -> String {
    let speed = interval(row.bytes_per_s_ci95, gigabytes);
    let factor = interval(row.factor_ci95, times);
    line(&row.name, &gigabytes(row.bytes_per_s), &speed, &times(row.factor), &factor, &row.what)
}

fn line(name: &str, speed: &str, interval: &str, factor: &str, of_factor: &str, what: &str) -> String {
    let text = format!("{name:<17} {speed:>5} {interval:>10} {factor:>6} {of_factor:>11}  {what}");
    text.trim_end().to_owned() + "\n"
}

/// `3.01-3.20`, or nothing where there were too few rounds for one.
fn interval(ends: Option<[f64; 2]>, word: impl Fn(f64) -> String) -> String {
    ends.map_or_else(String::new, |[low, high]| format!("{}-{}", word(low), word(high)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row_of(name: &str, factor: f64, interval: bool) -> CatRow {
        CatRow {
            name: name.into(),
            what: "128 KiB a call".into(),
            ns: vec![1; 6],
            bytes_per_s: 3.1e9 * factor,
            bytes_per_s_ci95: interval.then_some([3e9 * factor, 3.2e9 * factor]),
            factor,
            factor_ci95: interval.then_some([factor - 0.05, factor + 0.05]),
        }
    }

    #[test]
    fn the_table_in_eighty_columns() {
        let bench = CatBench {
            size: 1 << 20,
            bytes: 512 << 20,
            rounds: 11,
            warmup_discarded: 1,
            cpus: Some([2, 3]),
            rows: vec![row_of("read/write", 1.0, true), row_of("the chosen way", 2.5, false)],
            skipped: vec!["no cat on the PATH".into()],
        };
        let expected = "\
A file of 1 MiB, 512 MiB a sample, through a pipe into a reader that drains it
by read(2) of 128 KiB: medians of 11 rounds with 95 % intervals; writer on CPU
2, reader on CPU 3.

way                GB/s   interval factor    interval  what it is
read/write         3.10  3.00-3.20  1.00x 0.95x-1.05x  128 KiB a call
the chosen way     7.75              2.5x              128 KiB a call
left out: no cat on the PATH
";
        assert_eq!(table(&bench), expected);
        assert!(table(&CatBench { cpus: None, ..bench }).contains("share the only CPU"));
    }
}
