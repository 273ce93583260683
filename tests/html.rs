//! The HTML report and the plots: golden files, structure, hostile strings, the data inside, and a browser.

mod common;
mod made;

use base64::Engine;
use expect_test::expect_file;
use fsprobe::render::{html::html, plot};
use fsprobe::report::{self, Allocator, Fact, Host, PAGE, PathName, Report, Simulated, Skipped};
use serde_json::{Value, json};
use std::io::Read;
use std::path::Path;
use std::process::Command;

fn all() -> [(&'static str, Report); 8] {
    [
        ("zen4", made::zen4()),
        ("zen3", made::zen3()),
        ("interrupted", made::interrupted()),
        ("recorded", made::recorded()),
        ("plane", made::plane()),
        ("many", made::many()),
        ("lengths", made::lengths()),
        ("hostile", hostile()),
    ]
}

/// A report all of whose strings try to become markup, script or direction.
fn hostile() -> Report {
    let evil =
        "</script></title></style>--><script>alert(1)</script><img src=\"http://evil.example/x\" onerror='a()'>&quot;\
         \u{1b}[2J\u{202e}\u{2066}\0\r\n\u{fffe}"
            .to_owned();
    let mut report = made::short();
    report.host.simulated = Simulated::by(evil.clone());
    report.host.model_source = Some(evil.clone());
    report.run.command = evil.clone();
    report.run.stopped_by = Some(evil.clone());
    report.run.complete = false;
    report.run.options.pages = evil.clone();
    (report.tool.version, report.tool.commit) = (evil.clone(), Some(evil.clone()));
    let Host { cpu, kernel, libc, hypervisor, unknown, .. } = &mut report.host;
    (cpu.vendor, cpu.signature) = (evil.clone(), evil.clone());
    (cpu.brand, cpu.microarchitecture) = (Some(evil.clone()), Some(evil.clone()));
    (kernel.release, kernel.copy_routine) = (evil.clone(), Some(evil.clone()));
    kernel.cmdline = Some(vec![evil.clone(); 3]);
    kernel.vulnerabilities.insert(evil.clone(), evil.clone());
    (libc.name, libc.version, libc.package) = (evil.clone(), Some(evil.clone()), Some(evil.clone()));
    libc.rep_movsb_threshold = Host::take(unknown, &evil, Fact::because(evil.clone()));
    *hypervisor = Some(evil.clone());
    report.source.as_mut().expect("a source").fs_type = Some(evil.clone());
    report.verdict.reasons = vec![evil.clone(); 9];
    report.verdict.signature = Some(evil.clone());
    report.verdict.causes = serde_json::from_value(json!([
        {"layer": evil, "predicted": evil, "measured": evil, "contradiction": evil}
    ]))
    .expect("a cause");
    report.remedies = serde_json::from_value(json!([
        {"setting": evil, "accepted": true, "before": 7.0, "after": 1.0, "layer": evil, "note": evil}
    ]))
    .expect("a remedy");
    report.noise.notes = vec![evil.clone()];
    report.skipped =
        vec![Skipped { path: PathName::Read, allocator: Some(Allocator::Pages), reason: evil.clone() }; 3];
    report
}

/// Real cells would fill a golden file: every other offset far from 0x000 is left out.
fn small(mut report: Report) -> Report {
    report.cells.retain(|c| {
        let near = |o: u16| o < 0x14 || o.is_multiple_of(0x155) || o == PAGE;
        c.dst.is_some_and(near) && c.src.is_some_and(near)
    });
    report
}

/// A page or plot without the packed data, of which another test looks after.
fn without_data(page: &str) -> String {
    let Some((before, rest)) = page.split_once("gzip;base64,") else { return page.into() };
    let (_, after) = rest.split_once('"').expect("the end of the link");
    let sizes = after.find("</a> (").map(|at| at + 6..at + after[at..].find(')').expect("the sizes' end"));
    let mut after = after.to_owned();
    after.replace_range(sizes.expect("sizes"), "…");
    format!("{before}gzip;base64,…\"{after}")
}

#[test]
fn golden_pages_and_plot() {
    let page = |report: &Report| without_data(&html(report));
    expect_file!["golden/recorded.html"].assert_eq(&page(&small(common::recorded())));
    expect_file!["golden/clean.html"].assert_eq(&page(&small(common::simulated_clean())));
    expect_file!["golden/zen3.html"].assert_eq(&page(&small(made::zen3())));
    expect_file!["golden/interrupted.html"].assert_eq(&page(&small(made::interrupted())));
    expect_file!["golden/zen4.svg"].assert_eq(&plot::svg(&small(made::zen4())));
}

/// One tag: its name, whether it opens, closes or both, and its attributes as written.
fn tags(page: &str) -> Vec<(String, bool, bool, String)> {
    let body = page.strip_prefix("<!DOCTYPE html>").unwrap_or(page);
    let mut tags = Vec::new();
    let mut rest = body;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let mut quoted = false;
        let end = rest
            .char_indices()
            .find(|(_, c)| {
                quoted ^= *c == '"';
                *c == '>' && !quoted
            })
            .expect("a tag ends")
            .0;
        let (tag, after) = rest.split_at(end);
        assert!(!tag.contains('<'), "a tag within a tag: <{tag}>");
        rest = &after[1..];
        let closes = tag.starts_with('/');
        let alone = tag.ends_with('/');
        let tag = tag.trim_start_matches('/').trim_end_matches('/');
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "<{tag}>");
        tags.push((name.to_owned(), closes, alone, attributes.to_owned()));
    }
    tags
}

