//! A report as one HTML file for people who would rather look: the verdict, the page-offset profile, the
//! bands, the machine, what the numbers rest on, and the raw data to take away.
//!
//! The page asks nothing of any network and runs no script, which its content security policy holds it
//! to. Sentences are those of the terminal output, colours those of [`super::plot`]; every string of a
//! report passes through `markup::escaped`.

mod data;
mod facts;
mod figures;
pub(in crate::render) mod tables;

use crate::render::evidence::evidence;
use crate::render::facts::{headword, rejudged};
use crate::render::markup::escaped;
use crate::render::plot::palette;
use crate::render::terminal::{allocators, header, lengths, notes, verdict};
use crate::render::{check, colours};
use crate::report::{Report, State, printable};

/// How the page looks, colours apart.
pub(in crate::render) const STYLE: &str = include_str!("html/style.css");

/// Nothing may be loaded from anywhere; the style sheet and the empty icon stand in the page itself.
pub(in crate::render) const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

/// A part of the page: where a link finds it, its heading, what stands in it.
struct Section {
    id: &'static str,
    heading: &'static str,
    body: String,
}

/// The page.
pub fn html(report: &Report) -> String {
    let sections = sections(report);
    let contents: String =
        sections.iter().map(|s| format!("<li><a href=\"#{}\">{}</a></li>\n", s.id, s.heading)).collect();
    let bodies: String = sections.iter().map(section).collect();
    let cpu = printable(report.host.cpu.brand.as_deref().unwrap_or("CPU unknown"), 60);
    let title = format!("{}: {cpu} (fsprobe {})", headword(report), printable(&report.run.command, 20));
    let simulated = header::simulated(report);
    let simulated =
        simulated.map(|text| format!("<p class=\"simulated\" role=\"note\">{}</p>\n", escaped(&text)));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>\n{colours}{plots}{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the verdict</a>\n<header>\n\
         <h1>fsprobe {command}: how page offsets change the speed of copies</h1>\n{simulated}</header>\n\
         <main id=\"main\" tabindex=\"-1\">\n{verdict}<nav aria-label=\"Contents\">\n<ul>\n{contents}</ul>\n</nav>\n\
         {bodies}</main>\n<footer>\n<p>{footer}</p>\n</footer>\n</body>\n</html>\n",
        title = escaped(&title),
        colours = palette::css(),
        plots = palette::svg_css(),
        command = escaped(&printable(&report.run.command, 20)),
        simulated = simulated.unwrap_or_default(),
        verdict = banner(report),
        footer = footer(report),
    )
}

fn section(Section { id, heading, body }: &Section) -> String {
    format!(
        "<section id=\"{id}\" aria-labelledby=\"{id}-h\">\n<h2 id=\"{id}-h\">{heading}</h2>\n{body}</section>\n"
    )
}

fn sections(report: &Report) -> Vec<Section> {
    let all = [
        ("profile", "Throughput by page offset", figures::figures(report)),
        ("lengths", "Lengths", paragraphs(&lengths::sentences(report))),
        ("colours", "Page colours", page_colours(report)),
        ("bands", "Bands of each copy path", tables::bands(report)),
        ("placements", "Where allocators put buffers", placements(report)),
        ("machine", "The machine", facts::machine(report)),
        ("causes", "Causes and remedies", causes(report)),
        ("noise", "What the numbers rest on", rest(report)),
        ("data", "Raw data", data::link(report)),
    ];
    let filled = all.into_iter().filter(|(.., body)| !body.is_empty());
    filled.map(|(id, heading, body)| Section { id, heading, body }).collect()
}

/// The verdict, told by a word and a sign and not by colour alone.
fn banner(report: &Report) -> String {
    let (word, state) = (headword(report), report.verdict.state);
    let (class, sign) = match state {
        _ if report.is_colours_alone() => ("neutral", "i"),
        State::Affected => ("affected", "!"),
        State::Inconclusive => ("inconclusive", "?"),
        State::Clean => ("clean", "\u{2713}"),
    };
    let model = report.host.simulated.model();
    let simulated = model.map(|m| format!(" (simulated: {})", printable(m, 60))).unwrap_or_default();
    let (told, details) = match report.run.command.as_str() {
        _ if report.is_colours_alone() => (colours::sentences(report), vec![]),
        "check" => (vec![check::as_sentence(report)], verdict::interrupted(report).into_iter().collect()),
        _ => (vec![verdict::as_sentence(report)], verdict::details(report)),
    };
    let details: Vec<String> = rejudged(report).into_iter().chain(details).collect();
    format!(
        "<div class=\"verdict {class}\" role=\"region\" aria-label=\"Verdict\">\n<p class=\"sign\" \
         aria-hidden=\"true\">{sign}</p>\n<div>\n<h2>{word}{}</h2>\n{}</div>\n</div>\n<div class=\"details\">\n{}</div>\n",
        escaped(&simulated),
        paragraphs(&told),
        paragraphs(&details)
    )
}

fn page_colours(report: &Report) -> String {
    let Some(measured) = &report.colours else { return String::new() };
    format!(
        "{}<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Nanoseconds of one copy over \
         distance\">\n<pre>{}</pre>\n</div>\n",
        paragraphs(&colours::sentences(report)),
        colours::profile(measured).lines().map(|line| escaped(line) + "\n").collect::<String>()
    )
}

fn placements(report: &Report) -> String {
    let fates = allocators::fates(report).into_iter().map(|fates| {
        let items = fates
            .lines
            .iter()
            .map(|(owner, fate)| format!("<div><dt>{owner}</dt><dd>{}</dd></div>\n", escaped(fate)));
        format!("<p>{}</p>\n<dl>\n{}</dl>\n", escaped(&fates.intro), items.collect::<String>())
    });
    fates.collect()
}

fn causes(report: &Report) -> String {
    let counters: Vec<String> = evidence(report).into_iter().collect();
    let remedies = report.remedies.iter().map(|r| format!("<li>{}</li>\n", escaped(&check::one_tried(r))));
    let remedies: String = remedies.collect();
    let remedies = match remedies.is_empty() {
        true => remedies,
        false => format!(
            "<h3>Settings tried</h3>\n<p>Slowdown at distance 0x001-0x00f, before and after.</p>\n<ul>\n{remedies}</ul>\n"
        ),
    };
    tables::causes(report) + &to_do(report) + &remedies + &paragraphs(&counters)
}

/// What a check advises.
fn to_do(report: &Report) -> String {
    if report.run.command != "check" || report.verdict.state == State::Clean {
        return String::new();
    }
    let item =
        |(who, what): (&str, String)| format!("<div><dt>{who}</dt><dd>{}</dd></div>\n", escaped(&what));
    let items: String = check::advice(report).into_iter().map(item).collect();
    format!("<h3>What to do</h3>\n<dl>\n{items}</dl>\n")
}

fn rest(report: &Report) -> String {
    let items = notes::sentences(report);
    let items: String = items.iter().map(|text| format!("<li>{}</li>\n", escaped(text))).collect();
    if items.is_empty() { items } else { format!("<ul>\n{items}</ul>\n") }
}

fn footer(report: &Report) -> String {
    let commit =
        report.tool.commit.as_deref().map(|c| format!(" ({})", printable(c, 12))).unwrap_or_default();
    escaped(&format!(
        "Recorded by fsprobe {}{commit} at {}.",
        printable(&report.tool.version, 20),
        printable(&report.recorded_at, 40)
    ))
}

fn paragraphs(sentences: &[String]) -> String {
    sentences.iter().map(|text| format!("<p>{}</p>\n", escaped(text))).collect()
}
