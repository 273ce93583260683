//! The bands of a report as rows of text, for tickets of any kind.

use super::number::{bytes, gigabytes, on_circle, span, three};
use super::text::listed;
use crate::report::{Allocator, Band, PathName, PathVerdict, Report, State};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// More bands than this are counted, not listed.
const MOST: usize = 200;

/// One band of one (path, allocator, length).
pub(crate) struct Row(pub [Cow<'static, str>; 10]);

impl Row {
    /// What stands in each column.
    pub(crate) const HEADING: Row = Row([
        Cow::Borrowed("path"),
        Cow::Borrowed("allocator"),
        Cow::Borrowed("length"),
        Cow::Borrowed("band"),
        Cow::Borrowed("axis"),
        Cow::Borrowed("GB/s"),
        Cow::Borrowed("slower"),
        Cow::Borrowed("(95 %)"),
        Cow::Borrowed("ns/KiB"),
        Cow::Borrowed("(95 %)"),
    ]);
}

/// Every band, deep and mild, in the order of the verdict.
pub(crate) fn rows(report: &Report) -> Vec<Row> {
    let bands = report.verdict.paths.iter().flat_map(|p| p.bands.iter().map(move |b| row(p, b)));
    bands.take(MOST).collect()
}

fn row(path: &PathVerdict, band: &Band) -> Row {
    let unsure = if band.confirmed { "" } else { "?" };
    let interval = |ci: Option<[f64; 2]>, shown: fn(f64) -> String| {
        ci.map_or(String::new(), |[low, high]| format!("{}-{}", shown(low), shown(high)))
    };
    Row([
        path.path.word().into(),
        path.allocator.map_or("-", Allocator::word).into(),
        bytes(path.len).into(),
        format!("{}{unsure}", span(on_circle(band.from), on_circle(band.to))).into(),
        band.axis.map_or_else(|| format!("{}?", band.scan), |a| a.word().into()).into(),
        gigabytes(band.bytes_per_s).into(),
        format!("{}x", three(band.slowdown)).into(),
        interval(band.slowdown_ci95, three).into(),
        three(band.penalty_ns_per_kib).into(),
        interval(band.penalty_ci95, three).into(),
    ])
}

/// Who placed the buffers of one line.
type Owners = BTreeSet<Option<Allocator>>;

/// What was judged and has no band, a line a path; bands beyond those listed, as a number.
pub(crate) fn clean(report: &Report) -> Vec<String> {
    // lengths without a band by path, state and the allocators they were seen with
    let mut owners: BTreeMap<(PathName, State, u64), Owners> = BTreeMap::new();
    for path in report.verdict.paths.iter().filter(|p| p.bands.is_empty()) {
        owners.entry((path.path, path.state, path.len)).or_default().insert(path.allocator);
    }
    let mut lens: BTreeMap<(PathName, State, Owners), Vec<String>> = BTreeMap::new();
    for ((path, state, len), owners) in owners {
        lens.entry((path, state, owners)).or_default().push(bytes(len));
    }
    let told = lens.into_iter().map(|((path, state, owners), lens)| {
        let owners: Vec<&str> = owners.iter().flatten().map(|a| a.word()).collect();
        let with = if owners.is_empty() { String::new() } else { format!(" with {}", listed(&owners)) };
        let none = if state == State::Inconclusive || !report.is_whole() {
            "No band could be told"
        } else {
            "No band"
        };
        format!("{none}: {path}{with} at {}.", listed(&lens))
    });
    let all: usize = report.verdict.paths.iter().map(|p| p.bands.len()).sum();
    let more = all.saturating_sub(MOST);
    told.chain((more > 0).then(|| format!("{more} more bands are in the report."))).collect()
}
