//! The documents say what is so: their links lead somewhere, and the options they name exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const DOCUMENTS: [&str; 12] = [
    "README.md",
    "CHANGELOG.md",
    "docs/bias.md",
    "docs/compare.md",
    "docs/experiments.md",
    "docs/exposure.md",
    "docs/methodology.md",
    "docs/report-format.md",
    "docs/signatures.md",
    "docs/trace.md",
    "reports/README.md",
    "tests/recordings/README.md",
];

fn read(document: &str) -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
    let text = std::fs::read_to_string(&path).expect(document);
    (path, text)
}

/// Targets of a text's links within the repository.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|t| !t.contains("://") && !t.starts_with('#')).collect()
}

/// Long options in a text.
fn options(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.filter(|w| w.starts_with("--") && w.len() > 3).map(str::to_owned).collect()
}

#[test]
fn links_lead_to_files() {
    let mut seen = 0;
    for document in DOCUMENTS {
        let (path, text) = read(document);
        for link in links(&text) {
            let target = path.parent().expect("a folder").join(link.split('#').next().expect("a path"));
            assert!(target.exists(), "{document} links to {link}, which is not there");
            seen += 1;
        }
    }
    assert!(seen > 5, "links were found");
}

#[test]
fn options_in_the_readme_exist() {
    let help = |verb: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_fsprobe")).args([verb, "--help"]).output();
        String::from_utf8(output.expect("fsprobe runs").stdout).expect("UTF-8")
    };
    let verbs = ["sweep", "cpu", "check", "compare", "report", "trace", "exposure", "cat", "pipe", "readers"];
    let known = options(&verbs.map(help).concat());
    assert!(known.len() > 15, "{known:?}");
    // options of other programs that the README shows
    let foreign: BTreeSet<String> = ["--release", "--test"].map(str::to_owned).into();
    let named = options(&read("README.md").1);
    let unknown: Vec<&String> =
        named.iter().filter(|o| !known.contains(*o) && !foreign.contains(*o)).collect();
    assert!(unknown.is_empty() && !named.is_empty(), "{unknown:?}");
    let (silent, all) = (known.difference(&named).collect::<Vec<_>>(), ["--help"]);
    assert!(silent.iter().all(|o| all.contains(&o.as_str())), "the README says nothing of {silent:?}");
}
