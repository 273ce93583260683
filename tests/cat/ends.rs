//! The ends between which the tests make `fsprobe cat` carry bytes.

use crate::common::{Place, stderr, text};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Where bytes come from.
#[derive(Debug, Clone, Copy)]
pub enum Source {
    File,
    Pipe,
    Fifo,
    Socket,
    /// Takes lines.
    Terminal,
}

impl Source {
    pub const ALL: [Source; 5] = [Source::File, Source::Pipe, Source::Fifo, Source::Socket, Source::Terminal];
}

/// Where they go.
#[derive(Debug, Clone, Copy)]
pub enum Sink {
    /// Behind which a slow reader takes odd sizes.
    Pipe,
    File,
    /// A file with something in it, in append mode.
    Append,
    Socket,
    Terminal,
}

impl Sink {
    pub const ALL: [Sink; 5] = [Sink::Pipe, Sink::File, Sink::Append, Sink::Socket, Sink::Terminal];
}

/// What the file in append mode holds before.
const BEFORE: &[u8] = b"what was there before";

/// Bytes without a period of a power of two.
pub fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8 ^ (i / 4093) as u8).collect()
}

/// Lines of text, all different, without a key that means something to a terminal.
pub fn lines(count: usize) -> Vec<u8> {
    (0..count).map(|i| format!("line {i} of {count}\n")).collect::<String>().into_bytes()
}

/// Carries `content`, written and read in odd pieces, and returns what arrived.
pub fn carry(place: &Place, source: Source, sink: Sink, content: &[u8], options: &[&str]) -> Vec<u8> {
    carry_in(place, source, sink, content, options, &[65_537, 1, 4099, 99_991], &[4097, 1, 130_001, 333])
}

/// The same, written and read in these pieces, in turn.
pub fn carry_in(
    place: &Place,
    source: Source,
    sink: Sink,
    content: &[u8],
    options: &[&str],
    pieces: &[usize],
    reads: &[usize],
) -> Vec<u8> {
    let mut command = place.fsprobe(&["cat"]);
    command.args(options).stderr(Stdio::piped());
    let feed = source_for(place, source, content, &mut command);
    let drain = sink_for(place, sink, &mut command);
    let child = command.spawn().unwrap();
    // the child alone holds its ends now
    drop(command);
    std::thread::scope(|scope| {
        scope.spawn(|| feed.give(content, pieces));
        drain.take(child, content.len(), reads)
    })
}

/// The test's end of a source.
enum Feed {
    /// Everything is there already.
    Nothing,
    Pipe(io::PipeWriter),
    Fifo(std::path::PathBuf),
    Socket(UnixStream),
    /// The side of a terminal that its user sits at.
    Terminal(File),
}

fn source_for(place: &Place, source: Source, content: &[u8], command: &mut Command) -> Feed {
    let path = place.path("source");
    match source {
        Source::File => {
            fs::write(&path, content).unwrap();
            command.arg(text(&path));
            Feed::Nothing
        }
        Source::Pipe => {
            let (reader, writer) = io::pipe().unwrap();
            command.stdin(reader);
            Feed::Pipe(writer)
        }
        Source::Fifo => {
            let fifo = place.path("fifo");
            let _ = fs::remove_file(&fifo);
            mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            command.arg(text(&fifo));
            Feed::Fifo(fifo)
        }
        Source::Socket => {
            let (near, far) = UnixStream::pair().unwrap();
            command.stdin(OwnedFd::from(far));
            Feed::Socket(near)
        }
        Source::Terminal => {
            let (user, program) = terminal();
            let mut modes = tcgetattr(&program).unwrap();
            modes.local_modes.insert(LocalModes::ICANON);
            tcsetattr(&program, OptionalActions::Now, &modes).unwrap();
            command.stdin(program);
            Feed::Terminal(user)
        }
    }
}

