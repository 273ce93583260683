//! The heat map of a sweep over both sides: destinations down, sources across.

use super::drawing::{Anchor, Drawing, Ink};
use crate::render::number::{offset, times_briefly};
use crate::render::terminal::plane::{Plane, axis, bins, steps, title};
use crate::report::Report;

/// The most rows and columns.
const MOST: usize = 128;
/// The room that the map's longer side takes, and the widest a spot may be.
const SIDE: f32 = 512.0;
const WIDEST: f32 = 24.0;
/// Room for the offsets at the left and above.
const LEFT: f32 = 64.0;
const TOP: f32 = 44.0;
/// The least room from one label to the next.
const APART: f32 = 52.0;
/// The legend: steps beside each other, each as wide, and its rows.
const ABREAST: usize = 4;
const STEP: f32 = 130.0;
const ROW: f32 = 22.0;

/// The map as a figure.
pub(crate) fn figure(report: &Report, plane: &Plane) -> Drawing {
    let (rows, columns) = (bins(&plane.dst, MOST), bins(&plane.src, MOST));
    let spot = (SIDE / rows.len().max(columns.len()) as f32).min(WIDEST);
    let [across, down] = [columns.len(), rows.len()].map(|n| n as f32 * spot);
    let width = (LEFT + across + 14.0).max(LEFT + ABREAST as f32 * STEP);
    let height = TOP + down + 14.0 + 2.0 * ROW;
    let condensed = rows.len() < plane.dst.len() || columns.len() < plane.src.len();
    let mut description = axis(report, plane.key).unwrap_or("What decides is not told.").to_owned();
    if condensed {
        description += " Each spot shows the slowest of the offsets up to the next.";
    }
    let mut drawing = Drawing::new(width, height, title(plane.key), description);
    labels(&mut drawing, &rows, &columns, spot);
    let step = |factor: f64| steps().iter().rposition(|from| factor >= *from).unwrap_or(0);
    for (y, row) in rows.iter().enumerate() {
        let steps: Vec<Option<usize>> =
            columns.iter().map(|column| plane.slowest(row, column).map(step)).collect();
        let mut x = 0;
        for run in steps.chunk_by(|a, b| a == b) {
            if let Some(step) = run[0] {
                let at = [LEFT + x as f32 * spot, TOP + y as f32 * spot];
                drawing.block(Ink::Heat(step), at, [run.len() as f32 * spot, spot]);
            }
            x += run.len();
        }
    }
    legend(&mut drawing, TOP + down + 14.0);
    drawing
}

fn labels(drawing: &mut Drawing, rows: &[&[u16]], columns: &[&[u16]], spot: f32) {
    drawing.text(Ink::Muted, [LEFT, 14.0], Anchor::Start, "page offset of the source");
    drawing.text(Ink::Muted, [LEFT - 8.0, 14.0], Anchor::End, "dst \\ src");
    let every = (APART / spot).ceil().max(1.0) as usize;
    // sixteens read best in hexadecimal, where every offset has its column
    let every = every.next_power_of_two();
    for (index, column) in columns.iter().enumerate().step_by(every) {
        let x = LEFT + (index as f32 + 0.5) * spot;
        drawing.rule(Ink::Frame, [x, TOP - 6.0], [x, TOP - 2.0]);
        drawing.text(Ink::Muted, [x, TOP - 10.0], Anchor::Middle, offset(column[0]));
    }
    for (index, row) in rows.iter().enumerate().step_by(every) {
        let y = TOP + (index as f32 + 0.5) * spot;
        drawing.rule(Ink::Frame, [LEFT - 6.0, y], [LEFT - 2.0, y]);
        drawing.text(Ink::Muted, [LEFT - 8.0, y + 4.0], Anchor::End, offset(row[0]));
    }
}

fn legend(drawing: &mut Drawing, top: f32) {
    let steps = steps();
    for (index, from) in steps.iter().enumerate() {
        let text = match index {
            0 => format!("below {}", times_briefly(steps[1])),
            _ => format!("from {}", times_briefly(*from)),
        };
        let (x, y) = (LEFT + (index % ABREAST) as f32 * STEP, top + (index / ABREAST) as f32 * ROW);
        drawing.block(Ink::Frame, [x - 1.0, y - 1.0], [18.0, 16.0]);
        drawing.block(Ink::Heat(index), [x, y], [16.0, 14.0]);
        drawing.text(Ink::Text, [x + 24.0, y + 11.0], Anchor::Start, text);
    }
}
