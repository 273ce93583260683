//! Why: what CPU, kernel and libc are predicted to do by the facts, beside what their profiles show.
//!
//! Only what was measured on its own is explained: without `rep-movsb` no layer can be told from another,
//! and a report without it has no causes.

use super::profile::{Profile, Routine, profiles};
use crate::report::{Band, Cause, Depth, Feature, Host, PathName, PathVerdict, Report, State, Verdict};

/// The length that paths are compared at.
const FINE: u64 = 64 << 10;

/// From this slowdown near distance 0 on a routine that the facts predict is seen at work, however deep a
/// band has to be for a state.
const SLOW: f64 = 2.0;

/// Penalties of one routine at one length agree within this share, or the report says which differ.
const AGREE: f64 = 0.25;

/// The causes, one a layer that was measured.
pub fn causes(report: &Report, verdict: &Verdict) -> Vec<Cause> {
    if !verdict.paths.iter().any(|p| p.path == PathName::RepMovsb) {
        return vec![];
    }
    let seen = Seen {
        host: &report.host,
        paths: &verdict.paths,
        profiles: profiles(report),
        affected_at: report.run.options.affected_at,
    };
    [seen.cpu(), seen.kernel(), seen.libc()].into_iter().flatten().collect()
}

/// What the causes are drawn from.
struct Seen<'a> {
    host: &'a Host,
    paths: &'a [PathVerdict],
    profiles: Vec<Profile>,
    affected_at: f64,
}

