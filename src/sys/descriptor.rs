//! Properties of pipes and sockets.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};

/// A fcntl(2) of plain numbers.
fn control(fd: BorrowedFd<'_>, command: libc::c_int, argument: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: the descriptor is open while borrowed; the commands used here take a number.
    match unsafe { libc::fcntl(fd.as_raw_fd(), command, argument) } {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(answer),
    }
}

/// Lets calls that would wait fail with `WouldBlock` instead.
pub fn never_wait(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = control(fd, libc::F_GETFL, 0)?;
    control(fd, libc::F_SETFL, flags | libc::O_NONBLOCK).map(|_| ())
}

/// Bytes that a pipe holds.
pub fn pipe_capacity(pipe: BorrowedFd<'_>) -> io::Result<usize> {
    control(pipe, libc::F_GETPIPE_SZ, 0).map(|bytes| bytes as usize)
}

/// Asks for a pipe of at least `bytes`; the kernel rounds up, and returns what it is now.
///
/// # Errors
/// Above /proc/sys/fs/pipe-max-size, or beyond what the user's pipes may hold together.
pub fn set_pipe_capacity(pipe: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
    let bytes = libc::c_int::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    control(pipe, libc::F_SETPIPE_SZ, bytes).map(|bytes| bytes as usize)
}

/// Closes a duplicate of a descriptor, and tells what close(2) says: file systems that write late (NFS)
/// report failed writes there.
pub fn close_duplicate(fd: BorrowedFd<'_>) -> io::Result<()> {
    let duplicate = fd.try_clone_to_owned()?.into_raw_fd();
    // SAFETY: the descriptor was just made, nobody else knows it, and it is not used again.
    match unsafe { libc::close(duplicate) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Bytes that a socket's sender may have under way, the kernel's bookkeeping included (SO_SNDBUF).
pub fn send_buffer(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    let mut size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open while borrowed; the kernel writes at most `size` bytes, the number's.
    let failed = unsafe {
        let value = (&raw mut bytes).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, value, &mut size)
    };
    if failed == 0 { Ok(bytes.max(0) as usize) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn pipes_tell_their_capacity_and_do_not_wait() {
        let (mut reader, writer) = io::pipe().unwrap();
        let capacity = pipe_capacity(writer.as_fd()).unwrap();
        assert!(capacity >= 4096 && capacity.is_multiple_of(4096));
        assert!(set_pipe_capacity(writer.as_fd(), 4096).unwrap() >= 4096);
        assert!(set_pipe_capacity(writer.as_fd(), usize::MAX).is_err());
        never_wait(reader.as_fd()).unwrap();
        assert_eq!(reader.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn the_original_stays_open_when_its_duplicate_closes() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        close_duplicate(writer.as_fd()).unwrap();
        std::io::Write::write_all(&mut writer, b"x").unwrap();
        assert_eq!(reader.read(&mut [0]).unwrap(), 1);
    }

    #[test]
    fn sockets_tell_their_buffer() {
        let (socket, _other) = UnixStream::pair().unwrap();
        assert!(send_buffer(socket.as_fd()).unwrap() > 0);
        assert!(send_buffer(tempfile::tempfile().unwrap().as_fd()).is_err());
    }
}
