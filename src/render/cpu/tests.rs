use super::*;
use serde_json::{Value, json};

/// A Zen 4 on bare metal with glibc 2.36, as JSON to be changed.
fn zen4() -> Value {
    let on = json!({"cpuid": true, "kernel": true});
    json!({
        "cpu": {
            "vendor": "AuthenticAMD", "brand": "AMD EPYC 9654", "family": 25, "model": 17, "stepping": 1,
            "signature": "0x00a10f11", "microarchitecture": "Zen 4", "microcode": ["0x0a101148"],
            "features": {"erms": on, "fsrm": on, "fzrm": {"cpuid": false, "kernel": null},
                         "fsrs": {"cpuid": true, "kernel": null}, "fsrc": {"cpuid": true, "kernel": null}}
        },
        "firmware": {"bios_version": "1.9", "bios_date": "01/02/2024", "board": "H13"},
        "kernel": {"release": "6.18.1", "copy_routine": "inline rep movsb (FSRM)", "cmdline": ["nosmt"],
                   "tainted": 0, "vulnerabilities": {"retbleed": "Not affected"}},
        "libc": {"name": "glibc", "version": "2.36", "package": null, "rep_movsb_threshold": 2112,
                 "rep_movsb_stop_threshold": 1048576, "non_temporal_threshold": 25165824, "tunables": []},
        "memory": {"page_size": 4096, "thp": "madvise", "l1d": 32768, "l2": 1048576, "l3": 33554432, "numa_node": 0},
        "smt": true, "clocksource": "tsc", "governor": "performance", "boost": true,
        "unknown": {"libc.package": "not looked up"}
    })
}

fn host(value: Value) -> Host {
    serde_json::from_value(value).unwrap()
}

/// The same machine with one field changed.
fn with(pointer: &str, value: Value) -> Host {
    let mut changed = zen4();
    *changed.pointer_mut(pointer).unwrap() = value;
    host(changed)
}

fn concluded(host: &Host) -> Conclusions {
    conclude(host, Subject::Machine)
}

#[test]
fn the_window_lies_between_the_thresholds() {
    let found = concluded(&host(zen4()));
    assert_eq!(found.memcpy_rep_movsb, Some(Lengths { from_len: 2113, to_len: 1_048_575 }));
    assert!(found.memcpy.contains("from 2113 to 1048575 bytes"));
    assert!(found.kernel.contains("inline rep movsb"));
    assert!(found.cautions.is_empty());
}

#[test]
fn a_fixed_glibc_has_no_window() {
    let fixed = concluded(&with("/libc/rep_movsb_threshold", json!(1_048_576)));
    assert_eq!(fixed.memcpy_rep_movsb, None);
    assert!(fixed.memcpy.contains("thresholds leave no length"));
    let extreme = concluded(&with("/libc/rep_movsb_threshold", json!(u64::MAX)));
    assert_eq!(extreme.memcpy_rep_movsb, None);
    let unknown = concluded(&with("/libc/rep_movsb_threshold", Value::Null));
    assert!(unknown.memcpy.contains("not known"));
}

#[test]
fn the_last_word_about_erms_counts() {
    let tunables = |words: Value| concluded(&with("/libc/tunables", words)).memcpy_rep_movsb.is_some();
    assert!(!tunables(json!(["glibc.cpu.hwcaps=-AVX2,-ERMS"])));
    assert!(tunables(json!(["glibc.cpu.hwcaps=-ERMS", "glibc.cpu.hwcaps=-AVX2"])));
}

#[test]
fn cautions_name_what_hides_or_differs() {
    let caution = |host: Host| concluded(&host).cautions.join(" ");
    assert!(caution(with("/cpu/microcode", json!(["0x01", "0x02"]))).contains("different microcode"));
    assert!(caution(with("/cpu/features/fsrm/kernel", json!(false))).contains("clearcpuid"));
    assert!(caution(with("/cpu/features/fsrm/cpuid", json!(false))).contains("hides"));
    let mut guest = zen4();
    guest["hypervisor"] = json!("KVM");
    assert!(caution(host(guest)).contains("KVM"));
}

#[test]
fn another_routine_is_told_apart() {
    let kernel = |routine: Value| concluded(&with("/kernel/copy_routine", routine)).kernel;
    assert!(kernel(json!("rep_movs_alternative: rep movsq from 64 B on (no ERMS)")).contains("only less so"));
    assert!(kernel(json!("copy_user_generic_unrolled: unrolled moves")).contains("free of the anomaly"));
    assert!(kernel(Value::Null).contains("not known"));
}

#[test]
fn notes_say_how_they_are_known() {
    let text = text(&host(zen4()), Subject::Machine);
    assert!(text.contains("What is known of Zen 4"));
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(joined.contains("[measured by this project: recordings of this project]"));
    assert!(joined.contains("[published, second hand: sourceware BZ 30994]"));
    assert!(joined.contains("libc.package: not looked up"));
    assert!(joined.contains("L1d 32 KiB, L2 1 MiB, L3 32 MiB"));
}

#[test]
fn no_text_from_outside_leaves_80_columns_or_steers_the_terminal() {
    let hostile = format!("{}\u{1b}[2J\u{202e}\n{}", "long ".repeat(60), "x".repeat(300));
    for field in
        ["/cpu/brand", "/kernel/release", "/firmware/board", "/libc/package", "/unknown/libc.package"]
    {
        let text = text(&with(field, json!(hostile)), Subject::Machine);
        assert!(text.contains("\\u{1b}[2J\\u{202e}"), "{field}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{field}");
    }
}
