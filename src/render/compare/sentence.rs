//! The answer in a sentence or two.

use super::super::number::{bytes, on_circle, penalty, span, times};
use super::super::text::listed;
use super::{LONGEST, axis};
use crate::report::{Change, ComparedBand, ComparedGroup, Comparison, PAGE, printable};
use std::collections::BTreeSet;

/// The sentence after the word, without a model's name.
pub fn sentence(comparison: &Comparison) -> String {
    let of = |changes: &[Change]| -> Vec<&ComparedGroup> {
        comparison.groups.iter().filter(|g| changes.contains(&g.change)).collect()
    };
    match comparison.change {
        Change::Unaffected => "no deep band before, and none after.".into(),
        Change::Fixed => {
            let groups = of(&[Change::Fixed]);
            format!("{} no longer slow. {}.", subject(&groups), was(&groups))
        }
        Change::PartlyFixed => {
            let [fixed, partly, not] =
                [Change::Fixed, Change::PartlyFixed, Change::NotFixed].map(|change| of(&[change]));
            let told = [
                (&fixed, "no longer slow".to_owned()),
                (&partly, format!("{} than before", less(&partly))),
                (&not, "as slow as before".into()),
            ];
            let told: Vec<String> = told
                .into_iter()
                .filter(|(groups, _)| !groups.is_empty())
                .map(|(groups, how)| format!("{} {how}", subject(groups)))
                .collect();
            let example = if partly.is_empty() { &fixed } else { &partly };
            format!("{}. {}.", told.join("; "), was(example))
        }
        Change::NotFixed => {
            let groups = of(&[Change::NotFixed]);
            format!("{} as slow as before. {}.", subject(&groups), was(&groups))
        }
        Change::Regressed => {
            let groups = of(&[Change::Regressed]);
            format!("{} slow as not before, or not as much. {}.", subject(&groups), was(&groups))
        }
        Change::CannotTell => {
            let reasons: Vec<String> =
                comparison.reasons.iter().take(3).map(|r| printable(r, LONGEST)).collect();
            format!("{}.", reasons.join("; "))
        }
    }
}

/// In what way groups are less affected: over fewer offsets, by less, or both.
fn less(groups: &[&ComparedGroup]) -> &'static str {
    let sum = |bands: &[ComparedBand], of: &dyn Fn(&ComparedBand) -> f64| bands.iter().map(of).sum::<f64>();
    let width = |b: &ComparedBand| f64::from(b.to.wrapping_sub(b.from) % PAGE + 1);
    let deepest = |bands: &[ComparedBand]| bands.iter().map(|b| b.slowdown - 1.0).fold(0.0, f64::max);
    let is_narrower = |g: &&ComparedGroup| sum(&g.after.bands, &width) < sum(&g.before.bands, &width);
    let is_milder = |g: &&ComparedGroup| deepest(&g.after.bands) < deepest(&g.before.bands) / 2.0;
    match (groups.iter().any(is_narrower), groups.iter().any(is_milder)) {
        (true, false) => "slow at fewer page offsets",
        (true, true) => "less slow, and at fewer page offsets,",
        (false, _) => "less slow",
    }
}

/// `read and write are`.
fn subject(groups: &[&ComparedGroup]) -> String {
    let paths: BTreeSet<&str> = groups.iter().map(|g| g.path.word()).collect();
    let paths: Vec<&str> = paths.into_iter().collect();
    format!("{} {}", listed(&paths), if paths.len() == 1 { "is" } else { "are" })
}

/// The group told of as an example: at the length of the cleanest signal, else the longest.
fn example<'a>(groups: &[&'a ComparedGroup]) -> Option<&'a ComparedGroup> {
    let fine = groups.iter().find(|g| g.len == 64 << 10);
    fine.or(groups.iter().max_by_key(|g| g.len)).copied()
}

/// `read at 64 KiB: distance 0x001-0x00f, 7.2x slower, before; no deep band after`.
fn was(groups: &[&ComparedGroup]) -> String {
    let Some(group) = example(groups) else { return String::new() };
    let bands = |bands: &[ComparedBand]| match bands {
        [] => "no deep band".to_owned(),
        [one] => told(one),
        bands => {
            let deepest = bands.iter().max_by(|a, b| a.slowdown.total_cmp(&b.slowdown));
            format!("{} and {} more", deepest.map(told).unwrap_or_default(), bands.len() - 1)
        }
    };
    format!(
        "{} at {}: {} before; {} after",
        group.path,
        bytes(group.len),
        bands(&group.before.bands),
        bands(&group.after.bands)
    )
}

fn told(band: &ComparedBand) -> String {
    format!(
        "{} {} ({} slower, {} ns per KiB)",
        axis(band),
        span(on_circle(band.from), on_circle(band.to)),
        times(band.slowdown),
        penalty(band.penalty_ns_per_kib)
    )
}
