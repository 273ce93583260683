//! Transparent huge pages on and off, as far as a process may set them for its children.

use crate::report::HugePages;
use crate::sys::child;
use std::path::Path;

/// The system's setting.
const ENABLED: &str = "sys/kernel/mm/transparent_hugepage/enabled";

/// What can be set here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settable {
    /// The kinds of pages to measure under, at least one.
    pub kinds: Vec<HugePages>,
    /// Whether readers have to ask for huge pages to get them.
    pub by_asking: bool,
    /// What cannot be set, and why.
    pub note: Option<String>,
}

/// What can be set; `root` is `/`.
pub fn settable(root: &Path) -> Settable {
    let text = std::fs::read_to_string(root.join(ENABLED)).ok();
    let mode = text.as_deref().and_then(|text| text.split(['[', ']']).nth(1));
    of(mode, child::huge_pages_refused().is_some())
}

fn of(mode: Option<&str>, can_refuse: bool) -> Settable {
    let by_asking = mode != Some("always");
    let settable = |kinds: &[HugePages], note: Option<&str>| Settable {
        kinds: kinds.to_vec(),
        by_asking,
        note: note.map(Into::into),
    };
    match (mode, can_refuse) {
        (Some("never"), _) => settable(
            &[HugePages::Off],
            Some("huge pages are off for the whole system (/sys/kernel/mm/transparent_hugepage/enabled)"),
        ),
        (Some(_), true) => settable(&[HugePages::Off, HugePages::On], None),
        (Some(_), false) => {
            settable(&[HugePages::AsIs], Some("this kernel cannot refuse huge pages to a process"))
        }
        (None, _) => settable(&[HugePages::AsIs], Some("the kernel says nothing of transparent huge pages")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_of_the_system() {
        assert_eq!(of(Some("always"), true).kinds, [HugePages::Off, HugePages::On]);
        assert!(!of(Some("always"), true).by_asking && of(Some("madvise"), true).by_asking);
        for (mode, can_refuse, kind) in [
            (Some("never"), true, HugePages::Off),
            (Some("madvise"), false, HugePages::AsIs),
            (None, true, HugePages::AsIs),
        ] {
            let settable = of(mode, can_refuse);
            assert_eq!(settable.kinds, [kind]);
            assert!(settable.note.is_some());
        }
        assert!(!super::settable(Path::new("/")).kinds.is_empty());
    }
}
