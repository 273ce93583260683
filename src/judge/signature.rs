//! Published signatures (docs/signatures.md), and which of them a report's deep bands match.

use crate::report::{Axis, Band, PAGE};

/// One published signature.
struct Signature {
    axis: Axis,
    from: u16,
    to: u16,
    /// How far each edge may lie from the published one: some sources name round numbers.
    slack: u16,
    name: &'static str,
}

const PUBLISHED: [Signature; 4] = [
    Signature {
        axis: Axis::Distance,
        from: 0x001,
        to: 0x00f,
        slack: 0,
        name: "Zen 4, rep movsb at distance 0x001..0x00f (sourceware BZ 30994; measured by this project)",
    },
    Signature {
        axis: Axis::Distance,
        from: 0x991,
        to: 0x00f,
        slack: 1,
        name: "Zen 3, read(2) at distances above 0x990 and up to 0x00f (apache/opendal#3665)",
    },
    Signature {
        axis: Axis::Distance,
        from: 0x001,
        to: 0x01f,
        slack: 0,
        name: "Zen 4, rep movsq at distance 0x001..0x01f (measured by this project)",
    },
    Signature {
        axis: Axis::Dst,
        from: 0x000,
        to: 0x00f,
        slack: 0,
        name: "read(2) at dst 0x000..0x00f (users.rust-lang.org 85424)",
    },
];

/// The signature that a confirmed deep band matches, if any.
pub fn matching<'a>(bands: impl IntoIterator<Item = &'a Band>) -> Option<String> {
    bands.into_iter().find_map(|band| {
        let near = |a: u16, b: u16, slack: u16| {
            let gap = a.wrapping_sub(b) % PAGE;
            gap.min(PAGE - gap) <= slack
        };
        let fits = |s: &&Signature| {
            band.axis == Some(s.axis) && near(band.from, s.from, s.slack) && near(band.to, s.to, s.slack)
        };
        PUBLISHED.iter().find(fits).map(|s| s.name.to_owned())
    })
}
