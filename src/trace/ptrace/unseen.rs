//! What stopping at system calls does not show, or changes, noted once by program.

use crate::report::Unseen;
use std::collections::BTreeSet;

/// Notes that are kept; what comes after them repeats them of other programs.
const MOST: usize = 64;

/// From so many nanoseconds outside the kernel on, a fifth of all at least, copies there may be what costs.
const MUCH_NS: u64 = 20_000_000;

/// The notes.
#[derive(Debug, Default)]
pub struct Notes(BTreeSet<Unseen>);

impl Notes {
    fn note(&mut self, what: String, why: &str, remedy: Option<&str>) {
        self.add(what, why, remedy, false);
    }

    fn add(&mut self, what: String, why: &str, remedy: Option<&str>, any: bool) {
        if self.0.len() < MOST {
            self.0.insert(Unseen {
                what,
                why: why.to_owned(),
                remedy: remedy.map(str::to_owned),
                bytes: None,
                any,
            });
        }
    }

    /// A program made a call that is not counted.
    pub fn beyond(&mut self, call: &str, program: &str, why: &str) {
        self.add(format!("{call} in {program}"), why, Some("--via sample"), true);
    }

    /// A 32-bit program began.
    pub fn is_32_bit(&mut self, program: &str) {
        self.add(
            format!("the calls of {program}"),
            "it is a 32-bit program, whose calls are passed through",
            Some("--via sample"),
            true,
        );
    }

    /// A program's descriptors could not be looked up.
    pub fn not_looked_into(&mut self, program: &str) {
        self.note(
            format!("the files of {program}"),
            "the kernel does not let its descriptors be looked up",
            Some("run fsprobe as root"),
        );
    }

    /// The filter made it necessary.
    pub fn no_new_privileges(&mut self) {
        self.note(
            "setuid programs with their own rights".into(),
            "without root a seccomp filter needs no_new_privs, under which they run with the caller's",
            Some("run fsprobe as root"),
        );
    }

    /// The table of rows is full.
    pub fn merged(&mut self) {
        self.note(
            "the names of further processes and files".into(),
            "they are counted together, so that memory stays bounded",
            None,
        );
    }

    /// What was noted, sorted.
    pub fn unseen(self) -> Vec<Unseen> {
        self.0.into_iter().collect()
    }
}

/// The program copies inside itself as it likes; `user_ns` of its CPU time were outside the kernel.
pub fn inside(user_ns: u64, cpu_ns: u64) -> Unseen {
    Unseen {
        what: "copies inside the program (memcpy and the like)".into(),
        why: "ptrace sees system calls alone".into(),
        remedy: Some("--via sample".into()),
        bytes: None,
        any: user_ns >= MUCH_NS && user_ns >= cpu_ns / 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_few_and_said_once() {
        let mut notes = Notes::default();
        for turn in 0..200 {
            notes.beyond("sendmmsg", "resolver", "many");
            notes.is_32_bit(&format!("p{}", turn % 3));
        }
        assert_eq!(notes.0.len(), 4);
        (0..200).for_each(|number| notes.not_looked_into(&number.to_string()));
        assert_eq!(notes.unseen().len(), MOST);
    }
}
