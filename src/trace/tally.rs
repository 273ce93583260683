//! Calls and copies counted by process, call and file, in histograms: memory grows with what differs, not
//! with how much is counted.

use super::files::Opened;
use crate::report::{AtOffset, Copies, FileKind, Landing, offset_of};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Rows that keep a process and a file apart; what comes after them is counted by program, call and kind.
const ROWS: usize = 16_384;

/// What a row counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    /// 0 for several.
    pid: u32,
    program: Rc<str>,
    call: &'static str,
    file: Option<Rc<str>>,
    kind: FileKind,
    from_file: bool,
}

/// Which row a call counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row(usize);

/// The counts.
#[derive(Debug, Default)]
pub struct Tally {
    rows: Vec<(Key, Counts)>,
    index: HashMap<Key, usize>,
    merged: bool,
}

#[derive(Debug, Default)]
struct Counts {
    calls: u64,
    failed: u64,
    bytes: u64,
    /// By distance and class.
    landings: BTreeMap<(Option<u16>, u8), (u64, u64)>,
    /// By page offset.
    buffers: BTreeMap<u16, (u64, u64)>,
}

impl Tally {
    /// The row of a process's calls to a file.
    pub fn row(
        &mut self,
        pid: u32,
        program: &Rc<str>,
        call: &'static str,
        opened: &Opened,
        from_file: bool,
    ) -> Row {
        let (program, file) = (Rc::clone(program), opened.name.clone());
        let mut key = Key { pid, program, call, file, kind: opened.kind, from_file };
        if let Some(&known) = self.index.get(&key) {
            return Row(known);
        }
        if self.rows.len() >= ROWS {
            self.merged = true;
            (key.pid, key.file) = (0, None);
        }
        let rows = &mut self.rows;
        Row(*self.index.entry(key.clone()).or_insert_with(|| {
            rows.push((key, Counts::default()));
            rows.len() - 1
        }))
    }

    /// A call ended well after so many bytes.
    pub fn ended(&mut self, row: Row, bytes: u64) {
        let counts = &mut self.rows[row.0].1;
        counts.calls += 1;
        counts.bytes += bytes;
    }

    /// A call ended with an error.
    pub fn failed(&mut self, row: Row) {
        self.rows[row.0].1.failed += 1;
    }

    /// A copy of so many bytes to or from program memory; none are not counted.
    pub fn landed(&mut self, row: Row, distance: Option<u16>, buffer: u64, bytes: u64) {
        let Some(class) = bytes.checked_ilog2() else { return };
        let counts = &mut self.rows[row.0].1;
        let add = |(copies, sum): &mut (u64, u64)| (*copies, *sum) = (*copies + 1, *sum + bytes);
        add(counts.landings.entry((distance, class as u8)).or_default());
        add(counts.buffers.entry(offset_of(buffer)).or_default());
    }

    /// Whether processes or files had to be counted together.
    pub fn is_merged(&self) -> bool {
        self.merged
    }

    /// The rows, sorted by process, call and file.
    pub fn copies(self) -> Vec<Copies> {
        let mut copies: Vec<Copies> =
            self.rows.into_iter().map(|(key, counts)| row_of(key, counts)).collect();
        copies.sort_by(|a, b| {
            let of = |c: &Copies| (c.pid, c.program.clone(), c.call.clone(), c.file.clone(), c.kind);
            of(a).cmp(&of(b))
        });
        copies
    }
}

fn row_of(key: Key, counts: Counts) -> Copies {
    let landing = |((distance, class), (copies, bytes))| Landing { distance, class, copies, bytes };
    let buffer = |(offset, (copies, bytes))| AtOffset { offset, copies, bytes };
    Copies {
        pid: key.pid,
        program: key.program.to_string(),
        call: key.call.to_owned(),
        file: key.file.map(|name| name.to_string()),
        kind: key.kind,
        from_file: Some(key.from_file),
        calls: counts.calls,
        failed: counts.failed,
        bytes: counts.bytes,
        landings: counts.landings.into_iter().map(landing).collect(),
        buffers: counts.buffers.into_iter().map(buffer).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(name: &str) -> Opened {
        Opened { name: Some(name.into()), kind: FileKind::PageCache, appends: false, id: None }
    }

    #[test]
    fn calls_and_copies_add_up_by_what_they_share() {
        let mut tally = Tally::default();
        let program: Rc<str> = "cat".into();
        let row = tally.row(7, &program, "readv", &opened("/b"), true);
        assert_eq!(tally.row(7, &program, "readv", &opened("/b"), true), row);
        tally.row(7, &program, "readv", &opened("/a"), true);
        tally.ended(row, 5000);
        tally.failed(row);
        tally.landed(row, Some(8), 0x1008, 4096);
        tally.landed(row, Some(8), 0x3008, 904);
        tally.landed(row, None, 0x3008, 0);
        tally.landed(row, Some(8), 0x2010, 4097);
        assert!(!tally.is_merged());
        let copies = tally.copies();
        assert_eq!(copies.len(), 2);
        assert_eq!((copies[0].file.as_deref(), copies[0].calls), (Some("/a"), 0));
        let counted = &copies[1];
        assert_eq!((counted.calls, counted.failed, counted.bytes), (1, 1, 5000));
        let landing = |class, copies, bytes| Landing { distance: Some(8), class, copies, bytes };
        assert_eq!(counted.landings, [landing(9, 1, 904), landing(12, 2, 8193)]);
        let buffer = |offset, copies, bytes| AtOffset { offset, copies, bytes };
        assert_eq!(counted.buffers, [buffer(8, 2, 5000), buffer(0x10, 1, 4097)]);
    }

    #[test]
    fn rows_are_no_more_than_so_many_and_nothing_is_lost() {
        let mut tally = Tally::default();
        let program: Rc<str> = "tar".into();
        for number in 0..ROWS + 10 {
            let row = tally.row(1, &program, "read", &opened(&format!("/{number}")), true);
            tally.ended(row, 2);
        }
        assert!(tally.is_merged());
        let copies = tally.copies();
        assert_eq!(copies.len(), ROWS + 1);
        assert_eq!((copies[0].pid, copies[0].file.as_deref(), copies[0].calls), (0, None, 10));
        assert_eq!(copies.iter().map(|row| row.bytes).sum::<u64>(), 2 * (ROWS as u64 + 10));
    }
}
