//! Which cells are sampled, and the sampling loop.
//!
//! This room turns what was asked into plans ([`grid`]), and plans into samples ([`sample()`]) on a
//! [`Machine`], real or simulated. It may use `path`, `allocator`, `sys` and the report's types; it
//! judges nothing: what to sample next is asked by `judge` and passed in by `commands`.

pub mod colours;
pub mod disturbance;
pub mod evidence;
pub mod grid;
mod machine;
mod offsets;
mod sample;
mod schedule;
pub mod sides;

pub use machine::{Clock, Machine, Stop, Unwatched, Watcher};
pub use offsets::{Length, Offsets};
pub use sample::{LONG, Plan, SHUFFLE, Sampled, sample, trial_ns};
