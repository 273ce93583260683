//! The reports of one side, judged again by today's rules.

use super::super::series::Key;
use super::super::{judge, stats};
use crate::report::{Band, ComparedReport, ComparedSide, Depth, PathVerdict, Report, State, Verdict, length};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// A report with today's verdict.
pub struct Judged<'a> {
    pub report: &'a Report,
    pub verdict: Verdict,
}

/// One side.
pub struct Side<'a> {
    pub reports: Vec<Judged<'a>>,
    /// Groups that every report of the side measured.
    pub keys: BTreeSet<Key>,
    pub state: State,
}

impl<'a> Side<'a> {
    pub fn of(reports: &'a [Report], affected_at: f64) -> Side<'a> {
        let reports: Vec<Judged<'a>> = reports.iter().map(|r| Judged::of(r, affected_at)).collect();
        let keys = reports.iter().map(Judged::keys).reduce(|a, b| a.intersection(&b).copied().collect());
        let state = agreed(reports.iter().map(|r| r.verdict.state));
        Side { reports, keys: keys.unwrap_or_default(), state }
    }

    /// The group in each report that is conclusive on it, with the report's place.
    pub fn conclusive(&self, key: Key) -> Vec<(&Judged<'a>, &PathVerdict)> {
        let found = self.reports.iter().filter_map(|r| Some((r, r.path(key)?)));
        found.filter(|(r, p)| r.state_of(p) != State::Inconclusive).collect()
    }

    /// A group's state over the side's reports.
    pub fn state_of(&self, key: Key) -> State {
        agreed(self.reports.iter().filter_map(|r| Some(r.state_of(r.path(key)?))))
    }

    /// Why the side is inconclusive.
    pub fn doubt(&self) -> Option<String> {
        if self.state != State::Inconclusive {
            return None;
        }
        let unsure = self.reports.iter().find(|r| r.verdict.state == State::Inconclusive);
        Some(match unsure {
            Some(report) => report.verdict.reasons.join("; "),
            None => "its reports disagree".into(),
        })
    }

    /// As shown to people.
    pub fn told(&self) -> ComparedSide {
        ComparedSide { state: self.state, reports: self.reports.iter().map(Judged::told).collect() }
    }
}

/// The state on which reports agree: those that tell must say the same and outnumber those that do not.
fn agreed(states: impl Iterator<Item = State>) -> State {
    let states: Vec<State> = states.collect();
    let telling: BTreeSet<State> = states.iter().copied().filter(|s| *s != State::Inconclusive).collect();
    let tell = states.iter().filter(|s| **s != State::Inconclusive).count();
    match telling.first() {
        Some(state) if telling.len() == 1 && tell * 2 > states.len() => *state,
        _ => State::Inconclusive,
    }
}

impl<'a> Judged<'a> {
    fn of(report: &'a Report, affected_at: f64) -> Judged<'a> {
        let mut judged = Cow::Borrowed(report);
        if report.run.options.affected_at != affected_at {
            judged.to_mut().run.options.affected_at = affected_at;
        }
        Judged { report, verdict: judge(&judged).verdict }
    }

    fn keys(&self) -> BTreeSet<Key> {
        let key = |p: &PathVerdict| Key { path: p.path, allocator: p.allocator, len: p.len };
        self.verdict.paths.iter().map(key).collect()
    }

    pub fn path(&self, key: Key) -> Option<&PathVerdict> {
        self.verdict.paths.iter().find(|p| (p.path, p.allocator, p.len) == (key.path, key.allocator, key.len))
    }

    /// A group's state; that nothing was found counts only in a whole run.
    fn state_of(&self, path: &PathVerdict) -> State {
        match path.state {
            State::Clean if !self.report.is_whole() => State::Inconclusive,
            state => state,
        }
    }

    pub fn told(&self) -> ComparedReport {
        ComparedReport {
            recorded_at: self.report.recorded_at.clone(),
            tool_version: self.report.tool.version.clone(),
            simulated: self.report.host.simulated.model().map(Into::into),
            complete: self.report.run.complete,
            state: self.verdict.state,
            recorded_state: self.report.verdict.state,
            rejudged: self.rejudged(),
        }
    }

    /// How today's verdict differs from the one in the report.
    fn rejudged(&self) -> Option<String> {
        let recorded = &self.report.verdict;
        if recorded.state != self.verdict.state {
            return Some(format!("recorded as {}, {} by today's rules", recorded.state, self.verdict.state));
        }
        let same =
            |a: &PathVerdict, b: &PathVerdict| (a.path, a.allocator, a.len) == (b.path, b.allocator, b.len);
        let differs = self.verdict.paths.iter().find(|now| {
            let then = recorded.paths.iter().find(|then| same(now, then));
            then.is_none_or(|then| now.state != then.state || places(now) != places(then))
        })?;
        Some(format!(
            "its bands of {} at {} are others by today's rules than those recorded",
            differs.path,
            length(differs.len)
        ))
    }
}

/// Where a group's deep bands lie.
fn places(path: &PathVerdict) -> Vec<(u16, u16)> {
    deep(path).map(|b| (b.from, b.to)).collect()
}

/// The bands that decide.
pub fn deep(path: &PathVerdict) -> impl Iterator<Item = &Band> {
    path.bands.iter().filter(|b| b.depth == Depth::Deep && b.confirmed)
}

/// The median of some figures, 0 if there are none.
pub fn typical(figures: impl Iterator<Item = f64>) -> f64 {
    stats::median_of(figures).unwrap_or(0.0)
}
