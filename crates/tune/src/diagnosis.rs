//! What limits a site under a load: the tier, its cause, the evidence, and what mending it can gain at most.
//!
//! The figures are means over the counted part of a run. What stands further back is asked first: a pool of processes that all wait
//! for the database is full because of the database.

pub mod figures;
mod places;
mod turned_away;
mod workers;

pub use figures::Role;
pub use turned_away::TurnedAway;

use figures::{SlowQuery, Surroundings, WaitFigures};
use std::fmt::Write as _;

/// What a tier of processes did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TierFigures {
    /// What it is called in the report.
    pub name: String,
    /// What it is.
    pub role: Role,
    /// CPU per response, in microseconds.
    pub cpu_us: f64,
    /// CPUs in use.
    pub cores: f64,
    /// The share of its time that the busiest thread was on a CPU.
    pub busiest_share: f64,
    /// How long its threads waited for a CPU, relative to how long they had one.
    pub waited_share: f64,
    /// Its workers, if they serve one request each.
    pub pool: Option<PoolFigures>,
    /// Its queries, if it is a database.
    pub queries: Option<QueryFigures>,
    /// What its processes wait for, if somebody looked.
    pub waits: Option<WaitFigures>,
    /// The most memory that it had, in bytes.
    pub memory: u64,
}

/// Workers that serve one request each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PoolFigures {
    /// At work.
    pub busy: f64,
    /// In all.
    pub total: u32,
    /// Requests that waited for one.
    pub queued: f64,
    /// The share of looks at which none was free.
    pub full_share: f64,
    /// Of the time of workers at work, the share in which they neither ran nor waited for a CPU.
    pub blocked_share: f64,
}

/// A database's queries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueryFigures {
    /// Carried out at a time.
    pub running: f64,
    /// Transactions that waited for rows' locks.
    pub locked: f64,
    /// Connections, and how many there may be.
    pub connected: (u32, u32),
    /// Connections that were refused.
    pub refused: u64,
    /// Of the pages that were wanted, the share found in memory.
    pub memory_hits: f64,
    /// Reads and writes that waited for the disk.
    pub disk_pending: f64,
}

/// A run and what was seen beside it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Users that asked, each for one thing at a time.
    pub users: usize,
    /// Responses per second.
    pub rate: f64,
    /// The mean time of a response, in microseconds.
    pub wall_us: f64,
    /// The share of responses that were errors.
    pub error_share: f64,
    /// Of these, what the server answers for want of room.
    pub turned_away: TurnedAway,
    /// The share of its time that the generator's busiest thread was on a CPU.
    pub generator_share: f64,
    /// CPUs that the generator used.
    pub generator_cores: f64,
    /// CPUs of the machine.
    pub cpus: usize,
    /// The share of them that was at work.
    pub busy_share: f64,
    /// The share of time that the busiest disk had something to do.
    pub disk_busy_share: f64,
    /// How long its reads and writes took, in milliseconds.
    pub disk_await_ms: f64,
    /// Connections that found a listener's queue full.
    pub listen_drops: u64,
    /// Tiers, in the order in which a request comes to them.
    pub tiers: Vec<TierFigures>,
    /// What was seen beside them.
    pub around: Surroundings,
    /// Queries that were found running, those that were found most first.
    pub slow: Vec<SlowQuery>,
    /// Temporary tables that the database has made on a disk meanwhile.
    pub disk_tables: u64,
}

/// Where the time of a mean response went, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// Waiting for a free worker of a pool.
    pub queue: f64,
    /// On a CPU, in any tier.
    pub cpu: f64,
    /// Waiting for a CPU, in any tier.
    pub run_queue: f64,
    /// Workers that waited for the database.
    pub database: f64,
    /// Workers that waited for files, or for memory that was swapped out.
    pub disk: f64,
    /// On the way, there or back.
    pub network: f64,
    /// Workers that waited for something else, or for what nobody looked into.
    pub blocked: f64,
    /// The rest: the generator, what nobody looked into.
    pub rest: f64,
}

impl Budget {
    /// All parts by name.
    pub fn parts(&self) -> [(&'static str, f64); 8] {
        [
            ("queue", self.queue),
            ("cpu", self.cpu),
            ("run_queue", self.run_queue),
            ("database", self.database),
            ("disk", self.disk),
            ("network", self.network),
            ("blocked", self.blocked),
            ("rest", self.rest),
        ]
    }

    /// All of it.
    pub fn sum(&self) -> f64 {
        self.parts().iter().map(|(_, part)| part).sum()
    }

    fn scale(&mut self, by: f64) {
        let Self { queue, cpu, run_queue, database, disk, network, blocked, rest } = self;
        [queue, cpu, run_queue, database, disk, network, blocked, rest]
            .into_iter()
            .for_each(|part| *part *= by);
    }
}

/// What limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    /// `server`, `php`, `database`, `disk`, `network`, `machine`, `generator`, `application`; `unknown` if it cannot be told.
    pub tier: &'static str,
    /// The slug of the cause; `docs/tuning.md` lists them.
    pub cause: &'static str,
    /// One sentence.
    pub sentence: String,
    /// What was seen.
    pub evidence: Vec<String>,
    /// How many times the rate there can be at most when this is mended and nothing else; `None`: it cannot be told.
    pub gain_max: Option<f64>,
    /// Where the time went.
    pub budget: Budget,
}

