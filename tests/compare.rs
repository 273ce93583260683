//! `fsprobe compare`: what is told of a pair, what is credited, what is refused, what is shown.

mod common;

use clap::Parser;
use common::{Place, assert_fails, stdout, text};
use fsprobe::cli::{Cli, Verb};
use fsprobe::commands::sweep::simulated_with;
use fsprobe::judge::compare::{compare, trend};
use fsprobe::report::{Axis, Change, Comparison, Firmware, Report, Simulated, State, save};
use fsprobe::simulate::Model;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;

fn model(name: &str) -> Model {
    Model::named(name).expect(name)
}

/// A model's default sweep, with options of the command line.
fn swept(model: &Model, seed: u64, options: &[&str]) -> Report {
    let seed = seed.to_string();
    let words = ["fsprobe", "sweep", "--seed", &seed].into_iter().chain(options.iter().copied());
    match Cli::parse_from(words).verb {
        Verb::Sweep(args) => simulated_with(model, &args).expect("a sweep"),
        _ => unreachable!("the verb is sweep"),
    }
}

/// A look at the first offsets at 64 KiB: quick, and as sure as a whole sweep there.
fn brief(name: &str, seed: u64) -> Report {
    swept(&model(name), seed, &["--len", "64K", "--dst", "0x0-0x40", "--allocators", "glibc"])
}

fn compared(before: &Report, after: &Report) -> Comparison {
    compare(std::slice::from_ref(before), std::slice::from_ref(after)).expect("comparable")
}

/// A band by distance 0x001..0x00f before and after, at these slowdowns.
fn levels(before: f64, after: f64) -> Change {
    let options = ["--len", "64K", "--dst", "0x0-0x40", "--allocators", "glibc"];
    let run =
        |slowdown, seed| swept(&Model::with_band(Axis::Distance, 1, 15, slowdown, false), seed, &options);
    compared(&run(before, 1), &run(after, 2)).change
}

#[test]
fn a_band_has_to_fall_by_more_than_half_and_beyond_the_spread() {
    assert_eq!(levels(8.0, 2.5), Change::PartlyFixed);
    assert_eq!(levels(8.0, 7.0), Change::NotFixed);
    assert_eq!(levels(8.0, 4.5), Change::CannotTell, "by half, or a little less");
    assert_eq!(levels(2.5, 12.0), Change::Regressed);
    assert_eq!(levels(7.5, 12.0), Change::NotFixed, "the drift that was measured on one machine");
}

#[test]
fn a_band_near_the_limit_is_no_change() {
    assert_eq!(levels(2.1, 1.9), Change::CannotTell, "deep, then mild, is no fix");
    assert_eq!(levels(1.9, 2.1), Change::CannotTell);
    assert_eq!(levels(9.0, 1.5), Change::Fixed, "what is left is mild, and far from what was");
}

/// The same report as of a bare machine of which everything is known.
fn bare(report: &Report) -> Report {
    let mut report = report.clone();
    let host = &mut report.host;
    host.simulated = Simulated::REAL;
    host.cpu.microcode = Some(vec!["0x0a101148".into()]);
    host.firmware = Some(Firmware {
        bios_version: Some("2.4".into()),
        bios_date: Some("03/01/2026".into()),
        board: Some("H13SSL-N".into()),
    });
    host.kernel.release = "6.12.9".into();
    host.kernel.cmdline = Some(vec![]);
    host.libc.tunables = Some(vec![]);
    host.unknown.clear();
    report
}

/// A pair of bare machines whose band is gone after these changes.
fn fixed_by(change: impl FnOnce(&mut Report)) -> Comparison {
    let (before, mut after) = (bare(&brief("zen4", 1)), bare(&brief("zen4-mended", 2)));
    change(&mut after);
    let found = compared(&before, &after);
    assert_eq!((found.change, found.after.state), (Change::Fixed, State::Clean));
    found
}

/// What else is different after.
type Alteration = fn(&mut Report);

fn new_microcode(report: &mut Report) {
    report.host.cpu.microcode = Some(vec!["0x0a101154".into()]);
}

