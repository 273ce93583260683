//! The parent's side of a sample: starts the processes, waits for their answers, and sees to it that none is
//! left, whatever becomes of them or of fsprobe.

use super::job::{Answer, Ended, Job, Put, Role};
use crate::sys::shared;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time that a process has to end on its own once the other has ended badly.
const GRACE: Duration = Duration::from_millis(300);

/// The longest wait before looking at signals and time again.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Why a sample has no answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The system refused what this way needs: others may work.
    Refused(String),
    /// Something that no other sample can be trusted after: a killed process, a byte that arrived wrong.
    Broken(String),
    /// A signal asked for an end.
    Stopped,
}

/// Runs one sample. The answers are writer's and reader's, or the one of a process that works alone.
pub fn run(job: &Job, stop: &dyn Fn() -> bool) -> Result<Vec<Answer>, Trouble> {
    let mut ends = start(job).map_err(|e| Trouble::Refused(format!("cannot start the processes: {e}")))?;
    let mut bad: Option<Instant> = None;
    while ends.iter().any(|e| e.status.is_none()) {
        if stop() {
            return Err(Trouble::Stopped);
        }
        listen(&mut ends).map_err(|e| Trouble::Refused(format!("cannot hear the processes: {e}")))?;
        if bad.is_none() && ends.iter().any(End::ended_badly) {
            bad = Some(Instant::now());
        }
        if bad.is_some_and(|since| since.elapsed() > GRACE) {
            ends.iter_mut().for_each(End::kill);
        }
    }
    verdict(&ends, stop)
}

/// A process, killed and waited for when this is dropped.
struct End {
    role: Role,
    child: Child,
    stderr: ChildStderr,
    said: Vec<u8>,
    status: Option<ExitStatus>,
    killed_here: bool,
}

impl End {
    fn answer(&self) -> Option<Answer> {
        serde_json::from_slice(&self.said).ok()
    }

    fn ended_badly(&self) -> bool {
        self.status.is_some() && !matches!(self.answer(), Some(Answer::Done { .. }))
    }

    fn kill(&mut self) {
        if self.status.is_none() {
            self.killed_here = true;
            let _ = self.child.kill();
        }
    }

    /// Takes what it says; at the end of that, its status.
    fn hear(&mut self) -> io::Result<()> {
        let mut part = [0; 4096];
        match self.stderr.read(&mut part) {
            Ok(0) => self.status = Some(self.child.wait()?),
            Ok(len) => self.said.extend_from_slice(&part[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Waits for words of any process, or for a while.
fn listen(ends: &mut [End]) -> io::Result<()> {
    let mut open: Vec<&mut End> = ends.iter_mut().filter(|e| e.status.is_none()).collect();
    let heard: Vec<bool> = {
        let mut streams: Vec<PollFd<'_>> =
            open.iter().map(|e| PollFd::new(&e.stderr, PollFlags::IN)).collect();
        match poll(&mut streams, Some(&LOOK)) {
            Ok(_) => streams.iter().map(|s| !s.revents().is_empty()).collect(),
            Err(rustix::io::Errno::INTR) => vec![],
            Err(error) => return Err(error.into()),
        }
    };
    open.iter_mut().zip(heard).filter(|(_, heard)| *heard).try_for_each(|(end, _)| end.hear())
}

fn start(job: &Job) -> io::Result<Vec<End>> {
    let text = serde_json::to_vec(job)?;
    let memory = shared::create(job.ring())?;
    let at = shared::end(job.ring());
    let mut file = File::from(memory);
    io::Seek::seek(&mut file, io::SeekFrom::Start(at as u64))?;
    file.write_all(&text)?;
    let memory = || file.try_clone().map(|f| Stdio::from(OwnedFd::from(f)));
    if job.way.put == Put::Nothing {
        return Ok(vec![spawn(Role::Alone, at, memory()?, Stdio::null())?]);
    }
    let (reader, writer) = io::pipe()?;
    if job.way.put != Put::Ring {
        crate::sys::descriptor::set_pipe_capacity(std::os::fd::AsFd::as_fd(&writer), job.pipe)?;
    }
    let writing = spawn(Role::Writer, at, memory()?, writer.into())?;
    let reading = spawn(Role::Reader, at, reader.into(), memory()?)?;
    Ok(vec![writing, reading])
}

/// This program again. The pipe's ends are gone from here once it runs, so that each process sees the other end.
fn spawn(role: Role, job_at: usize, stdin: Stdio, stdout: Stdio) -> io::Result<End> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["pipe-end", role.word(), &job_at.to_string()])
        .stdin(stdin)
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()?;
    let stderr = child.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
    Ok(End { role, child, stderr, said: vec![], status: None, killed_here: false })
}

/// What the answers say together: the first cause, not what followed from it.
fn verdict(ends: &[End], stop: &dyn Fn() -> bool) -> Result<Vec<Answer>, Trouble> {
    let signal = |e: &End| e.status.and_then(|s| s.signal()).filter(|_| !e.killed_here);
    if let Some((end, signal)) = ends.iter().find_map(|e| Some((e, signal(e)?))) {
        // A signal to the whole group reaches fsprobe too, at about the same time.
        std::thread::sleep(Duration::from_millis(20));
        return Err(match stop() {
            true => Trouble::Stopped,
            false => Trouble::Broken(format!("its {} was killed by signal {signal}", end.role.who())),
        });
    }
    let mut peer_gone = None;
    for end in ends.iter().filter(|e| !e.killed_here) {
        match end.answer() {
            Some(Answer::Done { .. }) => {}
            Some(Answer::Ended(Ended::PeerGone)) => peer_gone = Some(end),
            Some(Answer::Ended(mismatch @ Ended::Mismatch { .. })) => {
                return Err(Trouble::Broken(mismatch.to_string()));
            }
            Some(Answer::Ended(refused)) => return Err(Trouble::Refused(refused.to_string())),
            None => {
                let said = String::from_utf8_lossy(&end.said);
                let line = said.lines().next().unwrap_or("nothing").to_owned();
                return Err(Trouble::Broken(format!("the {} said: {line}", end.role.word())));
            }
        }
    }
    match peer_gone {
        Some(end) => Err(Trouble::Broken(format!("the {} lost the other end of the pipe", end.role.word()))),
        None => ends.iter().map(|e| e.answer().ok_or(Trouble::Stopped)).collect(),
    }
}
