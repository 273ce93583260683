//! Settings that were tried against the anomaly, and what they did.

use serde::{Deserialize, Serialize};

/// One setting, tried for real.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Remedy {
    /// The setting as it is to be given, such as `GLIBC_TUNABLES=glibc.cpu.hwcaps=-ERMS`.
    pub setting: String,
    /// Whether it was taken: by the loader's own word, else by what it changed; null where neither tells.
    pub accepted: Option<bool>,
    /// The slowdown at distance 0x001..0x00f without it, at `len`; null where not measured.
    pub before: Option<f64>,
    /// The same with it.
    pub after: Option<f64>,
    /// `libc`, `kernel` or `cpu`: who has to be told.
    #[serde(default)]
    pub layer: String,
    /// Bytes of one copy for `before` and `after`.
    #[serde(default)]
    pub len: u64,
    /// The same at other lengths.
    #[serde(default)]
    pub others: Vec<AtLength>,
    /// What to know of it, for people.
    #[serde(default)]
    pub note: Option<String>,
}

/// A setting's effect at one more length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AtLength {
    /// Bytes of one copy.
    pub len: u64,
    /// The slowdown at distance 0x001..0x00f without the setting.
    pub before: Option<f64>,
    /// The same with it.
    pub after: Option<f64>,
}
