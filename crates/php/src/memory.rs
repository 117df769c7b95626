//! How much memory the control groups of a process leave it, read out of the kernel's files, which the caller reads: cgroup v1, v2, and
//! both at once, as where only some controllers have moved to v2.

use crate::limits::NO_MEMORY_LIMIT_BYTES;
use std::path::{Component, Path, PathBuf};

/// Whose files a group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A control group that may bound memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryGroup {
    folder: PathBuf,
    version: Version,
}

/// The groups that bound a process's memory, from its own upwards as far as they are mounted. `groups` is its `/proc/self/cgroup`, `mounts`
/// its `/proc/self/mountinfo`.
pub fn memory_groups(groups: &str, mounts: &str) -> Vec<MemoryGroup> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let version = match (number, controllers) {
            ("0", "") => Version::Two,
            _ if controllers.split(',').any(|one| one == "memory") => Version::One,
            _ => continue,
        };
        let Some(mount) = mounts.lines().find_map(|line| Mount::parse(line, version)) else { continue };
        let own = mount.folder(path);
        let folders = own.ancestors().take_while(|folder| folder.starts_with(&mount.at));
        found.extend(folders.map(|folder| MemoryGroup { folder: folder.into(), version }));
    }
    found
}

/// Where a hierarchy of groups is to be seen.
struct Mount {
    /// What of the hierarchy is mounted there.
    root: String,
    at: PathBuf,
}

impl Mount {
    /// A line of mountinfo (proc(5)), if it is that of the memory controller.
    fn parse(line: &str, version: Version) -> Option<Mount> {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let (kind, _source, options) = (system.next()?, system.next()?, system.next()?);
        let is_it = match version {
            Version::One => kind == "cgroup" && options.split(',').any(|one| one == "memory"),
            Version::Two => kind == "cgroup2",
        };
        let mut fields = mount.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        is_it.then(|| Mount { root: unescaped(root), at: unescaped(at).into() })
    }

    /// A group's folder. One that is outside of what is mounted is seen as the mount's own, which is the nearest that there is.
    fn folder(&self, path: &str) -> PathBuf {
        let below = Path::new(path).strip_prefix(&self.root).ok();
        let parts = below.into_iter().flat_map(Path::components);
        if parts.clone().any(|part| part.as_os_str() == "..") {
            self.at.clone()
        } else {
            self.at.iter().chain(parts.map(Component::as_os_str)).collect()
        }
    }
}

/// mountinfo writes blanks, tabs, line feeds and backslashes as three octal digits.
fn unescaped(text: &str) -> String {
    let pairs = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    pairs.iter().fold(text.to_string(), |text, (from, to)| text.replace(from, to))
}

impl MemoryGroup {
    /// The bytes that its members may still take; `None`: it has no limit, or is not to be read. `read` gives a file of a path, or `None`.
    ///
    /// Cached pages of files that were not used lately do not count: the kernel gives them up before it refuses anything.
    pub fn left(&self, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
        let read = |name: &str| read(&self.folder.join(name));
        let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
        let (limits, usage, inactive) = match self.version {
            Version::One => (["memory.limit_in_bytes", ""], "memory.usage_in_bytes", "total_inactive_file "),
            // Above memory.high its members are held up until they have given back.
            Version::Two => (["memory.max", "memory.high"], "memory.current", "inactive_file "),
        };
        let limits = limits.iter().filter(|name| !name.is_empty()).filter_map(|name| number(name));
        let limit = limits.min().filter(|limit| *limit < NO_MEMORY_LIMIT_BYTES)?;
        let stat = read("memory.stat").unwrap_or_default();
        let cached = stat.lines().find_map(|line| line.strip_prefix(inactive)?.trim().parse().ok());
        Some(limit.saturating_sub(number(usage)?.saturating_sub(cached.unwrap_or(0))))
    }

    /// For how much of the last ten seconds something in it waited for memory, in percent; `None`: its version does not tell.
    pub fn pressure_percent(&self, read: impl Fn(&Path) -> Option<String>) -> Option<f64> {
        match self.version {
            Version::One => None,
            Version::Two => pressure_percent(&read(&self.folder.join("memory.pressure"))?),
        }
    }
}

