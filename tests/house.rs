//! The house rules, held by reading the sources: which room may name which, what judging and
//! rendering may not touch, where `unsafe` stands and what is said about it, and the size of files.

use proc_macro2::{TokenStream, TokenTree};
use std::fs;
use std::path::Path;

/// Lines a source file may have.
const LINES: usize = 450;

const ALL: &[&str] = &[
    "allocator",
    "cat",
    "cli",
    "commands",
    "exposure",
    "host",
    "judge",
    "path",
    "pipe",
    "readers",
    "render",
    "report",
    "simulate",
    "sweep",
    "sys",
    "trace",
];

/// The rooms, and which others each may name. A new room is entered here.
const ARROWS: [(&str, &[&str]); 18] = [
    ("lib", &[]),
    ("main", &["cli", "commands", "sys"]),
    ("cli", ALL),
    ("commands", ALL),
    ("host", &["sys", "report"]),
    ("sweep", &["path", "allocator", "sys", "report"]),
    ("path", &["sys", "report"]),
    ("pipe", &["sys", "report"]),
    ("allocator", &["sys", "report"]),
    ("cat", &["sys", "report"]),
    ("readers", &["sys", "report"]),
    ("trace", &["host", "sys", "report"]),
    ("exposure", &["allocator", "sys", "report"]),
    ("simulate", &["path", "allocator", "sweep", "report"]),
    ("judge", &["report"]),
    ("render", &["report"]),
    ("sys", &["report"]),
    ("report", &[]),
];

/// Rooms that are functions of a report and nothing else.
const PURE: [&str; 2] = ["judge", "render"];

/// What a pure room may not name: whatever reaches the machine, the time or chance.
const IMPURE: [&str; 14] = [
    "std::env",
    "std::fs",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "std::time",
    "indicatif",
    "jiff",
    "libc",
    "rand",
    "rand_xoshiro",
    "signal_hook",
    "tempfile",
];

/// Words of unfinished work, in pieces so that this file does not hold them.
const UNFINISHED: [&str; 5] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("db", "g!("),
];

/// Macros of inline assembly.
const ASSEMBLY: [&str; 3] = ["asm", "global_asm", "naked_asm"];

/// A path of identifiers as written in a source, `use` groups taken apart, relative ones resolved.
#[derive(Debug, PartialEq)]
struct Named {
    line: usize,
    path: Vec<String>,
}

/// What a source names and holds.
#[derive(Debug, Default)]
struct Source {
    named: Vec<Named>,
    /// Lines of `unsafe`, foreign blocks apart.
    unsafe_lines: Vec<usize>,
    /// Lines of inline assembly.
    assembly_lines: Vec<usize>,
}

impl Source {
    /// Reads a source; `module` is its place in the crate, such as `judge::axis`.
    fn read(text: &str, module: &[&str]) -> Source {
        let tokens: TokenStream = text.parse().expect("a source that compiles is made of tokens");
        let mut source = Source::default();
        let module = module.iter().map(|m| (*m).to_owned()).collect();
        source.walk(tokens, &module);
        source
    }

    fn walk(&mut self, tokens: TokenStream, module: &Vec<String>) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => {
                    let mut inner = module.clone();
                    inner.extend(inline_module(&tokens[..at]));
                    self.walk(group.stream(), &inner);
                    at += 1;
                }
                TokenTree::Ident(ident) => {
                    if ident == "unsafe" && !is_foreign_block(&tokens[at..]) {
                        self.unsafe_lines.push(ident.span().start().line);
                    }
                    at += self.path(&tokens[at..], vec![], module);
                }
                _ => at += 1,
            }
        }
    }

    /// Takes one path, with the groups it may end in; returns how many tokens it was.
    fn path(&mut self, tokens: &[TokenTree], mut path: Vec<String>, module: &Vec<String>) -> usize {
        let mut at = 0;
        let mut line = 0;
        while let Some(TokenTree::Ident(ident)) = tokens.get(at) {
            line = ident.span().start().line;
            path.push(ident.to_string());
            at += 1;
            if !(is_punct(tokens.get(at), ':') && is_punct(tokens.get(at + 1), ':')) {
                break;
            }
            at += 2;
            if is_punct(tokens.get(at), '*') {
                path.push("*".into());
                at += 1;
                break;
            }
            if let Some(TokenTree::Group(group)) = tokens.get(at) {
                let items: Vec<TokenTree> = group.stream().into_iter().collect();
                for item in items.split(|t| is_punct(Some(t), ',')).filter(|i| !i.is_empty()) {
                    self.path(item, path.clone(), module);
                }
                return at + 1;
            }
        }
        let is_macro = is_punct(tokens.get(at), '!');
        if path.last().is_some_and(|last| is_macro && ASSEMBLY.contains(&last.as_str())) {
            self.assembly_lines.push(line);
        }
        if let Some(path) = resolved(&path, module) {
            self.named.push(Named { line, path });
        }
        at.max(1)
    }

    /// Rooms of the crate other than its own that it names, with the lines.
    fn rooms(&self, own: &str) -> Vec<(usize, String)> {
        let other = |n: &Named| {
            let room = n.path.get(1).filter(|_| n.path[0] == "crate")?;
            (room != own && room != "self").then(|| (n.line, room.clone()))
        };
        self.named.iter().filter_map(other).collect()
    }
}

