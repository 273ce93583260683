//! Recordings of a real Zen 4, Zen 3 and Zen 5, replayed through the binary: what they hold is found to the byte.

use serde_json::Value;
use std::process::Command;

/// Replays a recording and returns the report's verdict on its only group of cells.
fn replayed(recording: &str) -> (Value, Value) {
    let file = format!("{}/tests/recordings/{recording}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(env!("CARGO_BIN_EXE_fsprobe"))
        .args(["sweep", "--quiet", "--no-output", "--format", "json", "--simulate", &file])
        .output()
        .expect("fsprobe runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
    let cells = report["cells"].as_array().expect("cells");
    assert!(!cells.is_empty());
    for cell in cells {
        assert_eq!((cell["path"].as_str(), &cell["allocator"]), (Some("pread"), &Value::Null));
    }
    assert!(report["host"]["simulated"].is_string(), "it says that nothing was measured here");
    let paths = report["verdict"]["paths"].as_array().expect("paths");
    assert_eq!(paths.len(), 1, "one path, one length");
    (report["verdict"].clone(), paths[0].clone())
}

/// The deep bands of a group as (from, to, slowdown).
fn deep(path: &Value) -> Vec<(u64, u64, f64)> {
    let bands = path["bands"].as_array().expect("bands").iter().filter(|b| b["depth"] == "deep");
    let number = |band: &Value, field: &str| band[field].as_u64().expect("an offset");
    bands.map(|b| (number(b, "from"), number(b, "to"), b["slowdown"].as_f64().expect("a factor"))).collect()
}

/// Affected, by Zen 4's band alone.
fn has_one_deep_band(recording: &str, slowdown: std::ops::Range<f64>) -> Value {
    has_one_deep_band_to(0x00f, recording, slowdown)
}

/// Affected, by one confirmed deep band from 0x001 to this offset, with exact edges.
fn has_one_deep_band_to(last: u64, recording: &str, slowdown: std::ops::Range<f64>) -> Value {
    let (verdict, path) = replayed(recording);
    let found = deep(&path);
    assert_eq!(verdict["state"], "affected", "{recording}: {verdict:#}");
    assert!(
        matches!(found[..], [(0x001, to, times)] if to == last && slowdown.contains(&times)),
        "{recording}: {found:?}"
    );
    let bands = path["bands"].as_array().expect("bands");
    let band = bands.iter().find(|b| b["depth"] == "deep").expect("a deep band").clone();
    assert_eq!(band["confirmed"], true, "{recording}");
    assert!(band["from_range"].is_null() && band["to_range"].is_null(), "{recording}: {band:#}");
    band
}

#[test]
fn reads_at_every_dst_are_slow_at_0x001_to_0x00f() {
    has_one_deep_band("zen4-read-64KiB-dst.csv", 7.0..7.6);
}

#[test]
fn the_same_with_memory_bound_programs_beside_it() {
    has_one_deep_band("zen4-read-64KiB-dst-noisy.csv", 7.0..7.6);
}

#[test]
fn dst_against_src_tells_the_axis() {
    let band = has_one_deep_band("zen4-read-64KiB-dst-by-src.csv", 6.5..8.0);
    assert_eq!(band["axis"], "distance");
}

#[test]
fn a_zen_3_is_slow_at_0x001_to_0x01f_by_distance() {
    has_one_deep_band_to(0x01f, "zen3-read-64KiB-dst.csv", 7.5..9.0);
    let recording = "zen3-read-64KiB-dst-by-src.csv";
    let band = has_one_deep_band_to(0x01f, recording, 8.0..10.0);
    assert_eq!(band["axis"], "distance");
    let signature = replayed(recording).0["signature"].to_string();
    assert!(signature.contains("Zen 3, rep movsb at distance 0x001..0x01f"), "{signature}");
}

#[test]
fn clearing_is_not_copying() {
    let (verdict, path) = replayed("zen4-devzero-64KiB-dst-unaffected.csv");
    assert_eq!(verdict["state"], "clean", "{verdict:#}");
    assert_eq!(path["bands"], Value::Array(vec![]));
}

#[test]
fn a_coarse_grid_at_64_mib_shows_the_same_band() {
    has_one_deep_band("zen4-read-64MiB-tmpfs-dst-grid.csv", 2.2..2.6);
}

#[test]
fn a_zen_5_is_slow_below_128_bytes_and_crossing_a_page_is_told_apart() {
    let file = format!("{}/tests/recordings/zen5-rep-movsb-64B-report.json", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(env!("CARGO_BIN_EXE_fsprobe"))
        .args(["report", "--format", "json", &file])
        .output()
        .expect("fsprobe runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
    let (verdict, path) = (&report["verdict"], &report["verdict"]["paths"][0]);
    let found = deep(path);
    assert!(matches!(found[..], [(0x001, 0x03f, times)] if (4.0..5.5).contains(&times)), "{found:?}");
    let crossing = path["page_crossing"].as_f64().expect("seen apart");
    assert!((2.4..3.2).contains(&crossing), "{crossing}");
    let signature = verdict["signature"].to_string();
    assert!(signature.contains("Zen 5, rep movs of a few bytes"), "{signature}");
    let cpu = verdict["causes"].as_array().expect("causes").iter().find(|c| c["layer"] == "cpu");
    assert!(cpu.expect("the CPU's")["contradiction"].is_null(), "{cpu:?}");
}
