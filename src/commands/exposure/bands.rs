//! The bands that buffers are compared with: given, of a report, of a model, or of a quick check now.

use crate::cli::{BandChoice, ExposureArgs};
use crate::commands::{Failure, check, folder};
use crate::judge::{self, exposure::bands_of_reads};
use crate::report::{
    BandsAt, BandsFrom, Host, MetBand, MetBands, PathName, Report, State, length, load, printable,
};

/// Characters of a name or reason that stand in a sentence.
const LONGEST: usize = 300;

/// What is known before anything is measured.
pub(super) enum Known {
    /// The bands.
    Bands(MetBands),
    /// A check is needed: with the reason why the newest report does not do, where there is one.
    Unfit(Option<String>),
}

/// No bands at all, until they are known.
pub(super) fn none() -> MetBands {
    MetBands {
        from: BandsFrom::Check,
        source: "nothing was looked for".into(),
        state: Some(State::Inconclusive),
        lens: vec![],
    }
}

/// The bands that the options name, or those of the newest report where it is of use here.
///
/// # Errors
/// Options that contradict each other, an unknown model, a file that is no report or holds no reads.
pub(super) fn known(args: &ExposureArgs, host: &Host) -> Result<Known, Failure> {
    if let BandChoice::Given(band) = args.band {
        let other = args.report.as_ref().map(|_| "--report").or(args.simulate.as_ref().map(|_| "--simulate"));
        return match other {
            Some(other) => {
                Err(Failure::line(format!("--band FROM-TO and {other} both say which band (name one)")))
            }
            None => Ok(Known::Bands(given(band))),
        };
    }
    if let Some(model) = &args.simulate {
        let report = check::of_reads(Some(model))?;
        let source = format!("the model {model}");
        let bands = named(&report, BandsFrom::Simulated, &source)?;
        return Ok(Known::Bands(with_streams(bands, Some(model))));
    }
    if let Some(file) = &args.report {
        let report = judge::again(load(file).map_err(Failure::line)?);
        let from = if report.is_simulated() { BandsFrom::Simulated } else { BandsFrom::Report };
        let source = source(&report, "the report given");
        return named(&report, from, &source).map(Known::Bands);
    }
    Ok(newest(host))
}

fn given(band: MetBand) -> MetBands {
    MetBands {
        from: BandsFrom::Given,
        source: "given by --band".into(),
        state: None,
        lens: vec![BandsAt { len: 0, bands: vec![band] }],
    }
}

/// The bands of a report that the user named.
fn named(report: &Report, from: BandsFrom, source: &str) -> Result<MetBands, Failure> {
    of(report, from, source).ok_or_else(|| {
        Failure::line(format!("{source} holds no reads (make one with fsprobe sweep --paths read)"))
    })
}

fn of(report: &Report, from: BandsFrom, source: &str) -> Option<MetBands> {
    let (path, state, lens) = bands_of_reads(report)?;
    let at: Vec<String> = lens.iter().map(|at| length(at.len)).collect();
    let at = if at.is_empty() { String::new() } else { format!(" at {}", at.join(", ")) };
    Some(MetBands { from, source: format!("{source}, {path}{at}"), state: Some(state), lens })
}

fn source(report: &Report, what: &str) -> String {
    let verb = printable(&report.run.command, 20);
    let at = printable(&report.recorded_at, 40);
    match report.host.simulated.model() {
        Some(model) => format!("{what}, a {verb} of the model {} of {at}", printable(model, 60)),
        None => format!("{what}, a {verb} of {at}"),
    }
}

/// The newest report, where it is one of this machine as it runs now that has an answer.
fn newest(host: &Host) -> Known {
    let Some(file) = folder::newest() else { return Known::Unfit(None) };
    let report = match load(&file) {
        Ok(report) => judge::again(report),
        Err(error) => return Known::Unfit(Some(printable(&error.to_string(), LONGEST))),
    };
    let unfit = |why: &str| Known::Unfit(Some(format!("the newest report is {why}")));
    match of(&report, BandsFrom::Report, &source(&report, "the newest report")) {
        _ if report.is_simulated() => unfit("a model's"),
        _ if !runs_the_same(&report.host, host) => unfit("of another CPU, microcode, kernel or hypervisor"),
        None => unfit("one without reads"),
        Some(bands) if bands.lens.is_empty() => unfit("inconclusive"),
        Some(bands) => Known::Bands(bands),
    }
}

/// Whether two hosts agree in what decides the bands of reads.
fn runs_the_same(one: &Host, other: &Host) -> bool {
    let of = |host: &Host| {
        let Host { cpu, kernel, hypervisor, .. } = host;
        (cpu.signature.clone(), cpu.microcode.clone(), kernel.release.clone(), hypervisor.clone())
    };
    of(one) == of(other)
}

/// The bands of a quick check of this machine; `unfit` is why no report does.
pub(super) fn checked(unfit: Option<&str>, is_stopped: bool) -> MetBands {
    let because = unfit.map(|reason| format!(" ({reason})")).unwrap_or_default();
    if is_stopped {
        return MetBands { source: "none: interrupted before the check".into(), ..none() };
    }
    let unknown = |reason: String| MetBands { source: format!("no check was possible: {reason}"), ..none() };
    match check::of_reads(None) {
        Ok(report) => {
            let skipped =
                || report.skipped.iter().find(|s| s.path == PathName::Read).map(|s| s.reason.clone());
            of(&report, BandsFrom::Check, &format!("a quick check just now{because}"))
                .map(|bands| with_streams(bands, None))
                .unwrap_or_else(|| unknown(skipped().unwrap_or_else(|| "it holds no reads".into())))
        }
        Err(failure) => unknown(printable(&failure.to_string(), LONGEST)),
    }
}

/// The bands with their slowdown of reads that stream from memory, as a check's own stay within the caches.
fn with_streams(mut bands: MetBands, model: Option<&str>) -> MetBands {
    let Some(longest) = bands.lens.iter().max_by_key(|at| at.len).filter(|at| !at.bands.is_empty()) else {
        return bands;
    };
    let measured = |band: &MetBand| {
        let cost = check::cost(model, PathName::Read, check::STREAMED, (band.from, band.to))?;
        Ok(MetBand { slowdown: Some(cost.slowdown), ..*band })
    };
    // without the memory for it the shorter reads' slowdown has to do
    let streamed: Result<Vec<MetBand>, Failure> = longest.bands.iter().map(measured).collect();
    if let Ok(streamed) = streamed {
        bands.source = format!("{}, and one place of each band at {}", bands.source, length(check::STREAMED));
        bands.lens.push(BandsAt { len: check::STREAMED, bands: streamed });
    }
    bands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_old_after_an_update_of_what_decides() {
        let host = crate::host::gather(false);
        assert!(runs_the_same(&host, &host.clone()));
        let changes: [fn(&mut Host); 4] = [
            |host| host.cpu.signature = "another".into(),
            |host| host.cpu.microcode = Some(vec!["0x1".into()]),
            |host| host.kernel.release = "another".into(),
            |host| host.hypervisor = Some("another".into()),
        ];
        for change in changes {
            let mut other = host.clone();
            change(&mut other);
            assert!(!runs_the_same(&host, &other));
        }
    }
}
