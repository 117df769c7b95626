//! How many event-loop threads a worker process has.
//!
//! The master and its workers must find the same number, since each thread has a socket of its own for QUIC: what the machine says
//! is asked once, before workers are forked.

use crate::main_conf::{MainConf, Processes};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::sync::OnceLock;

/// What `auto` comes to.
static AUTO: OnceLock<usize> = OnceLock::new();

/// The number of event-loop threads.
pub fn count(main: &MainConf) -> usize {
    match main.processes {
        Processes::Count(count) => count,
        Processes::Auto => *AUTO.get_or_init(|| affinity_cores().len().min(quota_cores()).max(1)),
    }
}

/// Cores that this process may run on.
pub fn affinity_cores() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        Err(_) => vec![0],
    }
}

/// Cores' worth of time that the cgroup grants, rounded up; no quota is no limit.
fn quota_cores() -> usize {
    let parse = |text: &str| {
        let (quota, period) = text.trim().split_once(' ')?;
        let (quota, period) = (quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?);
        (period > 0).then(|| quota.div_ceil(period) as usize)
    };
    let version2 = || {
        let cgroup = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
        // The tightest limit on the way to the root counts.
        let mut at = std::path::PathBuf::from(format!("/sys/fs/cgroup{path}"));
        let mut least = None;
        while at.starts_with("/sys/fs/cgroup") {
            let here = std::fs::read_to_string(at.join("cpu.max")).ok().and_then(|text| parse(&text));
            least = [least, here].into_iter().flatten().min();
            if !at.pop() {
                break;
            }
        }
        least
    };
    let version1 = || {
        let read = |name: &str| std::fs::read_to_string(format!("/sys/fs/cgroup/cpu/{name}")).ok();
        parse(&format!("{} {}", read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?.trim()))
    };
    version2().or_else(version1).unwrap_or(usize::MAX)
}
