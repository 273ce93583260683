//! This machine made ready for a check, or a model in its place: as little memory as the answer needs.

use super::plan::{ALLOCATOR, Group, LONGEST};
use crate::allocator::{self, PoolSpec};
use crate::cli::CheckArgs;
use crate::commands::Failure;
use crate::path::{Opener, Source};
use crate::report::{Host, PAGE, PathName, Skipped};
use crate::simulate::{MODELS, Model, host_of};
use crate::sweep::Machine;
use crate::{commands::sweep, host};

/// Bytes of the file that is read: the longest copy of a check at 64 start pages and more.
const SOURCE: u64 = 1 << 20;

/// Bytes of a file for longer copies beyond the copy itself.
const SLACK: u64 = 2 * PAGE as u64;

/// What is measured, with its facts.
pub struct Ready {
    pub machine: Machine,
    pub host: Host,
    /// Paths that are not to be had here.
    pub skipped: Vec<Skipped>,
    /// The source file, of which the paths hold a share.
    pub source: Option<Source>,
}

/// Whether the control `avx2` can be measured.
pub fn has_avx2() -> bool {
    crate::sys::routines::Routine::of(PathName::Avx2).is_ok()
}

/// This machine: pinned to a CPU, pool and source file faulted in.
pub fn real(args: &CheckArgs, groups: &[Group]) -> Result<Ready, Failure> {
    let mut host = host::gather(false);
    let cpu = sweep::pin(args.cpu)?;
    host::pin(&mut host, cpu);
    let longest = groups.iter().map(|(_, len)| *len).max().unwrap_or(LONGEST).max(LONGEST);
    let source_size = SOURCE.max(longest + SLACK);
    let source = match names(groups).iter().any(|path| path.reads_source()) {
        true => Source::own(source_size),
        false => Source::unused(),
    }
    // there is no --file here
    .map_err(|error| Failure::line(error.own_reason()))?;
    source.fault_in(source.size(), &mut || false).map_err(Failure::line)?;
    let spec = PoolSpec {
        max_len: longest as usize,
        pages: allocator::PageKind::Small,
        first_touch: false,
        to_come: 1,
    };
    let pools = vec![allocator::open(ALLOCATOR, &spec).map_err(Failure::line)?];
    let opener = Opener::new(&source, longest as usize);
    let (mut paths, mut skipped) = (Vec::new(), Vec::new());
    for name in names(groups) {
        match opener.open(name) {
            Ok(path) => paths.push(path),
            Err(reason) => skipped.push(Skipped { path: name, allocator: None, reason }),
        }
    }
    if paths.is_empty() {
        let reasons: Vec<String> = skipped.iter().map(Skipped::told).collect();
        return Err(Failure::line(format!("nothing is left to measure: {}", reasons.join("; "))));
    }
    drop(opener);
    let machine = Machine { pools, paths, clock: Box::new(sweep::RealClock), source_size };
    Ok(Ready { machine, host, skipped, source: Some(source) })
}

/// A model in place of this machine.
pub fn simulated(name: &str, groups: &[Group], seed: u64) -> Result<Ready, Failure> {
    let Some(model) = Model::named(name) else {
        let known: Vec<&str> = MODELS.iter().map(|(name, _)| *name).collect();
        return Err(Failure::line(format!(
            "unknown model '{}' (known: {}, each also with +noisy)",
            name.escape_default(),
            known.join(", ")
        )));
    };
    let longest = groups.iter().map(|(_, len)| *len).max().unwrap_or(0);
    let machine = model.machine(&names(groups), &[ALLOCATOR], SOURCE.max(longest + SLACK), seed);
    Ok(Ready { machine, host: host_of(&model.name), skipped: vec![], source: None })
}

/// The paths of the groups, each once.
fn names(groups: &[Group]) -> Vec<PathName> {
    let mut names: Vec<PathName> = groups.iter().map(|(path, _)| *path).collect();
    names.dedup();
    names
}
