//! A seccomp filter under which chosen system calls stop for a tracer, and all others run as ever.
//!
//! It is a few words of classic BPF a call: the number is compared, of some also an argument. Calls of
//! another instruction set (32-bit programs) are let through.

use super::sandbox;
use std::io;

/// A system call that stops for the tracer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen {
    /// Its number.
    pub number: i64,
    /// Where it stops with one value of an argument only: which argument, and the value's low half.
    pub only: Option<(u32, u32)>,
}

/// AUDIT_ARCH_X86_64 of <linux/audit.h>.
const X86_64: u32 = 0xc000_003e;

// Places in struct seccomp_data of <linux/seccomp.h>.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

/// The filter's program.
#[derive(Clone)]
pub struct Filter {
    words: Vec<libc::sock_filter>,
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Filter of {} words", self.words.len())
    }
}

impl Filter {
    /// The filter for these calls.
    pub fn of(chosen: &[Chosen]) -> Filter {
        let is_ours = libc::sock_filter { jt: 1, ..skip_unless(X86_64, 0) };
        let mut words = vec![load(ARCHITECTURE_AT), is_ours, give(ALLOW), load(NUMBER_AT)];
        for call in chosen {
            match call.only {
                None => words.extend([skip_unless(call.number as u32, 1), give(TRACE)]),
                Some((argument, value)) => words.extend([
                    skip_unless(call.number as u32, 4),
                    load(ARGUMENTS_AT + 8 * argument),
                    skip_unless(value, 1),
                    give(TRACE),
                    give(ALLOW),
                ]),
            }
        }
        words.push(give(ALLOW));
        Filter { words }
    }

    /// Sets it for the calling thread and all that comes of it; where only that makes it possible, without new
    /// privileges from then on (setuid programs run as the caller). Makes system calls only.
    ///
    /// # Errors
    /// Where the kernel or a sandbox refuses.
    pub fn install(&self) -> io::Result<()> {
        match self.set() {
            Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
                // SAFETY: plain numbers.
                if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
                    return Err(io::Error::last_os_error());
                }
                self.set()
            }
            done => done,
        }
    }

    fn set(&self) -> io::Result<()> {
        let filter = self.words.as_ptr().cast_mut();
        let program = libc::sock_fprog { len: self.words.len() as libc::c_ushort, filter };
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        // SAFETY: a program of as many words as it says, which the kernel copies and does not change.
        let failed = unsafe { libc::syscall(libc::SYS_seccomp, mode, 0, &raw const program) };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Whether the kernel knows such filters and nothing forbids the call.
///
/// # Errors
/// With the kernel's reason.
pub fn available() -> io::Result<()> {
    sandbox::lets(libc::SYS_seccomp)?;
    let (asked, action) = (libc::SECCOMP_GET_ACTION_AVAIL, TRACE);
    // SAFETY: the kernel reads the four bytes of `action`.
    let failed = unsafe { libc::syscall(libc::SYS_seccomp, asked, 0, &raw const action) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const TRACE: u32 = libc::SECCOMP_RET_TRACE;

const fn word(code: u32, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf, k }
}

const fn load(at: u32) -> libc::sock_filter {
    word(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, at)
}

/// Skips so many words unless the word loaded is this.
const fn skip_unless(value: u32, words: u8) -> libc::sock_filter {
    word(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, words, value)
}

const fn give(action: u32) -> libc::sock_filter {
    word(libc::BPF_RET | libc::BPF_K, 0, action)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter answers to a call, by the meaning that <linux/filter.h> gives its words.
    fn answer(filter: &Filter, architecture: u32, number: u32, arguments: [u32; 6]) -> u32 {
        let (mut at, mut held) = (0, 0);
        loop {
            let word = filter.words[at];
            at += 1;
            match u32::from(word.code) & 7 {
                libc::BPF_LD => {
                    held = match word.k {
                        NUMBER_AT => number,
                        ARCHITECTURE_AT => architecture,
                        place => arguments[((place - ARGUMENTS_AT) / 8) as usize],
                    }
                }
                libc::BPF_JMP => at += usize::from(if held == word.k { word.jt } else { word.jf }),
                _ => return word.k,
            }
        }
    }

    #[test]
    fn chosen_calls_stop_and_others_do_not() {
        let filter = Filter::of(&[
            Chosen { number: 0, only: None },
            Chosen { number: 72, only: Some((1, 4)) },
            Chosen { number: 17, only: None },
        ]);
        let of = |number, second| answer(&filter, X86_64, number, [9, second, 9, 9, 9, 9]);
        assert_eq!((of(0, 0), of(17, 4), of(72, 4)), (TRACE, TRACE, TRACE));
        assert_eq!((of(72, 3), of(1, 4), of(0x4000_0000, 4)), (ALLOW, ALLOW, ALLOW));
        assert_eq!(answer(&filter, 0x4000_0003, 0, [4; 6]), ALLOW, "a 32-bit program's");
    }

    #[test]
    fn a_filter_without_a_tracer_fails_its_calls_or_cannot_be_set() {
        let filter = Filter::of(&[Chosen { number: libc::SYS_getppid, only: None }]);
        let told = std::thread::spawn(move || {
            filter.install().map(|()| {
                // SAFETY: getppid takes nothing.
                let answer = unsafe { libc::syscall(libc::SYS_getppid) };
                (answer, io::Error::last_os_error().raw_os_error())
            })
        });
        match told.join().unwrap() {
            Ok(told) => assert_eq!(told, (-1, Some(libc::ENOSYS))),
            Err(error) => assert!(available().is_err() || error.raw_os_error().is_some()),
        }
    }
}
