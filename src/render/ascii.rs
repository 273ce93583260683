//! Text for mailing lists and bug trackers: ASCII alone, whatever a report holds.

/// The text in ASCII: common signs as people type them, everything else, control characters too, as an
/// escape such as `\u{e9}`. Line feeds stay.
pub(crate) fn ascii(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '\n' | ' '..='~' => out.push(c),
            '…' => out.push_str("..."),
            '—' => out.push_str("--"),
            '–' | '─' => out.push('-'),
            '·' => out.push('.'),
            '×' => out.push('x'),
            'µ' => out.push('u'),
            '®' => out.push_str("(R)"),
            '™' => out.push_str("(TM)"),
            _ => out.extend(c.escape_unicode()),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::ascii;

    #[test]
    fn everything_is_ascii_and_readable() {
        assert_eq!(ascii("a — b…\nCore™ \u{1b}[1m é"), "a -- b...\nCore(TM) \\u{1b}[1m \\u{e9}");
    }
}
