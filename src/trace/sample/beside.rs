//! Samples of user space beside an exact way: what a program copies itself between its calls, which no call shows. An
//! ordinary user may take them wherever samples are allowed at all.

use super::Target;
use super::session::Session;
use super::tally::Tally;
use crate::report::{Copies, FileKind, OwnCopies};
use crate::sys::perf_sample::Counts;
use crate::trace::Launch;
use crate::trace::inside::within;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Nanoseconds of CPU time between two samples of a thread: more often than where samples are all there is, so that a
/// third of a second outside the kernel is enough to call it clean. In step with nothing, half the square root of five.
const PERIOD_NS: u64 = 1_118_034;

/// Samples of what the calling thread starts, while another way watches.
pub struct Beside {
    session: Session,
    tally: Tally,
    has_stopped: bool,
}

impl Beside {
    /// Ready for the next command that this thread starts; none where samples are not allowed.
    pub fn open(launch: &Launch) -> Option<Beside> {
        let target = Target::Command(launch.clone());
        let session = Session::open(&target, PERIOD_NS, false).ok()?;
        Some(Beside { session, tally: Tally::new(), has_stopped: false })
    }

    /// Does what watches until the command has ended, and takes samples meanwhile: `work` is given what to call now and
    /// then for that, which takes whether samples are worth what they cost; once they are not, there are none to the end.
    pub fn during<R>(beside: &mut Option<Beside>, work: impl FnOnce(&mut dyn FnMut(bool)) -> R) -> R {
        let Some(Beside { session, tally, has_stopped }) = beside else { return work(&mut |_| ()) };
        session.emptied(|session, emptied: &Mutex<_>| {
            work(&mut |is_worth_it| {
                session.drain(emptied, tally);
                if !is_worth_it && !*has_stopped {
                    session.stop();
                    *has_stopped = true;
                }
            })
        })
    }

    /// What they told, and the CPU time of all that was sampled in nanoseconds, those included that nobody waited for.
    /// `user_ns` is what the kernel tells of the time outside it, `counted` what calls told: copies of the C library's that
    /// go past what is counted (a plugin that binds to it alone, `strdup`) are told, the others left out. None where a program took other privileges, which
    /// ended the samples, or they were stopped; nor of programs too short to tell anything of.
    pub fn end(mut self, user_ns: u64, counted: &[Copies]) -> Option<(OwnCopies, u64)> {
        self.session.drain_all(&mut self.tally);
        if self.has_stopped {
            return None;
        }
        let explained = explained_ns(counted);
        self.tally.without_counted(PERIOD_NS, |distance| explained.get(&distance).copied().unwrap_or(0));
        let Counts { ran_ns, lost } = self.session.counts(true)?;
        if self.tally.unseen().iter().any(|unseen| unseen.any) {
            return None;
        }
        let mut samples = self.tally.told(PERIOD_NS, false, true);
        samples.lost = samples.lost.max(lost);
        let user_ns = user_ns.max(samples.taken.saturating_mul(PERIOD_NS).min(ran_ns));
        let tells = within(user_ns).is_some() || !samples.inside.is_empty();
        tells.then_some((OwnCopies { user_ns, samples }, ran_ns))
    }
}

/// The time that counted copies in memory may have taken by distance: a nanosecond a byte, which is twice what was measured in
/// the slowest band on an idle machine.
fn explained_ns(counted: &[Copies]) -> BTreeMap<u16, u64> {
    let mut all: BTreeMap<u16, u64> = BTreeMap::new();
    let in_memory = counted.iter().filter(|copies| copies.kind == FileKind::Memory);
    for landing in in_memory.flat_map(|copies| &copies.landings) {
        if let Some(distance) = landing.distance {
            *all.entry(distance).or_default() += landing.bytes;
        }
    }
    all
}
