//! Reads of one file among the system calls of a traced program: where the bytes landed, and how long it took.

use crate::report::{Landed, distance, offset_of};
use crate::sys::proc::DescriptorInfo;
use crate::sys::tracer::{Call, Observer};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;

/// Reads of other files count from this length on: the loader reads the heads of libraries.
const LEAST: u64 = 4096;

/// A file, whatever its name.
pub type FileId = (u64, u64);

/// One read that brought bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Brought {
    address: u64,
    position: u64,
    len: u64,
    ns: u64,
}

/// What a read that has begun reads from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    File,
    /// Another regular file.
    Another,
    Elsewhere,
}

/// Looks on.
#[derive(Debug)]
pub struct Watch {
    file: FileId,
    begun: BTreeMap<u32, (From, u64)>,
    reads: Vec<Brought>,
    others: Vec<Brought>,
    /// Nanoseconds of calls that are no reads: the shortest of them are the tracer's own cost.
    yardstick: Vec<u64>,
}

/// What was seen of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Where the bytes landed; none where no read brought any.
    pub landed: Option<Landed>,
    /// Whether that is of other regular files, since the program did not read the one that was meant.
    pub of_others: bool,
    /// Bytes of the file that was meant that its reads brought.
    pub bytes: u64,
    /// Nanoseconds inside read(2) without the tracer's own cost, or why that cannot be told.
    pub read_ns: Result<u64, String>,
}

impl Watch {
    /// For reads of this file.
    pub fn of(file: FileId) -> Watch {
        Watch { file, begun: BTreeMap::new(), reads: vec![], others: vec![], yardstick: vec![] }
    }

    /// What was seen.
    pub fn seen(mut self) -> Seen {
        let of_others = self.reads.is_empty();
        let reads = if of_others { &self.others } else { &self.reads };
        self.yardstick.sort_unstable();
        let own_ns = self.yardstick.get(self.yardstick.len() / 4).copied().unwrap_or(0);
        Seen {
            landed: landed(reads),
            of_others: of_others && !reads.is_empty(),
            bytes: self.reads.iter().map(|read| read.len).sum(),
            read_ns: read_ns(reads, own_ns),
        }
    }
}

fn is_read(call: &Call) -> bool {
    [libc::SYS_read, libc::SYS_pread64].contains(&call.number)
}

impl Observer for Watch {
    fn begins(&mut self, call: &Call) {
        if is_read(call) {
            let (thread, descriptor) = (call.thread, call.arguments[0] as i32);
            let from = match std::fs::metadata(format!("/proc/{thread}/fd/{descriptor}")) {
                Ok(meta) if (meta.dev(), meta.ino()) == self.file => From::File,
                Ok(meta) if meta.is_file() => From::Another,
                _ => From::Elsewhere,
            };
            let position = match call.number {
                libc::SYS_pread64 => call.arguments[3],
                _ if from == From::Elsewhere => 0,
                _ => DescriptorInfo::of(thread, descriptor).map_or(0, |info| info.position),
            };
            self.begun.insert(thread, (from, position));
        }
    }

    fn ended(&mut self, call: &Call, result: i64, ns: u64) {
        if !is_read(call) {
            self.yardstick.push(ns);
            return;
        }
        let begun = self.begun.remove(&call.thread);
        if let (Some((from, position)), Ok(len @ 1..)) = (begun, u64::try_from(result)) {
            let brought = Brought { address: call.arguments[1], position, len, ns };
            match from {
                From::File => self.reads.push(brought),
                From::Another if len >= LEAST => self.others.push(brought),
                From::Another | From::Elsewhere => {}
            }
        }
    }
}

/// The landing of most bytes.
fn landed(reads: &[Brought]) -> Option<Landed> {
    let place = |read: &Brought| (offset_of(read.address), offset_of(read.position));
    let mut bytes: BTreeMap<(u16, u16), u64> = BTreeMap::new();
    let mut lens: BTreeMap<u64, u64> = BTreeMap::new();
    for read in reads {
        *bytes.entry(place(read)).or_default() += read.len;
        *lens.entry(read.len).or_default() += read.len;
    }
    let (&(dst, src), &most) = bytes.iter().max_by_key(|(_, bytes)| **bytes)?;
    let total: u64 = bytes.values().sum();
    let addresses: BTreeSet<u64> = reads.iter().map(|read| read.address).collect();
    Some(Landed {
        dst,
        src,
        distance: distance(dst, src),
        reads: reads.len() as u64,
        len: *lens.iter().max_by_key(|(_, bytes)| **bytes)?.0,
        reused: addresses.len() * 2 <= reads.len(),
        share: most as f64 / total as f64,
    })
}

/// The time of the reads beyond what the tracer took for each.
fn read_ns(reads: &[Brought], own_ns: u64) -> Result<u64, String> {
    if reads.is_empty() {
        return Err("it made no read(2) that brought bytes of a regular file".into());
    }
    let total: u64 = reads.iter().map(|read| read.ns).sum();
    let own = own_ns * reads.len() as u64;
    match total.saturating_sub(own) {
        net if net < own => Err(format!(
            "its {} reads are too short to be timed from outside, where watching one takes {} µs",
            reads.len(),
            own_ns.div_ceil(1000)
        )),
        net => Ok(net),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brought(address: u64, position: u64, len: u64) -> Brought {
        Brought { address, position, len, ns: 1000 }
    }

    #[test]
    fn the_landing_is_where_most_bytes_go() {
        let reads = [brought(0x7000_0010, 0, 1 << 20), brought(0x7100_0033, 1 << 20, 5)];
        let landing = landed(&reads).unwrap();
        assert_eq!((landing.dst, landing.src, landing.distance, landing.len), (0x010, 0, 0x010, 1 << 20));
        assert!(!landing.reused && landing.share > 0.99 && landing.reads == 2);
        assert_eq!(landed(&[]), None);
    }

    #[test]
    fn a_buffer_used_again_and_again_is_one() {
        let reads: Vec<Brought> = (0..10).map(|i| brought(0x5008, i * 8192 + 3, 8192)).collect();
        let landing = landed(&reads).unwrap();
        assert!(landing.reused);
        assert_eq!((landing.dst, landing.src, landing.distance), (0x008, 0x003, 0x005));
    }

    #[test]
    fn the_tracers_own_cost_is_taken_off_where_it_is_the_smaller_part() {
        let reads = [brought(0, 0, 10), brought(0, 10, 10)];
        assert_eq!(read_ns(&reads, 100), Ok(1800));
        assert!(read_ns(&reads, 900).unwrap_err().contains("2 reads are too short"));
        assert!(read_ns(&[], 1).is_err());
    }

    #[test]
    fn reads_of_other_files_count_where_there_are_no_others() {
        let mut watch = Watch::of((1, 2));
        let call = |number, thread| Call { thread, number, arguments: [0, 0x1010, 5000, 0, 0, 0] };
        let mut read = |from, len| {
            watch.begun.insert(7, (from, 0));
            watch.ended(&call(libc::SYS_read, 7), len, 900);
        };
        read(From::Elsewhere, 5000);
        read(From::Another, 832);
        read(From::Another, 5000);
        watch.ended(&call(libc::SYS_close, 7), 0, 100);
        let seen = watch.seen();
        assert!(seen.of_others);
        assert_eq!((seen.landed.unwrap().dst, seen.read_ns), (0x010, Ok(800)));
    }
}
