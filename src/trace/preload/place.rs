//! The private folder that holds the object and its counts while a command runs.

use super::counts::{ALL_BYTES, Counts, Head, PROCESS_BYTES, PROCESSES, PROCESSES_AT, Setting};
use super::looks::MOST;
use crate::sys::proc::is_running;
use crate::trace::TraceError;
use rustix::fs::{FallocateFlags, FlockOperation, StatVfsMountFlags, fallocate, flock, statvfs};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// What the folders' names begin with.
const PREFIX: &str = "fsprobe-trace-";

/// The names in them.
pub const OBJECT: &str = "object.so";
const COUNTS: &str = "counts";

/// How long programs that were being started when the command ended may take to load the object.
const PATIENCE: Duration = Duration::from_millis(200);

/// The folder; it goes with this value.
#[derive(Debug)]
pub struct Place {
    folder: TempDir,
    object: PathBuf,
    counts: File,
}

impl Place {
    /// Makes it where programs may be loaded from and there is room.
    ///
    /// # Errors
    /// `Closed` with every place that was tried and what was wrong there.
    pub fn make(object: &[u8], setting: &Setting) -> Result<Place, TraceError> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let usual = [std::env::temp_dir(), "/dev/shm".into(), "/var/tmp".into()];
        let mut wrong = Vec::new();
        for place in runtime.into_iter().chain(usual) {
            match Place::make_in(&place, object, setting) {
                Ok(place) => return Ok(place),
                Err(why) => wrong.push(format!("{}: {why}", place.display())),
            }
        }
        wrong.dedup();
        let wrong = wrong.join("; ");
        Err(TraceError::Closed(format!(
            "no folder can hold the object to be put into the program ({wrong}; name another with TMPDIR)"
        )))
    }

    fn make_in(place: &Path, object: &[u8], setting: &Setting) -> Result<Place, String> {
        let is_word = place.as_os_str().as_bytes().iter().all(|byte| !b" \t\n:$".contains(byte));
        if !(place.is_absolute() && is_word) {
            return Err("LD_PRELOAD cannot name it".into());
        }
        let in_words = |error: io::Error| crate::sys::reason(&error);
        if statvfs(place).map_err(|error| in_words(error.into()))?.f_flag.contains(StatVfsMountFlags::NOEXEC)
        {
            return Err("nothing may be executed there".into());
        }
        remove_orphans(place);
        let private = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix(PREFIX).permissions(private.clone()).tempdir_in(place);
        let folder = folder.map_err(in_words)?;
        at_least(folder.path(), private).map_err(in_words)?;
        let path = folder.path().join(OBJECT);
        std::fs::write(&path, object).map_err(in_words)?;
        at_least(&path, Permissions::from_mode(0o600)).map_err(in_words)?;
        let counts = counts(&folder.path().join(COUNTS), setting).map_err(in_words)?;
        Ok(Place { folder, object: path, counts })
    }

    /// The object's path.
    pub fn object(&self) -> &OsStr {
        self.object.as_os_str()
    }

    /// Has no further program started with the object, waits for those that are just being started, returns
    /// what was counted, and removes the folder.
    ///
    /// # Errors
    /// Where the counts cannot be read.
    pub fn close(mut self) -> io::Result<Vec<u8>> {
        self.counts.write_all_at(&1_u64.to_ne_bytes(), Head::Closed as u64 * 8)?;
        let began = std::time::Instant::now();
        while self.word(Head::Begun)? > self.word(Head::Started)? && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut bytes = Vec::with_capacity(ALL_BYTES);
        self.counts.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The processes that began to count last, as many as one look takes.
    pub fn latest(&self) -> Vec<u32> {
        let count = self.word(Head::Processes).map_or(0, |count| (count as usize).min(PROCESSES));
        // number 0 is for all that find no room
        let numbers = count.saturating_sub(MOST).max(1)..count;
        let pid = |number: usize| {
            let mut bytes = [0; 8];
            self.counts.read_exact_at(&mut bytes, (PROCESSES_AT + number * PROCESS_BYTES) as u64).ok()?;
            u32::try_from(u64::from_ne_bytes(bytes)).ok().filter(|pid| *pid > 0)
        };
        numbers.filter_map(pid).collect()
    }

    /// Takes the files away by their names, which needs no descriptor, unlike emptying a folder.
    fn empty(&self) {
        for name in [OBJECT, COUNTS] {
            // what stays is found once none of its programs runs any more
            let _ = std::fs::remove_file(self.folder.path().join(name));
        }
        let _ = std::fs::remove_dir(self.folder.path());
    }

    fn word(&self, word: Head) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.counts.read_exact_at(&mut bytes, word as u64 * 8)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.empty();
    }
}

