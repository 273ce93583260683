//! A figure as a list of marks, in units of CSS pixels, the origin at the upper left.

/// What a mark is drawn with: the name of a colour in the palette.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Ink {
    /// What everything stands on.
    Ground,
    /// Words.
    Text,
    /// Words of less weight.
    Muted,
    /// Lines behind the data.
    Grid,
    /// The frame of the data.
    Frame,
    /// Behind a deep band.
    Deep,
    /// Words about a deep band.
    DeepText,
    /// Behind a mild band.
    Mild,
    /// Words about a mild band.
    MildText,
    /// The line of an allocator, 0 to 3.
    Series(usize),
    /// A step of slowdown, 0 to 7.
    Heat(usize),
}

/// Where a text stands with regard to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// The sizes of text, in units from one line to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    Small,
    Large,
}

impl Size {
    /// The size in units.
    pub fn units(self) -> f32 {
        match self {
            Size::Small => 12.0,
            Size::Large => 16.0,
        }
    }
}

/// What is drawn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    /// A filled rectangle: its upper left corner, its width and height.
    Block { at: [f32; 2], size: [f32; 2] },
    /// A thin straight line.
    Rule { from: [f32; 2], to: [f32; 2] },
    /// A line through points, dashed as its ink's series is.
    Line(Vec<[f32; 2]>),
    /// A sign at each point, of this size: dots, crosses, pluses or bars by the ink's series.
    Signs(Vec<[f32; 2]>, f32),
    /// Small triangles that point up to each point.
    Pointers(Vec<[f32; 2]>),
    /// A text on its base line.
    Text { at: [f32; 2], anchor: Anchor, size: Size, text: String },
}

/// A shape and its colour.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mark {
    pub ink: Ink,
    pub shape: Shape,
}

/// A figure: later marks cover earlier ones.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Drawing {
    pub width: f32,
    pub height: f32,
    /// What it is, for those who hear it.
    pub title: String,
    /// What it shows, for those who hear it.
    pub description: String,
    pub marks: Vec<Mark>,
}

impl Drawing {
    pub fn new(width: f32, height: f32, title: String, description: String) -> Drawing {
        Drawing { width, height, title, description, marks: vec![] }
    }

    pub fn add(&mut self, ink: Ink, shape: Shape) {
        self.marks.push(Mark { ink, shape });
    }

    pub fn block(&mut self, ink: Ink, at: [f32; 2], size: [f32; 2]) {
        self.add(ink, Shape::Block { at, size });
    }

    pub fn rule(&mut self, ink: Ink, from: [f32; 2], to: [f32; 2]) {
        self.add(ink, Shape::Rule { from, to });
    }

    pub fn text(&mut self, ink: Ink, at: [f32; 2], anchor: Anchor, text: impl Into<String>) {
        self.add(ink, Shape::Text { at, anchor, size: Size::Small, text: text.into() });
    }

    pub fn heading(&mut self, at: [f32; 2], text: impl Into<String>) {
        self.add(Ink::Text, Shape::Text { at, anchor: Anchor::Start, size: Size::Large, text: text.into() });
    }
}

/// How wide a small text is at most: all letters as wide as those of the PNG's font.
pub(crate) fn width_of(text: &str) -> f32 {
    text.chars().count() as f32 * 7.2
}

/// The strokes of a series' sign around its point, for a size of 1; none where it is a dot.
pub(crate) fn strokes(ink: Ink) -> &'static [[[f32; 2]; 2]] {
    const CROSS: [[[f32; 2]; 2]; 2] = [[[-0.5, -0.5], [0.5, 0.5]], [[-0.5, 0.5], [0.5, -0.5]]];
    const PLUS: [[[f32; 2]; 2]; 2] = [[[-0.65, 0.0], [0.65, 0.0]], [[0.0, -0.65], [0.0, 0.65]]];
    const BAR: [[[f32; 2]; 2]; 1] = [[[0.0, -0.8], [0.0, 0.8]]];
    match ink {
        Ink::Series(1) => &CROSS,
        Ink::Series(2) => &PLUS,
        Ink::Series(3) => &BAR,
        _ => &[],
    }
}

/// Strokes and gaps of a series, so that lines differ without colour; none for a solid line.
pub(crate) fn dashes(ink: Ink) -> &'static [f32] {
    const PATTERNS: [&[f32]; 4] = [&[], &[9.0, 4.0], &[3.0, 3.0], &[10.0, 3.0, 2.0, 3.0]];
    match ink {
        Ink::Series(index) => PATTERNS[index % PATTERNS.len()],
        _ => &[],
    }
}