/// Every element that opens closes, in order; ids are unique and what points to them finds them.
fn assert_well_formed(name: &str, page: &str) {
    const VOID: [&str; 3] = ["meta", "link", "br"];
    let mut open: Vec<String> = vec![];
    let (mut ids, mut wanted) = (vec![], vec![]);
    for (element, closes, alone, attributes) in tags(page) {
        if closes {
            assert_eq!(open.pop().as_deref(), Some(element.as_str()), "{name}: wrong end tag");
            continue;
        }
        if !alone && !VOID.contains(&element.as_str()) {
            open.push(element.clone());
        }
        let of = |key: &str| {
            let (_, rest) = attributes.split_once(&format!("{key}=\""))?;
            rest.split_once('"').map(|(value, _)| value.to_owned())
        };
        ids.extend(format!(" {attributes}").contains(" id=\"").then(|| of("id")).flatten());
        wanted.extend(of("aria-labelledby").iter().flat_map(|v| v.split(' ')).map(str::to_owned));
        wanted.extend(of("href").and_then(|h| h.strip_prefix('#').map(str::to_owned)));
    }
    assert!(open.is_empty(), "{name}: left open: {open:?}");
    let mut unique = ids.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), ids.len(), "{name}: an id stands twice");
    for id in wanted {
        assert!(unique.contains(&id), "{name}: nothing has the id {id}");
    }
}

#[test]
fn every_page_is_well_formed_and_asks_nothing_of_a_network() {
    for (name, report) in all() {
        let (page, plot) = (html(&report), plot::svg(&report));
        assert_well_formed(name, &page);
        assert_well_formed(name, &plot);
        let page = without_data(&page);
        // the only address is the name of SVG's elements; all else that looks like one is text
        let addresses = page.replace("http://www.w3.org/2000/svg", "");
        for (element, _, _, attributes) in tags(&addresses) {
            assert!(
                !["script", "iframe", "object", "img", "image", "use", "base"].contains(&element.as_str())
            );
            assert!(!attributes.contains("http:") && !attributes.contains("https:"), "{name}: {attributes}");
            assert!(!attributes.contains(" on"), "{name}: {attributes}");
            for key in ["href=\"", "src=\""] {
                for value in attributes.split(key).skip(1) {
                    assert!(value.starts_with('#') || value.starts_with("data:"), "{name}: {value}");
                }
            }
        }
        assert!(!page.contains("@import") && !page.contains("url("), "{name}");
        assert!(page.contains("default-src 'none'"), "{name}");
        for text in [&page, &plot] {
            assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{name}: a control character");
            assert!(!text.contains(['\u{202e}', '\u{2066}', '\u{fffe}']), "{name}: steers direction");
        }
    }
}

#[test]
fn a_hostile_report_is_told_as_text() {
    let page = without_data(&html(&hostile()));
    assert!(!page.contains("<script") && !page.contains("<img"), "markup came through");
    assert!(page.contains("&lt;/script&gt;"), "the text is shown");
    assert_eq!(page.matches("</style>").count(), 1);
    assert_eq!(page.matches("</title>").count(), 1 + page.matches("<title id=").count());
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
}

#[test]
fn a_page_has_its_landmarks_headings_and_table_heads() {
    for (name, report) in all() {
        let page = html(&report);
        for part in
            ["<html lang=\"en\">", "name=\"viewport\"", "class=\"skip\" href=\"#main\"", "<main id=\"main\""]
        {
            assert!(page.contains(part), "{name}: no {part}");
        }
        assert_eq!(page.matches("<h1>").count(), 1, "{name}");
        let levels = tags(&page).into_iter().filter(|(_, closes, ..)| !closes);
        let levels = levels.filter_map(|(element, ..)| element.strip_prefix('h')?.parse::<u8>().ok());
        levels.reduce(|last, level| {
            assert!(level <= last + 1, "{name}: h{level} follows h{last}");
            level
        });
        let tables = page.matches("<table>").count();
        assert_eq!(page.matches("<caption ").count(), tables, "{name}");
        assert_eq!(page.matches("<thead>").count(), tables, "{name}");
        assert!(
            !page.replace("<th scope=", "").replace("<thead", "").contains("<th"),
            "{name}: th without scope"
        );
        let figures = page.matches("<svg ").count();
        assert_eq!(
            page.matches("<svg class=\"plot\" role=\"img\" aria-labelledby=").count(),
            figures,
            "{name}"
        );
        assert_eq!(page.matches("<desc ").count(), figures, "{name}");
    }
}

