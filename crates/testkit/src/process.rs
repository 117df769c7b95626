//! Looks at processes through `/proc`, and signals to them.

use crate::wait;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::PathBuf;

/// Sends a signal; a process that is gone already is fine.
///
/// # Panics
/// If `pid` is no process number.
pub fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid as i32).expect("a process number");
    let _ = kill_process(pid, signal);
}

/// Whether it runs (a zombie does not).
pub fn is_alive(pid: u32) -> bool {
    // While other threads end, which hold its sockets, the first one is a zombie already.
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    threads > 1 || stat(pid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// Whether it was stopped by a signal.
pub fn is_stopped(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| stat.state == 'T')
}

/// Stops a process, and waits until none of its threads runs any more: the signal takes effect a little later.
pub fn stop(pid: u32) {
    signal(pid, Signal::STOP);
    wait::holds(&format!("process {pid} to stand still"), || {
        let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let mut threads = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        threads.all(is_stopped)
    });
}

/// Waits until a process has ended.
pub fn wait_gone(pid: u32) {
    wait::holds(&format!("the end of process {pid}"), || !is_alive(pid));
}

struct Stat {
    state: char,
    parent: u32,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let mut rest = text.rsplit_once(')')?.1.split_whitespace();
    Some(Stat { state: rest.next()?.chars().next()?, parent: rest.next()?.parse().ok()? })
}

fn children_with(pid: u32, state: impl Fn(char) -> bool) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<u32> =
        numbers.filter(|&child| stat(child).is_some_and(|s| s.parent == pid && state(s.state))).collect();
    found.sort_unstable();
    found
}

/// Running children of a process, oldest first.
pub fn children(pid: u32) -> Vec<u32> {
    children_with(pid, |state| state != 'Z')
}

/// Children that have ended and that it has not waited for.
pub fn zombies(pid: u32) -> Vec<u32> {
    children_with(pid, |state| state == 'Z')
}

/// A process and all below it.
pub fn tree(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut at = 0;
    while at < all.len() {
        all.extend(children(all[at]));
        at += 1;
    }
    all
}

/// Running processes that have files below a folder open, this one not counted.
pub fn with_files_in(folder: &std::path::Path) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has = |pid: &u32| {
        let mut files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        *pid != std::process::id()
            && files.any(|file| fs::read_link(file.path()).is_ok_and(|path| path.starts_with(folder)))
    };
    numbers.filter(has).collect()
}

/// The first number behind a name in `/proc/PID/FILE`, such as `Uid:` in `status` or `Max open files` in `limits`.
pub fn number(pid: u32, file: &str, name: &str) -> Option<i64> {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The nice value of a process.
pub fn nice(pid: u32) -> Option<i64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Fields 3 (state) and on follow the name; nice is field 19.
    text.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok()
}

/// A field in KiB of `/proc/PID/FILE`, such as `VmRSS` of `status`.
fn kib(pid: u32, file: &str, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Resident memory of one process.
pub fn rss_kib(pid: u32) -> u64 {
    kib(pid, "status", "VmRSS")
}

/// Anonymous memory of a process and all below it; what they share is counted once. Pages of the program's file are left out:
/// what of them counts depends on how many other servers run at the time.
pub fn tree_anonymous_kib(pid: u32) -> u64 {
    tree(pid).into_iter().map(|pid| kib(pid, "smaps_rollup", "Pss_Anon")).sum()
}

/// A thread's name and the processor time it has used, from the scheduler's own accounting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadTime {
    /// As `/proc` names it.
    pub name: String,
    /// The time that it has had a processor, in nanoseconds.
    pub cpu_ns: u64,
    /// How often it was put on a processor.
    pub runs: u64,
}

/// The threads of a process; empty if it is gone.
pub fn threads(pid: u32) -> Vec<ThreadTime> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let read = |task: PathBuf| {
        let times = fs::read_to_string(task.join("schedstat")).ok()?;
        let mut times = times.split_whitespace().map(|n| n.parse().unwrap_or(0));
        let (cpu_ns, _waiting, runs) = (times.next()?, times.next()?, times.next()?);
        let name = fs::read_to_string(task.join("comm")).ok()?.trim_end().to_string();
        Some(ThreadTime { name, cpu_ns, runs })
    };
    tasks.filter_map(|task| read(task.path())).collect()
}

/// How often the threads of a process whose name begins so have gone to sleep of their own will, all together.
pub fn sleeps(pid: u32, name: &str) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let count = |task: PathBuf| {
        let is_it = fs::read_to_string(task.join("comm")).ok()?.starts_with(name);
        let status = fs::read_to_string(task.join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok().filter(|_| is_it)
    };
    tasks.filter_map(|task| count(task.path())).sum()
}

/// How many descriptors each event loop of a process watches, the smallest first.
pub fn watched(pid: u32) -> Vec<usize> {
    let infos = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let texts = infos.filter_map(|info| fs::read_to_string(info.path()).ok());
    let counts = texts.map(|text| text.lines().filter(|line| line.starts_with("tfd:")).count());
    let mut counts: Vec<usize> = counts.filter(|&count| count > 0).collect();
    counts.sort_unstable();
    counts
}

/// How many folders and files a process has the kernel tell it of.
pub fn file_watches(pid: u32) -> usize {
    let infos = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let texts = infos.filter_map(|info| fs::read_to_string(info.path()).ok());
    texts.map(|text| text.lines().filter(|line| line.starts_with("inotify wd:")).count()).sum()
}

/// Lets this process open as many files as it may.
pub fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Open descriptors of a process.
pub fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// The file a symbolic link of `/proc/PID` leads to, such as `cwd` or `exe`.
pub fn link(pid: u32, name: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/{name}")).ok()
}

/// The cores that each thread of a process may use, in the order of the threads' start.
pub fn cores(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut tasks: Vec<u32> = tasks.filter_map(|t| t.file_name().to_str()?.parse().ok()).collect();
    tasks.sort_unstable();
    let read = |task: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{task}/status")).ok()?;
        let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(list.trim().to_string())
    };
    tasks.iter().filter_map(read).collect()
}

/// Whether the tests run as root, as they do in CI: some of what is tested needs it.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
