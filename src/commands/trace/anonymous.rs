//! What was watched without names of programs and files: numbers in their place.

use crate::report::{Unseen, Watched};
use std::collections::BTreeMap;

/// Programs by name, numbered as they are met.
#[derive(Default)]
struct Numbers(BTreeMap<String, usize>);

impl Numbers {
    fn of(&mut self, name: &str) -> String {
        let next = self.0.len() + 1;
        format!("program {}", self.0.entry(name.to_owned()).or_insert(next))
    }
}

/// The same without names.
pub fn of(mut watched: Watched) -> Watched {
    let mut numbers = Numbers::default();
    for copies in &mut watched.copies {
        copies.program = numbers.of(&copies.program);
        copies.file = None;
    }
    let own = watched.own.as_mut().map(|own| &mut own.samples);
    for inside in watched.samples.iter_mut().chain(own).flat_map(|samples| &mut samples.inside) {
        inside.program = numbers.of(&inside.program);
        if let Some(site) = &mut inside.site {
            (site.module, site.symbol, site.line) = (None, None, None);
        }
    }
    for Unseen { program, why, .. } in &mut watched.unseen {
        *program = program.take().map(|program| numbers.of(&program));
        *why = without_files(why);
    }
    watched
}

/// A text without paths but the kernel's.
fn without_files(text: &str) -> String {
    let is_kernel = |word: &str| ["/proc/", "/sys/"].iter().any(|folder| word.starts_with(folder));
    let word = |word: &str| if word.contains('/') && !is_kernel(word) { "<file>" } else { word }.to_owned();
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Copies, FileKind, Inside, OwnCopies, Samples, Site};

    #[test]
    fn no_name_is_left() {
        let copies = Copies {
            pid: 1,
            program: "secret".into(),
            call: "read".into(),
            file: Some("/home/secret".into()),
            kind: FileKind::PageCache,
            from_file: Some(true),
            calls: 1,
            failed: 0,
            bytes: 1,
            landings: vec![],
            buffers: vec![],
        };
        let inside = Inside {
            pid: 1,
            tid: 1,
            program: "secret".into(),
            site: Some(Site {
                module: Some("/opt/secret".into()),
                address: 1,
                symbol: Some("secret".into()),
                line: Some("secret.c:1".into()),
            }),
            kernel: Some("read: filemap_read".into()),
            class: Some(16),
            distance: 8,
            dst: 8,
            samples: 1,
        };
        let watched = of(Watched {
            copies: vec![copies],
            samples: Some(Samples { inside: vec![inside.clone()], ..Samples::default() }),
            own: Some(OwnCopies {
                samples: Samples { inside: vec![inside], ..Samples::default() },
                user_ns: 1,
            }),
            unseen: vec![Unseen {
                what: "calls of process 7".into(),
                program: Some("secret (or) so".into()),
                why: "cannot open /processing-secret/lib.so as /proc/sys/kernel/x says".into(),
                ..Unseen::default()
            }],
            ..Watched::default()
        });
        let text = serde_json::to_string(&watched).unwrap();
        assert!(!text.contains("secret"), "{text}");
        assert!(text.contains("\"program 2\"") && text.contains("/proc/sys/kernel/x"), "{text}");
        assert!(text.contains("program 1") && text.contains("filemap_read"), "{text}");
    }
}
