//! `fsprobe cpu` for people: the facts in 80 columns, then what of them decides the copy paths.

mod conclude;
mod published;

pub use conclude::{Conclusions, Lengths, Subject, conclude};
pub use published::{Basis, Published};

use super::number::bytes;
use crate::report::{Feature, Host, Kernel, Libc, Memory, printable};
use std::collections::BTreeMap;

/// Columns of the text.
const WIDTH: usize = 80;
/// Columns of a fact's label with its indent.
const LABEL: usize = 22;

/// Characters of a line of facts.
const LONGEST: usize = 16 << 10;

/// The text about a host.
pub fn text(host: &Host, subject: Subject) -> String {
    let conclusions = conclude(host, subject);
    let mut page = Page::default();
    page.line(&title(host, subject));
    processor(&mut page, host);
    if subject == Subject::Machine {
        machine(&mut page, host);
    } else {
        page.fact("caches", &caches(&host.memory));
    }
    page.heading("What of it decides the copy paths");
    page.paragraph(&conclusions.kernel);
    page.paragraph(&conclusions.memcpy);
    for caution in &conclusions.cautions {
        page.paragraph(caution);
    }
    published_notes(&mut page, host, &conclusions);
    unknowns(&mut page, host);
    page.heading(match subject {
        Subject::Machine => "Whether this machine is affected is not said here: `fsprobe sweep` measures it.",
        Subject::Dump => "A dump cannot say whether that machine is affected: run `fsprobe sweep` there.",
    });
    page.text
}

fn title(host: &Host, subject: Subject) -> String {
    let name = host.cpu.brand.as_deref().unwrap_or(&host.cpu.vendor);
    match subject {
        Subject::Machine => format!("This machine: {name}"),
        Subject::Dump => format!("From a CPUID dump, not this machine: {name}"),
    }
}

fn processor(page: &mut Page, host: &Host) {
    let cpu = &host.cpu;
    page.fact(
        "CPU",
        &format!(
            "{}, family {:#x}, model {:#x}, stepping {} ({})",
            cpu.vendor, cpu.family, cpu.model, cpu.stepping, cpu.signature
        ),
    );
    page.fact("microarchitecture", known(cpu.microarchitecture.as_deref()));
    page.fact("hypervisor", host.hypervisor.as_deref().unwrap_or("none"));
    page.fact(
        "CPUID's bits",
        &bits(host, |name, bit| {
            let lost = host.unknown.contains_key(&format!("cpu.features.{name}.cpuid"));
            (!lost).then_some(bit.cpuid)
        }),
    );
}

/// The fast-string bits in one line.
fn bits(host: &Host, says: impl Fn(&str, Feature) -> Option<bool>) -> String {
    host.cpu.features.named().map(|(name, bit)| format!("{name} {:<4}", yes(says(name, bit)))).join(" ")
}

fn machine(page: &mut Page, host: &Host) {
    page.fact("kernel's flags", &bits(host, |_, bit| bit.kernel));
    page.fact("microcode", &host.cpu.microcode.as_ref().map_or("unknown".into(), |all| all.join(", ")));
    if let Some(firmware) = &host.firmware {
        page.fact(
            "firmware",
            &format!(
                "{}, {}, board {}",
                known(firmware.bios_version.as_deref()),
                known(firmware.bios_date.as_deref()),
                known(firmware.board.as_deref())
            ),
        );
    } else {
        page.fact("firmware", "unknown");
    }
    kernel(page, &host.kernel);
    libc(page, &host.libc);
    page.fact("caches", &caches(&host.memory));
    page.fact(
        "pages",
        &format!(
            "{}, transparent huge pages: {}",
            bytes(host.memory.page_size),
            known(host.memory.thp.as_deref())
        ),
    );
    page.fact(
        "running",
        &format!(
            "SMT {}, clock source {}, governor {}, boost {}",
            yes(host.smt),
            known(host.clocksource.as_deref()),
            known(host.governor.as_deref()),
            yes(host.boost)
        ),
    );
}

