//! Where the kernel keeps the control groups of this process (cgroups v1 and v2).

use std::fs;
use std::path::{Component, Path, PathBuf};

/// The folders of this process's group for one controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    /// Whether it is the unified hierarchy (v2), whose files have other names.
    pub unified: bool,
    /// The own group's folder first, then its ancestors' up to the mount.
    pub folders: Vec<PathBuf>,
}

/// The groups that hold this process under `controller` (`memory` or `cpu`); none where there are no
/// control groups to see. `root` is `/`.
pub fn groups(root: &Path, controller: &str) -> Option<Groups> {
    let (unified, group) = own_group(&fs::read_to_string(root.join("proc/self/cgroup")).ok()?, controller)?;
    let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
    let (mounted, at) = mount(&mounts, unified, controller)?;
    // A container may see its own group as the mount's root, or a path outside of what is mounted.
    let below = Path::new(&group).strip_prefix(&mounted).unwrap_or(Path::new(""));
    let inside = below.components().all(|part| matches!(part, Component::Normal(_)));
    let base = root.join(at.trim_start_matches('/'));
    let mut folders = vec![base.clone()];
    for part in below.components().filter(|_| inside) {
        let next = folders[0].join(part);
        folders.insert(0, next);
    }
    Some(Groups { unified, folders })
}

/// Whether the controller is unified, and the group's path, from /proc/self/cgroup.
fn own_group(text: &str, controller: &str) -> Option<(bool, String)> {
    let lines =
        || text.lines().filter_map(|line| line.splitn(3, ':').skip(1).collect::<Vec<_>>().try_into().ok());
    // A controller of a v1 hierarchy is absent from the unified one.
    let split = lines().find(|[names, _]: &[&str; 2]| names.split(',').any(|name| name == controller));
    let found = split.map(|[_, path]| (false, path));
    let found =
        found.or_else(|| lines().find(|[names, _]: &[&str; 2]| names.is_empty()).map(|[_, p]| (true, p)));
    found.map(|(unified, path)| (unified, path.to_owned()))
}

/// What of the hierarchy is mounted, and where, from /proc/self/mountinfo.
fn mount(text: &str, unified: bool, controller: &str) -> Option<(String, String)> {
    text.lines().find_map(|line| {
        let (place, system) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let mut system = system.split(' ');
        let wanted = match system.next()? {
            "cgroup2" => unified,
            "cgroup" => !unified && system.nth(1)?.split(',').any(|option| option == controller),
            _ => false,
        };
        wanted.then_some((place.next()?.to_owned(), place.next()?.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(cgroup: &str, mountinfo: &str, controller: &str) -> Option<(bool, Vec<String>)> {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::write(root.path().join("proc/self/cgroup"), cgroup).unwrap();
        fs::write(root.path().join("proc/self/mountinfo"), mountinfo).unwrap();
        let groups = groups(root.path(), controller)?;
        let inside = |p: &PathBuf| format!("/{}", p.strip_prefix(root.path()).unwrap().display());
        Some((groups.unified, groups.folders.iter().map(inside).collect()))
    }

    const UNIFIED: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn unified_hierarchy() {
        let expected = ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"];
        assert_eq!(found("0::/a/b\n", UNIFIED, "memory"), Some((true, expected.map(String::from).into())));
        assert_eq!(found("0::/\n", UNIFIED, "cpu"), Some((true, vec!["/sys/fs/cgroup".into()])));
    }

    #[test]
    fn split_hierarchies_of_a_container() {
        let cgroup = "4:cpu,cpuacct:/docker/1\n3:memory:/docker/1/x\n0::/docker/1\n";
        let mounts = "40 39 0:30 /docker/1 /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
                      41 39 0:31 /docker/1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let expected = vec!["/sys/fs/cgroup/memory/x".into(), "/sys/fs/cgroup/memory".into()];
        assert_eq!(found(cgroup, mounts, "memory"), Some((false, expected)));
        assert_eq!(found(cgroup, mounts, "cpu"), Some((false, vec!["/sys/fs/cgroup/cpu,cpuacct".into()])));
    }

    #[test]
    fn groups_outside_of_what_is_mounted() {
        let only_mount = Some((true, vec!["/sys/fs/cgroup".into()]));
        assert_eq!(found("0::/../other\n", UNIFIED, "memory"), only_mount);
    }

    #[test]
    fn nothing_to_see() {
        assert_eq!(found("", UNIFIED, "memory"), None);
        assert_eq!(found("0::/a\n", "", "memory"), None);
        assert_eq!(found("garbage\n::\n", "garbage - cgroup", "memory"), None);
        assert_eq!(groups(Path::new("/nonexistent"), "memory"), None);
    }
}
