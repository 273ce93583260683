//! Remedies tried for real: memcpy measured again in child processes under each setting that is said to
//! help; and where allocators put buffers on their own.
//!
//! A child is this program's own `check --json --paths memcpy`: a setting of the loader holds from the
//! start of a process only.

use super::Signals;
use super::plan::LONGEST;
use crate::allocator;
use crate::cli::CheckArgs;
use crate::judge::{Profile, profiles};
use crate::report::{Allocator, AtLength, PathName, Placement, Remedy, Report};
use crate::simulate::Model;
use serde::Deserialize;
use std::io::IsTerminal;
use std::process::{Command, Stdio};

/// Above every length: memcpy then never reaches `rep movsb`. 1 TiB.
const HUGE: u64 = 1 << 40;

/// Fresh allocations of each allocator whose page offsets are looked at.
const NATURAL: usize = 8;

/// From this slowdown on there is something to remedy; a setting that halves it has been taken.
const WORTH: f64 = 1.5;

/// The variable that glibc's loader reads its settings from.
const VARIABLE: &str = "GLIBC_TUNABLES";

/// Tries every remedy that can be tried without changing the machine, and says what is known of the rest.
pub fn try_all(args: &CheckArgs, report: &Report, watch: &Signals) -> Vec<Remedy> {
    let profiles = profiles(report);
    let near = |path, len| profiles.iter().find(|p| (p.path, p.len) == (path, len)).map(|p: &Profile| p.near);
    let mut remedies = Vec::new();
    if report.host.libc.name == "glibc" && near(PathName::Memcpy, LONGEST).is_some() {
        let erms = "glibc.cpu.hwcaps=-ERMS".to_owned();
        let threshold = format!("glibc.cpu.x86_rep_movsb_threshold={HUGE}");
        let both = format!("{erms}:{threshold}");
        for (words, asked) in [(erms, None), (threshold, Some(HUGE)), (both, Some(HUGE))] {
            if report.is_simulated() {
                let setting = format!("{VARIABLE}={words}");
                remedies.push(Remedy {
                    layer: "libc".into(),
                    ..untried(&setting, near(PathName::Memcpy, LONGEST), None, SIMULATED)
                });
                continue;
            }
            if watch.caught().is_some() {
                break;
            }
            progress(args, &words);
            remedies.push(tunables(report, &words, asked, near));
        }
    } else if report.host.libc.name != "glibc" {
        let note = format!(
            "not tried: this build is linked with {}, which has no such settings",
            report.host.libc.name
        );
        remedies.push(Remedy {
            layer: "libc".into(),
            ..untried(VARIABLE, near(PathName::Memcpy, LONGEST), None, &note)
        });
    }
    let [movsb, movsq, unrolled] =
        [PathName::RepMovsb, PathName::RepMovsq, PathName::MovUnrolled].map(|path| near(path, LONGEST));
    remedies.push(untried("clearcpuid=fsrm,erms", movsb, movsq, CLEARCPUID));
    remedies.push(untried("an unrolled copy loop in the kernel", movsb, unrolled, UNROLLED));
    remedies
}

const CLEARCPUID: &str = "not tried: a boot option of the kernel, which taints it and is meant for debugging only; it does \
    not change what programs see; clearing fsrm alone still leaves rep movsb; with both cleared the kernel runs rep movsq, \
    whose slowdown in user space is the one given as `after`";
const SIMULATED: &str = "not tried: nothing is run for a simulated machine";
const UNROLLED: &str = "not to be had by any setting: what a kernel could gain, as measured in user space";

/// What a setting would do, by the routines it chooses between.
fn untried(setting: &str, before: Option<f64>, after: Option<f64>, note: &str) -> Remedy {
    Remedy {
        setting: setting.into(),
        accepted: None,
        before,
        after,
        layer: "kernel".into(),
        len: LONGEST,
        others: vec![],
        note: Some(note.into()),
    }
}

