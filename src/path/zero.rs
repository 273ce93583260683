//! Control: read(2) of /dev/zero, which clears memory and copies nothing, so that there is no src.

use super::{ANY_PAGES, Copy, CopyPath, PathError, complete};
use crate::report::{CellSpec, PAGE, PathName};
use crate::sys::{clock, reason};
use std::fs::File;
use std::io::Read as _;

/// The device's name.
const DEVICE: &str = "/dev/zero";

/// The path.
pub(super) struct Zero(File);

impl Zero {
    pub(super) fn new() -> Result<Self, String> {
        File::open(DEVICE).map(Zero).map_err(|error| format!("cannot open {DEVICE}: {}", reason(&error)))
    }
}

impl CopyPath for Zero {
    fn name(&self) -> PathName {
        PathName::Zero
    }

    fn can(&self, cell: &CellSpec) -> Result<(), String> {
        match cell.src % PAGE {
            0 => Ok(()),
            _ => Err(format!("{DEVICE} has no memory to read from, so src is always 0x000")),
        }
    }

    fn own_pages(&self, _: u64, _: u16) -> Option<u64> {
        Some(ANY_PAGES)
    }

    fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError> {
        let before = clock::now_ns();
        for _ in 0..copy.repeat {
            complete("read of /dev/zero", copy.memory, |rest, _| self.0.read(rest))?;
        }
        Ok(clock::now_ns().saturating_sub(before))
    }
}