#[test]
fn a_lone_change_is_credited() {
    let credit = fixed_by(new_microcode).credit;
    assert_eq!(credit.credited.as_deref(), Some("microcode"));
    assert_eq!(credit.reason, "microcode 0x0a101148 → 0x0a101154 is the only relevant change");
    let kernel = fixed_by(|r| r.host.kernel.release = "6.18.1".into()).credit;
    assert_eq!(kernel.credited.as_deref(), Some("kernel"));
    // what follows from another change is none of its own
    let routine = fixed_by(|r| {
        r.host.kernel.cmdline = Some(vec!["clearcpuid=fsrm,erms".into()]);
        r.host.kernel.copy_routine = Some("rep_movs_alternative: rep movsq".into());
    });
    assert_eq!(routine.credit.credited.as_deref(), Some("kernel command line"));
    assert!(routine.differences.iter().any(|d| d.follows.is_some()));
}

#[test]
fn what_does_not_bear_on_a_path_neither_gets_nor_takes_credit() {
    let libc = |r: &mut Report| r.host.libc.version = Some("2.41".into());
    assert_eq!(fixed_by(libc).credit.credited, None, "read does not run the C library's copy");
    let both = fixed_by(|r| {
        libc(r);
        new_microcode(r);
        r.host.governor = Some("powersave".into());
    });
    assert_eq!(both.credit.credited.as_deref(), Some("microcode"));
    assert_eq!(both.differences.len(), 3);
}

#[test]
fn microcode_is_never_credited_where_anything_else_could_have_done_it() {
    let firmware = |r: &mut Report| r.host.firmware.as_mut().unwrap().bios_version = Some("2.5".into());
    let also: [(&str, Alteration); 9] = [
        ("kernel", |r| r.host.kernel.release = "6.18.1".into()),
        ("firmware", firmware),
        ("firmware unknown", |r| r.host.firmware = None),
        ("hypervisor", |r| r.host.hypervisor = Some("KVM".into())),
        ("microcode unknown", |r| r.host.cpu.microcode = None),
        ("mixed microcode", |r| r.host.cpu.microcode.as_mut().unwrap().push("0x0a101148".into())),
        ("command line", |r| r.host.kernel.cmdline = Some(vec!["mitigations=off".into()])),
        ("bits", |r| r.host.cpu.features.erms.cpuid = false),
        ("fsprobe", |r| r.tool.version = "0.2.0".into()),
    ];
    for (what, change) in also {
        let credit = fixed_by(|r| {
            new_microcode(r);
            change(r);
        })
        .credit;
        assert_eq!(credit.credited, None, "{what}: {}", credit.reason);
    }
    // under a hypervisor on both sides, though both show a revision
    let virtual_machine = |report: &Report| {
        let mut report = bare(report);
        report.host.hypervisor = Some("KVM".into());
        report
    };
    let before = virtual_machine(&brief("zen4", 1));
    let mut after = virtual_machine(&brief("zen4-mended", 2));
    new_microcode(&mut after);
    let credit = compared(&before, &after).credit;
    assert_eq!(credit.credited, None);
    assert!(credit.reason.contains("hypervisor"), "{}", credit.reason);
}

#[test]
fn what_became_unknown_is_never_credited() {
    let lost: [Alteration; 5] = [
        |r| r.host.cpu.microcode = Some(vec![]),
        |r| r.host.memory.l3 = None,
        |r| r.host.cpu.features.fsrm.kernel = None,
        |r| drop(r.host.kernel.vulnerabilities.insert("spec_store_bypass".into(), "Vulnerable".into())),
        |r| r.host.cpu.microcode = None,
    ];
    for lose in lost {
        let credit = fixed_by(lose).credit;
        assert!(credit.credited.is_none() && credit.reason.contains("unknown"), "{}", credit.reason);
    }
}

#[test]
fn a_copy_routine_follows_from_microcode_too() {
    let found = fixed_by(|r| {
        new_microcode(r);
        r.host.kernel.copy_routine = Some("rep_movs_alternative: rep movsq".into());
    });
    assert_eq!(found.credit.credited.as_deref(), Some("microcode"), "{}", found.credit.reason);
}

#[test]
fn one_report_is_no_spread() {
    let (before, after) = (brief("zen4", 1), brief("zen4", 2));
    let refused = compare(&[before.clone(), before.clone(), before], &[after]).unwrap_err().to_string();
    assert!(refused.contains("twice"), "{refused}");
}

