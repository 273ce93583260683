//! docs/trace.schema.json and docs/exposure.schema.json say what those verbs' JSON looks like: what is printed passes,
//! and no field of it may be just anything.

mod common;

use common::{Place, stderr, text};
use fsprobe::report::{Exposure, Trace};
use jsonschema::Validator;
use serde_json::{Value, json};

fn validator(schema: &str) -> Validator {
    let schema: Value = serde_json::from_str(schema).expect("JSON");
    jsonschema::meta::validate(&schema).expect("a schema");
    jsonschema::validator_for(&schema).expect("a schema that compiles")
}

fn of_trace() -> Validator {
    validator(include_str!("../docs/trace.schema.json"))
}

fn of_exposure() -> Validator {
    validator(include_str!("../docs/exposure.schema.json"))
}

#[track_caller]
fn check(validator: &Validator, value: &Value) {
    if let Err(error) = validator.validate(value) {
        panic!("{error} at {}", error.instance_path());
    }
}

/// A program that is traced by counting its calls: what is printed, with samples beside, whatever this machine allows.
fn traced(place: &Place) -> Option<Value> {
    let file = place.file("source", 300_000);
    let args = ["trace", "--simulate", "zen3", "--via", "preload", "--json", "--", "cat", text(&file)];
    let output = place.run(&args);
    let Ok(mut told) = serde_json::from_str::<Value>(&stderr(&output)) else {
        eprintln!("skipped: {}", stderr(&output));
        return None;
    };
    let samples = json!({
        "period_ns": 1, "taken": 9, "lost": 0, "unread": 0, "kernel_seen": true, "inside": [{
            "pid": 1, "tid": 2, "program": "a", "kernel": "ksys_read", "class": 16, "distance": 8, "dst": 24, "samples": 4,
            "site": {"module": "/bin/a", "address": 7, "symbol": "main", "line": "a.c:3"}
        }]
    });
    let (trace, path) = (
        &mut told["trace"],
        json!({"path": "read", "len": 65536, "baseline_bytes_per_s": 1e9,
        "bands": [{"from": 1, "to": 15, "slowdown": 5.0, "penalty_ns_per_kib": 300.0}]}),
    );
    trace["watched"]["samples"] = samples.clone();
    trace["watched"]["own"] = json!({"user_ns": 5, "samples": samples});
    trace["watched"]["watching_ns"] = json!(5);
    trace["watched"]["unseen"] = json!([{"what": "a", "program": null, "why": "b", "remedy": "c", "bytes": 1,
        "within_ns": 2, "any": false}]);
    trace["bands"]["here"] = json!([path]);
    let whole: Trace = serde_json::from_value(trace.clone()).expect("a trace");
    *trace = serde_json::to_value(whole).expect("JSON");
    Some(told)
}

fn exposed(place: &Place) -> Value {
    let output =
        place.run(&["exposure", "--len", "4K,1M", "--processes", "1", "--simulate", "zen3", "--json"]);
    let mut told: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let exposure = &mut told["exposure"];
    exposure["skipped"] = json!([{"allocator": "a", "way": null, "reason": "b"}]);
    exposure["notes"] = json!(["a"]);
    let whole: Exposure = serde_json::from_value(exposure.clone()).expect("an exposure");
    *exposure = serde_json::to_value(whole).expect("JSON");
    told
}

/// Every field's place, of the first item of each list.
fn fields(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(all) => {
            for (key, value) in all {
                let at = format!("{at}/{key}");
                fields(value, &at, found);
                found.push(at);
            }
        }
        Value::Array(items) => {
            items.iter().take(1).for_each(|first| fields(first, &format!("{at}/0"), found))
        }
        _ => {}
    }
}

/// Has each field hold what none can: the schema does not allow it.
fn assert_describes(validator: &Validator, told: &Value) {
    let mut found = vec![];
    fields(told, "", &mut found);
    // whose fields the report's schema describes
    found.retain(|at| !at.starts_with("/host/"));
    assert!(found.len() > 40);
    for at in found {
        let mut wrong = told.clone();
        *wrong.pointer_mut(&at).expect("a field") = json!({"not": ["a", {"value": -0.5}]});
        assert!(!validator.is_valid(&wrong), "{at} may be anything");
    }
}

#[test]
fn traces_match_their_schema_which_describes_every_field() {
    let (place, validator) = (Place::new(), of_trace());
    for via in ["sample", "preload", "ptrace"] {
        let args = ["trace", "--simulate", "zen3", "--via", via, "--json", "--", "cat", "/dev/null"];
        let output = place.run(&args);
        match serde_json::from_str(&stderr(&output)) {
            Ok(told) => check(&validator, &told),
            Err(_) => eprintln!("skipped: {}", stderr(&output)),
        }
    }
    let Some(told) = traced(&place) else { return };
    check(&validator, &told);
    assert_describes(&validator, &told);
    for (at, wrong) in [
        ("/schema/name", json!("fsprobe-exposure")),
        ("/run/options/report", json!("/home/me/secret")),
        ("/trace/answer/state", json!("fine")),
        ("/trace/via", json!("dtrace")),
        ("/trace/watched/copies/0/landings/0/distance", json!(4096)),
    ] {
        let mut told = told.clone();
        *told.pointer_mut(at).expect(at) = wrong;
        assert!(!validator.is_valid(&told), "{at}");
    }
}

#[test]
fn exposures_match_their_schema_which_describes_every_field() {
    let (place, validator) = (Place::new(), of_exposure());
    let told = exposed(&place);
    check(&validator, &told);
    assert_describes(&validator, &told);
    for (at, wrong) in [
        ("/schema/version", json!(2)),
        ("/exposure/placements/0/offsets/0", json!(4096)),
        ("/exposure/rows/0/pattern", json!("odd")),
        ("/exposure/bands/from", json!("memory")),
    ] {
        let mut told = told.clone();
        *told.pointer_mut(at).expect(at) = wrong;
        assert!(!validator.is_valid(&told), "{at}");
    }
}
