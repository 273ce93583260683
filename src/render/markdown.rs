//! A report for a forge, in GitHub-flavoured Markdown: verdict first, tables, the long parts folded away.
//!
//! Whatever a report says is escaped or stands in code spans: it is no markup, links nowhere and calls nobody.

use super::band_table::{Row, clean, rows};
use super::facts::{self, Fact};
use super::reproducer::Reproducer;
use super::{said, terminal};
use crate::report::Report;

/// The whole document.
pub fn markdown(report: &Report) -> String {
    let simulated = if report.is_simulated() { " (simulated)" } else { "" };
    let parts = [
        format!("## fsprobe: {}{simulated}\n", facts::headword(report)),
        paragraphs(&said::verdict(report)),
        format!("### Machine\n\n{}", table(&facts::machine(report))),
        bands(report),
        matrices(report),
        folded(
            "Noise, and how it was measured",
            &(table(&facts::method(report)) + "\n" + &paragraphs(&said::noise(report))),
        ),
        reproduce(report),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

fn paragraphs(lines: &[String]) -> String {
    let line = |line: &String| match said::labelled(line) {
        ("", text) => escaped(text) + "\n",
        (label, text) => format!("* {}: {}\n", escaped(label.trim()), escaped(text)),
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn table(facts: &[Fact]) -> String {
    let row = |(label, fact): &Fact| format!("| {label} | {} |\n", code(fact));
    format!("| | |\n| --- | --- |\n{}", facts.iter().map(row).collect::<String>())
}

fn bands(report: &Report) -> String {
    let line = |row: &Row| format!("| {} |\n", row.0.join(" | "));
    let rows = rows(report);
    let mut text = String::new();
    if !rows.is_empty() {
        text += &line(&Row::HEADING);
        text += &format!("|{}\n", " --- |".repeat(Row::HEADING.0.len()));
        text.extend(rows.iter().map(line));
        text += "\nOffsets are mod 4096; distance = (dst - src) mod 4096; slower: time over that of unaffected offsets; \
            ns/KiB: extra time per KiB copied; ?: not confirmed by fresh samples.\n";
    }
    let clean = paragraphs(&clean(report));
    match (text.is_empty(), clean.is_empty()) {
        (true, true) if report.is_of_bands() => "### Bands\n\nNothing was judged.\n".into(),
        (true, true) => String::new(),
        (false, false) => format!("### Bands\n\n{text}\n{clean}"),
        _ => format!("### Bands\n\n{text}{clean}"),
    }
}

fn reproduce(report: &Report) -> String {
    if report.is_colours_alone() {
        return String::new();
    }
    let program = Reproducer::of(report);
    let body = format!("{}\n\n{}", escaped(&program.explained()), fenced("c", &program.source()));
    folded("Reproduce this without fsprobe", &body)
}

/// The matrices; a check has none.
fn matrices(report: &Report) -> String {
    let text = terminal::matrices(report);
    let title = "Throughput by page offset";
    if text.trim().is_empty() { String::new() } else { folded(title, &fenced("text", &text)) }
}

fn folded(title: &str, body: &str) -> String {
    format!("<details>\n<summary>{title}</summary>\n\n{}\n\n</details>\n", body.trim_end())
}

/// A block of code; what stands in it holds no backticks.
fn fenced(language: &str, body: &str) -> String {
    format!("```{language}\n{}\n```\n", body.trim_end().replace('`', "'"))
}

/// Text from a report as text, without blanks around it: no markup, no entity, no link, no mention of people or issues.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut before = ' ';
    let mut chars = text.trim().chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // an empty comment parts what a forge would take for a person or an issue
            '@' => out.push_str("@<!-- -->"),
            '#' => out.push_str("\\#<!-- -->"),
            // no address is recognised in these
            ':' if chars.peek() == Some(&'/') => out.push_str("&#58;"),
            '.' if before == 'w' => out.push_str("\\."),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '!' | '{' | '}' => {
                out.push('\\');
                out.push(c);
            }
            '-' if out.to_ascii_uppercase().ends_with("GH") => out.push_str("<!-- -->-"),
            // a list, a rule, a heading or a block of its own begins with these
            '-' | '+' | '=' if out.is_empty() => {
                out.push('\\');
                out.push(c);
            }
            '.' | ')' if out.bytes().all(|b| b.is_ascii_digit()) => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
        before = c;
    }
    out
}

/// Text from a report as a code span that also holds in a table.
fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let ticks = "`".repeat(longest + 1);
    let pad = if longest > 0 || text.trim().is_empty() { " " } else { "" };
    format!("{ticks}{pad}{}{pad}{ticks}", text.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_markup() {
        assert_eq!(escaped("a_b <b> @me #1 www.x"), "a\\_b &lt;b&gt; @<!-- -->me \\#<!-- -->1 www\\.x");
        assert_eq!(escaped("see http://x"), "see http&#58;//x");
        assert_eq!([escaped("- a"), escaped("1. a"), escaped("a. b")], ["\\- a", "1\\. a", "a. b"]);
    }

    #[test]
    fn code_spans_hold_backticks_and_bars() {
        assert_eq!(code("a|b"), "`a\\|b`");
        assert_eq!(code("a``b"), "``` a``b ```");
        assert_eq!(code(""), "`  `");
    }
}
