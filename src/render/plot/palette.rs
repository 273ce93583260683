//! Every colour of plots and of the HTML report, for light and for dark.
//!
//! Texts have a contrast of 4.5 and more with what they stand on, lines of 3 and more (WCAG 2.2, 1.4.3
//! and 1.4.11, level AA); a test computes both.

use super::drawing::Ink;

/// A colour by name: `#rrggbb` on a light and on a dark ground.
pub(crate) struct Colour {
    pub name: &'static str,
    pub light: &'static str,
    pub dark: &'static str,
}

const fn colour(name: &'static str, light: &'static str, dark: &'static str) -> Colour {
    Colour { name, light, dark }
}

/// All of them.
pub(crate) const COLOURS: [Colour; 25] = [
    colour("ground", "#ffffff", "#13161b"),
    colour("raised", "#f4f6f8", "#1c2128"),
    colour("text", "#1a1f26", "#e7ebf0"),
    colour("muted", "#525c67", "#a8b3bf"),
    colour("grid", "#e2e6ea", "#2b323b"),
    colour("frame", "#7d8791", "#75808c"),
    colour("link", "#0b57b0", "#7fbcff"),
    colour("deep", "#fad5d2", "#56211f"),
    colour("deep-text", "#98121c", "#ffb8b0"),
    colour("mild", "#fceeb8", "#43380f"),
    colour("mild-text", "#694700", "#f2d272"),
    colour("good", "#d8f1de", "#14391f"),
    colour("good-text", "#105c29", "#92e3a7"),
    colour("series-0", "#0a58a8", "#74b7ff"),
    colour("series-1", "#ac420a", "#ffab70"),
    colour("series-2", "#6c3fa6", "#d3a9ff"),
    colour("series-3", "#126c44", "#6fdc9a"),
    colour("heat-0", "#e8eef3", "#222b35"),
    colour("heat-1", "#fde6ae", "#41391a"),
    colour("heat-2", "#fbcb74", "#66491a"),
    colour("heat-3", "#f5a54e", "#925e1c"),
    colour("heat-4", "#e67637", "#bd6f2b"),
    colour("heat-5", "#cb472d", "#df8d4b"),
    colour("heat-6", "#9f202b", "#f3b687"),
    colour("heat-7", "#5f0f2a", "#ffe7d2"),
];

/// The name of an ink's colour.
pub(crate) fn name(ink: Ink) -> &'static str {
    const SERIES: [&str; 4] = ["series-0", "series-1", "series-2", "series-3"];
    const HEAT: [&str; 8] = ["heat-0", "heat-1", "heat-2", "heat-3", "heat-4", "heat-5", "heat-6", "heat-7"];
    match ink {
        Ink::Ground => "ground",
        Ink::Text => "text",
        Ink::Muted => "muted",
        Ink::Grid => "grid",
        Ink::Frame => "frame",
        Ink::Deep => "deep",
        Ink::DeepText => "deep-text",
        Ink::Mild => "mild",
        Ink::MildText => "mild-text",
        Ink::Series(index) => SERIES[index % SERIES.len()],
        Ink::Heat(step) => HEAT[step.min(HEAT.len() - 1)],
    }
}

/// An ink's colour on a light ground, as red, green and blue.
pub(crate) fn light(ink: Ink) -> [u8; 3] {
    let name = name(ink);
    let hex = COLOURS.iter().find(|c| c.name == name).map_or("#000000", |c| c.light);
    [1, 3, 5].map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap_or(0))
}

/// The colours as CSS variables: light, dark where that is preferred, light on paper.
pub(crate) fn css() -> String {
    let all = |of: fn(&Colour) -> &'static str| -> String {
        COLOURS.iter().map(|c| format!("--{}:{};", c.name, of(c))).collect()
    };
    let (light, dark) = (all(|c| c.light), all(|c| c.dark));
    format!(":root{{{light}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n")
}

/// What inks and shapes look like in SVG.
pub(crate) fn svg_css() -> String {
    let inks = [Ink::Ground, Ink::Text, Ink::Muted, Ink::Grid, Ink::Frame]
        .into_iter()
        .chain([Ink::Deep, Ink::DeepText, Ink::Mild, Ink::MildText])
        .chain((0..4).map(Ink::Series))
        .chain((0..8).map(Ink::Heat))
        .map(|ink| format!(".plot .{0}{{color:var(--{0})}}", name(ink)));
    let dashes = (0..4).map(Ink::Series).filter(|ink| !super::drawing::dashes(*ink).is_empty()).map(|ink| {
        let dashes: Vec<String> = super::drawing::dashes(ink).iter().map(f32::to_string).collect();
        format!(".plot polyline.{}{{stroke-dasharray:{}}}", name(ink), dashes.join(" "))
    });
    let shapes = ".plot rect,.plot text,.plot .pointers{fill:currentColor}\
        .plot line,.plot polyline,.plot .dots,.plot .signs{stroke:currentColor;fill:none}\
        .plot rect{shape-rendering:crispEdges}.plot line{stroke-width:1}.plot polyline{stroke-width:1.6;stroke-linejoin:round}\
        .plot .dots{stroke-linecap:round}.plot .signs{stroke-width:1.4}\
        .plot text{font:12px system-ui,sans-serif}.plot .large{font-size:16px;font-weight:600}";
    inks.chain(dashes).chain([shapes.to_owned()]).collect::<Vec<_>>().join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance, as WCAG 2.2 defines it.
    fn luminance(hex: &str) -> f64 {
        let part = |at: usize| {
            let c = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn texts_and_lines_stand_out() {
        assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9);
        let of = |name: &str| COLOURS.iter().find(|c| c.name == name).unwrap();
        let grounds = ["ground", "raised"];
        let texts = ["text", "muted", "link", "series-0", "series-1", "series-2", "series-3", "deep-text"];
        let mut pairs: Vec<(&str, &str, f64)> =
            grounds.iter().flat_map(|g| texts.iter().map(move |t| (*t, *g, 4.5))).collect();
        for (ink, ground) in [("deep-text", "deep"), ("mild-text", "mild"), ("good-text", "good")] {
            pairs.extend([(ink, ground, 4.5), ("text", ground, 4.5), (ink, "ground", 4.5)]);
        }
        pairs.push(("frame", "ground", 3.0));
        for line in ["series-0", "series-1", "series-2", "series-3"] {
            pairs.extend([(line, "deep", 3.0), (line, "mild", 3.0)]);
        }
        for (ink, ground, least) in pairs {
            for (scheme, [a, b]) in
                [("light", [of(ink).light, of(ground).light]), ("dark", [of(ink).dark, of(ground).dark])]
            {
                let ratio = contrast(a, b);
                assert!(ratio >= least, "{scheme}: {ink} on {ground} has {ratio:.2}, below {least}");
            }
        }
    }

    #[test]
    fn every_ink_has_its_colour() {
        for ink in [Ink::Ground, Ink::DeepText, Ink::Series(3), Ink::Series(9), Ink::Heat(7), Ink::Heat(99)] {
            assert!(COLOURS.iter().any(|c| c.name == name(ink)), "{ink:?}");
        }
        assert_eq!(light(Ink::Series(0)), [0x0a, 0x58, 0xa8]);
    }
}
