//! Bottlenecks as looks have found them.

use super::super::figures::{Peer, Plan, SlowQuery, Surroundings, WaitFigures};
use super::super::{Diagnosis, Measured, PoolFigures, QueryFigures, Role, TierFigures, TurnedAway, diagnose};

/// Ten users, a web server that has `requests` of them, and what PHP's processes are at.
fn site(requests: f64, server: WaitFigures, php: WaitFigures) -> Measured {
    let server = TierFigures {
        name: "server".into(),
        cores: 0.1,
        cpu_us: 100.0,
        waits: Some(WaitFigures { requests: Some(requests), ..server }),
        ..TierFigures::default()
    };
    let php = TierFigures {
        name: "www".into(),
        role: Role::Php,
        cores: 0.4,
        cpu_us: 5_000.0,
        memory: 100 << 20,
        pool: Some(PoolFigures { total: 16, busy: php.busy(), ..PoolFigures::default() }),
        waits: Some(WaitFigures { tasks: 16.0, ..php }),
        ..TierFigures::default()
    };
    Measured {
        users: 10,
        rate: 50.0,
        wall_us: 200_000.0,
        cpus: 4,
        busy_share: 0.3,
        generator_share: 0.05,
        generator_cores: 0.05,
        tiers: vec![server, php],
        around: Surroundings { seconds: 10.0, bytes: 2e3, ..Surroundings::default() },
        ..Measured::default()
    }
}

fn none() -> WaitFigures {
    WaitFigures::default()
}

fn at(name: &str, role: Option<Role>, count: f64) -> WaitFigures {
    WaitFigures { peers: vec![Peer { name: name.into(), role, count }], ..none() }
}

/// With a pool of so many processes, and requests that wait for one.
fn queued(mut m: Measured, total: u32, queue: f64) -> Measured {
    let tier = &mut m.tiers[1];
    let busy = tier.waits.as_ref().map_or(0.0, WaitFigures::busy);
    tier.pool = Some(PoolFigures { total, busy, queued: queue, full_share: 1.0, blocked_share: 0.9 });
    m
}

fn with_database(mut m: Measured, cores: f64, queries: Option<QueryFigures>) -> Measured {
    let tier = TierFigures {
        name: "mariadbd".into(),
        role: Role::Database,
        cores,
        queries,
        ..TierFigures::default()
    };
    m.tiers.push(tier);
    m
}

fn of_php() -> Vec<(Measured, &'static str)> {
    let running = |count| WaitFigures { running: count, ..none() };
    let mut uncached =
        site(9.8, none(), WaitFigures { read_bytes: 900e3, shares_code: Some(false), ..running(9.0) });
    uncached.tiers[1].cpu_us = 40_000.0;
    let lock = WaitFigures { lock: 9.0, lock_file: "/tmp/sess_abc".into(), sleep: 1.0, ..none() };
    vec![
        (site(9.8, none(), running(9.5)), "php-cpu"),
        (uncached, "opcache-off"),
        (Measured { users: 1, ..site(0.9, none(), running(0.8)) }, "application-cpu"),
        (site(9.8, none(), at("10.0.0.9:443", None, 9.0)), "service-slow"),
        (queued(site(9.8, none(), at("10.0.0.9:443", None, 2.0)), 2, 7.8), "pool-too-small"),
        // More processes would want the same CPUs, and the same lock.
        (queued(site(9.8, none(), running(4.0)), 4, 5.8), "php-cpu"),
        (queued(site(9.8, none(), WaitFigures { lock: 2.8, ..lock.clone() }), 4, 5.8), "session-lock"),
        (site(9.8, none(), lock), "session-lock"),
        (site(9.8, none(), WaitFigures { file: 8.0, ..none() }), "disk-slow"),
        (
            Measured { disk_busy_share: 1.0, ..site(9.8, none(), WaitFigures { file: 8.0, ..none() }) },
            "disk-busy",
        ),
        (site(9.8, none(), WaitFigures { sleep: 9.0, ..none() }), "application-waits"),
    ]
}