fn kernel(page: &mut Page, kernel: &Kernel) {
    let release = if kernel.release.is_empty() { "unknown" } else { &kernel.release };
    let taint = match kernel.tainted {
        None => "taint unknown".into(),
        Some(0) => "not tainted".into(),
        Some(mask) => format!("tainted ({mask})"),
    };
    page.fact("kernel", &format!("{release}, {taint}"));
    page.fact("copies user memory", known(kernel.copy_routine.as_deref()));
    if let Some(words) = kernel.cmdline.as_ref().filter(|words| !words.is_empty()) {
        page.fact("kernel command line", &words.join(" "));
    }
    if !kernel.vulnerabilities.is_empty() {
        let open: Vec<&str> = kernel
            .vulnerabilities
            .iter()
            .filter(|(_, t)| t.starts_with("Vulnerable"))
            .map(|(n, _)| n.as_str())
            .collect();
        let open = if open.is_empty() { "none".into() } else { open.join(", ") };
        page.fact(
            "vulnerabilities",
            &format!("{} listed, without mitigation: {open}", kernel.vulnerabilities.len()),
        );
    }
}

fn libc(page: &mut Page, libc: &Libc) {
    let package = libc.package.as_ref().map_or(String::new(), |package| format!(" (package {package})"));
    let version = libc.version.as_ref().map_or(", version unknown".into(), |version| format!(" {version}"));
    page.fact("C library", &format!("{}{version}{package}", libc.name));
    let thresholds = [libc.rep_movsb_threshold, libc.rep_movsb_stop_threshold, libc.non_temporal_threshold];
    let [above, below, non_temporal] =
        thresholds.map(|value| value.map_or("unknown".into(), |bytes| format!("{bytes} B")));
    let is_empty =
        thresholds[0].zip(thresholds[1]).is_some_and(|(above, below)| below <= above.saturating_add(1));
    let never = if is_empty { " (never)" } else { "" };
    let window = format!("rep movsb above {above}, below {below}{never}; non-temporal from {non_temporal}");
    page.fact("memcpy thresholds", if thresholds == [None; 3] { "unknown" } else { &window });
    if let Some(words) = libc.tunables.as_ref().filter(|words| !words.is_empty()) {
        page.fact("GLIBC_TUNABLES", &words.join(":"));
    }
}

fn caches(memory: &Memory) -> String {
    let each = |name: &str, size: Option<u64>| format!("{name} {}", size.map_or("unknown".into(), bytes));
    [each("L1d", memory.l1d), each("L2", memory.l2), each("L3", memory.l3)].join(", ")
}

fn published_notes(page: &mut Page, host: &Host, conclusions: &Conclusions) {
    match &host.cpu.microarchitecture {
        None => {
            page.heading("What is known of this microarchitecture");
            page.paragraph("It could not be named, so no published measurement is put beside it.");
        }
        Some(name) => {
            page.heading(&format!("What is known of {name}"));
            if conclusions.published.is_empty() {
                page.paragraph("Nothing was found published about this anomaly on it.");
            }
        }
    }
    for note in conclusions.published {
        page.item(&format!("{} [{}: {}]", note.says, note.basis.word(), note.source));
    }
}

/// Reasons of what is not known, fields of one reason together.
fn unknowns(page: &mut Page, host: &Host) {
    let mut fields: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (field, reason) in &host.unknown {
        fields.entry(reason).or_default().push(field);
    }
    let mut grouped: Vec<(Vec<&str>, &str)> =
        fields.into_iter().map(|(reason, fields)| (fields, reason)).collect();
    grouped.sort();
    if !grouped.is_empty() {
        page.heading("What could not be known");
    }
    for (fields, reason) in grouped {
        page.item(&format!("{}: {reason}", fields.join(", ")));
    }
}

fn known(text: Option<&str>) -> &str {
    text.unwrap_or("unknown")
}

fn yes(fact: Option<bool>) -> &'static str {
    match fact {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    }
}

/// Text that grows by lines of at most [`WIDTH`] columns, all of it safe to print.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn heading(&mut self, text: &str) {
        self.text.push('\n');
        self.line(text);
    }

    fn line(&mut self, text: &str) {
        self.fill("", "  ", text);
    }

    fn paragraph(&mut self, text: &str) {
        self.fill("  ", "  ", text);
    }

    fn item(&mut self, text: &str) {
        self.fill("  * ", "    ", text);
    }

    fn fact(&mut self, label: &str, value: &str) {
        self.fill(&format!("  {label:<width$}", width = LABEL - 2), &" ".repeat(LABEL), value);
    }

    fn fill(&mut self, first: &str, rest: &str, text: &str) {
        let options = textwrap::Options::new(WIDTH).initial_indent(first).subsequent_indent(rest);
        self.text.push_str(&textwrap::fill(&printable(text, LONGEST), options));
        self.text.push('\n');
    }
}

#[cfg(test)]
mod tests;