/// `some avg10` of a file of pressure (PSI).
pub fn pressure_percent(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_once("avg10=")?.1.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                          41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";

    #[track_caller]
    fn check(groups: &str, mounts: &str, want: &[&str]) {
        let found = memory_groups(groups, mounts);
        let folders: Vec<&str> = found.iter().map(|group| group.folder.to_str().unwrap()).collect();
        assert_eq!(folders, want, "{groups}");
    }

    #[test]
    fn groups_up_to_the_mount() {
        check(
            "4:memory:/a/b\n3:cpuset:/\n0::/\n",
            HYBRID,
            &[
                "/sys/fs/cgroup/memory/a/b",
                "/sys/fs/cgroup/memory/a",
                "/sys/fs/cgroup/memory",
                "/sys/fs/cgroup/unified",
            ],
        );
        let v2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        check(
            "0::/system.slice/brisk.service\n",
            v2,
            &["/sys/fs/cgroup/system.slice/brisk.service", "/sys/fs/cgroup/system.slice", "/sys/fs/cgroup"],
        );
        // A container that sees its own group only, with and without a name space of groups.
        let own = "30 23 0:26 /docker/7f /sys/fs/cgroup\\040x rw - cgroup cgroup rw,memory\n";
        check("4:cpu,memory:/docker/7f/in\n", own, &["/sys/fs/cgroup x/in", "/sys/fs/cgroup x"]);
        check("4:memory:/docker/7f\n", own, &["/sys/fs/cgroup x"]);
        check("4:memory:/elsewhere\n", own, &["/sys/fs/cgroup x"]);
        check("0::/../other\n", v2, &["/sys/fs/cgroup"]);
        check("0::/\n", "", &[]);
        check("nonsense\n4:memory\n", HYBRID, &[]);
    }

    fn left(group: &str, files: &[(&str, &str)]) -> Option<u64> {
        let groups = memory_groups(group, HYBRID);
        groups[0].left(|path| {
            let name = path.file_name()?.to_str()?;
            files.iter().find(|(have, _)| *have == name).map(|(_, text)| text.to_string())
        })
    }

    #[test]
    fn what_a_group_leaves() {
        let v1 = |limit, stat| {
            let files =
                [("memory.limit_in_bytes", limit), ("memory.usage_in_bytes", "300\n"), ("memory.stat", stat)];
            left("4:memory:/a\n", &files)
        };
        assert_eq!(v1("1000\n", "cache 5\ntotal_inactive_file 100\n"), Some(800));
        assert_eq!(v1("1000\n", ""), Some(700));
        assert_eq!(v1("200\n", ""), Some(0));
        assert_eq!(v1("9223372036854771712\n", ""), None);
        let v2 = |max, high, stat| {
            let files = [
                ("memory.max", max),
                ("memory.high", high),
                ("memory.current", "300\n"),
                ("memory.stat", stat),
            ];
            left("0::/\n", &files)
        };
        assert_eq!(v2("1000\n", "max\n", "inactive_file 100\nactive_file 7\n"), Some(800));
        assert_eq!(v2("1000\n", "500\n", ""), Some(200));
        assert_eq!(v2("max\n", "max\n", ""), None);
        // The root's group has no such files.
        assert_eq!(left("0::/\n", &[]), None);
    }

    #[test]
    fn pressure() {
        let text = "some avg10=12.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=3.00 avg60=0.00 avg300=0.00 total=1\n";
        assert_eq!(pressure_percent(text), Some(12.5));
        assert_eq!(pressure_percent(""), None);
        let groups = memory_groups("4:memory:/a\n0::/b\n", HYBRID);
        let told: Vec<_> = groups.iter().map(|group| group.pressure_percent(|_| Some(text.into()))).collect();
        // Two of v1, which does not tell, and two of v2.
        assert_eq!(told, [None, None, Some(12.5), Some(12.5)]);
    }
}
