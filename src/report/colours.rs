//! Page colours: the classes of page frames between which `rep movs` is slow at mild distances.

use super::words::PathName;
use serde::{Deserialize, Serialize};

/// One copy within a pool of pages: what a partition asks the machine to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pair {
    /// Index of the destination's page in the pool.
    pub dst: usize,
    /// Index of the source's page, another one; the source starts at page offset 0x000.
    pub src: usize,
    /// Page offset of the destination.
    pub distance: u16,
    /// Bytes of one copy, so few that both sides stay within their pages.
    pub len: usize,
}

/// A pool of pages partitioned by mutual slowness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Colours {
    /// Pages in the pool.
    pub pool: usize,
    /// Pages of each colour, the largest first; a single entry means that there are no colours.
    pub sizes: Vec<usize>,
    /// Pages that contradict the partition in at least one of the ways of [`Proof`].
    pub contradicting: usize,
    /// Time of one copy over distance, for pages of one colour and of different ones.
    pub profile: Profile,
    /// XOR masks of page frame numbers, in hexadecimal: the parities of `frame & mask` decide the colour.
    /// Null where frames are hidden, or no masks decide it (`host.unknown` says why).
    pub masks: Option<Vec<String>>,
    /// How well the masks predict.
    #[serde(default)]
    pub prediction: Option<Prediction>,
    /// The copy path.
    pub path: PathName,
    /// The distance at which pages were compared.
    pub distance: u16,
    /// Bytes of one copy.
    pub len: u64,
    /// Time of slow pairs over time of fast ones at that distance; null with a single colour.
    #[serde(default)]
    pub ratio: Option<f64>,
    /// How pages contradict the partition.
    #[serde(default)]
    pub proof: Proof,
}

impl Colours {
    /// The share of pages, in percent, above which the classes are not believed.
    pub const MOST_CONTRADICTING: usize = 1;

    /// Whether so few pages contradict the classes that they are believed.
    pub fn holds(&self) -> bool {
        let few = |wrong: usize, of: usize| {
            wrong.saturating_mul(100) <= of.saturating_mul(Self::MOST_CONTRADICTING)
        };
        few(self.contradicting, self.pool) && few(self.proof.shared, self.proof.with_all)
    }
}

/// Pages that contradict a partition, by the way they do; one page may do so in several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Proof {
    /// Measured again, in the other direction and against another page, not slow with their own colour.
    pub unstable: usize,
    /// Slow with pages of another colour as well.
    pub shared: usize,
    /// How many pages were compared with every other colour to see that.
    pub with_all: usize,
    /// Not slow with further members of their own colour, to whom they had not been compared.
    pub intransitive: usize,
}

/// Times over distance.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Profile {
    /// Between pages of one colour; with a single colour, between any pages.
    pub same: Vec<Level>,
    /// Between pages of different colours.
    pub other: Vec<Level>,
}

/// The time of a copy at one distance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// (dst - src) mod 4096.
    pub distance: u16,
    /// Nanoseconds of one copy: the median over pairs of pages.
    pub ns: f64,
}

/// How well masks predict the colours of pages that they were not found with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prediction {
    /// Pages held out.
    pub held_out: usize,
    /// Those whose colour was predicted.
    pub right: usize,
    /// Whether the frames are a guest's, which its hypervisor maps to others.
    pub guest_frames: bool,
}
