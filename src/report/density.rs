//! How much memory a JSON text would take as a report, estimated before any of it is taken.
//!
//! A few bytes of JSON can become hundreds in memory: `{"a":1},` is a map. A report consists of samples
//! and cells, and takes at most ten times its size; what would take more is none.

/// Memory over the size of the text that is granted, in times that size; the text itself makes ten.
const TIMES: usize = 9;
/// What any text may take besides, in bytes.
const SPARE: usize = 8 << 20;
/// More fields than any object of a report has.
const MOST_FIELDS: u32 = 1000;
/// Nesting beyond this is refused by the parser.
const DEEPEST: usize = 128;

/// Bytes that one more value, one more text and one more object or array of values take at most.
const VALUE: usize = 16;
const TEXT: usize = 110;
const OBJECT: usize = 450;

/// Refuses a text that would take far more memory than a report of its size, with the reason.
pub fn check(text: &[u8]) -> Result<(), String> {
    let mut fields = [0_u32; DEEPEST];
    let (mut depth, mut taken, mut at) = (0_usize, 0_usize, 0_usize);
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => {
                at = end_of_string(text, at);
                if is_key(text, at) {
                    fields[depth.min(DEEPEST - 1)] += 1;
                    if fields[depth.min(DEEPEST - 1)] > MOST_FIELDS {
                        return Err(format!("an object has more than {MOST_FIELDS} fields"));
                    }
                } else {
                    taken += TEXT;
                }
            }
            b',' => taken += VALUE,
            b'{' => {
                taken += OBJECT;
                depth += 1;
                fields[depth.min(DEEPEST - 1)] = 0;
            }
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    match taken > TIMES * text.len() + SPARE {
        true => Err("it holds many more values than a report of its size".into()),
        false => Ok(()),
    }
}

/// The place after a string's closing quote.
fn end_of_string(text: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => break,
            b'\\' => at += 1,
            _ => {}
        }
    }
    at
}

/// Whether a string that ends here names a field.
fn is_key(text: &[u8], at: usize) -> bool {
    text.get(at..).is_some_and(|rest| rest.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b':'))
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn what_swells_is_refused() {
        let many = |one: &str| format!("[{}1]", one.repeat(4_000_000 / one.len()));
        for swelling in ["{\"a\":1},", "\"\",", "{},", "[{\"a\":\"b\"}],"] {
            let found = check(many(swelling).as_bytes());
            assert!(found.is_err_and(|e| e.contains("many more values")), "{swelling}");
        }
        let fields: String = (0..1001).map(|i| format!("\"{i}\":1,")).collect();
        assert!(check(format!("{{{fields}\"z\":1}}").as_bytes()).is_err_and(|e| e.contains("fields")));
    }

    #[test]
    fn samples_and_cells_are_not() {
        let cell = "{\"run\":0,\"path\":\"read\",\"allocator\":\"glibc\",\"dst\":12,\"src\":0,\"len\":65536,\
            \"repeat\":1,\"reference\":false,\"ns\":[2800,2801,2799]},";
        let pages = "{\"glibc\":12,\"jemalloc\":7,\"mimalloc\":33,\"source\":1024},";
        for usual in ["61,", "null,", cell, pages, "\"a string with \\\" and , and {\","] {
            let text = format!("[{}1]", usual.repeat(8_000_000 / usual.len()));
            assert_eq!(check(text.as_bytes()), Ok(()), "{usual}");
        }
    }

    #[test]
    fn nothing_is_too_odd_to_be_looked_at() {
        for odd in [&b"\""[..], b"\\", b"\"\\", b"}}}}", b"", &[b'{'; 1000], &[0xff; 10]] {
            assert_eq!(check(odd), Ok(()));
        }
    }
}
