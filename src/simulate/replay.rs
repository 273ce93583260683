//! Recorded samples (`FILE.csv`) as a report's cells: columns dst, src, len, then one a round.

use crate::path::open_at_once;
use crate::report::{Cell, PAGE, PathName, Phase, Run};
use std::io::Read;
use std::path::Path;

/// The most cells and rounds that are taken from a recording: far above any real one.
const MOST_CELLS: usize = 1 << 20;
const MOST_ROUNDS: usize = 4096;

/// Bytes of the largest recording that is read.
const LARGEST: u64 = 256 << 20;

/// The longest copy that is believed: 1 TiB.
const LONGEST: u64 = 1 << 40;

/// Why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be opened or read as CSV.
    #[error("cannot replay {name}: {reason}")]
    Unreadable {
        /// The file as the user named it.
        name: String,
        /// Why.
        reason: String,
    },
    /// A row is not what a recording holds.
    #[error("cannot replay {name}: line {line}: {reason} (expected dst,src,len,ns0,ns1,…)")]
    Row {
        /// The file as the user named it.
        name: String,
        /// The line.
        line: u64,
        /// What is wrong.
        reason: String,
    },
}

/// Reads a recording: its one run and its cells (path `pread`, no allocator).
pub fn replay(file: &Path) -> Result<(Run, Vec<Cell>), ReplayError> {
    let name = file.display().to_string();
    let unreadable = |reason: String| ReplayError::Unreadable { name: name.clone(), reason };
    let opened = open_at_once(file).map_err(|e| unreadable(e.to_string()))?;
    let mut whole = Vec::new();
    opened.take(LARGEST + 1).read_to_end(&mut whole).map_err(|e| unreadable(e.to_string()))?;
    if whole.len() as u64 > LARGEST {
        return Err(unreadable(format!("it is larger than {} MiB", LARGEST >> 20)));
    }
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(whole.as_slice());
    let headers = reader.headers().map_err(|e| unreadable(e.to_string()))?;
    let named = headers.iter().map(str::trim).take(3).eq(["dst", "src", "len"]);
    if !headers.is_empty() && !named {
        return Err(unreadable("its columns are not dst,src,len,ns0,ns1,…".into()));
    }
    let mut cells = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| unreadable(e.to_string()))?;
        let line = record.position().map_or(0, csv::Position::line);
        let cell = cell(&record).map_err(|reason| ReplayError::Row { name: name.clone(), line, reason })?;
        if cells.len() == MOST_CELLS {
            return Err(unreadable(format!("it has more than {MOST_CELLS} rows")));
        }
        cells.push(cell);
    }
    let Some(rounds) = cells.first().map(|c| c.ns.len()) else {
        return Err(unreadable("it holds no samples".into()));
    };
    let run = Run {
        phase: Phase::Screen,
        rounds: rounds as u32,
        warmup_discarded: 0,
        pages: vec![],
        core_ns: vec![],
    };
    Ok((run, cells))
}

fn cell(record: &csv::StringRecord) -> Result<Cell, String> {
    let number = |field: &str| {
        field.trim().parse::<u64>().map_err(|_| format!("'{}' is not a whole number", shown(field)))
    };
    let field = |index: usize, name: &str| {
        record.get(index).ok_or_else(|| format!("no column {name}")).and_then(number)
    };
    let offset = |index, name| match field(index, name)? {
        o if o <= u64::from(PAGE) => Ok(o as u16),
        o => Err(format!("{name} {o} is above 4096")),
    };
    let ns: Vec<Option<u64>> = record
        .iter()
        .skip(3)
        .map(|f| if f.trim().is_empty() { Ok(None) } else { number(f).map(|ns| Some(ns).filter(|n| *n > 0)) })
        .collect::<Result<_, _>>()?;
    if ns.is_empty() || ns.len() > MOST_ROUNDS {
        return Err(format!("{} samples (1 to {MOST_ROUNDS} are taken)", ns.len()));
    }
    let len = field(2, "len")?;
    if len == 0 || len > LONGEST {
        return Err(format!("a length of {len}"));
    }
    Ok(Cell {
        run: 0,
        path: PathName::Pread,
        allocator: None,
        dst: Some(offset(0, "dst")?),
        src: Some(offset(1, "src")?),
        len,
        repeat: 1,
        reference: false,
        ns,
    })
}

/// A hostile field made fit for an error message.
fn shown(field: &str) -> String {
    field.chars().take(20).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replayed(text: &str) -> Result<(Run, Vec<Cell>), ReplayError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("r.csv");
        std::fs::write(&file, text).unwrap();
        replay(&file)
    }

    #[test]
    fn a_recording_becomes_cells() {
        let (run, cells) = replayed("dst,src,len,ns0,ns1\n1,0,4096,10,20\n4096,0,4096,7,\n").unwrap();
        assert_eq!((run.rounds, cells.len()), (2, 2));
        assert_eq!((cells[0].dst, cells[0].len), (Some(1), 4096));
        assert_eq!(cells[1].ns, [Some(7), None]);
    }

    #[test]
    fn faults_name_the_line_and_the_form() {
        for (text, part) in [
            ("", "no samples"),
            ("dst,src,len,ns0\n", "no samples"),
            ("dst,src,len,ns0\n1,0,4096,x\n", "line 2: 'x' is not a whole number"),
            ("dst,src,len,ns0\n5000,0,4096,1\n", "above 4096"),
            ("dst,src,len,ns0\n1,0,0,1\n", "a length of 0"),
            ("dst,src,len,ns0\n1,0,64,1\n1,0,64,1,2\n", "cannot replay"),
            ("dst,src,len\n1,0,64\n", "0 samples"),
            ("dst,src,len,ns0\n\u{1b}[31m,0,4096,1\n", "'?[31m'"),
        ] {
            let error = replayed(text).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains('\u{1b}'), "{text:?}: {error}");
        }
    }
}
