//! What a call copies: from where to where, read from its arguments before it and its result after.

use super::super::files::{self, Opened};
use super::super::tally::Row;
use super::calls::{Copier, Memory, Place};
use super::watcher::{Begun, Start, Thread, Watcher, send_on};
use crate::report::{FileKind, distance, offset_of};
use crate::sys::ptrace;
use std::io;

/// Parts of one call that the kernel accepts (IOV_MAX).
const PARTS: u64 = 1024;

/// Bytes of a struct iovec.
const PART: usize = 16;

impl Watcher<'_> {
    /// A call that copies is about to begin: goes on with it, unless it has to wait for its turn.
    pub(super) fn copy_begins(
        &mut self,
        thread: u32,
        known: &mut Thread,
        copier: &'static Copier,
        arguments: &[u64; 6],
    ) -> io::Result<()> {
        let process = self.processes.get(known.process);
        let (table, program) = (process.table, process.program(known.process));
        let descriptor = arguments[0] as i32;
        let file = self.files.of(table, thread, descriptor);
        let moves = place_of(copier, arguments).is_none();
        let has_turn = moves && file.kind == FileKind::PageCache && file.id.is_some();
        if let Some(id) = file.id.filter(|_| has_turn)
            && !self.turns.begin(id, (thread, descriptor))
        {
            return Ok(());
        }
        let start = match place_of(copier, arguments) {
            _ if file.kind != FileKind::PageCache => Start::Unknown,
            place if appends(copier, &file, arguments) => place.map_or(Start::EndAndMoves, |_| Start::End),
            Some(place) => Start::At(place),
            None => self.files.position(table, thread, descriptor).map_or(Start::Unknown, Start::At),
        };
        segments(thread, copier, arguments, &mut known.segments);
        let row = self.tally.row(known.process, &program, copier.name, &file, copier.from_file);
        known.begun = Some(Begun::Copies { copier, row, descriptor, file, start, has_turn });
        send_on(thread, known, 0);
        Ok(())
    }

    /// Where in the file a call began that has moved so many bytes.
    pub(super) fn started_at(
        &mut self,
        process: u32,
        thread: u32,
        descriptor: i32,
        start: Start,
        bytes: u64,
    ) -> Option<u64> {
        let end = match start {
            Start::Unknown => return None,
            Start::At(place) => return Some(place),
            Start::End => files::size(thread, descriptor),
            Start::EndAndMoves => {
                let table = self.processes.get(process).table;
                self.files.position(table, thread, descriptor)
            }
        };
        end?.checked_sub(bytes)
    }

    /// A call has ended well.
    pub(super) fn copied(
        &mut self,
        known: &Thread,
        copier: &Copier,
        row: Row,
        file: &Opened,
        start: Option<u64>,
        result: u64,
    ) {
        let room = known.segments.iter().fold(0u64, |sum, (_, len)| sum.saturating_add(*len));
        // With MSG_TRUNC a message's length may be more than was copied.
        let bytes = if known.segments.is_empty() { result } else { result.min(room) };
        self.tally.ended(row, bytes);
        if file.kind == FileKind::Unknown {
            let program = self.processes.get(known.process).program(known.process);
            self.notes.not_looked_into(&program);
        }
        if file.kind == FileKind::Direct {
            return;
        }
        let mut done = 0;
        for &(address, len) in &known.segments {
            let part = len.min(bytes - done);
            let distance = start.map(|start| {
                let (memory, place) = (offset_of(address), offset_of(start.wrapping_add(done)));
                if copier.from_file { distance(memory, place) } else { distance(place, memory) }
            });
            self.tally.landed(row, distance, address, part);
            done += part;
        }
    }
}

/// The position in the file that a call names; none where it begins where its descriptor stands.
fn place_of(copier: &Copier, arguments: &[u64; 6]) -> Option<u64> {
    match copier.place {
        Place::Own => None,
        Place::Named => Some(arguments[3]),
        Place::NamedOrOwn => Some(arguments[3]).filter(|place| *place != u64::MAX),
    }
}

