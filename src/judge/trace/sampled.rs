//! The loss that interrupts show: each stands for a period of CPU time, and inside a `rep movs` for its distance.

use super::costs;
use super::tally::{Tally, What, Who};
use super::{Loss, Z, words};
use crate::report::{Inside, OwnCopies, PathName, Samples, Site, TraceBand, TraceBands, TracePath, Unseen};

/// The shortest length whose slowdown is taken, and that of copies of unknown length: at shorter ones the time of a call
/// is mostly not that of its copy, which is what samples are of.
pub const LEN: f64 = 65536.0;

/// Calls of less than 2^9 bytes: there much of the time that is met at a `rep movs` is that of starting it, which no band
/// makes longer (measured on a Zen 3: of 128 bytes a fourth of it was lost in a band that slows copies 20 times).
const SHORTEST: u8 = 9;

/// What they leave open.
const SHORT: &str = "how much of the time in copies below 512 bytes is a band's doing samples do not tell; count a command's \
                     calls with --via preload";

/// Up to so much of the CPU time is what the start and end of a few long threads leave between interrupts.
const USUAL_GAP: f64 = 0.05;

/// A gap below this is that of a program too short for many interrupts, which the bounds tell of.
const LEAST_GAP_NS: f64 = 100e6;

/// Fewer samples in bands than this prove nothing: Wilson's bounds are too narrow there.
const FEWEST: u64 = 5;

/// What the copies lose, with 95 % bounds: samples are a draw from the program's time. Copies of other lengths lose
/// less or more of theirs, so that where no length is told the bounds also take the least and the most of all lengths that
/// were measured.
pub fn loss(samples: &Samples, unseen: &[Unseen], bands: &TraceBands, cpu_ns: Option<u64>) -> Loss {
    let mut tally = Tally::new(false);
    let period_ns = samples.period_ns as f64;
    let (mut hit, mut may_have_hit, mut short) = (Hits::default(), Hits::default(), 0);
    for inside in &samples.inside {
        let paths = costs::of_sample(inside.kernel.as_deref());
        let gain = |band: TraceBand| gain(&band, inside, bands);
        let usual = costs::measured(&bands.paths, paths, length(inside))
            .and_then(|path| costs::band(path, inside.distance));
        let is_told = inside.class.is_some();
        let others = costs::lengths(&bands.paths, paths).filter(|_| !is_told);
        let others = others.filter_map(|path| costs::band(path, inside.distance));
        let all = usual.into_iter().chain(others).map(gain);
        let ns = inside.samples as f64 * period_ns;
        let is_short = inside.class.is_some_and(|class| class < SHORTEST);
        if usual.is_some() && is_short {
            short += inside.samples;
        } else if usual.is_some() {
            hit.add(inside.samples, all.clone().fold(f64::INFINITY, f64::min));
        }
        if let Some(most) = all.max_by(f64::total_cmp) {
            may_have_hit.add(inside.samples, most);
        }
        let who: Who = (inside.pid, Some(inside.tid), inside.program.clone());
        tally.add(
            &what(inside),
            &who,
            Some(inside.distance),
            ns,
            usual.map(|band| (band, if is_short { 0.0 } else { ns * gain(band) })),
        );
    }
    let worst = costs::worst_gain(bands);
    let taken = samples.taken.max(may_have_hit.samples);
    // a program may end before its first sample
    let seen_ns = (taken as f64 * period_ns).max(whole_ns(samples, cpu_ns));
    let least_ns = bounds(hit.samples, taken)[0] * seen_ns * hit.mean().unwrap_or_default();
    let most_ns = bounds(may_have_hit.samples, taken)[1] * seen_ns * may_have_hit.mean().unwrap_or(worst);
    let unseen_ns = unseen_ns(samples, cpu_ns) + samples.unread as f64 * period_ns;
    let hidden = unseen.iter().find(|unseen| unseen.any && worst > 0.0);
    Loss {
        least_ns: if hit.samples < FEWEST { 0.0 } else { least_ns },
        most_ns: if hidden.is_some() { f64::INFINITY } else { most_ns + unseen_ns * worst },
        doubt: Some(match hidden {
            Some(hidden) => words::not_seen(hidden),
            None if short > hit.samples => SHORT.into(),
            None => doubt(samples, cpu_ns, unseen_ns > 0.0),
        }),
        tally,
        own: None,
    }
}

/// What a program's own copies lose, of which samples beside the counting of calls tell: of the time outside the kernel
/// all was sampled.
pub fn own(own: &OwnCopies, bands: &TraceBands) -> Loss {
    let samples = Samples { kernel_seen: true, ..own.samples.clone() };
    let loss = loss(&samples, &[], bands, Some(own.user_ns));
    let gap_ns = own.user_ns as f64 - samples.taken as f64 * samples.period_ns as f64;
    let doubt = match is_gap(gap_ns, Some(own.user_ns)) {
        true => {
            "processes or threads that live shorter than the time between samples may copy on their own; as root, --system meets them while they run"
        }
        false => "whether it copies on its own, between its calls, too few samples tell; a longer run would",
    };
    Loss { doubt: Some(doubt.into()), ..loss }
}

