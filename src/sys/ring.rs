//! Reads through io_uring, one at a time.

use super::sandbox;
use io_uring::{IoUring, opcode, types};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A ring with nothing in flight between two calls.
pub struct Ring {
    /// None once a failure has left an entry in the ring that nobody may submit any more.
    ring: Option<IoUring>,
}

impl Ring {
    /// Makes a ring.
    ///
    /// # Errors
    /// Where kernel or sandbox refuse io_uring, or descriptors or locked memory run out.
    pub fn new() -> io::Result<Ring> {
        sandbox::lets(libc::SYS_io_uring_setup)?;
        sandbox::lets(libc::SYS_io_uring_enter)?;
        Ok(Ring { ring: Some(IoUring::new(1)?) })
    }

    /// Reads from `position` of a file: one entry submitted and its completion awaited, in one system
    /// call where the bytes are in the page cache.
    pub fn read(&mut self, file: BorrowedFd<'_>, dst: &mut [u8], position: u64) -> io::Result<usize> {
        let ring = self.ring.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        let len = u32::try_from(dst.len()).unwrap_or(u32::MAX);
        let file = types::Fd(file.as_raw_fd());
        let entry = opcode::Read::new(file, dst.as_mut_ptr(), len).offset(position).build();
        // SAFETY: descriptor and buffer stay borrowed until this function returns, and it returns only
        // once the kernel is done with the entry, or with the ring gone before the kernel took it.
        let pushed = unsafe { ring.submission().push(&entry) };
        pushed.map_err(io::Error::other)?;
        loop {
            let entered = ring.submit_and_wait(1);
            if let Some(done) = ring.completion().next() {
                let bytes = usize::try_from(done.result());
                return bytes.map_err(|_| io::Error::from_raw_os_error(-done.result()));
            }
            match entered {
                Err(error) if error.kind() != io::ErrorKind::Interrupted && !ring.submission().is_empty() => {
                    self.ring = None;
                    return Err(error);
                }
                // In flight: its buffer may not be given back before it is done.
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::refuse::{self, Refusal};
    use std::io::Write;
    use std::os::fd::AsFd;

    /// A ring, or why there is none here, said aloud.
    fn ring() -> Option<Ring> {
        Ring::new().inspect_err(|reason| eprintln!("skipped, no io_uring here: {reason}")).ok()
    }

    #[test]
    fn bytes_ends_and_failures_arrive() {
        let Some(mut ring) = ring() else { return };
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let mut dst = [0; 6];
        assert_eq!(ring.read(file.as_fd(), &mut dst, 2).unwrap(), 6);
        assert_eq!(&dst, b"234567");
        assert_eq!(ring.read(file.as_fd(), &mut dst, 7).unwrap(), 3);
        assert_eq!(&dst, b"789567");
        assert_eq!(ring.read(file.as_fd(), &mut dst, 10).unwrap(), 0);
        let writer = io::pipe().unwrap().1;
        assert!(ring.read(writer.as_fd(), &mut dst, 0).is_err());
        for round in 0..100 {
            assert_eq!(ring.read(file.as_fd(), &mut dst, round % 4).unwrap(), 6);
        }
    }

    #[test]
    fn an_entry_that_the_kernel_never_took_is_forgotten_with_its_ring() {
        let refusal = Refusal::Error(libc::EPERM);
        let outcome = refuse::in_a_thread(&[libc::SYS_io_uring_enter], refusal, || {
            let file = tempfile::tempfile().unwrap();
            ring().map(|mut ring| {
                let mut read = || ring.read(file.as_fd(), &mut [0; 6], 0).unwrap_err().kind();
                [read(), read()]
            })
        });
        if let Some(kinds) = outcome.flatten() {
            assert_eq!(kinds, [io::ErrorKind::PermissionDenied, io::ErrorKind::BrokenPipe]);
        }
    }
}
