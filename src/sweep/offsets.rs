//! Page-offset ranges and lengths as people write them.

use crate::report::PAGE;
use std::fmt;
use std::str::FromStr;

/// A list of page offsets: `0x0-0x1000`, `0x0-0x1000:0x10`, `0x0..=0x40`, `0x8`, joined by commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offsets {
    text: String,
    all: Vec<u16>,
}

impl Offsets {
    /// The offsets in rising order, each once.
    pub fn all(&self) -> &[u16] {
        &self.all
    }

    /// Every offset of the circle and 0x1000 as a check on 0x000.
    pub fn circle() -> Self {
        Offsets { text: "0x0-0x1000".into(), all: (0..=PAGE).collect() }
    }
}

impl fmt::Display for Offsets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Offsets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Vec::new();
        for part in text.split(',') {
            all.extend(range(part.trim())?);
        }
        all.sort_unstable();
        all.dedup();
        Ok(Offsets { text: text.trim().to_owned(), all })
    }
}

/// One range of a list.
fn range(part: &str) -> Result<impl Iterator<Item = u16>, String> {
    let (ends, step) = match part.split_once(':') {
        Some((ends, step)) => (ends, number(step)?),
        None => (part, 1),
    };
    if step == 0 {
        return Err(format!("'{part}' has a step of 0"));
    }
    let (from, to) = match ends.split_once("..=").or_else(|| ends.split_once('-')) {
        Some((from, to)) => (offset(from)?, offset(to)?),
        None if ends.contains("..") => {
            let (from, to) = ends.split_once("..").unwrap_or((ends, ""));
            let (from, to) = (offset(from)?, offset(to)?);
            if to == 0 {
                return Err(format!("'{part}' is empty"));
            }
            (from, to - 1)
        }
        None => (offset(ends)?, offset(ends)?),
    };
    if from > to {
        return Err(format!(
            "'{part}' runs backwards (write it as two ranges, such as 0xf00-0xfff,0x0-0x10)"
        ));
    }
    Ok((from..=to).step_by(usize::from(step)))
}

fn offset(text: &str) -> Result<u16, String> {
    match number(text)? {
        value if value <= PAGE => Ok(value),
        _ => Err(format!("page offset {} is above 0x1000", text.trim())),
    }
}

fn number(text: &str) -> Result<u16, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("a page offset is missing (such as 0x10 or 16, or a range 0x0-0x1000:0x10)".into());
    }
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    match parsed {
        Ok(value) => Ok(u16::try_from(value).unwrap_or(u16::MAX)),
        Err(_) => {
            Err(format!("'{text}' is not a page offset (such as 0x10 or 16, or a range 0x0-0x1000:0x10)"))
        }
    }
}

/// A length: bytes, the whole file, or those at which a band begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Length {
    /// That many bytes.
    Bytes(u64),
    /// The whole file.
    File,
    /// Whatever a search for the edges of bands comes to.
    Auto,
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "file" => Ok(Length::File),
            "auto" => Ok(Length::Auto),
            text => bytes(text).map(Length::Bytes),
        }
    }
}

/// A size such as `65536`, `64K`, `64KiB` or `64M`; K, M and G are powers of 1024.
fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a length (such as 65536, 64K, 64KiB, 64M, 'file' or 'auto')");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" | "B" => 0,
        "K" | "k" | "KiB" => 10,
        "M" | "m" | "MiB" => 20,
        "G" | "g" | "GiB" => 30,
        _ => return Err(wrong()),
    };
    let value: u64 = number.parse().map_err(|_| wrong())?;
    match value.checked_mul(1 << shift) {
        Some(0) => Err("a length of 0 copies nothing".into()),
        Some(bytes) if bytes <= 1 << 40 => Ok(bytes),
        _ => Err(format!("'{text}' is more than 1024 GiB")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(text: &str) -> Vec<u16> {
        text.parse::<Offsets>().unwrap().all().to_vec()
    }

    #[test]
    fn ranges_as_documented() {
        assert_eq!(all("0x0-0x1000"), Offsets::circle().all());
        assert_eq!(all("0x0..=0x40").len(), 0x41);
        assert_eq!(all("0..4"), [0, 1, 2, 3]);
        assert_eq!(all("0x0-0x40:0x20"), [0, 0x20, 0x40]);
        assert_eq!(all("0xfff, 3,1-2,2"), [1, 2, 3, 0xfff]);
        assert_eq!(all("0x1000"), [0x1000]);
    }

    #[test]
    fn wrong_ranges_say_what_is_wrong() {
        for (text, part) in [
            ("0x1001", "above 0x1000"),
            ("99999999", "above 0x1000"),
            ("5-2", "backwards"),
            ("0-9:0", "step of 0"),
            ("", "is missing"),
            ("x", "not a page offset"),
            ("-5", "is missing"),
            ("0..0", "is empty"),
        ] {
            let error = text.parse::<Offsets>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn lengths_as_documented() {
        assert_eq!("64K".parse(), Ok(Length::Bytes(65536)));
        assert_eq!("64KiB".parse(), Ok(Length::Bytes(65536)));
        assert_eq!("64M".parse(), Ok(Length::Bytes(64 << 20)));
        assert_eq!("128".parse(), Ok(Length::Bytes(128)));
        assert_eq!("file".parse(), Ok(Length::File));
        for wrong in ["", "0", "64Q", "-1", "99999999999999999999", "18446744073709551615K", "2048G"] {
            assert!(wrong.parse::<Length>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,24}") {
            let _ = text.parse::<Offsets>();
            let _ = text.parse::<Length>();
        }
    }
}
