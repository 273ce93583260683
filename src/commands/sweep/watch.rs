//! Progress on stderr, Ctrl-C, and the end of the time given.

use super::USUAL_SECONDS;
use crate::cli::SweepArgs;
use crate::sweep::{Stop, Watcher};
use crate::sys::reserve;
use crate::sys::signals::{self, Caught};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Watches a sweep.
pub struct Watch {
    signal: Arc<Caught>,
    /// How long the measuring may take.
    time: Option<Duration>,
    /// Its end, once it has begun.
    deadline: Option<Instant>,
    bar: ProgressBar,
}

impl Watch {
    /// Installs the signal handlers and, on a terminal, a progress bar. A second Ctrl-C, a second later, ends at once.
    pub fn new(args: &SweepArgs) -> std::io::Result<Watch> {
        let signal = signals::note(&[SIGINT, SIGTERM, SIGHUP])?;
        let shown = !args.quiet && args.simulate.is_none() && std::io::stderr().is_terminal();
        let bar = match shown {
            true => ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr_with_hz(8)),
            false => ProgressBar::hidden(),
        };
        if shown {
            let is_usual = args.len.is_empty() && args.dst == crate::sweep::Offsets::circle();
            let how_long = match args.time {
                Some(seconds) => format!(" for at most {seconds:.0} s"),
                None if is_usual && !args.colours => format!(" for about {USUAL_SECONDS:.0} s"),
                None => String::new(),
            };
            let line = format!("fsprobe: measuring{how_long} (Ctrl-C keeps what was measured)\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
        let style = ProgressStyle::with_template("{msg:34} {bar:28} {percent:>3} % {eta:>4}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let time = args.time.map(|s| Duration::from_secs_f64(s.min(1e9)));
        Ok(Watch { signal, time, deadline: None, bar })
    }

    /// Removes the progress bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// The end that a signal asks for, if one came.
pub fn stopped_by(caught: &Caught) -> Option<Stop> {
    let word = match caught.signal()? {
        SIGINT => "SIGINT",
        SIGTERM => "SIGTERM",
        _ => "SIGHUP",
    };
    Some(Stop::Signal(word))
}

impl Watcher for Watch {
    fn begin(&mut self, label: &str, expected_ns: u64) {
        self.deadline = self.deadline.or(self.time.map(|time| Instant::now() + time));
        self.bar.reset();
        self.bar.set_length(expected_ns.max(1));
        self.bar.set_message(label.to_owned());
    }

    fn advance(&mut self, expected_ns: u64) {
        if !self.bar.is_hidden() {
            self.bar.inc(expected_ns);
        }
    }

    fn stop(&mut self) -> Option<Stop> {
        let late = || self.deadline.filter(|end| Instant::now() >= *end).map(|_| Stop::Time);
        let short = || reserve::is_spent().then(|| Stop::Fault("memory ran out".into()));
        stopped_by(&self.signal).or_else(short).or_else(late)
    }
}
