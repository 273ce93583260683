//! What the descriptors of other processes lead to, and where they stand, as /proc tells it.
//!
//! A descriptor is looked up once and remembered until whoever watches says that it may lead elsewhere
//! ([`Files::forget`]); where it stands is read afresh each time, since processes, threads and duplicates
//! share that. Nothing here waits for a file system: a FUSE daemon may be among the programs watched.

use crate::report::{FileKind, printable};
use crate::sys::file_system::{self, Keeps};
use crate::sys::proc::DescriptorInfo;
use rustix::fs::{AtFlags, CWD, OFlags, Statx, StatxFlags, readlinkat, statx};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::rc::Rc;

/// Files of /proc kept open, so that a position costs one system call.
const KEPT: usize = 64;

/// Characters of a file's name.
const LONGEST_NAME: usize = 4096;

/// What a descriptor leads to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Opened {
    /// The file's name; none where it has none.
    pub name: Option<Rc<str>>,
    /// What kind of file.
    pub kind: FileKind,
    /// Whether writes go to its end.
    pub appends: bool,
    /// Which regular file, by device and inode; none of others.
    pub id: Option<FileId>,
}

/// A file, whatever its name.
pub type FileId = (u32, u32, u64);

/// The descriptors of the processes that are watched, by table: threads, and processes that share their
/// descriptors, have one table.
#[derive(Debug, Default)]
pub struct Files {
    tables: HashMap<u32, HashMap<i32, Rc<Opened>>>,
    infos: HashMap<(u32, i32), File>,
    /// The keys of `infos`, oldest first.
    kept: VecDeque<(u32, i32)>,
    mounts: HashMap<MountKey, Keeps>,
}

/// A mount, and its device, since the numbers of mounts are used again.
type MountKey = (u64, (u32, u32));

impl Files {
    /// What a thread's descriptor leads to.
    pub fn of(&mut self, table: u32, thread: u32, descriptor: i32) -> Rc<Opened> {
        if let Some(known) = self.tables.get(&table).and_then(|table| table.get(&descriptor)) {
            return Rc::clone(known);
        }
        // What cannot be looked up now may be at its next use.
        let Some(opened) = self.look_up(table, thread, descriptor).map(Rc::new) else {
            return Rc::new(UNKNOWN);
        };
        self.tables.entry(table).or_default().insert(descriptor, Rc::clone(&opened));
        opened
    }

    /// Where a thread's descriptor stands; none where that cannot be read.
    pub fn position(&mut self, table: u32, thread: u32, descriptor: i32) -> Option<u64> {
        self.info(table, thread, descriptor).map(|info| info.position)
    }

    /// These descriptors may lead elsewhere from now on.
    pub fn forget(&mut self, table: u32, first: i32, last: i32) {
        if let Some(known) = self.tables.get_mut(&table) {
            match first == last {
                true => drop(known.remove(&first)),
                false => known.retain(|descriptor, _| !(first..=last).contains(descriptor)),
            }
        }
    }

    /// The table is gone, or begins anew.
    pub fn forget_table(&mut self, table: u32) {
        self.tables.remove(&table);
        self.infos.retain(|(of, _), _| *of != table);
        self.kept.retain(|(of, _)| *of != table);
    }

    fn look_up(&mut self, table: u32, thread: u32, descriptor: i32) -> Option<Opened> {
        let path = format!("/proc/{thread}/fd/{descriptor}");
        let wanted = StatxFlags::TYPE | StatxFlags::NLINK | StatxFlags::INO;
        let stat = statx(CWD, &path, AtFlags::STATX_DONT_SYNC, wanted).ok()?;
        let info = self.info(table, thread, descriptor)?;
        let flags = OFlags::from_bits_retain(info.flags);
        let mode = u32::from(stat.stx_mode) & libc::S_IFMT;
        let kind = match mode {
            libc::S_IFREG => {
                of_regular(self.mount(thread, info.mount, &stat), flags.contains(OFlags::DIRECT))
            }
            libc::S_IFBLK if flags.contains(OFlags::DIRECT) => FileKind::Direct,
            libc::S_IFBLK => FileKind::PageCache,
            libc::S_IFIFO => FileKind::Pipe,
            libc::S_IFSOCK => FileKind::Socket,
            libc::S_IFCHR => FileKind::Device,
            // eventfd, timerfd and their like
            _ => FileKind::Uncached,
        };
        let appends = flags.contains(OFlags::APPEND) && kind == FileKind::PageCache;
        let id = (mode == libc::S_IFREG).then_some((stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino));
        Some(Opened { name: name(&path, stat.stx_nlink == 0), kind, appends, id })
    }

