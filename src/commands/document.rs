//! The head that every verb's JSON has, before one object named after the verb.

use super::Failure;
use crate::report::{Host, Schema, Tool, inert};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// The JSON of `fsprobe <verb>`: schema `fsprobe-<verb>`, tool, recorded_at, run, host, and what the verb found.
pub struct Document<'a, R, B> {
    /// The verb: part of the schema's name, and the last field's name.
    pub verb: &'static str,
    /// When the run began: RFC 3339, UTC.
    pub recorded_at: &'a str,
    /// How fsprobe was run.
    pub run: R,
    /// The machine.
    pub host: &'a Host,
    /// What the verb found.
    pub body: B,
}

impl<R: Serialize, B: Serialize> Document<'_, R, B> {
    /// The document's text, with a final newline; nothing in it can steer a terminal.
    pub fn json(&self) -> Result<String, Failure> {
        let json = serde_json::to_string_pretty(self).map_err(Failure::line)?;
        Ok(inert(json + "\n"))
    }
}

impl<R: Serialize, B: Serialize> Serialize for Document<'_, R, B> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut document = serializer.serialize_struct("Document", 6)?;
        document.serialize_field("schema", &Schema::of_verb(self.verb))?;
        document.serialize_field("tool", &Tool::this())?;
        document.serialize_field("recorded_at", self.recorded_at)?;
        document.serialize_field("run", &self.run)?;
        document.serialize_field("host", self.host)?;
        document.serialize_field(self.verb, &self.body)?;
        document.end()
    }
}

/// How a verb that samples was run: the object `run` of its document.
#[derive(Serialize)]
pub struct Run<O> {
    /// The verb.
    pub command: &'static str,
    /// Every option as it was really used; names of files left out.
    pub options: O,
    /// How orders were made; none where nothing was shuffled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<&'static str>,
    /// Seed of every random choice; none where there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Seconds of the measuring.
    pub duration_s: f64,
    /// Whether everything planned was measured.
    pub complete: bool,
    /// What ended it early.
    pub stopped_by: Option<String>,
}

/// Now, as documents tell it: RFC 3339, UTC.
pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