/// A thread, a machine or a disk at this share of its time has nothing left to give.
const FULL: f64 = 0.95;
/// A pool without a free worker at this share of the looks is full: short breaks lie between looks.
const POOL_FULL: f64 = 0.85;
/// Workers that wait for others for this share of their time do not want a CPU.
const BLOCKED: f64 = 0.5;
/// A tier with this share of all CPU in use is what fills a machine.
const MOST: f64 = 0.5;

/// Where the time of a mean response went.
pub fn budget(m: &Measured) -> Budget {
    if let Some(budget) = places::budget(m) {
        return budget;
    }
    let per_response = |value: f64| if m.rate > 0.0 { value / m.rate * 1e6 } else { 0.0 };
    // Little's law: so many requests waited, or workers were blocked, at a time.
    let pools = || m.tiers.iter().filter_map(|tier| tier.pool);
    let queue = per_response(pools().map(|pool| pool.queued).sum());
    let blocked = per_response(pools().map(|pool| pool.busy * pool.blocked_share).sum());
    // What the database does, the pools' workers wait for: it is told once, as blocked.
    let has_pool = pools().next().is_some();
    let counted = || m.tiers.iter().filter(|tier| !(has_pool && tier.role == Role::Database));
    let cpu: f64 = counted().map(|tier| tier.cpu_us).sum();
    let run_queue: f64 = counted().map(|tier| tier.cpu_us * tier.waited_share).sum();
    let mut budget = Budget { queue, cpu, run_queue, blocked, ..Budget::default() };
    let sum = budget.sum();
    if sum > m.wall_us && sum > 0.0 {
        // Means of looks and of responses differ a little: parts of a whole are shown.
        budget.scale(m.wall_us / sum);
    } else {
        budget.rest = m.wall_us - sum;
    }
    budget
}

/// The slugs of all causes; `docs/tuning.md` explains them.
pub const CAUSES: &[&str] = &[
    "generator-full",
    "errors",
    "database-locks",
    "database-connections",
    "database-cpu",
    "database-one-thread",
    "database-missing-index",
    "disk-busy",
    "disk-slow",
    "pool-too-small",
    "pool-too-large",
    "memory-short",
    "opcache-off",
    "server-cpu",
    "php-cpu",
    "server-one-thread",
    "php-one-process",
    "machine-busy-with-others",
    "backlog-small",
    "network-slow",
    "page-weight",
    "session-lock",
    "file-lock",
    "service-slow",
    "application-cpu",
    "application-waits",
    "nothing-full",
];

/// Says what limits.
pub fn diagnose(m: &Measured) -> Diagnosis {
    // The generator sends the next request as soon as one is refused: refusals alone can fill it.
    if let Some(found) = turned_away::diagnose(m) {
        return found;
    }
    let first = generator(m).or_else(|| places::memory(m)).or_else(|| errors(m));
    let found = first.or_else(|| places::diagnose(m)).unwrap_or_else(|| by_means(m));
    debug_assert!(CAUSES.contains(&found.cause), "{} is not listed", found.cause);
    Diagnosis { budget: budget(m), ..found }
}

