//! Opens copy paths, and makes what several of them share only once.

use super::channel::{Channel, ChannelRead, ChannelWrite};
use super::io_uring::IoUringRead;
use super::mmap::Mmap;
use super::own_memory::{self, OwnMemory};
use super::process_vm::ProcessVmRead;
use super::routine::UserSpace;
use super::splice::Splice;
use super::write::{Pwrite, Target, Write};
use super::zero::Zero;
use super::{CopyPath, Source};
use super::{read, read_at};
use crate::report::PathName;
use crate::sys::routines::Routine;
use std::cell::OnceCell;
use std::rc::Rc;

/// Opens copy paths over one source file.
pub struct Opener<'a> {
    source: &'a Source,
    max_len: usize,
    memory: OnceCell<Result<Rc<OwnMemory>, String>>,
    target: OnceCell<Result<Target, String>>,
}

impl<'a> Opener<'a> {
    /// For copies of up to `max_len` bytes: what paths have of their own is made for that.
    pub fn new(source: &'a Source, max_len: usize) -> Self {
        Opener { source, max_len, memory: OnceCell::new(), target: OnceCell::new() }
    }

    /// Opens a path.
    ///
    /// # Errors
    /// The reason, for people, where this machine, its kernel or a sandbox does not have the path.
    pub fn open(&self, name: PathName) -> Result<Box<dyn CopyPath>, String> {
        let file = || self.source.file();
        Ok(match name {
            PathName::Read => Box::new(read::read(file())),
            PathName::Readv => Box::new(read::readv(file())),
            PathName::Pread => Box::new(read_at::pread(file())),
            PathName::Preadv => Box::new(read_at::preadv(file())),
            PathName::Write => Box::new(Write(self.target()?)),
            PathName::Pwrite => Box::new(Pwrite(self.target()?)),
            PathName::PipeRead => {
                Box::new(ChannelRead::new(name, Channel::pipe(self.max_len)?, self.memory()?))
            }
            PathName::PipeWrite => Box::new(ChannelWrite::new(name, Channel::pipe(self.max_len)?)),
            PathName::SocketRead => Box::new(ChannelRead::new(name, Channel::socket()?, self.memory()?)),
            PathName::SocketWrite => Box::new(ChannelWrite::new(name, Channel::socket()?)),
            PathName::ProcessVmRead => Box::new(ProcessVmRead::new(self.memory()?)?),
            PathName::IoUringRead => Box::new(IoUringRead::new(file())?),
            PathName::Mmap => Box::new(Mmap::new(file(), self.mappable()?)?),
            PathName::Splice => Box::new(Splice::new(file(), self.max_len)?),
            PathName::Zero => Box::new(Zero::new()?),
            PathName::Memcpy
            | PathName::RepMovsb
            | PathName::RepMovsq
            | PathName::MovUnrolled
            | PathName::Avx2
            | PathName::Avx512
            | PathName::NonTemporal => Box::new(UserSpace::new(name, Routine::of(name)?, self.memory()?)),
        })
    }

    /// The memory that copies come from where no file is involved.
    pub(super) fn memory(&self) -> Result<Rc<OwnMemory>, String> {
        self.memory.get_or_init(|| OwnMemory::new(self.max_len).map(Rc::new)).clone()
    }

    /// The file that is written to.
    pub(super) fn target(&self) -> Result<Target, String> {
        let make = || {
            let size = own_memory::size_for(self.max_len).ok_or("the copies are too long")?;
            let own = Source::own(size).map_err(|error| error.own_reason())?;
            Ok(Target { file: own.file(), size })
        };
        self.target.get_or_init(make).clone()
    }

    /// The file's size, if lost pages of a mapping of it could be replaced.
    fn mappable(&self) -> Result<u64, String> {
        match self.source.has_huge_pages() {
            true => Err("the file lies in huge pages, of which single ones cannot be replaced".into()),
            false => Ok(self.source.size()),
        }
    }
}
