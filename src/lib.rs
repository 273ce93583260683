//! fsprobe finds and explains the page-offset anomaly of `rep movsb` copies on AMD Zen CPUs.
//!
//! ```text
//! host facts ─┐
//! grid ───────┼─► sample ─► Report (recorded) ─► judge (pure) ─► Verdict ─► render (pure)
//! copy paths ─┘       ▲                             │
//!                     └──── questions (pure) ◄──────┘   until there are none
//! ```
//!
//! [`pipe`] stands beside that line: it reruns a published experiment, one process against another.
//!
//! A [`report::Report`] holds everything measured and every fact needed to judge it. [`judge`] and
//! [`render`] are pure functions of reports and import nothing that measures; [`commands`] loops.
//!
//! [`trace`] watches the copies of other programs, which [`judge`] compares with the bands of a report.
//!
//! Beside the pipeline stand experiments, the published programs that led here, each a room of its own:
//! [`mod@cat`], [`pipe`] and [`readers`]. [`exposure`] looks at allocators, and [`trace`] at running programs.

pub mod allocator;
pub mod cat;
pub mod cli;
pub mod commands;
pub mod exposure;
pub mod host;
pub mod judge;
pub mod path;
pub mod pipe;
pub mod readers;
pub mod render;
pub mod report;
pub mod simulate;
pub mod sweep;
pub mod sys;
pub mod trace;
