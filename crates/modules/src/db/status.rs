//! Databases as the API shows them, and their numbers for monitoring.

use brisk_balance::PeerStatus;
use brisk_db::{Cluster, Pin, Tally, View};
use brisk_net::clock;
use brisk_server::conf::Snapshot;
use brisk_server::metrics::Scrape;
use brisk_stream::conf::{Balanced, Stream};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The groups whose servers are asked for their roles, by name.
fn groups(snap: &Snapshot) -> Vec<(Arc<dyn Balanced>, Arc<Cluster>)> {
    let upstreams = snap.data::<Stream>().map(|stream| &stream.upstreams);
    let mut found: Vec<_> = upstreams
        .into_iter()
        .flat_map(|all| all.values())
        .filter_map(|group| Some((group.clone(), group.cluster()?.clone())))
        .collect();
    found.sort_by(|a, b| a.0.name().cmp(b.0.name()));
    found
}

/// All clusters of a configuration, by the name of their upstream.
pub fn all(snap: &Snapshot) -> Value {
    groups(snap)
        .into_iter()
        .map(|(group, cluster)| (group.name().to_string(), one(&*group, &cluster)))
        .collect()
}

fn one(group: &dyn Balanced, cluster: &Cluster) -> Value {
    let view = cluster.view();
    let peers = group.group().peers(clock::mono_ms());
    let primary = match view.primary() {
        Ok(server) => json!(&*server.name),
        Err(_) => Value::Null,
    };
    json!({
        "primary": primary,
        "trouble": view.primary().err().map(|why| why.to_string()),
        "servers": servers(&view, &peers),
        "sessions": sessions(&cluster.tally),
        "statements": statements(&cluster.tally),
        "pool": pool(&cluster.tally),
        "pinned": pinned(&cluster.tally),
        "accounts": cluster.accounts().len(),
    })
}

fn servers(view: &View, peers: &[PeerStatus]) -> Value {
    let server = |server: &brisk_db::ServerView| {
        let peer = peers.iter().find(|peer| peer.info.id == server.id);
        json!({
            "id": server.id,
            "server": &*server.name,
            "role": server.role.name(),
            "reads": server.reads.is_ok(),
            "why": server.reads.err().map(brisk_db::Unread::name),
            "trouble": server.trouble.as_deref(),
            "lag_ms": server.lag_ms,
            "position": server.position.as_ref().map(ToString::to_string),
            "connections": peer.map(|peer| peer.active),
            "total": peer.map(|peer| count(&peer.info.stats.requests)),
        })
    };
    view.servers.iter().map(server).collect()
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn sessions(tally: &Tally) -> Value {
    json!({
        "open": count(&tally.open_sessions),
        "total": count(&tally.sessions),
        "failed": count(&tally.failed_sessions),
        "moved": count(&tally.moved_sessions),
    })
}

fn statements(tally: &Tally) -> Value {
    let (replica, primary) = (count(&tally.replica_reads), count(&tally.primary_reads));
    // Per thousand, in whole numbers: of nothing there is no share.
    let share = (replica * 1000).checked_div(replica + primary);
    json!({
        "writes": count(&tally.writes),
        "replica_reads": replica,
        "primary_reads": primary,
        "late_reads": count(&tally.late_reads),
        "prepared": count(&tally.prepared),
        "prepared_again": count(&tally.prepared_again),
        "replica_share": share.map(|share| share as f64 / 1000.0),
    })
}

fn pool(tally: &Tally) -> Value {
    json!({
        "idle": count(&tally.idle_connections),
        "made": count(&tally.made_connections),
        "reused": count(&tally.reused_connections),
    })
}

fn pinned(tally: &Tally) -> Value {
    Value::Object(Map::from_iter(Pin::ALL.map(|pin| (pin.name().to_string(), json!(tally.pins(pin))))))
}

/// Numbers for monitoring.
pub fn metrics(to: &mut Scrape) {
    let all = groups(&to.snap());
    for (group, cluster) in all {
        let (name, view, tally) = (group.name(), cluster.view(), &cluster.tally);
        let own = [("upstream", name)];
        let has = f64::from(u8::from(view.primary().is_ok()));
        to.gauge("brisk_db_has_primary", "Whether one database takes writes.", &own, has);
        for server in &view.servers {
            let labels = [("upstream", name), ("server", &*server.name), ("role", server.role.name())];
            to.gauge("brisk_db_role", "A database's role: always 1.", &labels, 1.0);
            let labels = [("upstream", name), ("server", &*server.name)];
            let reads = f64::from(u8::from(server.reads.is_ok()));
            to.gauge("brisk_db_reads", "Whether a database may be read from.", &labels, reads);
            if let Some(lag_ms) = server.lag_ms {
                let lag = lag_ms as f64 / 1000.0;
                to.gauge("brisk_db_lag_seconds", "How far a replica is behind.", &labels, lag);
            }
        }
        let open = count(&tally.open_sessions) as f64;
        to.gauge("brisk_db_sessions", "Open sessions with databases.", &own, open);
        let idle = count(&tally.idle_connections) as f64;
        to.gauge(
            "brisk_db_idle_connections",
            "Connections to databases kept for later sessions.",
            &own,
            idle,
        );
        for (name, help, counter) in counters(tally) {
            to.counter(name, help, &own, count(counter));
        }
        for pin in Pin::ALL {
            let labels = [("upstream", group.name()), ("why", pin.name())];
            let help = "Sessions that were kept on their connection.";
            to.counter("brisk_db_pinned_total", help, &labels, tally.pins(pin));
        }
    }
}

fn counters(tally: &Tally) -> [(&'static str, &'static str, &AtomicU64); 11] {
    [
        ("brisk_db_sessions_total", "Sessions with databases.", &tally.sessions),
        ("brisk_db_failed_sessions_total", "Sessions that found no database.", &tally.failed_sessions),
        (
            "brisk_db_moved_sessions_total",
            "Sessions that had to leave their database.",
            &tally.moved_sessions,
        ),
        ("brisk_db_writes_total", "Statements that went to the primary as writes.", &tally.writes),
        ("brisk_db_replica_reads_total", "Reads that went to a replica.", &tally.replica_reads),
        ("brisk_db_primary_reads_total", "Reads that went to the primary.", &tally.primary_reads),
        ("brisk_db_late_reads_total", "Reads for which no replica had come far enough.", &tally.late_reads),
        ("brisk_db_prepared_total", "Statements that clients had prepared.", &tally.prepared),
        (
            "brisk_db_prepared_again_total",
            "Statements that were prepared at a further database, to be executed there.",
            &tally.prepared_again,
        ),
        ("brisk_db_connections_total", "Connections made to databases.", &tally.made_connections),
        (
            "brisk_db_reused_connections_total",
            "Connections that served another session before.",
            &tally.reused_connections,
        ),
    ]
}
