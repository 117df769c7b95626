//! What the kernel says: processes, groups of processes, the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::sockets;

/// What one tier has used up to now, as far as it grows, and what it is using.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// On a CPU, in nanoseconds, since the watch began.
    pub cpu_ns: u64,
    /// Ready to run while others had the CPUs, in nanoseconds.
    pub waited_ns: u64,
    /// Of the thread that ran most since the last look, in nanoseconds.
    pub busiest_ns: u64,
    /// Times that a thread gave its CPU away or lost it.
    pub switches: u64,
    /// Memory, shared pages divided among those who share them, in bytes.
    pub pss: u64,
    /// Processes.
    pub processes: u32,
    /// Threads.
    pub threads: u32,
}

/// The same of the machine, since it was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Machine {
    /// CPUs at work, in hundredths of a second.
    pub busy_ticks: u64,
    /// Of these, at what the scheduler books to threads, too.
    pub thread_ticks: u64,
    /// All there is of them.
    pub all_ticks: u64,
    /// Taken by other guests of the same host.
    pub steal_ticks: u64,
    /// Microseconds in which somebody waited for a CPU, for memory, for a disk (PSI).
    pub pressure_us: [u64; 3],
    /// Connections that found a listener's queue full.
    pub listen_drops: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Connections reset by this machine.
    pub resets: u64,
    /// Connections that could not be made.
    pub failed_connects: u64,
}

/// A disk, since the machine was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disk {
    /// Its name.
    pub name: String,
    /// Reads and writes that it has answered.
    pub answers: u64,
    /// How long these took, together, in milliseconds.
    pub taken_ms: u64,
    /// How long it had something to do, in milliseconds.
    pub busy_ms: u64,
}

/// The disks of `/proc/diskstats` (the kernel's Documentation/admin-guide/iostats.rst) of which `is_whole` says that they are no part
/// of another one.
fn disks_of(text: &str, is_whole: impl Fn(&str) -> bool) -> Vec<Disk> {
    let disk = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let name = fields.get(2).filter(|name| !name.starts_with("loop") && !name.starts_with("ram"))?;
        is_whole(name).then_some(())?;
        Some(Disk {
            name: (*name).to_owned(),
            answers: number(3)? + number(7)?,
            taken_ms: number(6)? + number(10)?,
            busy_ms: number(12)?,
        })
    };
    text.lines().filter_map(disk).collect()
}

/// Looks at all disks.
pub fn disks() -> Vec<Disk> {
    let text = fs::read_to_string("/proc/diskstats").unwrap_or_default();
    disks_of(&text, |name| Path::new("/sys/block").join(name.replace('/', "!")).exists())
}

/// Numbers that are names of a folder's entries.
fn numbers_in(directory: &Path) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Every process.
pub fn processes() -> impl Iterator<Item = u32> {
    numbers_in(Path::new("/proc"))
}

/// The parent in `/proc/PID/stat`; the command's name may hold spaces and parentheses.
fn parent_of(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// `root` and all its descendants.
pub fn tree(root: u32) -> Vec<u32> {
    let parent = |pid: u32| parent_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?);
    let parents: Vec<(u32, u32)> = processes().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&above) = found.get(next) {
        found.extend(parents.iter().filter(|&&(_, of)| of == above).map(|&(pid, _)| pid));
        next += 1;
    }
    found
}

/// Processes whose command line begins with `start`.
pub fn with_title(start: &str) -> Vec<u32> {
    let begins = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let title = String::from_utf8_lossy(&line).replace('\0', " ");
        title.trim_end() == start || title.starts_with(&format!("{start} "))
    };
    processes().filter(begins).collect()
}

/// Processes of this command name.
pub fn with_command(name: &str) -> Vec<u32> {
    // The kernel keeps 15 bytes of it.
    let is_it = |pid: &u32| command_of(*pid) == name.get(..15).unwrap_or(name);
    processes().filter(is_it).collect()
}

/// The command name of a process, 15 bytes at most; empty where there is none.
pub fn command_of(pid: u32) -> String {
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    comm.trim_end().to_owned()
}

/// Processes that listen on a TCP port. Others' are only seen by root.
pub fn listening_on(port: u16) -> Vec<u32> {
    holding(&sockets::inodes_of_port(port))
}

/// Processes that listen on a unix socket. Others' are only seen by root.
pub fn listening_at(path: &Path) -> Vec<u32> {
    holding(&sockets::inodes_of_path(path))
}

/// Processes that have one of these sockets.
fn holding(inodes: &BTreeSet<u64>) -> Vec<u32> {
    let holds = |pid: &u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut sockets = files.filter_map(|file| fs::metadata(file.path()).ok());
        // Files of other file systems may have the same number.
        !inodes.is_empty() && sockets.any(|file| file.file_type().is_socket() && inodes.contains(&file.ino()))
    };
    processes().filter(holds).collect()
}

