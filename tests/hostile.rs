//! Machines and sandboxes that take something away: fsprobe works with what is left, and says what is not.

mod common;

use common::{Place, end_at, forbid, stderr, stdout, text};
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

/// `fsprobe check --json` of a few kernel and user paths, run by a shell's `exec "$@"` at the end of `script`.
fn checked_by(place: &Place, script: &str, args: &[&str]) -> Output {
    let fsprobe = env!("CARGO_BIN_EXE_fsprobe");
    let words = [&["-c", script, "sh", fsprobe], args].concat();
    Command::new("sh").args(words).env("XDG_STATE_HOME", place.path("state")).output().unwrap()
}

/// The answer's states by path, and all that was unknown.
#[track_caller]
fn answer(output: &Output) -> Value {
    let told: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}{}", stdout(output), stderr(output)));
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{}", stderr(output));
    told
}

#[track_caller]
fn assert_measured(told: &Value, paths: &[&str]) {
    for path in paths {
        let known = told["check"]["paths"].as_array().unwrap().iter().any(|p| p["path"] == *path);
        assert!(known, "{path} in {}", told["check"]["paths"]);
    }
}

const CHECK: [&str; 2] = ["check", "--json"];

#[test]
fn without_proc_everything_is_measured_and_facts_are_unknown_with_a_reason() {
    let place = Place::new();
    let hide = "mount -t tmpfs none /proc && exec \"$@\"";
    let run = |command: &mut Command| {
        command.args(["sh", "-c", hide, "sh", env!("CARGO_BIN_EXE_fsprobe")]).args(CHECK).output()
    };
    let output = run(Command::new("unshare").args(["--mount", "--map-root-user"]));
    let Some(output) = output.ok().filter(|o| !o.stdout.is_empty()) else {
        eprintln!("skipped: no namespace of its own can be had here to hide /proc in");
        return;
    };
    let told = answer(&output);
    assert_measured(&told, &["read", "write", "pipe-read", "memcpy", "rep-movsb"]);
    let unknown = told["host"]["unknown"].as_object().unwrap();
    let reason = unknown["cpu.microcode"].as_str().unwrap();
    assert!(reason.contains("/proc") || reason.contains("hypervisor"), "{reason}");
    assert!(
        unknown.contains_key("kernel.taint")
            || unknown.values().any(|r| r.as_str().unwrap().contains("/proc"))
    );
    let sweep = ["sweep", "--len", "4K", "--dst", "0x0-0x40", "--output", "-", "--format", "json"];
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", hide, "sh", env!("CARGO_BIN_EXE_fsprobe")])
        .args(sweep)
        .env("XDG_STATE_HOME", place.path("state"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn eight_descriptors_leave_the_paths_that_need_none() {
    let output = checked_by(&Place::new(), "ulimit -n 8; exec \"$@\"", &CHECK);
    assert_measured(&answer(&output), &["read", "rep-movsb", "memcpy"]);
    let all =
        checked_by(&Place::new(), "ulimit -n 8; exec \"$@\"", &[&CHECK[..], &["--paths", "all"]].concat());
    let told = answer(&all);
    assert_measured(&told, &["read", "pread", "rep-movsb", "memcpy", "mmap"]);
    assert!(all.stdout.windows(10).any(|w| w == b"open files"), "what was left out has its reason");
}

#[test]
fn symbols_bound_at_the_start_change_nothing() {
    let output = checked_by(&Place::new(), "LD_BIND_NOW=1 exec \"$@\"", &CHECK);
    assert_measured(&answer(&output), &["read", "write", "pipe-read", "memcpy", "rep-movsb"]);
}

#[test]
fn one_cpu_is_enough() {
    let Ok(cpu) = fsprobe::sys::cpu::allowed().map(|cpus| cpus[0].to_string()) else { return };
    let script = format!("taskset -c {cpu} true 2>/dev/null || exit 77; exec taskset -c {cpu} \"$@\"");
    for args in
        [&CHECK[..], &["sweep", "--len", "4K", "--dst", "0x0-0x40", "--no-output", "--format", "json"]]
    {
        let output = checked_by(&Place::new(), &script, args);
        if output.status.code() == Some(77) {
            eprintln!("skipped: no taskset here");
            return;
        }
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told["host"]["cpu_pinned"].as_u64().map(|c| c.to_string()), Some(cpu.clone()));
    }
}

/// Runs fsprobe where the kernel ends whoever makes one of these calls; none, said aloud, where that cannot be had.
fn where_deadly(place: &Place, calls: [libc::c_long; 3], args: &[&str]) -> Option<Output> {
    let mut command = place.fsprobe(args);
    // SAFETY: the closure makes system calls only.
    unsafe { command.pre_exec(move || end_at(calls)) };
    command.output().inspect_err(|_| eprintln!("skipped: no seccomp filter can be set here")).ok()
}

#[test]
fn a_sandbox_that_ends_who_watches_is_met_by_a_child_and_told() {
    let (perf, ptrace, seccomp) = (libc::SYS_perf_event_open, libc::SYS_ptrace, libc::SYS_seccomp);
    let place = Place::new();
    for calls in [[perf; 3], [ptrace; 3], [seccomp; 3], [perf, ptrace, seccomp]] {
        let trace = |via: &[&str], command: &[&str]| {
            let args = [&["trace", "--simulate", "zen4"], via, &["--"], command].concat();
            where_deadly(&place, calls, &args)
        };
        for (via, own) in [("sample", &[perf][..]), ("ptrace", &[ptrace, seccomp])] {
            let Some(output) = trace(&["--via", via], &["sh", "-c", "exit 7"]) else { return };
            let said = stderr(&output);
            let closed = format!("cannot watch by {via}: ");
            match output.status.code() {
                Some(125) => assert!(said.contains(&closed) && said.lines().count() == 1, "{said}"),
                code => assert!(code == Some(7) && !own.iter().any(|call| calls.contains(call)), "{said}"),
            }
        }
        let Some(output) = trace(&[], &["sh", "-c", "exit 7"]) else { return };
        assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    }
}

#[test]
fn a_sandbox_that_ends_who_measures_leaves_the_other_paths() {
    let place = Place::new();
    let file = place.file("source", 1 << 20);
    let calls = [libc::SYS_splice, libc::SYS_process_vm_readv, libc::SYS_io_uring_setup];
    let Some(output) = where_deadly(&place, calls, &[&CHECK[..], &["--paths", "all"]].concat()) else {
        return;
    };
    assert_measured(&answer(&output), &["read", "pread", "rep-movsb", "memcpy", "mmap"]);
    let calls = [libc::SYS_ptrace, libc::SYS_preadv2, 451];
    let args = ["readers", "--json", "--rounds", "1", "--file", text(&file)];
    let Some(output) = where_deadly(&place, calls, &args) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("ptrace(2) is not possible here: "), "{}", stdout(&output));
}

#[test]
fn a_sandbox_that_ends_who_makes_the_objects_calls_is_met_before_it_is_put_into_programs() {
    let place = Place::new();
    let trace = |via: &[&str]| {
        let args = [&["trace", "--simulate", "zen4"], via, &["--", "sh", "-c", "echo said; exit 7"]].concat();
        where_deadly(&place, [libc::SYS_fstatfs; 3], &args)
    };
    let Some(asked) = trace(&["--via", "preload"]) else { return };
    assert_eq!(asked.status.code(), Some(125));
    assert!(stderr(&asked).contains("a sandbox ends programs that call fstatfs(2)"), "{}", stderr(&asked));
    let Some(chosen) = trace(&[]) else { return };
    assert_eq!((chosen.status.code(), stdout(&chosen).as_str()), (Some(7), "said\n"), "{}", stderr(&chosen));
}

#[test]
fn a_sandbox_that_refuses_what_everybody_does_loses_no_output_and_panics_nowhere() {
    let place = Place::new();
    for call in [libc::SYS_fcntl, libc::SYS_clock_nanosleep, libc::SYS_fstatfs, libc::SYS_prlimit64] {
        for via in ["sample", "preload", "ptrace"] {
            let script = "echo said; exit 7";
            let args = ["trace", "--simulate", "zen4", "--via", via, "--", "sh", "-c", script];
            let mut command = place.fsprobe(&args);
            command.env_remove("RUST_BACKTRACE");
            // SAFETY: the closure makes system calls only.
            unsafe { command.pre_exec(move || forbid(call)) };
            let Ok(output) = command.output() else {
                eprintln!("skipped: no seccomp filter can be set here");
                return;
            };
            let said = stderr(&output);
            match output.status.code() {
                Some(125) => {
                    assert!(said.lines().all(|line| line.starts_with("fsprobe: ")), "{call} {via}: {said}")
                }
                code => {
                    assert_eq!((code, stdout(&output).as_str()), (Some(7), "said\n"), "{call} {via}: {said}")
                }
            }
        }
    }
}

/// Runs a command that may be missing.
fn succeeds(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|o| o.status.success())
}

