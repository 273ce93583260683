//! Did it change? Reports of one machine before and after, told apart by their deep bands alone.
//!
//! Every report is judged again first. A change is claimed only where it exceeds the spread between runs; a deep
//! band that is still there within that spread is *not fixed*; everything between is *cannot tell*.

mod comparable;
mod credit;
mod facts;
mod group;
mod map;
mod side;
mod spread;
mod trend;

pub use comparable::{NotComparable, may_be_swapped};
pub use trend::trend;

use super::series::Key;
use crate::report::{Change, ComparedGroup, Comparison, Report, State};
use side::Side;
use std::collections::BTreeSet;

/// Compares the reports of an earlier side with those of a later one.
///
/// # Errors
/// Where they are not comparable, with the reason.
pub fn compare(before: &[Report], after: &[Report]) -> Result<Comparison, NotComparable> {
    comparable::check(before, after)?;
    // the lowest limit: a higher one would call slow offsets unaffected
    let limits = before.iter().chain(after).map(|r| r.run.options.affected_at);
    let affected_at = limits.fold(f64::INFINITY, f64::min);
    let [earlier, later] = [before, after].map(|reports| Side::of(reports, affected_at));
    let keys = common(&earlier, &later)?;
    let spread = spread::between_runs([&earlier, &later]);
    let mut groups: Vec<ComparedGroup> =
        keys.iter().map(|key| group::compare(*key, &earlier, &later, spread)).collect();
    group::doubt_long_lengths(&mut groups);
    let mut change = overall(&earlier, &later, &groups);
    let mut reasons = reasons(&earlier, &later, &groups);
    let untold = [(&earlier, "before", "after"), (&later, "after", "before")]
        .into_iter()
        .find_map(|(side, here, there)| Some((uncompared_band(side, &keys)?, here, there)));
    if let (Change::Unaffected | Change::Fixed, Some((key, here, there))) = (change, untold) {
        change = Change::CannotTell;
        reasons.push(format!("{} was slow {here}, and was not measured {there}", shown(&key)));
    }
    let facts = facts::facts(before, after);
    let differences = facts::differences(&facts);
    let follows = differences.iter().filter(|d| d.follows.is_some()).map(|d| d.fact.clone()).collect();
    let mut caveats = comparable::caveats(before, after, affected_at);
    caveats.extend(uncompared(&earlier, &later, &keys));
    Ok(Comparison {
        change,
        reasons,
        cpu: facts::cpu(&after[0]),
        before: earlier.told(),
        after: later.told(),
        credit: credit::credit(change, &groups, &facts, &follows),
        groups,
        spread,
        differences,
        caveats,
    })
}

/// The groups that both sides measured.
fn common(before: &Side<'_>, after: &Side<'_>) -> Result<Vec<Key>, NotComparable> {
    let keys: Vec<Key> = before.keys.intersection(&after.keys).copied().collect();
    if keys.is_empty() {
        let told = |side: &Side<'_>| {
            let groups: Vec<String> = side.keys.iter().take(4).map(shown).collect();
            match groups.is_empty() {
                true => "no page offsets at all".into(),
                false if side.keys.len() > 4 => format!("{}, …", groups.join(", ")),
                false => groups.join(", "),
            }
        };
        return Err(NotComparable(format!(
            "the reports have no copy path, allocator and length in common: before there are {}; after there are {}",
            told(before),
            told(after)
        )));
    }
    Ok(keys)
}

/// `read into glibc at 64 KiB`.
pub(super) fn shown(key: &Key) -> String {
    let allocator = key.allocator.map(|a| format!(" with {a}")).unwrap_or_default();
    format!("{}{allocator} at {}", key.path, crate::report::length(key.len))
}

/// The answer over all groups. What a group cannot tell takes a claimed improvement away, never the finding that a
/// band is still there or new.
fn overall(before: &Side<'_>, after: &Side<'_>, groups: &[ComparedGroup]) -> Change {
    let any = |change: Change| groups.iter().any(|g| g.change == change);
    let improved = any(Change::Fixed) || any(Change::PartlyFixed);
    let doubt = any(Change::CannotTell);
    if before.state == State::Inconclusive || after.state == State::Inconclusive {
        return Change::CannotTell;
    }
    match () {
        () if any(Change::Regressed) => Change::Regressed,
        () if improved && doubt => Change::CannotTell,
        () if improved && (any(Change::PartlyFixed) || any(Change::NotFixed)) => Change::PartlyFixed,
        () if improved => Change::Fixed,
        () if any(Change::NotFixed) => Change::NotFixed,
        () if doubt => Change::CannotTell,
        () => Change::Unaffected,
    }
}

/// Why a side or a group cannot be told, each reason once.
fn reasons(before: &Side<'_>, after: &Side<'_>, groups: &[ComparedGroup]) -> Vec<String> {
    let mut reasons = Vec::new();
    for (name, side) in [("before", before), ("after", after)] {
        if let Some(reason) = side.doubt() {
            reasons.push(format!("{name} is inconclusive: {reason}"));
        }
    }
    let mut seen = BTreeSet::new();
    for group in groups {
        let Some(reason) = &group.reason else { continue };
        if seen.insert(reason.clone()) {
            let key = Key { path: group.path, allocator: group.allocator, len: group.len };
            reasons.push(format!("{}: {reason}", shown(&key)));
        }
    }
    reasons
}

/// A group with a deep band that could not be compared, of a path of which no such group was: then nothing tells what
/// became of it.
fn uncompared_band(side: &Side<'_>, compared: &[Key]) -> Option<Key> {
    let slow =
        side.reports.iter().flat_map(|r| r.verdict.paths.iter()).filter(|p| p.state == State::Affected);
    let slow: BTreeSet<Key> =
        slow.map(|p| Key { path: p.path, allocator: p.allocator, len: p.len }).collect();
    let is_told = |key: &Key| slow.iter().any(|other| other.path == key.path && compared.contains(other));
    slow.iter().find(|key| !is_told(key)).copied()
}

/// Groups that one side alone measured.
fn uncompared(before: &Side<'_>, after: &Side<'_>, keys: &[Key]) -> Option<String> {
    let all: BTreeSet<&Key> = before.keys.union(&after.keys).collect();
    let alone: Vec<String> = all.into_iter().filter(|k| !keys.contains(k)).map(shown).collect();
    let more = if alone.len() > 3 { format!(" and {} more", alone.len() - 3) } else { String::new() };
    (!alone.is_empty()).then(|| {
        let first: Vec<&str> = alone.iter().take(3).map(String::as_str).collect();
        format!("measured on one side only, and left out: {}{more}", first.join(", "))
    })
}
