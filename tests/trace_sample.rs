//! Programs that copy at known distances, watched by sampling.

use fsprobe::report::{Inside, Samples, Watched};
use fsprobe::trace::sample::{Available, SampleOptions, Target, available, watch};
use fsprobe::trace::{Done, Launch, TraceError};
use rustix::fs::Mode;
use rustix::process::{Pid, Signal, kill_process};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// Names, in the environment, the program that the test `watcher` watches.
const WATCHED: &str = "FSPROBE_TEST_WATCHED";

/// The test's program in a folder that every user may read; none, said aloud, where it cannot be built.
fn copier(folder: &Path, options: &[&str]) -> Option<PathBuf> {
    rustix::fs::chmod(folder, Mode::from_raw_mode(0o755)).unwrap();
    let program = folder.join("copier");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/copier.c");
    let common = ["-O2", "-g", "-pthread", "-o"];
    let built = Command::new("cc").args(common).arg(&program).arg(source).args(options).output();
    match built {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => {
            eprintln!("skipped, cc {options:?}: {}", String::from_utf8_lossy(&output.stderr));
            None
        }
        Err(error) => {
            eprintln!("skipped, no C compiler: {error}");
            None
        }
    }
}

/// Every 0.2 ms, so that short runs have many samples.
fn options() -> SampleOptions<'static> {
    SampleOptions { period_ns: 200_000, on_signal: &|| None, stop: &|| false }
}

fn command(words: &[&str]) -> Target {
    Target::Command(Launch { words: words.iter().map(Into::into).collect(), environment: vec![] })
}

