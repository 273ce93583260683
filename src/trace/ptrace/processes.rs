//! The threads and processes that are watched, with what has to be known of each.

use crate::report::printable;
use crate::sys::ptrace;
use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::rc::Rc;

/// A process.
#[derive(Debug)]
pub struct Process {
    /// Its program's name, once asked for.
    program: Option<Rc<str>>,
    /// Its table of descriptors: the number of the process that it began with.
    pub table: u32,
    /// What it does at signals.
    pub actions: Actions,
    /// The process that started it, where that is known.
    parent: Option<u32>,
}

/// The processes, by number.
#[derive(Debug, Default)]
pub struct Processes {
    known: HashMap<u32, Process>,
}

impl Processes {
    /// The process of a thread that is seen for the first time, entered where it is new, and whether it is.
    pub fn of_thread(&mut self, thread: u32) -> (u32, bool) {
        let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
        let number = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)).and_then(|rest| rest.trim().parse().ok())
        };
        let process = number("Tgid:").unwrap_or(thread);
        if process != thread && self.known.contains_key(&process) {
            return (process, false);
        }
        let parent: Option<u32> = number("PPid:").filter(|parent| self.known.contains_key(parent));
        let mut new = Process { parent, ..Process::new(process) };
        if let Some((number, parent)) = parent.and_then(|number| Some((number, self.known.get(&number)?))) {
            new.actions = parent.actions;
            if ptrace::share_descriptors(number, process) {
                new.table = parent.table;
            }
        }
        self.known.insert(process, new);
        (process, true)
    }

    /// A process that is known.
    pub fn get(&mut self, process: u32) -> &mut Process {
        self.known.entry(process).or_insert_with(|| Process::new(process))
    }

    /// Whether a process has started some that run.
    pub fn has_children(&self, process: u32) -> bool {
        self.known.values().any(|other| other.parent == Some(process))
    }

    /// A process has ended.
    pub fn remove(&mut self, process: u32) -> Option<Process> {
        self.known.remove(&process)
    }
}

impl Process {
    fn new(process: u32) -> Process {
        Process { program: None, table: process, actions: Actions::default(), parent: None }
    }

    /// Another program runs: it has descriptors of its own, and handles no signals yet.
    pub fn executed(&mut self, process: u32) {
        *self = Process { parent: self.parent, ..Process::new(process) };
    }

    /// Its program's name, as the kernel calls it.
    pub fn program(&mut self, process: u32) -> Rc<str> {
        let read = || {
            let comm = fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
            let name = String::from_utf8_lossy(&comm);
            Rc::from(printable(name.strip_suffix('\n').unwrap_or(&name), 64))
        };
        Rc::clone(self.program.get_or_insert_with(read))
    }
}

/// What a process does at signals, as far as it decides whether an interrupted call begins again: a bit a signal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Actions {
    handled: u64,
    restarting: u64,
    once: u64,
}

/// What comes of an interrupted call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// No handler ran; it is not decided yet, or it begins again.
    Nothing,
    /// A handler runs and it begins again.
    Again,
    /// A handler runs and it fails with EINTR.
    Fails,
}

/// What the kernel means by a result that a program never sees (include/linux/errno.h): begin again, unless
/// a handler without SA_RESTART runs …
const ERESTARTSYS: i64 = -512;
/// … unless any handler runs; the two others always begin again, or do so by another call.
const ERESTARTNOHAND: i64 = -514;

/// Whether a call with this result may begin again, or fail with EINTR; whether it always begins again.
pub fn interruption(result: i64) -> Option<bool> {
    match result {
        ERESTARTSYS | ERESTARTNOHAND => Some(false),
        -513 | -516 => Some(true),
        _ => None,
    }
}

impl Actions {
    /// rt_sigaction(2) with this struct, of which handler and flags are looked at.
    pub fn set(&mut self, signal: u64, handler: u64, flags: u64) {
        let Some(bit) = bit(signal) else { return };
        let put = |set: &mut u64, is: bool| *set = if is { *set | bit } else { *set & !bit };
        put(&mut self.handled, handler > 1);
        put(&mut self.restarting, flags & libc::SA_RESTART as u64 != 0);
        put(&mut self.once, flags & libc::SA_RESETHAND as u64 != 0);
    }

    /// A signal is delivered after a call was interrupted with this result.
    pub fn deliver(&mut self, signal: i32, result: i64) -> After {
        let Some(bit) = bit(signal as u64).filter(|bit| self.handled & bit != 0) else {
            return After::Nothing;
        };
        if self.once & bit != 0 {
            self.handled &= !bit;
        }
        let again = result == ERESTARTSYS && self.restarting & bit != 0;
        if again { After::Again } else { After::Fails }
    }
}

fn bit(signal: u64) -> Option<u64> {
    (1..=64).contains(&signal).then(|| 1 << (signal - 1))
}

/// Whether a process runs a program of 32-bit words, whose calls the filter lets through: i386 and x32.
pub fn is_32_bit(process: u32) -> bool {
    let mut head = [0; 5];
    let read = fs::File::open(format!("/proc/{process}/exe")).and_then(|mut exe| exe.read_exact(&mut head));
    read.is_ok() && head == *b"\x7fELF\x01"
}

/// Whether a process, or this one, can gain no privileges any more.
pub fn no_new_privileges(process: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("NoNewPrivs:").is_some_and(|value| value.trim() == "1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_decide_what_becomes_of_a_call() {
        let mut actions = Actions::default();
        let (restart, once) = (libc::SA_RESTART as u64, libc::SA_RESETHAND as u64);
        assert_eq!(actions.deliver(10, ERESTARTSYS), After::Nothing);
        actions.set(10, 0x1234, restart);
        assert_eq!(actions.deliver(10, ERESTARTSYS), After::Again);
        assert_eq!(actions.deliver(10, ERESTARTNOHAND), After::Fails);
        actions.set(10, 0x1234, once);
        assert_eq!(actions.deliver(10, ERESTARTSYS), After::Fails);
        assert_eq!(actions.deliver(10, ERESTARTSYS), After::Nothing);
        actions.set(64, 1, 0);
        actions.set(65, 2, 0);
        assert_eq!(actions.deliver(64, ERESTARTSYS), After::Nothing);
        assert_eq!(
            (interruption(-512), interruption(-513), interruption(-4)),
            (Some(false), Some(true), None)
        );
    }

    #[test]
    fn threads_belong_to_their_process() {
        let mut processes = Processes::default();
        let me = std::process::id();
        assert_eq!(processes.of_thread(me), (me, true));
        let (number, other) = std::sync::mpsc::channel();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            number.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            let _ = gone.recv();
        });
        assert_eq!(processes.of_thread(other.recv().unwrap()), (me, false));
        drop(go);
        thread.join().unwrap();
        assert!(!processes.get(me).program(me).is_empty());
        assert_eq!(processes.get(me).table, me);
        assert!(!is_32_bit(me) && processes.remove(me).is_some());
        no_new_privileges("self");
    }
}