impl Seen<'_> {
    fn of(&self, path: PathName) -> impl Iterator<Item = &PathVerdict> + Clone {
        self.paths.iter().filter(move |p| p.path == path)
    }

    fn profile(&self, path: PathName, len: u64) -> Option<&Profile> {
        self.profiles.iter().find(|p| (p.path, p.len) == (path, len))
    }

    /// Whether a path is clean and fast near distance 0 also by a milder measure than the one it was judged by.
    fn is_fast(&self, path: &PathVerdict) -> bool {
        let near = self.profile(path.path, path.len).map_or(1.0, |f| f.near);
        path.state == State::Clean && near < SLOW
    }

    /// Whether `rep movsb` itself is slow at any length.
    fn movsb_is_slow(&self) -> bool {
        self.of(PathName::RepMovsb).any(|p| p.state == State::Affected)
    }

    /// Whether it is so at lengths below this one alone.
    fn is_slow_below(&self, len: u64) -> bool {
        self.of(PathName::RepMovsb).all(|p| p.len < len || p.state != State::Affected)
    }

    fn cpu(&self) -> Option<Cause> {
        let cpu = &self.host.cpu;
        let [erms, fsrm] = [cpu.features.erms, cpu.features.fsrm];
        let name = cpu
            .microarchitecture
            .clone()
            .unwrap_or_else(|| format!("{} family {:#x}, model {:#x}", cpu.vendor, cpu.family, cpu.model));
        let published = is_published(cpu.vendor.as_str(), cpu.family);
        let expected = match (published, name == ZEN5) {
            (true, _) => "published as slow in rep movsb at some page offsets",
            (false, true) => "measured as slow by 2x or more in rep movsb of less than 128 B only",
            (false, false) => "not published as slow by 2x or more",
        };
        let predicted = format!("{name}, {}: {expected}", bits(erms, fsrm));
        let bands: Vec<String> =
            self.of(PathName::RepMovsb).filter_map(|p| deepest(p).map(|b| at(p, b))).collect();
        let measured = match bands.is_empty() {
            false => format!("rep movsb is slow: {}", bands.join("; ")),
            true => self.not_slow("rep movsb is", self.of(PathName::RepMovsb)),
        };
        let slow = self.movsb_is_slow();
        let contradiction = match (slow, published) {
            (true, true) if !erms.cpuid && !fsrm.cpuid => Some(
                "CPUID shows neither ERMS nor FSRM, yet rep movsb is slow as on a CPU that has them: firmware or a \
                 hypervisor masks the bits, which changes what programs choose but not the instruction"
                    .into(),
            ),
            (true, false) if name == ZEN5 && self.is_slow_below(ZEN5_SHORT) => None,
            (true, false) => Some(format!("{name} is not known to be slow here: this report is news")),
            (false, true) if self.of(PathName::RepMovsb).all(|p| self.is_fast(p)) => Some(format!(
                "{name} is published as slow and is not slow here: microcode, firmware or the hypervisor may differ"
            )),
            _ => None,
        };
        Some(Cause { layer: "cpu".into(), predicted, measured, contradiction })
    }

    fn kernel(&self) -> Option<Cause> {
        let all = || self.paths.iter().filter(|p| p.path.is_copied_by_kernel());
        all().next()?;
        let measured: Vec<&PathVerdict> = all().filter(|p| p.len == FINE).collect();
        let predicted = match &self.host.kernel.copy_routine {
            Some(routine) => format!("copies with {routine}"),
            None => "its copy routine is not known".into(),
        };
        if !self.movsb_is_slow() && all().all(|p| deepest(p).is_none()) {
            let measured = self.not_slow("the kernel's copies are", all());
            return Some(Cause { layer: "kernel".into(), predicted, measured, contradiction: None });
        }
        let mut told: Vec<String> = measured.iter().map(|p| self.runs(p)).collect();
        let others = all().filter(|p| p.len != FINE);
        told.extend(others.filter_map(|p| Some(format!("{} is slow {}", p.path, at(p, deepest(p)?)))));
        told.dedup(); // several allocators
        if told.is_empty() {
            return None;
        }
        let doubts: Vec<String> = self
            .zero(&measured)
            .into_iter()
            .chain(self.unlike(&measured))
            .chain(self.routine(&measured))
            .collect();
        let contradiction = (!doubts.is_empty()).then(|| doubts.join("; "));
        Some(Cause { layer: "kernel".into(), predicted, measured: told.join("; "), contradiction })
    }

    /// `read runs rep movsb (+275 ns/KiB)`.
    fn runs(&self, path: &PathVerdict) -> String {
        let Some(profile) = self.profile(path.path, path.len) else {
            return format!("{} is not told", path.path);
        };
        let band = deepest(path).and_then(|band| Some((path.by_distance(band)?, band.penalty_ns_per_kib)));
        let ((from, to), penalty) = band.unwrap_or(((0x001, 0x00f), profile.near_ns_per_kib));
        // adding zero takes the sign from a rounded nothing
        let cost = format!("{:+.0} ns/KiB at distance {from:#05x}-{to:#05x}", penalty.round() + 0.0);
        match profile.routine {
            Routine::Movsb => format!("{} runs rep movsb ({cost})", path.path),
            Routine::Movsq => format!("{} runs rep movsq ({cost})", path.path),
            Routine::NoRep => format!("{} runs no rep movs: an unrolled loop or vectors", path.path),
            Routine::Another => format!("{} is slow unlike any routine known ({cost})", path.path),
            Routine::Untold => format!("what {} runs cannot be told ({cost})", path.path),
        }
    }

    /// Distance 0 slow in the kernel's copies and not in the instruction: the published contradiction of Zen 3.
    fn zero(&self, paths: &[&PathVerdict]) -> Option<String> {
        let holds = |p: &PathVerdict| deepest(p).is_some_and(|b| b.contains(0));
        let slow: Vec<&str> = paths.iter().filter(|p| holds(p)).map(|p| p.path.word()).collect();
        let instruction = self.of(PathName::RepMovsb).any(holds);
        (!slow.is_empty() && !instruction).then(|| {
            format!(
                "{} slow at distance 0x000 too, where rep movsb is fast: as published for Zen 3, and unexplained",
                is_or_are(&slow)
            )
        })
    }

    /// Paths whose deepest band differs from that of `rep movsb` in place or penalty.
    fn unlike(&self, paths: &[&PathVerdict]) -> Option<String> {
        let movsb = self.of(PathName::RepMovsb).find(|p| p.len == FINE).and_then(deepest)?;
        let runs_it =
            |p: &&&PathVerdict| self.profile(p.path, p.len).is_some_and(|f| f.routine == Routine::Movsb);
        let differs = |p: &&PathVerdict| -> Option<String> {
            let band = deepest(p)?;
            let (from, to) = p.by_distance(band).unwrap_or((band.from, band.to));
            if (from, to) != (movsb.from, movsb.to) && !band.contains(0) {
                return Some(format!("{} is slow at {from:#05x}-{to:#05x} instead", p.path));
            }
            let share = band.penalty_ns_per_kib / movsb.penalty_ns_per_kib;
            ((share - 1.0).abs() > AGREE)
                .then(|| format!("{} pays {share:.2} times the penalty of rep movsb", p.path))
        };
        let told: Vec<String> = paths.iter().filter(runs_it).filter_map(differs).collect();
        (!told.is_empty()).then(|| told.join(", "))
    }

    /// A routine that is not the predicted one.
    fn routine(&self, paths: &[&PathVerdict]) -> Option<String> {
        let text = self.host.kernel.copy_routine.as_deref()?;
        let words =
            [("rep movsb", Routine::Movsb), ("rep movsq", Routine::Movsq), ("unrolled", Routine::NoRep)];
        let (word, predicted) = words.into_iter().find(|(word, _)| text.contains(word))?;
        let told = |p: &&&PathVerdict| {
            let routine = self.profile(p.path, p.len).map_or(Routine::Untold, |f| f.routine);
            ![Routine::Untold, Routine::Another, predicted].contains(&routine)
        };
        let unlike: Vec<&str> = paths.iter().filter(told).map(|p| p.path.word()).collect();
        (!unlike.is_empty()).then(|| {
            format!(
                "the kernel's release and flags predict {word}, and {} seen to run something else: a backport, or flags \
                 that do not tell what was patched in at boot",
                is_or_are(&unlike)
            )
        })
    }

    /// That nothing is slow, and what is milder.
    fn not_slow<'a>(&self, what: &str, paths: impl Iterator<Item = &'a PathVerdict> + Clone) -> String {
        if paths.clone().any(|p| p.state == State::Inconclusive) {
            return format!("whether {what} slow cannot be told");
        }
        let bands = paths.flat_map(|p| p.bands.iter().map(move |b| (p, b))).filter(|(_, b)| b.confirmed);
        match bands.max_by(|a, b| a.1.slowdown.total_cmp(&b.1.slowdown)) {
            None => format!("{what} slow at no page offset: there is nothing to explain"),
            Some((path, band)) => {
                let limit = self.affected_at;
                format!("{what} slow in bands below {limit}x only, at most {}", at(path, band))
            }
        }
    }

    fn libc(&self) -> Option<Cause> {
        let own: Vec<&PathVerdict> = self.of(PathName::Memcpy).collect();
        let first = own.first()?;
        let libc = &self.host.libc;
        let (window, predicted) = self.window();
        if !self.movsb_is_slow() && own.iter().all(|p| deepest(p).is_none()) {
            let measured = self.not_slow("memcpy is", own.into_iter());
            return Some(Cause { layer: "libc".into(), predicted, measured, contradiction: None });
        }
        let told = |p: &&PathVerdict| {
            let near = self.profile(p.path, p.len).map_or(f64::NAN, |f| f.near);
            match deepest(p) {
                Some(band) => format!("memcpy {}: it runs rep movsb there", at(p, band)),
                None if near >= SLOW => {
                    format!("memcpy at {} is {near:.2}x slower at distance 0x001-0x00f", size(p.len))
                }
                None => format!("memcpy at {} is not slow ({near:.2}x at distance 0x001-0x00f)", size(p.len)),
            }
        };
        let measured: Vec<String> = own.iter().map(told).collect();
        let doubt = |p: &&&PathVerdict| {
            // where rep movsb is fast at this length, either routine would be
            let tells = self.profile(PathName::RepMovsb, p.len).is_none_or(|f| f.near >= SLOW);
            let inside = window.as_ref().map(|w| w.contains(&p.len));
            tells && p.state != State::Inconclusive && inside.is_some_and(|inside| inside == self.is_fast(p))
        };
        let contradiction = own.iter().find(doubt).map(|p| {
            let found = if self.is_fast(p) { "is not slow" } else { "is slow" };
            format!("the thresholds of {} predict otherwise: memcpy at {} {found}", libc.name, size(p.len))
        });
        let contradiction = contradiction.filter(|_| first.state != State::Inconclusive);
        Some(Cause { layer: "libc".into(), predicted, measured: measured.join("; "), contradiction })
    }

    /// The lengths at which memcpy runs `rep movsb` by the thresholds in force, and that in words.
    fn window(&self) -> (Option<std::ops::Range<u64>>, String) {
        let libc = &self.host.libc;
        let name = match &libc.version {
            Some(version) => format!("{} {version}", libc.name),
            None => libc.name.clone(),
        };
        let stop = libc.rep_movsb_stop_threshold.or(libc.non_temporal_threshold);
        match (libc.rep_movsb_threshold, stop) {
            _ if libc.erms_switched_off() => {
                (Some(0..0), format!("{name} never runs rep movsb (GLIBC_TUNABLES takes ERMS away)"))
            }
            (Some(from), Some(stop)) if from < stop => {
                let text = format!(
                    "{name} runs rep movsb from {} to {} B (thresholds in force)",
                    from + 1,
                    stop - 1
                );
                (Some(from + 1..stop), text)
            }
            (Some(from), Some(_)) => (
                Some(0..0),
                format!("{name} never runs rep movsb (its threshold of {from} B is past where it stops)"),
            ),
            _ => (None, format!("{name}: the thresholds of its memcpy are not known")),
        }
    }
}