fn of_databases() -> Vec<(Measured, &'static str)> {
    let asked = || site(9.8, none(), at("mariadbd", Some(Role::Database), 9.0));
    let query = |is_scan| {
        let plan = Plan { table: "t".into(), rows: 90_000, is_scan, ..Plan::default() };
        vec![SlowQuery { text: "SELECT ?".into(), share: 0.9, plan: Some(plan) }]
    };
    let queries =
        QueryFigures { running: 9.0, connected: (10, 100), memory_hits: 1.0, ..QueryFigures::default() };
    let locked = QueryFigures { locked: 8.0, ..queries };
    vec![
        (with_database(asked(), 0.1, Some(locked)), "database-locks"),
        (
            Measured { slow: query(true), ..with_database(asked(), 3.8, Some(queries)) },
            "database-missing-index",
        ),
        (Measured { slow: query(false), ..with_database(asked(), 3.8, Some(queries)) }, "database-cpu"),
        (with_database(asked(), 0.2, Some(queries)), "application-waits"),
        // An idle database has no part in what the CPU does, whatever queries ran.
        (
            Measured {
                slow: query(true),
                ..with_database(site(9.8, none(), WaitFigures { running: 9.0, ..none() }), 0.0, None)
            },
            "php-cpu",
        ),
    ]
}

fn around() -> Vec<(Measured, &'static str)> {
    let busy = || WaitFigures { running: 3.9, busiest: 1.0, ..none() };
    let quiet = || site(0.2, none(), none());
    let with =
        |around: Surroundings| Measured { around: Surroundings { seconds: 10.0, ..around }, ..quiet() };
    let mut other = site(9.5, WaitFigures { running: 0.2, busiest: 0.2, ..none() }, none());
    other.tiers[0].waits.as_mut().unwrap().peers = at("10.0.0.9:8080", None, 9.0).peers;
    let swapping =
        Surroundings { memory_pressure: 0.9, swapped_in: 4000.0, seconds: 10.0, ..Surroundings::default() };
    vec![
        (Measured { busy_share: 1.0, ..site(9.5, busy(), none()) }, "server-cpu"),
        (site(9.5, WaitFigures { running: 1.0, busiest: 1.0, ..none() }, none()), "server-one-thread"),
        (site(9.5, WaitFigures { file: 1.8, running: 0.1, ..none() }, none()), "disk-slow"),
        (site(9.5, none(), none()), "nothing-full"),
        (other, "service-slow"),
        (quiet(), "network-slow"),
        (with(Surroundings { bytes: 1e6, transfer_us: 180_000.0, ..Surroundings::default() }), "page-weight"),
        (
            with(Surroundings { bytes: 1e3, transfer_us: 180_000.0, ..Surroundings::default() }),
            "network-slow",
        ),
        (
            Measured {
                listen_drops: 300,
                ..with(Surroundings { connect_us: 150_000.0, ..Surroundings::default() })
            },
            "backlog-small",
        ),
        // The last packet of a handshake was dropped: to the client the connection is made.
        (Measured { listen_drops: 300, ..quiet() }, "backlog-small"),
        (Measured { listen_drops: 3, ..quiet() }, "network-slow"),
        (
            Measured {
                generator_share: 0.7,
                ..with(Surroundings { generator_waited_share: 0.29, ..Surroundings::default() })
            },
            "generator-full",
        ),
        (
            Measured {
                around: swapping,
                ..site(9.8, none(), WaitFigures { memory: 6.0, running: 3.0, ..none() })
            },
            "pool-too-large",
        ),
        (
            Measured {
                around: Surroundings { is_attached: true, ..Surroundings::default() },
                users: 0,
                ..site(0.01, none(), none())
            },
            "nothing-full",
        ),
        (
            Measured {
                around: Surroundings { is_attached: true, ..Surroundings::default() },
                users: 0,
                ..site(9.8, none(), at("10.0.0.9:443", None, 9.0))
            },
            "service-slow",
        ),
    ]
}

#[test]
fn the_place_where_requests_are_is_the_limit() {
    for (measured, cause) in of_php().into_iter().chain(of_databases()).chain(around()) {
        let found: Diagnosis = diagnose(&measured);
        assert_eq!(found.cause, cause, "{measured:#?}\n{found:#?}");
        let sum = found.budget.sum();
        assert!((sum - measured.wall_us).abs() < 1.0, "{:?}", found.budget);
        assert!(found.sentence.ends_with('.') && found.gain_max.is_none_or(|gain| gain >= 1.0), "{found:?}");
    }
}

