//! Resource limits of this process, as /proc/self/limits states them.

use std::fs;
use std::path::Path;

/// The address space's limit (RLIMIT_AS), in bytes.
pub const ADDRESS_SPACE: &str = "Max address space";
/// The limit of private writable memory (RLIMIT_DATA), in bytes.
pub const DATA: &str = "Max data size";
/// The largest file this process may write (RLIMIT_FSIZE), in bytes.
pub const FILE_SIZE: &str = "Max file size";

/// The soft limit of that name; none where it is unlimited or not readable. `root` is `/`.
pub fn soft(root: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/self/limits")).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_as_the_kernel_writes_them() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(soft(root.path(), DATA), None, "no /proc");
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max file size             unlimited            unlimited            bytes     \n\
                    Max data size             1048576              unlimited            bytes     \n";
        fs::write(root.path().join("proc/self/limits"), text).unwrap();
        assert_eq!(soft(root.path(), DATA), Some(1048576));
        assert_eq!(soft(root.path(), FILE_SIZE), None);
        assert_eq!(soft(root.path(), ADDRESS_SPACE), None);
    }
}