#[test]
fn the_page_says_what_the_terminal_says() {
    let page = html(&made::zen4());
    for sentence in [
        "read is slow when the destination lies 1 to 15 bytes past its source",
        "whichever allocator.",
        "This CPU is an AMD Zen 4",
        "at 0x010: outside the band",
        "What disturbed the run: 12 involuntary context switches.",
        "microcode unknown (under a hypervisor the value is made up)",
        "7.3x deep",
        "triangles: where allocators put buffers",
    ] {
        assert!(page.contains(sentence), "no '{sentence}'");
    }
    assert!(!page.to_lowercase().contains("simulated:"));
    let simulated = html(&made::zen3());
    let main = simulated.find("<main").expect("the main part");
    assert!(simulated[..main].contains("SIMULATED: zen3 — nothing below was measured on this machine"));
    assert!(simulated.contains("<h2>AFFECTED (simulated: zen3)</h2>"));
    assert!(plot::svg(&made::zen3()).contains("SIMULATED: zen3"));
    assert!(html(&made::interrupted()).contains("The run ended early (SIGINT)"));
    assert!(html(&made::plane()).contains("the distance alone decides"));
}

#[test]
fn lines_are_told_apart_without_colour() {
    let page = html(&made::zen4());
    for (class, dashed) in [("series-0", false), ("series-1", true), ("series-2", true)] {
        assert!(page.contains(&format!("<polyline class=\"{class}\"")), "{class}");
        assert_eq!(page.contains(&format!("polyline.{class}{{stroke-dasharray:")), dashed, "{class}");
    }
}

/// The report that a page holds.
fn taken_out(page: &str) -> Vec<u8> {
    let (_, rest) = page.split_once("data:application/gzip;base64,").expect("the data");
    let (packed, _) = rest.split_once('"').expect("the end of the data");
    let packed = base64::engine::general_purpose::STANDARD.decode(packed).expect("base64");
    let mut json = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut json).expect("gzip");
    json
}

#[test]
fn the_data_in_the_page_is_the_report() {
    for (name, report) in all() {
        let json = taken_out(&html(&report));
        assert_eq!(report::parse(&json, name).expect("a report"), report, "{name}");
    }
}

#[test]
fn the_command_in_the_page_takes_the_data_out() {
    let folder = tempfile::tempdir().unwrap();
    let report = made::interrupted();
    let page = html(&report);
    std::fs::write(folder.path().join("report.html"), &page).unwrap();
    let (_, command) = page.split_once("<pre><code>").expect("a command");
    let (command, _) = command.split_once("</code>").expect("its end");
    let tools = Command::new("sh").args(["-c", "command -v sed base64 gunzip"]).output().unwrap();
    if !tools.status.success() {
        eprintln!("SKIPPED: sed, base64 and gunzip are not all here");
        return;
    }
    let command = command.replace("&gt;", ">");
    let output = Command::new("sh").args(["-c", &command]).current_dir(&folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(std::fs::read_to_string(folder.path().join("report.json")).unwrap(), report::to_json(&report));
}

#[test]
fn a_png_is_one_and_shows_something() {
    for (name, report) in [("zen4", made::zen4()), ("lengths", made::lengths()), ("hostile", hostile())] {
        let png = plot::png(&report).unwrap_or_else(|e| panic!("{name}: {e}"));
        let picture = tiny_skia::Pixmap::decode_png(&png).expect("a PNG");
        let ground = picture.pixels()[0];
        let drawn = picture.pixels().iter().filter(|p| **p != ground).count();
        assert!(drawn > 1000, "{name}: {drawn} pixels");
        assert!(picture.width() >= 2000 && picture.height() >= 150, "{name}");
        assert_eq!(png, plot::png(&report).expect("again"), "{name}: not the same twice");
    }
}

/// A browser, if one is installed.
fn browser() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok());
    if found.is_none() {
        eprintln!("SKIPPED: no Chromium is installed (Debian's package: chromium)");
    }
    found
}

/// Opens a page: the document as the browser has it in the end, and what it logged on the console.
fn opened(browser: &str, file: &Path, dark: bool) -> (String, Vec<String>) {
    let data = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000", "--window-size=1280,900"])
        .arg(format!("--user-data-dir={}", data.path().display()))
        .arg(format!("--blink-settings=preferredColorScheme={}", if dark { 0 } else { 1 }))
        .arg("--dump-dom")
        .arg(file)
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    let console: Vec<String> = log.lines().filter(|l| l.contains("CONSOLE")).map(str::to_owned).collect();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(dom.contains("</html>"), "the browser showed nothing: {log}");
    (dom, console)
}

