//! Every copy path: the bytes that arrive, where they lie, and what happens when a path is refused.

use super::*;
use crate::report::{Allocator, Scan};
use crate::sys::block::{Block, FILL, Memory};
use crate::sys::interrupt;
use crate::sys::refuse::{self, Refusal};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn short_reads_are_completed() {
    let mut dst = [0; 10];
    let mut calls = vec![];
    complete("read", &mut dst, |rest, done| {
        calls.push((rest.len(), done));
        let bytes = rest.len().min(4);
        rest[..bytes].fill(done as u8 + 1);
        Ok(bytes)
    })
    .unwrap();
    assert_eq!(calls, [(10, 0), (6, 4), (2, 8)]);
    assert_eq!(dst, [1, 1, 1, 1, 5, 5, 5, 5, 9, 9]);
}

#[test]
fn the_end_of_the_source_and_failures_are_told_apart() {
    let end = complete("read", &mut [0; 4], |_, done| Ok(if done == 0 { 2 } else { 0 }));
    assert!(matches!(end, Err(PathError::SourceShort)));
    let failed = complete("pread", &mut [0; 4], |_, _| Err(io::ErrorKind::InvalidInput.into()));
    assert!(failed.unwrap_err().to_string().starts_with("pread failed: "));
}

#[test]
fn short_and_interrupted_writes_are_completed() {
    let mut calls = vec![];
    complete_write("write", b"0123456789", |rest, done| {
        calls.push((rest.to_vec(), done));
        if calls.len() == 2 { Err(io::ErrorKind::Interrupted.into()) } else { Ok(rest.len().min(6)) }
    })
    .unwrap();
    let rest = |from: usize| (b"0123456789"[from..].to_vec(), from);
    assert_eq!(calls, [rest(0), rest(6), rest(6)]);
    let nothing = complete_write("write", b"0", |_, _| Ok(0)).unwrap_err();
    assert!(nothing.to_string().starts_with("write failed: "), "{nothing}");
    let full = complete_write("write", b"0", |_, _| Err(io::ErrorKind::StorageFull.into()));
    assert!(matches!(full, Err(PathError::Call { call: "write", .. })));
}

#[test]
fn calls_that_a_signal_interrupts_are_repeated() {
    let (mut reader, mut writer) = io::pipe().unwrap();
    let target = interrupt::this_thread();
    let interrupted = AtomicU32::new(0);
    let mut dst = [0; 8];
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            for part in [b"half", b"rest"] {
                let before = interrupted.load(Ordering::SeqCst);
                while interrupted.load(Ordering::SeqCst) == before {
                    target.interrupt();
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                writer.write_all(part).unwrap();
            }
        });
        complete("read", &mut dst, |rest, _| {
            let read = reader.read(rest);
            if read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {
                interrupted.fetch_add(1, Ordering::SeqCst);
            }
            read
        })
    });
    assert!(result.is_ok());
    assert_eq!(&dst, b"halfrest");
    assert!(interrupted.load(Ordering::SeqCst) >= 2);
}

const LENGTHS: [usize; 8] = [1, 127, 128, 4095, 4096, 4097, 65536, (1 << 20) + 1];
const LONGEST: usize = (1 << 20) + 1;

/// Page-aligned memory in the place of an allocator's pool.
struct Buffer(Memory);

impl Buffer {
    fn new() -> Self {
        Buffer(Block::allocate(Allocator::Pages, LONGEST + 4 * 4096).unwrap().faulted_in())
    }

    /// The buffer at a spot, and whether what lies around it is as it was filled.
    fn at(&mut self, spot: Spot, len: usize) -> &mut [u8] {
        let start = spot.position() as usize;
        &mut self.0.bytes()[start..start + len]
    }

    fn untouched_around(&self, spot: Spot, len: usize) -> bool {
        let (start, bytes) = (spot.position() as usize, self.0.read());
        bytes[..start].iter().chain(&bytes[start + len..]).all(|&byte| byte == FILL)
    }
}

/// A source file as long as every test needs.
fn source() -> Source {
    Source::own((LONGEST + 70 * 4096) as u64).unwrap()
}

fn read_file(file: &std::fs::File, position: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, position).unwrap();
    bytes
}

/// What a path that reads has to bring; none for those that bring nothing.
fn expected(name: PathName, opener: &Opener<'_>, source: &Source, from: Spot, len: usize) -> Option<Vec<u8>> {
    match name {
        PathName::Splice => None,
        PathName::Zero => Some(vec![0; len]),
        PathName::Read | PathName::Readv | PathName::Pread | PathName::Preadv => {
            Some(read_file(&source.file(), from.position(), len))
        }
        PathName::IoUringRead | PathName::Mmap => Some(read_file(&source.file(), from.position(), len)),
        _ => Some(opener.memory().unwrap().at(from.position(), len).unwrap().to_vec()),
    }
}

fn reading() -> impl Iterator<Item = PathName> {
    PathName::ALL.iter().copied().filter(|&name| name.own_scan() == Scan::Dst)
}