/// Whether a call writes to the end of its file, whatever position it names (pwrite(2), BUGS; pwritev2(2)).
fn appends(copier: &Copier, file: &Opened, arguments: &[u64; 6]) -> bool {
    // RWF_NOAPPEND of <linux/fs.h>, Linux 6.9 and later
    const NO_APPEND: u64 = 0x20;
    let flags = if copier.place == Place::NamedOrOwn { arguments[5] } else { 0 };
    let asked = flags & libc::RWF_APPEND as u64 != 0;
    !copier.from_file && (asked || file.appends && flags & NO_APPEND == 0)
}

/// The program memory that a call names, in order; empty where it cannot be read.
fn segments(thread: u32, copier: &Copier, arguments: &[u64; 6], into: &mut Vec<(u64, u64)>) {
    into.clear();
    match copier.memory {
        Memory::Buffer => into.push((arguments[1], arguments[2])),
        Memory::Vector => vector(thread, arguments[1], arguments[2], into),
        Memory::Message => {
            // struct msghdr on x86-64: name, its length, then the array and how many.
            let mut header = [0; 32];
            if ptrace::memory(thread, arguments[1], &mut header).is_ok_and(|read| read == header.len()) {
                vector(thread, word(&header[16..24]), word(&header[24..32]), into);
            }
        }
    }
}

fn vector(thread: u32, address: u64, parts: u64, into: &mut Vec<(u64, u64)>) {
    if parts > PARTS {
        return;
    }
    let mut bytes = [0; PARTS as usize * PART];
    let bytes = &mut bytes[..parts as usize * PART];
    if ptrace::memory(thread, address, bytes).is_ok_and(|read| read == bytes.len()) {
        into.extend(bytes.chunks_exact(PART).map(|part| (word(&part[..8]), word(&part[8..]))));
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::super::calls::{Meaning, meaning};
    use super::*;

    fn copier(number: libc::c_long) -> &'static Copier {
        match meaning(number) {
            Some(Meaning::Copies(copier)) => copier,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn positions_named_or_not() {
        let at = |number, place| place_of(copier(number), &[0, 0, 0, place, 0, 0]);
        assert_eq!(at(libc::SYS_read, 5), None);
        assert_eq!(at(libc::SYS_pread64, 5), Some(5));
        assert_eq!(at(libc::SYS_pwritev, u64::MAX), Some(u64::MAX), "an error");
        assert_eq!((at(libc::SYS_preadv2, 5), at(libc::SYS_preadv2, u64::MAX)), (Some(5), None));
    }

    #[test]
    fn what_goes_to_the_end_of_a_file() {
        let opened = |appends| Opened { name: None, kind: FileKind::PageCache, appends, id: None };
        let of = |number, flags, file| appends(copier(number), &opened(file), &[0, 0, 0, 0, 0, flags]);
        assert!(of(libc::SYS_write, 0, true) && of(libc::SYS_pwrite64, 0, true));
        assert!(!of(libc::SYS_write, 0, false) && !of(libc::SYS_read, 0, true));
        assert!(of(libc::SYS_pwritev2, libc::RWF_APPEND as u64, false) && !of(libc::SYS_pwritev2, 0, false));
        assert!(!of(libc::SYS_pwritev2, 0x20, true));
        assert!(!of(libc::SYS_sendto, libc::RWF_APPEND as u64, false), "its sixth argument is no flag");
    }

    #[test]
    fn memory_as_calls_name_it() {
        let (me, mut into) = (std::process::id(), vec![]);
        segments(me, copier(libc::SYS_read), &[0, 0x1234, 5, 0, 0, 0], &mut into);
        assert_eq!(into, [(0x1234, 5)]);
        let parts = [0x1000u64, 1, 0x2000, 2];
        segments(me, copier(libc::SYS_readv), &[0, parts.as_ptr() as u64, 2, 0, 0, 0], &mut into);
        assert!(into == [(0x1000, 1), (0x2000, 2)] || into.is_empty(), "forbidden here");
        segments(me, copier(libc::SYS_readv), &[0, 8, 2, 0, 0, 0], &mut into);
        assert_eq!(into, []);
    }
}