/// Those of these processes whose parent is one of them, too: the workers of a server that has a master.
pub fn workers(pids: &[u32]) -> Vec<u32> {
    let parent = |pid: u32| parent_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?);
    pids.iter().copied().filter(|pid| parent(*pid).is_some_and(|above| pids.contains(&above))).collect()
}

/// Bytes that a process has read by system calls, from files as from sockets.
pub fn read_bytes_of(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("rchar:"))?.trim().parse().ok()
}

/// Whether these processes have a large piece of memory together, as PHP's have for OPcache. `None`: nobody may look, or there is none.
pub fn shares_code(pids: &[u32]) -> Option<bool> {
    const LEAST: u64 = 4 << 20;
    let is_large = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let is_shared = rest.as_bytes().get(3) == Some(&b's')
            && (rest.contains("/dev/zero") || rest.contains("ZendAccelerator"));
        (is_shared && number(to)?.checked_sub(number(from)?)? >= LEAST).then_some(())
    };
    let maps: Vec<String> =
        pids.iter().filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/maps")).ok()).collect();
    let maps: Vec<&String> = maps.iter().filter(|text| !text.is_empty()).collect();
    (!maps.is_empty()).then(|| maps.iter().any(|text| text.lines().any(|line| is_large(line).is_some())))
}

/// Whether one of these processes has this library in its memory, as Apache has PHP.
pub fn has_library(pids: &[u32], name: &str) -> bool {
    pids.iter()
        .any(|pid| fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|text| text.contains(name)))
}

/// Processes of a control group and of those below it.
pub fn in_group(group: &Path) -> Vec<u32> {
    let mut found: Vec<u32> = fs::read_to_string(group.join("cgroup.procs"))
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect();
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(in_group(&entry.path()));
        }
    }
    found
}

/// A control group's folder: a path below `/sys/fs/cgroup`, or the whole path.
pub fn group_folder(name: &str) -> PathBuf {
    let name = name.strip_prefix("/sys/fs/cgroup").unwrap_or(name);
    Path::new("/sys/fs/cgroup").join(name.trim_start_matches('/'))
}

/// Follows the threads of changing processes: what those have used that are gone is not forgotten.
#[derive(Debug, Default)]
pub struct Account {
    threads: BTreeMap<(u32, u32), (u64, u64)>,
    sum: Usage,
    begun: bool,
}

impl Account {
    /// Looks at the processes. `deeply`: at memory and switches too, which costs more.
    pub fn look(&mut self, pids: &[u32], deeply: bool) -> Usage {
        let mut seen = BTreeMap::new();
        self.sum.busiest_ns = 0;
        for &pid in pids {
            for tid in numbers_in(Path::new(&format!("/proc/{pid}/task"))) {
                let path = format!("/proc/{pid}/task/{tid}/schedstat");
                if let Some(account) = fs::read_to_string(path).ok().as_deref().and_then(account_of) {
                    seen.insert((pid, tid), account);
                }
            }
        }
        for (id, &(ran, waited)) in &seen {
            // What a thread had used before it was first looked at counts if it was born under our eyes.
            let unseen = if self.begun { (0, 0) } else { (ran, waited) };
            let before = self.threads.get(id).copied().unwrap_or(unseen);
            let more = ran.saturating_sub(before.0);
            self.sum.cpu_ns += more;
            self.sum.waited_ns += waited.saturating_sub(before.1);
            self.sum.busiest_ns = self.sum.busiest_ns.max(more);
        }
        self.sum.threads = seen.len() as u32;
        self.sum.processes = seen.keys().map(|id| id.0).collect::<BTreeSet<_>>().len() as u32;
        if deeply {
            self.sum.switches = seen.keys().map(|&(pid, tid)| switches_of(pid, tid)).sum();
            self.sum.pss = pids.iter().map(|&pid| pss_of(pid)).sum();
        }
        self.threads = seen;
        self.begun = true;
        self.sum
    }
}

fn account_of(text: &str) -> Option<(u64, u64)> {
    let mut fields = text.split(' ').map_while(|field| field.parse().ok());
    Some((fields.next()?, fields.next()?))
}

fn switches_of(pid: u32, tid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).unwrap_or_default();
    let count = |line: &str| line.split_once("ctxt_switches:")?.1.trim().parse::<u64>().ok();
    text.lines().filter_map(count).sum()
}

