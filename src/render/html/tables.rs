//! The tables: bands, throughput by page offset, causes. Each scrolls in its own container.

use crate::render::markup::escaped;
use crate::render::number::{bytes, gigabytes, offset, on_circle, span, three, times};
use crate::render::plot::profile::Swept;
use crate::render::terminal::column::Column;
use crate::render::terminal::matrix::{Value, cells, natural_places, order, owner, subject};
use crate::report::{Band, Depth, PathVerdict, Report, State};

/// A column's heading, and whether numbers stand under it.
pub(in crate::render) struct Head {
    name: String,
    number: bool,
}

impl Head {
    pub fn text(name: &str) -> Head {
        Head { name: name.into(), number: false }
    }

    pub fn number(name: &str) -> Head {
        Head { name: name.into(), number: true }
    }
}

/// A table with a caption whose first column names the rows; cells are markup already.
pub(in crate::render) fn scrolling(id: &str, caption: &str, heads: &[Head], rows: &[Vec<String>]) -> String {
    let class =
        |index: usize| if heads.get(index).is_some_and(|h| h.number) { " class=\"number\"" } else { "" };
    let head: String = heads
        .iter()
        .enumerate()
        .map(|(i, h)| format!("<th scope=\"col\"{}>{}</th>", class(i), escaped(&h.name)))
        .collect();
    let row = |cells: &Vec<String>| {
        let cell = |(index, text): (usize, &String)| match index {
            0 => format!("<th scope=\"row\">{text}</th>"),
            _ => format!("<td{}>{text}</td>", class(index)),
        };
        format!("<tr>{}</tr>\n", cells.iter().enumerate().map(cell).collect::<String>())
    };
    format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-labelledby=\"{id}-c\">\n<table>\n<caption \
         id=\"{id}-c\"><span>{}</span></caption>\n<thead>\n<tr>{head}</tr>\n</thead>\n<tbody>\n{}</tbody>\n</table>\n</div>\n",
        escaped(caption),
        rows.iter().map(row).collect::<String>()
    )
}

/// A row a band, and one for each that has none.
pub(super) fn bands(report: &Report) -> String {
    let heads = [
        Head::text("copy"),
        Head::text("state"),
        Head::number("GB/s elsewhere"),
        Head::text("band"),
        Head::text("depth"),
        Head::number("times slower"),
        Head::number("GB/s inside"),
        Head::number("more ns per KiB"),
    ];
    let rows: Vec<Vec<String>> = report.verdict.paths.iter().flat_map(of_verdict).collect();
    match rows.is_empty() {
        true => String::new(),
        false => scrolling(
            "bands",
            "Every band found, in brackets the 95 % interval; ranges of single samples are 10th to 90th percentile",
            &heads,
            &rows,
        ),
    }
}

fn of_verdict(verdict: &PathVerdict) -> Vec<Vec<String>> {
    let owner = verdict.allocator.map(|a| format!(", {a}")).unwrap_or_default();
    let name = format!("{}{owner}, {}", verdict.path, bytes(verdict.len));
    let first = [name, state(verdict.state), gigabytes(verdict.baseline_bytes_per_s)];
    if verdict.bands.is_empty() {
        let rest = ["none", "", "", "", ""].map(String::from);
        return vec![first.into_iter().chain(rest).collect()];
    }
    verdict.bands.iter().map(|band| first.iter().cloned().chain(of_band(band)).collect()).collect()
}