/// The absolute path that a path in a module means; none for a path of one word, or of the room's own.
fn resolved(path: &[String], module: &[String]) -> Option<Vec<String>> {
    let supers = path.iter().take_while(|p| *p == "super").count();
    if path.len() < 2 || path[0] == "self" {
        return None;
    }
    if supers > 0 {
        let above = &module[..module.len().checked_sub(supers).expect("no path leads above the crate")];
        let whole = ["crate".to_owned()].into_iter().chain(above.iter().chain(&path[supers..]).cloned());
        return Some(whole.collect());
    }
    let mut path = path.to_vec();
    if path[0] == "fsprobe" {
        path[0] = "crate".into();
    }
    Some(path)
}

/// The name of the inline module whose body comes after these tokens.
fn inline_module(before: &[TokenTree]) -> Option<String> {
    match before {
        [.., TokenTree::Ident(word), TokenTree::Ident(name)] if word == "mod" => Some(name.to_string()),
        _ => None,
    }
}

fn is_punct(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == mark)
}

/// `unsafe extern "C" { … }`: it declares, and each call has its own `unsafe`.
fn is_foreign_block(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [_, TokenTree::Ident(word), TokenTree::Literal(_), TokenTree::Group(_), ..] if word == "extern")
}

/// Whether the comment that ends on the line above, or on the line itself, says why it is safe.
fn has_safety_comment(lines: &[&str], line: usize) -> bool {
    let says = |text: &str| text.contains("SAFETY: ") || text.trim_end().ends_with("# Safety");
    let is_above = |text: &&&str| text.trim_start().starts_with("//") || text.trim_start().starts_with("#[");
    says(lines[line - 1]) || lines[..line - 1].iter().rev().take_while(is_above).any(|text| says(text))
}

/// Every rule that a file under src/ breaks, one line each.
fn faults(file: &str, text: &str) -> Vec<String> {
    let module = module_of(file);
    let room = module.first().copied().unwrap_or("lib");
    let source = Source::read(text, &module);
    let lines: Vec<&str> = text.lines().collect();
    let mut faults = of_any_source(file, text);
    let mut fault = |line: usize, what: String| faults.push(format!("{file}:{line}: {what}"));
    match ARROWS.iter().find(|(name, _)| *name == room) {
        None => fault(1, format!("{room} is no room: enter it in tests/house.rs")),
        Some((_, may)) => source
            .rooms(room)
            .into_iter()
            .filter(|(_, r)| !may.contains(&r.as_str()))
            .for_each(|(line, other)| fault(line, format!("{room} may not name {other}"))),
    }
    for Named { line, path } in source.named.iter().filter(|_| PURE.contains(&room)) {
        let path = path.join("::");
        if IMPURE.iter().any(|i| path == *i || path.starts_with(&format!("{i}::"))) {
            fault(*line, format!("{room} is pure and may not name {path}"));
        }
    }
    for &line in &source.unsafe_lines {
        if room != "sys" {
            fault(line, "unsafe stands in src/sys only".into());
        } else if !has_safety_comment(&lines, line) {
            fault(line, "no SAFETY comment just before".into());
        }
    }
    for &line in source.assembly_lines.iter().filter(|_| room != "sys") {
        fault(line, "assembly stands in src/sys only".into());
    }
    faults
}

/// The rules for any source of the repository.
fn of_any_source(file: &str, text: &str) -> Vec<String> {
    let count = text.lines().count();
    let long = (count > LINES).then(|| format!("{file}: {count} lines, more than {LINES}"));
    let unfinished = text.lines().zip(1..).flat_map(|(line, number)| {
        let words = UNFINISHED.iter().filter(move |word| line.contains(**word));
        words.map(move |word| format!("{file}:{number}: {word}"))
    });
    long.into_iter().chain(unfinished).collect()
}

/// The module path of a file under src/: of `src/judge/axis.rs` it is `judge::axis`.
fn module_of(file: &str) -> Vec<&str> {
    let inside = file.trim_start_matches("src/").trim_end_matches(".rs");
    inside.split('/').filter(|part| !["mod", "lib"].contains(part)).collect()
}

/// Every `.rs` file below a folder of the repository, by its path in it.
fn sources(folder: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join(folder)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.map(|e| e.expect("a readable folder").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push((relative(root, &path), fs::read_to_string(&path).expect("a readable source")));
            }
        }
    }
    found
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).expect("below the repository").display().to_string()
}

