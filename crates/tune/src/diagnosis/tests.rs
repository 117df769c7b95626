//! Planted bottlenecks, as figures.

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
            site(vec![server(), php(0.5, full), db(0.1, QueryFigures { refused: 9, ..Default::default() })]),
            "database-connections",
        ),
        (
            Measured { disk_busy_share: 0.99, disk_await_ms: 40.0, ..site(vec![server(), php(0.2, full)]) },
            "disk-busy",
        ),
    ]
}

/// Those of CPUs, and where nothing is full.
fn planted_cpus() -> Vec<(Measured, &'static str)> {
    let server = || tier("server", Role::Server, 0.1, 50.0);
    vec![
        (Measured { busy_share: 0.99, ..site(vec![server(), php(3.6, free())]) }, "php-cpu"),
        (Measured { busy_share: 0.99, ..site(vec![tier("server", Role::Server, 3.5, 90.0)]) }, "server-cpu"),
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
        let sum = parts.sum();
        assert!((sum - measured.wall_us).abs() < 1.0, "{parts:?}");
        assert!(found.sentence.ends_with('.') && found.gain_max.is_none_or(|gain| gain >= 1.0), "{found:?}");
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
