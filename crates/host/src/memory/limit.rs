//! What `memory_limit auto` comes to.

use crate::limits::{MEMORY_ADDRESS_SPACE_PERCENT, MEMORY_AREA_BYTES_MIN, MEMORY_AUTO_PERCENT};
use rustix::process::{Resource, getrlimit};
use std::fs;
use std::path::PathBuf;

/// `memory_limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MemoryLimit {
    /// What the machine, the control group or the process's own limits leave room for.
    #[default]
    Auto,
    /// So many bytes.
    Bytes(u64),
    /// None.
    Off,
}

/// The limit in bytes that a configuration asks for; `None`: there is none.
pub fn of(limit: MemoryLimit) -> Option<u64> {
    match limit {
        MemoryLimit::Off => None,
        MemoryLimit::Bytes(bytes) => Some(process_limit().map_or(bytes, |most| most.min(bytes))),
        MemoryLimit::Auto => {
            let of_machine = [cgroup_limit(), physical_memory()].into_iter().flatten().min();
            let of_machine = of_machine.map(|bytes| bytes / 100 * MEMORY_AUTO_PERCENT);
            [of_machine, process_limit()].into_iter().flatten().min()
        }
    }
}

/// What the process's own limits leave room for (`ulimit -v`, `ulimit -d`): beyond them an allocation fails. They count address space,
/// of which the allocator has taken much that holds nothing yet.
fn process_limit() -> Option<u64> {
    let limit = |resource| getrlimit(resource).current;
    let (space, data) = (limit(Resource::As), limit(Resource::Data));
    if space.is_none() && data.is_none() {
        return None;
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let left = |limit: Option<u64>, taken: &str| Some(limit?.saturating_sub(kib(&status, taken)? << 10));
    let left = [left(space, "VmSize:"), left(data, "VmData:")].into_iter().flatten().min();
    let own = Areas::of(&fs::read_to_string("/proc/self/smaps").unwrap_or_default());
    let room = match left {
        Some(left) => own.resident + own.reserved + left,
        // Without /proc nothing is known but the limits.
        None => [space, data].into_iter().flatten().min()? / 4,
    };
    Some(room / 100 * MEMORY_ADDRESS_SPACE_PERCENT)
}

/// A field of `/proc/self/status` or `/proc/meminfo`.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The allocator's areas: large anonymous mappings.
#[derive(Debug, Default, PartialEq, Eq)]
struct Areas {
    /// Bytes that are in use.
    resident: u64,
    /// Bytes that can be used without another mapping.
    reserved: u64,
}

impl Areas {
    /// Reads `/proc/self/smaps`.
    fn of(smaps: &str) -> Areas {
        let mut areas = Areas::default();
        let mut mapping = Mapping::default();
        for line in smaps.lines() {
            if let Some(begun) = Mapping::begin(line) {
                mapping = begun;
            } else if let Some(resident) = kib(line, "Rss:").filter(|_| mapping.is_area) {
                let resident = (resident << 10).min(mapping.bytes);
                areas.resident += resident;
                areas.reserved += mapping.bytes - resident;
            }
        }
        areas
    }
}

/// A mapping of `/proc/self/smaps`.
#[derive(Debug, Default)]
struct Mapping {
    bytes: u64,
    /// It is one of the allocator's.
    is_area: bool,
}

impl Mapping {
    /// Reads a mapping's first line; `None`: it is another line.
    fn begin(line: &str) -> Option<Mapping> {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let address = |text: &str| u64::from_str_radix(text, 16).ok();
        let bytes = address(end)?.checked_sub(address(start)?)?;
        // What is not writable yet is another allocator's: a heap of the C library for each thread.
        let is_writable = fields.next()? == "rw-p";
        let is_anonymous =
            fields.nth(2)? == "0" && fields.next().is_none_or(|name| name.starts_with("[anon"));
        Some(Mapping { bytes, is_area: is_writable && is_anonymous && bytes >= MEMORY_AREA_BYTES_MIN })
    }
}

/// The tightest limit of the control groups that this process is in.
fn cgroup_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let root = PathBuf::from("/sys/fs/cgroup");
    let version1 = root.join("memory");
    let found = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        match controllers {
            "" => tightest(&root, path, "memory.max"),
            names if names.split(',').any(|name| name == "memory") => {
                tightest(&version1, path, "memory.limit_in_bytes")
            }
            _ => None,
        }
    });
    found.min()
}

/// The least number in a file of the group's folder or of one above it.
fn tightest(root: &PathBuf, path: &str, file: &str) -> Option<u64> {
    let mut at = root.join(path);
    let mut least = None;
    while at.starts_with(root) {
        let here = fs::read_to_string(at.join(file)).ok().and_then(|text| text.trim().parse::<u64>().ok());
        least = [least, here].into_iter().flatten().min();
        if !at.pop() {
            break;
        }
    }
    least
}

/// The machine's memory.
fn physical_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    Some(kib(&text, "MemTotal:")? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_of_the_allocator_are_told_from_others() {
        let smaps = "\
7f0000000000-7f0040000000 rw-p 00000000 00:00 0 
Size:            1048576 kB
Rss:                4096 kB
Pss:                4096 kB
7f1000000000-7f1002000000 ---p 00000000 00:00 0
Rss:                   0 kB
7f2000000000-7f2000200000 rw-p 00000000 00:00 0 
Rss:                 100 kB
7f3000000000-7f3009000000 r-xp 00000000 08:01 4711                       /usr/sbin/brisk
Rss:               90000 kB
7f4000000000-7f4009000000 rw-p 00000000 00:00 0                          [stack]
Rss:                  90 kB
";
        let want = Areas { resident: 4096 << 10, reserved: (1_048_576 - 4096) << 10 };
        assert_eq!(Areas::of(smaps), want);
        assert_eq!(kib("VmSize:\t  282180 kB\n", "VmSize:"), Some(282_180));
    }

    #[test]
    fn a_limit_is_found_on_every_machine() {
        let auto = of(MemoryLimit::Auto).unwrap();
        assert!(auto > 1 << 20 && auto < physical_memory().unwrap());
        assert_eq!(of(MemoryLimit::Off), None);
        assert_eq!(of(MemoryLimit::Bytes(1000)), Some(1000));
    }
}
