//! A source of fsprobe's own: a file without a name, filled with what no file system can compress or share away.

use crate::report::Fact;
use crate::sys::file_system::{self, Keeps};
use crate::sys::{file, memory};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

/// Bytes written at a time.
const CHUNK: usize = 1 << 20;

/// Makes one in a folder, or where that is not to be had in memory, which is a page cache too.
///
/// # Errors
/// Why there is none in the folder.
pub(super) fn make(folder: &Path, size: u64) -> io::Result<File> {
    let made = tempfile::tempfile_in(folder).and_then(|file| {
        if is_memory(&file) {
            room_for(size)?;
        }
        fill(&file, size).map(|()| file)
    });
    made.or_else(|error| in_memory(size).map_err(|_| error))
}

/// Whether the file takes memory that is not given back before it is gone.
fn is_memory(file: &File) -> bool {
    let magic = file::fs_magic(file.as_fd()).ok();
    magic.and_then(file_system::by_magic).is_some_and(|known| known.keeps == Keeps::AlwaysCached)
}

/// Refuses what memory cannot hold: writing it would end the process.
fn room_for(size: u64) -> io::Result<()> {
    match memory::available(Path::new("/")) {
        Fact::Known(left) if left.bytes < size.saturating_mul(2) => Err(io::Error::other(format!(
            "it would take memory, of which {} MiB are left by {}",
            left.bytes >> 20,
            left.bound
        ))),
        _ => Ok(()),
    }
}

/// A file of the kernel's own in memory.
fn in_memory(size: u64) -> io::Result<File> {
    room_for(size)?;
    let file = File::from(rustix::fs::memfd_create("fsprobe", rustix::fs::MemfdFlags::CLOEXEC)?);
    fill(&file, size).map(|()| file)
}

/// Fills a file with pseudo-random bytes, which no file system can compress or share away.
fn fill(mut file: &File, size: u64) -> io::Result<()> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(size);
    let mut chunk = vec![0; CHUNK];
    let mut left = size;
    while left > 0 {
        let part = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
        random.fill_bytes(&mut chunk[..part]);
        file.write_all(&chunk[..part])?;
        left -= part as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_memory_cannot_hold_is_refused_before_it_is_written() {
        let refused = in_memory(1 << 60).unwrap_err().to_string();
        assert!(refused.contains("MiB are left by"), "{refused}");
        assert_eq!(in_memory(4096).unwrap().metadata().unwrap().len(), 4096);
    }
}
