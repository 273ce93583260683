//! Text as it may stand in HTML and SVG: no string of a report becomes markup, and none steers a page.

use crate::report::printable;

/// The longest text that a report may put into a page, in characters.
const LONGEST: usize = 2000;

/// A text for an element or for an attribute in double quotes: control characters and overrides of
/// direction written out, markup escaped.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable(text, LONGEST).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML has no way to write these two
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn nothing_becomes_markup_or_steers() {
        let hostile = "</script><img src=x onerror='a'>\"&\u{202e}\u{1b}\u{ffff}";
        let shown = escaped(hostile);
        assert!(!shown.contains(['<', '>', '"', '\'', '\u{202e}', '\u{1b}', '\u{ffff}']), "{shown}");
        assert!(
            shown.starts_with("&lt;/script&gt;&lt;img src=x onerror=&#39;a&#39;&gt;&quot;&amp;"),
            "{shown}"
        );
    }
}
