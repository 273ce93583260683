//! What people see, made from a report alone.
//!
//! Every renderer is a pure function of a [`crate::report::Report`]: it may use nothing but `report`,
//! measures nothing and asks the machine nothing.

pub mod check;
mod colours;
pub mod compare;
pub mod cpu;
pub mod evidence;
pub mod html;
mod markup;
mod number;
pub mod plot;
pub mod terminal;
mod text;
