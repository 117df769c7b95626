//! A load on one page, with the tiers of the site watched beside it.

use super::files::Read;
use brisk_load::beside;
use brisk_load::cli::tls;
use brisk_load::plan::{Plan, RequestOptions, Stop, Version, sites};
use brisk_load::report::RunReport;
use brisk_load::url::{Place, Url};
use brisk_load::watch::{Tier, TierSummary, Who};
use brisk_tune::diagnosis::{Measured, PoolFigures, QueryFigures, Role, TierFigures};
use std::time::Duration;

/// What is done before the counted part.
pub const WARMUP: Duration = Duration::from_secs(1);

/// The load.
pub struct Load {
    pub url: Url,
    pub users: usize,
    pub time: Duration,
}

/// The tiers that are there, with what each is for.
pub fn tiers(place: &Place, read: &Read) -> Vec<(Tier, Role)> {
    let mut all = Vec::new();
    let mut add = |name: &str, who: Who, role: Role| {
        if !who.processes().is_empty() {
            all.push((Tier { name: name.to_string(), who: Some(who), source: None }, role));
        }
    };
    match place {
        Place::Name(_, port) => add("server", Who::Port(*port), Role::Server),
        Place::Unix(path) => add("server", Who::Socket(path.clone()), Role::Server),
    }
    for pool in read.site.pools.sections() {
        if !matches!(pool, "" | "global") {
            add(pool, Who::Pool(pool.to_string()), Role::Php);
        }
    }
    // The pools that Brisk runs itself.
    add("php", Who::Command("brisk-php".to_string()), Role::Php);
    for name in ["mariadbd", "mysqld"] {
        add(name, Who::Command(name.to_string()), Role::Database);
    }
    all
}

/// Asks for the page as many users would, and gives what was seen. The error says why it could not be done.
pub fn measure(load: &Load, read: &Read) -> Result<Measured, String> {
    let text = |error: std::io::Error| error.to_string();
    let urls = [load.url.clone()];
    let sites = sites(&urls, &RequestOptions::default()).map_err(|error| error.to_string())?;
    let plan = Plan {
        tls: tls(&urls, Version::H1, false)?,
        warmup: WARMUP,
        ..Plan::new(sites, load.users, Stop::After(load.time))
    };
    let (watched, roles): (Vec<Tier>, Vec<Role>) = tiers(&load.url.origin.place, read).into_iter().unzip();
    let run = beside::run(&plan, &watched).map_err(text)?;
    if run.outcome.stats.responses() == 0 {
        return Err(format!("nothing was answered at {}", load.url));
    }
    Ok(figures(&run, &roles))
}

/// What the diagnosis is made of. `roles`: what each watched tier is for.
pub fn figures(run: &RunReport, roles: &[Role]) -> Measured {
    let (tiers, machine) = run.tiers().unwrap_or_default();
    let stats = &run.outcome.stats;
    Measured {
        users: run.users,
        rate: run.throughput(),
        wall_us: stats.latency.mean() / 1e3,
        error_share: stats.error_share(),
        generator_share: run.generator_share(),
        generator_cores: run.generator_share() * run.threads as f64,
        cpus: machine.cpus,
        busy_share: machine.busy_share,
        disk_busy_share: machine.disk_busy_share,
        disk_await_ms: machine.disk_await_ms,
        listen_drops: machine.listen_drops,
        tiers: tiers.iter().zip(roles).map(|(tier, role)| tier_figures(tier, *role)).collect(),
    }
}

fn tier_figures(tier: &TierSummary, role: Role) -> TierFigures {
    TierFigures {
        name: tier.name.clone(),
        role,
        cpu_us: tier.cpu_us_per_response,
        cores: tier.cores,
        busiest_share: tier.busiest_share,
        waited_share: tier.waited_share,
        pool: tier.pool.as_ref().map(|pool| PoolFigures {
            busy: pool.busy,
            total: pool.total,
            queued: pool.queued,
            full_share: pool.full_share,
            blocked_share: pool.blocked_share,
        }),
        queries: tier.database.as_ref().map(|database| QueryFigures {
            running: database.running,
            locked: database.locked,
            connected: database.connected,
            refused: database.refused,
            memory_hits: database.buffer_hits,
            disk_pending: database.disk_pending,
        }),
    }
}