/// memcpy under words of GLIBC_TUNABLES; `asked` is the threshold that they set.
fn tunables(
    report: &Report,
    words: &str,
    asked: Option<u64>,
    near: impl Fn(PathName, u64) -> Option<f64>,
) -> Remedy {
    let all = added(words);
    let child = child(report, &all);
    let after = |len| child.as_ref().ok().and_then(|c| c.near(len));
    let before = |len| near(PathName::Memcpy, len);
    let told =
        child.as_ref().ok().zip(asked).and_then(|(c, asked)| Some(c.host.libc.rep_movsb_threshold? == asked));
    let without_erms = || Some(!crate::host::uses_erms(&all)?).filter(|_| words.contains("-ERMS"));
    let seen = |len| before(len).zip(after(len)).filter(|(b, _)| *b >= WORTH).map(|(b, a)| a < b / 2.0);
    Remedy {
        setting: format!("{VARIABLE}={words}"),
        accepted: told.or_else(without_erms).or_else(|| seen(LONGEST)).or_else(|| seen(4096)),
        before: before(LONGEST),
        after: after(LONGEST),
        layer: "libc".into(),
        len: LONGEST,
        others: vec![AtLength { len: 4096, before: before(4096), after: after(4096) }],
        note: child.err().map(|reason| format!("not measured: {reason}")),
    }
}

/// What of a child's answer is looked at.
#[derive(Deserialize)]
struct Answer {
    host: AnswerHost,
    check: AnswerCheck,
}

#[derive(Deserialize)]
struct AnswerHost {
    libc: AnswerLibc,
}

#[derive(Deserialize)]
struct AnswerLibc {
    rep_movsb_threshold: Option<u64>,
}

#[derive(Deserialize)]
struct AnswerCheck {
    paths: Vec<AnswerPath>,
}

#[derive(Deserialize)]
struct AnswerPath {
    len: u64,
    profile: Option<AnswerProfile>,
}

#[derive(Deserialize)]
struct AnswerProfile {
    near: f64,
}

impl Answer {
    fn near(&self, len: u64) -> Option<f64> {
        self.check.paths.iter().find(|p| p.len == len)?.profile.as_ref().map(|p| p.near)
    }
}

/// Words added to those that the environment already has.
fn added(words: &str) -> String {
    match std::env::var(VARIABLE) {
        Ok(already) if !already.is_empty() => format!("{already}:{words}"),
        _ => words.to_owned(),
    }
}

/// Runs the child under these words.
fn child(report: &Report, words: &str) -> Result<Answer, String> {
    let program = std::env::current_exe().map_err(|e| format!("fsprobe cannot find itself: {e}"))?;
    let mut command = Command::new(program);
    command.args(["check", "--json", "--quiet", "--paths", "memcpy", "--seed", &report.run.seed.to_string()]);
    if let Some(cpu) = report.host.cpu_pinned {
        command.args(["--cpu", &cpu.to_string()]);
    }
    let output = command
        .env(VARIABLE, words)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("fsprobe cannot be run again: {e}"))?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let line = String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("no answer").to_owned();
        format!("the child said: {line}")
    })
}

fn progress(args: &CheckArgs, words: &str) {
    if !args.quiet && std::io::stderr().is_terminal() {
        eprintln!("fsprobe: trying {words}");
    }
}

/// Where the allocators put buffers of the longest length on their own.
pub fn placements(report: &Report) -> Vec<Placement> {
    let offsets = |allocator| match report.is_simulated() {
        true => Some(Model::natural(allocator, NATURAL, report.run.seed)),
        false => allocator::natural(allocator, LONGEST as usize, NATURAL).ok(),
    };
    let how = if report.is_simulated() { "simulated" } else { "malloc, fresh" };
    let allocators = [Allocator::Glibc, Allocator::Jemalloc, Allocator::Mimalloc];
    let place = |allocator| {
        let offsets = offsets(allocator)?;
        Some(Placement { allocator, len: LONGEST, how: how.into(), process: 0, offsets })
    };
    allocators.into_iter().filter_map(place).collect()
}
