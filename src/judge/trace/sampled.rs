//! The loss that interrupts show: each stands for a period of CPU time, and inside a `rep movs` for its distance.

use super::costs;
use super::tally::{Tally, What, Who};
use super::{Loss, Z};
use crate::report::{Inside, Samples, Site, TraceBand, TraceBands};

/// The length whose slowdown is taken: an interrupt does not tell how much the program asked for.
const LEN: f64 = 65536.0;

/// Fewer samples in bands than this prove nothing: Wilson's bounds are too narrow there.
const FEWEST: u64 = 5;

/// What the copies lose, with 95 % bounds: samples are a draw from the program's time.
pub fn loss(samples: &Samples, bands: &TraceBands, cpu_ns: Option<u64>) -> Loss {
    let mut tally = Tally::new(false);
    let period_ns = samples.period_ns as f64;
    let gain = |band: &TraceBand| gain(band, bands.elsewhere);
    let mut hits = 0;
    for inside in &samples.inside {
        let found = costs::measured(bands, costs::of_sample(inside.kernel.as_deref()), LEN);
        let band = found.and_then(|path| costs::band(path, inside.distance));
        let ns = inside.samples as f64 * period_ns;
        if band.is_some() {
            hits += inside.samples;
        }
        let who: Who = (inside.pid, Some(inside.tid), inside.program.clone());
        tally.add(&what(inside), &who, Some(inside.distance), ns, band.map(|band| (band, ns * gain(&band))));
    }
    let all_bands = bands.paths.iter().flat_map(|path| &path.bands);
    let worst = all_bands.map(gain).fold(0.0, f64::max);
    let mean = match hits {
        // the time here is what a share of it is of
        0 => worst.min(1.0),
        hits => tally.all.lost_ns / (hits as f64 * period_ns).max(1.0),
    };
    let taken = samples.taken.max(hits);
    // a program may end before its first sample
    let seen_ns = (taken as f64 * period_ns).max(whole_ns(samples, cpu_ns));
    let [low, high] = bounds(hits, taken).map(|share| share * seen_ns);
    let unseen_ns = unseen_ns(samples, cpu_ns);
    Loss {
        least_ns: if hits < FEWEST { 0.0 } else { low * mean },
        most_ns: high * mean + unseen_ns * worst,
        doubt: doubt(samples, unseen_ns > 0.0),
        tally,
    }
}

/// The share of the time in a band that is lost; elsewhere, what comes on top of the time here.
fn gain(band: &TraceBand, elsewhere: bool) -> f64 {
    let slowdown = band.slowdown.max(1.0);
    if elsewhere { slowdown - 1.0 } else { 1.0 - 1.0 / slowdown }
}

/// One-sided 95 % bounds of a share by Wilson's score: `hits` of `taken`.
fn bounds(hits: u64, taken: u64) -> [f64; 2] {
    if taken == 0 {
        return [0.0, 1.0];
    }
    let (n, z2) = (taken as f64, Z * Z);
    let share = hits as f64 / n;
    let centre = share + z2 / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    [(centre - half) / (1.0 + z2 / n), (centre + half) / (1.0 + z2 / n)].map(|bound| bound.clamp(0.0, 1.0))
}

/// All of the program's CPU time, where all of it could be sampled.
fn whole_ns(samples: &Samples, cpu_ns: Option<u64>) -> f64 {
    match cpu_ns {
        _ if !(samples.user_seen && samples.kernel_seen) => 0.0,
        Some(cpu_ns) => cpu_ns as f64,
        None if samples.taken == 0 => f64::INFINITY,
        None => 0.0,
    }
}

/// CPU time that no interrupt looked into.
fn unseen_ns(samples: &Samples, cpu_ns: Option<u64>) -> f64 {
    let period_ns = samples.period_ns as f64;
    let lost_ns = samples.lost as f64 * period_ns;
    if samples.user_seen && samples.kernel_seen {
        return lost_ns;
    }
    match cpu_ns {
        Some(cpu_ns) => (cpu_ns as f64 - samples.taken as f64 * period_ns).max(lost_ns),
        None => f64::INFINITY,
    }
}

fn doubt(samples: &Samples, unseen: bool) -> Option<String> {
    let seen = (samples.user_seen, samples.kernel_seen);
    Some(match seen {
        (true, false) if unseen => {
            "copies inside the kernel could not be seen; with CAP_PERFMON or sysctl kernel.perf_event_paranoid=1 they can, \
             and --via preload counts calls without either"
                .into()
        }
        (false, true) if unseen => "copies in user space could not be seen; --via preload counts calls".into(),
        (false, false) => "no copy could be seen; --via preload counts calls".into(),
        _ if samples.lost > samples.taken / 10 => {
            "the kernel dropped too many samples; watch less at once, or count calls with --via preload".into()
        }
        _ => "too few samples tell; let it run longer, or count calls with --via preload or ptrace".into(),
    })
}

/// What copies: the place in the program, and the kernel's path where it copies for it.
fn what(inside: &Inside) -> What {
    What {
        program: inside.program.clone(),
        what: inside.site.as_ref().map_or_else(|| "unknown".into(), site),
        place: inside.kernel.clone(),
        kind: None,
        from_file: None,
    }
}

/// `copy_all (app.c:12)`, `copy_all in libx.so`, `libx.so+0x1234`.
fn site(site: &Site) -> String {
    let module = site.module.as_deref().map(|module| module.rsplit('/').next().unwrap_or(module));
    match (&site.symbol, &site.line, module) {
        (Some(symbol), Some(line), _) => format!("{symbol} ({})", line.rsplit('/').next().unwrap_or(line)),
        (Some(symbol), None, Some(module)) => format!("{symbol} in {module}"),
        (Some(symbol), None, None) => symbol.clone(),
        (None, _, Some(module)) => format!("{module}+{:#x}", site.address),
        (None, _, None) => format!("{:#x}", site.address),
    }
}
