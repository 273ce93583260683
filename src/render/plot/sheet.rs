//! The plot as a file of its own: the most telling copy path, a row of two panels for each length.

use super::drawing::{Anchor, Drawing, Ink};
use super::panel::{self, CLOSE, Panel, WHOLE};
use super::profile::{Profile, Swept, profiles, swept};
use super::scale::Window;
use crate::render::facts::headword;
use crate::render::number::{bytes, counted};
use crate::render::terminal::matrix::{is_swept, subject};
use crate::render::terminal::summary::{deepest, state_of};
use crate::report::{PathName, Report, printable};
use std::collections::BTreeSet;

/// More lengths than this are left out: a plot is to be taken in at once.
const MOST: usize = 6;
/// Room above the rows, and above each row for its length.
const HEAD: f32 = 62.0;
const LENGTH: f32 = 24.0;
/// Room between a sheet's edge and what is on it.
const MARGIN: f32 = 14.0;

/// The sheet; where nothing was swept, one that says so.
pub(crate) fn sheet(report: &Report) -> Drawing {
    let swept = telling(report).and_then(|path| swept(report, path).into_iter().next());
    let mut profiles = swept.as_ref().map(profiles).unwrap_or_default();
    let left = profiles.len().saturating_sub(MOST);
    profiles.truncate(MOST);
    let rows: f32 = profiles.iter().map(|p| LENGTH + panel::height(p)).sum();
    let width = 2.0 * MARGIN + WHOLE + CLOSE;
    let height = HEAD + rows + 2.0 * MARGIN + if left > 0 { LENGTH } else { 0.0 };
    let (title, state) = (title(swept.as_ref()), state(report));
    let described = profiles.iter().map(|p| format!(" {}: {}", p.name(), p.description(Window::WHOLE)));
    let description = state.clone() + &described.collect::<String>();
    let mut drawing = Drawing::new(width, height, title.clone(), description);
    drawing.heading([MARGIN, 28.0], title);
    drawing.text(Ink::Text, [MARGIN, 50.0], Anchor::Start, state);
    let mut y = HEAD;
    for profile in &profiles {
        drawing.heading([MARGIN, y + 18.0], bytes(profile.len));
        row(&mut drawing, profile, y + LENGTH);
        y += LENGTH + panel::height(profile);
    }
    if left > 0 {
        let more = format!("{} left out", counted(left as u64, "more length"));
        drawing.text(Ink::Muted, [MARGIN, y + 18.0], Anchor::Start, more);
    }
    drawing
}

fn row(drawing: &mut Drawing, profile: &Profile, y: f32) {
    let Some(speeds) = profile.speeds() else { return };
    let whole = Panel { profile, window: Window::WHOLE, speeds, at: [MARGIN, y], width: WHOLE };
    whole.draw(drawing);
    if let Some(window) = profile.close_up() {
        Panel { profile, window, speeds, at: [MARGIN + WHOLE, y], width: CLOSE }.draw(drawing);
    }
}

/// The path whose profile tells most: the one with the slowest confirmed band, else the worst state, else the first.
fn telling(report: &Report) -> Option<PathName> {
    let swept: BTreeSet<PathName> =
        report.cells.iter().filter(|c| is_swept(report, c)).map(|c| c.path).collect();
    let rank = |path: PathName| {
        let deepest = deepest(report, path).map_or((false, 0.0), |(_, b)| (b.confirmed, b.slowdown));
        (deepest, state_of(report, path))
    };
    swept.into_iter().rev().max_by(|a, b| {
        let ((a, a_state), (b, b_state)) = (rank(*a), rank(*b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a_state.cmp(&b_state))
    })
}

fn title(swept: Option<&Swept>) -> String {
    swept.map_or("No page offsets were swept".into(), |s| subject(s.line))
}

/// The verdict in a word, and of what.
fn state(report: &Report) -> String {
    let cpu = &report.host.cpu;
    let word = headword(report);
    let name = cpu.brand.as_deref().or(cpu.microarchitecture.as_deref()).unwrap_or("unknown CPU");
    let name = printable(name, 60);
    match report.host.simulated.model() {
        Some(model) => {
            format!(
                "{word} (SIMULATED: {} - not measured on this machine); stands for {name}",
                printable(model, 40)
            )
        }
        None => format!("{word}; {name}, {}", printable(&report.recorded_at, 30)),
    }
}