    /// What /proc says of a descriptor.
    fn info(&mut self, table: u32, thread: u32, descriptor: i32) -> Option<DescriptorInfo> {
        let key = (table, descriptor);
        if let Some(info) = self.infos.get(&key).and_then(DescriptorInfo::read) {
            return Some(info);
        }
        // The thread that it was opened by may be gone.
        if self.infos.remove(&key).is_some() {
            self.kept.retain(|kept| *kept != key);
        }
        while self.infos.len() >= KEPT {
            let oldest = self.kept.pop_front()?;
            self.infos.remove(&oldest);
        }
        let path = format!("/proc/{thread}/fdinfo/{descriptor}");
        let file = match File::open(&path) {
            Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
                self.infos.clear();
                self.kept.clear();
                File::open(&path)
            }
            opened => opened,
        };
        let file = file.ok()?;
        let info = DescriptorInfo::read(&file)?;
        self.infos.insert(key, file);
        self.kept.push_back(key);
        Some(info)
    }

    fn mount(&mut self, thread: u32, mount: u64, stat: &Statx) -> Keeps {
        let key = (mount, (stat.stx_dev_major, stat.stx_dev_minor));
        if let Some(&known) = self.mounts.get(&key) {
            return known;
        }
        let listed = std::fs::read_to_string(format!("/proc/{thread}/mountinfo")).unwrap_or_default();
        // Regular files of no listed mount are the kernel's own: memfd_create(2), shared memory.
        let found = listed.lines().find_map(|line| mount_of(line, mount)).unwrap_or(Keeps::AlwaysCached);
        self.mounts.insert(key, found);
        found
    }
}

/// Of a descriptor that cannot be looked up.
const UNKNOWN: Opened = Opened { name: None, kind: FileKind::Unknown, appends: false, id: None };

/// Bytes of a file that a descriptor leads to; none where that cannot be told.
pub fn size(thread: u32, descriptor: i32) -> Option<u64> {
    let path = format!("/proc/{thread}/fd/{descriptor}");
    statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::SIZE).ok().map(|stat| stat.stx_size)
}

/// The kind of a regular file, by what its file system keeps and whether it was opened with O_DIRECT.
pub fn of_regular(mount: Keeps, is_direct: bool) -> FileKind {
    match mount {
        Keeps::MadeUp | Keeps::OwnCache => FileKind::Uncached,
        Keeps::Cached if is_direct => FileKind::Direct,
        Keeps::Cached | Keeps::AlwaysCached => FileKind::PageCache,
    }
}

/// The name that a link of /proc gives, fit for a terminal; none of pipes, sockets and their like.
fn name(path: &str, is_deleted: bool) -> Option<Rc<str>> {
    let link = readlinkat(CWD, path, Vec::new()).ok()?;
    let link = link.to_string_lossy();
    let name = if is_deleted { link.strip_suffix(" (deleted)").unwrap_or(&link) } else { &link };
    name.starts_with('/').then(|| printable(name, LONGEST_NAME).into())
}

