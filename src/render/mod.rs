//! What people see, made from a report alone.
//!
//! Every renderer is a pure function of a [`crate::report::Report`]: it may use nothing but `report`,
//! measures nothing and asks the machine nothing.

mod ascii;
mod band_table;
pub mod cat;
pub mod check;
mod colours;
pub mod compare;
pub mod cpu;
pub mod csv;
pub mod evidence;
pub mod exposure;
mod facts;
pub mod html;
pub mod markdown;
mod markup;
mod number;
pub mod openmetrics;
pub mod pipe;
pub mod plot;
pub mod readers;
pub mod reproducer;
mod said;
pub mod terminal;
mod text;
pub mod ticket;
pub mod trace;

pub use facts::rejudged;