/// A path, or none where this machine has it not, which is said aloud.
fn opened(opener: &Opener<'_>, name: PathName) -> Option<Box<dyn CopyPath>> {
    opener.open(name).inspect_err(|reason| eprintln!("skipped: {reason}")).ok()
}

#[test]
fn paths_that_read_bring_exactly_the_bytes_asked_for() {
    let source = source();
    let opener = Opener::new(&source, LONGEST);
    let mut buffer = Buffer::new();
    for name in reading() {
        let Some(mut path) = opened(&opener, name) else { continue };
        for len in LENGTHS {
            for (dst, src, page, repeat) in
                [(0, 0, 0, 1), (8, 0, 63, 3), (0xfff, 0x7f1, 5, 1), (0x1000, 0x1000, 62, 2)]
            {
                let src = if name == PathName::Zero { 0 } else { src };
                let (to, from) = (Spot { page: 1, offset: dst }, Spot { page, offset: src });
                buffer.0.bytes().fill(FILL);
                let memory = buffer.at(to, len);
                assert_eq!(memory.as_ptr() as usize % 4096, usize::from(dst % 4096));
                path.sample(Copy { memory, to, from, len, repeat, first_touch: false }).unwrap();
                let what = format!("{name} len {len} dst {dst:#x} src {src:#x} x {repeat}");
                let wanted = expected(name, &opener, &source, from, len).unwrap_or(vec![FILL; len]);
                assert!(*buffer.at(to, len) == wanted, "{what}: bytes");
                assert!(buffer.untouched_around(to, len), "{what}: around");
            }
        }
    }
}

#[test]
fn paths_that_write_leave_exactly_the_bytes_given() {
    let source = source();
    let opener = Opener::new(&source, LONGEST);
    let target = opener.target().unwrap();
    let mut buffer = Buffer::new();
    let memory = opener.memory().unwrap();
    for mut path in
        [Box::new(write::Write(target.clone())) as Box<dyn CopyPath>, Box::new(write::Pwrite(target.clone()))]
    {
        for len in LENGTHS {
            for (dst, src, page, repeat) in [(0, 0, 1, 1), (8, 0xfff, 62, 3), (0x1000, 0x1000, 62, 2)] {
                let around = len + 2 * 4096;
                let (to, from) = (Spot { page, offset: dst }, Spot { page: 1, offset: src });
                target.file.write_all_at(&vec![FILL; around], to.position() - 4096).unwrap();
                buffer.at(from, len).copy_from_slice(memory.at(7, len).unwrap());
                path.sample(Copy { memory: buffer.at(from, len), to, from, len, repeat, first_touch: false })
                    .unwrap();
                let found = read_file(&target.file, to.position() - 4096, around);
                let what = format!("{} len {len} dst {dst:#x} src {src:#x} x {repeat}", path.name());
                assert!(found[4096..4096 + len] == *buffer.at(from, len), "{what}: bytes");
                let outside = found[..4096].iter().chain(&found[4096 + len..]);
                assert!({ outside }.all(|&byte| byte == FILL), "{what}: around");
            }
        }
    }
    assert_eq!(target.file.metadata().unwrap().len(), target.size);
}

#[test]
fn what_is_written_into_channels_comes_out() {
    let source = source();
    let opener = Opener::new(&source, LONGEST);
    let mut buffer = Buffer::new();
    let memory = opener.memory().unwrap();
    for (name, channel) in [
        (PathName::PipeWrite, channel::Channel::pipe(LONGEST)),
        (PathName::SocketWrite, channel::Channel::socket()),
    ] {
        let mut path = channel::ChannelWrite::new(name, channel.unwrap());
        for len in LENGTHS {
            for (src, repeat) in [(0, 1), (0xff8, 3)] {
                let (to, from) = (Spot { page: 0, offset: 0 }, Spot { page: 1, offset: src });
                buffer.at(from, len).copy_from_slice(memory.at(7, len).unwrap());
                path.drained.fill(FILL);
                path.sample(Copy { memory: buffer.at(from, len), to, from, len, repeat, first_touch: false })
                    .unwrap();
                // The chunk that came out last is what remains.
                let last = buffer.at(from, len).chunks(path.drained.len()).next_back().unwrap();
                assert!(path.drained.starts_with(last), "{name} len {len} src {src:#x} x {repeat}");
            }
        }
    }
}

#[test]
fn own_sides_have_their_start_pages_and_lie_where_they_say() {
    let source = source();
    let opener = Opener::new(&source, LONGEST);
    for &name in PathName::ALL {
        let Some(path) = opened(&opener, name) else { continue };
        assert_eq!(path.name(), name);
        let pages = path.own_pages(LONGEST as u64, 0xfff);
        assert!(pages.is_none_or(|pages| pages >= 64), "{name}: {pages:?}");
        let limited = !matches!(name, PathName::PipeWrite | PathName::SocketWrite | PathName::Zero);
        assert_eq!(path.own_pages(1 << 40, 0) == Some(0), limited && pages.is_some(), "{name}");
    }
    for offset in [0, 1, 0x740, 0xfff] {
        let position = Spot { page: 9, offset }.position();
        let at = opener.memory().unwrap().at(position, 100).unwrap().as_ptr() as usize;
        assert_eq!(at % 4096, usize::from(offset));
    }
}

