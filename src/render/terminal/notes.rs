//! What the numbers rest on: the noise floor, what disturbed the run, what was left out.

use super::Style;
use crate::render::number::{bytes, counted, three, times};
use crate::render::text::{listed, paragraph};
use crate::report::{Report, Skipped, printable};
use std::collections::BTreeMap;

/// More left-out things than this are counted, not told.
const MOST_SKIPPED: usize = 6;

/// The notes, one paragraph each.
pub fn notes(report: &Report, style: Style) -> String {
    sentences(report).iter().map(|text| paragraph("", text, style.width)).collect()
}

/// The notes as sentences.
pub fn sentences(report: &Report) -> Vec<String> {
    let contradictions = report.verdict.causes.iter().filter_map(|c| {
        let contradiction = c.contradiction.as_deref()?;
        Some(format!("Contradiction ({}): {}", printable(&c.layer, 20), printable(contradiction, 300)))
    });
    let skipped = report.skipped.iter().take(MOST_SKIPPED).map(left_out);
    let more = report.skipped.len().saturating_sub(MOST_SKIPPED);
    let more = (more > 0).then(|| format!("Left out: {more} more, see the report."));
    let noise = [floor(report), disturbed(report), source(report)].into_iter().flatten();
    let buffers =
        report.noise.notes.iter().take(MOST_SKIPPED).map(|n| format!("Buffers of {}.", printable(n, 200)));
    noise.chain(buffers).chain(skipped).chain(more).chain(contradictions).collect()
}

/// The smallest difference that would have been seen.
fn floor(report: &Report) -> Option<String> {
    let mut most: BTreeMap<u64, f64> = BTreeMap::new();
    for floor in &report.noise.floors {
        let known = most.entry(floor.len).or_insert(floor.floor);
        *known = known.max(floor.floor);
    }
    let most: Vec<String> = most.iter().map(|(len, f)| format!("{} at {}", times(*f), bytes(*len))).collect();
    (!most.is_empty()).then(|| {
        format!("Noise floor (smaller differences go unseen, and bands begin at 1.2x): {}.", listed(&most))
    })
}

fn disturbed(report: &Report) -> Option<String> {
    let noise = &report.noise;
    let count = |n: Option<u64>, word: &str| n.filter(|n| *n > 0).map(|n| counted(n, word));
    let steal = noise.steal_ns.filter(|ns| *ns > 0);
    let frequency = noise.frequency_khz.filter(|[before, after]| before.abs_diff(*after) > before / 20);
    let ghz = |khz: u64| three(khz as f64 / 1e6);
    let told = [
        count(noise.context_switches, "involuntary context switch"),
        count(noise.page_faults, "page fault"),
        steal.map(|ns| format!("{} s stolen by the hypervisor", three(ns as f64 / 1e9))),
        count(noise.throttled, "throttled period"),
        frequency.map(|[before, after]| format!("the clock went from {} to {} GHz", ghz(before), ghz(after))),
        count(Some(noise.lost), "lost sample"),
    ];
    let told: Vec<String> = told.into_iter().flatten().collect();
    (!told.is_empty()).then(|| format!("What disturbed the run: {}.", listed(&told)))
}

fn source(report: &Report) -> Option<String> {
    let source = report.source.as_ref()?;
    if source.changed {
        return Some("The file changed while it was read: measure again.".into());
    }
    // what was absent before was read in before anything was timed
    let evicted = source.resident_after == Some(false);
    evicted.then(|| {
        "The file left the page cache during the run: some reads may have waited for its device.".into()
    })
}

fn left_out(skipped: &Skipped) -> String {
    format!("Left out: {}", printable(&skipped.told(), 300))
}
