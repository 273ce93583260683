//! System calls that move bytes and that the standard library lacks.

use super::sandbox;
use rustix::pipe::{IoSliceRaw, SpliceFlags};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A system call's count of bytes, or its failure.
fn count(returned: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

/// A position as system calls take it.
fn signed(position: u64) -> io::Result<i64> {
    i64::try_from(position).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// preadv(2) with one part.
pub fn preadv(file: BorrowedFd<'_>, dst: &mut [u8], position: u64) -> io::Result<usize> {
    let position = signed(position)?;
    let part = libc::iovec { iov_base: dst.as_mut_ptr().cast(), iov_len: dst.len() };
    // SAFETY: the descriptor is open while borrowed, and `part` names exactly the bytes of `dst`.
    count(unsafe { libc::preadv(file.as_raw_fd(), &part, 1, position) })
}

/// process_vm_readv(2) of this very process: as many bytes of `src` as both sides hold.
pub fn process_vm_read(dst: &mut [u8], src: &[u8]) -> io::Result<usize> {
    sandbox::lets(libc::SYS_process_vm_readv)?;
    let local = libc::iovec { iov_base: dst.as_mut_ptr().cast(), iov_len: dst.len() };
    let remote = libc::iovec { iov_base: src.as_ptr().cast_mut().cast(), iov_len: src.len() };
    // SAFETY: getpid involves no memory.
    let process = unsafe { libc::getpid() };
    // SAFETY: `local` names exactly the bytes of `dst`; those of `src` are only read.
    count(unsafe { libc::process_vm_readv(process, &local, 1, &remote, 1, 0) })
}

/// splice(2) from a position of a file into a pipe.
pub fn splice_in(file: BorrowedFd<'_>, position: u64, pipe: BorrowedFd<'_>, len: usize) -> io::Result<usize> {
    sandbox::lets(libc::SYS_splice)?;
    let mut position = signed(position)?;
    // SAFETY: both descriptors are open while borrowed; the position is a valid, writable number.
    count(unsafe {
        let (from, to) = (file.as_raw_fd(), pipe.as_raw_fd());
        libc::splice(from, &mut position, to, std::ptr::null_mut(), len, 0)
    })
}

/// splice(2) out of a pipe, to where the other descriptor stands.
pub fn splice_out(pipe: BorrowedFd<'_>, to: BorrowedFd<'_>, len: usize) -> io::Result<usize> {
    let null = std::ptr::null_mut();
    // SAFETY: both descriptors are open while borrowed; no memory is involved.
    count(unsafe { libc::splice(pipe.as_raw_fd(), null, to.as_raw_fd(), null, len, 0) })
}

/// vmsplice(2) into a pipe: the pages of `bytes` themselves, which the pipe's reader sees as they are when it
/// looks, so also what is written to them after this call.
pub fn vmsplice(pipe: BorrowedFd<'_>, bytes: &[u8], flags: SpliceFlags) -> rustix::io::Result<usize> {
    sandbox::lets(libc::SYS_vmsplice).map_err(|_| rustix::io::Errno::PERM)?;
    // SAFETY: the slice names exactly `bytes`, whose pages the kernel only reads, and holds on its own for as
    // long as the pipe refers to them, should they be unmapped here.
    unsafe { rustix::pipe::vmsplice(pipe, &[IoSliceRaw::from_slice(bytes)], flags) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    #[test]
    fn bytes_arrive_and_positions_count() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let mut dst = [0; 4];
        assert_eq!(preadv(file.as_fd(), &mut dst, 8).unwrap(), 2);
        assert_eq!(&dst[..2], b"89");
        assert_eq!(preadv(file.as_fd(), &mut dst, u64::MAX).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let (mut reader, writer) = io::pipe().unwrap();
        let target = tempfile::tempfile().unwrap();
        assert_eq!(splice_in(file.as_fd(), 3, writer.as_fd(), 4).unwrap(), 4);
        assert_eq!(splice_out(reader.as_fd(), target.as_fd(), 2).unwrap(), 2);
        assert_eq!(preadv(target.as_fd(), &mut dst, 0).unwrap(), 2);
        assert_eq!(&dst[..2], b"34");
        reader.read_exact(&mut dst[..2]).unwrap();
        assert_eq!(&dst[..2], b"56");
    }

    #[test]
    fn own_memory_or_a_reason() {
        let mut dst = [0; 4];
        match process_vm_read(&mut dst, b"abc") {
            Ok(bytes) => assert_eq!((bytes, &dst[..3]), (3, &b"abc"[..])),
            Err(reason) => assert!(reason.raw_os_error().is_some()),
        }
    }
}
