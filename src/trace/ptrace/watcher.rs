//! The tracer's loop: every stop of every thread, until the last one has ended.

use super::super::files::{Files, Opened};
use super::super::tally::{Row, Tally};
use super::calls::{self, Copier, Meaning};
use super::processes::{self, After, Processes, interruption};
use super::turns::Turns;
use super::unseen::Notes;
use super::waiting::Waiting;
use crate::report::FileKind;
use crate::sys::ptrace::{self, At, Stop};
use crate::sys::signals;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::process::ExitStatus;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// What is known of the program that runs, and counted of it.
pub struct Watcher<'a> {
    /// The command's process.
    root: u32,
    /// Whether it runs the command's program.
    has_begun: bool,
    status: Option<ExitStatus>,
    has_outlived: bool,
    /// Whether the last SIGSTOP of the command was its own.
    has_stopped_itself: bool,
    /// How often threads were stopped at calls.
    stops: &'a AtomicU64,
    threads: HashMap<u32, Thread>,
    alive: Alive,
    pub(super) processes: Processes,
    pub(super) files: Files,
    pub(super) turns: Turns,
    pub(super) tally: Tally,
    pub(super) notes: Notes,
}

/// A thread.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub process: u32,
    /// The call that it is in, where its end is waited for.
    pub begun: Option<Begun>,
    /// The call that was interrupted, with its result, until it is known what comes of it.
    pub interrupted: Option<(Row, i64)>,
    /// The program memory that its call names: addresses and lengths.
    pub segments: Vec<(u64, u64)>,
}

/// A call whose end is waited for.
#[derive(Debug)]
pub(super) enum Begun {
    Copies {
        copier: &'static Copier,
        row: Row,
        descriptor: i32,
        file: Rc<Opened>,
        start: Start,
        /// Whether other threads wait for its end.
        has_turn: bool,
    },
    /// The descriptor leads elsewhere afterwards.
    Changes(i32),
    /// Bytes go into a file without a buffer of the program's.
    Moves(&'static str),
}

/// Where in the file a call begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    Unknown,
    At(u64),
    /// At the file's end, which the descriptor's position then is.
    EndAndMoves,
    /// At the file's end; the position stays.
    End,
}

/// The processes that run, for whoever passes a signal on once the command has ended.
pub type Alive = Arc<Mutex<BTreeSet<u32>>>;

/// What was seen.
pub struct Seen {
    /// How the command ended; none where it never began.
    pub status: Option<ExitStatus>,
    /// The calls and copies.
    pub tally: Tally,
    /// What could not be seen.
    pub notes: Notes,
    /// Whether processes outlived the one that had started them, so that nobody of these waited for them.
    pub has_outlived: bool,
}

