//! `fsprobe cpu`, end to end: on whatever machine runs the tests, and on dumps of sixteen CPUs.

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn fsprobe(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fsprobe")).args(args).output().unwrap()
}

/// `fsprobe cpu --dump -` with `dump` on its stdin.
fn explain(dump: &[u8], args: &[&str]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fsprobe"))
        .args(["cpu", "--dump", "-"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(dump).unwrap();
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap()
}

/// Exit code 2, nothing on stdout, one line on stderr, which holds `word`.
fn assert_refused(output: &Output, word: &str) {
    let line = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert!(output.stdout.is_empty());
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.starts_with("fsprobe: ") && line.contains(word), "{line}");
}

fn assert_80_columns(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

/// The dumps of tests/fixtures/cpuid, in the form of `cpuid -r`, with what they should decode to.
fn fixtures() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cpuid");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 16);
    files.into_iter().map(|file| (file.clone(), fs::read_to_string(file).unwrap())).collect()
}

fn fixture(name: &str) -> String {
    fixtures().into_iter().find(|(file, _)| file.file_stem().unwrap() == name).unwrap().1
}

/// The value of a `# key: value` line.
fn expected<'a>(dump: &'a str, key: &str) -> &'a str {
    let found = dump.lines().find_map(|line| line.strip_prefix(&format!("# {key}:")));
    found.unwrap_or_else(|| panic!("no {key}")).trim()
}

/// The same registers as a public collection writes them, with or without the subleaf's remark.
fn as_collection(dump: &str, with_subleaf: bool) -> String {
    let registers = dump.lines().filter(|line| line.trim_start().starts_with("0x"));
    registers.fold(String::from("------[ Versions ]------\r\n"), |text, line| {
        let numbers: Vec<u32> = line
            .split([' ', ':', '='])
            .filter_map(|word| u32::from_str_radix(word.strip_prefix("0x")?, 16).ok())
            .collect();
        let [leaf, subleaf, a, b, c, d] = numbers[..] else { panic!("{line}") };
        let remark = if with_subleaf { format!(" [SL {subleaf:02X}]") } else { String::new() };
        text + &format!("CPUID {leaf:08X}: {a:08X}-{b:08X}-{c:08X}-{d:08X}{remark}\r\n")
    })
}

#[test]
fn this_machine_is_explained_in_80_columns() {
    let text = stdout(&fsprobe(&["cpu"]));
    assert!(text.starts_with("This machine: "));
    assert!(text.contains("fsprobe sweep"));
    assert_80_columns(&text);
}

#[test]
fn json_gives_every_null_its_reason() {
    let document = json(&fsprobe(&["cpu", "--json"]));
    assert_eq!(document["schema"], serde_json::json!({"name": "fsprobe-cpu", "version": 1}));
    assert_eq!(document["run"]["command"], "cpu");
    assert_eq!(document["recorded_at"].as_str().unwrap().len(), "2026-01-01T00:00:00Z".len());
    assert!(document["cpu"]["kernel"].is_string());
    assert!(document["tool"]["version"].is_string());
    assert_nulls_have_reasons("", &document["host"], &document["host"]["unknown"]);
}

fn assert_nulls_have_reasons(name: &str, value: &Value, unknown: &Value) {
    // Null here is a fact: bare metal, and no pinned CPU, for nothing is sampled.
    if ["hypervisor", "cpu_pinned"].contains(&name) {
        return;
    }
    match value {
        Value::Null => assert!(unknown[name].is_string(), "{name} is null without a reason"),
        Value::Object(fields) => {
            for (field, value) in fields.iter().filter(|(field, _)| *field != "unknown") {
                let dot = if name.is_empty() { "" } else { "." };
                assert_nulls_have_reasons(&format!("{name}{dot}{field}"), value, unknown);
            }
        }
        _ => {}
    }
}

#[test]
#[cfg(target_env = "gnu")]
fn tunables_in_force_are_seen() {
    let with = |tunables: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsprobe"));
        json(&command.args(["cpu", "--json"]).env("GLIBC_TUNABLES", tunables).output().unwrap())
    };
    let off = with("glibc.cpu.hwcaps=-ERMS:glibc.rtld.nns=4");
    assert_eq!(off["host"]["libc"]["tunables"], serde_json::json!(["glibc.cpu.hwcaps=-ERMS"]));
    assert_eq!(off["cpu"]["memcpy_rep_movsb"], Value::Null);
    // Older loaders do not tell their thresholds.
    let raised = with("glibc.cpu.x86_rep_movsb_threshold=1000000");
    let threshold = &raised["host"]["libc"]["rep_movsb_threshold"];
    assert!(threshold.is_null() || threshold == 1_000_000, "{threshold}");
}

