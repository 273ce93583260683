//! Whether the file holds what a sweep copies, and memory what it samples.

use crate::commands::Failure;
use crate::path::Source;
use crate::report::Fact;
use crate::sweep::Plan;
use crate::sweep::grid::{self, Asked};
use crate::sys::memory;
use std::path::Path;

/// Bytes of a run beside its buffers: of the program itself, and for each sample with what is made of it.
const OWN_BYTES: u64 = 24 << 20;
const SAMPLE_BYTES: u64 = 128;

/// Refuses to sample what memory cannot hold: the process would be ended, and nothing saved.
pub fn for_samples(asked: &Asked) -> Result<(), Failure> {
    let of_plan = |plan: Plan| plan.cells.len() as u64 * u64::from(plan.rounds);
    let samples: u64 = grid::screens(asked).into_iter().map(of_plan).sum();
    let needed = OWN_BYTES + samples.saturating_mul(SAMPLE_BYTES);
    match memory::available(Path::new("/")) {
        Fact::Known(left) if left.bytes < needed => Err(Failure::line(format!(
            "not enough memory: {samples} samples take {} MiB beside their buffers, and {} MiB are left by {} (fewer \
             offsets with --dst, or one of --allocators, take less)",
            needed >> 20,
            left.bytes >> 20,
            left.bound
        ))),
        _ => Ok(()),
    }
}

/// Whether the file is long enough for what was asked of paths that read it.
pub fn in_file(asked: &Asked, source: &Source) -> Result<(), Failure> {
    let needed = asked.longest();
    if needed <= source.size() || !asked.paths.iter().any(|path| path.reads_source()) {
        return Ok(());
    }
    let way_out = match source.kind() {
        "own" => "choose shorter ones with --len, or name a longer file with --file",
        _ => "choose shorter ones with --len, or omit --file and fsprobe makes its own",
    };
    Err(Failure::line(format!(
        "the file holds {}, and copies of {} were asked for ({way_out})",
        grid::size(source.size()),
        grid::size(needed)
    )))
}