/// Removes the folders of fsprobes that were killed, once none of their programs runs any more.
fn remove_orphans(place: &Path) {
    let user = rustix::process::getuid().as_raw();
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().as_bytes().starts_with(PREFIX.as_bytes())
            && entry.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == user);
        let counts = is_ours.then(|| File::open(entry.path().join(COUNTS)).ok()).flatten();
        if counts.is_some_and(|counts| is_orphan(&counts)) {
            // Where it cannot be removed, it stays.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether neither the fsprobe that made it nor any process that counts in it is there.
fn is_orphan(mut counts: &File) -> bool {
    let mut bytes = Vec::new();
    flock(counts, FlockOperation::NonBlockingLockExclusive).is_ok()
        && counts.read_to_end(&mut bytes).is_ok()
        && Counts::of(&bytes)
            .is_ok_and(|counts| !counts.processes().iter().any(|process| is_running(process.pid)))
}

/// Gives a file the permissions that a umask has taken from it.
fn at_least(path: &Path, wanted: Permissions) -> io::Result<()> {
    let has = std::fs::metadata(path)?.permissions().mode();
    if has & wanted.mode() == wanted.mode() { Ok(()) } else { std::fs::set_permissions(path, wanted) }
}

/// The file of counts, locked as long as it is open. All its room is taken now: a program that met a full disk at a count would be ended.
fn counts(path: &Path, setting: &Setting) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
    at_least(path, Permissions::from_mode(0o600))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    match fallocate(&file, FallocateFlags::empty(), 0, ALL_BYTES as u64) {
        Ok(()) => {}
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            file.write_all_at(&vec![0; ALL_BYTES], 0)?;
        }
        Err(error) => return Err(error.into()),
    }
    file.write_all_at(&setting.head(), 0)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTING: Setting = Setting { window: (1, 2), loader: (3, 4) };

    #[test]
    fn it_is_private_and_goes() {
        let within = tempfile::tempdir().unwrap();
        let place = Place::make_in(within.path(), b"object", &SETTING).unwrap();
        let folder = place.folder.path().to_owned();
        assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(std::fs::read(place.object()).unwrap(), b"object");
        place.counts.write_all_at(&1_u64.to_ne_bytes(), Head::Started as u64 * 8).unwrap();
        assert_eq!(place.close().unwrap().len(), ALL_BYTES);
        assert!(!folder.exists() && within.path().exists());
    }

    #[test]
    fn what_a_killed_fsprobe_left_goes_when_nobody_uses_it() {
        let within = tempfile::tempdir().unwrap();
        let place = Place::make_in(within.path(), b"object", &SETTING).unwrap();
        let folder = place.folder.path().to_owned();
        remove_orphans(within.path());
        assert!(folder.exists(), "its fsprobe is there");
        // as the kernel does for a killed one, which tidies nothing up
        let counts = place.counts.try_clone().unwrap();
        flock(&counts, FlockOperation::Unlock).unwrap();
        std::mem::forget(place);
        counts.write_all_at(&2_u64.to_ne_bytes(), Head::Processes as u64 * 8).unwrap();
        counts
            .write_all_at(&u64::from(std::process::id()).to_ne_bytes(), (PROCESSES_AT + PROCESS_BYTES) as u64)
            .unwrap();
        drop(counts);
        remove_orphans(within.path());
        assert!(folder.exists(), "a process uses it");
        let counts = OpenOptions::new().write(true).open(folder.join(COUNTS)).unwrap();
        counts.write_all_at(&[0xff; 4], (PROCESSES_AT + PROCESS_BYTES) as u64).unwrap();
        drop(counts);
        remove_orphans(within.path());
        assert!(!folder.exists());
    }

    #[test]
    fn places_that_will_not_do_are_named() {
        let within = tempfile::tempdir().unwrap();
        let spaced = within.path().join("a b");
        std::fs::create_dir(&spaced).unwrap();
        let refused = |place: &Path| Place::make_in(place, b"object", &SETTING).unwrap_err();
        assert!(refused(&spaced).contains("LD_PRELOAD"));
        assert!(refused(Path::new("relative")).contains("LD_PRELOAD"));
        assert!(refused(&within.path().join("none")).contains("No such file"));
        assert!(refused(Path::new("/proc")).len() > 5);
    }
}
