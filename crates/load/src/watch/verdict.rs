//! What limited a run: the tier that was full, with the evidence for it, or that it cannot be told.

use std::fmt;

use super::{MachineSummary, TierSummary};
use crate::limits::LOCKED_QUERIES_MIN;

/// A thread, pool or machine at this share of what it can do has nothing left to give.
const FULL_SHARE: f64 = 0.95;
/// A pool whose workers were all busy at this share of the looks was full, for short breaks lie between looks.
const POOL_FULL_SHARE: f64 = 0.9;
/// The machine's CPUs limit only what wants them: at least this share of them.
const WANTED_SHARE: f64 = 0.5;
/// A database of whose running queries more than this share waits for locks is limited by them.
const LOCKED_SHARE: f64 = 0.5;

/// What limited a run, as far as it was watched.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Who was full, and how that was seen; `None`: nobody was.
    pub full: Option<String>,
    /// The share of what the nearest limit allows that was in use.
    pub used_share: f64,
    /// The nearest limit, if nobody was full.
    nearest: String,
    /// What else was full: it follows from the first, or stands behind it.
    pub also: Vec<String>,
    /// Why it cannot be told who was the limit, if it cannot.
    pub doubt: Option<String>,
}

/// What the load generator needed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Generator {
    /// The share of its time that a thread was on a CPU, in the mean.
    pub share: f64,
    /// Its threads.
    pub threads: usize,
}

impl Generator {
    /// How many CPUs its threads used together.
    pub fn cpus(self) -> f64 {
        self.share * self.threads as f64
    }
}

/// Something that can be full.
struct Limit {
    used: f64,
    is_full: bool,
    text: String,
}

impl Limit {
    fn of_share(used: f64, text: String) -> Self {
        Self { used, is_full: used >= FULL_SHARE, text }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.full, &self.doubt) {
            (Some(full), _) => {
                write!(f, "the limit was {full}")?;
                self.also.iter().try_for_each(|also| write!(f, "; also full: {also}"))
            }
            (None, Some(doubt)) => {
                write!(f, "nobody was seen to be full, and what the limit is cannot be told: {doubt}")
            }
            (None, None) => write!(
                f,
                "nobody was full: {:.0} % of the nearest limit in use ({}); at most {:.1} times this rate, as far as was watched",
                self.used_share * 100.0,
                self.nearest,
                self.headroom()
            ),
        }
    }
}

impl Verdict {
    /// How many times the rate there is room for; 1 if somebody was full.
    pub fn headroom(&self) -> f64 {
        if self.full.is_some() { 1.0 } else { 1.0 / self.used_share.max(0.01) }
    }
}

/// What of CPUs was wanted: by the tiers and the generator together, running or waiting for one.
fn wanted(tiers: &[TierSummary], generator: Generator) -> (f64, f64) {
    let used: f64 = tiers.iter().map(|tier| tier.cores).sum();
    let waited: f64 = tiers.iter().map(|tier| tier.cores * tier.waited_share).sum();
    (used + generator.cpus(), waited)
}

fn of_machine(tiers: &[TierSummary], machine: &MachineSummary, generator: Generator) -> Limit {
    let (used, waited) = wanted(tiers, generator);
    let cpus = machine.cpus.max(1) as f64;
    let is_wanted = (used + waited) / cpus >= WANTED_SHARE;
    let text = format!(
        "the machine: its CPUs were {:.0} % busy; tiers and generator had {used:.2} of {} and would have had {waited:.2} more",
        machine.busy_share * 100.0,
        machine.cpus
    );
    // Others may use what nobody here wants.
    Limit::of_share(if is_wanted { machine.busy_share } else { (used + waited) / cpus }, text)
}

