//! The same as Markdown, for a forge: nothing in a report can become markup, a link or a mention.

use super::super::markdown::escaped;
use super::super::number::{bytes, times_briefly};
use super::{
    LONGEST, axis, in_order, models, place, remark, sentence, side_in_words, spread, trend_cells, values,
};
use crate::report::{Change, ComparedBand, ComparedGroup, Comparison, State, Trend, printable};

/// A comparison as Markdown.
pub fn markdown(comparison: &Comparison) -> String {
    let verdict = format!(
        "**{}**{}{}: {}\n",
        comparison.change.word().to_uppercase(),
        if models(comparison).is_empty() { "" } else { " " },
        escaped(&models(comparison)),
        escaped(&sentence(comparison))
    );
    let sides = format!(
        "- CPU: {}\n- before: {}\n- after: {}\n",
        escaped(&printable(&comparison.cpu, 120)),
        escaped(&side_in_words(&comparison.before)),
        escaped(&side_in_words(&comparison.after))
    );
    let parts =
        [verdict, sides, groups(comparison), differences(comparison), credit(comparison), notes(comparison)];
    parts.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join("\n")
}

/// A trend as Markdown.
pub fn trend_markdown(trend: &Trend) -> String {
    let mut text =
        row(&["recorded", "state", "since before", "deep band", "slow", "changed"].map(String::from));
    text += "| --- | --- | --- | --- | --- | --- |\n";
    text.extend(trend.points.iter().map(|p| row(&trend_cells(p).map(|cell| escaped(&cell)))));
    text + "\nFrom the first to the last:\n\n" + &markdown(&trend.overall)
}

fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn groups(comparison: &Comparison) -> String {
    let mut text = String::from(
        "| path | allocator | length | change | before | after |\n| --- | --- | ---: | --- | --- | --- |\n",
    );
    for group in &comparison.groups {
        let allocator = group.allocator.map_or("-", |a| a.word());
        text += &row(&[
            group.path.word().into(),
            allocator.into(),
            bytes(group.len),
            group.change.word().into(),
            bands(&group.before.bands, group.before.state),
            bands(&group.after.bands, group.after.state),
        ]);
    }
    text
}

fn bands(bands: &[ComparedBand], state: State) -> String {
    let told = |b: &ComparedBand| {
        let [low, high] = b.slowdown_interval.map(times_briefly);
        let [least, most] = b.penalty_interval;
        let (slow, penalty) = (times_briefly(b.slowdown), b.penalty_ns_per_kib);
        escaped(&format!(
            "{} {}: {slow} ({low}-{high}), {penalty:+.0} ns/KiB ({least:.0} to {most:.0})",
            axis(b),
            place(b)
        ))
    };
    match bands {
        [] if state == State::Clean => "none".into(),
        [] => "?".into(),
        bands => bands.iter().map(told).collect::<Vec<_>>().join("; "),
    }
}

fn differences(comparison: &Comparison) -> String {
    if comparison.differences.is_empty() {
        return "What changed on the host: nothing that fsprobe records.\n".into();
    }
    let mut text = String::from("| what changed | before | after | |\n| --- | --- | --- | --- |\n");
    for difference in in_order(comparison) {
        let [before, after] = values(difference);
        let remark = remark(difference);
        let fact = printable(&difference.fact, 40);
        text += &row(&[escaped(&fact), escaped(&before), escaped(&after), escaped(remark.trim())]);
    }
    text
}

fn credit(comparison: &Comparison) -> String {
    format!("Credit: {}.\n", escaped(&printable(&comparison.credit.reason, LONGEST)))
}

fn notes(comparison: &Comparison) -> String {
    let qualifies = comparison.change != Change::CannotTell;
    let told = |g: &ComparedGroup| g.change != Change::Unaffected;
    let spread = comparison.groups.iter().any(told).then(|| spread(comparison));
    let reasons = comparison.reasons.iter().filter(|_| qualifies).cloned();
    let all = reasons.chain(spread).chain(comparison.caveats.iter().cloned());
    all.map(|note| format!("- {}.\n", escaped(&printable(&note, LONGEST)))).collect()
}
