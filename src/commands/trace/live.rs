//! The live view: a frame drawn over the one before, a few times a second; a line a second where a command writes to the
//! same terminal, since drawing over what it wrote would take that away.

use crate::commands::style;
use crate::judge;
use crate::render;
use crate::report::{Trace, Watched};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Between two frames.
const PAUSE: Duration = Duration::from_millis(300);

/// Between two lines.
const LINE_PAUSE: Duration = Duration::from_secs(1);

/// Lines of a frame: fits the smallest terminals.
const LINES: usize = 20;

/// The view, on a terminal's stderr.
pub struct View<'a> {
    /// What is shown, but for what was watched.
    trace: Trace,
    who: &'a str,
    drawn: Option<Instant>,
    /// Lines of the last frame, to be drawn over.
    lines: usize,
    /// Whether a command may write to the terminal.
    is_shared: bool,
}

impl<'a> View<'a> {
    /// A view where stderr is a terminal; else none, which is said.
    pub fn open(trace: Trace, who: &'a str, is_command: bool) -> Option<View<'a>> {
        if io::stderr().is_terminal() {
            let is_shared = is_command && io::stdout().is_terminal();
            return Some(View { trace, who, drawn: None, lines: 0, is_shared });
        }
        let _ =
            writeln!(io::stderr(), "fsprobe: --live needs a terminal on stderr; the table comes at the end");
        None
    }

    /// Draws what has been seen so far, if it is time.
    pub fn show(&mut self, watched: &Watched) {
        let pause = if self.is_shared { LINE_PAUSE } else { PAUSE };
        if self.drawn.is_some_and(|at| at.elapsed() < pause) {
            return;
        }
        self.drawn = Some(Instant::now());
        self.trace.answer = judge::trace::conclude(watched, &self.trace.bands, self.who);
        self.trace.watched = watched.clone();
        if self.is_shared {
            let line = render::trace::line(&self.trace);
            let _ = io::stderr().write_all(format!("fsprobe: {line}\r\n").as_bytes());
            return;
        }
        // a line that the terminal breaks in two would not be drawn over
        let columns = rustix::termios::tcgetwinsize(io::stderr()).map_or(80, |size| usize::from(size.ws_col));
        let frame = render::trace::frame(&self.trace, LINES, columns, style(true));
        self.draw(&frame);
    }

    /// Takes the last frame away.
    pub fn close(&mut self) {
        if !self.is_shared {
            self.draw("");
        }
    }

    fn draw(&mut self, frame: &str) {
        // up to the first line of the last frame, and clear from there (ECMA-48 CPL and ED)
        let up = if self.lines > 0 { format!("\u{1b}[{}F\u{1b}[J", self.lines) } else { String::new() };
        self.lines = frame.lines().count();
        let _ = io::stderr().write_all(format!("{up}{frame}").as_bytes());
    }
}
