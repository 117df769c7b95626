//! What limits a site under a load: the tier, its cause, the evidence, and what mending it can gain at most.
//!
//! The figures are means over the counted part of a run. What stands further back is asked first: a pool of processes that all wait
//! for the database is full because of the database.

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
}

/// What a tier is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The web server.
    #[default]
    Server,
    /// PHP's processes.
    Php,
    /// The database.
    Database,
}

impl Role {
    /// Its word in reports, the same as the audit's.
    pub fn name(self) -> &'static str {
        match self {
            Role::Server => "server",
            Role::Php => "php",
            Role::Database => "database",
        }
    }
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
    /// Workers that waited for something else: the database, a disk, other services.
    pub blocked: f64,
    /// The rest: network, the generator, what nobody looked into.
    pub rest: f64,
}

/// What limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    /// `server`, `php`, `database`, `disk`, `machine`, `generator`, `application`; `unknown` if it cannot be told.
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
    let mut budget = Budget { queue, cpu, run_queue, blocked, rest: 0.0 };
    let sum = queue + cpu + run_queue + blocked;
    if sum > m.wall_us && sum > 0.0 {
        // Means of looks and of responses differ a little: parts of a whole are shown.
        let scale = m.wall_us / sum;
        for part in [&mut budget.queue, &mut budget.cpu, &mut budget.run_queue, &mut budget.blocked] {
            *part *= scale;
        }
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
    "disk-busy",
    "pool-too-small",
    "server-cpu",
    "php-cpu",
    "server-one-thread",
    "php-one-process",
    "machine-busy-with-others",
    "backlog-small",
    "application-cpu",
    "application-waits",
    "nothing-full",
];

