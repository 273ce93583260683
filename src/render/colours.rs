//! Page colours in sentences, and their profile as a table.

use super::number::{counted, offset, three, times};
use super::text::paragraph;
use crate::report::{Colours, Level, Report, printable};

/// Distances shown of the profile: the last of each level, and what lies between.
const SHOWN: [u16; 14] =
    [0x000, 0x001, 0x008, 0x00f, 0x010, 0x018, 0x020, 0x030, 0x048, 0x068, 0x0a8, 0x0e8, 0x1a8, 0x300];

/// The paragraphs on page colours; empty where they were not measured.
pub(super) fn colours(report: &Report, width: usize) -> String {
    let Some(colours) = &report.colours else { return String::new() };
    let text: String = sentences(report).iter().map(|s| paragraph("", s, width)).collect();
    text + "\n" + &profile(colours)
}

/// The profile under a title of its own.
pub(super) fn table(colours: &Colours) -> String {
    format!("{}: time of a copy of {} B by distance\n{}", colours.path, colours.len, profile(colours))
}

/// The same without the profile, a sentence each.
pub(super) fn sentences(report: &Report) -> Vec<String> {
    let Some(colours) = &report.colours else { return vec![] };
    let told = [Some(finding(report, colours)), Some(proof(colours)), frames(report, colours)];
    told.into_iter().flatten().collect()
}

fn finding(report: &Report, colours: &Colours) -> String {
    let simulated = report.host.simulated.model();
    let simulated = simulated.map(|m| format!(" (simulated: {})", printable(m, 60))).unwrap_or_default();
    let how = format!(
        "{} of {} B between {} pages at distance {}",
        colours.path,
        colours.len,
        colours.pool,
        offset(colours.distance)
    );
    match (colours.sizes.as_slice(), colours.ratio) {
        ([] | [_], _) => format!("PAGE COLOURS: none{simulated}. {how} takes alike on every pair of pages."),
        (sizes, _) if !colours.holds() => format!(
            "PAGE COLOURS: unclear{simulated}. {how} is slow on some pairs, but the {} classes found are contradicted \
             by too many pages; a quieter machine would settle it.",
            sizes.len()
        ),
        ([most, .., least], ratio) => format!(
            "PAGE COLOURS: {}{simulated}, of {least} to {most} pages. {how} is {} slower between pages of one colour.",
            colours.sizes.len(),
            times(ratio.unwrap_or(f64::NAN))
        ),
    }
}

fn proof(colours: &Colours) -> String {
    let pages = |count: usize| counted(count as u64, "page");
    let share = three(100.0 * colours.contradicting as f64 / colours.pool.max(1) as f64);
    if colours.sizes.len() < 2 {
        let odd = pages(colours.contradicting);
        return format!("{odd} ({share} %) took part in pairs that were slow whenever they were looked at.");
    }
    let proof = &colours.proof;
    format!(
        "Measured again on fresh pairs, {} ({share} %) contradict that: {} not slow with the own colour, {} slow with \
         another as well (of {} compared with all), {} not slow with every further member.",
        pages(colours.contradicting),
        proof.unstable,
        proof.shared,
        proof.with_all,
        proof.intransitive
    )
}

/// What decides the colour, or why that is not known.
fn frames(report: &Report, colours: &Colours) -> Option<String> {
    if colours.sizes.len() < 2 {
        return None;
    }
    let (Some(masks), Some(prediction)) = (&colours.masks, colours.prediction) else {
        let reason = report.host.unknown.get("colours.masks").map_or("", String::as_str);
        return Some(format!("Which frame bits decide is unknown: {}.", printable(reason, 200)));
    };
    let masks: Vec<String> = masks.iter().take(16).map(|mask| printable(mask, 20)).collect();
    let guest = match prediction.guest_frames {
        true => {
            " These are a guest's frames: the hypervisor maps them to others, so the masks hold for this guest at best."
        }
        false => "",
    };
    Some(format!(
        "The parities of frame & mask decide the colour, for the masks {}: right for {} of {} pages held out.{guest}",
        masks.join(", "),
        prediction.right,
        prediction.held_out
    ))
}

/// Nanoseconds of one copy over distance.
pub(super) fn profile(colours: &Colours) -> String {
    let at = |levels: &[Level], distance| levels.iter().find(|l| l.distance == distance).map(|l| three(l.ns));
    let (same, other) = (&colours.profile.same, &colours.profile.other);
    let heads = if other.is_empty() { ["any pages", ""] } else { ["same colour", "other colours"] };
    let mut text = format!("{:8} {:>12} {:>14}", "distance", heads[0], heads[1]).trim_end().to_owned() + "\n";
    for distance in SHOWN {
        let Some(ns) = at(same, distance) else { continue };
        let other = at(other, distance).map(|ns| format!("{ns} ns")).unwrap_or_default();
        let line = format!("{:8} {:>12} {other:>14}", offset(distance), format!("{ns} ns"));
        text += &(line.trim_end().to_owned() + "\n");
    }
    text
}