/// Measures a page from within: what overflows, what is hard to read, what was loaded.
const LOOK: &str = r#"<script>
addEventListener("load", () => {
  document.querySelectorAll("details").forEach(d => d.open = true);
  const parts = c => c.match(/[\d.]+/g).map(Number);
  const luminance = c => {
    const [r, g, b] = parts(c).map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = e => {
    for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if ((parts(c)[3] ?? 1) > 0) return c;
    }
    return "rgb(255, 255, 255)";
  };
  let texts = 0;
  const faint = [];
  for (const e of document.body.querySelectorAll("*")) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!own || ["SCRIPT", "title", "desc"].includes(e.nodeName)) continue;
    const ink = e.ownerSVGElement ? getComputedStyle(e).fill : getComputedStyle(e).color;
    const [a, b] = [luminance(ink), luminance(ground(e))];
    texts += 1;
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) faint.push(e.textContent.slice(0, 30) + " " + ratio.toFixed(2));
  }
  const page = document.documentElement;
  const loaded = performance.getEntriesByType("resource").map(r => r.name).filter(n => !n.startsWith("data:"));
  parent.postMessage({width: innerWidth, over: page.scrollWidth - page.clientWidth, texts, faint, loaded,
    dark: matchMedia("(prefers-color-scheme: dark)").matches}, "*");
});
</script></body>"#;

/// Shows a page in a frame of some width and repeats what it found.
const FRAME: &str = r#"<!DOCTYPE html><html><head><meta name="color-scheme" content="light dark"></head><body>
<script>onmessage = m => document.getElementById("found").textContent = JSON.stringify(m.data);</script>
<pre id="found"></pre><iframe src="page.html" style="width:WIDTHpx;height:800px;border:0"></iframe></body></html>"#;

/// What a page finds when it looks at itself.
fn look(browser: &str, page: &str, width: u32, dark: bool) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let scripted = page.replace("default-src 'none'", "default-src 'none'; script-src 'unsafe-inline'");
    std::fs::write(folder.path().join("page.html"), scripted.replace("</body>", LOOK)).unwrap();
    let frame = folder.path().join("frame.html");
    std::fs::write(&frame, FRAME.replace("WIDTH", &width.to_string())).unwrap();
    let (dom, console) = opened(browser, &frame, dark);
    let found = dom.split_once("id=\"found\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let found = found.unwrap_or_else(|| panic!("no answer: {console:?}")).0.replace("&amp;", "&");
    serde_json::from_str(&found).unwrap_or_else(|e| panic!("{e}: {found:?}, {console:?}"))
}

#[test]
fn a_browser_has_nothing_to_complain_of() {
    let Some(browser) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    let page = html(&hostile());
    std::fs::write(&file, &page).unwrap();
    assert_eq!(opened(browser, &file, false).1, Vec::<String>::new());
    // were there anything to load, the policy would refuse it on the console
    let asking = page.replace("</main>", "<img src=\"http://127.0.0.1:9/x.png\" alt=\"\"></main>");
    std::fs::write(&file, asking).unwrap();
    let (_, console) = opened(browser, &file, false);
    assert!(console.iter().any(|line| line.contains("Content Security Policy")), "{console:?}");
}

#[test]
fn a_browser_shows_it_readably_at_every_width_in_both_schemes() {
    let Some(browser) = browser() else { return };
    for (report, width, dark) in [
        (made::many(), 360, false),
        (made::short(), 360, true),
        (made::recorded(), 360, false),
        (hostile(), 1280, true),
        (made::interrupted(), 1280, false),
    ] {
        let found = look(browser, &html(&report), width, dark);
        assert_eq!(found["width"], width, "{found}");
        assert_eq!(found["dark"], dark, "{found}");
        assert_eq!(found["over"], 0, "the page scrolls sideways: {found}");
        assert_eq!(found["faint"], json!([]), "contrast below 4.5");
        assert_eq!(found["loaded"], json!([]));
        assert!(found["texts"].as_u64().is_some_and(|n| n > 50), "{found}");
    }
    let faint = html(&made::interrupted()).replace("--muted:#525c67", "--muted:#aaaaaa");
    let wide = faint.replace("<h1>", "<p style=\"width:500px\">wide</p><h1>");
    let found = look(browser, &wide, 360, false);
    assert!(found["over"].as_u64().is_some_and(|n| n > 0), "a wide page goes unseen: {found}");
    assert_ne!(found["faint"], json!([]), "a faint text goes unseen");
}