/// A proxy that keeps its connections asks again in the moment in which an answer comes: nothing else shows, and it computes nothing.
#[test]
fn a_proxy_that_is_at_nothing_waits_for_the_one_it_is_connected_to() {
    let site = |busiest: f64| {
        let perhaps = vec![Peer { name: "127.0.0.1:3000".into(), role: None, count: 9.0 }];
        site(9.8, WaitFigures { perhaps, busiest, ..none() }, none())
    };
    let found = diagnose(&site(0.1));
    assert_eq!(found.cause, "service-slow", "{found:#?}");
    assert!(found.sentence.contains("127.0.0.1:3000"), "{}", found.sentence);
    // Connections of a proxy that computes may be idle.
    assert_eq!(diagnose(&site(0.99)).cause, "server-one-thread");
}

/// Others have the machine, and nothing of the site wants it.
#[test]
fn a_busy_machine_is_no_limit_to_what_waits() {
    let waiting = Measured { busy_share: 1.0, ..site(9.8, none(), at("10.0.0.9:443", None, 9.0)) };
    assert_eq!(diagnose(&waiting).cause, "service-slow");
    let mut wanting =
        Measured { busy_share: 1.0, ..site(9.8, none(), WaitFigures { running: 9.0, ..none() }) };
    wanting.tiers[1].waited_share = 3.0;
    assert_eq!(diagnose(&wanting).cause, "machine-busy-with-others");
}

/// What limits is said with its numbers, in one sentence.
#[test]
fn a_small_pool_has_its_queue() {
    let found = diagnose(&queued(site(9.8, none(), at("10.0.0.9:443", None, 2.0)), 2, 7.8));
    assert_eq!(
        found.sentence,
        "The PHP pool is too small: 2 of 2 processes busy 100 % of the time, requests wait 156 ms of 200 ms for one; the CPUs are 30 % busy."
    );
    assert!(
        found
            .evidence
            .iter()
            .any(|line| line.starts_with("of 10.0 requests at a time: 7.8 waiting for a PHP process")),
        "{found:?}"
    );
}

/// A server that keeps requests until a worker is free, and reads each as soon as the last answer has left: the kernel's clocks show nothing.
#[test]
fn requests_that_are_read_at_once_wait_for_a_process() {
    let mut m = site(0.0, WaitFigures { quiet: 9.8, ..none() }, at("127.0.0.1:9000", None, 1.9));
    m.tiers[1].pool = None;
    if let Some(waits) = &mut m.tiers[1].waits {
        (waits.tasks, waits.full_share) = (2.0, 1.0);
    }
    // Connections of others may well be idle.
    assert_ne!(diagnose(&m).cause, "pool-too-small");
    m.around.is_closed_loop = true;
    let found = diagnose(&m);
    assert_eq!((found.tier, found.cause), ("php", "pool-too-small"), "{found:?}");
}

/// Two processes that answer quick pages have nothing to do between two of them, while the server hands them the next one.
#[test]
fn a_pool_of_quick_pages_is_small_though_its_processes_pause() {
    let running = WaitFigures { running: 0.3, ..at("db", Some(Role::Database), 1.3) };
    let pool = |php: WaitFigures, busiest: f64| {
        let mut m = site(8.4, WaitFigures { busiest, running: busiest, ..none() }, php);
        m.tiers[1].pool = None;
        if let Some(waits) = &mut m.tiers[1].waits {
            (waits.tasks, waits.full_share) = (2.0, 0.6);
        }
        diagnose(&m).cause
    };
    assert_eq!(pool(running.clone(), 0.1), "pool-too-small");
    // A server that wants a CPU all the time, or processes that are idle for most of it.
    assert_eq!(pool(running, 0.95), "server-one-thread");
    assert_ne!(pool(WaitFigures { running: 0.7, ..none() }, 0.1), "pool-too-small");
}

/// Others take the generator's CPU: it waits for one more than it has one.
#[test]
fn a_generator_that_is_kept_waiting_is_full() {
    let around = Surroundings { generator_waited_share: 0.6, ..Surroundings::default() };
    let m = Measured { generator_share: 0.25, around, ..site(0.5, none(), none()) };
    assert_eq!(diagnose(&m).cause, "generator-full");
}

