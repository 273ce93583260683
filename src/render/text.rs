//! Paragraphs for a terminal: wrapped at word boundaries, hostile characters written out, coloured last.

use crate::report::printable;
use textwrap::{Options, WordSeparator, WordSplitter};

/// The longest paragraph that a report may cause, in characters.
const LONGEST: usize = 2000;

/// A paragraph within `width` columns: `label` before the first line, the others indented as far.
/// Whatever the text holds cannot steer the terminal. Ends with a newline.
pub(crate) fn paragraph(label: &str, text: &str, width: usize) -> String {
    let indent = " ".repeat(label.chars().count());
    let options = Options::new(width)
        .initial_indent(label)
        .subsequent_indent(&indent)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation);
    // no text holds a no-break space once it is printable, so it can stand for the spaces to be kept
    let units = ["B", "KiB", "MiB", "GiB", "GB/s", "s", "GHz"];
    let mut text = printable(text, LONGEST);
    for unit in units {
        for end in [" ", ",", ";", ".", ")", ":"] {
            text = text.replace(&format!(" {unit}{end}"), &format!("{GLUE}{unit}{end}"));
        }
    }
    let mut lines = textwrap::wrap(&text, options).join("\n").replace(GLUE, " ");
    lines.push('\n');
    lines
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn listed<T: AsRef<str>>(words: &[T]) -> String {
    match words {
        [] => String::new(),
        [one] => one.as_ref().into(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", first.join(", "), last.as_ref())
        }
    }
}

/// Keeps a number and its unit on one line.
const GLUE: &str = "\u{a0}";

/// How a stretch of text stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Red,
    Yellow,
    Green,
    Bold,
}

/// The text in bold and in a colour, by ECMA-48 escapes.
pub(crate) fn paint(text: &str, paint: Paint) -> String {
    let code = match paint {
        Paint::Red => "1;31",
        Paint::Yellow => "1;33",
        Paint::Green => "1;32",
        Paint::Bold => "1",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_on_words_and_keeps_ranges_whole() {
        let text = paragraph("Kernel  ", "offsets 0x001-0x00f are slow here", 22);
        assert_eq!(text, "Kernel  offsets\n        0x001-0x00f\n        are slow here\n");
    }

    #[test]
    fn a_word_without_end_is_broken() {
        let text = paragraph("- ", &"x".repeat(100), 40);
        assert!(text.lines().all(|l| l.chars().count() <= 40), "{text}");
    }

    #[test]
    fn lists_read_like_speech() {
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
        assert_eq!(listed(&["a"]), "a");
    }
}
