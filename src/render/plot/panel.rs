//! One panel of a profile: axes, shaded bands, a line an allocator, and where it puts buffers itself.

use super::drawing::{Anchor, Drawing, Ink, Shape, width_of};
use super::profile::{Profile, Series, side};
use super::scale::{Speeds, Window};
use crate::render::number::{offset, three, times_briefly};
use crate::report::{Depth, PAGE};

/// Room around the data: left for speeds and names, above for the legend and the bands' labels.
const LEFT: f32 = 64.0;
const RIGHT: f32 = 14.0;
const TOP: f32 = 30.0;
/// The data's own height.
const DATA: f32 = 190.0;
/// A row of labels or pointers.
const ROW: f32 = 15.0;
/// Offsets this far apart are not joined by a line: what lies between them was not measured.
const JOINED: u16 = 0x10;
/// So few neighbours make no line.
const FEW: usize = 3;
/// Up to so many offsets in a window, each gets a sign of its own.
const DOTTED: u16 = 0x200;
/// The narrowest that a band is drawn.
const VISIBLE: f32 = 2.0;

/// The width of a panel of the whole page, and of a close-up.
pub(crate) const WHOLE: f32 = 640.0;
pub(crate) const CLOSE: f32 = 500.0;

/// How high a panel of this profile is.
pub(crate) fn height(profile: &Profile) -> f32 {
    top(profile) + DATA + 2.0 * ROW + 6.0 + ROW * naturals(profile).count() as f32
}

/// Room above the data: a row more for each depth of bands, whose labels stand there.
fn top(profile: &Profile) -> f32 {
    TOP + ROW * depths(profile).count() as f32
}

/// The depths that occur, mild ones first, so that a deep band inside a mild one stays visible.
fn depths(profile: &Profile) -> impl Iterator<Item = Depth> {
    let occurs = |depth: &Depth| profile.bands.iter().any(|b| b.depth == *depth);
    [Depth::Mild, Depth::Deep].into_iter().filter(occurs)
}

fn naturals(profile: &Profile) -> impl Iterator<Item = &Series> {
    profile.series.iter().filter(|s| !s.natural.is_empty())
}

/// A figure of one panel; none without samples.
pub(crate) fn figure(profile: &Profile, window: Window) -> Option<Drawing> {
    let speeds = profile.speeds()?;
    let (width, what) = match window {
        Window::WHOLE => (WHOLE, "the whole page"),
        _ => (CLOSE, "close-up"),
    };
    let title = format!("{}: throughput by page offset, {what}", profile.name());
    let mut drawing = Drawing::new(width, height(profile), title, profile.description(window));
    Panel { profile, window, speeds, at: [0.0, 0.0], width }.draw(&mut drawing);
    Some(drawing)
}

/// A panel to be drawn.
pub(crate) struct Panel<'a> {
    pub profile: &'a Profile,
    pub window: Window,
    pub speeds: Speeds,
    /// Its upper left corner.
    pub at: [f32; 2],
    pub width: f32,
}

