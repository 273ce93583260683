//! Interrupts that record registers: perf_event_open(2) with a software clock, and the rings that the kernel
//! writes them to. What the records say is not known here.

use super::perf::{CLOSE_ON_EXEC, DISABLED, EXCLUDE_HYPERVISOR, EXCLUDE_KERNEL, PerfError, why};
use super::sandbox;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// PERF_TYPE_SOFTWARE and PERF_COUNT_SW_CPU_CLOCK (linux/perf_event.h). Its timer interrupts user space and the
/// kernel alike, wherever interrupts are on, as they are inside copies from and to user memory.
const TYPE_SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;

/// What is recorded: enum perf_event_sample_format.
const IP: u64 = 1 << 0;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const CALL_CHAIN: u64 = 1 << 5;
const USER_REGISTERS: u64 = 1 << 12;
const USER_STACK: u64 = 1 << 13;
const REGISTERS: u64 = 1 << 18;

/// Bits of perf_event_attr's flags.
const INHERIT: u64 = 1 << 1;
const EXCLUDE_IDLE: u64 = 1 << 7;
const MAPPINGS: u64 = 1 << 8;
const NAMES: u64 = 1 << 9;
const ENABLE_ON_EXEC: u64 = 1 << 12;
const TASKS: u64 = 1 << 13;
const WATERMARK: u64 = 1 << 14;
const IDS_IN_ALL: u64 = 1 << 18;
const NO_USER_CHAINS: u64 = 1 << 22;
const MAPPINGS_WITH_INODES: u64 = 1 << 23;
const EXECS_MARKED: u64 = 1 << 24;
const OWN_CLOCK: u64 = 1 << 25;

/// Of enum perf_event_x86_regs: CX, SI, DI and FLAGS where it was interrupted.
const AT_INTERRUPT: u64 = 1 << 2 | 1 << 4 | 1 << 5 | 1 << 9;
/// DX, BP, SP and IP of the user space below.
const OF_USER: u64 = 1 << 3 | 1 << 6 | 1 << 7 | 1 << 8;

/// Bytes of the user stack that a sample holds: enough for the frames of a C library between its system call
/// or copy and the program.
pub const STACK_BYTES: u32 = 512;

/// PERF_FORMAT_LOST, from Linux 6.0 on.
const WITH_LOST: u64 = 1 << 4;

/// Kernel frames a sample may hold.
const CHAIN_FRAMES: u16 = 32;

/// _IO('$', 5).
const IOC_SET_OUTPUT: libc::Ioctl = 0x2405;
const IOC_DISABLE: libc::Ioctl = 0x2401;

/// perf_event_attr as of Linux 4.8; older kernels take it where the fields that they lack are zero.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

/// Who is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// What the calling thread starts, from its execve(2) on.
    Started,
    /// A thread of any process, and the threads and processes that it starts from now on.
    Thread(u32),
    /// Whatever runs on the CPU.
    Everyone,
}

/// What is recorded, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Nanoseconds of CPU time from one sample to the next.
    pub period_ns: u64,
    /// Whether samples are taken inside the kernel too.
    pub kernel: bool,
    /// Whether those tell the kernel's calls.
    pub chains: bool,
    /// Bytes in a ring after which [`poll`](rustix::event::poll) tells.
    pub wake_at: u32,
}

/// A clock that interrupts, and the descriptor that stands for it.
#[derive(Debug)]
pub struct Event {
    file: File,
    tells_lost: bool,
}

/// What an event counted so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Nanoseconds that its threads ran, user and system.
    pub ran_ns: u64,
    /// Records that the ring had no room for; 0 where the kernel does not say.
    pub lost: u64,
}

