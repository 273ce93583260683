//! A drawing as PNG: lines by tiny-skia, letters from a font that is part of the program.

use super::PlotError;
use super::drawing::{Anchor, Drawing, Ink, Mark, Shape, Size, dashes, strokes};
use super::palette;
use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use tiny_skia::{
    Color, FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, PremultipliedColorU8, Rect, Stroke,
    StrokeDash, Transform,
};

/// Pixels to the unit.
const SCALE: f32 = 2.0;
/// Where the base line lies in a letter's box, from its top.
const BASE: f32 = 0.8;

/// The picture, in the colours of a light ground.
pub(super) fn png(drawing: &Drawing) -> Result<Vec<u8>, PlotError> {
    let [width, height] = [drawing.width, drawing.height].map(|v| (v * SCALE).ceil() as u32);
    let mut pixmap = Pixmap::new(width, height).ok_or(PlotError::Size { width, height })?;
    let [r, g, b] = palette::light(Ink::Ground);
    pixmap.fill(Color::from_rgba8(r, g, b, 255));
    drawing.marks.iter().for_each(|mark| draw(&mut pixmap, mark));
    pixmap.encode_png().map_err(|e| PlotError::Encoding(e.to_string()))
}

fn draw(pixmap: &mut Pixmap, Mark { ink, shape }: &Mark) {
    let line = |width: f32, cap: LineCap| Stroke {
        width,
        line_cap: cap,
        line_join: LineJoin::Round,
        dash: StrokeDash::new(dashes(*ink).to_vec(), 0.0),
        ..Stroke::default()
    };
    match shape {
        Shape::Block { at: [x, y], size: [w, h] } => {
            if let Some(rect) = Rect::from_xywh(*x, *y, *w, *h) {
                pixmap.fill_rect(rect, &paint(*ink), scale(), None);
            }
        }
        Shape::Rule { from, to } => stroke(pixmap, *ink, &[*from, *to], &line(1.0, LineCap::Butt)),
        Shape::Line(points) => stroke(pixmap, *ink, points, &line(1.6, LineCap::Butt)),
        Shape::Signs(points, size) if !strokes(*ink).is_empty() => {
            let stroke_of = Stroke { width: 1.4, ..Stroke::default() };
            let mut path = PathBuilder::new();
            for ([x, y], [from, to]) in points.iter().flat_map(|p| strokes(*ink).iter().map(move |s| (p, s)))
            {
                path.move_to(x + from[0] * size, y + from[1] * size);
                path.line_to(x + to[0] * size, y + to[1] * size);
            }
            if let Some(path) = path.finish() {
                pixmap.stroke_path(&path, &paint(*ink), &stroke_of, scale(), None);
            }
        }
        Shape::Signs(points, diameter) => fill(pixmap, *ink, |path| {
            points.iter().for_each(|[x, y]| path.push_circle(*x, *y, diameter / 2.0));
        }),
        Shape::Pointers(points) => fill(pixmap, *ink, |path| {
            for [x, y] in points {
                path.move_to(*x, *y);
                path.line_to(x + 4.0, y + 8.0);
                path.line_to(x - 4.0, y + 8.0);
                path.close();
            }
        }),
        Shape::Text { at, anchor, size, text } => letters(pixmap, *ink, *at, *anchor, *size, text),
    }
}

fn scale() -> Transform {
    Transform::from_scale(SCALE, SCALE)
}

fn paint(ink: Ink) -> Paint<'static> {
    let [r, g, b] = palette::light(ink);
    let mut paint = Paint::default();
    paint.set_color_rgba8(r, g, b, 255);
    paint
}

fn stroke(pixmap: &mut Pixmap, ink: Ink, points: &[[f32; 2]], stroke: &Stroke) {
    let mut path = PathBuilder::new();
    for (index, [x, y]) in points.iter().enumerate() {
        if index == 0 { path.move_to(*x, *y) } else { path.line_to(*x, *y) }
    }
    if let Some(path) = path.finish() {
        pixmap.stroke_path(&path, &paint(ink), stroke, scale(), None);
    }
}

fn fill(pixmap: &mut Pixmap, ink: Ink, outline: impl FnOnce(&mut PathBuilder)) {
    let mut path = PathBuilder::new();
    outline(&mut path);
    let path: Option<Path> = path.finish();
    if let Some(path) = path {
        pixmap.fill_path(&path, &paint(ink), FillRule::Winding, scale(), None);
    }
}

fn letters(pixmap: &mut Pixmap, ink: Ink, [x, y]: [f32; 2], anchor: Anchor, size: Size, text: &str) {
    let height = match size {
        Size::Small => RasterHeight::Size24,
        Size::Large => RasterHeight::Size32,
    };
    let advance = get_raster_width(FontWeight::Regular, height) as f32;
    let width = advance * text.chars().count() as f32;
    let left = x * SCALE
        - match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
    let top = y * SCALE - BASE * size.units() * SCALE;
    for (index, c) in text.chars().enumerate() {
        let letter = get_raster(c, FontWeight::Regular, height)
            .or_else(|| get_raster('?', FontWeight::Regular, height));
        let Some(letter) = letter else { continue };
        let left = left + advance * index as f32;
        for (row, pixels) in letter.rows().enumerate() {
            for (column, strength) in pixels.iter().enumerate() {
                blend(pixmap, ink, [left + column as f32, top + row as f32], *strength);
            }
        }
    }
}

/// Lays an ink over one pixel, as strong as 255 at most; nothing outside the picture.
fn blend(pixmap: &mut Pixmap, ink: Ink, [x, y]: [f32; 2], strength: u8) {
    let (width, height) = (pixmap.width() as f32, pixmap.height() as f32);
    if strength == 0 || !(0.0..width).contains(&x) || !(0.0..height).contains(&y) {
        return;
    }
    let index = y as usize * pixmap.width() as usize + x as usize;
    let [r, g, b] = palette::light(ink);
    let under = pixmap.pixels()[index];
    let strength = u32::from(strength);
    let mix = |over: u8, under: u8| {
        ((u32::from(over) * strength + u32::from(under) * (255 - strength)) / 255) as u8
    };
    let mixed =
        [(r, under.red()), (g, under.green()), (b, under.blue())].map(|(over, under)| mix(over, under));
    if let Some(colour) = PremultipliedColorU8::from_rgba(mixed[0], mixed[1], mixed[2], 255) {
        pixmap.pixels_mut()[index] = colour;
    }
}