/// The share of a sample's time that is lost in a band; of another machine's band, what would come on top of it there. The
/// time is this machine's, its own bands and speed included, so that it is turned into bytes first.
fn gain(band: &TraceBand, inside: &Inside, bands: &TraceBands) -> f64 {
    let paths = costs::of_sample(inside.kernel.as_deref());
    let here = costs::measured(&bands.here, paths, length(inside));
    let speed = here.and_then(|here| Some((here, here.baseline_bytes_per_s?)));
    match speed {
        Some((here, bytes_per_s)) if bands.elsewhere => {
            let slowed = costs::band(here, inside.distance).map_or(1.0, |band| band.slowdown.max(1.0));
            bytes_per_s / 1e9 / slowed / 1024.0 * band.penalty_ns_per_kib.max(0.0)
        }
        _ if bands.elsewhere => costs::gain(band, true),
        _ => of_copy(band, inside, bands).unwrap_or_else(|| costs::gain(band, false)),
    }
}

/// The share of a copy's own time that is lost: samples are of that, while a band's slowdown is that of the whole call. The
/// copy without the band takes longer than the same instruction in user space, and less than the call; where it streams,
/// it is nearly all of the call. None where speeds are not known.
fn of_copy(band: &TraceBand, inside: &Inside, bands: &TraceBands) -> Option<f64> {
    let ns_per_kib = |path: &TracePath| path.baseline_bytes_per_s.map(|speed| 1024e9 / speed);
    let path = costs::measured(&bands.paths, costs::of_sample(inside.kernel.as_deref()), length(inside))?;
    let instruction = costs::measured(&bands.paths, &[PathName::RepMovsb], LEN)?;
    if path.len as f64 > LEN || costs::band(path, inside.distance) != Some(*band) {
        return None;
    }
    let (call, least) = (ns_per_kib(path)?, ns_per_kib(instruction)?);
    let copy = (call * least.min(call)).sqrt();
    let penalty = band.penalty_ns_per_kib.max(0.0);
    (copy > 0.0).then(|| penalty / (penalty + copy))
}

/// The length of a copy as far as it is known, and at least that whose slowdown is one of the copy itself.
pub fn length(inside: &Inside) -> f64 {
    inside.class.map_or(LEN, |class| (1.5 * f64::from(class).exp2()).max(LEN))
}

/// Samples that met a band, with what is lost of their time.
#[derive(Default)]
struct Hits {
    samples: u64,
    gains: f64,
}

impl Hits {
    fn add(&mut self, samples: u64, gain: f64) {
        self.samples += samples;
        self.gains += samples as f64 * gain;
    }

    fn mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.gains / self.samples as f64)
    }
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
        _ if !samples.kernel_seen => 0.0,
        Some(cpu_ns) => cpu_ns as f64,
        None if samples.taken == 0 => f64::INFINITY,
        None => 0.0,
    }
}

/// CPU time that no interrupt looked into.
fn unseen_ns(samples: &Samples, cpu_ns: Option<u64>) -> f64 {
    let period_ns = samples.period_ns as f64;
    let lost_ns = samples.lost as f64 * period_ns;
    let gap_ns = cpu_ns.map(|cpu_ns| cpu_ns as f64 - samples.taken as f64 * period_ns);
    match gap_ns {
        Some(gap_ns) if !samples.kernel_seen || is_gap(gap_ns, cpu_ns) => gap_ns.max(lost_ns),
        _ if samples.kernel_seen => lost_ns,
        _ => f64::INFINITY,
    }
}

/// Whether so much CPU time went by between interrupts that some of the program was not met at all: its period
/// begins anew in every process and thread, so that those shorter than one are met by none.
fn is_gap(gap_ns: f64, cpu_ns: Option<u64>) -> bool {
    let cpu_ns = cpu_ns.unwrap_or_default() as f64;
    gap_ns > cpu_ns * USUAL_GAP && gap_ns > LEAST_GAP_NS
}

fn doubt(samples: &Samples, cpu_ns: Option<u64>, unseen: bool) -> String {
    let gap_ns = cpu_ns.map_or(0.0, |ns| ns as f64 - samples.taken as f64 * samples.period_ns as f64);
    match samples.kernel_seen {
        false if unseen => {
            "copies inside the kernel could not be seen; with CAP_PERFMON or sysctl kernel.perf_event_paranoid=1 they can, \
             and --via preload or ptrace counts a command's calls without either"
        }
        _ if samples.lost > samples.taken / 10 => {
            "the kernel dropped too many samples; watch less at once, or count a command's calls with --via preload"
        }
        _ if samples.unread > samples.taken / 10 => {
            "what too many samples interrupted could not be read; run fsprobe as root, or count a command's calls with --via preload"
        }
        _ if is_gap(gap_ns, cpu_ns) => {
            "processes or threads that live shorter than the time between interrupts are met by few of them; as root, --system meets them while they run, or count a \
             command's calls with --via preload"
        }
        _ => "too few samples tell: a longer run or watch would, and --via preload or ptrace counts a command's calls",
    }
    .into()
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
