//! The report's own JSON, taken along in the page: packed, since a browser follows no link of more than
//! about two million letters.

use crate::render::number::three;
use crate::report::{Report, to_json};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// The longest link that every browser follows, in letters (Chromium's limit is 2 MiB).
const LONGEST: usize = 2_000_000;

/// The link, and how to do without a browser.
pub(super) fn link(report: &Report) -> String {
    let json = to_json(report);
    let packed = STANDARD.encode(packed(json.as_bytes()));
    let [size, small] = [json.len(), packed.len()].map(|n| three(n as f64 / 1e6));
    let too_long = if packed.len() > LONGEST {
        "<p>The link is so long that a browser may refuse it; the command does not.</p>\n"
    } else {
        ""
    };
    format!(
        "<p><a class=\"button\" download=\"fsprobe-report.json.gz\" href=\"data:application/gzip;base64,{packed}\">Take \
         the report along</a> ({size} MB of JSON, {small} MB in this page)</p>\n{too_long}\
         <p>It holds every sample and every fact, and nothing personal. Without a browser, from this page saved as \
         <code>report.html</code>:</p>\n<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"A command to \
         take out the report\">\n<pre><code>{COMMAND}</code></pre>\n</div>\n"
    )
}

/// Takes the JSON out of the page.
const COMMAND: &str = "sed -n 's/.*gzip;base64,\\([A-Za-z0-9+\\/=]\\{99,\\}\\)\".*/\\1/p' report.html | base64 -d | gunzip &gt; report.json";

fn packed(json: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::new(4));
    // a vector takes every byte
    packer.write_all(json).and_then(|()| packer.finish()).unwrap_or_default()
}
