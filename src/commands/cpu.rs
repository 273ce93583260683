//! `fsprobe cpu`: what this machine is, and what of it decides the copy paths.

use super::{Failure, Outcome};
use crate::cli::CpuArgs;

/// Runs the verb.
pub fn run(_args: &CpuArgs) -> Result<Outcome, Failure> {
    Ok(Outcome::Done)
}
