//! Every format of `fsprobe report`: golden files, what each promises, and that no report can attack its reader.

mod common;
mod made;

use common::{recorded, simulated_clean, stdout};
use expect_test::expect_file;
use fsprobe::render::csv::{COLUMNS, csv};
use fsprobe::render::markdown::markdown;
use fsprobe::render::openmetrics::openmetrics;
use fsprobe::render::terminal::{Style, sweep};
use fsprobe::render::ticket::ticket;
use fsprobe::report::{PAGE, Report, parse, to_json};
use made::hostile::{ATTACKS, hostile};
use pulldown_cmark::{Event, Options, Parser, Tag};
use std::io::Write;
use std::process::{Command, Stdio};

/// The report with the cells of three offsets, for formats that hold every sample.
fn few_cells(mut report: Report) -> Report {
    report.cells.retain(|c| c.src == Some(0) && c.dst.is_some_and(|d| d == 0 || d == 8 || d == PAGE));
    report.runs.iter_mut().for_each(|r| r.pages.truncate(1));
    report
}

#[test]
fn golden_outputs() {
    let reports =
        [("recorded", recorded()), ("clean", simulated_clean()), ("interrupted", made::interrupted())];
    for (name, report) in reports {
        let few = few_cells(report.clone());
        for (format, shown) in [
            ("terminal.txt", sweep(&report, Style::default())),
            ("ticket.txt", ticket(&report)),
            ("md", markdown(&report)),
            ("om", openmetrics(&report)),
            // golden files are read with plain line feeds
            ("csv", csv(&few).replace("\r\n", "\n")),
            ("json", to_json(&few)),
        ] {
            expect_file![format!("golden/report/{name}.{format}")].assert_eq(&shown);
        }
    }
}

fn all() -> Vec<Report> {
    let made =
        [made::zen4(), made::zen3(), made::interrupted(), made::many(), made::lengths(), made::plane()];
    let attacks = ATTACKS.iter().map(|attack| hostile(attack));
    let long = hostile(&"é|`<".repeat(2000));
    made.into_iter().chain(attacks).chain([long]).flat_map(|r| [as_check(&r), r]).collect()
}

/// The same, rendered in the words of `check`.
fn as_check(report: &Report) -> Report {
    let mut report = report.clone();
    report.run.command = "check".into();
    report
}

#[test]
fn tickets_are_ascii_in_80_columns() {
    for report in all() {
        for line in ticket(&report).lines() {
            assert!(line.len() <= 80, "{line}");
            assert!(line.bytes().all(|b| (b' '..=b'~').contains(&b)), "{line:?}");
            assert_eq!(line.trim_end(), line);
        }
    }
}

#[test]
fn markdown_takes_no_markup_from_a_report() {
    for report in all() {
        let text = markdown(&report);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
        let mut headings = 0;
        for event in
            Parser::new_ext(&text, Options::ENABLE_TABLES | Options::ENABLE_GFM | Options::ENABLE_MATH)
        {
            match event {
                Event::Html(html) | Event::InlineHtml(html) => assert!(is_own(&html), "{html}"),
                Event::Start(Tag::Link { .. } | Tag::Image { .. } | Tag::Emphasis | Tag::Strong) => {
                    panic!("markup: {text}")
                }
                Event::InlineMath(_) | Event::DisplayMath(_) => panic!("math: {text}"),
                Event::Start(Tag::Heading { .. }) => headings += 1,
                Event::Text(words) => {
                    assert!(!words.contains("http://") && !words.contains("www."), "an address: {words}");
                    assert!(!words.contains("@e"), "a mention: {words}");
                }
                _ => {}
            }
        }
        // of lengths and colours alone there are no bands to tell
        assert_eq!(headings, 2 + usize::from(text.contains("### Bands")), "{text}");
    }
}

/// Whether it is markup that the renderer itself writes.
fn is_own(html: &str) -> bool {
    let own = ["<details>", "</details>", "<summary>", "</summary>", "<!-- -->"];
    let rest = own.iter().fold(html.to_owned(), |html, tag| html.replace(tag, ""));
    !rest.contains(['<', '>'])
}

