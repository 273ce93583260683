//! The records of a ring, read from bytes; pure, and made for bytes of any content.
//!
//! The layout is that of `enum perf_event_type` in linux/perf_event.h, for the attributes that
//! [`crate::sys::perf_sample`] asks for.

/// Of PERF_RECORD_*.
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
const LOST_SAMPLES: u32 = 13;
const THROTTLE: u32 = 5;

/// Of a header's `misc`: where it was interrupted, and that a name came with an execve(2).
const MODE: u16 = 7;
const KERNEL_MODE: u16 = 1;
const USER_MODE: u16 = 2;
const BY_EXEC: u16 = 1 << 13;

/// Bytes of a header, and of what `sample_id_all` puts behind every record but samples: thread and time.
const HEADER: usize = 8;
const TRAILER: usize = 16;

/// PERF_SAMPLE_REGS_ABI_64.
const ABI_64: u64 = 2;

/// A record with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw {
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub time: u64,
    bytes: Vec<u8>,
}

/// What a record says.
#[derive(Debug, PartialEq)]
pub enum Record<'a> {
    /// An interrupt.
    Sample(Sample<'a>),
    /// Executable memory was mapped.
    Mapped {
        pid: u32,
        start: u64,
        end: u64,
        /// Position in the file.
        offset: u64,
        /// Device and inode of the file.
        id: FileId,
        /// The file's name, or the kernel's word for what is none.
        name: String,
    },
    /// A thread has a new name, by execve(2) or of its own.
    Named { pid: u32, tid: u32, by_exec: bool, name: String },
    /// A thread began; a process, where `pid` is not `parent`.
    Began { pid: u32, parent: u32, tid: u32, parent_tid: u32 },
    /// A thread ended, or is no longer watched.
    Ended { pid: u32, tid: u32 },
    /// Records were dropped.
    Lost(u64),
    /// Interrupts came faster than the kernel allows and were stopped until the next tick.
    Throttled,
}

/// What tells a file from another: device (major, minor) and inode; zeros where unknown.
pub type FileId = (u32, u32, u64);

/// One interrupt.
#[derive(Debug, PartialEq)]
pub struct Sample<'a> {
    /// Whether the kernel was interrupted.
    pub in_kernel: bool,
    /// The instruction that was interrupted.
    pub ip: u64,
    pub pid: u32,
    pub tid: u32,
    /// The kernel's calls, the innermost first; empty in user space and where they are not asked for.
    pub chain: Vec<u64>,
    /// User space below; none for the kernel's own threads.
    pub user: Option<User<'a>>,
    pub registers: Option<Registers>,
}

/// Registers where the interrupt came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    pub cx: u64,
    pub si: u64,
    pub di: u64,
    pub flags: u64,
}

/// Where user space stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User<'a> {
    pub is_64: bool,
    /// Of a system call of 64 bits its third argument.
    pub dx: u64,
    pub bp: u64,
    pub sp: u64,
    pub ip: u64,
    /// Memory from `sp` on.
    pub stack: &'a [u8],
}

/// Takes whole records off the front of a ring's bytes; stops at the first that is none.
pub fn split(mut bytes: &[u8], into: &mut Vec<Raw>) {
    while let Some(len) = size_of_first(bytes) {
        let (record, rest) = bytes.split_at(len);
        if let Some(time) = time_of(record) {
            into.push(Raw { time, bytes: record.to_vec() });
        }
        bytes = rest;
    }
}

fn size_of_first(bytes: &[u8]) -> Option<usize> {
    let size = u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?) as usize;
    (HEADER..=bytes.len()).contains(&size).then_some(size)
}

/// Of a sample it comes after address and thread, of all else it is the last word.
fn time_of(record: &[u8]) -> Option<u64> {
    let at = if kind_of(record)? == SAMPLE { HEADER + 16 } else { record.len().checked_sub(8)? };
    word(record.get(at..)?)
}

fn kind_of(record: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(record.get(..4)?.try_into().ok()?))
}

fn word(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?))
}

