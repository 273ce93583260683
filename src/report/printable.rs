//! Text from files and machines made fit for a terminal, so that nothing in it can steer one; and shares as people
//! read them.

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

/// A share as people read it: `31 %`, `0.4 %`, `<0.1 %`; 100 % is all of it.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".into(),
        p if p < 0.1 => "<0.1 %".into(),
        p if p < 9.95 => format!("{p:.1} %"),
        p if p > 99.5 && p < 100.0 => format!("{:.1} %", p.min(99.9)),
        p => format!("{p:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::{percent, printable};

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
    fn all_is_more_than_nearly_all() {
        let told = [0.0, 0.0002, 0.004, 0.31, 0.996, 0.9999, 1.0].map(percent);
        assert_eq!(told, ["0 %", "<0.1 %", "0.4 %", "31 %", "99.6 %", "99.9 %", "100 %"]);
    }

    #[test]
    fn long_text_is_cut_and_says_so() {
        assert_eq!(printable("abcdef", 6), "abcdef");
        assert_eq!(printable("abcdef", 5), "abcde…");
    }
}
