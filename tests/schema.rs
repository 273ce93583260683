//! docs/report.schema.json says what reports look like: real ones pass, wrong ones do not.

mod made;

use fsprobe::report::{Control, Firmware, PathName, Placement, Rejudged, State, Window, parse, to_json};
use jsonschema::Validator;
use serde_json::{Value, json};

fn validator() -> Validator {
    let schema: Value = serde_json::from_str(include_str!("../docs/report.schema.json")).expect("JSON");
    jsonschema::meta::validate(&schema).expect("a schema");
    jsonschema::validator_for(&schema).expect("a schema that compiles")
}

/// A report with something in every field that can hold something.
fn full() -> Value {
    let mut report = made::zen4();
    report.cells.truncate(20);
    report.skipped = made::inconclusive().skipped;
    report.host.firmware = Some(Firmware { bios_version: Some("1.0".into()), ..Firmware::default() });
    report.noise.frequency_khz = Some([3_700_000, 3_650_000]);
    report.noise.controls = vec![Control {
        run: 0,
        path: PathName::Read,
        allocator: None,
        len: made::KIB_64,
        dst: 0x400,
        ns_a: vec![Some(2800), None],
        ns_b: vec![Some(2801), Some(2790)],
    }];
    report.verdict.windows = vec![Window {
        path: PathName::Memcpy,
        from_len: 2113,
        to_len: 1_048_575,
        from_open: false,
        to_open: false,
    }];
    report.verdict.causes = serde_json::from_value(json!([
        {"layer": "kernel", "predicted": "rep movsb", "measured": "a band", "contradiction": null}
    ]))
    .expect("a cause");
    report.verdict.paths[0].bands[0].from_range = Some([0, 2]);
    report.colours = serde_json::from_value(json!({
        "pool": 512, "sizes": [272, 240], "contradicting": 1, "masks": ["0x1f0"], "path": "rep-movsb", "distance": 0x30,
        "profile": {"same": [{"distance": 0x30, "ns": 210.5}], "other": [{"distance": 0x30, "ns": 30.0}]},
        "prediction": {"held_out": 170, "right": 169, "guest_frames": true}, "len": 2048, "ratio": 7.0,
        "proof": {"unstable": 0, "shared": 1, "with_all": 512, "intransitive": 0}
    }))
    .expect("colours");
    report.pmu = serde_json::from_value(json!({
        "len": made::KIB_64, "no_kernel": "perf_event_paranoid=2", "no_conflicts": null,
        "counts": [{"path": "read", "distance": 8, "event": "L1-dcache-loads", "user_per_byte": 0.5, "kernel_per_byte": null}]
    }))
    .expect("counts");
    report.rejudged = Some(Rejudged {
        by: report.tool.clone(),
        recorded_state: State::Clean,
        differences: vec!["the state was clean and is affected".into()],
    });
    serde_json::from_str(&to_json(&report)).expect("JSON")
}

#[test]
fn reports_match_the_schema() {
    let validator = validator();
    let check = |value: &Value| {
        if let Err(error) = validator.validate(value) {
            panic!("{} at {}", error, error.instance_path());
        }
    };
    check(&full());
    for report in [
        made::empty(),
        made::zen4(),
        made::clean(),
        made::zen3(),
        made::interrupted(),
        made::inconclusive(),
        made::recorded(),
    ] {
        check(&serde_json::to_value(&report).expect("JSON"));
    }
    let mut later = full();
    later["added"] = json!(1);
    later["host"]["cpu"]["added"] = json!({});
    later["verdict"]["paths"][0]["bands"][0]["added"] = json!([]);
    check(&later);
}

#[test]
fn wrong_documents_do_not_match() {
    let validator = validator();
    for (pointer, value) in [
        ("/schema/name", json!("fsprobe-cpu")),
        ("/schema/version", json!(2)),
        ("/recorded_at", json!("yesterday")),
        ("/run/options/file", json!("/home/me/secret")),
        ("/run/options/paths/0", json!("teleport")),
        ("/run/options/affected_at", json!(1.0)),
        ("/run/seed", json!(-1)),
        ("/runs/0/phase", json!("guess")),
        ("/runs/0/pages/0/glibc", json!("first")),
        ("/source/kind", json!("dream")),
        ("/host/simulated", json!(true)),
        ("/host/cpu/signature", json!("a10f11")),
        ("/host/cpu/features/erms/cpuid", json!(1)),
        ("/host/unknown/governor", json!(null)),
        ("/cells/0/dst", json!(0x1001)),
        ("/cells/0/ns/0", json!(-5)),
        ("/cells/0/ns/0", json!(1.5)),
        ("/cells/0/allocator", json!("tcmalloc")),
        ("/cells/0/len", json!(0)),
        ("/placements/0/offsets/0", json!(0x1000)),
        ("/noise/floors/0/floor", json!(0.5)),
        ("/noise/controls/0/ns_a/0", json!("2800")),
        ("/noise/frequency_khz", json!([1])),
        ("/verdict/state", json!("fine")),
        ("/verdict/paths/0/bands/0/from", json!(0x1000)),
        ("/verdict/paths/0/bands/0/axis", json!("width")),
        ("/verdict/paths/0/bands/0/depth", json!("shallow")),
        ("/verdict/paths/0/bands/0/slowdown_ci95", json!([1.0])),
        ("/verdict/paths/0/bands/0/slowdown", json!(null)),
        ("/verdict/windows/0/path", json!(null)),
        ("/skipped/0/reason", json!(null)),
        ("/colours/sizes/0", json!(0)),
        ("/colours/masks/0", json!("1f0")),
        ("/colours/profile/same/0/ns", json!(null)),
        ("/pmu/counts/0/event", json!("cycles")),
    ] {
        let mut wrong = full();
        *wrong.pointer_mut(pointer).expect(pointer) = value;
        assert!(!validator.is_valid(&wrong), "{pointer}");
    }
}

/// Every object of a report, by JSON pointer.
fn objects(value: &Value, at: &str, found: &mut Vec<(String, Vec<String>)>) {
    match value {
        Value::Object(fields) => {
            found.push((at.to_owned(), fields.keys().cloned().collect()));
            fields.iter().for_each(|(key, value)| objects(value, &format!("{at}/{key}"), found));
        }
        Value::Array(items) => {
            items.iter().take(1).for_each(|first| objects(first, &format!("{at}/0"), found));
        }
        _ => {}
    }
}

/// Objects whose keys are names of their own choice.
const OPEN: [&str; 3] = ["/runs/0/pages/0", "/host/unknown", "/host/kernel/vulnerabilities"];

#[test]
fn every_field_is_in_the_schema_and_in_the_prose() {
    let validator = validator();
    let prose = include_str!("../docs/report-format.md");
    let mut found = vec![];
    objects(&full(), "", &mut found);
    assert!(found.len() > 20);
    for (at, keys) in found.into_iter().filter(|(at, _)| !OPEN.contains(&at.as_str())) {
        for key in keys {
            assert!(prose.contains(&format!("`{key}`")), "docs/report-format.md says nothing of {at}/{key}");
            let mut wrong = full();
            *wrong.pointer_mut(&format!("{at}/{key}")).expect("a field") =
                json!({"not": ["a", {"value": -0.5}]});
            assert!(!validator.is_valid(&wrong), "{at}/{key} may be anything");
        }
    }
}

#[test]
fn what_matches_loads() {
    let report = parse(full().to_string().as_bytes(), "full").expect("a report");
    assert_eq!(report.verdict.state, State::Affected);
    let placed: Vec<&Placement> = report.placements.iter().collect();
    assert_eq!(placed.len(), 6);
}
