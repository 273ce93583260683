//! One call at a time on a position that several threads share.
//!
//! The kernel itself lets calls that move the position of a regular file in one by one (f_pos_lock), in an
//! order that cannot be seen from outside. So a thread that stopped before such a call is held there until
//! the call under way has ended: then the position that it begins at is known.

use super::super::files::FileId;
use crate::sys::ptrace;
use std::collections::HashMap;

/// A call that begins where a descriptor stands.
type Mover = (u32, i32);

/// The calls under way, and those that wait, by file.
#[derive(Debug, Default)]
pub struct Turns {
    under_way: HashMap<FileId, Vec<Mover>>,
    waiting: HashMap<FileId, Vec<Mover>>,
}

impl Turns {
    /// Whether a thread's call may go on now; else it is held until [`Turns::end`] names it.
    pub fn begin(&mut self, file: FileId, mover: Mover) -> bool {
        let under_way = self.under_way.entry(file).or_default();
        if under_way.iter().any(|&other| ptrace::share_position(other, mover)) {
            self.waiting.entry(file).or_default().push(mover);
            return false;
        }
        under_way.push(mover);
        true
    }

    /// A thread that may be held has ended before its call.
    pub fn forget(&mut self, thread: u32) {
        self.waiting.retain(|_, waiting| {
            waiting.retain(|(other, _)| *other != thread);
            !waiting.is_empty()
        });
    }

    /// A thread's call on this file has ended: the threads that waited, which may try again.
    pub fn end(&mut self, file: FileId, thread: u32) -> Vec<u32> {
        if let Some(under_way) = self.under_way.get_mut(&file) {
            under_way.retain(|(other, _)| *other != thread);
            if under_way.is_empty() {
                self.under_way.remove(&file);
            }
        }
        self.waiting.remove(&file).unwrap_or_default().into_iter().map(|(thread, _)| thread).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn one_position_one_call() {
        let me = std::process::id();
        let file = tempfile::tempfile().unwrap();
        let (own, another) = (file.as_raw_fd(), tempfile::tempfile().unwrap());
        let id = (0, 1, 2);
        let mut turns = Turns::default();
        assert!(turns.begin(id, (me, own)));
        assert!(turns.begin(id, (me, another.as_raw_fd())), "another position in the same file");
        assert_eq!(turns.end(id, me), Vec::<u32>::new());
        assert!(turns.begin(id, (me, own)));
        if ptrace::share_position((me, own), (me, own)) {
            assert!(!turns.begin(id, (me, own)));
            assert_eq!(turns.end(id, me), [me]);
            assert!(turns.begin(id, (me, own)) && !turns.begin(id, (me, own)));
            turns.forget(me);
            assert!(turns.end(id, me).is_empty(), "who waited has ended");
        } else {
            turns.end(id, me);
        }
        assert!(turns.under_way.is_empty() && turns.waiting.is_empty());
    }
}
