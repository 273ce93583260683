//! The readers themselves, in a child process: each once, timed by itself, answered on stdout.

use super::order::{Answer, Order, Replay, Replayed};
use crate::report::{Allocator, Landed, PAGE, ReaderName, offset_of};
use crate::sys::block::{Advice, Block};
use crate::sys::mapping::Mapping;
use crate::sys::{clock, stdio, usage};
use std::ffi::CString;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Does what the order says, and returns the line to answer: JSON of a `Result`.
pub fn obey(order: &str, file: &Path, turn: usize) -> String {
    let told = match serde_json::from_str(order) {
        Ok(Order::Read { reader, ask_huge }) => line(read(reader, ask_huge, file)),
        Ok(Order::Replay(replay)) => line(replayed(replay, file, turn)),
        Err(error) => line::<Answer>(Err(io::Error::other(error))),
    };
    told + "\n"
}

fn line<T: serde::Serialize>(result: io::Result<T>) -> String {
    let result = result.map_err(|error| crate::sys::reason(&error));
    serde_json::to_string(&result).unwrap_or_default()
}

/// What a reader found out besides the time that it took.
#[derive(Default)]
struct Found {
    read_ns: Option<u64>,
    at: Option<u64>,
    bytes: u64,
}

fn read(reader: ReaderName, ask_huge: bool, file: &Path) -> io::Result<Answer> {
    let faults = || usage::thread().map(|usage| usage.page_faults);
    let (faults_before, before_ns) = (faults(), clock::now_ns());
    let found = match reader {
        ReaderName::Fread => c_fread(file, None, ask_huge),
        ReaderName::FreadMoved => c_fread(file, Some(fread_moved()), ask_huge),
        ReaderName::FsRead => std::fs::read(file).map(|bytes| of_vec(&bytes)),
        ReaderName::ReadToEnd => read_to_end(file),
        ReaderName::BufReader => buf_reader(file),
        ReaderName::Jemalloc => allocated(file, Allocator::Jemalloc, ask_huge),
        ReaderName::Mimalloc => allocated(file, Allocator::Mimalloc, ask_huge),
        ReaderName::Mmap => mapped(file),
        ReaderName::Opendal => opendal(file),
        ReaderName::Python | ReaderName::Command => Err(io::Error::other("this reader is another program")),
    }?;
    let call_ns = clock::now_ns().saturating_sub(before_ns);
    let faults = faults().zip(faults_before).map(|(after, before)| after - before);
    Ok(Answer { call_ns, read_ns: found.read_ns, faults, at: found.at, bytes: found.bytes })
}

/// Where `fread-moved` puts its buffer: glibc's mapped chunks start at 0x010.
fn fread_moved() -> u16 {
    Landed::at(0x010, 0, 1, 1).moved()
}

/// A C program's `malloc` and one `fread`; at page offset `dst` where one is named.
fn c_fread(file: &Path, dst: Option<u16>, ask_huge: bool) -> io::Result<Found> {
    let size = size(file)?;
    let slack = if dst.is_some() { usize::from(PAGE) } else { 0 };
    let mut block = fresh(Allocator::Glibc, size + slack, ask_huge)?;
    let at = dst.map_or(0, |dst| steps_to(dst, block.address()));
    let name = CString::new(file.as_os_str().as_bytes())?;
    let bytes = stdio::fread(&name, &mut block, at)?;
    Ok(Found { read_ns: None, at: Some((block.address() + at) as u64), bytes: bytes as u64 })
}

/// How far from an address the next one of page offset `dst` is.
fn steps_to(dst: u16, address: usize) -> usize {
    usize::from(dst.wrapping_sub(offset_of(address as u64)) % PAGE)
}

fn read_to_end(file: &Path) -> io::Result<Found> {
    let mut bytes = Vec::new();
    File::open(file)?.read_to_end(&mut bytes)?;
    Ok(of_vec(&bytes))
}

fn of_vec(bytes: &[u8]) -> Found {
    Found { read_ns: None, at: Some(black_box(bytes).as_ptr() as u64), bytes: bytes.len() as u64 }
}

/// A file whose reads are timed.
struct Timed {
    file: File,
    ns: u64,
}

impl Read for Timed {
    fn read(&mut self, dst: &mut [u8]) -> io::Result<usize> {
        let before = clock::now_ns();
        let read = self.file.read(dst);
        self.ns += clock::now_ns().saturating_sub(before);
        read
    }
}

/// As programs use it: what the buffer holds goes into a `Vec`, again and again.
fn buf_reader(file: &Path) -> io::Result<Found> {
    let mut reader = BufReader::new(Timed { file: File::open(file)?, ns: 0 });
    let mut bytes: Vec<u8> = Vec::new();
    let mut at = None;
    loop {
        let part = reader.fill_buf()?;
        if part.is_empty() {
            break;
        }
        at.get_or_insert(part.as_ptr() as u64);
        bytes.extend_from_slice(part);
        let len = part.len();
        reader.consume(len);
    }
    Ok(Found { read_ns: Some(reader.get_ref().ns), at, bytes: black_box(bytes).len() as u64 })
}

fn allocated(file: &Path, allocator: Allocator, ask_huge: bool) -> io::Result<Found> {
    let mut block = fresh(allocator, size(file)?, ask_huge)?;
    let (bytes, ns) = fill(&File::open(file)?, &mut block, 0, usize::MAX, false)?;
    Ok(Found { read_ns: Some(ns), at: Some(block.address() as u64), bytes })
}

