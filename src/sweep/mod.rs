//! Grid, schedule and the sampling loop.

pub mod disturbance;
mod offsets;

pub use offsets::{Length, Offsets};