const MUSL: &str = "x86_64-unknown-linux-musl";

/// Whether a static musl build can be made here, with the target and tools installed where that is possible.
fn can_build_for_musl() -> bool {
    let has_tools = || succeeds("musl-gcc", &["--version"]);
    if !has_tools() {
        let install = "test \"$(id -u)\" = 0 && apt-get update -qq && apt-get install -y -qq musl-tools";
        succeeds("sh", &["-c", install]);
    }
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = sysroot.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default();
    let has_target = || Path::new(&sysroot).join("lib/rustlib").join(MUSL).is_dir();
    if has_tools() && !has_target() {
        succeeds("rustup", &["target", "add", MUSL]);
    }
    has_tools() && has_target()
}

#[test]
fn a_static_musl_build_says_so_and_does_not_pretend_to_test_glibc() {
    let asked = ["CI", "FSPROBE_MUSL"].iter().any(|name| std::env::var_os(name).is_some());
    if !asked {
        eprintln!(
            "skipped: installs tools and builds for two minutes; FSPROBE_MUSL=1 asks for it, as CI does"
        );
        return;
    }
    if !can_build_for_musl() {
        eprintln!("skipped: neither found nor installable here: musl-gcc and rustup's target {MUSL}");
        return;
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().to_owned();
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--target", MUSL, "--target-dir"])
        .arg(&target)
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", stderr(&built));
    let fsprobe = target.join(MUSL).join("debug/fsprobe");
    let run = |args: &[&str]| Command::new(&fsprobe).args(args).output().unwrap();

    let told = answer(&run(&["check", "--json", "--remedies"]));
    assert_eq!(told["host"]["libc"]["name"], "musl");
    assert!(told["host"]["libc"]["rep_movsb_threshold"].is_null());
    let remedies = told["check"]["remedies"].to_string();
    assert!(remedies.contains("linked with musl") && !remedies.contains("hwcaps"), "{remedies}");

    let args = ["sweep", "--len", "4K", "--dst", "0x0-0x40", "--no-output", "--format", "json"];
    let swept: Value = serde_json::from_slice(&run(&args).stdout).unwrap();
    let cells = swept["cells"].as_array().unwrap();
    assert!(!cells.is_empty() && cells.iter().all(|c| c["allocator"] != "glibc"));
    let left_out = swept.to_string();
    assert!(left_out.contains("linked with musl, not with glibc"), "the reason is given");
}
