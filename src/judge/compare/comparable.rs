//! Which reports may be compared at all, and what to know where they may.

use crate::report::{Report, length, printable};
use std::collections::BTreeMap;

/// Why reports cannot be compared, in one line for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not comparable: {0}")]
pub struct NotComparable(pub String);

/// Refuses reports of different machines and of different ways of measuring.
pub fn check(before: &[Report], after: &[Report]) -> Result<(), NotComparable> {
    let refuse = |reason: String| Err(NotComparable(reason));
    let (Some(first), false) = (before.first(), after.is_empty()) else {
        return refuse("each side needs a report".into());
    };
    each_once(before).and_then(|()| each_once(after))?;
    for other in before.iter().chain(after).skip(1) {
        match (first.host.simulated.model(), other.host.simulated.model()) {
            (Some(model), None) | (None, Some(model)) => {
                return refuse(format!(
                    "one report was simulated ({}), another measured on a real machine",
                    printable(model, 80)
                ));
            }
            _ => {}
        }
        if let Some((one, two)) = different_cpus(first, other) {
            return refuse(format!("the reports are of different CPU models, {one} and {two}"));
        }
        let [a, b] = [first, other].map(|r| &r.run.options);
        if a.pages != b.pages {
            return refuse(format!(
                "the buffers lay on different kinds of pages (--pages {} and {}), which moves every time",
                printable(&a.pages, 20),
                printable(&b.pages, 20)
            ));
        }
        if a.first_touch != b.first_touch {
            return refuse(
                "one report holds page faults in every sample (--first-touch), another does not".into(),
            );
        }
    }
    Ok(())
}

/// Refuses one report twice on a side: it says nothing of how far runs lie apart.
fn each_once(side: &[Report]) -> Result<(), NotComparable> {
    let mut seen = BTreeMap::new();
    for report in side {
        let key = (&report.recorded_at, report.run.seed, report.cells.len());
        let known: &mut Vec<&Report> = seen.entry(key).or_default();
        if !report.cells.is_empty() && known.iter().any(|other| other.cells == report.cells) {
            return Err(NotComparable("one report stands twice on a side: name each run once".into()));
        }
        known.push(report);
    }
    Ok(())
}

/// Both CPUs, where they are not of one model. The signature holds family, model and stepping.
fn different_cpus(one: &Report, two: &Report) -> Option<(String, String)> {
    let [a, b] = [one, two].map(|r| &r.host.cpu);
    let identity = |c: &crate::report::Cpu| {
        (c.vendor.clone(), c.family, c.model, c.stepping, c.signature.to_ascii_lowercase())
    };
    let brands = a.brand.is_some() && b.brand.is_some() && a.brand != b.brand;
    (identity(a) != identity(b) || brands).then(|| (super::facts::cpu(one), super::facts::cpu(two)))
}

/// Whether a report of the earlier side is newer than one of the later side.
pub fn may_be_swapped(before: &[Report], after: &[Report]) -> bool {
    before.iter().any(|b| after.iter().any(|a| b.recorded_at > a.recorded_at))
}

/// What does not forbid a comparison and has to be said.
pub fn caveats(before: &[Report], after: &[Report], affected_at: f64) -> Vec<String> {
    let all = || before.iter().chain(after);
    let mut caveats = Vec::new();
    if all().any(|r| r.run.options.affected_at != affected_at) {
        caveats.push(format!(
            "the reports were recorded with different limits of a deep band; all are judged with the lowest, {affected_at}x"
        ));
    }
    if may_be_swapped(before, after) {
        caveats.push(
            "a report of the earlier side was recorded after one of the later side, so they may be swapped"
                .into(),
        );
    }
    if before.iter().any(|b| after.iter().any(|a| a.cells == b.cells)) {
        caveats.push("a report of each side holds the same samples".into());
    }
    for (name, side) in [("before", before), ("after", after)] {
        if side.iter().any(|r| !r.is_whole()) {
            caveats.push(format!("a run {name} was cut short: only what it had confirmed counts"));
        }
        if side.iter().any(|r| r.source.as_ref().is_some_and(|s| s.changed)) {
            caveats.push(format!("{name}, the file was written to while it was read"));
        }
    }
    let sizes = |side: &[Report]| side.iter().filter_map(|r| r.source.as_ref()).map(|s| s.size).next();
    if let (Some(a), Some(b)) = (sizes(before), sizes(after))
        && a != b
    {
        caveats.push(format!("the files read differ in size, {} and {}", length(a), length(b)));
    }
    if all().any(|r| r.host.cpu.family == 0) {
        caveats.push("a recording names no CPU: that both sides are of one is taken on trust".into());
    } else if all().next().is_some_and(Report::is_simulated) {
        caveats.push("simulated: nothing here was measured on a machine".into());
    } else {
        caveats.push("reports hold no serial numbers: that both are of one machine is taken on trust".into());
    }
    caveats
}
