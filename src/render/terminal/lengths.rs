//! What a search for lengths found: the windows in which a band exists, beside the C library's thresholds.

use super::Style;
use crate::render::number::{bytes, counted, times};
use crate::render::text::{listed, paragraph};
use crate::report::{PathName, Phase, Report, Window};
use std::collections::{BTreeMap, BTreeSet};

/// The paragraphs; nothing where no lengths were searched for.
pub fn lengths(report: &Report, style: Style) -> String {
    sentences(report).iter().map(|text| paragraph("", text, style.width)).collect()
}

/// One sentence a path, and the C library's thresholds last.
pub fn sentences(report: &Report) -> Vec<String> {
    let mut probed: BTreeMap<PathName, BTreeSet<u64>> = BTreeMap::new();
    let searched = |run: usize| report.runs.get(run).is_some_and(|run| run.phase == Phase::Lengths);
    for cell in report.cells.iter().filter(|c| searched(c.run)) {
        probed.entry(cell.path).or_default().insert(cell.len);
    }
    let last = (!probed.is_empty()).then(|| thresholds(report));
    probed.iter().map(|(path, lens)| of_path(report, *path, lens)).chain(last).collect()
}

fn of_path(report: &Report, path: PathName, lens: &BTreeSet<u64>) -> String {
    let windows: Vec<String> = report.verdict.windows.iter().filter(|w| w.path == path).map(window).collect();
    let (first, last) = (lens.first().copied().unwrap_or(0), lens.last().copied().unwrap_or(0));
    let least = times(report.run.options.affected_at);
    let looked = counted(lens.len() as u64, "length");
    match windows.is_empty() {
        true => format!(
            "{path}: no length from {} to {} shows a band of {least} and more at distances 0x001-0x00f ({looked} \
             sampled).",
            bytes(first),
            bytes(last)
        ),
        false => format!(
            "{path}: a band of {least} and more at distances 0x001-0x00f exists {} ({looked} sampled).",
            listed(&windows)
        ),
    }
}

/// The lengths between which a search looked, for a sentence.
pub(super) fn sampled(report: &Report) -> String {
    let lens = || report.cells.iter().map(|cell| cell.len);
    let [first, last] = [lens().min(), lens().max()].map(Option::unwrap_or_default);
    format!("{} to {}", bytes(first), bytes(last))
}

/// At which lengths a band exists, of every path, for a sentence.
pub(crate) fn windows(report: &Report) -> String {
    let told: Vec<String> =
        report.verdict.windows.iter().map(|w| format!("{} {}", w.path, window(w))).collect();
    listed(&told)
}

fn window(window: &Window) -> String {
    let [from, to] = [window.from_len, window.to_len];
    match (window.from_open, window.to_open) {
        (false, false) => format!("from {from} to {to} B"),
        (true, false) => format!("up to {to} B"),
        (false, true) => format!("from {from} B up to at least {to} B"),
        (true, true) => format!("at every length sampled, {from} to {to} B"),
    }
}

/// What the loader reports, to compare with.
fn thresholds(report: &Report) -> String {
    let libc = &report.host.libc;
    match (libc.rep_movsb_threshold, libc.rep_movsb_stop_threshold) {
        _ if libc.erms_switched_off() => {
            "memcpy never uses rep movsb here: GLIBC_TUNABLES takes ERMS away.".into()
        }
        (Some(after), Some(stop)) if stop > after.saturating_add(1) => format!(
            "The C library's own thresholds (from its loader): memcpy uses rep movsb from {} to {} B.",
            after.saturating_add(1),
            stop - 1
        ),
        (Some(after), Some(stop)) => format!(
            "The C library's own thresholds (from its loader): memcpy never uses rep movsb (above {after} B, below \
             {stop} B)."
        ),
        _ => "The C library's own thresholds are unknown.".into(),
    }
}
