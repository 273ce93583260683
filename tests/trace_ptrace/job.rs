//! Job control, in a shell on a terminal of its own: the stop key, the foreground again, and the interrupt key.

use super::behaviour::{state, wait_until, watcher};
use super::programs::{file, watched};
use rustix::process::setsid;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

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
    let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&user).unwrap();
    unlockpt(&user).unwrap();
    let name = std::ffi::OsStr::from_bytes(ptsname(&user, vec![]).unwrap().as_bytes()).to_owned();
    let end = || File::options().read(true).write(true).open(&name).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-i", "-m"]).env("PS1", "").env_remove("ENV");
    shell.envs(watcher.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.stdin(end()).stdout(Stdio::from(end())).stderr(end());
    // SAFETY: the closure makes system calls only.
    unsafe {
        shell.pre_exec(|| {
            // where the tests run as a background job, a shell would pass on that these are ignored
            for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP] {
                libc::signal(signal, libc::SIG_DFL);
            }
            setsid()?;
            rustix::process::ioctl_tiocsctty(BorrowedFd::borrow_raw(0))?;
            Ok(())
        })
    };
    let mut shell = shell.spawn().unwrap();
    let mut keys = File::from(user);
    let said = Arc::new(Mutex::new(String::new()));
    let (mut screen, heard) = (keys.try_clone().unwrap(), said.clone());
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(len @ 1..) = screen.read(&mut bytes) {
            heard.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..len]));
        }
    });
    let mut press = |text: &str| keys.write_all(text.as_bytes()).unwrap();
    let args: Vec<&str> = watcher.get_args().map(|arg| arg.to_str().unwrap()).collect();
    press(&format!("{} {} >/dev/null\n", watcher.get_program().to_str().unwrap(), args.join(" ")));
    wait_until("the command runs", || number.exists());
    let command = std::fs::read_to_string(&number).unwrap().trim().to_owned();
    let stat = std::fs::read_to_string(format!("/proc/{command}/stat")).unwrap();
    let own = stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().to_owned();
    std::thread::sleep(std::time::Duration::from_millis(300));
    press("\x1a");
    wait_until("both are stopped", || state(&command) == Some('t') && state(&own) == Some('T'));
    press("echo \"the $((1 + 1))nd job\"\n");
    wait_until("the shell has the terminal", || said.lock().unwrap().contains("the 2nd job"));
    press("fg\n");
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
        press("\x03");
        std::thread::sleep(std::time::Duration::from_millis(500));
        if state(&command).is_none() {
            break;
        }
    }
    assert_eq!(state(&command), None, "the command has ended");
    press("exit\n");
    shell.wait().unwrap();
}
