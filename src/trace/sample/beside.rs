//! Samples of user space beside an exact way: what a program copies itself between its calls, which no call shows. An
//! ordinary user may take them wherever samples are allowed at all.

use super::Target;
use super::session::Session;
use super::tally::Tally;
use crate::report::OwnCopies;
use crate::sys::perf_sample::Counts;
use crate::trace::Launch;
use crate::trace::inside::within;
use std::sync::Mutex;

/// Nanoseconds of CPU time between two samples of a thread: more often than where samples are all there is, so that a
/// third of a second outside the kernel is enough to call it clean. In step with nothing, half the square root of five.
const PERIOD_NS: u64 = 1_118_034;

/// Samples of what the calling thread starts, while another way watches.
pub struct Beside {
    session: Session,
    tally: Tally,
}

impl Beside {
    /// Ready for the next command that this thread starts; none where samples are not allowed. `is_libc_counted` tells
    /// that the way counts the C library's copies itself.
    pub fn open(launch: &Launch, is_libc_counted: bool) -> Option<Beside> {
        let target = Target::Command(launch.clone());
        let session = Session::open(&target, PERIOD_NS, false).ok()?;
        let mut tally = Tally::new();
        tally.without_libc = is_libc_counted;
        Some(Beside { session, tally })
    }

    /// Does what watches until the command has ended, and takes samples meanwhile: `work` is given what to call now and
    /// then for that.
    pub fn during<R>(beside: &mut Option<Beside>, work: impl FnOnce(&mut dyn FnMut()) -> R) -> R {
        let Some(Beside { session, tally }) = beside else { return work(&mut || ()) };
        session.emptied(|session, emptied: &Mutex<_>| work(&mut || session.drain(emptied, tally)))
    }

    /// What they told, and the CPU time of all that was sampled in nanoseconds, those included that nobody waited for.
    /// `user_ns` is what the kernel tells of the time outside it. None where a program took other privileges, which
    /// ended the samples; nor of programs too short to tell anything of.
    pub fn end(mut self, user_ns: u64) -> Option<(OwnCopies, u64)> {
        self.session.drain_all(&mut self.tally);
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
