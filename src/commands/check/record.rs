//! The pipeline's loop of a check: a coarse screen of each group, then only what `judge` asks for.

use super::plan::{self, Group};
use crate::commands::sweep::Recorder;
use crate::judge::{self, Detail};
use crate::report::{PathVerdict, Report, State};
use crate::sweep::{Machine, Plan, Stop, Watcher};

/// Times that groups too noisy for an answer are looked at again, with so many times the rounds.
const MOST_LOOKS: usize = 2;
const MORE_ROUNDS: u32 = 3;

/// Samples the groups into the report, until everything is decided or the run is stopped.
pub fn record(
    report: &mut Report,
    machine: &mut Machine,
    groups: &[Group],
    watcher: &mut dyn Watcher,
) -> Option<Stop> {
    let mut recorder = Recorder::new(report, machine, watcher);
    for group in groups {
        recorder.take(plan::screen(*group));
    }
    recorder.decide(|report| judge::questions_in(report, Detail::BRIEF));
    for _ in 0..MOST_LOOKS {
        for group in blind(recorder.report) {
            let again = plan::screen(group);
            recorder.take(Plan { rounds: again.rounds * MORE_ROUNDS, ..again });
        }
    }
    let stop = recorder.stop.take();
    // there is but one allocator, which nobody asked for
    report.skipped.iter_mut().for_each(|skipped| skipped.allocator = None);
    stop
}

/// Groups whose noise would have hidden a band, where that is what the answer hangs on.
fn blind(report: &Report) -> Vec<Group> {
    let verdict = judge::judge(report).verdict;
    let is_blind = |p: &&PathVerdict| p.state == State::Inconclusive && p.bands.is_empty();
    let groups = verdict.paths.iter().filter(is_blind).map(|p| (p.path, p.len));
    groups.filter(|_| verdict.paths.iter().all(|p| p.state != State::Affected)).collect()
}