/// What limits as far as means of CPU, pools and queries tell, where nobody looked at what processes wait for.
fn by_means(m: &Measured) -> Diagnosis {
    database(m)
        .or_else(|| disk(m))
        // Processes that wait want no CPU: their pool is the limit, however busy the machine is.
        .or_else(|| pool(m, BLOCKED))
        .or_else(|| cpu(m))
        .or_else(|| one_thread(m))
        .or_else(|| pool(m, 0.0))
        .or_else(|| backlog(m))
        .unwrap_or_else(|| idle(m))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn found(
    tier: &'static str,
    cause: &'static str,
    sentence: String,
    evidence: Vec<String>,
    gain_max: Option<f64>,
) -> Option<Diagnosis> {
    Some(Diagnosis { tier, cause, sentence, evidence, gain_max, budget: Budget::default() })
}

fn generator(m: &Measured) -> Option<Diagnosis> {
    if m.generator_share < FULL {
        return None;
    }
    let share = percent(m.generator_share);
    found(
        "generator",
        "generator-full",
        format!("The load generator is the limit: its busiest thread is on a CPU {share} of the time."),
        vec![format!("{:.2} of {} CPUs are the generator's", m.generator_cores, m.cpus)],
        None,
    )
}

fn errors(m: &Measured) -> Option<Diagnosis> {
    if m.error_share < 0.5 {
        return None;
    }
    let share = percent(m.error_share);
    found(
        "application",
        "errors",
        format!("{share} of the answers are errors: mend that first, its speed means nothing."),
        vec![format!("{:.1} responses/s", m.rate)],
        None,
    )
}

fn of(m: &Measured, role: Role) -> impl Iterator<Item = &TierFigures> {
    m.tiers.iter().filter(move |tier| tier.role == role)
}

fn database(m: &Measured) -> Option<Diagnosis> {
    for tier in of(m, Role::Database) {
        let name = &tier.name;
        if let Some(queries) = tier.queries {
            let share = queries.locked / queries.running.max(queries.locked).max(1e-9);
            if queries.locked >= 1.0 && share > 0.5 {
                return found(
                    "database",
                    "database-locks",
                    format!(
                        "Queries wait for each other: {:.1} of {:.1} running ones wait for locks of rows or tables.",
                        queries.locked,
                        queries.running.max(queries.locked)
                    ),
                    vec![format!("{name} uses {:.2} of {} CPUs", tier.cores, m.cpus)],
                    Some(gain(share)),
                );
            }
            let (connected, max) = queries.connected;
            if max > 0 && (queries.refused > 0 || connected >= max) {
                return found(
                    "database",
                    "database-connections",
                    format!(
                        "The database takes no more connections: {connected} of {max} are in use, {} were refused.",
                        queries.refused
                    ),
                    vec![format!("{name} uses {:.2} of {} CPUs", tier.cores, m.cpus)],
                    None,
                );
            }
        }
        let is_busy = tier.cores / m.cpus.max(1) as f64 >= MOST && m.busy_share >= FULL;
        if is_busy {
            return found(
                "database",
                "database-cpu",
                format!(
                    "The database's CPU is the limit: it uses {:.2} of {} CPUs, all of which are busy.",
                    tier.cores, m.cpus
                ),
                vec![format!("{:.0} µs of its CPU per response", tier.cpu_us)],
                Some(gain(tier.cores / used(m))),
            );
        }
    }
    None
}

fn disk(m: &Measured) -> Option<Diagnosis> {
    let waits = |tier: &TierFigures| {
        tier.queries.is_some_and(|queries| queries.disk_pending >= 0.5)
            || tier.pool.is_some_and(|pool| pool.blocked_share >= BLOCKED)
    };
    if m.disk_busy_share < FULL || !m.tiers.iter().any(waits) {
        return None;
    }
    let mut evidence = vec![format!("{:.1} ms per read or write", m.disk_await_ms)];
    for queries in m.tiers.iter().filter_map(|tier| tier.queries) {
        evidence
            .push(format!("{} of the database's pages are found in memory", percent(queries.memory_hits)));
    }
    found(
        "disk",
        "disk-busy",
        format!(
            "The disk is the limit: it has something to do {} of the time, and it is waited for.",
            percent(m.disk_busy_share)
        ),
        evidence,
        None,
    )
}

/// CPUs in use by tiers and generator.
fn used(m: &Measured) -> f64 {
    (m.tiers.iter().map(|tier| tier.cores).sum::<f64>() + m.generator_cores).max(1e-9)
}

/// At most so many times, when a part of the whole costs nothing any more (Amdahl).
fn gain(share: f64) -> f64 {
    1.0 / (1.0 - share.clamp(0.0, 0.99))
}

fn cpu(m: &Measured) -> Option<Diagnosis> {
    if m.busy_share < FULL {
        return None;
    }
    let used = used(m);
    let largest = m.tiers.iter().max_by(|a, b| a.cores.total_cmp(&b.cores))?;
    let share = largest.cores / used;
    let per_tier = m
        .tiers
        .iter()
        .map(|tier| format!("{}: {:.2} CPUs, {:.0} µs per response", tier.name, tier.cores, tier.cpu_us));
    let mut evidence: Vec<String> = per_tier.collect();
    evidence.push(format!("the generator: {:.2} CPUs", m.generator_cores));
    if used < m.cpus as f64 * 0.5 {
        return found(
            "machine",
            "machine-busy-with-others",
            format!(
                "The machine is busy with others: {} of its CPUs are at work, {used:.2} of {} for this site.",
                percent(m.busy_share),
                m.cpus
            ),
            evidence,
            None,
        );
    }
    let (cause, what) = match largest.role {
        Role::Server => ("server-cpu", "The web server's CPU"),
        Role::Php => ("php-cpu", "The CPU that PHP needs"),
        Role::Database => ("database-cpu", "The database's CPU"),
    };
    found(
        largest.role.name(),
        cause,
        format!(
            "{what} is the limit: {} of all CPU in use is {}'s, and all CPUs are busy.",
            percent(share),
            largest.name
        ),
        evidence,
        Some(gain(share)),
    )
}

/// A worker that is full while other CPUs are idle.
fn one_thread(m: &Measured) -> Option<Diagnosis> {
    let full = m.tiers.iter().find(|tier| tier.busiest_share >= FULL)?;
    let cause = match full.role {
        Role::Server => "server-one-thread",
        Role::Php => "php-one-process",
        Role::Database => "database-one-thread",
    };
    found(
        full.role.name(),
        cause,
        format!(
            "One thread of {} is the limit: it is on a CPU {} of the time while the machine is {} busy.",
            full.name,
            percent(full.busiest_share),
            percent(m.busy_share)
        ),
        vec![format!("{} uses {:.2} of {} CPUs", full.name, full.cores, m.cpus)],
        Some((m.cpus as f64 / full.cores.max(1.0)).max(1.0)),
    )
}

/// A pool without a free process, whose processes wait for others for at least this share of their time.
fn pool(m: &Measured, blocked_min: f64) -> Option<Diagnosis> {
    let (tier, pool) = m.tiers.iter().filter_map(|tier| Some((tier, tier.pool?))).find(|(_, pool)| {
        pool.full_share >= POOL_FULL && pool.total > 0 && pool.blocked_share >= blocked_min
    })?;
    let budget = budget(m);
    let mut sentence = format!(
        "The PHP pool is too small: {:.0} of {} processes busy {} of the time",
        pool.busy,
        pool.total,
        percent(pool.full_share)
    );
    if budget.queue > 0.0 {
        let _ = write!(
            sentence,
            ", requests wait {:.0} ms of {:.0} ms for one",
            budget.queue / 1e3,
            m.wall_us / 1e3
        );
    }
    let _ = write!(sentence, "; the CPUs are {} busy.", percent(m.busy_share));
    let evidence = vec![
        format!(
            "{}: processes at work wait for others {} of their time",
            tier.name,
            percent(pool.blocked_share)
        ),
        format!("{:.1} requests wait for a process, in the mean", pool.queued),
    ];
    // More processes fill the CPUs that are idle, and no more than that.
    let cpus = m.cpus as f64;
    let room = if pool.blocked_share >= BLOCKED {
        cpus / used(m)
    } else {
        cpus / used(m).max(f64::from(pool.total))
    };
    found("php", "pool-too-small", sentence, evidence, Some(room.clamp(1.0, 20.0)))
}

fn backlog(m: &Measured) -> Option<Diagnosis> {
    if m.listen_drops == 0 {
        return None;
    }
    found(
        "machine",
        "backlog-small",
        format!(
            "Connections are dropped because a listener's queue is full ({} of them): each is tried again a second later.",
            m.listen_drops
        ),
        Vec::new(),
        None,
    )
}

/// Nothing is full: the time of one response is what there is to look at.
fn idle(m: &Measured) -> Diagnosis {
    let budget = budget(m);
    let wall = m.wall_us.max(1e-9);
    let parts = [("php", budget.cpu), ("blocked", budget.blocked), ("rest", budget.rest)];
    let largest = parts.iter().max_by(|a, b| a.1.total_cmp(&b.1)).copied().unwrap_or(("rest", 0.0));
    let php = of(m, Role::Php).map(|tier| tier.cpu_us).sum::<f64>();
    let evidence = vec![format!("{} of the CPUs are busy with {} users", percent(m.busy_share), m.users)];
    let (tier, cause, sentence) = match largest.0 {
        "php" if php / wall >= 0.5 => (
            "application",
            "application-cpu",
            format!(
                "Nothing is full. The page itself takes {:.0} of {:.1} ms on a CPU in PHP: make the application do less, or keep its pages.",
                php / 1e3,
                wall / 1e3
            ),
        ),
        "blocked" if budget.blocked / wall >= 0.5 => (
            "application",
            "application-waits",
            format!(
                "Nothing is full. PHP waits {:.0} of {:.1} ms for the database or other services.",
                budget.blocked / 1e3,
                wall / 1e3
            ),
        ),
        _ => ("unknown", "nothing-full", "Nothing was seen to be full: more users may say more.".to_string()),
    };
    Diagnosis { tier, cause, sentence, evidence, gain_max: None, budget: Budget::default() }
}

#[cfg(test)]
mod tests;
