//! What the performance counters say, in a sentence.

use super::number::{offset, three};
use super::text::listed;
use crate::report::{PathName, Pmu, PmuCount, PmuEvent, Report, printable};
use std::collections::BTreeSet;

/// The sentences on performance counters; none where they were neither read nor asked for.
pub fn evidence(report: &Report) -> Option<String> {
    match &report.pmu {
        Some(pmu) => Some(told(pmu)),
        None => {
            let reason = report.host.unknown.get("pmu")?;
            Some(format!("Performance counters: unknown, {}.", printable(reason, 200)))
        }
    }
}

fn told(pmu: &Pmu) -> String {
    let cells: BTreeSet<(PathName, PmuEvent)> = pmu.counts.iter().map(|c| (c.path, c.event)).collect();
    let sentences: Vec<String> = cells.iter().map(|(path, event)| on(pmu, *path, *event)).collect();
    let left_out = [("the kernel's part", &pmu.no_kernel), ("store-to-load conflicts", &pmu.no_conflicts)];
    let left_out = left_out.into_iter().filter_map(|(what, reason)| {
        Some(format!(" Without {what}: {}.", printable(reason.as_deref()?, 200)))
    });
    format!(
        "Performance counters, events per KiB in {}: {}.{}",
        if pmu.no_kernel.is_some() { "user space" } else { "user space and kernel" },
        listed(&sentences),
        left_out.collect::<String>()
    )
}

/// One event on one path, at every distance counted.
fn on(pmu: &Pmu, path: PathName, event: PmuEvent) -> String {
    let per_kib = |count: &PmuCount| (count.user_per_byte + count.kernel_per_byte.unwrap_or(0.0)) * 1024.0;
    let counts = pmu.counts.iter().filter(|c| c.path == path && c.event == event);
    let counts: Vec<String> =
        counts.map(|c| format!("{} at distance {}", three(per_kib(c)), offset(c.distance))).collect();
    format!("{path} {} {}", event.word(), listed(&counts))
}
