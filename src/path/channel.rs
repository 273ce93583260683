//! Pipes and Unix stream sockets: read(2) out of one, and write(2) into one.
//!
//! Only the call asked for is timed; what fills the channel before a read or empties it after a write
//! is not. Nothing here ever waits: a channel gets no more than it holds, longer copies go in chunks
//! that are timed apart and summed, and both ends refuse to block.
//!
//! Where the kernel's bytes lie: an empty pipe is filled from the start of fresh pages (fs/pipe.c). A
//! socket does so for writes of whole pages, up to 32 KiB each; any other write gets a head of its own
//! first, at an offset of the kernel's choice, and shifts the rest (unix_stream_sendmsg in
//! net/unix/af_unix.c, sock_alloc_send_pskb in net/core/sock.c). So sockets are written to by whole
//! pages, a tail apart.

use super::own_memory::OwnMemory;
use super::{ANY_PAGES, Copy, CopyPath, PathError, complete, complete_write};
use crate::report::{CellSpec, PAGE, PathName};
use crate::sys::{clock, descriptor, reason, sandbox};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

/// Bytes in a page.
const BYTES: usize = PAGE as usize;

/// The widest pipe asked for: what an unprivileged process may have (/proc/sys/fs/pipe-max-size).
const WIDEST: usize = 1 << 20;

/// The largest write into a socket for which the kernel takes nothing but whole pages.
const SOCKET_PIECE: usize = 32 << 10;

/// A pipe that holds `max_len` bytes and a page if the kernel lets it, and what it really holds.
pub(super) fn wide_pipe(max_len: usize) -> Result<(PipeReader, PipeWriter, usize), String> {
    let refused = |error| format!("cannot make a pipe: {}", reason(&error));
    sandbox::lets(libc::SYS_pipe2).map_err(refused)?;
    let (reader, writer) = io::pipe().map_err(refused)?;
    let mut capacity = descriptor::pipe_capacity(writer.as_fd()).map_err(refused)?;
    let mut wanted = max_len.saturating_add(BYTES).min(WIDEST).next_power_of_two();
    while wanted > capacity {
        match descriptor::set_pipe_capacity(writer.as_fd(), wanted) {
            Ok(granted) => capacity = granted,
            Err(_) => wanted /= 2,
        }
    }
    Ok((reader, writer, capacity))
}

/// Two ends, empty between samples.
pub(super) struct Channel {
    reader: File,
    writer: File,
    /// Bytes that it holds, a multiple of the page size.
    capacity: usize,
    /// The largest single write, where whole pages must be kept together.
    piece: Option<usize>,
}

impl Channel {
    /// A pipe.
    pub(super) fn pipe(max_len: usize) -> Result<Channel, String> {
        let (reader, writer, capacity) = wide_pipe(max_len)?;
        Channel { reader: file(reader), writer: file(writer), capacity, piece: None }.ready("pipe")
    }

    /// A pair of Unix stream sockets.
    pub(super) fn socket() -> Result<Channel, String> {
        let refused = |error| format!("cannot make a pair of sockets: {}", reason(&error));
        sandbox::lets(libc::SYS_socketpair).map_err(refused)?;
        let (reader, writer) = UnixStream::pair().map_err(refused)?;
        let buffer = descriptor::send_buffer(writer.as_fd()).map_err(refused)?;
        // The kernel cuts writes at half the buffer, so that two fit.
        let piece = SOCKET_PIECE.min((buffer / 2).saturating_sub(64)) / BYTES * BYTES;
        let mut channel =
            Channel { reader: file(reader), writer: file(writer), capacity: 0, piece: Some(piece) };
        channel.never_wait().map_err(refused)?;
        // One piece less than it takes: pieces of other sizes need more bookkeeping.
        channel.capacity = channel.pieces_taken(piece).map_err(refused)?.saturating_sub(1) * piece;
        channel.ready("socket")
    }

    fn never_wait(&self) -> io::Result<()> {
        descriptor::never_wait(self.reader.as_fd())?;
        descriptor::never_wait(self.writer.as_fd())
    }

