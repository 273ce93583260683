//! process_vm_readv(2) of fsprobe itself: the kernel copies from pages of one address space to
//! another, which here are the same.

use super::own_memory::OwnMemory;
use super::{Copy, CopyPath, PathError, complete};
use crate::report::PathName;
use crate::sys::{clock, reason, transfer};
use std::rc::Rc;

/// The path.
pub(super) struct ProcessVmRead(Rc<OwnMemory>);

impl ProcessVmRead {
    /// Tries the call on one byte.
    pub(super) fn new(memory: Rc<OwnMemory>) -> Result<Self, String> {
        let refused = |error| format!("the kernel or a sandbox refuses process_vm_readv: {}", reason(&error));
        transfer::process_vm_read(&mut [0], &[1]).map_err(refused)?;
        Ok(ProcessVmRead(memory))
    }
}

impl CopyPath for ProcessVmRead {
    fn name(&self) -> PathName {
        PathName::ProcessVmRead
    }

    fn own_pages(&self, len: u64, offset: u16) -> Option<u64> {
        Some(self.0.pages(len, offset))
    }

    fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError> {
        let src = self.0.at(copy.from.position(), copy.memory.len())?;
        let before = clock::now_ns();
        for _ in 0..copy.repeat {
            complete("process_vm_readv", copy.memory, |rest, done| {
                transfer::process_vm_read(rest, &src[done..])
            })?;
        }
        Ok(clock::now_ns().saturating_sub(before))
    }
}