#[test]
fn without_a_claim_nothing_is_credited() {
    let (before, mut after) = (bare(&brief("zen4", 1)), bare(&brief("zen4", 2)));
    new_microcode(&mut after);
    let found = compared(&before, &after);
    assert_eq!((found.change, &found.credit.credited), (Change::NotFixed, &None));
}

#[test]
fn a_run_cut_short_counts_for_what_it_confirmed() {
    let cut = |name| {
        let mut report = brief(name, 2);
        (report.run.complete, report.run.stopped_by) = (false, Some("SIGINT".into()));
        report
    };
    let found = compared(&brief("zen4", 1), &cut("zen4-mended"));
    assert_eq!((found.change, found.after.state), (Change::CannotTell, State::Inconclusive));
    assert_eq!(compared(&brief("zen4", 1), &cut("zen4")).change, Change::NotFixed);
    assert!(found.caveats.iter().any(|c| c.contains("cut short")), "{:?}", found.caveats);
}

#[test]
fn an_offset_that_nobody_looked_at_is_not_fixed() {
    let narrow = swept(
        &model("zen4-mended"),
        2,
        &["--len", "64K", "--dst", "0x0-0x4,0x20-0x40", "--allocators", "glibc"],
    );
    let found = compared(&brief("zen4", 1), &narrow);
    assert_eq!(found.change, Change::CannotTell, "{:?}", found.reasons);
    assert!(found.reasons[0].contains("did not look"), "{:?}", found.reasons);
    let back = compared(&narrow, &brief("zen4", 1));
    assert_eq!(back.change, Change::CannotTell, "nor regressed: {:?}", back.reasons);
}

#[test]
fn old_verdicts_are_judged_again_and_limits_made_one() {
    let (mut before, mut after) = (brief("zen4", 1), brief("zen4-mended", 2));
    before.verdict = after.verdict.clone();
    after.run.options.affected_at = 3.0;
    let found = compared(&before, &after);
    assert_eq!(found.change, Change::Fixed);
    let again = found.before.reports[0].rejudged.as_deref();
    assert_eq!(again, Some("recorded as clean, affected by today's rules"));
    assert!(
        found.caveats.iter().any(|c| c.contains("all are judged with the lowest, 2x")),
        "{:?}",
        found.caveats
    );
}

#[test]
fn several_reports_a_side_measure_the_spread() {
    let side = |name: &str| (0..3).map(|seed| brief(name, seed)).collect::<Vec<_>>();
    let found = compare(&side("zen4"), &side("zen4-mended")).unwrap();
    assert_eq!(found.change, Change::Fixed);
    assert!(found.spread.measured && found.spread.factor < 1.3, "{:?}", found.spread);
    // one that disagrees with two leaves the side in doubt
    let mut mixed = side("zen4-mended");
    mixed[0] = brief("zen4", 9);
    let found = compare(&side("zen4"), &mixed).unwrap();
    assert_eq!((found.change, found.after.state), (Change::CannotTell, State::Inconclusive));
    assert!(found.reasons.iter().any(|r| r.contains("disagree")), "{:?}", found.reasons);
}

/// Reports as files, and fsprobe run on them.
struct Files(Place);

impl Files {
    fn new() -> Files {
        Files(Place::new())
    }

    fn with(&self, name: &str, report: &Report) -> PathBuf {
        let path = self.0.path(name);
        save(report, &path, true).unwrap();
        path
    }

    fn compare(&self, files: &[&Path], options: &[&str]) -> Output {
        let files = files.iter().map(|f| text(f));
        self.0.run(&["compare"].into_iter().chain(files).chain(options.iter().copied()).collect::<Vec<_>>())
    }
}

