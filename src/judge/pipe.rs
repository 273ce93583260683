//! What the samples of `fsprobe pipe` come to: medians, intervals, factors, bands.
//!
//! Factors and slowdowns are medians of quotients within one round, so that drift cancels out.

use super::stats::{median_interval, median_of};
use crate::report::{Counted, Estimate, Figures, OffsetCell, OffsetSweep, Pipe, PipeBand, PipeSample, Rung};

/// The slowdown from which an offset counts to a band.
const DEEP: f64 = 2.0;

/// What the interval of such an offset's slowdown has to lie above.
const SURELY: f64 = 1.2;

/// Fills in every figure that can be had from the samples.
pub fn judge(pipe: &mut Pipe) {
    let samples: Vec<(String, Vec<PipeSample>)> =
        pipe.rungs.iter().map(|r| (r.name.clone(), r.samples.clone())).collect();
    for rung in pipe.rungs.iter_mut().chain(&mut pipe.yardsticks) {
        let below = rung.over.as_ref().and_then(|over| samples.iter().find(|(name, _)| name == over));
        rung.figures = figures(rung, below.map_or(&[], |(_, samples)| samples));
    }
    for mapping in &mut pipe.mapping {
        mapping.ns_per_page = estimate(&mapping.samples);
    }
    // with every byte made and checked in the time measured, it tells of that, too
    let verified = pipe.verified();
    for sweep in &mut pipe.sweeps {
        judge_sweep(sweep);
        sweep.bands.retain(|_| !verified);
    }
}

fn estimate(values: &[f64]) -> Option<Estimate> {
    let median = median_of(values.iter().copied())?;
    Some(Estimate { median, ci95: median_interval(values) })
}

/// Bytes per second of a sample.
fn rate(sample: &PipeSample) -> f64 {
    sample.bytes as f64 * 1e9 / sample.ns.max(1) as f64
}

fn figures(rung: &Rung, below: &[PipeSample]) -> Option<Figures> {
    let rates: Vec<f64> = rung.samples.iter().map(rate).collect();
    let factors: Vec<f64> = rung
        .samples
        .iter()
        .filter_map(|s| Some(rate(s) / rate(below.iter().find(|b| b.round == s.round)?)))
        .collect();
    Some(Figures {
        bytes_per_s: estimate(&rates)?,
        factor: estimate(&factors),
        page_faults_per_gib: per_gib(rung, |c| c.page_faults),
        context_switches_per_gib: per_gib(rung, |c| c.voluntary_switches + c.involuntary_switches),
    })
}

/// A counter of both processes per GiB; none where the kernel does not count. A yardstick of one process
/// has no writer.
fn per_gib(rung: &Rung, of: impl Fn(Counted) -> u64) -> Option<f64> {
    median_of(rung.samples.iter().filter_map(|s| {
        let both = of(s.reader?) + s.writer.map_or(0, &of);
        Some(both as f64 * (1u64 << 30) as f64 / s.bytes.max(1) as f64)
    }))
}

fn judge_sweep(sweep: &mut OffsetSweep) {
    let reference = sweep.cells.iter().find(|c| c.offset == 0).map_or(vec![], |c| c.ns.clone());
    for cell in &mut sweep.cells {
        let pairs = cell.ns.iter().zip(&reference);
        let quotients: Vec<f64> = pairs.map(|(ns, of)| *ns as f64 / (*of).max(1) as f64).collect();
        cell.slowdown = estimate(&quotients);
    }
    sweep.bands = bands(sweep);
}

/// A single slow offset between fast neighbours is no band in fewer rounds: over all offsets that are looked at,
/// chance makes one slow in six rounds every few sweeps, and in twelve never.
const ROUNDS_OF_ONE: usize = 12;

