//! The experiment `readers`: programs that read one whole file, each in a process of its own.
//!
//! Every reader runs in a fresh child process, like the programs of the published table: fsprobe's own
//! readers in this very program under a hidden option ([`child`]), Python and the user's command as they
//! are. Bare runs give the times of call and process; runs under a tracer show where the bytes landed
//! and how long the reads took; and the reads seen are done again at another page offset, which tells
//! what the offset costs. This room measures; it may use `sys` and the report's words, nothing else.

pub mod child;
mod huge;
mod order;
mod run;
mod session;
mod watch;

pub use order::{Answer, Order, Replay, Replayed};
pub use session::{Measured, Refused, Session, Setup};
