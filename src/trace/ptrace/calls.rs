//! Which system calls stop, and what each means.

use crate::sys::seccomp::Chosen;
use libc::c_long;

/// What a call that stops means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// It copies, and is counted.
    Copies(&'static Copier),
    /// close(2)
    Closes,
    /// close_range(2)
    ClosesRange,
    /// The descriptor of that argument leads elsewhere, or has other flags, after it.
    Changes(usize),
    /// rt_sigaction(2)
    SetsAction,
    /// It moves bytes to the descriptor of that argument without a buffer of the program's, and its name; where that is
    /// a file, the kernel may copy them.
    Moves(&'static str, usize),
    /// It may copy, and is not counted; the reason.
    Beyond(&'static str, &'static str),
}

/// A call that copies between program memory and a descriptor, which is its first argument.
#[derive(Debug, PartialEq, Eq)]
pub struct Copier {
    /// Its name.
    pub name: &'static str,
    number: c_long,
    /// Whether the descriptor is what bytes come from.
    pub from_file: bool,
    /// What its second and third argument name.
    pub memory: Memory,
    /// Where in the file.
    pub place: Place,
}

/// What part of program memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// A buffer and its length.
    Buffer,
    /// An array of struct iovec and how many.
    Vector,
    /// A struct msghdr.
    Message,
}

/// Where in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Where the descriptor stands.
    Own,
    /// At the fourth argument.
    Named,
    /// At the fourth argument, or where the descriptor stands if that is -1; flags (RWF_*) in the sixth.
    NamedOrOwn,
}

use Memory::{Buffer, Message, Vector};
use Place::{Named, NamedOrOwn, Own};

const fn copier(name: &'static str, number: c_long, from_file: bool, memory: Memory, place: Place) -> Copier {
    Copier { name, number, from_file, memory, place }
}

/// The calls that are counted.
static COPIERS: [Copier; 14] = [
    copier("read", libc::SYS_read, true, Buffer, Own),
    copier("pread64", libc::SYS_pread64, true, Buffer, Named),
    copier("readv", libc::SYS_readv, true, Vector, Own),
    copier("preadv", libc::SYS_preadv, true, Vector, Named),
    copier("preadv2", libc::SYS_preadv2, true, Vector, NamedOrOwn),
    copier("recvfrom", libc::SYS_recvfrom, true, Buffer, Own),
    copier("recvmsg", libc::SYS_recvmsg, true, Message, Own),
    copier("write", libc::SYS_write, false, Buffer, Own),
    copier("pwrite64", libc::SYS_pwrite64, false, Buffer, Named),
    copier("writev", libc::SYS_writev, false, Vector, Own),
    copier("pwritev", libc::SYS_pwritev, false, Vector, Named),
    copier("pwritev2", libc::SYS_pwritev2, false, Vector, NamedOrOwn),
    copier("sendto", libc::SYS_sendto, false, Buffer, Own),
    copier("sendmsg", libc::SYS_sendmsg, false, Message, Own),
];

const MANY: &str = "a call that passes several messages at once is not counted";
const OTHERS: &str = "copies from or to another process's memory are not counted";

/// The other calls that stop.
const OTHER: [(c_long, Meaning); 16] = [
    (libc::SYS_close, Meaning::Closes),
    (libc::SYS_close_range, Meaning::ClosesRange),
    (libc::SYS_dup2, Meaning::Changes(1)),
    (libc::SYS_dup3, Meaning::Changes(1)),
    (libc::SYS_fcntl, Meaning::Changes(0)),
    (libc::SYS_rt_sigaction, Meaning::SetsAction),
    (libc::SYS_sendfile, Meaning::Moves("sendfile", 0)),
    (libc::SYS_splice, Meaning::Moves("splice", 2)),
    (libc::SYS_copy_file_range, Meaning::Moves("copy_file_range", 2)),
    (libc::SYS_recvmmsg, Meaning::Beyond("recvmmsg", MANY)),
    (libc::SYS_sendmmsg, Meaning::Beyond("sendmmsg", MANY)),
    (libc::SYS_process_vm_readv, Meaning::Beyond("process_vm_readv", OTHERS)),
    (libc::SYS_process_vm_writev, Meaning::Beyond("process_vm_writev", OTHERS)),
    (libc::SYS_io_uring_setup, Meaning::Beyond("io_uring", "the kernel copies without system calls there")),
    (
        libc::SYS_io_setup,
        Meaning::Beyond("io_submit", "the kernel copies without the calls that are counted there"),
    ),
    (libc::SYS_ptrace, Meaning::Beyond("ptrace", "a program that is traced cannot be traced by another")),
];

/// What the filter has to stop at.
pub fn chosen() -> Vec<Chosen> {
    let copiers = COPIERS.iter().map(|copier| copier.number);
    let numbers = copiers.chain(OTHER.iter().map(|(number, _)| *number));
    let only = |number| (number == libc::SYS_fcntl).then_some((1, libc::F_SETFL as u32));
    numbers.map(|number| Chosen { number, only: only(number) }).collect()
}

/// What a call that stopped means; none for one that the program's own filter stops at.
pub fn meaning(number: i64) -> Option<Meaning> {
    let copier = COPIERS.iter().find(|copier| copier.number == number).map(Meaning::Copies);
    copier.or_else(|| OTHER.iter().find(|(other, _)| *other == number).map(|(_, meaning)| *meaning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_stops_means_something_and_once() {
        let chosen = chosen();
        assert_eq!(chosen.len(), 30);
        for (index, call) in chosen.iter().enumerate() {
            assert!(meaning(call.number).is_some());
            assert!(chosen[..index].iter().all(|other| other.number != call.number));
            assert_eq!(call.only.is_some(), call.number == libc::SYS_fcntl);
        }
        assert_eq!(meaning(libc::SYS_getpid), None);
    }
}