/// The microarchitecture whose `rep movsb` was measured as slow by 2x and more below so many bytes only: there it loses
/// 10 ns a copy as elsewhere, and takes 2.6 without (docs/signatures.md).
const ZEN5: &str = "Zen 5";
const ZEN5_SHORT: u64 = 128;

/// The CPUs that were published or measured as slow by 2x and more (docs/signatures.md): AMD's Zen 3 and 4.
fn is_published(vendor: &str, family: u32) -> bool {
    vendor == "AuthenticAMD" && family == 0x19
}

/// The deepest confirmed band of a path, if any of its bands is deep, or else mild at the near distances.
fn deepest(path: &PathVerdict) -> Option<&Band> {
    let deep = path.bands.iter().filter(|b| b.confirmed && b.depth == Depth::Deep);
    deep.max_by(|a, b| a.slowdown.total_cmp(&b.slowdown))
}

/// `at 64 KiB 7.3x at 0x001-0x00f`.
fn at(path: &PathVerdict, band: &Band) -> String {
    format!("at {} {:.1}x at {:#05x}-{:#05x}", size(path.len), band.slowdown, band.from, band.to)
}

fn bits(erms: Feature, fsrm: Feature) -> String {
    let word = |name: &str, bit: Feature| {
        let kernel = match bit.kernel {
            Some(kernel) if kernel != bit.cpuid => {
                format!(", {} by the kernel", if kernel { "set" } else { "cleared" })
            }
            _ => String::new(),
        };
        format!("{} {name}{kernel}", if bit.cpuid { "with" } else { "without" })
    };
    format!("{}, {}", word("ERMS", erms), word("FSRM", fsrm))
}

fn is_or_are(words: &[&str]) -> String {
    let mut words = words.to_vec();
    words.dedup(); // several allocators
    format!("{} {}", words.join(", "), if words.len() == 1 { "is" } else { "are" })
}

fn size(len: u64) -> String {
    if len.is_multiple_of(1024) { format!("{} KiB", len >> 10) } else { format!("{len} B") }
}
