//! What a change may be credited to: a lone relevant change, and nothing where another could hide.

use super::facts::{COMMAND_LINE, FIRMWARE, FSPROBE, Fact, HYPERVISOR, LIBC, MICROCODE, NONE, TUNABLES};
use crate::report::{Bearing, Change, ComparedGroup, Credit, PathName};
use std::collections::BTreeSet;

/// Facts that could have changed unseen where they are unknown.
const TELLING: [&str; 6] = [MICROCODE, FIRMWARE, HYPERVISOR, COMMAND_LINE, LIBC, TUNABLES];

/// Those of them that are the CPU's own.
const OF_CPU: [&str; 3] = [MICROCODE, FIRMWARE, HYPERVISOR];

/// Decides what may be credited. `follows` names the facts whose change another's brings with it.
pub fn credit(
    change: Change,
    groups: &[ComparedGroup],
    facts: &[Fact],
    follows: &BTreeSet<String>,
) -> Credit {
    let none = |reason: String| Credit { credited: None, reason };
    let changed: BTreeSet<PathName> = groups.iter().filter(|g| g.change.is_claim()).map(|g| g.path).collect();
    if !change.is_claim() || changed.is_empty() {
        return none("no change is claimed, so none is credited".into());
    }
    let bears = |fact: &&Fact| changed.iter().any(|path| fact.bears_on.on(*path));
    let relevant: Vec<&Fact> =
        facts.iter().filter(bears).filter(|f| f.differs() && !follows.contains(&f.name)).collect();
    let spared: &[&str] = if cpu_is_the_same(groups, &changed) { &OF_CPU } else { &[] };
    let unknown: Vec<&str> = facts
        .iter()
        .filter(bears)
        .filter(|f| {
            f.is_unknown() && TELLING.contains(&f.name.as_str()) && !spared.contains(&f.name.as_str())
        })
        .map(|f| f.name.as_str())
        .collect();
    // what became unknown, or known, may have changed or not
    let (unsure, relevant): (Vec<&Fact>, Vec<&Fact>) = relevant.into_iter().partition(|f| f.is_unknown());
    let mut unknown = unknown;
    unknown.extend(unsure.iter().map(|f| f.name.as_str()).filter(|name| !spared.contains(name)));
    unknown.sort_unstable();
    unknown.dedup();
    match relevant.as_slice() {
        [] if unknown.is_empty() => none("nothing that fsprobe knows to bear on it changed".into()),
        [] => none(format!("nothing relevant that is known changed, but unknown: {}", unknown.join(", "))),
        [one] => lone(one, facts, &unknown),
        several => {
            let names: Vec<&str> = several.iter().map(|f| f.name.as_str()).collect();
            none(format!(
                "several relevant facts changed ({}): none of them is credited alone",
                names.join(", ")
            ))
        }
    }
}

/// Whether `rep movsb` itself, measured on both sides, did not change: then what did is not the CPU.
fn cpu_is_the_same(groups: &[ComparedGroup], changed: &BTreeSet<PathName>) -> bool {
    let same = |g: &ComparedGroup| matches!(g.change, Change::NotFixed | Change::Unaffected);
    let mut bare = groups.iter().filter(|g| g.path == PathName::RepMovsb).peekable();
    bare.peek().is_some() && !changed.contains(&PathName::RepMovsb) && bare.all(same)
}

fn lone(fact: &Fact, facts: &[Fact], unknown: &[&str]) -> Credit {
    let none = |reason: String| Credit { credited: None, reason };
    let name = fact.name.as_str();
    if fact.before.len() > 1 || fact.after.len() > 1 {
        return none(format!("{name} is not the same in all reports of one side"));
    }
    let value = |side: &BTreeSet<Option<String>>| side.iter().flatten().next().cloned().unwrap_or_default();
    let step = format!("{name} {} → {}", value(&fact.before), value(&fact.after));
    if name == FSPROBE {
        return none(format!("{step} is the only relevant change: it may be the measurement that changed"));
    }
    if name == MICROCODE && [&fact.before, &fact.after].iter().any(|side| value(side).contains(',')) {
        return none(format!("{step}: the CPUs of one machine differ, and which ran is not known"));
    }
    let virtualised = facts
        .iter()
        .filter(|f| f.name == HYPERVISOR)
        .any(|f| f.before.iter().chain(&f.after).any(|v| v.as_deref() != Some(NONE)));
    if [MICROCODE, FIRMWARE].contains(&name) && virtualised {
        return none(format!("{step} is what a hypervisor shows: it is never credited alone"));
    }
    if !unknown.is_empty() {
        return none(format!(
            "{step} is the only relevant change that is known, but it is not credited alone, since unknown: {}",
            unknown.join(", ")
        ));
    }
    let over = if fact.bears_on == Bearing::Every { "" } else { " for these paths" };
    Credit { credited: Some(name.into()), reason: format!("{step} is the only relevant change{over}") }
}