#[test]
fn csv_holds_every_sample_and_no_text_of_a_report() {
    for report in all() {
        let text = csv(&report);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        assert_eq!(reader.headers().unwrap(), &COLUMNS[..]);
        let rows: Vec<csv::StringRecord> = reader.records().map(|r| r.unwrap()).collect();
        assert_eq!(rows.len(), report.cells.iter().map(|c| c.ns.len()).sum::<usize>());
        let harmless = |field: &str| field.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        for row in &rows {
            assert!(row.iter().all(|field| harmless(field) && !field.starts_with('-')), "{row:?}");
        }
        let total = |column: &str| -> u64 {
            let at = COLUMNS.iter().position(|c| *c == column).unwrap();
            rows.iter().filter_map(|row| row[at].parse::<u64>().ok()).sum()
        };
        assert_eq!(total("ns"), report.cells.iter().flat_map(|c| &c.ns).flatten().sum::<u64>());
    }
}

#[test]
fn openmetrics_is_well_formed_whatever_a_report_says() {
    for report in all() {
        let text = openmetrics(&report);
        assert!(
            text.ends_with("\n# EOF\n") && text.matches("# EOF\n").count() == 1 + injected(&text),
            "{text}"
        );
        let mut family = String::new();
        for line in text.lines() {
            assert!(line.chars().all(|c| !c.is_control()), "{line:?}");
            match line.split_once(' ') {
                Some(("#", rest)) => {
                    if let Some(help) = rest.strip_prefix("HELP ") {
                        family = help.split(' ').next().unwrap().to_owned();
                    }
                }
                _ => assert_sample(line, &family),
            }
        }
    }
}

/// Ends of an exposition that stand within a label's quotes, on no line of their own.
fn injected(text: &str) -> usize {
    text.matches("# EOF\n").count() - text.lines().filter(|l| *l == "# EOF").count()
}

/// `name{label="value",…} number`, the values escaped.
fn assert_sample(line: &str, family: &str) {
    let rest = line.strip_prefix(family).unwrap_or_else(|| panic!("not of {family}: {line}"));
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => rest.rsplit_once("} ").expect(line),
        None => ("", rest.strip_prefix(' ').expect(line)),
    };
    assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
    let mut rest = labels;
    while !rest.is_empty() {
        let (name, value) = rest.split_once("=\"").expect(line);
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{line}");
        let mut escaped = false;
        let end = value.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        rest = &value[end.expect(line) + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

/// Whether promtool is here, installed in CI where that is possible.
fn has_promtool() -> bool {
    let has = || Command::new("promtool").arg("--version").output().is_ok_and(|o| o.status.success());
    if !has() && std::env::var_os("CI").is_some() {
        let install = "test \"$(id -u)\" = 0 && apt-get update -qq && \
            apt-get install -y -qq --no-install-recommends prometheus";
        let _ = Command::new("sh").args(["-c", install]).output();
    }
    has()
}

#[test]
fn prometheus_accepts_the_metrics() {
    if !has_promtool() {
        eprintln!("skipped: no promtool here (Debian package prometheus)");
        return;
    }
    for report in all().into_iter().chain([recorded(), simulated_clean()]) {
        let mut promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        promtool.stdin.take().unwrap().write_all(openmetrics(&report).as_bytes()).unwrap();
        let said = promtool.wait_with_output().unwrap();
        assert!(said.status.success(), "{}{}", stdout(&said), String::from_utf8_lossy(&said.stderr));
    }
}

#[test]
fn every_format_says_that_a_report_is_simulated() {
    let report = made::zen3();
    assert!(ticket(&report).to_lowercase().contains("simulated"));
    assert!(markdown(&report).to_lowercase().contains("simulated"));
    assert!(openmetrics(&report).lines().all(|l| l.starts_with('#') || l.contains("simulated=\"zen3\"")));
    assert!(csv(&few_cells(report)).lines().skip(1).all(|l| l.contains(",true,")));
}

#[test]
fn hostile_reports_load() {
    for attack in ATTACKS {
        let report = hostile(attack);
        assert_eq!(parse(to_json(&report).as_bytes(), "hostile").expect("a report"), report);
    }
}
