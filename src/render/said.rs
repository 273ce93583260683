//! What a report says in sentences, a paragraph a line, for formats that wrap or mark up by themselves.

use super::facts::rejudged;
use super::terminal::Style;
use super::{check, terminal};
use crate::report::Report;

/// So wide that no paragraph is wrapped.
const UNWRAPPED: Style = Style { colour: false, width: 100_000 };

/// The verdict, in the words of the verb that recorded it, and whether it is another than was recorded.
pub(crate) fn verdict(report: &Report) -> Vec<String> {
    let text = match report.run.command.as_str() {
        "check" => check::told(report, UNWRAPPED),
        _ => terminal::told(report, UNWRAPPED),
    };
    rejudged(report).into_iter().chain(lines(&text)).collect()
}

/// What the numbers rest on: noise floor, disturbances, what was left out.
pub(crate) fn noise(report: &Report) -> Vec<String> {
    lines(&terminal::noted(report, UNWRAPPED)).collect()
}

fn lines(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter(|l| !l.trim().is_empty()).map(str::to_owned)
}

/// A line's label, where it has one (what stands before two blanks), and its text.
pub(crate) fn labelled(line: &str) -> (&str, &str) {
    const LONGEST: usize = 12;
    let start = line.len() - line.trim_start().len();
    match line[start..].find("  ").filter(|at| *at <= LONGEST) {
        Some(at) => {
            let text = line[start + at..].trim_start();
            line.split_at(line.len() - text.len())
        }
        None => ("", line),
    }
}

#[cfg(test)]
mod tests {
    use super::labelled;

    #[test]
    fn labels_stand_before_two_blanks() {
        assert_eq!(labelled("  glibc     64 KiB at  0x010"), ("  glibc     ", "64 KiB at  0x010"));
        assert_eq!(labelled("A sentence."), ("", "A sentence."));
        assert_eq!(labelled("é  x"), ("é  ", "x"));
        assert_eq!(labelled(""), ("", ""));
    }
}
