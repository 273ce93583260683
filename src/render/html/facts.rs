//! What is known of the machine: the deciding facts first, then every field.

use super::tables::{Head, scrolling};
use crate::render::markup::escaped;
use crate::render::terminal::header;
use crate::report::{Report, printable};
use serde_json::Value;

/// The longest value of one field, in characters.
const LONGEST: usize = 300;

/// The facts in lines, and all fields as a table that opens.
pub(super) fn machine(report: &Report) -> String {
    let facts = header::facts(report);
    let lines =
        facts.iter().map(|(label, text)| format!("<div><dt>{label}</dt><dd>{}</dd></div>\n", escaped(text)));
    let host = serde_json::to_value(&report.host).unwrap_or_default();
    let mut rows = Vec::new();
    flatten("", &host, &mut rows);
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(field, value)| vec![format!("<code>{}</code>", escaped(&field)), escaped(&value)])
        .collect();
    let head = [Head::text("field"), Head::text("value")];
    let table = scrolling("facts", "The host, by the fields of the report", &head, &rows);
    format!(
        "<dl>\n{}</dl>\n<details>\n<summary>Every field</summary>\n{table}</details>\n",
        lines.collect::<String>()
    )
}

/// Fields by dotted name; what is null has its reason among `unknown`.
fn flatten(name: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let dotted = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(&dotted, value, rows);
            }
        }
        Value::Null => rows.push((name.into(), "unknown or none".into())),
        Value::String(text) => rows.push((name.into(), printable(text, LONGEST))),
        Value::Array(items) => {
            let items: Vec<String> =
                items.iter().map(|i| i.as_str().map_or_else(|| i.to_string(), str::to_owned)).collect();
            let text = if items.is_empty() { "none".into() } else { items.join(" ") };
            rows.push((name.into(), printable(&text, LONGEST)));
        }
        other => rows.push((name.into(), other.to_string())),
    }
}