#[test]
fn offsets_that_the_kernel_chooses_are_refused_with_the_reason() {
    let source = source();
    let opener = Opener::new(&source, 65536);
    let can = |path, dst, src, len| {
        let cell = CellSpec { path, allocator: Some(Allocator::Pages), len, dst, src, reference: false };
        opener.open(path).unwrap().can(&cell)
    };
    for path in [PathName::PipeWrite, PathName::SocketWrite] {
        assert!(can(path, 0, 8, 65536).is_ok() && can(path, 0x1000, 8, 4096).is_ok());
        assert!(can(path, 8, 0, 65536).unwrap_err().contains("0x000"));
    }
    assert!(can(PathName::PipeWrite, 0, 8, 128).is_ok());
    assert!(can(PathName::SocketWrite, 0, 8, 128).unwrap_err().contains("4096"));
    assert!(can(PathName::Zero, 8, 0, 128).is_ok());
    assert!(can(PathName::Zero, 8, 1, 128).unwrap_err().contains("src"));
    for path in [PathName::PipeRead, PathName::SocketRead, PathName::Write, PathName::RepMovsb] {
        assert!(can(path, 8, 0x740, 128).is_ok(), "{path}");
    }
}

#[test]
fn start_pages_count_to_the_end() {
    assert_eq!(start_pages(8192, 4096, 0), 2);
    assert_eq!(start_pages(8192, 4096, 1), 1);
    assert_eq!(start_pages(8192, 8193, 0), 0);
    assert_eq!(start_pages(8192, u64::MAX, PAGE), 0);
}

#[test]
fn a_sandbox_that_refuses_calls_is_told_and_the_rest_goes_on() {
    let source = source();
    for (call, name, word) in [
        (libc::SYS_io_uring_setup, PathName::IoUringRead, "io_uring"),
        (libc::SYS_io_uring_enter, PathName::IoUringRead, "io_uring"),
        (libc::SYS_process_vm_readv, PathName::ProcessVmRead, "process_vm_readv"),
        (libc::SYS_splice, PathName::Splice, "splice"),
        (libc::SYS_socketpair, PathName::SocketRead, "socket"),
        (libc::SYS_socketpair, PathName::SocketWrite, "socket"),
        (libc::SYS_pipe2, PathName::PipeRead, "pipe"),
        (libc::SYS_pipe2, PathName::PipeWrite, "pipe"),
    ] {
        for refusal in [Refusal::Error(libc::EPERM), Refusal::Error(libc::ENOSYS), Refusal::Kill] {
            let outcome = refuse::in_a_thread(&[call], refusal, || {
                let opener = Opener::new(&source, 4096);
                let others = [PathName::Read, PathName::Pwrite, PathName::RepMovsb];
                (opener.open(name).err(), others.iter().all(|&other| opener.open(other).is_ok()))
            });
            let Some((reason, others)) = outcome else { return };
            let reason = reason.unwrap_or_else(|| panic!("{name} opened without its call"));
            assert!(
                !reason.starts_with(&format!("{name}:")) && reason.contains(word) && !reason.contains('\n'),
                "{reason}"
            );
            assert!(others, "{name}");
        }
    }
}

/// Set for the child process of the next test.
const CHILD: &str = "FSPROBE_TEST_FEW_DESCRIPTORS";

#[test]
fn eight_descriptors_are_enough_for_what_needs_none() {
    if std::env::var_os(CHILD).is_none() {
        // This very test in a process of its own with that limit.
        let test = "path::tests::eight_descriptors_are_enough_for_what_needs_none";
        let script = "ulimit -n 8 && exec \"$0\" \"$1\" --exact --nocapture --test-threads=1";
        let child = std::process::Command::new("sh")
            .args(["-c", script])
            .arg(std::env::current_exe().unwrap())
            .arg(test)
            .env(CHILD, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success() && text.contains("refused: "), "{text}");
        return;
    }
    let source = Source::own(65536).unwrap();
    let opener = Opener::new(&source, 4096);
    let mut open = vec![];
    let mut refused = vec![];
    for &name in PathName::ALL {
        match opener.open(name) {
            Ok(path) => open.push(path),
            Err(reason) => refused.push((name, reason)),
        }
    }
    for (name, reason) in &refused {
        assert!(!reason.starts_with(&format!("{name}:")), "whoever shows it names the path: {reason}");
        eprintln!("refused: {reason}");
    }
    // Pipes, sockets, io_uring and splice together want 13 descriptors.
    assert!(refused.iter().any(|(_, reason)| reason.contains("open files")), "{refused:?}");
    for name in [PathName::Read, PathName::Pread, PathName::Memcpy, PathName::RepMovsb, PathName::Mmap] {
        let path = open.iter_mut().find(|path| path.name() == name).unwrap();
        let (to, from) = (Spot { page: 0, offset: 0 }, Spot { page: 1, offset: 3 });
        path.sample(Copy { memory: &mut [0; 100], to, from, len: 100, repeat: 1, first_touch: false })
            .unwrap();
    }
}