impl Raw {
    /// What it says; none for kinds that are not looked at, and for what is cut short. `has_chains` is whether
    /// samples were asked for the kernel's calls.
    pub fn read(&self, has_chains: bool) -> Option<Record<'_>> {
        let kind = kind_of(&self.bytes)?;
        let misc = u16::from_ne_bytes(self.bytes.get(4..6)?.try_into().ok()?);
        if kind == SAMPLE {
            return sample(Fields(self.bytes.get(HEADER..)?), misc, has_chains).map(Record::Sample);
        }
        let body = self.bytes.get(HEADER..self.bytes.len().checked_sub(TRAILER)?)?;
        other(Fields(body), kind, misc)
    }
}

fn sample(mut fields: Fields<'_>, misc: u16, has_chains: bool) -> Option<Sample<'_>> {
    let in_kernel = match misc & MODE {
        KERNEL_MODE => true,
        USER_MODE => false,
        _ => return None,
    };
    let ip = fields.word()?;
    let (pid, tid) = fields.halves()?;
    let _time = fields.word()?;
    let chain = if has_chains { fields.chain()? } else { Vec::new() };
    let user_abi = fields.word()?;
    let user = match user_abi {
        0 => None,
        _ => Some([fields.word()?, fields.word()?, fields.word()?, fields.word()?]),
    };
    let stack = fields.stack()?;
    let registers = match fields.word()? {
        0 => None,
        _ => {
            let (cx, si, di, flags) = (fields.word()?, fields.word()?, fields.word()?, fields.word()?);
            Some(Registers { cx, si, di, flags })
        }
    };
    let user = user.map(|[dx, bp, sp, ip]| User { is_64: user_abi == ABI_64, dx, bp, sp, ip, stack });
    Some(Sample { in_kernel, ip, pid, tid, chain, user, registers })
}

fn other(mut fields: Fields<'_>, kind: u32, misc: u16) -> Option<Record<'_>> {
    match kind {
        LOST => {
            let _id = fields.word()?;
            Some(Record::Lost(fields.word()?))
        }
        LOST_SAMPLES => Some(Record::Lost(fields.word()?)),
        THROTTLE => Some(Record::Throttled),
        COMM => {
            let (pid, tid) = fields.halves()?;
            Some(Record::Named { pid, tid, by_exec: misc & BY_EXEC != 0, name: fields.text() })
        }
        FORK => {
            let ((pid, parent), (tid, parent_tid)) = (fields.halves()?, fields.halves()?);
            Some(Record::Began { pid, parent, tid, parent_tid })
        }
        EXIT => {
            let ((pid, _), (tid, _)) = (fields.halves()?, fields.halves()?);
            Some(Record::Ended { pid, tid })
        }
        MMAP2 => {
            let (pid, _) = fields.halves()?;
            let (start, len, offset) = (fields.word()?, fields.word()?, fields.word()?);
            let ((major, minor), inode) = (fields.halves()?, fields.word()?);
            let _generation = fields.word()?;
            let _protection_and_flags = fields.word()?;
            let id = (major, minor, inode);
            let end = start.checked_add(len)?;
            Some(Record::Mapped { pid, start, end, offset, id, name: fields.text() })
        }
        _ => None,
    }
}

/// What is left of a record.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn word(&mut self) -> Option<u64> {
        let word = word(self.0)?;
        self.0 = &self.0[8..];
        Some(word)
    }

    /// Two numbers of 32 bits.
    fn halves(&mut self) -> Option<(u32, u32)> {
        let word = self.word()?.to_ne_bytes();
        let half = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| word[at + byte]));
        Some((half(0), half(4)))
    }

    fn bytes(&mut self, len: u64) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Return addresses; the marks between them (PERF_CONTEXT_*, the highest 4095 numbers) dropped.
    fn chain(&mut self) -> Option<Vec<u64>> {
        let count = self.word()?;
        let bytes = self.bytes(count.checked_mul(8)?)?;
        let addresses = bytes.chunks_exact(8).filter_map(word);
        Some(addresses.filter(|address| *address < 0u64.wrapping_sub(4095)).collect())
    }

    /// The stack: room for it, and how much of that is filled.
    fn stack(&mut self) -> Option<&'a [u8]> {
        let room = self.word()?;
        if room == 0 {
            return Some(&[]);
        }
        let bytes = self.bytes(room)?;
        let filled = usize::try_from(self.word()?).ok()?;
        bytes.get(..filled)
    }

    /// A text that ends at its first zero.
    fn text(&self) -> String {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
