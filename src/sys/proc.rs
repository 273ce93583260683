//! What /proc and /sys tell in text that more than one room asks for.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// CPUs that a list names at most: more than any kernel is built for.
const MOST_CPUS: usize = 1 << 16;

/// Whether a process is there and has not ended.
pub fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state comes behind the name, which may hold anything.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// When a process that runs began, in the kernel's ticks since it booted; none where it has ended.
pub fn began(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    // field 22 of proc_pid_stat(5); the third comes behind the name
    let began = rest.split(' ').nth(19)?.parse().ok()?;
    (!rest.starts_with(['Z', 'X'])).then_some(began)
}

/// Processes that began at this tick or later, and run.
pub fn began_since(tick: u64) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| began(*pid).is_some_and(|began| began >= tick)).collect()
}

/// The process that a thread belongs to; none where there is no such thread.
pub fn process_of(thread: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// What a file of /proc/PID/fdinfo says (proc_pid_fdinfo(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorInfo {
    /// Where the descriptor stands.
    pub position: u64,
    /// Its flags, as for open(2).
    pub flags: u32,
    /// Its mount; 0 before Linux 3.15.
    pub mount: u64,
}

impl DescriptorInfo {
    /// Of a thread's descriptor; none where the kernel does not tell.
    pub fn of(thread: u32, descriptor: i32) -> Option<DescriptorInfo> {
        DescriptorInfo::read(&File::open(format!("/proc/{thread}/fdinfo/{descriptor}")).ok()?)
    }

    /// As the open file says now.
    pub fn read(file: &File) -> Option<DescriptorInfo> {
        let mut text = [0; 128];
        let len = file.read_at(&mut text, 0).ok()?;
        DescriptorInfo::parse(std::str::from_utf8(text.get(..len)?).ok()?)
    }

    fn parse(text: &str) -> Option<DescriptorInfo> {
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Some(DescriptorInfo {
            position: value("pos:")?.parse().ok()?,
            flags: u32::from_str_radix(value("flags:")?, 8).ok()?,
            mount: value("mnt_id:").and_then(|number| number.parse().ok()).unwrap_or(0),
        })
    }
}

/// The numbers of a list of CPUs as the kernel writes it, `0-3,8`; none where it is something else.
pub fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        if from > to || (to - from) as usize >= MOST_CPUS - numbers.len() {
            return None;
        }
        numbers.extend(from..=to);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_processes_are_told() {
        assert!(is_running(std::process::id()));
        assert!(!is_running(u32::MAX));
        let me = std::process::id();
        assert_eq!((process_of(me), process_of(u32::MAX)), (Some(me), None));
        let thread = std::thread::spawn(|| process_of(rustix::thread::gettid().as_raw_pid() as u32));
        assert_eq!(thread.join().unwrap(), Some(me));
    }

    #[test]
    fn those_that_began_later_are_told() {
        let own = began(std::process::id()).unwrap();
        let mut child = std::process::Command::new("sleep").arg("9").spawn().unwrap();
        let since = |tick| began_since(tick).contains(&child.id());
        assert_eq!([since(own), since(u64::MAX)], [true, false]);
        assert!(began(child.id()) >= Some(own) && began_since(0).contains(&std::process::id()));
        child.kill().and_then(|()| child.wait()).unwrap();
        assert!(!began_since(0).contains(&child.id()));
    }

    #[test]
    fn infos_of_old_and_new_kernels() {
        let info = |position, flags, mount| Some(DescriptorInfo { position, flags, mount });
        let parse = DescriptorInfo::parse;
        assert_eq!(parse("pos:\t42\nflags:\t0102002\nmnt_id:\t27\nino:\t9\n"), info(42, 0o102_002, 27));
        assert_eq!(parse("pos:\t0\nflags:\t02\n"), info(0, 2, 0));
        assert_eq!(parse("pos:\tx"), None);
        assert_eq!(DescriptorInfo::of(std::process::id(), -1), None);
    }

    #[test]
    fn lists_of_cpus_are_read_and_bounded() {
        assert_eq!(cpu_list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cpu_list("0,4"), Some(vec![0, 4]));
        for wrong in ["", "a", "0-", "3-2", "0-4294967295", "0-65535,0-65535"] {
            assert_eq!(cpu_list(wrong), None, "{wrong}");
        }
    }
}
