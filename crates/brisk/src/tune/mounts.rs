//! What the kernel's tables say of mounts, sockets and interfaces. No I/O.

use std::path::{Path, PathBuf};

/// A file system with files of its own, by where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub point: String,
}

/// File systems of the kernel: the copy gets its own of those that it needs.
const KERNEL: &[&str] = &[
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
];

/// File systems of which nothing that is written reaches anybody outside.
const PRIVATE: &[&str] = &["overlay", "proc", "tmpfs"];

/// One line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)): where, whether it may be written, and what it is.
struct Line<'a> {
    point: String,
    is_read_only: bool,
    kind: &'a str,
}

fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines().filter_map(|line| {
        let (fields, behind) = line.split_once(" - ")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        let kind = behind.split(' ').next()?;
        let is_read_only = fields.get(5)?.split(',').any(|option| option == "ro");
        Some(Line { point: unescaped(fields.get(4)?), is_read_only, kind })
    })
}

/// Blanks, tabs, newlines and backslashes are written as three octal digits.
fn unescaped(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once('\\') {
        out.push_str(before);
        let code = behind.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                out.push(char::from(code));
                rest = &behind[3..];
            }
            None => {
                out.push('\\');
                rest = behind;
            }
        }
    }
    out + rest
}

/// The file systems that a copy of the machine needs, outer ones first, each place once.
pub fn of(mountinfo: &str) -> Vec<Mount> {
    let is_kernel_s =
        |point: &str| ["/proc", "/sys", "/dev"].iter().any(|top| Path::new(point).starts_with(top));
    // An overlay's option has no way to write these.
    let is_writable = |point: &str| !point.contains([',', ':', '\\']);
    let mut points: Vec<String> = lines(mountinfo)
        .filter(|line| !KERNEL.contains(&line.kind) && !is_kernel_s(&line.point) && is_writable(&line.point))
        .map(|line| line.point)
        .collect();
    points.sort();
    points.dedup();
    points.into_iter().map(|point| Mount { point }).collect()
}

/// Places of which writes would reach the outside.
pub fn reaching(mountinfo: &str, kept: &[&PathBuf]) -> Vec<String> {
    let is_kept = |point: &str| kept.iter().any(|path| path.as_path() == Path::new(point));
    let is_device = |line: &Line<'_>| line.kind == "devtmpfs" && line.point.starts_with("/dev/");
    let reaches = |line: &Line<'_>| {
        !line.is_read_only && !PRIVATE.contains(&line.kind) && !is_device(line) && !is_kept(&line.point)
    };
    lines(mountinfo).filter(reaches).map(|line| line.point).collect()
}

/// Paths of the sockets in `/proc/net/unix`; those without one are the namespace's own.
pub fn sockets(text: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        // Seven fields, and the path as the rest of the line.
        let at = line.find(" /")?;
        Some(PathBuf::from(&line[at + 1..]))
    };
    let mut all: Vec<PathBuf> = text.lines().skip(1).filter_map(path).collect();
    all.sort();
    all.dedup();
    all
}

/// Names of interfaces in `/proc/net/dev`.
pub fn interfaces(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
        22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
        23 22 0:21 / /proc rw - proc proc rw\n\
        24 22 0:22 / /sys rw - sysfs sysfs rw\n\
        25 22 0:6 / /dev rw - devtmpfs devtmpfs rw\n\
        26 25 0:23 / /dev/shm rw - tmpfs tmpfs rw\n\
        27 22 8:1 / /home rw - xfs /dev/sdb rw\n\
        28 27 8:2 / /home/a\\040b rw shared:1 - ext4 /dev/sdc rw\n\
        29 22 0:9 / /snap/x ro - squashfs /dev/loop0 ro\n\
        30 22 8:3 / /odd,name rw - ext4 /dev/sdd rw\n\
        31 22 0:27 / /run rw - tmpfs tmpfs rw\n\
        32 22 0:27 / /run rw - tmpfs tmpfs rw\n";

    #[test]
    fn file_systems_are_told_from_the_kernel_s() {
        let points: Vec<String> = of(TABLE).into_iter().map(|mount| mount.point).collect();
        assert_eq!(points, ["/", "/home", "/home/a b", "/run", "/snap/x"]);
    }

    #[test]
    fn what_reaches_the_outside_is_named() {
        let inside = "\
            1 0 0:40 / / rw - overlay overlay rw\n\
            2 1 0:41 / /proc rw - proc proc rw\n\
            3 1 0:42 / /sys ro - sysfs sysfs rw\n\
            4 1 0:43 / /dev rw - tmpfs tmpfs rw\n\
            5 4 0:6 /null /dev/null rw - devtmpfs devtmpfs rw\n\
            6 1 254:0 /var/lib /var/lib rw - ext4 /dev/vda rw\n\
            7 1 254:0 /run/db.sock /run/db.sock rw - ext4 /dev/vda rw\n\
            8 1 0:22 / /mnt/sys rw - sysfs sysfs rw\n";
        let kept = PathBuf::from("/run/db.sock");
        assert_eq!(reaching(inside, &[&kept]), ["/var/lib", "/mnt/sys"]);
        assert_eq!(reaching(inside, &[]), ["/var/lib", "/run/db.sock", "/mnt/sys"]);
    }

    #[test]
    fn sockets_and_interfaces() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000: 00000002 00000000 00010000 0001 01 81 /run/mysqld/mysqld.sock\n\
            0000: 00000003 00000000 00000000 0001 03 82\n\
            0000: 00000002 00000000 00000000 0002 01 83 /run/a b/log\n\
            0000: 00000002 00000000 00000000 0001 01 84 @abstract\n";
        assert_eq!(sockets(text), [PathBuf::from("/run/a b/log"), PathBuf::from("/run/mysqld/mysqld.sock")]);
        let text = "Inter-|   Receive\n face |bytes\n    lo: 0 0\n  eth0: 5 5\n";
        assert_eq!(interfaces(text), ["lo", "eth0"]);
    }
}