fn of_cpus(tier: &TierSummary, cpus: usize) -> [Limit; 2] {
    let name = &tier.name;
    let thread =
        format!("{name}: its busiest thread was on a CPU {:.0} % of the time", tier.busiest_share * 100.0);
    let all = format!("{name}: it used {:.2} of {cpus} CPUs", tier.cores);
    [Limit::of_share(tier.busiest_share, thread), Limit::of_share(tier.cores / cpus.max(1) as f64, all)]
}

fn of_database(tier: &TierSummary) -> Vec<Limit> {
    let Some(database) = &tier.database else { return Vec::new() };
    let name = &tier.name;
    let share = database.locked / database.running.max(database.locked).max(1e-9);
    let locks = Limit {
        used: 0.0,
        is_full: share > LOCKED_SHARE && database.locked >= LOCKED_QUERIES_MIN,
        text: format!(
            "{name}: {:.1} of {:.1} running queries waited for rows' locks",
            database.locked, database.running
        ),
    };
    let (connected, max) = database.connected;
    let used = f64::from(connected) / f64::from(max.max(1));
    let connections = Limit {
        used: if max > 0 { used } else { 0.0 },
        is_full: max > 0 && (used >= FULL_SHARE || database.refused > 0),
        text: format!(
            "{name}: {connected} of {max} connections were in use, and {} were refused",
            database.refused
        ),
    };
    vec![locks, connections]
}

fn of_disk(tiers: &[TierSummary], machine: &MachineSummary) -> Limit {
    // It limits those who wait for it.
    let waits = |tier: &TierSummary| {
        tier.database.as_ref().is_some_and(|database| database.disk_pending >= 0.5)
            || tier.pool.as_ref().is_some_and(|pool| pool.blocked_share >= 0.5)
    };
    let is_waited_for = machine.pressure[2] >= 0.3 && tiers.iter().any(waits);
    let used = if is_waited_for { machine.disk_busy_share } else { 0.0 };
    let text = format!(
        "the disk: it was busy {:.0} % of the time, {:.1} ms per read or write",
        machine.disk_busy_share * 100.0,
        machine.disk_await_ms
    );
    Limit::of_share(used, text)
}

fn of_pool(tier: &TierSummary) -> Option<Limit> {
    let pool = tier.pool.as_ref()?;
    let is_full = pool.full_share >= POOL_FULL_SHARE;
    let used = if is_full { 1.0 } else { pool.busy / f64::from(pool.total.max(1)) };
    Some(Limit { used: used.min(1.0), is_full, text: format!("{}: {pool}", tier.name) })
}

