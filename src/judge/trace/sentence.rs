//! The verdict on a program in a sentence or two.

use super::Loss;
use super::tally::{Sum, Tally};
use super::words::{bands, duration, percent, size, span};
use crate::report::{FileKind, PAGE, State, TraceBands, Watched, printable};
use std::collections::BTreeSet;

/// Characters of what the program is called.
const LONGEST: usize = 80;

/// The alignment that is advised, in bytes.
const ALIGNED: u16 = 64;

/// From this share of a program's time on a loss is told as nearly all of it: an estimate may well be more.
const NEARLY_ALL: f64 = 0.97;

/// Below so many nanoseconds of CPU time a program that was watched by samples did nothing.
const IDLE_NS: u64 = 1_000_000;

/// What a sentence is made of.
pub struct Sentence<'a> {
    pub watched: &'a Watched,
    pub bands: &'a TraceBands,
    pub loss: &'a Loss,
    pub of_ns: u64,
    pub who: &'a str,
}

/// Which way most bytes in bands went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Read,
    Written,
    Copied,
}

impl Sentence<'_> {
    /// The sentence of a state.
    pub fn of(&self, state: State) -> String {
        match state {
            State::Affected => self.affected(),
            State::Clean => self.clean(),
            State::Inconclusive => self.inconclusive(),
        }
    }

    fn who(&self) -> String {
        printable(self.who, LONGEST)
    }

    /// The same, with the program that lost most where another ran it.
    fn culprit(&self) -> String {
        let most = self.tally().threads().into_iter().filter(|thread| thread.lost_ns > 0);
        let programs: BTreeSet<String> = most.map(|thread| thread.program).collect();
        let named = self.who.trim_matches('`');
        match programs.first() {
            // the kernel's names end after 15 bytes
            Some(program) if programs.len() == 1 && named.len() + 2 == self.who.len() => {
                let start = named.get(..15).unwrap_or(named);
                if program.starts_with(start) {
                    return self.who();
                }
                format!("{} (run by {})", printable(&format!("`{program}`"), LONGEST), self.who())
            }
            _ => self.who(),
        }
    }

    /// What the sentence is about: what lost most.
    fn tally(&self) -> &Tally {
        self.loss.costliest()
    }

    /// Whether that are calls.
    fn counted(&self) -> bool {
        self.tally().in_bytes
    }

    fn affected(&self) -> String {
        let share = percent(self.tally().all.share().unwrap_or_default());
        let (who, place) = (self.culprit(), self.place());
        let lost_ns = self.loss.lost_ns();
        let (lost, of) = (duration(lost_ns), duration(self.of_ns as f64));
        let landed = match self.counted() {
            true => {
                let done = match self.way(|sum| sum.weight, 0.9) {
                    Way::Read => "read",
                    Way::Written => "wrote",
                    Way::Copied => "copied",
                };
                format!("{share} of the bytes that {who} {done} landed {place}")
            }
            false => {
                format!("{share} of the time that {who} spent in rep movs was for copies that landed {place}")
            }
        };
        let cost = if self.bands.elsewhere {
            let about = if self.counted() { "about" } else { "up to" };
            format!(
                "on the machine of {}, that would take {about} {lost} on top of the {of} here",
                self.bands.source
            )
        } else if lost_ns >= NEARLY_ALL * self.of_ns as f64 {
            format!("nearly all of {of} lost")
        } else {
            format!("about {lost} of {of} lost")
        };
        let estimate = match self.counted() {
            true => " (an estimate, by what a KiB loses in the band)",
            false if self.bands.elsewhere => {
                " (an estimate, of copies that find their data in the cache; those that stream from memory lose a third to a tenth of it)"
            }
            false => " (an estimate, by how much slower copies are in the band)",
        };
        format!("{landed}: {cost}{estimate}; {}.", self.advice())
    }

    /// Where the copies landed that cost most.
    fn place(&self) -> String {
        match self.tally().most_hit() {
            Some((from, to)) if (1..=to).contains(&from) && to < 0x100 && from < to => {
                format!("{from} to {to} bytes past their source's page offset")
            }
            Some((from, to)) => format!("at distance {} from their source", span(from, to)),
            None => "outside every deep band".into(),
        }
    }

    /// The way that more than a share of the bytes went.
    fn way(&self, of: impl Fn(&Sum) -> f64, share: f64) -> Way {
        let ways = &self.tally().ways;
        let limit = ways.values().map(&of).sum::<f64>() * share;
        let most = |from_file| ways.get(&from_file).is_some_and(|sum| of(sum) > limit);
        match (most(Some(true)), most(Some(false))) {
            (true, _) => Way::Read,
            (_, true) => Way::Written,
            _ => Way::Copied,
        }
    }

    /// How to stay clear of the bands.
    fn advice(&self) -> String {
        let all = || self.bands.paths.iter().flat_map(|path| &path.bands);
        let free = |distance: u16| !all().any(|band| band.contains(distance));
        if !(0..PAGE).step_by(usize::from(ALIGNED)).all(free) {
            let far = (0..PAGE)
                .step_by(usize::from(ALIGNED))
                .filter(|at| free(*at))
                .max_by_key(|at| room(*at, &free));
            return match far {
                Some(at) => format!(
                    "keep (destination - source) mod 4096 at 0x{at:03x}, say: buffers at the source's page offset plus that"
                ),
                None => "no distance that is a multiple of 64 is clear of the bands".into(),
            };
        }
        let buffers = "allocate buffers with 64-byte alignment";
        match (self.counted(), self.way(|sum| sum.inside, 0.5)) {
            (true, Way::Read) if self.buffers_are_aligned() => {
                "its buffers are aligned already, so read at file offsets that are multiples of 64".into()
            }
            (true, Way::Read) => format!("{buffers}, and read at file offsets that are multiples of 64"),
            (true, Way::Written) if self.buffers_are_aligned() => {
                "its buffers are aligned already, so write at file offsets that are multiples of 64".into()
            }
            (true, Way::Written) => format!("{buffers}, and write at file offsets that are multiples of 64"),
            _ => {
                format!("{buffers}, and copy from sources (file offsets among them) that are multiples of 64")
            }
        }
    }

    /// Whether the copies in bands had buffers at multiples of 64. A call's buffers and distances are counted apart: where
    /// it had others for less than half of what landed in a band, it is not those.
    fn buffers_are_aligned(&self) -> bool {
        let sum = |all: &mut dyn Iterator<Item = u64>| all.sum::<u64>() as f64;
        let (mut landed, mut astray) = (0.0, 0.0);
        for copies in self.watched.copies.iter().filter(|copies| copies.kind == FileKind::PageCache) {
            let hits = copies.landings.iter().filter(|landing| self.is_inside(landing.distance));
            let hits = sum(&mut hits.map(|landing| landing.bytes));
            let others = copies.buffers.iter().filter(|at| !at.offset.is_multiple_of(ALIGNED));
            landed += hits;
            astray += sum(&mut others.map(|at| at.bytes)).min(hits);
        }
        landed > 0.0 && astray < 0.5 * landed
    }

    fn is_inside(&self, distance: Option<u16>) -> bool {
        let mut all = self.bands.paths.iter().flat_map(|path| &path.bands);
        distance.is_some_and(|distance| all.any(|band| band.contains(distance)))
    }

    fn clean(&self) -> String {
        let who = self.who();
        if !self.bands.any() {
            let elsewhere = if self.bands.elsewhere {
                ""
            } else {
                "; what the program would lose on a machine that has one, --simulate zen4 tells"
            };
            return format!("not your problem: no deep band in {}{elsewhere}.", self.bands.source);
        }
        let all = &self.tally().all;
        let bands = bands(self.bands);
        if all.inside > 0.0 {
            let (lost, of) = (duration(self.loss.lost_ns()), duration(self.of_ns as f64));
            let what = if self.counted() { "the bytes" } else { "the time in rep movs" };
            return format!(
                "not your problem: {} of {what} of {who} fell into a deep band ({bands}), which costs about {lost} of {of}.",
                percent(all.share().unwrap_or_default())
            );
        }
        if let Some(samples) = &self.watched.samples {
            return format!(
                "not your problem: of {} samples of {who}, none was in a copy inside a deep band ({bands}).",
                samples.taken
            );
        }
        let own = self.watched.own.as_ref().map_or(String::new(), |own| {
            format!(", nor was any of {} samples between its calls in one", own.samples.taken)
        });
        match self.loss.tally.all.known {
            0.0 => format!(
                "not your problem: nothing that {who} was seen to copy could lie in a deep band ({bands}){own}."
            ),
            known => {
                let unknown = self.loss.tally.all.weight - known;
                let rest = match unknown > known {
                    true => format!(", and of the other {} too little can have", size(unknown)),
                    false => String::new(),
                };
                format!(
                    "not your problem: of the {} that {who} copied at distances that are known, none landed in a deep band ({bands}){rest}{own}.",
                    size(known)
                )
            }
        }
    }

    fn inconclusive(&self) -> String {
        let source = &self.bands.source;
        if !self.bands.any() {
            if self.bands.state == State::Affected {
                return format!(
                    "cannot tell: the deep bands of {source} depend on the page offset of one side alone, or their paths are \
                     undecided, so that distances say nothing."
                );
            }
            return format!(
                "cannot tell: whether there is a deep band is in doubt in {source}; a report of fsprobe sweep, named with \
                 --report, would settle it."
            );
        }
        if self.watched.samples.as_ref().is_some_and(|samples| samples.taken == 0) && self.of_ns < IDLE_NS {
            return format!(
                "cannot tell: {} used next to no CPU time while it was watched; --via preload or ptrace counts a command's calls.",
                self.who()
            );
        }
        if self.tally().all.weight == 0.0 && self.counted() && self.watched.own.is_none() {
            return format!(
                "cannot tell: nothing that {} copied could be seen{}.",
                self.who(),
                self.remedy()
            );
        }
        let lost = match self.loss.lost_ns() {
            0.0 => "nothing".into(),
            ns => duration(ns),
        };
        let seen = format!("{} lost {lost} as far as could be seen", self.who());
        let most = match self.loss.most_ns {
            ns if ns >= self.of_ns as f64 && !self.bands.elsewhere => {
                format!("{seen}, and could have lost nearly all of {}", duration(self.of_ns as f64))
            }
            ns if ns.is_finite() => {
                let of = if self.bands.elsewhere { "on top of the" } else { "of" };
                let all = duration(self.of_ns as f64);
                format!("{seen}, and could have lost up to {} {of} {all}", duration(ns))
            }
            _ => seen,
        };
        match &self.loss.doubt {
            Some(doubt) => format!("cannot tell: {most}: {doubt}."),
            None if self.watched.watching_ns.is_some_and(|ns| ns > self.of_ns / 2) => {
                format!(
                    "cannot tell: {most}, which its stops for fsprobe are most of (--via sample or preload tells)."
                )
            }
            None => format!("cannot tell: {most}."),
        }
    }

    /// What shows most of what was not seen.
    fn remedy(&self) -> String {
        let remedy = self.watched.unseen.iter().find_map(|unseen| unseen.remedy.as_deref());
        remedy.map_or(String::new(), |remedy| format!(" (try: {})", printable(remedy, 200)))
    }
}

/// How far it is from a distance to the next band on either side.
fn room(distance: u16, free: &dyn Fn(u16) -> bool) -> u16 {
    let clear = |step: u16| free((distance + step) % PAGE) && free((distance + PAGE - step) % PAGE);
    (0..PAGE / 2).take_while(|step| clear(*step)).count() as u16
}