impl Panel<'_> {
    pub fn draw(&self, drawing: &mut Drawing) {
        self.legend(drawing);
        self.bands(drawing);
        self.axes(drawing);
        self.profile.series.iter().for_each(|series| self.line(drawing, series));
        self.naturals(drawing);
    }

    fn left(&self) -> f32 {
        self.at[0] + LEFT
    }

    fn inner(&self) -> f32 {
        self.width - LEFT - RIGHT
    }

    fn top(&self) -> f32 {
        self.at[1] + top(self.profile)
    }

    fn bottom(&self) -> f32 {
        self.top() + DATA
    }

    fn x(&self, share: f32) -> f32 {
        self.left() + share * self.inner()
    }

    fn y(&self, speed: f64) -> f32 {
        self.bottom() - self.speeds.place(speed) * DATA
    }

    /// The unit of the axis, and what each line is.
    fn legend(&self, drawing: &mut Drawing) {
        let y = self.at[1] + 14.0;
        drawing.text(Ink::Muted, [self.at[0] + 4.0, y], Anchor::Start, "GB/s, log");
        let wide = |s: &Series| 40.0 + width_of(s.name);
        let mut x = self.x(1.0) - self.profile.series.iter().map(wide).sum::<f32>() + 12.0;
        for series in &self.profile.series {
            let ink = Ink::Series(series.ink);
            drawing.add(ink, Shape::Line(vec![[x, y - 4.0], [x + 23.0, y - 4.0]]));
            drawing.add(ink, Shape::Signs(vec![[x + 11.5, y - 4.0]], 5.0));
            drawing.text(ink, [x + 28.0, y], Anchor::Start, series.name);
            x += wide(series);
        }
    }

    fn bands(&self, drawing: &mut Drawing) {
        for (row, depth) in depths(self.profile).enumerate() {
            let (ink, edge) = match depth {
                Depth::Mild => (Ink::Mild, Ink::MildText),
                Depth::Deep => (Ink::Deep, Ink::DeepText),
            };
            let mut free = f32::MIN;
            let mut labels: Vec<(f32, f32, String)> = vec![];
            for band in self.profile.bands.iter().filter(|b| b.depth == depth) {
                for [from, to] in self.window.parts(band.at) {
                    let (from, to) = (self.x(from), self.x(to));
                    let width = (to - from).max(VISIBLE);
                    drawing.block(ink, [from, self.top()], [width, DATA]);
                    labels.push((from, width, format!("{} {depth}", times_briefly(band.slowdown))));
                }
            }
            labels.sort_by(|a, b| a.0.total_cmp(&b.0));
            let y = self.top() - 8.0 - ROW * row as f32;
            for (from, width, label) in labels {
                drawing.block(edge, [from, self.top() - 3.0], [width, 3.0]);
                let wide = width_of(&label);
                let least = self.left().min(self.x(1.0) - wide);
                let x = (from + (width - wide) / 2.0).clamp(least, (self.x(1.0) - wide).max(least));
                if x >= free {
                    drawing.text(edge, [x, y], Anchor::Start, label);
                    free = x + wide + 8.0;
                }
            }
        }
    }

    fn axes(&self, drawing: &mut Drawing) {
        let (left, right) = (self.left(), self.x(1.0));
        for speed in self.speeds.ticks() {
            let y = self.y(speed);
            drawing.rule(Ink::Grid, [left, y], [right, y]);
            let label = three(speed);
            let label = if label.contains('.') {
                label.trim_end_matches(['0']).trim_end_matches('.')
            } else {
                &label
            };
            drawing.text(Ink::Muted, [left - 7.0, y + 4.0], Anchor::End, label);
        }
        for at in self.window.ticks() {
            let Some(share) = self.window.place(at) else { continue };
            let x = self.x(share);
            drawing.rule(Ink::Frame, [x, self.bottom()], [x, self.bottom() + 4.0]);
            drawing.text(Ink::Muted, [x, self.bottom() + ROW + 2.0], Anchor::Middle, offset(at));
        }
        drawing.rule(Ink::Frame, [left, self.bottom()], [right, self.bottom()]);
        drawing.rule(Ink::Frame, [left, self.top()], [left, self.bottom()]);
        let mut what = format!("page offset of the {}", side(self.profile.line.scan));
        if naturals(self.profile).next().is_some() && self.window == Window::WHOLE {
            what += "; triangles: where allocators put buffers";
        }
        let y = self.at[1] + height(self.profile) - 6.0;
        drawing.text(Ink::Muted, [right, y], Anchor::End, what);
    }

    fn line(&self, drawing: &mut Drawing, series: &Series) {
        let ink = Ink::Series(series.ink);
        let mut inside: Vec<(u16, [f32; 2])> = series
            .points
            .iter()
            .filter_map(|(o, speed)| {
                let steps = (o + PAGE - self.window.from) % PAGE;
                Some((steps, [self.x(self.window.place(*o)?), self.y(*speed)]))
            })
            .collect();
        inside.sort_unstable_by_key(|(steps, _)| *steps);
        let mut alone: Vec<[f32; 2]> = vec![];
        for run in inside.chunk_by(|a, b| b.0 - a.0 <= JOINED) {
            let points: Vec<[f32; 2]> = run.iter().map(|(_, at)| *at).collect();
            if points.len() <= FEW {
                alone.extend(points);
            } else {
                drawing.add(ink, Shape::Line(thinned(points)));
            }
        }
        let close = self.window.width <= DOTTED;
        let (signs, size) =
            if close { (inside.into_iter().map(|(_, at)| at).collect(), 4.0) } else { (alone, 5.5) };
        if !signs.is_empty() {
            drawing.add(ink, Shape::Signs(signs, size));
        }
    }

    fn naturals(&self, drawing: &mut Drawing) {
        for (index, series) in naturals(self.profile).enumerate() {
            let ink = Ink::Series(series.ink);
            let y = self.bottom() + ROW + 8.0 + ROW * index as f32;
            drawing.text(ink, [self.left() - 7.0, y + 9.0], Anchor::End, series.name);
            let at = series.natural.iter().filter_map(|o| Some([self.x(self.window.place(*o)?), y]));
            let at: Vec<[f32; 2]> = at.collect();
            if !at.is_empty() {
                drawing.add(ink, Shape::Pointers(at));
            }
        }
    }
}

/// Of the points above each other in one unit's width, the lowest and the highest, in their order: what is
/// slow at a single offset stays to be seen.
fn thinned(points: Vec<[f32; 2]>) -> Vec<[f32; 2]> {
    let mut kept = Vec::new();
    for group in points.chunk_by(|a, b| a[0].floor() == b[0].floor()) {
        let by_height = |a: &(usize, &[f32; 2]), b: &(usize, &[f32; 2])| a.1[1].total_cmp(&b.1[1]);
        let low = group.iter().enumerate().min_by(by_height);
        let high = group.iter().enumerate().max_by(by_height);
        let mut ends: Vec<(usize, &[f32; 2])> = low.into_iter().chain(high).collect();
        ends.sort_unstable_by_key(|(index, _)| *index);
        ends.dedup_by_key(|(index, _)| *index);
        kept.extend(ends.into_iter().map(|(_, point)| *point));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_extremes_in_their_order() {
        let points = vec![[1.0, 5.0], [1.2, 9.0], [1.4, 2.0], [1.8, 5.0], [2.0, 5.0], [3.1, 1.0], [3.2, 1.0]];
        let kept = thinned(points);
        assert_eq!(kept, [[1.2, 9.0], [1.4, 2.0], [2.0, 5.0], [3.1, 1.0], [3.2, 1.0]]);
    }
}