/// Who could be full without being seen: workers that wait for others, of a tier that nobody looked into.
fn unseen(tiers: &[TierSummary], machine: &MachineSummary) -> Option<String> {
    let is_closed = |tier: &&TierSummary| {
        tier.pool.is_none() && tier.database.is_none() && tier.threads as usize > 2 * machine.cpus.max(1)
    };
    let names: Vec<&str> = tiers.iter().filter(is_closed).map(|tier| tier.name.as_str()).collect();
    let last = tiers.iter().filter(|tier| tier.queued_max > 0 && tier.pool.is_none());
    let queues: Vec<String> = last
        .map(|tier| format!("{} connections waited for {} to accept them", tier.queued_max, tier.name))
        .collect();
    let hidden = (!names.is_empty()).then(|| {
        format!(
            "whether all workers of {} were busy was not seen (pool:, fpm:, apache:, brisk: and mysql: look into a tier)",
            names.join(", ")
        )
    });
    let all: Vec<String> = hidden.into_iter().chain(queues).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Says who was the limit.
///
/// What stands further back goes first: a pool whose workers wait for the database is full because the database is. A pool whose
/// workers want CPUs that are all in use is no limit of its own.
pub fn limit(tiers: &[TierSummary], machine: &MachineSummary, generator: Generator) -> Verdict {
    let share = generator.share;
    let of_generator = format!("the load generator: {:.0} % of a core in each of its threads", share * 100.0);
    let mut limits = vec![Limit::of_share(share, of_generator)];
    limits.push(of_disk(tiers, machine));
    limits.extend(tiers.iter().flat_map(of_database));
    limits.extend(tiers.iter().flat_map(|tier| of_cpus(tier, machine.cpus)));
    limits.push(of_machine(tiers, machine, generator));
    limits.extend(tiers.iter().rev().filter_map(of_pool));
    let nearest = limits.iter().max_by(|left, right| left.used.total_cmp(&right.used));
    let (used_share, nearest) = nearest.map(|limit| (limit.used, limit.text.clone())).unwrap_or_default();
    let mut full = limits.into_iter().filter(|limit| limit.is_full).map(|limit| limit.text);
    let first = full.next();
    let doubt = if first.is_some() { None } else { busy_with_others(tiers, machine, generator) };
    let doubt = doubt.or_else(|| first.is_none().then(|| unseen(tiers, machine)).flatten());
    Verdict { full: first, used_share, nearest, also: full.collect(), doubt }
}

/// A machine that others fill says nothing about how far these tiers could go.
fn busy_with_others(tiers: &[TierSummary], machine: &MachineSummary, generator: Generator) -> Option<String> {
    let (used, _) = wanted(tiers, generator);
    (machine.busy_share >= FULL_SHARE).then(|| {
        format!(
            "the machine's CPUs were {:.0} % busy, but with others: tiers and generator used {used:.2} of {}",
            machine.busy_share * 100.0,
            machine.cpus
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::pools::{DatabaseSummary, PoolSummary};
    use super::*;

    fn tier(name: &str) -> TierSummary {
        TierSummary {
            name: name.to_owned(),
            cores: 0.14,
            busiest_share: 0.1,
            processes: 1,
            threads: 1,
            ..TierSummary::default()
        }
    }

    /// A generator of one thread.
    fn one(share: f64) -> Generator {
        Generator { share, threads: 1 }
    }

    fn machine(busy: f64) -> MachineSummary {
        MachineSummary { cpus: 2, busy_share: busy, ..MachineSummary::default() }
    }

    fn full_pool(blocked_share: f64) -> TierSummary {
        let pool = PoolSummary {
            busy: 6.0,
            total: 6,
            queued: 14.0,
            queued_max: 20,
            full_share: 1.0,
            blocked_share,
            ..PoolSummary::default()
        };
        TierSummary { pool: Some(pool), processes: 6, threads: 6, ..tier("php") }
    }

    fn database(running: f64, locked: f64) -> TierSummary {
        let database = DatabaseSummary {
            running,
            locked,
            connected: (10, 151),
            buffer_hits: 1.0,
            ..DatabaseSummary::default()
        };
        TierSummary { database: Some(database), threads: 30, ..tier("db") }
    }

    #[test]
    fn who_was_full_is_named() {
        let server = TierSummary { cores: 0.6, busiest_share: 0.6, ..tier("server") };
        let room = limit(std::slice::from_ref(&server), &machine(0.4), one(0.3));
        assert_eq!((room.full.as_deref(), (room.headroom() * 3.0).round()), (None, 5.0));
        assert!(room.to_string().contains("at most 1.7 times this rate"), "{room}");
        let found = limit(std::slice::from_ref(&server), &machine(0.4), one(0.99));
        assert!(found.full.unwrap().contains("load generator"));
        let busy = TierSummary { busiest_share: 0.97, ..server };
        assert!(limit(&[busy], &machine(0.5), one(0.3)).full.unwrap().starts_with("server"));
    }

    /// Six children of six at work, and CPUs at 14 %: that is no room for seven times the rate.
    #[test]
    fn a_full_pool_is_the_limit() {
        let found = limit(&[tier("server"), full_pool(0.98)], &machine(0.14), one(0.05));
        let text = found.to_string();
        assert!(text.starts_with("the limit was php: 6.0 of 6 workers busy"), "{text}");
        assert!(text.contains("14.0 requests waited for one (at most 20)"), "{text}");
        assert!(text.contains("blocked 98 % of their time"), "{text}");
        assert!((found.headroom() - 1.0).abs() < 1e-9);
        // Half full: that is the nearest limit.
        let mut half = full_pool(0.9);
        half.pool = half.pool.map(|pool| PoolSummary { busy: 3.0, full_share: 0.1, ..pool });
        let found = limit(&[half], &machine(0.1), one(0.05));
        assert!(found.full.is_none() && (found.headroom() - 2.0).abs() < 1e-9, "{found}");
        // Its workers want CPUs that are all in use: another worker would not help.
        let working = TierSummary { cores: 1.7, waited_share: 1.5, ..full_pool(0.1) };
        let found = limit(&[working], &machine(0.99), one(0.2));
        assert!(found.full.as_ref().unwrap().starts_with("the machine"), "{found}");
        assert!(found.also[0].starts_with("php"), "{found}");
    }

    #[test]
    fn what_a_pool_waits_for_goes_before_it() {
        let found = limit(&[full_pool(0.98), database(7.0, 6.0)], &machine(0.14), one(0.05));
        assert!(found.full.as_ref().unwrap().starts_with("db: 6.0 of 7.0 running queries"), "{found}");
        assert!(found.to_string().contains("; also full: php: 6.0 of 6"), "{found}");
        // Queries that run are no locks, and one that waits for a moment is an accident.
        for (running, locked) in [(7.0, 1.0), (0.5, 0.4)] {
            let found = limit(&[full_pool(0.98), database(running, locked)], &machine(0.14), one(0.05));
            assert!(found.full.as_ref().unwrap().starts_with("php"), "{found}");
        }
        let mut crowded = database(3.0, 0.0);
        crowded.database = crowded.database.map(|found| DatabaseSummary { connected: (151, 151), ..found });
        let found = limit(&[full_pool(0.98), crowded], &machine(0.14), one(0.05));
        assert!(found.full.unwrap().starts_with("db: 151 of 151 connections"));
        // The disk, if somebody waits for it.
        let disk = MachineSummary { disk_busy_share: 0.99, pressure: [0.0, 0.0, 0.8], ..machine(0.2) };
        assert!(limit(&[full_pool(0.9)], &disk, one(0.05)).full.unwrap().starts_with("the disk"));
        assert_eq!(limit(&[tier("server")], &disk, one(0.05)).full, None);
    }

    /// One request per second beside compilers is not limited by them.
    #[test]
    fn a_machine_that_others_fill_is_no_limit() {
        let found = limit(
            &[TierSummary { cores: 0.01, waited_share: 3.0, ..tier("server") }],
            &machine(1.0),
            one(0.01),
        );
        assert_eq!(found.full, None);
        assert!(
            found.to_string().contains("cannot be told") && found.to_string().contains("but with others"),
            "{found}"
        );
        // Who wants the CPUs and does not get them is.
        let hungry = TierSummary { cores: 0.5, waited_share: 2.0, ..tier("server") };
        assert!(limit(&[hungry], &machine(1.0), one(0.1)).full.unwrap().starts_with("the machine"));
        // A generator of three threads uses three CPUs.
        let many = Generator { share: 0.8, threads: 3 };
        let four = MachineSummary { cpus: 4, ..machine(0.99) };
        let found = limit(&[tier("server")], &four, many);
        assert!(found.full.as_ref().is_some_and(|full| full.contains("had 2.54 of 4")), "{found}");
    }

    #[test]
    fn what_was_not_looked_into_cannot_be_told() {
        let many = TierSummary { threads: 20, ..tier("app") };
        let found = limit(&[many], &machine(0.14), one(0.05));
        assert!(found.to_string().contains("whether all workers of app were busy was not seen"), "{found}");
        let queue = TierSummary { queued_max: 30, ..tier("app") };
        let found = limit(&[queue], &machine(0.14), one(0.05));
        assert!(found.to_string().contains("30 connections waited for app"), "{found}");
    }
}