/// A site that is asked now and then: users who pause are not on the way.
#[test]
fn what_has_little_to_do_is_not_limited_by_the_network() {
    let paused = Surroundings { has_pauses: true, seconds: 10.0, bytes: 2e3, ..Surroundings::default() };
    let asked = |rate: f64, wall_us: f64, m: Measured| Measured { rate, wall_us, around: paused, ..m };
    let late = |waited_share: f64| {
        let mut late = Measured { busy_share: 1.0, ..asked(5.0, 180_000.0, site(0.01, none(), none())) };
        late.tiers[0].waited_share = waited_share;
        late
    };
    for (measured, cause) in [
        (asked(5.0, 1_000.0, site(0.0, none(), none())), "nothing-full"),
        (asked(100.0, 2_000.0, site(0.05, none(), none())), "nothing-full"),
        (
            asked(5.0, 60_000.0, site(0.28, none(), WaitFigures { sleep: 0.25, ..none() })),
            "application-waits",
        ),
        // It is far away.
        (asked(5.0, 180_000.0, site(0.01, none(), none())), "network-slow"),
        // Others have the CPUs, and the server must wait before it reads a request.
        (late(60.0), "machine-busy-with-others"),
        // It waits, for a small part of the time only.
        (late(3.0), "network-slow"),
        // More come than are answered: they wait, and no more than there are users.
        (
            asked(50.0, 9e6, queued(site(9.8, none(), at("10.0.0.9:443", None, 2.0)), 2, 7.8)),
            "pool-too-small",
        ),
    ] {
        let found = diagnose(&measured);
        assert_eq!(found.cause, cause, "{measured:#?}\n{found:#?}");
        assert!((found.budget.sum() - measured.wall_us).abs() < 1.0, "{:?}", found.budget);
    }
}

/// Of twenty users two are at PHP and eight wait; the others are turned away at once and ask again, thousands of times a second: what keeps the pool full is
/// the limit. Errors that take as long as other answers are PHP's own, and so are those of a pool with free processes.
#[test]
fn users_that_a_full_pool_turns_away_are_no_errors_of_the_site() {
    let turned = |share: f64, mean_us: f64, php: WaitFigures| {
        let mut m = site(12.0, none(), WaitFigures { full_share: 1.0, ..php });
        (m.tiers[1].pool, m.tiers[1].cpu_us) = (None, 5.0);
        m.tiers[1].waits.as_mut().unwrap().tasks = 2.0;
        let turned_away = TurnedAway { share, mean_us };
        Measured {
            users: 20,
            rate: 20_000.0,
            wall_us: 1e6,
            error_share: 0.999,
            turned_away,
            generator_share: 0.99,
            ..m
        }
    };
    let waiting = || WaitFigures { other: 2.0, ..none() };
    let found = diagnose(&turned(0.999, 300.0, waiting()));
    assert_eq!((found.tier, found.cause), ("php", "pool-too-small"), "{found:?}");
    assert!(
        found
            .sentence
            .ends_with("99 % of the requests are turned away at once (502 or 503) while the pool is full.")
    );
    assert!(found.budget.queue > 0.7e6 && found.budget.network < 0.1e6, "{:?}", found.budget);
    // All CPUs are PHP's, which compiles its scripts for each answer: 5 µs per response are 5 ms for each that is served.
    let compiling = WaitFigures { running: 4.0, read_bytes: 1_000.0, shares_code: Some(false), ..none() };
    assert_eq!(diagnose(&turned(0.999, 300.0, compiling)).cause, "opcache-off");
    assert_eq!(diagnose(&turned(0.0, 300.0, waiting())).cause, "generator-full");
    let calm = |m: Measured| diagnose(&Measured { generator_share: 0.1, ..m }).cause;
    assert_eq!(calm(turned(0.999, 0.9e6, waiting())), "errors");
    assert_eq!(calm(turned(0.2, 300.0, waiting())), "errors");
    let mut free = turned(0.999, 300.0, none());
    free.tiers[1].waits.as_mut().unwrap().full_share = 0.0;
    assert_eq!(calm(free), "errors");
}