#[test]
fn the_exit_code_tells_the_later_state() {
    let files = Files::new();
    let before = files.with("before", &bare(&brief("zen4", 1)));
    let mut mended = bare(&brief("zen4-mended", 2));
    new_microcode(&mut mended);
    let mended = files.with("mended", &mended);
    let fixed = files.compare(&[&before, &mended], &[]);
    assert_eq!(fixed.status.code(), Some(0), "{}", stdout(&fixed));
    let shown = stdout(&fixed);
    assert!(shown.starts_with("FIXED: read is no longer slow."), "{shown}");
    assert!(shown.contains("microcode 0x0a101148 → 0x0a101154 is the only relevant change."), "{shown}");
    assert!(shown.lines().all(|l| l.chars().count() <= 80), "{shown}");
    let regressed = files.compare(&[&mended, &before], &[]);
    assert_eq!(regressed.status.code(), Some(1), "{}", stdout(&regressed));
    assert!(stdout(&regressed).starts_with("REGRESSED: "));
    let mut cut = bare(&brief("zen4-mended", 3));
    cut.run.complete = false;
    let unsure = files.compare(&[&before, &files.with("cut", &cut)], &[]);
    assert_eq!(unsure.status.code(), Some(3), "{}", stdout(&unsure));
    assert!(stdout(&unsure).starts_with("CANNOT TELL: after is inconclusive"), "{}", stdout(&unsure));
}

#[test]
fn what_is_not_comparable_is_refused_with_the_reason() {
    let files = Files::new();
    let zen4 = brief("zen4", 1);
    let before = files.with("before", &zen4);
    let altered = |change: fn(&mut Report)| {
        let mut report = zen4.clone();
        change(&mut report);
        files.with("after", &report)
    };
    let refused = |after: PathBuf, part: &str| {
        assert_fails(&files.compare(&[&before, &after], &[]), &["not comparable", part])
    };
    refused(
        files.with("after", &brief("zen3", 1)),
        "different CPU models, AMD EPYC 9004 series (0x00a10f11, stepping 1) and",
    );
    refused(files.with("after", &bare(&zen4)), "simulated (zen4), another measured on a real machine");
    refused(altered(|r| r.host.cpu.brand = Some("AMD EPYC 9654".into())), "different CPU models");
    refused(altered(|r| r.run.options.pages = "thp".into()), "--pages 4k and thp");
    refused(altered(|r| r.run.options.first_touch = true), "--first-touch");
    let len = swept(&model("zen4"), 1, &["--len", "4K", "--dst", "0x0-0x40", "--allocators", "glibc"]);
    refused(files.with("after", &len), "no copy path, allocator and length in common");
    assert_fails(&files.compare(&[&before], &[]), &["two reports"]);
    assert_fails(&files.compare(&[&before, &before, &before], &[]), &["--trend"]);
    assert_fails(&files.compare(&[&before, Path::new("/nowhere.json")], &[]), &["cannot read /nowhere.json"]);
    assert_fails(&files.compare(&[&before], &["--trend"]), &["at least two"]);
}

#[test]
fn json_markdown_and_several_a_side() {
    let files = Files::new();
    let [b, a] = ["zen4", "zen4-half"].map(|name| files.with(name, &brief(name, 4)));
    let b2 = files.with("again", &brief("zen4", 5));
    let json = files.compare(&[], &["--before", text(&b), text(&b2), "--after", text(&a), "--json"]);
    assert_eq!(json.status.code(), Some(1));
    let document: Value = serde_json::from_str(&stdout(&json)).unwrap();
    assert_eq!(document["schema"], serde_json::json!({"name": "fsprobe-compare", "version": 1}));
    let found = &document["compare"];
    assert_eq!(found["change"], "partly fixed");
    assert_eq!(found["before"]["reports"].as_array().unwrap().len(), 2);
    assert_eq!(found["groups"][0]["after"]["bands"][0]["to"], 7);
    assert_eq!(document["host"]["simulated"], "zen4-half");
    let markdown = stdout(&files.compare(&[&b, &a], &["--format", "markdown"]));
    assert!(markdown.starts_with("**PARTLY FIXED** (simulated: zen4 and zen4-half): "), "{markdown}");
    assert!(
        markdown.contains("| read | glibc | 64 KiB | partly fixed | distance 0x001-0x00f: 7.2x ("),
        "{markdown}"
    );
}