impl<'a> Watcher<'a> {
    /// For a child that the calling thread has seized and that has not run exec yet.
    pub fn of(root: u32, alive: Alive, stops: &'a AtomicU64) -> Watcher<'a> {
        Watcher {
            root,
            alive,
            has_begun: false,
            status: None,
            has_outlived: false,
            has_stopped_itself: false,
            stops,
            threads: HashMap::new(),
            processes: Processes::default(),
            files: Files::default(),
            turns: Turns::default(),
            tally: Tally::default(),
            notes: Notes::default(),
        }
    }

    /// Watches until all that came of the child has ended.
    ///
    /// # Errors
    /// Where the kernel cannot tell of calls; what runs ends with the calling thread then.
    pub fn watch(mut self) -> io::Result<Seen> {
        let mut waiting = Waiting::default();
        while let Some((thread, stop)) = waiting.next()? {
            let mut known = match self.threads.remove(&thread) {
                Some(known) => known,
                None if matches!(stop, Stop::Ended(_)) => Thread { process: thread, ..Thread::default() },
                None => self.meet(thread),
            };
            if self.stopped(thread, &mut known, stop)? {
                self.threads.insert(thread, known);
            }
        }
        let Watcher { status, tally, notes, has_outlived, .. } = self;
        Ok(Seen { status, tally, notes, has_outlived })
    }

    fn meet(&mut self, thread: u32) -> Thread {
        let (process, is_new) = self.processes.of_thread(thread);
        self.alive.lock().unwrap_or_else(PoisonError::into_inner).insert(process);
        if is_new {
            self.files.forget_table(process);
        }
        Thread { process, ..Thread::default() }
    }

    /// What to do at a stop; whether there is more to come of the thread.
    fn stopped(&mut self, thread: u32, known: &mut Thread, stop: Stop) -> io::Result<bool> {
        match stop {
            Stop::Ended(status) => {
                self.ended(thread, known, status);
                return Ok(false);
            }
            Stop::Chosen if !self.has_begun => {
                // A command that cannot be executed tells the thread that started it, which waits for its end.
                ptrace::let_go(thread);
                return Ok(false);
            }
            Stop::Chosen => {
                self.stops.fetch_add(1, Relaxed);
                self.called(thread, known)?;
            }
            Stop::CallEnded => {
                self.stops.fetch_add(1, Relaxed);
                self.call_ended(thread, known)?;
            }
            Stop::Executed => self.executed(thread, known)?,
            Stop::Group(signal) => {
                ptrace::listen(thread);
                if thread == self.root && (signal != libc::SIGSTOP || self.has_stopped_itself) {
                    self.has_stopped_itself = false;
                    stop_with_the_command(signal);
                }
            }
            Stop::Signal(signal) => {
                if signal == libc::SIGSTOP && known.process == self.root {
                    self.has_stopped_itself = ptrace::sender(thread) == Some(self.root);
                }
                self.signalled(known, signal);
                send_on(thread, known, signal);
            }
            Stop::Started | Stop::Trap => send_on(thread, known, 0),
        }
        Ok(true)
    }

    /// A call is about to begin.
    fn called(&mut self, thread: u32, known: &mut Thread) -> io::Result<()> {
        known.interrupted = None;
        let Some(At::Entry { number, arguments }) = ptrace::call(thread)? else {
            ptrace::go_on(thread, 0);
            return Ok(());
        };
        let process = known.process;
        match calls::meaning(number) {
            Some(Meaning::Copies(copier)) => return self.copy_begins(thread, known, copier, &arguments),
            Some(Meaning::Closes) => self.forget(process, arguments[0] as i32, arguments[0] as i32),
            Some(Meaning::ClosesRange) => {
                let number = |argument: u64| i32::try_from(argument as u32).unwrap_or(i32::MAX);
                self.forget(process, number(arguments[0]), number(arguments[1]));
            }
            Some(Meaning::Changes(argument)) => {
                let descriptor = arguments[argument] as i32;
                self.forget(process, descriptor, descriptor);
                known.begun = Some(Begun::Changes(descriptor));
            }
            Some(Meaning::SetsAction) => self.sets_action(thread, process, &arguments),
            Some(Meaning::Moves(call, argument)) => {
                let table = self.processes.get(process).table;
                let into = self.files.of(table, thread, arguments[argument] as i32).kind;
                // Pipes and sockets take the pages themselves.
                if matches!(into, FileKind::PageCache | FileKind::Uncached | FileKind::Unknown) {
                    known.begun = Some(Begun::Moves(call));
                }
            }
            Some(Meaning::Beyond(call, why)) => {
                let program = self.processes.get(process).program(process);
                self.notes.beyond(call, &program, why);
            }
            None => {}
        }
        send_on(thread, known, 0);
        Ok(())
    }

    fn call_ended(&mut self, thread: u32, known: &mut Thread) -> io::Result<()> {
        let result = match ptrace::call(thread)? {
            Some(At::Exit { result }) => result,
            _ => 0,
        };
        let held = match known.begun.take() {
            Some(Begun::Changes(descriptor)) => {
                self.forget(known.process, descriptor, descriptor);
                vec![]
            }
            Some(Begun::Copies { copier, row, descriptor, file, start, has_turn }) => {
                match u64::try_from(result) {
                    Ok(bytes) => {
                        let start = self.started_at(known.process, thread, descriptor, start, bytes);
                        self.copied(known, copier, row, &file, start, bytes);
                    }
                    Err(_) => match interruption(result) {
                        None => self.tally.failed(row),
                        Some(true) => {}
                        Some(false) => known.interrupted = Some((row, result)),
                    },
                }
                if has_turn { self.end_turn(thread, &file) } else { vec![] }
            }
            Some(Begun::Moves(call)) => {
                let program = self.processes.get(known.process).program(known.process);
                self.notes.moved(call, &program, u64::try_from(result).unwrap_or(0));
                vec![]
            }
            None => vec![],
        };
        send_on(thread, known, 0);
        self.try_again(held)
    }

    /// Threads that were held before their call.
    fn try_again(&mut self, held: Vec<u32>) -> io::Result<()> {
        for thread in held {
            if let Some(mut known) = self.threads.remove(&thread) {
                self.called(thread, &mut known)?;
                self.threads.insert(thread, known);
            }
        }
        Ok(())
    }

    fn end_turn(&mut self, thread: u32, file: &Opened) -> Vec<u32> {
        file.id.map_or(vec![], |id| self.turns.end(id, thread))
    }

    fn executed(&mut self, thread: u32, known: &mut Thread) -> io::Result<()> {
        // The first thread's number is now the one's that ran exec; the first thread ended unseen, maybe in a call.
        let mut held = self.leaves(thread, known);
        if let Some(former) = ptrace::message(thread).filter(|former| *former != thread)
            && let Some(known) = self.threads.remove(&former)
        {
            held.extend(self.leaves(former, &known));
        }
        *known = Thread { process: thread, ..Thread::default() };
        self.files.forget_table(thread);
        self.processes.get(thread).executed(thread);
        if thread == self.root && !self.has_begun {
            self.has_begun = true;
            if processes::no_new_privileges(&thread.to_string()) && !processes::no_new_privileges("self") {
                self.notes.no_new_privileges();
            }
        }
        if processes::is_32_bit(thread) {
            let program = self.processes.get(thread).program(thread);
            self.notes.is_32_bit(&program);
        }
        ptrace::go_on(thread, 0);
        self.try_again(held)
    }

    /// A thread ends in whatever call it is: the threads that waited for its turn, which may try again.
    fn leaves(&mut self, thread: u32, known: &Thread) -> Vec<u32> {
        self.turns.forget(thread);
        match &known.begun {
            Some(Begun::Copies { file, has_turn: true, .. }) => self.end_turn(thread, file),
            _ => vec![],
        }
    }

    fn ended(&mut self, thread: u32, known: &Thread, status: ExitStatus) {
        if thread == self.root {
            self.status = Some(status);
        }
        if thread == known.process {
            self.alive.lock().unwrap_or_else(PoisonError::into_inner).remove(&thread);
        }
        if thread == known.process
            && let Some(process) = self.processes.remove(thread)
        {
            self.has_outlived |= self.processes.has_children(thread);
            if process.table == thread {
                self.files.forget_table(thread);
            }
        }
        let held = self.leaves(thread, known);
        // Where the kernel cannot tell of their calls, the next stop says so.
        let _ = self.try_again(held);
    }

    fn signalled(&mut self, known: &mut Thread, signal: i32) {
        let actions = &mut self.processes.get(known.process).actions;
        let (row, result) = match known.interrupted {
            Some((row, result)) => (Some(row), result),
            None => (None, 0),
        };
        match (actions.deliver(signal, result), row) {
            (After::Nothing, _) | (_, None) => return,
            (After::Fails, Some(row)) => self.tally.failed(row),
            (After::Again, Some(_)) => {}
        }
        known.interrupted = None;
    }

    fn sets_action(&mut self, thread: u32, process: u32, arguments: &[u64; 6]) {
        let [signal, action, ..] = *arguments;
        let mut words = [0; 16];
        if action != 0 && ptrace::memory(thread, action, &mut words).is_ok_and(|read| read == words.len()) {
            // struct sigaction as the kernel has it on x86-64: handler, flags, …
            let word = |at: usize| words[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
            self.processes.get(process).actions.set(signal, word(0), word(8));
        }
    }

    fn forget(&mut self, process: u32, first: i32, last: i32) {
        let table = self.processes.get(process).table;
        self.files.forget(table, first, last);
    }
}

/// Sends a thread on: to the end of its call where that is waited for.
pub(super) fn send_on(thread: u32, known: &Thread, signal: i32) {
    match known.begun {
        Some(_) => ptrace::to_end_of_call(thread, signal),
        None => ptrace::go_on(thread, signal),
    }
}

/// Stops fsprobe as well where a shell watches it for that: the terminal's stop keys, reading from the background, or
/// SIGSTOP where the command sent it to itself: whoever else sent that to it will continue it alone, and a tracer that is
/// stopped could not go on with it.
fn stop_with_the_command(signal: i32) {
    if signals::is_watched_job() {
        signals::stop_here(signal);
    }
}