/// Watches the program to its end; none, said aloud, where sampling is not open.
fn watched(words: &[&str], period_ns: u64) -> Option<Done> {
    match watch(&command(words), &SampleOptions { period_ns, ..options() }, &mut |_| {}) {
        Ok(done) => Some(done),
        Err(TraceError::Closed(why)) => {
            eprintln!("skipped: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The static program run with these words; none where it cannot be.
fn run(words: &[&str]) -> Option<Done> {
    run_at(options().period_ns, words)
}

fn run_at(period_ns: u64, words: &[&str]) -> Option<Done> {
    let folder = tempfile::tempdir().unwrap();
    let program = copier(folder.path(), &["-static"])?;
    let words: Vec<&str> = [program.to_str().unwrap()].iter().chain(words).copied().collect();
    let done = watched(&words, period_ns)?;
    assert_eq!(done.status.unwrap().code(), Some(7), "the command's own status");
    Some(done)
}

fn samples(watched: &Watched) -> &Samples {
    watched.samples.as_ref().unwrap()
}

fn count<'a>(inside: impl IntoIterator<Item = &'a Inside>) -> u64 {
    inside.into_iter().map(|inside| inside.samples).sum()
}

#[track_caller]
fn assert_nearly_all<'a>(inside: &[&'a Inside], holds: impl Fn(&&&'a Inside) -> bool) {
    let (all, holding) = (count(inside.iter().copied()), count(inside.iter().filter(holds).copied()));
    assert!(all >= 100, "{all} samples");
    assert!(holding * 100 >= all * 95, "{holding} of {all}: {inside:#?}");
}

/// What is expected of copies that the program makes by itself.
#[track_caller]
fn assert_own_at_8(done: &Done) {
    let samples = samples(&done.watched);
    let inside: Vec<&Inside> = samples.inside.iter().filter(|inside| inside.kernel.is_none()).collect();
    assert_nearly_all(&inside, |inside| inside.distance == 8);
    assert_nearly_all(&inside, |inside| {
        let site = inside.site.as_ref();
        site.and_then(|site| site.symbol.as_deref()) == Some("copies_by_itself")
            && site.and_then(|site| site.line.as_deref()).is_some_and(|line| line.contains("copier.c:"))
    });
    assert!(inside.iter().all(|inside| inside.program == "copier"));
}

#[test]
fn copies_of_a_static_program_show_their_distance_and_place() {
    let Some(done) = run(&["own", "8", "200", "1"]) else { return };
    assert_own_at_8(&done);
    let ran = done.watched.cpu_ns.unwrap();
    assert!(ran >= 200_000_000 && done.watched.wall_ns > 0, "{ran}");
    let (all, taken) = (count(&samples(&done.watched).inside), samples(&done.watched).taken);
    assert!(all * 2 > taken && all <= taken, "it does little else: {all} of {taken}");
    // One thread's samples are a period apart, and none is counted twice.
    let samples = samples(&done.watched);
    assert!(samples.taken <= ran / samples.period_ns + 10, "{} in {ran} ns", samples.taken);
}

#[test]
fn ordinary_users_see_user_space_and_are_told_of_the_rest() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become somebody else");
        return;
    }
    // Credentials are a thread's own.
    let done = std::thread::spawn(|| {
        let folder = tempfile::tempdir().unwrap();
        let program = copier(folder.path(), &["-static"])?;
        let nobody = rustix::fs::Gid::from_raw(65534);
        rustix::thread::set_thread_groups(&[]).unwrap();
        rustix::thread::set_thread_res_gid(nobody, nobody, nobody).unwrap();
        let nobody = rustix::fs::Uid::from_raw(65534);
        // The folder outlives this; it is root's, and removed by name after the thread.
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        let target = command(&[program.to_str().unwrap(), "own", "8", "200", "1"]);
        let Available { kernel, .. } = available(&target);
        let done = watch(&target, &options(), &mut |_| {});
        Some((done, kernel, folder.keep()))
    });
    let Some((done, kernel, folder)) = done.join().unwrap() else { return };
    std::fs::remove_dir_all(folder).unwrap();
    let done = match done {
        Ok(done) => done,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    assert_own_at_8(&done);
    assert_eq!(samples(&done.watched).kernel_seen, kernel.is_ok());
    match kernel {
        Ok(()) => {
            assert!(!done.watched.unseen.iter().any(|unseen| unseen.what.contains("inside the kernel")))
        }
        Err(error) => {
            let unseen = done.watched.unseen.iter().find(|unseen| unseen.what.contains("inside the kernel"));
            let unseen = unseen.expect("what is not seen is said");
            assert_eq!((&unseen.why, &unseen.remedy), (&error.to_string(), &error.remedy()));
        }
    }
}

#[test]
fn copies_inside_the_kernel_show_their_distance_caller_and_path() {
    let Some(done) = run(&["read", "8", "300", "1"]) else { return };
    let samples = samples(&done.watched);
    if !samples.kernel_seen {
        eprintln!("skipped: {:?}", done.watched.unseen);
        return;
    }
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let inside: Vec<&Inside> = samples.inside.iter().filter(|inside| inside.kernel.is_some()).collect();
    if inside.is_empty() && !cpu.split_whitespace().any(|flag| flag == "erms") {
        eprintln!("skipped: this kernel copies without rep movs");
        return;
    }
    assert_nearly_all(&inside, |inside| inside.distance == 8);
    assert_nearly_all(&inside, |inside| {
        inside.site.as_ref().and_then(|site| site.symbol.as_deref()) == Some("reads_a_file")
    });
    let has_names = !done.watched.unseen.iter().any(|unseen| unseen.what.contains("names"));
    assert_nearly_all(&inside, |inside| {
        let path = inside.kernel.as_deref().unwrap_or_default();
        if has_names { path.starts_with("pread64: ") } else { path == "kernel" }
    });
}

#[test]
fn dynamic_programs_have_callers_too() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = copier(folder.path(), &[]) else { return };
    let Some(done) = watched(&[program.to_str().unwrap(), "read", "8", "200", "1"], options().period_ns)
    else {
        return;
    };
    let inside: Vec<&Inside> =
        samples(&done.watched).inside.iter().filter(|inside| inside.kernel.is_some()).collect();
    if inside.is_empty() {
        eprintln!("skipped: no copies inside the kernel are seen");
        return;
    }
    assert_nearly_all(&inside, |inside| {
        let site = inside.site.as_ref();
        site.and_then(|site| site.symbol.as_deref()) == Some("reads_a_file")
            && site.and_then(|site| site.module.as_deref()) == program.to_str()
    });
}

