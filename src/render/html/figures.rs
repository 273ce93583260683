//! The figures of each copy path: profiles, heat maps, and the same numbers as a table.

use super::tables;
use crate::render::markup::escaped;
use crate::render::number::{bytes, offset};
use crate::render::plot::panel::figure;
use crate::render::plot::profile::{Profile, Swept, profiles, swept};
use crate::render::plot::scale::Window;
use crate::render::plot::{drawing::Drawing, heat, vector};
use crate::render::terminal::matrix::{is_swept, subject};
use crate::render::terminal::plane::{axis, planes};
use crate::render::terminal::summary::{FEW, state_of};
use crate::report::{PathName, Report, State};
use std::collections::BTreeSet;

/// The figures of every path that was swept; of many, only a few affected ones stand open.
pub(super) fn figures(report: &Report) -> String {
    let paths: BTreeSet<PathName> =
        report.cells.iter().filter(|c| is_swept(report, c)).map(|c| c.path).collect();
    let many = paths.len() > FEW;
    let mut open = 0;
    let mut out = String::new();
    for path in paths {
        let affected = state_of(report, path) == Some(State::Affected);
        let body = of_path(report, path);
        if body.is_empty() {
            continue;
        }
        if !many || (affected && open < FEW) {
            open += 1;
            out += &format!("<h3 id=\"path-{path}\">{path}</h3>\n{body}");
        } else {
            let state = state_of(report, path).map(|s| format!(" ({s})")).unwrap_or_default();
            out += &format!(
                "<details>\n<summary><h3 id=\"path-{path}\">{path}{state}</h3></summary>\n{body}</details>\n"
            );
        }
    }
    out
}

fn of_path(report: &Report, path: PathName) -> String {
    let mut out = String::new();
    for (index, plane) in planes(report, path).iter().enumerate() {
        let map = heat::figure(report, plane);
        let caption = axis(report, plane.key).unwrap_or_default();
        out += &framed(&map.title, &[(format!("{path}-map-{index}"), &map)], caption);
    }
    for swept in swept(report, path) {
        out += &of_line(&swept);
    }
    out
}

fn of_line(swept: &Swept) -> String {
    let subject = subject(swept.line);
    let mut out = format!("<h4>{}</h4>\n", escaped(&subject));
    if swept.lines > 1 {
        out += &format!(
            "<p>{} was swept at {} {} offsets; shown is {}.</p>\n",
            swept.line.path,
            swept.lines,
            crate::render::plot::profile::side(crate::render::terminal::matrix::held_side(swept.line.scan)),
            offset(swept.line.held)
        );
    }
    profiles(swept).iter().for_each(|profile| out += &of_length(profile));
    out + &tables::matrices(swept)
}

/// The whole page beside a close-up.
fn of_length(profile: &Profile) -> String {
    let id = format!("{}-{}-{}", profile.line.path, profile.line.scan, profile.len);
    let windows = [Some(("whole", Window::WHOLE)), profile.close_up().map(|w| ("close", w))];
    let drawings = windows
        .into_iter()
        .flatten()
        .filter_map(|(name, window)| Some((format!("{id}-{name}"), figure(profile, window)?)));
    let drawings: Vec<(String, Drawing)> = drawings.collect();
    let drawings: Vec<(String, &Drawing)> = drawings.iter().map(|(id, d)| (id.clone(), d)).collect();
    framed(&bytes(profile.len), &drawings, "")
}

/// Drawings side by side where there is room, each in a container that scrolls where there is not.
fn framed(name: &str, drawings: &[(String, &Drawing)], caption: &str) -> String {
    if drawings.is_empty() {
        return String::new();
    }
    let parts = drawings.iter().map(|(id, drawing)| {
        format!(
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\" style=\"--grow:{}\">\n{}</div>\n",
            escaped(&drawing.title),
            drawing.width,
            vector::element(drawing, id)
        )
    });
    let caption = if caption.is_empty() { String::new() } else { format!("<br>{}", escaped(caption)) };
    format!(
        "<figure>\n<figcaption><strong>{}</strong>{caption}</figcaption>\n<div class=\"panels\">\n{}</div>\n</figure>\n",
        escaped(name),
        parts.collect::<String>()
    )
}
