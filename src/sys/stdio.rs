//! The C library's `fopen` and `fread`, as a C program calls them.

use super::block::Block;
use std::ffi::CStr;
use std::io;

/// Opens a file, reads it with one `fread` into the block from `at` on, and closes it. Returns the bytes read.
///
/// # Errors
/// Where the file does not open, reading fails, or `at` lies outside the block.
pub fn fread(file: &CStr, block: &mut Block, at: usize) -> io::Result<usize> {
    let (start, len) = block.rest(at)?;
    // SAFETY: both are C strings.
    let stream = unsafe { libc::fopen(file.as_ptr(), c"rb".as_ptr()) };
    if stream.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the stream is open, and the block is writable for `len` bytes from `start` on.
    let read = unsafe { libc::fread(start.cast(), 1, len, stream) };
    // SAFETY: the stream is open.
    let failed = unsafe { libc::ferror(stream) } != 0;
    let error = io::Error::last_os_error();
    // SAFETY: the stream is open, and is not used again.
    unsafe { libc::fclose(stream) };
    if failed { Err(error) } else { Ok(read) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Allocator;
    use std::ffi::CString;
    use std::io::Write;

    #[test]
    fn the_bytes_arrive_where_they_should() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"0123456789").unwrap();
        let name = CString::new(file.path().to_str().unwrap()).unwrap();
        let mut block = Block::allocate(Allocator::Glibc, 30).unwrap();
        assert_eq!(fread(&name, &mut block, 7).unwrap(), 10);
        let mut short = Block::allocate(Allocator::Glibc, 10).unwrap();
        assert_eq!(fread(&name, &mut short, 6).unwrap(), 4);
        assert!(fread(&name, &mut short, 11).is_err());
        assert!(fread(c"/nowhere/at/all", &mut short, 0).is_err());
    }
}