#[test]
fn programs_that_do_not_copy_have_next_to_no_samples_inside() {
    let Some(done) = run(&["compute", "0", "300", "1"]) else { return };
    let samples = samples(&done.watched);
    assert!(samples.taken > 300, "{}", samples.taken);
    assert!(count(&samples.inside) * 50 <= samples.taken, "{:#?}", samples.inside);
}

/// That nobody is missed in silence; but for one in a hundred, whose few milliseconds a host may have taken for itself.
#[track_caller]
fn assert_seen(seen: usize, of: usize, done: &Done) {
    let lost = samples(&done.watched).lost;
    let is_enough = seen <= of && (seen + of / 100) as u64 + lost >= of as u64;
    assert!(is_enough, "{seen} of {of}, {lost} lost");
}

#[test]
fn all_threads_are_seen() {
    let Some(done) = run_at(500_000, &["own", "8", "5", "200"]) else { return };
    assert_own_at_8(&done);
    let inside = &samples(&done.watched).inside;
    let threads: BTreeSet<u32> = inside.iter().map(|inside| inside.tid).collect();
    let processes: BTreeSet<u32> = inside.iter().map(|inside| inside.pid).collect();
    assert_eq!(processes.len(), 1);
    assert_seen(threads.len(), 200, &done);
}

#[test]
fn all_children_are_seen() {
    let Some(done) = run_at(500_000, &["own", "8", "5", "-500"]) else { return };
    assert_own_at_8(&done);
    let inside = &samples(&done.watched).inside;
    let processes: BTreeSet<u32> = inside.iter().map(|inside| inside.pid).collect();
    assert_seen(processes.len(), 500, &done);
}

#[test]
fn programs_run_by_a_shell_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = copier(folder.path(), &["-static"]) else { return };
    let script = format!("{} own 8 100 1; exit 9", program.display());
    let Some(done) = watched(&["sh", "-c", &script], options().period_ns) else { return };
    assert_eq!(done.status.unwrap().code(), Some(9));
    assert_nearly_all(&samples(&done.watched).inside.iter().collect::<Vec<_>>(), |inside| {
        inside.distance == 8
    });
}

/// A program that copies for minutes, unless it is ended.
fn running(program: &Path, threads: &str) -> Child {
    let child = Command::new(program).args(["own", "8", "300000", threads]).spawn().unwrap();
    // Its threads begin at once.
    let task = format!("/proc/{}/task", child.id());
    let count = || std::fs::read_dir(&task).unwrap().count();
    while count() < threads.parse().unwrap() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    child
}

/// Whether there are samples enough to judge by.
fn has_enough(watched: &Watched) -> bool {
    count(&samples(watched).inside) >= 300
}

/// That it runs on, and ends by SIGTERM as if nothing had been.
fn assert_unhindered(mut child: Child) {
    let pid = Pid::from_child(&child);
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let state = stat.rsplit_once(") ").unwrap().1.chars().next();
    assert!(matches!(state, Some('R' | 'S')), "{stat}");
    assert!(child.try_wait().unwrap().is_none());
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(15));
}

#[test]
fn running_processes_are_joined_and_left() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = copier(folder.path(), &["-static"]) else { return };
    let child = running(&program, "3");
    let (stop, lives) = (Cell::new(false), Cell::new(0));
    let is_enough = || stop.get();
    let watching = SampleOptions { stop: &is_enough, ..options() };
    let done = watch(&Target::Process(child.id()), &watching, &mut |watched| {
        lives.set(lives.get() + 1);
        let threads: BTreeSet<u32> = samples(watched).inside.iter().map(|inside| inside.tid).collect();
        stop.set(has_enough(watched) && threads.len() == 3);
    });
    let pid = child.id();
    assert_unhindered(child);
    let done = match done {
        Ok(done) => done,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    assert!(done.status.is_none() && lives.get() > 0);
    assert_own_at_8(&done);
    let inside = &samples(&done.watched).inside;
    assert!(inside.iter().all(|inside| inside.pid == pid));
    assert_eq!(inside.iter().map(|inside| inside.tid).collect::<BTreeSet<_>>().len(), 3);
}

