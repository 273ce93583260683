//! What people and programs read, made from a report's types alone.
//!
//! Everything here is a pure function: it measures nothing, judges nothing, prints nothing.

pub mod cpu;