fn pss_of(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Looks at the machine.
pub fn machine() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let stat = read("/proc/stat");
    let ticks: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .take(8)
        .filter_map(|field| field.parse().ok())
        .collect();
    let all: u64 = ticks.iter().sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    let (threads, interrupts): (u64, u64) = (ticks.iter().take(3).sum(), ticks.iter().skip(5).take(2).sum());
    // A kernel that measures interrupts' time (CONFIG_IRQ_TIME_ACCOUNTING) takes it from the thread that was interrupted, and
    // has this file.
    let are_apart = Path::new("/proc/pressure/irq").exists();
    let pressure = ["cpu", "memory", "io"].map(|what| {
        let text = read(&format!("/proc/pressure/{what}"));
        let total = text.lines().next().and_then(|line| line.rsplit_once("total="));
        total.and_then(|(_, number)| number.trim().parse().ok()).unwrap_or(0)
    });
    let (netstat, snmp) = (read("/proc/net/netstat"), read("/proc/net/snmp"));
    let extended = |name: &str| table_value(&netstat, "TcpExt:", name);
    let tcp = |name: &str| table_value(&snmp, "Tcp:", name);
    Machine {
        busy_ticks: all - idle,
        thread_ticks: threads + if are_apart { 0 } else { interrupts },
        all_ticks: all,
        steal_ticks: ticks.get(7).copied().unwrap_or(0),
        pressure_us: pressure,
        listen_drops: extended("ListenDrops"),
        retransmits: tcp("RetransSegs"),
        resets: tcp("OutRsts"),
        failed_connects: tcp("AttemptFails"),
    }
}

/// A value of `/proc/net/netstat` and its like: a line of names, then one of numbers.
fn table_value(text: &str, table: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|line| line.starts_with(table));
    let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else { return 0 };
    let found = names.split(' ').zip(numbers.split(' ')).find(|(have, _)| *have == name);
    found.and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_lines_of_the_kernel() {
        let text = "TcpExt: A ListenDrops B\nTcpExt: 1 22 3\nIpExt: X\nIpExt: 9\n";
        assert_eq!(table_value(text, "TcpExt:", "ListenDrops"), 22);
        assert_eq!(table_value(text, "TcpExt:", "C"), 0);
        assert_eq!(parent_of("12 (a b) c) S 7 12 12"), Some(7));
        let disks = " 254 0 vda 100 1 800 40 50 2 900 60 0 70 110\n 254 1 vda1 9 1 8 4 5 2 9 6 0 7 11\n 7 0 loop0 1 1 1 1 1 1 1 1 1 1 1\n";
        let vda = Disk { name: "vda".to_owned(), answers: 150, taken_ms: 100, busy_ms: 70 };
        assert_eq!(disks_of(disks, |name| name == "vda"), [vda]);
        assert_eq!(account_of("5 6 7\n"), Some((5, 6)));
    }

    #[test]
    fn groups_are_taken_with_those_below() {
        let root = std::env::temp_dir().join(format!("brisk-load-groups-{}", std::process::id()));
        fs::create_dir_all(root.join("a.slice/b.service")).unwrap();
        fs::write(root.join("a.slice/cgroup.procs"), "5\n6\n").unwrap();
        fs::write(root.join("a.slice/b.service/cgroup.procs"), "7\n").unwrap();
        assert_eq!(in_group(&root.join("a.slice")), [5, 6, 7]);
        assert!(in_group(&root.join("c.slice")).is_empty());
        fs::remove_dir_all(root).unwrap();
        assert_eq!(group_folder("/a.slice"), group_folder("/sys/fs/cgroup/a.slice"));
    }

    #[test]
    fn this_process_is_found_by_its_port_and_name() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let own = std::process::id();
        assert!(listening_on(listener.local_addr().unwrap().port()).contains(&own));
        let name = fs::read_to_string("/proc/self/comm").unwrap();
        assert!(with_command(name.trim_end()).contains(&own));
        assert!(tree(own).contains(&own));
        let machine = machine();
        assert!(machine.all_ticks > machine.busy_ticks && machine.busy_ticks > 0);
        assert!(machine.thread_ticks > 0 && machine.thread_ticks <= machine.busy_ticks, "{machine:?}");
    }

    /// A file with a socket's number is no socket.
    #[test]
    fn only_sockets_are_held() {
        let (own, socket) = (std::process::id(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        assert!(holding(&sockets::inodes_of_port(socket.local_addr().unwrap().port())).contains(&own));
        let file = fs::File::open("/proc/self/exe").unwrap();
        assert!(!holding(&BTreeSet::from([file.metadata().unwrap().ino()])).contains(&own));
    }

    #[test]
    fn work_is_accounted_for_even_when_its_thread_is_gone() {
        let own = [std::process::id()];
        let mut account = Account::default();
        let before = account.look(&own, true);
        assert_eq!(before.cpu_ns, 0);
        let begun = std::time::Instant::now();
        let work = std::thread::spawn(move || while begun.elapsed().as_millis() < 60 {});
        while account.look(&own, false).cpu_ns < 20_000_000 && begun.elapsed().as_secs() < 20 {}
        work.join().unwrap();
        let after = account.look(&own, true);
        assert!(after.cpu_ns >= 20_000_000 && after.pss > 100_000 && after.switches > 0, "{after:?}");
    }
}