    /// How many pieces it takes before it would block; they are taken out again.
    fn pieces_taken(&mut self, piece: usize) -> io::Result<usize> {
        let mut bytes = vec![0; piece];
        let mut taken = 0;
        // The bound is for a kernel that never has enough.
        while piece > 0 && taken < WIDEST / piece {
            match self.writer.write(&bytes) {
                Ok(all) if all == piece => taken += 1,
                Ok(some) => {
                    self.reader.read_exact(&mut bytes[..some])?;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        for _ in 0..taken {
            self.reader.read_exact(&mut bytes)?;
        }
        Ok(taken)
    }

    /// Refuses one too narrow for a page at any page offset.
    fn ready(mut self, what: &str) -> Result<Channel, String> {
        self.capacity = self.capacity / BYTES * BYTES;
        if self.capacity < 2 * BYTES {
            return Err(format!("the kernel gives a {what} room for {} bytes only", self.capacity));
        }
        self.never_wait().map_err(|error| format!("cannot set a {what} up: {}", reason(&error)))?;
        Ok(self)
    }

    /// Bytes of one chunk that starts at a page offset: whole pages, so that the next starts there too.
    fn room(&self, offset: usize) -> usize {
        self.capacity - if offset == 0 { 0 } else { BYTES }
    }

    /// The first of `rest` that one write takes.
    fn first_write<'a>(&self, rest: &'a [u8]) -> &'a [u8] {
        match self.piece {
            Some(piece) if rest.len() >= BYTES => &rest[..(rest.len() / BYTES * BYTES).min(piece)],
            _ => rest,
        }
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), PathError> {
        let (mut rest, mut writer) = (bytes, &self.writer);
        while !rest.is_empty() {
            let part = self.first_write(rest);
            complete_write("write", part, |left, _| writer.write(left))?;
            rest = &rest[part.len()..];
        }
        Ok(())
    }

    #[inline]
    fn read(&mut self, dst: &mut [u8]) -> Result<(), PathError> {
        complete("read", dst, |rest, _| self.reader.read(rest))
    }

    /// Throws away less than a page.
    fn skip(&mut self, len: usize) -> Result<(), PathError> {
        self.read(&mut [0; BYTES][..len])
    }
}

fn file(end: impl Into<OwnedFd>) -> File {
    File::from(end.into())
}

/// read(2) out of a channel. The source is the kernel's page: filled from whole pages of the path's own
/// memory and read up to src before the sample, so that the timed read starts there.
pub(super) struct ChannelRead {
    name: PathName,
    channel: Channel,
    memory: Rc<OwnMemory>,
}

impl ChannelRead {
    pub(super) fn new(name: PathName, channel: Channel, memory: Rc<OwnMemory>) -> Self {
        ChannelRead { name, channel, memory }
    }
}

impl CopyPath for ChannelRead {
    fn name(&self) -> PathName {
        self.name
    }

    fn own_pages(&self, len: u64, offset: u16) -> Option<u64> {
        let filled = len.saturating_add(u64::from(offset)).checked_next_multiple_of(u64::from(PAGE));
        Some(filled.map_or(0, |filled| self.memory.pages(filled, 0)))
    }

    fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError> {
        let offset = usize::from(copy.from.offset % PAGE);
        let first = copy.from.position() - offset as u64;
        let mut ns = 0;
        for _ in 0..copy.repeat {
            let mut done = 0;
            for part in copy.memory.chunks_mut(self.channel.room(offset)) {
                let filled = (offset + part.len()).next_multiple_of(BYTES);
                self.channel.write(self.memory.at(first + done, filled)?)?;
                self.channel.skip(offset)?;
                let before = clock::now_ns();
                self.channel.read(part)?;
                ns += clock::since_ns(before);
                self.channel.skip(filled - offset - part.len())?;
                done += part.len() as u64;
            }
        }
        Ok(ns)
    }
}

/// write(2) into a channel that is empty. The destination is the kernel's page, at 0x000.
pub(super) struct ChannelWrite {
    name: PathName,
    channel: Channel,
    /// What came out of the channel last.
    pub(super) drained: Vec<u8>,
}

impl ChannelWrite {
    pub(super) fn new(name: PathName, channel: Channel) -> Self {
        ChannelWrite { name, drained: vec![0; channel.capacity], channel }
    }
}

impl CopyPath for ChannelWrite {
    fn name(&self) -> PathName {
        self.name
    }

    fn can(&self, cell: &CellSpec) -> Result<(), String> {
        if !cell.dst.is_multiple_of(PAGE) {
            return Err(format!(
                "the kernel fills fresh pages from their start, so dst of {} is 0x000",
                self.name
            ));
        }
        if self.channel.piece.is_some() && cell.len < u64::from(PAGE) {
            return Err(format!(
                "the kernel puts a {} below {PAGE} bytes at a dst of its own choice",
                self.name
            ));
        }
        Ok(())
    }

    fn own_pages(&self, _: u64, _: u16) -> Option<u64> {
        Some(ANY_PAGES)
    }

    fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError> {
        let mut ns = 0;
        for _ in 0..copy.repeat {
            for part in copy.memory.chunks(self.channel.room(0)) {
                let before = clock::now_ns();
                self.channel.write(part)?;
                ns += clock::since_ns(before);
                self.channel.read(&mut self.drained[..part.len()])?;
            }
        }
        Ok(ns)
    }
}