/// What a line of /proc/PID/mountinfo says, where it is this mount's (proc_pid_mountinfo(5)).
fn mount_of(line: &str, mount: u64) -> Option<Keeps> {
    let (before, after) = line.split_once(" - ")?;
    if before.split(' ').next()?.parse() != Ok(mount) {
        return None;
    }
    let mut words = after.split(' ');
    let (kind, options) = (words.next()?, words.nth(1).unwrap_or_default());
    // Documentation/filesystems/9p.rst: no page cache unless a mode of caching is named.
    let is_9p_uncached = kind == "9p"
        && !options.split(',').any(|option| option.starts_with("cache=") && option != "cache=none");
    Some(match file_system::by_name(kind) {
        _ if is_9p_uncached => Keeps::MadeUp,
        Some(known) => known.keeps,
        None => Keeps::Cached,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};
    use std::os::fd::AsRawFd;

    fn looked_up(files: &mut Files, fd: &impl AsRawFd) -> Rc<Opened> {
        files.of(1, std::process::id(), fd.as_raw_fd())
    }

    #[test]
    fn kinds_names_and_positions() {
        let mut files = Files::default();
        let me = std::process::id();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a\nb");
        let mut file = File::options().append(true).read(true).create_new(true).open(&path).unwrap();
        file.write_all(&[0; 5000]).unwrap();
        file.seek(SeekFrom::Start(4097)).unwrap();
        let opened = looked_up(&mut files, &file);
        assert_eq!((opened.kind, opened.appends), (FileKind::PageCache, true));
        assert!(opened.name.as_deref().unwrap().ends_with("/a\\nb"));
        assert_eq!(files.position(1, me, file.as_raw_fd()), Some(4097));
        file.seek(SeekFrom::Start(3)).unwrap();
        assert_eq!(files.position(1, me, file.as_raw_fd()), Some(3));
        assert_eq!(size(me, file.as_raw_fd()), Some(5000));

        let (pipe, _other) = std::io::pipe().unwrap();
        assert_eq!(looked_up(&mut files, &pipe).kind, FileKind::Pipe);
        assert_eq!(looked_up(&mut files, &pipe).name, None);
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(looked_up(&mut files, &socket).kind, FileKind::Socket);
        let null = File::open("/dev/null").unwrap();
        let device = Opened { name: Some("/dev/null".into()), kind: FileKind::Device, ..UNKNOWN };
        assert_eq!(*looked_up(&mut files, &null), device);
        let status = File::open("/proc/self/status").unwrap();
        assert_eq!(looked_up(&mut files, &status).kind, FileKind::Uncached);
        assert_eq!(*files.of(1, me, -1), UNKNOWN);
        assert!(!files.tables[&1].contains_key(&-1), "it may be known the next time");
        assert_eq!(files.position(1, me, 1 << 30), None);
    }

    #[test]
    fn what_was_deleted_keeps_its_name_and_what_was_forgotten_is_looked_up_again() {
        let mut files = Files::default();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f (deleted)");
        let file = File::create(&path).unwrap();
        let named = |opened: &Opened| opened.name.as_deref().unwrap().ends_with("/f (deleted)");
        assert!(named(&looked_up(&mut files, &file)));
        std::fs::remove_file(&path).unwrap();
        files.forget(1, file.as_raw_fd(), file.as_raw_fd());
        assert!(named(&looked_up(&mut files, &file)));
        files.forget(1, 0, i32::MAX);
        files.forget_table(2);
        assert!(files.tables[&1].is_empty() && files.infos.len() == 1);
        files.forget_table(1);
        assert!(files.tables.is_empty() && files.infos.is_empty() && files.kept.is_empty());
    }

    #[test]
    fn no_more_files_of_proc_stay_open_than_said() {
        let mut files = Files::default();
        let open: Vec<File> = (0..KEPT + 5).map(|_| File::open("/dev/null").unwrap()).collect();
        for file in &open {
            assert_eq!(files.position(1, std::process::id(), file.as_raw_fd()), Some(0));
        }
        assert_eq!((files.infos.len(), files.kept.len()), (KEPT, KEPT));
    }

    #[test]
    fn mounts_by_their_lines() {
        let of = |line: &str| mount_of(line, 36);
        assert_eq!(of("36 35 98:0 / /mnt rw,noatime master:1 - ext4 /dev/root rw"), Some(Keeps::Cached));
        assert_eq!(of("36 35 0:5 / /p rw - proc proc rw"), Some(Keeps::MadeUp));
        assert_eq!(of("36 35 0:5 / /p rw - zfs pool/a rw"), Some(Keeps::OwnCache));
        assert_eq!(of("36 35 0:5 / /p rw - tmpfs t rw"), Some(Keeps::AlwaysCached));
        assert_eq!(of("36 35 0:5 / /p rw - 9p src rw,trans=virtio"), Some(Keeps::MadeUp));
        assert_eq!(of("36 35 0:5 / /p rw - 9p src rw,cache=none"), Some(Keeps::MadeUp));
        assert_eq!(of("36 35 0:5 / /p rw - 9p src rw,cache=loose"), Some(Keeps::Cached));
        assert_eq!(of("37 35 0:5 / /p rw - tmpfs t rw"), None);
        assert_eq!(of("36"), None);
        assert_eq!(of_regular(Keeps::Cached, true), FileKind::Direct);
        assert_eq!(of_regular(Keeps::AlwaysCached, true), FileKind::PageCache);
        assert_eq!(of_regular(Keeps::MadeUp, true), FileKind::Uncached);
    }
}