impl Feed {
    /// Writes everything and ends the source. A program that stops reading is found out by what arrives.
    fn give(self, content: &[u8], pieces: &[usize]) {
        match self {
            Feed::Nothing => {}
            Feed::Pipe(writer) => in_pieces(writer, content, pieces),
            Feed::Fifo(path) => in_pieces(File::options().write(true).open(path).unwrap(), content, pieces),
            Feed::Socket(socket) => {
                in_pieces(&socket, content, pieces);
                let _ = socket.shutdown(Shutdown::Write);
            }
            Feed::Terminal(user) => type_in(&user, content),
        }
    }
}

fn in_pieces(mut to: impl Write, mut rest: &[u8], pieces: &[usize]) {
    for &size in pieces.iter().cycle() {
        let (piece, after) = rest.split_at(size.min(rest.len()));
        if piece.is_empty() || to.write_all(piece).is_err() {
            return;
        }
        rest = after;
    }
}

/// Types lines into a terminal, and Ctrl-D at the end.
fn type_in(mut user: &File, content: &[u8]) {
    const CTRL_D: u8 = 4;
    user.write_all(content).and_then(|()| user.write_all(&[CTRL_D])).unwrap();
}

/// A terminal that changes no byte: its user's side and its program's.
fn terminal() -> (File, OwnedFd) {
    let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&user).unwrap();
    unlockpt(&user).unwrap();
    let name = ptsname(&user, vec![]).unwrap();
    let name = std::ffi::OsStr::from_bytes(name.as_bytes());
    let program =
        rustix::fs::open(name, rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY, Mode::empty());
    let program = program.unwrap();
    let mut modes = tcgetattr(&program).unwrap();
    modes.make_raw();
    tcsetattr(&program, OptionalActions::Now, &modes).unwrap();
    (user.into(), program)
}

/// The test's end of a sink.
enum Drain {
    Reader(Box<dyn Read + Send>),
    File { path: std::path::PathBuf, before: usize },
    Terminal(File),
}

fn sink_for(place: &Place, sink: Sink, command: &mut Command) -> Drain {
    let path = place.path("sink");
    match sink {
        Sink::Pipe => {
            let (reader, writer) = io::pipe().unwrap();
            command.stdout(writer);
            Drain::Reader(Box::new(reader))
        }
        Sink::Socket => {
            let (near, far) = UnixStream::pair().unwrap();
            command.stdout(OwnedFd::from(far));
            Drain::Reader(Box::new(near))
        }
        Sink::File => {
            command.stdout(File::create(&path).unwrap());
            Drain::File { path, before: 0 }
        }
        Sink::Append => {
            fs::write(&path, BEFORE).unwrap();
            command.stdout(File::options().append(true).open(&path).unwrap());
            Drain::File { path, before: BEFORE.len() }
        }
        Sink::Terminal => {
            let (user, program) = terminal();
            command.stdout(program);
            Drain::Terminal(user)
        }
    }
}

impl Drain {
    /// What arrives until the program ends, which has to be well.
    fn take(self, child: Child, expected: usize, reads: &[usize]) -> Vec<u8> {
        match self {
            Drain::Reader(reader) => {
                let arrived = in_odd_reads(reader, reads, expected);
                ended(child);
                arrived
            }
            // once the program is gone, its side of a terminal fails to be read (EIO)
            Drain::Terminal(user) => {
                let arrived = in_odd_reads(user, reads, expected);
                ended(child);
                arrived
            }
            Drain::File { path, before } => {
                ended(child);
                let content = fs::read(path).unwrap();
                assert_eq!(content[..before], BEFORE[..before]);
                content[before..].to_vec()
            }
        }
    }
}

fn ended(child: Child) {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{:?} {}", output.status, stderr(&output));
}

/// Reads in odd sizes, slowly where that does not take long.
fn in_odd_reads(mut reader: impl Read, reads: &[usize], expected: usize) -> Vec<u8> {
    let mut arrived = vec![];
    let mut part = vec![0; reads.iter().copied().max().unwrap_or(1)];
    for &size in reads.iter().cycle() {
        match reader.read(&mut part[..size]) {
            Ok(0) | Err(_) => break,
            Ok(count) => arrived.extend_from_slice(&part[..count]),
        }
        if expected < 200_000 {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    arrived
}
