//! Whether a watched program's copies land in deep bands, what that costs it, and whether that is its problem.

mod bands;
mod costs;
mod counted;
mod lengths;
mod sampled;
mod sentence;
mod tally;
#[cfg(test)]
mod tests;
mod words;

pub use bands::of_report;
pub use lengths::unmeasured;

use crate::report::{State, TraceAnswer, TraceBands, Unseen, Watched};
use tally::Tally;

/// A loss below this share of the program's time is no problem of its.
const NEGLIGIBLE: f64 = 0.01;

/// A bound below this, in nanoseconds, is no problem of any program's.
const TRIFLE_NS: f64 = 10_000.0;

/// The normal quantile of one-sided 95 % bounds.
const Z: f64 = 1.645;

/// What a program's copies come to.
struct Loss {
    tally: Tally,
    /// What the program copied itself, where calls were counted.
    own: Option<Tally>,
    /// Nanoseconds lost at least: what a state may rest on.
    least_ns: f64,
    /// Nanoseconds lost at most, with what could not be seen.
    most_ns: f64,
    /// What stands between the two, and what would show it, as the end of a sentence.
    doubt: Option<String>,
}

impl Loss {
    /// The same with what the program's own copies lose.
    fn with(self, own: Loss) -> Loss {
        let is_own = own.most_ns - own.least_ns > self.most_ns - self.least_ns;
        Loss {
            tally: self.tally,
            own: Some(own.tally),
            least_ns: self.least_ns + own.least_ns,
            most_ns: self.most_ns + own.most_ns,
            doubt: if is_own { own.doubt } else { self.doubt },
        }
    }

    /// What lost most: the calls that were counted, or the program's own copies.
    fn costliest(&self) -> &Tally {
        let lost = |tally: &&Tally| (tally.all.lost_ns, tally.all.weight > 0.0);
        let own = self.own.as_ref().filter(|own| lost(own) > lost(&&self.tally));
        own.unwrap_or(&self.tally)
    }

    /// What all of them lost, in nanoseconds.
    fn lost_ns(&self) -> f64 {
        self.tally.all.lost_ns + self.own.as_ref().map_or(0.0, |own| own.all.lost_ns)
    }
}

/// Concludes from what was watched. `who` is what the sentence calls the program: a name in backticks, `the
/// program`, `this system`.
pub fn conclude(watched: &Watched, bands: &TraceBands, who: &str) -> TraceAnswer {
    let of_ns = watched.cpu_ns.unwrap_or(watched.wall_ns);
    let loss = match (&watched.samples, &watched.own) {
        (Some(samples), _) => sampled::loss(samples, &watched.unseen, bands, watched.cpu_ns),
        (None, None) => counted::loss(&watched.copies, &watched.unseen, bands),
        (None, Some(own)) => {
            counted::loss(&watched.copies, &watched.unseen, bands).with(sampled::own(own, bands))
        }
    };
    let state = state(&loss, watched, bands, of_ns as f64);
    let sentence = sentence::Sentence { watched, bands, loss: &loss, of_ns, who }.of(state);
    let all = || [&loss.tally].into_iter().chain(&loss.own);
    TraceAnswer {
        state,
        sentence,
        share_in_band: loss.costliest().all.share(),
        lost_ns: Some(loss.lost_ns().round() as u64),
        // of calls the penalty, of samples the slowdown is what was measured at some length
        lost_is_estimate: true,
        of_ns,
        rows: all().flat_map(Tally::rows).collect(),
        threads: all().flat_map(Tally::threads).collect(),
        distances: loss.costliest().distances(),
        buffers: counted::buffers(&watched.copies),
    }
}

fn state(loss: &Loss, watched: &Watched, bands: &TraceBands, of_ns: f64) -> State {
    let negligible = of_ns * NEGLIGIBLE;
    // what the watching took must not make a loss small
    let surely_negligible = (of_ns - watched.watching_ns.unwrap_or(0) as f64).max(0.0) * NEGLIGIBLE;
    if !bands.any() {
        // without a band nothing can land in one; that there is none has to be certain
        return if bands.state == State::Clean { State::Clean } else { State::Inconclusive };
    }
    let blind = match &watched.samples {
        Some(samples) => samples.taken == 0,
        // bytes that were not seen are weighed: they alone make nothing unknown
        None => {
            let is_unknown = |unseen: &Unseen| unseen.bytes.is_none();
            loss.tally.all.weight == 0.0 && watched.unseen.iter().any(is_unknown)
        }
    };
    match loss {
        _ if blind => State::Inconclusive,
        loss if loss.least_ns > 0.0 && loss.least_ns >= negligible => State::Affected,
        loss if loss.most_ns <= surely_negligible.max(TRIFLE_NS) => State::Clean,
        _ => State::Inconclusive,
    }
}
