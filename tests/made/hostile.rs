//! A report whose every text attacks whoever reads it: terminals, spreadsheets, browsers, forges, scrapers.

use fsprobe::report::*;
use serde_json::json;

/// Texts that attack, each in its own way.
pub const ATTACKS: [&str; 14] = [
    "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\0",
    "\u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}reversed",
    "line\r\nanother\u{2028}third\u{85}fourth\ttab",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3\u{0b}",
    "@SUM(1+1)",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "</script></style></title></textarea>--><!--]]>",
    "\" onload=\"alert(1)' x='&quot;&#60;&lt;",
    "| a | b |`code```fence ~~~ $x$ **bold** _em_",
    "[click](javascript:alert(1)) ![i](http://evil.example/i.png) <http://evil.example> http://evil.example www.evil.example",
    "# heading\n- item\n1. one\n> quote @everyone #1 me@evil.example",
    "\"} 1\n# EOF\nfsprobe_state{state=\"clean\"} 1 \\",
];

/// The report, every text of which is this one. It loads.
pub fn hostile(text: &str) -> Report {
    let evil = || text.to_owned();
    let mut report = super::inconclusive();
    report.tool = Tool { version: evil(), commit: Some(evil()), target: evil() };
    report.run.command = evil();
    report.run.shuffle = evil();
    report.run.stopped_by = Some(evil());
    report.run.complete = false;
    report.run.options.pages = evil();
    report.run.options.dst = evil();
    report.run.options.file = Some(evil());
    report.run.options.simulate = Some(evil());
    host(&mut report.host, text);
    let source = report.source.as_mut().expect("a source");
    (source.kind, source.fs_type) = (evil(), Some(evil()));
    report.noise.notes = vec![evil(); 9];
    report.placements.iter_mut().for_each(|p| p.how = evil());
    report.runs.iter_mut().for_each(|r| r.pages.truncate(1));
    report.cells.retain(|c| c.dst.is_some_and(|d| d < 0x40 || d % 0x55 == 0));
    report.verdict.reasons = vec![evil(); 9];
    report.verdict.signature = Some(evil());
    report.verdict.causes = serde_json::from_value(json!([
        {"layer": text, "predicted": text, "measured": text, "contradiction": text}
    ]))
    .expect("a cause");
    report.remedies = serde_json::from_value(json!([
        {"setting": text, "accepted": true, "before": 2.0, "after": null, "layer": text, "len": 4096, "note": text}
    ]))
    .expect("a remedy");
    report.pmu = serde_json::from_value(json!({
        "len": 4096, "counts": [], "no_kernel": text, "no_conflicts": text
    }))
    .expect("counters");
    report.skipped =
        vec![Skipped { path: PathName::Read, allocator: Some(Allocator::Pages), reason: evil() }; 9];
    report.rejudged = Some(Rejudged {
        by: Tool { version: evil(), commit: Some(evil()), target: evil() },
        recorded_state: State::Clean,
        differences: vec![evil(); 9],
    });
    report
}

fn host(host: &mut Host, text: &str) {
    let evil = || text.to_owned();
    host.simulated = Simulated::by(evil());
    host.model_source = Some(evil());
    let Host { cpu, kernel, libc, unknown, .. } = host;
    (cpu.vendor, cpu.signature) = (evil(), evil());
    (cpu.brand, cpu.microarchitecture) = (Some(evil()), Some(evil()));
    (kernel.release, kernel.copy_routine) = (evil(), Some(evil()));
    kernel.cmdline = Some(vec![evil(); 3]);
    kernel.vulnerabilities.insert(evil(), evil());
    (libc.name, libc.version, libc.package) = (evil(), Some(evil()), Some(evil()));
    libc.tunables = Some(vec![evil(); 3]);
    libc.rep_movsb_threshold = Host::take(unknown, "libc.rep_movsb_threshold", Fact::because(evil()));
    cpu.microcode = Host::take(unknown, "cpu.microcode", Fact::because(evil()));
    unknown.insert(evil(), evil());
    host.firmware =
        Some(Firmware { bios_version: Some(evil()), bios_date: Some(evil()), board: Some(evil()) });
    (host.hypervisor, host.clocksource, host.governor) = (Some(evil()), Some(evil()), Some(evil()));
    host.memory.thp = Some(evil());
}
