//! What the report of a default sweep of a 64 MiB file holds: of a simulated machine here, and of this
//! one where `FSPROBE_REPORT` names the file (`.ci/run` does that).

use fsprobe::commands::sweep::simulated;
use fsprobe::simulate::Model;
use serde_json::Value;
use std::collections::BTreeSet;

/// The most bytes that a default sweep's report may take.
const MOST_BYTES: usize = 4 << 20;

/// What a report lacks.
fn shortcomings(report: &[u8]) -> Vec<String> {
    let mut lacks = Vec::new();
    if report.len() > MOST_BYTES {
        lacks.push(format!("{} bytes are more than 4 MiB", report.len()));
    }
    let report: Value = serde_json::from_slice(report).expect("JSON");
    let schema: Value = serde_json::from_str(include_str!("../docs/report.schema.json")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    lacks.extend(validator.iter_errors(&report).take(5).map(|e| format!("{e} at {}", e.instance_path())));
    if report["run"]["complete"] != true {
        lacks.push(format!("stopped by {}", report["run"]["stopped_by"]));
    }
    for allocator in ["glibc", "jemalloc", "mimalloc"] {
        let every: BTreeSet<u64> = (0..=4096).collect();
        let fine = dsts(&report, allocator, 64 << 10, 15);
        if !fine.is_superset(&every) {
            lacks.push(format!("{allocator}: {} of 4097 offsets at 64 KiB in 15 rounds", fine.len()));
        }
        let coarse = dsts(&report, allocator, 64 << 20, 7);
        if coarse.len() < 24 {
            lacks.push(format!("{allocator}: {} offsets at 64 MiB in 7 rounds", coarse.len()));
        }
    }
    lacks
}

/// Offsets at which `read` was screened at a length in at least so many rounds, each with a sample.
fn dsts(report: &Value, allocator: &str, len: u64, rounds: u64) -> BTreeSet<u64> {
    let cells = report["cells"].as_array().expect("cells").iter();
    let wanted = cells.filter(|c| {
        let run = &report["runs"][c["run"].as_u64().expect("an index") as usize];
        let samples = c["ns"].as_array().expect("samples").iter().filter(|ns| ns.is_u64()).count();
        (c["path"] == "read" && c["allocator"] == allocator && c["src"] == 0 && c["len"] == len)
            && (run["phase"] == "screen" && samples as u64 >= rounds)
    });
    wanted.filter_map(|c| c["dst"].as_u64()).collect()
}

#[test]
fn a_simulated_sweep_holds_what_it_should_and_lesser_ones_do_not() {
    let whole = serde_json::to_value(simulated(&Model::named("clean").expect("a model"), 1)).expect("JSON");
    assert_eq!(shortcomings(whole.to_string().as_bytes()), Vec::<String>::new());
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut report = whole.clone();
        change(&mut report);
        shortcomings(report.to_string().as_bytes())
    };
    let without = |dst: u64, len: u64| {
        changed(&|r| {
            let cells = r["cells"].as_array_mut().expect("cells");
            cells.retain(|c| c["allocator"] != "jemalloc" || c["dst"] == dst || c["len"] != len);
        })
    };
    assert_eq!(without(7, 64 << 10).len(), 1);
    assert_eq!(without(7, 64 << 20).len(), 1);
    let one_offset_lost = changed(&|r| {
        let cells = r["cells"].as_array_mut().expect("cells");
        cells.retain(|c| c["allocator"] != "mimalloc" || c["dst"] != 4096);
    });
    assert!(one_offset_lost[0].starts_with("mimalloc: 4096 of 4097"), "{one_offset_lost:?}");
    let fewer_rounds = changed(&|r| {
        let cells = r["cells"].as_array_mut().expect("cells");
        cells.iter_mut().for_each(|c| c["ns"].as_array_mut().expect("samples").truncate(14));
    });
    assert_eq!(fewer_rounds.len(), 3, "{fewer_rounds:?}");
    assert_eq!(changed(&|r| r["run"]["complete"] = false.into()).len(), 1);
    assert_eq!(changed(&|r| r["run"]["seed"] = (-1).into()).len(), 1);
    assert_eq!(changed(&|r| r["added"] = " ".repeat(MOST_BYTES).into()).len(), 1);
}

#[test]
#[ignore = "checks the report that FSPROBE_REPORT names"]
fn the_report_of_this_machine_holds_what_it_should() {
    let file = std::env::var_os("FSPROBE_REPORT").expect("FSPROBE_REPORT names a report");
    let report = std::fs::read(file).expect("a readable report");
    assert_eq!(shortcomings(&report), Vec::<String>::new());
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    assert_eq!(report["host"]["simulated"], false, "measured here");
    assert_eq!(report["source"]["size"], 64 << 20);
}