impl Event {
    /// Starts interrupting; without a CPU on whichever the thread runs, which allows no ring.
    ///
    /// # Errors
    /// Where the kernel's settings, a sandbox or the thread's owner do not allow it.
    pub fn open(whose: Whose, cpu: Option<u32>, wanted: &Wanted) -> Result<Event, PerfError> {
        let thread = match whose {
            Whose::Started => 0,
            Whose::Thread(thread) => thread as libc::pid_t,
            Whose::Everyone => -1,
        };
        let (cpu, no_group) = (cpu.map_or(-1, |cpu| cpu as libc::c_int), -1);
        let open = |read_format| {
            sandbox::lets(libc::SYS_perf_event_open)?;
            let attributes = Attributes { read_format, ..attributes(whose, wanted) };
            // SAFETY: the kernel reads `size` bytes of the attributes, which are that long; the other arguments
            // are plain numbers.
            let fd = unsafe {
                let call = libc::SYS_perf_event_open;
                libc::syscall(call, &raw const attributes, thread, cpu, no_group, CLOSE_ON_EXEC)
            };
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: the kernel has just given this descriptor to us alone.
            let file = File::from(unsafe { OwnedFd::from_raw_fd(fd as i32) });
            Ok(Event { file, tells_lost: read_format == WITH_LOST })
        };
        let opened = match open(WITH_LOST) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => open(0),
            opened => opened,
        };
        opened.map_err(|error| refused(error, whose, wanted))
    }

    /// Has its records written to the ring of another event of the same CPU.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn write_to_ring_of(&self, other: &Event) -> io::Result<()> {
        // SAFETY: both descriptors are open, and the request takes a descriptor's number.
        match unsafe { libc::ioctl(self.file.as_raw_fd(), IOC_SET_OUTPUT, other.file.as_raw_fd()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Ends its samples, those of what its threads have started too.
    pub fn disable(&self) {
        // SAFETY: the descriptor is open, and the request takes no pointer. It does not fail for an event.
        unsafe { libc::ioctl(self.file.as_raw_fd(), IOC_DISABLE, 0) };
    }

    /// What it counted so far.
    ///
    /// # Errors
    /// Where the kernel does not say.
    pub fn counts(&self) -> io::Result<Counts> {
        let mut words = [0; 16];
        let len = if self.tells_lost { 16 } else { 8 };
        (&self.file).read_exact(&mut words[..len])?;
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| words[at + byte]));
        Ok(Counts { ran_ns: word(0), lost: word(8) })
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn attributes(whose: Whose, wanted: &Wanted) -> Attributes {
    let start = match whose {
        Whose::Started => INHERIT | DISABLED | ENABLE_ON_EXEC,
        Whose::Thread(_) => INHERIT,
        Whose::Everyone => EXCLUDE_IDLE,
    };
    let kernel = if wanted.kernel { NO_USER_CHAINS } else { EXCLUDE_KERNEL };
    let told = MAPPINGS | MAPPINGS_WITH_INODES | NAMES | EXECS_MARKED | TASKS | IDS_IN_ALL;
    let chains = wanted.kernel && wanted.chains;
    Attributes {
        kind: TYPE_SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: CPU_CLOCK,
        sample_period: wanted.period_ns,
        sample_type: IP
            | TID
            | TIME
            | USER_REGISTERS
            | USER_STACK
            | REGISTERS
            | if chains { CALL_CHAIN } else { 0 },
        flags: start | kernel | told | EXCLUDE_HYPERVISOR | WATERMARK | OWN_CLOCK,
        wakeup_watermark: wanted.wake_at,
        sample_regs_user: OF_USER,
        sample_stack_user: STACK_BYTES,
        clock: libc::CLOCK_MONOTONIC,
        sample_regs_intr: AT_INTERRUPT,
        sample_max_stack: if chains { CHAIN_FRAMES } else { 0 },
        ..Attributes::default()
    }
}

/// The highest perf_event_paranoid that would do: above 0 no CPU is watched as a whole, above 1 the kernel is
/// not, above 2 (a distribution's addition) nothing is.
fn needed(whose: Whose, kernel: bool) -> i32 {
    match whose {
        Whose::Everyone => 0,
        _ if kernel => 1,
        _ => 2,
    }
}

fn refused(error: io::Error, whose: Whose, wanted: &Wanted) -> PerfError {
    let code = error.raw_os_error();
    match (why(error, needed(whose, wanted.kernel), super::perf::paranoid()), whose) {
        (PerfError::Forbidden, Whose::Thread(_)) if code == Some(libc::EACCES) => PerfError::Foreign,
        (reason, _) => reason,
    }
}

/// A ring that the kernel writes records to.
#[derive(Debug)]
pub struct Ring {
    start: NonNull<u8>,
    page: usize,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, and any thread may read it.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring for an event of one CPU, of so many pages, a power of two.
    ///
    /// # Errors
    /// EPERM where the pages are more than perf_event_mlock_kb leaves to this user.
    pub fn of(event: &Event, pages: usize) -> io::Result<Ring> {
        let page = 4096; // x86-64 has no other
        let bytes = page * pages;
        // SAFETY: a new mapping at a place of the kernel's choice touches no existing memory; the descriptor
        // is open while borrowed.
        let start = unsafe {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let file = event.file.as_raw_fd();
            libc::mmap(std::ptr::null_mut(), page + bytes, rights, libc::MAP_SHARED, file, 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Ring { start, page, bytes })
    }

    /// Appends what was recorded since the last time, whole records, and gives the room back.
    pub fn take(&mut self, into: &mut Vec<u8>) {
        // The kernel writes a record, then moves the head: what lies before the head is whole.
        let head = self.word(HEAD).load(Ordering::Acquire);
        let tail = self.word(TAIL).load(Ordering::Relaxed);
        let len = head.wrapping_sub(tail) as usize;
        if len <= self.bytes {
            let from = tail as usize & (self.bytes - 1);
            let first = len.min(self.bytes - from);
            self.copy(from, first, into);
            self.copy(0, len - first, into);
        }
        self.word(TAIL).store(head, Ordering::Release);
    }

    fn copy(&self, from: usize, len: usize, into: &mut Vec<u8>) {
        assert!(from + len <= self.bytes, "inside the ring");
        let at = into.len();
        into.resize(at + len, 0);
        // SAFETY: the bytes lie inside the mapping, behind its first page, and no reference to them exists;
        // the kernel does not write between tail and head. `into` has just been made as long.
        unsafe {
            let source = self.start.as_ptr().add(self.page + from);
            source.copy_to_nonoverlapping(into.as_mut_ptr().add(at), len);
        }
    }

    /// A word of struct perf_event_mmap_page.
    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the mapping's first page holds the word, aligned; the kernel reaches it atomically, and so
        // does this process, through this function alone. It lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(at).cast()) }
    }
}

/// data_head and data_tail in struct perf_event_mmap_page.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `of` made, to which no reference is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.page + self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::refuse::{self, Refusal};

    const WANTED: Wanted = Wanted { period_ns: 100_000, kernel: false, chains: false, wake_at: 4096 };

    #[test]
    fn the_attributes_are_as_the_header_has_them() {
        assert_eq!(size_of::<Attributes>(), 112, "PERF_ATTR_SIZE_VER5");
        assert_eq!(std::mem::offset_of!(Attributes, sample_regs_user), 80);
        assert_eq!(std::mem::offset_of!(Attributes, sample_regs_intr), 96);
        assert_eq!(std::mem::offset_of!(Attributes, sample_max_stack), 108);
    }

    #[test]
    fn own_work_is_sampled_or_there_is_a_reason() {
        // A thread of its own: what it starts elsewhere would inherit the event.
        let told = std::thread::spawn(|| {
            let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            let cpu = crate::sys::cpu::allowed().unwrap()[0];
            crate::sys::cpu::pin(cpu).unwrap();
            let event = Event::open(Whose::Thread(own), Some(cpu), &WANTED)?;
            let mut ring = Ring::of(&event, 8).map_err(PerfError::Other)?;
            let began = std::time::Instant::now();
            while event.counts().unwrap().ran_ns < 5_000_000 && began.elapsed().as_secs() < 20 {}
            let mut bytes = Vec::new();
            ring.take(&mut bytes);
            let first = bytes.len();
            ring.take(&mut bytes);
            Ok::<_, PerfError>((first, event.counts().unwrap().ran_ns))
        });
        match told.join().unwrap() {
            Ok((bytes, ran)) => assert!(bytes > 500 && ran > 0, "{bytes} {ran}"),
            Err(error) => eprintln!("skipped: {error}"),
        }
    }

    #[test]
    fn refusals_are_told_apart() {
        let text = |code, whose| refused(io::Error::from_raw_os_error(code), whose, &WANTED).to_string();
        assert!(text(libc::ESRCH, Whose::Thread(1)).contains("no such process"));
        assert!(text(libc::EMFILE, Whose::Started).contains("Too many open files"));
        assert_eq!([needed(Whose::Everyone, false), needed(Whose::Started, true)], [0, 1]);
        let open = || Event::open(Whose::Started, None, &WANTED).map(drop);
        for refusal in [Refusal::Error(libc::EPERM), Refusal::Kill] {
            if let Some(opened) = refuse::in_a_thread(&[libc::SYS_perf_event_open], refusal, open) {
                assert!(opened.expect_err("refused").to_string().contains("forbid"));
            }
        }
    }
}