#[test]
fn a_process_is_watched_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = copier(folder.path(), &["-static"]) else { return };
    let mut child = running(&program, "1");
    let pid = Pid::from_child(&child);
    let done = watch(&Target::Process(child.id()), &options(), &mut |watched| {
        if has_enough(watched) {
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    let _ = kill_process(pid, Signal::KILL);
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    match done {
        Ok(done) => assert_own_at_8(&done),
        Err(error) => eprintln!("skipped: {error}"),
    }
}

#[test]
fn the_whole_system_holds_what_runs() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = copier(folder.path(), &["-static"]) else { return };
    let child = running(&program, "1");
    let stop = Cell::new(false);
    let is_enough = || stop.get();
    let watching = SampleOptions { stop: &is_enough, ..options() };
    let pid = child.id();
    let done = watch(&Target::System, &watching, &mut |watched| {
        let inside = samples(watched).inside.iter().filter(|inside| inside.pid == pid);
        stop.set(count(inside) >= 300);
    });
    assert_unhindered(child);
    match done {
        Ok(done) => {
            let inside = samples(&done.watched).inside.iter().filter(|i| i.pid == pid && i.kernel.is_none());
            assert_nearly_all(&inside.collect::<Vec<_>>(), |inside| inside.distance == 8);
        }
        Err(TraceError::Closed(why)) => eprintln!("skipped: {why}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn signals_are_passed_on() {
    let sent = Cell::new(false);
    let on_signal = || (!sent.replace(true)).then_some(15);
    let passing = SampleOptions { on_signal: &on_signal, ..options() };
    match watch(&command(&["sleep", "300"]), &passing, &mut |_| {}) {
        Ok(done) => assert_eq!(done.status.unwrap().signal(), Some(15)),
        Err(error) => eprintln!("skipped: {error}"),
    }
}

#[test]
fn commands_that_cannot_be_started_are_refused() {
    for (name, code) in [("/nonexistent/command", 127), ("/", 126)] {
        match watch(&command(&[name]), &options(), &mut |_| {}) {
            Err(TraceError::Refused(refused)) => assert_eq!(refused.code(), code, "{name}"),
            Err(TraceError::Closed(why)) => eprintln!("skipped: {why}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// Not a test of its own: what `a_killed_watcher_leaves_nothing` kills.
#[test]
fn watcher() {
    if let Ok(program) = std::env::var(WATCHED) {
        let _ = watch(&command(&[&program, "own", "8", "300000", "2"]), &options(), &mut |_| {});
    }
}

#[test]
fn a_killed_watcher_leaves_the_program_running() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = copier(folder.path(), &["-static"]) else { return };
    if let Err(error) = available(&command(&["true"])).user {
        return eprintln!("skipped: {error}");
    }
    let own = std::env::current_exe().unwrap();
    let mut watcher = Command::new(own)
        .args(["--exact", "watcher", "--nocapture"])
        .env(WATCHED, &program)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pid = loop {
        match process_of(&program) {
            Some(pid) => break pid,
            None => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    };
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    let ran = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<String> = stat.rsplit_once(") ").unwrap().1.split(' ').map(Into::into).collect();
        assert!(["R", "S"].contains(&fields[0].as_str()), "{stat}");
        fields[11].parse::<u64>().unwrap()
    };
    let before = ran();
    while ran() < before + 3 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    let folder: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(folder.len(), 1, "nothing but the program: {folder:?}");
}

/// The process that runs a program.
fn process_of(program: &Path) -> Option<i32> {
    std::fs::read_dir("/proc").unwrap().find_map(|entry| {
        let entry = entry.ok()?;
        let exe = std::fs::read_link(entry.path().join("exe")).ok()?;
        if exe == program { entry.file_name().to_str()?.parse().ok() } else { None }
    })
}