#[test]
fn a_trend_is_one_line_a_report_in_the_order_of_time() {
    let dated = |name, at: &str| {
        let mut report = brief(name, 5);
        report.recorded_at = at.into();
        report
    };
    let reports = [
        dated("zen4-mended", "2026-03-01T08:00:00Z"),
        dated("zen4", "2026-01-01T08:00:00Z"),
        dated("zen4-half", "2026-02-01T08:00:00Z"),
    ];
    let found = trend(&reports).unwrap();
    let changes: Vec<Option<Change>> = found.points.iter().map(|p| p.change).collect();
    assert_eq!(changes, [None, Some(Change::PartlyFixed), Some(Change::Fixed)]);
    assert_eq!(found.overall.change, Change::Fixed);
    let files = Files::new();
    let paths: Vec<PathBuf> = reports.iter().zip(["c", "a", "b"]).map(|(r, n)| files.with(n, r)).collect();
    let output = files.compare(&paths.iter().map(PathBuf::as_path).collect::<Vec<_>>(), &["--trend"]);
    assert_eq!(output.status.code(), Some(0));
    let shown = stdout(&output);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(
        lines[1].starts_with("2026-01-01 08:00:00 affected      -            0x001-0x00f  7.2x"),
        "{shown}"
    );
    assert!(lines[3].starts_with("2026-03-01 08:00:00 clean         fixed"), "{shown}");
}

#[test]
fn hostile_facts_cannot_steer_the_terminal_or_the_forge() {
    let hostile = "\u{1b}[31m<script>|`x`\u{202e} @root https://e.org";
    let (before, mut after) = (brief("zen4", 1), brief("zen4-mended", 2));
    after.host.kernel.release = hostile.into();
    after.tool.version = hostile.into();
    after.host.kernel.vulnerabilities.insert(hostile.into(), hostile.into());
    let files = Files::new();
    let mut other = after.clone();
    other.host.cpu.brand = Some(hostile.to_owned() + "\r\nsecond line");
    let [before, after] = [files.with("before", &before), files.with("after", &after)];
    let refused = files.compare(&[&before, &files.with("other", &other)], &[]);
    assert_fails(&refused, &["different CPU models"]);
    assert!(!common::stderr(&refused).contains(['\u{1b}', '\u{202e}', '\r']));
    for format in ["terminal", "markdown"] {
        let shown = stdout(&files.compare(&[&before, &after], &["--format", format]));
        assert!(shown.contains("script"), "{shown}");
        assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
        if format == "markdown" {
            assert!(
                !shown.contains("<script>") && !shown.contains("@root") && !shown.contains("https:"),
                "{shown}"
            );
        }
    }
}

/// A report of the documentation's example: a simulated machine in a host made up for it.
fn example(name: &str, seed: u64, microcode: &str, recorded_at: &str) -> Report {
    let mut report = bare(&swept(
        &model(name),
        seed,
        &["--len", "64K", "--dst", "0x0-0x20", "--src", "0x0", "--rounds", "7", "--allocators", "glibc"],
    ));
    report.host.simulated = Simulated::by(name);
    report.host.cpu.microcode = Some(vec![microcode.into()]);
    report.recorded_at = recorded_at.into();
    report.run.duration_s = 1.0;
    (report.tool.commit, report.tool.target) = (None, "x86_64-unknown-linux-gnu".into());
    report
}

/// The example of docs/compare.md: `UPDATE_EXPECT=1` makes its reports and its text anew.
#[test]
fn the_documents_example_is_what_fsprobe_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let [before, after] = ["before", "after"].map(|side| folder.join(format!("compare/{side}.json")));
    let document = folder.join("compare.md");
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    if update {
        let dates = ["2026-11-02T09:00:00Z", "2026-11-30T09:00:00Z"];
        save(&example("zen4", 1, "0x0a101148", dates[0]), &before, true).unwrap();
        save(&example("zen4-mended", 2, "0x0a101154", dates[1]), &after, true).unwrap();
    }
    let output = Files::new().compare(&[&before, &after], &[]);
    assert_eq!(output.status.code(), Some(0));
    let prose = std::fs::read_to_string(&document).unwrap();
    let (head, rest) = prose.split_once("```text\n").expect("the example");
    let (shown, tail) = rest.split_once("```\n").expect("its end");
    if update {
        std::fs::write(&document, format!("{head}```text\n{}```\n{tail}", stdout(&output))).unwrap();
    } else {
        assert_eq!(shown, stdout(&output));
    }
    for file in [before, after] {
        assert!(file.metadata().unwrap().len() < 100_000, "{} is kept small", file.display());
    }
}
