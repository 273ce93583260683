//! What stopping at system calls does not show, or changes, noted once by program.

use crate::report::Unseen;
use crate::trace::{BY_SAMPLE, inside};
use std::collections::{BTreeMap, BTreeSet};

/// Notes that are kept; what comes after them repeats them of other programs.
const MOST: usize = 64;

/// The notes.
#[derive(Debug, Default)]
pub struct Notes {
    told: BTreeSet<Unseen>,
    /// Bytes that went into files without a buffer, by call and program.
    moved: BTreeMap<(&'static str, String), u64>,
}

impl Notes {
    fn add(&mut self, what: &str, program: Option<&str>, why: &str, remedy: Option<&str>, any: bool) {
        if self.told.len() < MOST {
            self.told.insert(Unseen {
                what: what.to_owned(),
                program: program.map(str::to_owned),
                why: why.to_owned(),
                remedy: remedy.map(str::to_owned),
                any,
                ..Unseen::default()
            });
        }
    }

    /// A program made a call that is not counted.
    pub fn beyond(&mut self, call: &str, program: &str, why: &str) {
        self.add(call, Some(program), why, Some(BY_SAMPLE), true);
    }

    /// A program moved bytes into a file by a call that copies or not, as the kernel likes.
    pub fn moved(&mut self, call: &'static str, program: &str, bytes: u64) {
        let whose = if self.moved.len() < MOST { program } else { "" };
        *self.moved.entry((call, whose.to_owned())).or_default() += bytes;
    }

    /// A 32-bit program began.
    pub fn is_32_bit(&mut self, program: &str) {
        let why = "it is a 32-bit program, whose calls are passed through";
        self.add("a program's calls", Some(program), why, Some(BY_SAMPLE), true);
    }

    /// A program's descriptors could not be looked up.
    pub fn not_looked_into(&mut self, program: &str) {
        let why = "the kernel does not let its descriptors be looked up";
        self.add("a program's files", Some(program), why, Some("run fsprobe as root"), false);
    }

    /// The filter made it necessary.
    pub fn no_new_privileges(&mut self) {
        let why = "without root a seccomp filter needs no_new_privs, under which they run with the caller's";
        self.add("setuid programs with their own rights", None, why, Some("run fsprobe as root"), false);
    }

    /// The table of rows is full.
    pub fn merged(&mut self) {
        let why = "they are counted together, so that memory stays bounded";
        self.add("the names of further processes and files", None, why, None, false);
    }

    /// What was noted, sorted.
    pub fn unseen(self) -> Vec<Unseen> {
        let moved = self.moved.into_iter().filter(|(_, bytes)| *bytes > 0);
        let moved = moved.map(|((call, program), bytes)| Unseen {
            what: format!("{bytes} bytes that {call} put into files"),
            program: Some(program).filter(|program| !program.is_empty()),
            why: "the kernel does that by copying or without".into(),
            remedy: Some(BY_SAMPLE.into()),
            bytes: Some(bytes),
            ..Unseen::default()
        });
        let mut all: Vec<Unseen> = self.told.into_iter().chain(moved).collect();
        all.sort();
        all
    }
}

/// The program copies inside itself as it likes; `user_ns` of its CPU time were outside the kernel.
pub fn inside(user_ns: u64) -> Unseen {
    Unseen {
        what: "copies inside the program (memcpy and the like)".into(),
        why: "ptrace sees system calls alone".into(),
        remedy: Some(BY_SAMPLE.into()),
        within_ns: inside::within(user_ns),
        ..Unseen::default()
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
        assert_eq!(notes.told.len(), 4);
        (0..200).for_each(|number| notes.not_looked_into(&number.to_string()));
        for program in ["a", "b", "a"] {
            notes.moved("sendfile", program, 10);
        }
        let unseen = notes.unseen();
        assert_eq!(unseen.len(), MOST + 2);
        let moved = unseen.iter().find(|unseen| unseen.program.as_deref() == Some("a")).unwrap();
        assert_eq!((moved.bytes, moved.any), (Some(20), false));
    }
}
