//! Job control, in a shell on a terminal of its own: the stop key, the foreground again, and the interrupt key.

use super::behaviour::{state, wait_until, watcher};
use super::common::shell::Shell;
use super::programs::{file, watched};
use std::process::Command;

#[test]
fn a_job_stops_and_goes_on_with_its_command() {
    let (_folder, program) = file();
    if watched(&["true"]).is_none() {
        return;
    }
    // A command that tells its number.
    let number = program.with_file_name("number");
    let script = format!("echo $$ >'{0}.new'; mv '{0}.new' '{0}'; exec sleep 60", number.display());
    let watcher = watcher(&["sh", "-c", &script]);
    let variables: Vec<_> = watcher.get_envs().filter_map(|(name, value)| Some((name, value?))).collect();
    let variables: Vec<_> =
        variables.iter().map(|(name, value)| (name.to_str().unwrap(), value.to_str().unwrap())).collect();
    let mut shell = Shell::start(&variables);
    let args: Vec<&str> = watcher.get_args().map(|arg| arg.to_str().unwrap()).collect();
    shell.press(&format!("{} {} >/dev/null\n", watcher.get_program().to_str().unwrap(), args.join(" ")));
    wait_until("the command runs", || number.exists());
    let command = std::fs::read_to_string(&number).unwrap().trim().to_owned();
    let stat = std::fs::read_to_string(format!("/proc/{command}/stat")).unwrap();
    let own = stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().to_owned();
    std::thread::sleep(std::time::Duration::from_millis(300));
    shell.press("\x1a");
    wait_until("both are stopped", || state(&command) == Some('t') && state(&own) == Some('T'));
    shell.press("echo \"the $((1 + 1))nd job\"\n");
    shell.wait_for("the 2nd job");
    shell.press("fg\n");
    wait_until("both go on", || state(&command) == Some('S') && state(&own) == Some('S'));
    // who stops the command alone continues the command alone
    let send =
        |signal: &str| assert!(Command::new("kill").args([signal, &command]).status().unwrap().success());
    send("-STOP");
    wait_until("the command is stopped", || state(&command) == Some('t'));
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(state(&own) != Some('T'), "fsprobe is not");
    send("-CONT");
    wait_until("the command goes on", || state(&command) == Some('S'));
    // a shell may still be handing the terminal over when both run
    for _ in 0..30 {
        shell.press("\x03");
        std::thread::sleep(std::time::Duration::from_millis(500));
        if state(&command).is_none() {
            break;
        }
    }
    assert_eq!(state(&command), None, "the command has ended");
    shell.exit();
}
