//! Text from files and machines made fit for a terminal: nothing in it can steer one.

/// At most `longest` characters of a text, with every control character, terminal escape, direction
/// override and invisible character written out (`\u{1b}`), and `…` where something was left out.
pub fn printable(text: &str, longest: usize) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    for c in chars.by_ref().take(longest) {
        match c {
            // quotes and backslashes need no escape here, unlike in a Rust literal
            '\'' | '"' | '\\' => out.push(c),
            _ => out.extend(c.escape_debug()),
        }
    }
    if chars.next().is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn nothing_steers_the_terminal() {
        let hostile =
            "a\u{1b}[31mb\u{202e}c\u{2066}\u{200b}\u{7f}\u{9b}\r\n\u{2028}\u{feff}\u{e0041}é®µ—'\"\\";
        let shown = printable(hostile, 100);
        assert_eq!(
            shown,
            "a\\u{1b}[31mb\\u{202e}c\\u{2066}\\u{200b}\\u{7f}\\u{9b}\\r\\n\\u{2028}\\u{feff}\\u{e0041}é®µ—'\"\\"
        );
    }

    #[test]
    fn long_text_is_cut_and_says_so() {
        assert_eq!(printable("abcdef", 6), "abcdef");
        assert_eq!(printable("abcdef", 5), "abcde…");
    }
}
