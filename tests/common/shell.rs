//! An interactive shell on a terminal of its own, as a user has it.

use rustix::process::setsid;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The shell, with job control.
pub struct Shell {
    child: Child,
    keys: File,
    said: Arc<Mutex<String>>,
}

impl Shell {
    /// Starts it with these variables in its environment.
    pub fn start(variables: &[(&str, &str)]) -> Shell {
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&user).unwrap();
        unlockpt(&user).unwrap();
        let name = std::ffi::OsStr::from_bytes(ptsname(&user, vec![]).unwrap().as_bytes()).to_owned();
        let end = || File::options().read(true).write(true).open(&name).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-i", "-m"]).env("PS1", "").env_remove("ENV").envs(variables.iter().copied());
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
        let child = shell.spawn().unwrap();
        let keys = File::from(user);
        let said = Arc::new(Mutex::new(String::new()));
        let (mut screen, heard) = (keys.try_clone().unwrap(), said.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(len @ 1..) = screen.read(&mut bytes) {
                heard.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..len]));
            }
        });
        Shell { child, keys, said }
    }

    /// Types this.
    pub fn press(&mut self, text: &str) {
        self.keys.write_all(text.as_bytes()).unwrap();
    }

    /// Whether this has appeared on the screen.
    pub fn has_said(&self, text: &str) -> bool {
        self.said.lock().unwrap().contains(text)
    }

    /// Waits for this on the screen; what is typed appears there too.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        let began = Instant::now();
        while !self.has_said(text) {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "no {text:?} in {:?}",
                self.said.lock().unwrap()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Has it end.
    pub fn exit(mut self) {
        self.press("exit\n");
        self.child.wait().unwrap();
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
