//! The bands that a program's copies are compared with: of a report, of a model, or of this machine just now.

use crate::cli::TraceArgs;
use crate::commands::Failure;
use crate::commands::check::{self, BandCost};
use crate::report::{PathName, Report, State, TraceBand, TraceBands, TracePath, Watched, load, printable};
use crate::sys;
use crate::{host, judge};
use std::path::Path;

/// The bands that the options name, if they do.
///
/// # Errors
/// Where a report cannot be loaded or a model is not known.
pub fn named(args: &TraceArgs) -> Result<Option<TraceBands>, Failure> {
    Ok(Some(match (&args.report, &args.simulate) {
        (Some(file), _) => of_file(file, args.anonymous)?,
        (None, Some(model)) => TraceBands {
            source: format!("a simulated {}", printable(model, 60)),
            ..of_report(&check::quick(Some(model))?)
        },
        (None, None) => return Ok(None),
    }))
}

fn of_file(file: &Path, anonymous: bool) -> Result<TraceBands, Failure> {
    let report = judge::again(load(file).map_err(Failure::line)?);
    let bands = of_report(&report);
    let name = if anonymous {
        "a report".into()
    } else {
        format!("the report {}", printable(&file.display().to_string(), 200))
    };
    let day = report.recorded_at.get(..10).unwrap_or_default();
    let of = match report.host.simulated.model() {
        Some(model) => format!(", simulated {}", printable(model, 60)),
        None if bands.elsewhere => format!(" of {day}, of another CPU than this one"),
        None => format!(" of {day}"),
    };
    Ok(TraceBands { source: format!("{name}{of}"), ..bands })
}

/// The bands of this machine, checked now. Where that fails they are unknown: the program runs all the same.
pub fn of_this_machine() -> TraceBands {
    match apart(|| check::quick(None)) {
        Ok(report) => TraceBands { source: "a check of this machine, just now".into(), ..of_report(&report) },
        Err(why) => unknown(&why),
    }
}

/// The bands of another machine with this one's own, where samples were taken here: their time is this machine's. Where
/// it cannot be checked, the other's speed has to do.
pub fn with_here(bands: TraceBands, watched: &Watched) -> TraceBands {
    let has_times = watched.unseen.iter().any(|unseen| unseen.within_ns.is_some());
    if !bands.elsewhere || (watched.samples.is_none() && watched.own.is_none() && !has_times) {
        return bands;
    }
    let here = apart(|| check::quick(None)).map(|report| of_report(&report).paths);
    TraceBands { here: here.unwrap_or_default(), ..bands }
}

/// The bands with what they cost copies of lengths that a check leaves out, where the program made such: measured now,
/// unless a report was named, which says what it says.
pub fn with_lengths(mut bands: TraceBands, args: &TraceArgs, watched: &Watched) -> TraceBands {
    if args.report.is_some() {
        return bands;
    }
    let measured = judge::trace::unmeasured(watched, &bands)
        .into_iter()
        .filter_map(|(path, len)| at_length(&bands, args.simulate.as_deref(), path, len))
        .collect::<Vec<_>>();
    bands.paths.extend(measured);
    bands.paths.sort_by_key(|path| (path.path, path.len));
    bands
}

/// A path's bands with what they cost copies of a length. None without the memory for it: what shorter copies lose has to
/// do then.
fn at_length(bands: &TraceBands, model: Option<&str>, path: PathName, len: u64) -> Option<TracePath> {
    let of_path = bands.paths.iter().filter(|known| known.path == path);
    let nearest = of_path.min_by_key(|known| known.len.abs_diff(len))?;
    let mut at_length =
        TracePath { path, len, baseline_bytes_per_s: None, bands: Vec::with_capacity(nearest.bands.len()) };
    for band in &nearest.bands {
        let cost = apart(|| check::cost(model, path, len, (band.from, band.to))).ok()?;
        let BandCost { slowdown, penalty_ns_per_kib, baseline_bytes_per_s } = cost;
        at_length.baseline_bytes_per_s.get_or_insert(baseline_bytes_per_s);
        at_length.bands.push(TraceBand { slowdown, penalty_ns_per_kib, ..*band });
    }
    Some(at_length)
}

/// In a thread of its own: a check pins itself to a CPU, and a command must not inherit that.
fn apart<T: Send>(check: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, String> {
    let checked = std::thread::scope(|scope| {
        // what went wrong is told as words: a failure itself stays in its thread
        let check = || check().map_err(|failure| failure.to_string());
        let started = std::thread::Builder::new().spawn_scoped(scope, check);
        started.map(std::thread::ScopedJoinHandle::join)
    });
    match checked {
        Ok(Ok(checked)) => checked,
        Ok(Err(_)) => Err("it broke off".into()),
        Err(error) => Err(format!("no thread could be started: {}", sys::reason(&error))),
    }
}

fn unknown(why: &str) -> TraceBands {
    TraceBands {
        source: format!("a check of this machine, which failed: {}", printable(why, 200)),
        simulated: false,
        elsewhere: false,
        state: State::Inconclusive,
        paths: vec![],
        here: vec![],
    }
}

/// The deep bands of a report, with whether it is of another CPU than this one.
fn of_report(report: &Report) -> TraceBands {
    judge::trace::of_report(report, is_of_another_cpu(report))
}

/// Whether a report was recorded on a CPU that this machine's is not.
fn is_of_another_cpu(report: &Report) -> bool {
    let (theirs, ours) = (&report.host.cpu, &host::gather(false).cpu);
    (&theirs.vendor, &theirs.signature) != (&ours.vendor, &ours.signature)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::sweep::simulated;
    use crate::simulate::Model;

    #[test]
    fn a_check_of_a_model_gives_its_band_for_every_path() {
        let bands = of_report(&check::quick(Some("zen4")).unwrap());
        assert!(bands.simulated && bands.elsewhere && bands.state == State::Affected);
        for path in
            [PathName::Read, PathName::Write, PathName::PipeRead, PathName::Memcpy, PathName::RepMovsb]
        {
            let of: Vec<&TracePath> = bands.paths.iter().filter(|p| p.path == path).collect();
            assert!(!of.is_empty(), "{path}");
            for path in of {
                let spans: Vec<(u16, u16)> = path.bands.iter().map(|band| (band.from, band.to)).collect();
                assert_eq!(spans, [(0x001, 0x00f)], "{path:?}");
            }
        }
        assert!(!of_report(&check::quick(Some("clean")).unwrap()).any());
    }

    #[test]
    fn allocators_of_a_sweep_are_one_path() {
        let bands = of_report(&simulated(&Model::named("zen4").unwrap(), 1));
        let of_64k = bands.paths.iter().filter(|path| path.len == 65536).count();
        assert_eq!(of_64k, 1);
        assert!(bands.any());
    }
}
