//! Old reports by today's rules: judged again, with a note where the verdict recorded was another.

use super::judge;
use crate::report::{Depth, PathVerdict, Rejudged, Report, Tool, Verdict, length};

/// Judges a report again. Where its state or a deep band differs from what the report says, the report
/// keeps a note of it; a note from an earlier time stays.
pub fn again(mut report: Report) -> Report {
    let judged = judge(&report);
    let differences = differences(&report.verdict, &judged.verdict);
    if !differences.is_empty() {
        report.rejudged =
            Some(Rejudged { by: Tool::this(), recorded_state: report.verdict.state, differences });
    }
    (report.verdict, report.noise.floors) = (judged.verdict, judged.floors);
    report
}

/// What of a verdict decides anything and is another now, in words.
fn differences(recorded: &Verdict, judged: &Verdict) -> Vec<String> {
    let mut found = Vec::new();
    if recorded.state != judged.state {
        found.push(format!("the state was {} and is {}", recorded.state, judged.state));
    }
    for path in &judged.paths {
        let before = recorded.paths.iter().find(|p| key(p) == key(path));
        let (was, is) = (before.map_or(String::new(), deep), deep(path));
        if was != is {
            found.push(format!("{}: {} then, {} now", name(path), or_none(was), or_none(is)));
        }
    }
    let gone = recorded.paths.iter().filter(|p| !judged.paths.iter().any(|j| key(j) == key(p)));
    found.extend(gone.map(|path| format!("{} is not judged any more", name(path))));
    found
}

fn key(path: &PathVerdict) -> impl PartialEq {
    (path.path, path.allocator, path.len)
}

fn name(path: &PathVerdict) -> String {
    let with = path.allocator.map(|a| format!(" with {a}")).unwrap_or_default();
    format!("{}{with} at {}", path.path, length(path.len))
}

/// The confirmed deep bands of a path, in words that two verdicts can be compared by.
fn deep(path: &PathVerdict) -> String {
    let bands = path.bands.iter().filter(|b| b.depth == Depth::Deep && b.confirmed);
    let bands = bands.map(|b| {
        let axis = b.axis.map_or(b.scan.word(), |axis| axis.word());
        format!("{axis} 0x{:03x}-0x{:03x}", b.from, b.to)
    });
    bands.collect::<Vec<_>>().join(", ")
}

fn or_none(bands: String) -> String {
    if bands.is_empty() { "no deep band".into() } else { bands }
}