/// Says what limits.
pub fn diagnose(m: &Measured) -> Diagnosis {
    let found = generator(m)
        .or_else(|| errors(m))
        .or_else(|| database(m))
        .or_else(|| disk(m))
        // Processes that wait want no CPU: their pool is the limit, however busy the machine is.
        .or_else(|| pool(m, BLOCKED))
        .or_else(|| cpu(m))
        .or_else(|| one_thread(m))
        .or_else(|| pool(m, 0.0))
        .or_else(|| backlog(m))
        .unwrap_or_else(|| idle(m));
    debug_assert!(CAUSES.contains(&found.cause), "{} is not listed", found.cause);
    Diagnosis { budget: budget(m), ..found }
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
                        "Queries wait for each other: {:.1} of {:.1} running ones wait for rows' locks.",
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
mod tests {
    use super::*;

    fn tier(name: &str, role: Role, cores: f64, cpu_us: f64) -> TierFigures {
        TierFigures { name: name.into(), role, cores, cpu_us, busiest_share: 0.2, ..TierFigures::default() }
    }

    fn php(cores: f64, pool: PoolFigures) -> TierFigures {
        TierFigures { pool: Some(pool), ..tier("php", Role::Php, cores, 5_000.0) }
    }

    fn db(cores: f64, queries: QueryFigures) -> TierFigures {
        let queries = QueryFigures { connected: (5, 100), memory_hits: 0.99, ..queries };
        TierFigures { queries: Some(queries), ..tier("db", Role::Database, cores, 500.0) }
    }

    fn site(tiers: Vec<TierFigures>) -> Measured {
        Measured {
            users: 20,
            rate: 40.0,
            wall_us: 500_000.0,
            cpus: 4,
            busy_share: 0.3,
            generator_share: 0.01,
            generator_cores: 0.01,
            tiers,
            ..Measured::default()
        }
    }

    fn free() -> PoolFigures {
        PoolFigures { busy: 2.0, total: 20, queued: 0.0, full_share: 0.0, blocked_share: 0.3 }
    }

    /// Bottlenecks of a back end, and of what is around a site.
    fn planted() -> Vec<(Measured, &'static str)> {
        let server = || tier("server", Role::Server, 0.1, 50.0);
        let full = PoolFigures { busy: 5.0, total: 5, queued: 15.0, full_share: 1.0, blocked_share: 0.8 };
        vec![
            (Measured { generator_share: 0.99, ..site(vec![server()]) }, "generator-full"),
            (Measured { error_share: 0.9, ..site(vec![server()]) }, "errors"),
            (site(vec![server(), php(0.5, full)]), "pool-too-small"),
            (
                site(vec![
                    server(),
                    php(0.5, full),
                    db(0.1, QueryFigures { running: 5.0, locked: 4.0, ..Default::default() }),
                ]),
                "database-locks",
            ),
            (
                Measured {
                    busy_share: 0.98,
                    ..site(vec![server(), php(0.5, full), db(3.2, QueryFigures::default())])
                },
                "database-cpu",
            ),
            (
                site(vec![
                    server(),
                    php(0.5, full),
                    db(0.1, QueryFigures { refused: 9, ..Default::default() }),
                ]),
                "database-connections",
            ),
            (
                Measured {
                    disk_busy_share: 0.99,
                    disk_await_ms: 40.0,
                    ..site(vec![server(), php(0.2, full)])
                },
                "disk-busy",
            ),
        ]
    }

    /// Those of CPUs, and where nothing is full.
    fn planted_cpus() -> Vec<(Measured, &'static str)> {
        let server = || tier("server", Role::Server, 0.1, 50.0);
        vec![
            (Measured { busy_share: 0.99, ..site(vec![server(), php(3.6, free())]) }, "php-cpu"),
            (
                Measured { busy_share: 0.99, ..site(vec![tier("server", Role::Server, 3.5, 90.0)]) },
                "server-cpu",
            ),
            (
                site(vec![TierFigures { busiest_share: 0.99, ..tier("server", Role::Server, 1.0, 90.0) }]),
                "server-one-thread",
            ),
            (Measured { busy_share: 0.99, ..site(vec![server()]) }, "machine-busy-with-others"),
            (Measured { listen_drops: 12, ..site(vec![server(), php(0.1, free())]) }, "backlog-small"),
            (
                Measured {
                    wall_us: 6_000.0,
                    users: 1,
                    rate: 160.0,
                    ..site(vec![server(), php(0.8, PoolFigures { busy: 0.9, blocked_share: 0.1, ..free() })])
                },
                "application-cpu",
            ),
            (
                Measured {
                    wall_us: 50_000.0,
                    users: 1,
                    rate: 20.0,
                    ..site(vec![server(), php(0.1, PoolFigures { busy: 1.0, blocked_share: 0.9, ..free() })])
                },
                "application-waits",
            ),
            (site(vec![server()]), "nothing-full"),
        ]
    }

    #[test]
    fn planted_bottlenecks_are_named_as_the_first_cause() {
        for (measured, cause) in planted().into_iter().chain(planted_cpus()) {
            let found = diagnose(&measured);
            assert_eq!(found.cause, cause, "{measured:#?}\n{found:#?}");
            let parts = found.budget;
            let sum = parts.queue + parts.cpu + parts.run_queue + parts.blocked + parts.rest;
            assert!((sum - measured.wall_us).abs() < 1.0, "{parts:?}");
            assert!(
                found.sentence.ends_with('.') && found.gain_max.is_none_or(|gain| gain >= 1.0),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_small_pool_says_how_long_requests_wait() {
        let full = PoolFigures { busy: 5.0, total: 5, queued: 16.4, full_share: 0.97, blocked_share: 0.8 };
        let found = diagnose(&site(vec![php(0.5, full)]));
        assert_eq!(
            found.sentence,
            "The PHP pool is too small: 5 of 5 processes busy 97 % of the time, requests wait 398 ms of 500 ms for one; \
             the CPUs are 30 % busy."
        );
        assert!(found.gain_max.is_some_and(|gain| (gain - 4.0 / 0.51).abs() < 1e-9), "{found:?}");
    }
}