#[test]
fn the_rooms_keep_the_rules() {
    let sources = sources("src");
    assert!(sources.len() > 40, "the sources were found");
    let faults: Vec<String> = sources.iter().flat_map(|(file, text)| faults(file, text)).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    for (room, _) in ARROWS {
        assert!(
            sources.iter().any(|(file, _)| module_of(file).first().copied().unwrap_or("lib") == room),
            "{room} is empty"
        );
    }
}

#[test]
fn tests_and_benches_are_short_and_finished() {
    let sources = ["tests", "benches", "examples"].into_iter().flat_map(sources);
    let faults: Vec<String> = sources.flat_map(|(file, text)| of_any_source(&file, &text)).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// Checks that a source breaks exactly this rule, and that without the line it breaks none.
fn breaks(file: &str, text: &str, rule: &str) {
    let found = faults(file, text);
    assert!(found.len() == 1 && found[0].contains(rule), "{file}: {text}\n{found:?}");
}

#[test]
fn forbidden_arrows_are_found_however_they_are_written() {
    for text in [
        "use crate::sweep::Plan;",
        "use crate::{report::Cell, sweep::Plan};",
        "use {crate::report::Cell, crate::sweep::Plan};",
        "use super::super::sweep::Plan;",
        "use super::super::{report, sweep};",
        "use crate::sweep as s;",
        "use crate::sweep::*;",
        "fn f() -> usize { crate::sweep::LONG }",
        "fn f() { assert!(crate::sweep::LONG > 0) }",
        "mod tests { use super::super::super::sweep::Plan; }",
        "mod tests {\n fn f() { mac! { [fsprobe::sweep::LONG] } }\n}",
    ] {
        breaks("src/judge/axis.rs", text, "judge may not name sweep");
    }
    breaks("src/judge/mod.rs", "use super::*;", "judge may not name *");
    breaks("src/report/file.rs", "use crate::host;", "report may not name host");
    breaks("src/sys/clock.rs", "use super::super::path::Copy;", "sys may not name path");
    breaks("src/main.rs", "use fsprobe::{cli, judge};", "main may not name judge");
    breaks("src/attic/mod.rs", "", "attic is no room");
}

#[test]
fn what_is_allowed_is_not_found() {
    let allowed = "//! [`crate::sweep`] in prose.\n\
        use crate::report::{Cell, PAGE};\nuse crate::judge::stats;\nuse super::screen;\nuse std::collections::BTreeMap;\n\
        pub(super) fn f() { let text = \"crate::sweep unsafe\"; /* crate::sweep */ }\n\
        mod tests { use super::*; use super::super::stats; }";
    assert_eq!(faults("src/judge/axis.rs", allowed), Vec::<String>::new());
    let called = "// SAFETY: it takes nothing.\nlet x = unsafe { f() };";
    let declared = "unsafe extern \"C\" { fn f(); }\n/// Does it.\n///\n/// # Safety\n/// Never twice.\n#[inline]\npub unsafe fn g() {}";
    assert_eq!(faults("src/sys/a.rs", &format!("fn h() {{\n{called}\n}}\n{declared}")), Vec::<String>::new());
}

#[test]
fn pure_rooms_may_not_reach_the_machine() {
    for text in [
        "use std::fs;",
        "use std::{collections::BTreeMap, time::Instant};",
        "fn f() { std::env::var(\"HOME\"); }",
        "use std::process::Command;",
        "use libc::getpid;",
        "fn f() { jiff::Timestamp::now(); }",
    ] {
        breaks("src/render/text.rs", text, "render is pure");
        breaks("src/judge/mod.rs", text, "judge is pure");
        assert_eq!(faults("src/host/mod.rs", text), Vec::<String>::new());
    }
}

#[test]
fn unsafe_is_found_outside_sys_and_without_its_comment() {
    let with_comment = "// SAFETY: none is needed.\nunsafe impl Send for X {}";
    breaks("src/path/read.rs", with_comment, "src/sys only");
    breaks("src/path/read.rs", "fn f() { std::arch::asm!(\"nop\") }", "assembly");
    breaks("src/path/read.rs", "global_asm!(\"nop\");", "assembly");
    for text in [
        "fn f() {\n    unsafe { g() }\n}",
        "unsafe impl Send for X {}",
        "/// Does it.\npub unsafe fn f() {}",
        "// SAFETY: too far above.\n\nunsafe impl Send for X {}",
        "// Careful.\nunsafe impl Send for X {}",
    ] {
        breaks("src/sys/block.rs", text, "no SAFETY comment");
    }
}

#[test]
fn long_and_unfinished_files_are_found() {
    breaks("src/path/read.rs", &"\n".repeat(LINES + 1), "451 lines");
    for word in UNFINISHED {
        breaks("src/path/read.rs", &format!("// {word}"), word);
    }
}
