//! A drawing as SVG elements: for a page whose style sheet holds the palette, or as a file of its own.

use super::drawing::{Anchor, Drawing, Ink, Mark, Shape, Size, strokes};
use super::palette;
use crate::render::markup::escaped;
use std::fmt::Write;

/// The drawing for an HTML page; `id` is unique in the page.
pub(crate) fn element(drawing: &Drawing, id: &str) -> String {
    let Drawing { width, height, title, description, marks } = drawing;
    let (title, description) = (escaped(title), escaped(description));
    let mut out = format!(
        "<svg class=\"plot\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\" viewBox=\"0 0 {width} {height}\" \
         xmlns=\"http://www.w3.org/2000/svg\">\n<title id=\"{id}-t\">{title}</title>\n<desc \
         id=\"{id}-d\">{description}</desc>\n"
    );
    marks.iter().for_each(|mark| write_mark(&mut out, mark));
    out.push_str("</svg>\n");
    out
}

/// The drawing as a file, with its own colours and ground.
pub(crate) fn document(drawing: &Drawing) -> String {
    let Drawing { width, height, .. } = drawing;
    let mut full = drawing.clone();
    let ground = Shape::Block { at: [0.0, 0.0], size: [*width, *height] };
    full.marks.insert(0, Mark { ink: Ink::Ground, shape: ground });
    let style = format!("<style>\n{}{}</style>\n", palette::css(), palette::svg_css());
    let element = element(&full, "plot");
    let sized = element.replacen("<svg ", &format!("<svg width=\"{width}\" height=\"{height}\" "), 1);
    sized.replacen("</desc>\n", &format!("</desc>\n{style}"), 1)
}

fn write_mark(out: &mut String, mark: &Mark) {
    let class = palette::name(mark.ink);
    // writing to a String cannot fail
    let _ = match &mark.shape {
        Shape::Block { at: [x, y], size: [w, h] } => {
            let [x, y, w, h] = [x, y, w, h].map(|v| short(*v));
            writeln!(out, "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"/>")
        }
        Shape::Rule { from: [x1, y1], to: [x2, y2] } => {
            let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(|v| short(*v));
            writeln!(out, "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>")
        }
        Shape::Line(points) => {
            let points: Vec<String> =
                points.iter().map(|[x, y]| format!("{},{}", short(*x), short(*y))).collect();
            writeln!(out, "<polyline class=\"{class}\" points=\"{}\"/>", points.join(" "))
        }
        Shape::Signs(points, size) if !strokes(mark.ink).is_empty() => {
            let part = |at: &[f32; 2], [from, to]: [[f32; 2]; 2]| {
                let [x, y] = [0, 1].map(|i| short(at[i] + from[i] * size));
                let [dx, dy] = [0, 1].map(|i| short((to[i] - from[i]) * size));
                format!("M{x} {y}l{dx} {dy}")
            };
            let path = points.iter().flat_map(|at| strokes(mark.ink).iter().map(move |s| part(at, *s)));
            writeln!(out, "<path class=\"{class} signs\" d=\"{}\"/>", path.collect::<String>())
        }
        Shape::Signs(points, diameter) => {
            let path: String =
                points.iter().map(|[x, y]| format!("M{} {}h0", short(*x), short(*y))).collect();
            writeln!(out, "<path class=\"{class} dots\" stroke-width=\"{}\" d=\"{path}\"/>", short(*diameter))
        }
        Shape::Pointers(points) => {
            let path: String =
                points.iter().map(|[x, y]| format!("M{} {}l4 8h-8z", short(*x), short(*y))).collect();
            writeln!(out, "<path class=\"{class} pointers\" d=\"{path}\"/>")
        }
        Shape::Text { at: [x, y], anchor, size, text } => {
            let anchor = match anchor {
                Anchor::Start => "",
                Anchor::Middle => " text-anchor=\"middle\"",
                Anchor::End => " text-anchor=\"end\"",
            };
            let large = if *size == Size::Large { " large" } else { "" };
            let [x, y] = [short(*x), short(*y)];
            writeln!(
                out,
                "<text class=\"{class}{large}\" x=\"{x}\" y=\"{y}\"{anchor}>{}</text>",
                escaped(text)
            )
        }
    };
}

/// A coordinate to a tenth of a unit.
fn short(value: f32) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}
