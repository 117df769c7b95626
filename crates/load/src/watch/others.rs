//! Who else uses the machine's CPUs: what disturbs a measurement has a name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;

use super::proc;

/// Clock ticks of `/proc/PID/stat` in a second: what Linux tells all programs (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// A process as one look has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    command: String,
    parent: u32,
    /// On a CPU until now, in ticks.
    ran: u64,
    /// The same of its children that have ended and that it has waited for.
    children_ran: u64,
}

/// What the processes of a machine had used up to a moment.
#[derive(Debug, Clone, Default)]
pub struct Look {
    processes: BTreeMap<u32, Process>,
}

/// CPU time by command, in seconds, over any number of stretches.
#[derive(Debug, Clone, Default)]
pub struct Others {
    by_command: BTreeMap<String, f64>,
    seconds: f64,
}

/// The line of `/proc/PID/stat`: the command's name may hold spaces and parentheses.
fn process_of(stat: &str) -> Option<Process> {
    let (before, after) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Process {
        command: before.split_once('(')?.1.to_owned(),
        parent: number(1)? as u32,
        ran: number(11)? + number(12)?,
        children_ran: number(13)? + number(14)?,
    })
}

impl Look {
    /// Looks at all processes.
    pub fn now() -> Self {
        let stat =
            |pid: u32| Some((pid, process_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?));
        Self { processes: proc::processes().filter_map(stat).collect() }
    }

    /// What ran between an earlier look and this one, by command, in ticks, without the processes `own`. What ended meanwhile is
    /// found with the parent that has waited for it.
    fn since(&self, before: &Self, own: &BTreeSet<u32>) -> BTreeMap<String, u64> {
        let mut ended: BTreeMap<u32, u64> = BTreeMap::new();
        for (pid, process) in &before.processes {
            if !self.processes.contains_key(pid) {
                *ended.entry(process.parent).or_default() += process.ran + process.children_ran;
            }
        }
        let mut found = BTreeMap::new();
        for (pid, now) in self.processes.iter().filter(|(pid, _)| !own.contains(pid)) {
            let then = before.processes.get(pid).filter(|then| then.ran <= now.ran);
            let (ran, children) = then.map_or((0, 0), |then| (then.ran, then.children_ran));
            let mut add = |name: String, ticks: u64| {
                if ticks > 0 {
                    *found.entry(name).or_default() += ticks;
                }
            };
            add(now.command.clone(), now.ran - ran);
            let known = ended.get(pid).copied().unwrap_or(0);
            let more = now.children_ran.saturating_sub(children).saturating_sub(known);
            add(format!("children of {}", now.command), more);
        }
        found
    }
}

impl Others {
    /// Adds what ran in the `seconds` between two looks, without the processes `own`.
    pub fn add(&mut self, before: &Look, after: &Look, own: &[u32], seconds: f64) {
        for (name, ticks) in after.since(before, &own.iter().copied().collect()) {
            *self.by_command.entry(name).or_default() += ticks as f64 / TICKS_PER_SECOND;
        }
        self.seconds += seconds;
    }

    /// The commands that used most, with the CPUs that they used in the mean: at most `count`, and none that used less than a
    /// twentieth of a CPU.
    pub fn most(&self, count: usize) -> Vec<(&str, f64)> {
        let seconds = self.seconds.max(1e-9);
        let all = self.by_command.iter().map(|(name, used)| (name.as_str(), used / seconds));
        let mut all: Vec<(&str, f64)> = all.filter(|(_, cpus)| *cpus >= 0.05).collect();
        all.sort_by(|left, right| right.1.total_cmp(&left.1));
        all.truncate(count);
        all
    }
}

impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<String> =
            self.most(4).iter().map(|(name, cpus)| format!("{name} {cpus:.2} CPUs")).collect();
        match &named[..] {
            [] => f.write_str("processes too short to be seen, or outside of this container"),
            _ => f.write_str(&named.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(processes: &[(u32, &str, u32, u64, u64)]) -> Look {
        let process = |&(pid, command, parent, ran, children_ran): &(u32, &str, u32, u64, u64)| {
            (pid, Process { command: command.to_owned(), parent, ran, children_ran })
        };
        Look { processes: processes.iter().map(process).collect() }
    }

    #[test]
    fn lines_of_the_kernel() {
        let line = "12 (a b) c) S 7 12 12 0 -1 4194560 3 4 5 6 30 12 400 8 20 0 1 0 99 1 2";
        let want = Process { command: "a b) c".to_owned(), parent: 7, ran: 42, children_ran: 408 };
        assert_eq!(process_of(line), Some(want));
        assert_eq!(process_of("12 (a"), None);
        assert!(Look::now().processes.contains_key(&std::process::id()));
    }

    #[test]
    fn what_runs_beside_is_named_even_when_it_has_ended() {
        // A compiler goes on, one has ended (30 ticks of it before the first look), and the server and its kin are our own.
        let before = look(&[
            (1, "make", 0, 5, 100),
            (2, "rustc", 1, 50, 0),
            (3, "rustc", 1, 30, 0),
            (4, "server", 0, 70, 0),
        ]);
        let after = look(&[
            (1, "make", 0, 5, 190),
            (2, "rustc", 1, 150, 0),
            (4, "server", 0, 170, 0),
            (5, "cc", 1, 10, 0),
        ]);
        let mut others = Others::default();
        others.add(&before, &after, &[4], 2.0);
        assert_eq!(others.most(2), [("rustc", 0.5), ("children of make", 0.3)]);
        assert_eq!(others.to_string(), "rustc 0.50 CPUs, children of make 0.30 CPUs, cc 0.05 CPUs");
        // A number that another process has now.
        let mut others = Others::default();
        others.add(&look(&[(9, "old", 1, 500, 0)]), &look(&[(9, "new", 1, 20, 0)]), &[], 1.0);
        assert_eq!(others.most(9), [("new", 0.2)]);
        assert!(Others::default().to_string().starts_with("processes too short"));
    }
}
