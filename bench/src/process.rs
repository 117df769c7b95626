//! What the kernel says about a tree of processes: CPU by thread, memory.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The scheduler's account by thread id.
pub type ThreadCpu = BTreeMap<u32, Account>;

/// The scheduler's account of one thread or of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    /// Nanoseconds on a CPU.
    pub ran_ns: u64,
    /// Nanoseconds ready to run, but waiting for a CPU that others had.
    pub waited_ns: u64,
}

/// Resident memory of a process tree, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    /// Resident pages, those shared between processes counted in each.
    pub rss: f64,
    /// Resident pages, shared ones divided among those who share them.
    pub pss: f64,
}

/// `root` and all its descendants.
pub fn tree(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = numbers_in(Path::new("/proc"))
        .filter_map(|pid| Some((pid, parent_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(parents.iter().filter(|&&(_, of)| of == parent).map(|&(pid, _)| pid));
        next += 1;
    }
    found
}

/// The account of every thread of a process tree.
pub fn thread_cpu(root: u32) -> ThreadCpu {
    tree(root).into_iter().flat_map(tasks_of).collect()
}

/// The account of every thread of one process.
pub fn tasks_of(pid: u32) -> ThreadCpu {
    let tasks = format!("/proc/{pid}/task");
    let account = |tid: u32| {
        let text = fs::read_to_string(format!("{tasks}/{tid}/schedstat")).ok()?;
        let mut fields = text.split(' ').map_while(|field| field.parse().ok());
        Some((tid, Account { ran_ns: fields.next()?, waited_ns: fields.next()? }))
    };
    numbers_in(Path::new(&tasks)).filter_map(account).collect()
}

/// What a process tree added to its account between two readings.
pub fn between(before: &ThreadCpu, after: &ThreadCpu) -> Account {
    threads_between(before, after).into_iter().fold(Account::default(), |sum, thread| Account {
        ran_ns: sum.ran_ns + thread.ran_ns,
        waited_ns: sum.waited_ns + thread.waited_ns,
    })
}

/// The same by thread. A thread that has ended in between is missing: servers keep theirs.
pub fn threads_between(before: &ThreadCpu, after: &ThreadCpu) -> Vec<Account> {
    let added = |(tid, after): (&u32, &Account)| {
        let before = before.get(tid).copied().unwrap_or_default();
        Account {
            ran_ns: after.ran_ns.saturating_sub(before.ran_ns),
            waited_ns: after.waited_ns.saturating_sub(before.waited_ns),
        }
    };
    after.iter().map(added).collect()
}

/// Resident memory of a process tree.
pub fn memory(root: u32) -> Memory {
    tree(root).into_iter().fold(Memory::default(), |sum, pid| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        Memory { rss: sum.rss + kib_field(&text, "Rss:"), pss: sum.pss + kib_field(&text, "Pss:") }
    })
}

/// A line `Name:   123 kB`, in bytes.
fn kib_field(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) * 1024.0
}

/// The parent in `/proc/PID/stat`; the command's name may hold spaces and parentheses.
fn parent_of(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Entries of a directory whose names are numbers.
fn numbers_in(directory: &Path) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_with_odd_names() {
        assert_eq!(parent_of("12 (a b) c) S 7 12 12"), Some(7));
        assert_eq!(parent_of("nonsense"), None);
    }

    #[test]
    fn this_process_has_memory_and_uses_cpu() {
        let own = std::process::id();
        let before = thread_cpu(own);
        let start = std::time::Instant::now();
        // The account of a running thread is as old as the last scheduler tick.
        while between(&before, &thread_cpu(own)).ran_ns < 1_000_000 {
            assert!(start.elapsed() < std::time::Duration::from_secs(20), "the account stands still");
        }
        let memory = memory(own);
        assert!(memory.rss >= memory.pss && memory.pss > 100_000.0);
    }

    #[test]
    fn fields_of_smaps() {
        assert!((kib_field("Rss:   1696 kB\nPss:  442 kB\n", "Pss:") - 452_608.0).abs() < 0.1);
        assert!(kib_field("", "Pss:").abs() < 0.1);
    }
}