fn of_band(band: &Band) -> [String; 5] {
    let axis = band.axis.map_or_else(|| format!("{} (axis unknown)", band.scan), |a| a.to_string());
    let edges =
        [("first", band.from_range), ("last", band.to_range)].into_iter().filter_map(|(name, range)| {
            let [low, high] = range.filter(|[low, high]| low != high)?.map(on_circle);
            Some(format!("<br><small>{name} {} to {}</small>", offset(low), offset(high)))
        });
    let place =
        format!("{axis} {}{}", span(on_circle(band.from), on_circle(band.to)), edges.collect::<String>());
    let interval = |ci: Option<[f64; 2]>, form: fn(f64) -> String| {
        ci.map(|[low, high]| format!("<br><small>[{} to {}]</small>", form(low), form(high)))
            .unwrap_or_default()
    };
    let doubt = if band.confirmed { "" } else { "<br><small>not confirmed by fresh rounds</small>" };
    let spread = band
        .spread
        .map(|[low, high]| format!("<br><small>single samples {} to {}</small>", times(low), times(high)));
    [
        place,
        marked(band.depth, band.depth.word()) + doubt,
        format!(
            "{}{}{}",
            times(band.slowdown),
            interval(band.slowdown_ci95, times),
            spread.unwrap_or_default()
        ),
        gigabytes(band.bytes_per_s),
        format!("{}{}", three(band.penalty_ns_per_kib), interval(band.penalty_ci95, three)),
    ]
}

fn state(state: State) -> String {
    format!("<span class=\"tag {state}\">{state}</span>")
}

fn marked(depth: Depth, text: &str) -> String {
    format!("<span class=\"tag {depth}\">{}</span>", escaped(text))
}

/// Throughput by page offset, as the terminal has it, long and short copies apart; opens on demand, since
/// the figures come first.
pub(super) fn matrices(swept: &Swept) -> String {
    let alike = swept.columns.chunk_by(|a, b| order(a).0 == order(b).0);
    let tables: String = alike.enumerate().map(|(index, columns)| matrix(swept, columns, index)).collect();
    if tables.is_empty() {
        return tables;
    }
    format!(
        "<details>\n<summary>The same as a table</summary>\n{tables}<p><small>! deep band, that many times slower; ~ \
         mild band; ? seems slow, not confirmed; natural: where the allocator itself puts buffers; *: multiples of 0x20 only, left out of the row \
         above; \u{b7}: not measured</small></p>\n</details>\n"
    )
}

fn matrix(swept: &Swept, columns: &[Column], index: usize) -> String {
    let (labels, rows) = cells(columns);
    if labels.is_empty() {
        return String::new();
    }
    let heads: Vec<Head> = std::iter::once(Head::text(&format!("{} offset", swept.line.scan)))
        .chain(columns.iter().map(|c| Head::number(&format!("{} {}", owner(c), bytes(c.len)))))
        .collect();
    let rows: Vec<Vec<String>> = labels
        .iter()
        .zip(rows)
        .map(|(label, values)| {
            let is_natural = label == "natural";
            let value = |(value, column): (Value, &Column)| {
                let Value { throughput, mark, depth } = value;
                let mark = match depth {
                    Some(depth) => format!(" {}", marked(depth, &mark)),
                    None => format!(" {mark}"),
                };
                let at = if is_natural { natural_places(column) } else { String::new() };
                format!("{} {at}", format!("{throughput}{mark}").trim_end()).trim_end().to_owned()
            };
            std::iter::once(label.clone()).chain(values.into_iter().zip(columns).map(value)).collect()
        })
        .collect();
    let id = format!("matrix-{}-{}-{index}", swept.line.path, swept.line.scan);
    scrolling(&id, &subject(swept.line), &heads, &rows)
}

/// What the facts predict beside what was measured.
pub(super) fn causes(report: &Report) -> String {
    let heads = ["layer", "predicted", "measured", "contradiction"].map(Head::text);
    let rows: Vec<Vec<String>> = report
        .verdict
        .causes
        .iter()
        .map(|c| {
            let contradiction = c.contradiction.as_deref().unwrap_or("none");
            [c.layer.as_str(), &c.predicted, &c.measured, contradiction].map(escaped).to_vec()
        })
        .collect();
    match rows.is_empty() {
        true => String::new(),
        false => scrolling("causes", "What the facts predict, and what was measured", &heads, &rows),
    }
}
