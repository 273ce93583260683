//! What the C library tells of this machine without any file: its own version, the kernel's release,
//! the page size.

#[cfg(target_env = "gnu")]
use std::ffi::CStr;

/// The C library that this build is linked with, as far as its target tells.
pub const C_LIBRARY: &str = if cfg!(target_env = "gnu") {
    "glibc"
} else if cfg!(target_env = "musl") {
    "musl"
} else {
    "another C library"
};

/// The release of the running kernel, as `uname -r` prints it.
pub fn kernel_release() -> Option<String> {
    // SAFETY: `utsname` is plain arrays of characters, for which all zeroes are a valid value.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `uname` writes into the structure it is given and nowhere else.
    if unsafe { libc::uname(&mut names) } != 0 {
        return None;
    }
    let bytes: Vec<u8> = names.release.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
    Some(String::from_utf8_lossy(&bytes).into_owned()).filter(|release| !release.is_empty())
}

/// The kernel's page size in bytes.
pub fn page_size() -> u64 {
    // SAFETY: `sysconf` only reads its argument.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(u64::from(crate::report::PAGE))
}

/// The version of the glibc in this process, such as `2.36`; none where the C library is another one.
#[cfg(target_env = "gnu")]
pub fn glibc_version() -> Option<String> {
    // SAFETY: the function takes nothing and returns a pointer to a constant, terminated string.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    Some(version.to_string_lossy().into_owned())
}

/// The version of the glibc in this process, such as `2.36`; none where the C library is another one.
#[cfg(not(target_env = "gnu"))]
pub fn glibc_version() -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_tells_its_release_and_page_size() {
        assert!(kernel_release().unwrap().contains('.'));
        assert!(page_size().is_power_of_two());
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn glibc_tells_its_version() {
        assert!(glibc_version().unwrap().starts_with("2."));
    }
}