fn mapped(file: &Path) -> io::Result<Found> {
    let size = size(file)?;
    let mapping = Mapping::new(File::open(file)?.as_fd(), size as u64)?;
    mapping.touch().map_err(|_| io::Error::other("the file became shorter"))?;
    Ok(Found { bytes: size as u64, ..Found::default() })
}

#[cfg(feature = "opendal")]
fn opendal(file: &Path) -> io::Result<Found> {
    let path = std::path::absolute(file)?;
    let name = path.to_str().ok_or_else(|| io::Error::other("OpenDAL wants a name in UTF-8"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let service = opendal::services::Fs::default().root("/");
    let operator = opendal::Operator::new(service).map_err(io::Error::other)?.finish();
    let bytes = runtime.block_on(operator.read(name)).map_err(io::Error::other)?;
    let bytes = bytes.to_bytes();
    Ok(of_vec(&bytes))
}

#[cfg(not(feature = "opendal"))]
fn opendal(_: &Path) -> io::Result<Found> {
    Err(io::Error::other("this fsprobe was built without the feature `opendal`"))
}

/// Memory that nothing has touched yet.
fn fresh(allocator: Allocator, len: usize, ask_huge: bool) -> io::Result<Block> {
    let mut block = Block::allocate(allocator, len)?;
    if ask_huge {
        block.advise(Advice::HugePages)?;
    }
    Ok(block)
}

fn size(file: &Path) -> io::Result<usize> {
    usize::try_from(std::fs::metadata(file)?.len()).map_err(|_| io::ErrorKind::OutOfMemory.into())
}

/// Reads to the end of the file or block, `len` bytes a call, from `at` on (each time, where `reused`).
/// Returns the bytes and the nanoseconds inside read(2).
fn fill(file: &File, block: &mut Block, at: usize, len: usize, reused: bool) -> io::Result<(u64, u64)> {
    let (mut bytes, mut ns, mut to) = (0, 0, at);
    loop {
        let before = clock::now_ns();
        let read = block.read(file.as_fd(), to, len);
        ns += clock::now_ns().saturating_sub(before);
        match read {
            Ok(0) => return Ok((bytes, ns)),
            Ok(read) => {
                bytes += read as u64;
                to = if reused { at } else { to + read };
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Does the three kinds of reads in an order that `turn` picks.
fn replayed(replay: Replay, file: &Path, turn: usize) -> io::Result<Replayed> {
    let mut file = File::open(file)?;
    let size = usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let len = usize::try_from(replay.len).map_err(|_| io::ErrorKind::OutOfMemory)?.max(1);
    let memory = if replay.reused { len } else { size } + 2 * usize::from(PAGE);
    let mut times = [0; 3];
    for kind in ORDERS[turn % ORDERS.len()] {
        let mut block = fresh(Allocator::Pages, memory, replay.ask_huge)?;
        if kind == PRESENT {
            block.fill();
        }
        let dst = if kind == MOVED { replay.moved } else { replay.dst };
        let at = steps_to(dst, block.address());
        file.seek(SeekFrom::Start(u64::from(replay.src)))?;
        times[kind] = fill(&file, &mut block, at, len, replay.reused)?.1;
    }
    Ok(Replayed { same_ns: times[SAME], moved_ns: times[MOVED], present_ns: times[PRESENT] })
}

const SAME: usize = 0;
const MOVED: usize = 1;
const PRESENT: usize = 2;

/// Every order of the three.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const SIZE: usize = 300_001;

    fn file() -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![7; SIZE]).unwrap();
        file
    }

    #[test]
    fn every_reader_reads_it_all_and_says_where_to() {
        let file = file();
        for &reader in ReaderName::ALL {
            let answer = match read(reader, false, file.path()) {
                Ok(answer) => answer,
                Err(_) if reader.is_foreign() => continue,
                Err(_) if reader == ReaderName::Opendal && !cfg!(feature = "opendal") => continue,
                Err(error) => panic!("{reader}: {error}"),
            };
            assert_eq!(answer.bytes, SIZE as u64, "{reader}");
            assert_eq!(answer.at.is_none(), reader == ReaderName::Mmap, "{reader}");
            assert!(answer.call_ns > answer.read_ns.unwrap_or(0), "{reader}");
            if reader == ReaderName::FreadMoved {
                assert_eq!(answer.at.map(offset_of), Some(0x410));
            }
        }
    }

    #[test]
    fn reads_are_done_again_where_they_should_land() {
        let file = file();
        let replay = Replay { dst: 0x010, moved: 0x410, src: 5, len: 8192, reused: true, ask_huge: false };
        for (turn, reused) in [(0, true), (3, false), (7, true)] {
            let times = replayed(Replay { reused, ..replay }, file.path(), turn).unwrap();
            assert!(times.same_ns > 0 && times.moved_ns > 0 && times.present_ns > 0);
        }
        let mut block = Block::allocate(Allocator::Pages, 3 * 4096).unwrap();
        let opened = File::open(file.path()).unwrap();
        assert_eq!(fill(&opened, &mut block, 100, 5000, false).unwrap().0, 3 * 4096 - 100);
    }

    #[test]
    fn what_goes_wrong_is_an_answer() {
        for order in ["", "{\"read\":{\"reader\":\"python\",\"ask_huge\":false}}"] {
            assert!(obey(order, Path::new("/nowhere"), 0).starts_with("{\"Err\":"), "{order}");
        }
        let order =
            serde_json::to_string(&Order::Read { reader: ReaderName::FsRead, ask_huge: false }).unwrap();
        assert_eq!(obey(&order, Path::new("/nowhere"), 0), "{\"Err\":\"No such file or directory\"}\n");
    }
}