#[test]
fn sixteen_cpus_decode_from_both_forms_of_dump() {
    for (file, dump) in fixtures() {
        for text in [dump.clone(), as_collection(&dump, true), as_collection(&dump, false)] {
            let document = json(&explain(text.as_bytes(), &["--json"]));
            let cpu = &document["host"]["cpu"];
            assert_eq!(cpu["signature"], expected(&dump, "signature"), "{file:?}");
            assert_eq!(cpu["microarchitecture"], expected(&dump, "microarchitecture"), "{file:?}");
            let set: Vec<&str> = ["erms", "fsrm", "fzrm", "fsrs", "fsrc"]
                .into_iter()
                .filter(|bit| cpu["features"][bit]["cpuid"] == true)
                .collect();
            assert_eq!(set.join(" "), expected(&dump, "bits"), "{file:?}");
            assert!(document["host"]["memory"]["l2"].as_u64().is_some_and(|l2| l2 >= 256 << 10), "{file:?}");
            assert_nulls_have_reasons("", &document["host"], &document["host"]["unknown"]);
        }
    }
}

#[test]
fn every_dump_is_explained_as_a_dump_in_80_columns() {
    for (file, _) in fixtures() {
        let text = stdout(&fsprobe(&["cpu", "--dump", file.to_str().unwrap()]));
        assert!(text.starts_with("From a CPUID dump, not this machine: "), "{text}");
        assert_80_columns(&text);
    }
}

#[test]
fn a_dump_of_vermeer_is_explained() {
    let text = stdout(&explain(fixture("0a20f10-k19-vermeer").as_bytes(), &[]));
    expect_test::expect_file!["fixtures/cpu-dump-vermeer.txt"].assert_eq(&text);
}

#[test]
fn the_document_names_no_file() {
    let dump = fixtures().swap_remove(0).0;
    let document = json(&fsprobe(&["cpu", "--json", "--dump", dump.to_str().unwrap()]));
    assert_eq!(document["run"]["options"]["dump"], "<file>");
    assert_eq!(document["cpu"]["subject"], "dump");
    assert!(!document.to_string().contains("fixtures"));
}

#[test]
fn what_is_no_dump_is_refused_in_one_line() {
    assert_refused(&fsprobe(&["cpu", "--dump", "/nonexistent/dump"]), "/nonexistent/dump");
    assert_refused(&fsprobe(&["cpu", "--dump", "/"]), "directory");
    assert_refused(&explain(b"", &[]), "no CPUID registers");
    assert_refused(&explain(b"\0\xff\x1b[31mnot a dump\n", &[]), "no CPUID registers");
    let vermeer = fixture("0a20f10-k19-vermeer");
    let without = |leaf: &str| vermeer.replace(leaf, "leaf lost");
    assert_refused(&explain(without("0x00000007 0x00").as_bytes(), &[]), "0x00000007");
    assert_refused(&explain(without("0x00000001 0x00").as_bytes(), &[]), "0x00000001");
    assert_refused(&explain(vermeer.replace("ecx=0x0040068c", "ecx=").as_bytes(), &[]), "four");
}

#[test]
fn ten_megabytes_of_noise_are_refused() {
    // A multiplicative generator's high bytes, with no structure that a parser could take hold of.
    let mut state = 1u64;
    let noise: Vec<u8> = (0..10 << 20)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &noise).unwrap();
    assert_refused(&fsprobe(&["cpu", "--dump", file.path().to_str().unwrap()]), "no CPUID registers");
    fs::write(file.path(), vec![b'0'; 10 << 20]).unwrap();
    assert_refused(&fsprobe(&["cpu", "--dump", file.path().to_str().unwrap()]), "no CPUID registers");
}

#[test]
fn a_brand_string_cannot_steer_the_terminal() {
    // The first letters of the brand become ESC ]0;
    let hostile = fixture("0a20f10-k19-vermeer").replace("eax=0x20444d41", "eax=0x3b305d1b");
    let text = stdout(&explain(hostile.as_bytes(), &[]));
    assert!(text.contains("\\u{1b}]0;") && !text.contains('\u{1b}'));
}
