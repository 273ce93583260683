//! Pipes made wide, so that writer and reader change places less often.

use super::end::{End, Sort};
use crate::sys::descriptor::{pipe_capacity, set_pipe_capacity};
use std::os::fd::BorrowedFd;

/// Bytes that a pipe is asked to hold: what an unprivileged process may have by default
/// (/proc/sys/fs/pipe-max-size).
const WIDE: usize = 1 << 20;

/// Widens the pipes among two ends; says in words which, and to what.
pub(super) fn widen(input: BorrowedFd<'_>, from: &End, output: BorrowedFd<'_>, to: &End) -> Vec<String> {
    let ends = [("the input", input, from), ("the output", output, to)];
    let pipes = ends.into_iter().filter(|(_, _, end)| end.sort == Sort::Pipe);
    pipes.filter_map(|(name, pipe, _)| widen_one(name, pipe)).collect()
}

/// Widens one pipe as far as the kernel lets it; none where it stays as it is.
fn widen_one(name: &str, pipe: BorrowedFd<'_>) -> Option<String> {
    let before = pipe_capacity(pipe).ok()?;
    let mut wanted = WIDE;
    while wanted > before {
        match set_pipe_capacity(pipe, wanted) {
            Ok(now) => return Some(format!("{name} widened from {} to {} KiB", before >> 10, now >> 10)),
            // A user's pipes share an allowance (/proc/sys/fs/pipe-user-pages-soft).
            Err(_) => wanted /= 2,
        }
    }
    None
}