/// Runs of neighbouring measured offsets that are deep. With too few rounds for an interval nothing is.
fn bands(sweep: &OffsetSweep) -> Vec<PipeBand> {
    let is_deep = |e: &Estimate| e.median >= DEEP && e.ci95.is_some_and(|[low, _]| low > SURELY);
    let mut bands = Vec::new();
    for run in sweep.cells.chunk_by(|a, b| {
        let deep = |c: &OffsetCell| c.slowdown.as_ref().is_some_and(is_deep);
        deep(a) == deep(b)
    }) {
        let lone = run.len() == 1 && run[0].ns.len() < ROUNDS_OF_ONE;
        let beside = |c: &OffsetCell| c.offset.abs_diff(run[0].offset) == 1;
        if lone && sweep.cells.iter().any(beside) {
            continue;
        }
        let deep = run.iter().filter_map(|c| c.slowdown).filter(is_deep).map(|e| e.median);
        let (Some(first), Some(last), Some(slowdown)) = (run.first(), run.last(), median_of(deep)) else {
            continue;
        };
        let ns = run.iter().flat_map(|c| &c.ns).map(|ns| *ns as f64);
        let bytes_per_s = median_of(ns).map_or(0.0, |ns| sweep.bytes as f64 * 1e9 / ns.max(1.0));
        bands.push(PipeBand { from: first.offset, to: last.offset, slowdown, bytes_per_s });
    }
    bands
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Mapping, Moved};

    fn rung(name: &str, over: Option<&str>, ns: u64) -> Rung {
        let counted = Some(Counted { page_faults: 1, voluntary_switches: 2, involuntary_switches: 1 });
        let sample = |round| PipeSample {
            round,
            bytes: 1 << 20,
            ns: ns * (u64::from(round) + 1),
            writer: counted,
            reader: counted,
        };
        Rung {
            name: name.into(),
            over: over.map(Into::into),
            samples: (0..7).map(sample).collect(),
            ..Rung::default()
        }
    }

    #[test]
    fn factors_are_taken_within_rounds() {
        let mapping = Mapping { samples: vec![3.0, 1.0, 2.0], ..Mapping::default() };
        let mut pipe = Pipe {
            rungs: vec![rung("a", None, 1000), rung("b", Some("a"), 250)],
            mapping: vec![mapping],
            ..Pipe::default()
        };
        judge(&mut pipe);
        let figures = pipe.rungs[1].figures.unwrap();
        assert_eq!(figures.factor, Some(Estimate { median: 4.0, ci95: Some([4.0, 4.0]) }));
        assert_eq!(figures.bytes_per_s.median, (1u64 << 20) as f64 * 1e9 / 1000.0);
        assert_eq!(figures.page_faults_per_gib, Some(2048.0));
        assert_eq!(figures.context_switches_per_gib, Some(6144.0));
        assert_eq!(pipe.rungs[0].figures.unwrap().factor, None);
        assert_eq!(pipe.mapping[0].ns_per_page.unwrap().median, 2.0);
    }

    #[test]
    fn a_rung_without_samples_has_no_figures() {
        let mut pipe = Pipe { rungs: vec![Rung::default()], ..Pipe::default() };
        judge(&mut pipe);
        assert_eq!(pipe.rungs[0].figures, None);
    }

    #[test]
    fn bands_are_runs_of_measured_offsets() {
        let cell = |offset: u16| {
            let slow = if (1..=15).contains(&offset) { 4 } else { 1 };
            OffsetCell { offset, ns: (1..=7).map(|round| round * 1000 * slow).collect(), slowdown: None }
        };
        let mut sweep = OffsetSweep {
            rung: "write-read".into(),
            moved: Moved::Dst,
            cells: (0..32).map(cell).collect(),
            bytes: 1 << 20,
            bands: vec![],
            skipped: None,
        };
        judge_sweep(&mut sweep);
        let [band] = sweep.bands[..] else { panic!("{:?}", sweep.bands) };
        assert_eq!((band.from, band.to, band.slowdown), (1, 15, 4.0));
        let checked = Rung { verified: true, ..rung("a", None, 1000) };
        let mut pipe = Pipe { rungs: vec![checked], sweeps: vec![sweep.clone()], ..Pipe::default() };
        judge(&mut pipe);
        assert_eq!(pipe.sweeps[0].bands, vec![], "the checking was timed too");
        let lone = |rounds| {
            let mut cells: Vec<OffsetCell> = [0, 1, 16].map(cell).to_vec();
            cells[1].offset = 15;
            cells.iter_mut().for_each(|c| c.ns = c.ns.iter().cycle().take(rounds).copied().collect());
            let mut sweep = OffsetSweep { cells, ..sweep.clone() };
            judge_sweep(&mut sweep);
            sweep.bands.len()
        };
        assert_eq!((lone(7), lone(12)), (0, 1), "one offset beside a fast one");
        let mut same = OffsetSweep { cells: vec![cell(0)], ..sweep };
        judge_sweep(&mut same);
        assert!(same.bands.is_empty());
        let mut brief = OffsetSweep { cells: (0..32).map(cell).collect(), ..same };
        brief.cells.iter_mut().for_each(|c| c.ns.truncate(5));
        judge_sweep(&mut brief);
        assert!(brief.bands.is_empty(), "five rounds tell nothing");
    }
}
