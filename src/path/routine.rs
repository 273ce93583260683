//! Copies in user space, memory to memory: the routines of the folder asm, and libc's memcpy.

use super::own_memory::OwnMemory;
use super::{Copy, CopyPath, PathError};
use crate::report::PathName;
use crate::sys::clock;
use crate::sys::routines::Routine;
use std::rc::Rc;

/// The path.
pub(super) struct UserSpace {
    name: PathName,
    routine: Routine,
    memory: Rc<OwnMemory>,
}

/// Copies of up to so many bytes are preceded by one that is not timed.
const SHORT: usize = 4096;

impl UserSpace {
    pub(super) fn new(name: PathName, routine: Routine, memory: Rc<OwnMemory>) -> Self {
        UserSpace { name, routine, memory }
    }
}

impl CopyPath for UserSpace {
    fn name(&self) -> PathName {
        self.name
    }

    fn own_pages(&self, len: u64, offset: u16) -> Option<u64> {
        Some(self.memory.pages(len, offset))
    }

    fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError> {
        let src = self.memory.at(copy.from.position(), copy.memory.len())?;
        if copy.memory.len() <= SHORT && !copy.first_touch {
            // a cold line would outweigh the few copies that outlast the clock
            self.routine.copy(copy.memory, src);
        }
        let before = clock::now_ns();
        for _ in 0..copy.repeat {
            self.routine.copy(copy.memory, src);
        }
        Ok(clock::now_ns().saturating_sub(before))
    }
}
