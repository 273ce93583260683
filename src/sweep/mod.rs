//! Grid, schedule and the sampling loop.

mod offsets;

pub use offsets::{Length, Offsets};
