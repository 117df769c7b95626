//! Upstreams, their peers and servers, as JSON.

use super::{Answer, iso};
use crate::upstream::{OfStream, Registry, Upstream};
use brisk_balance::{Method, PeerStatus, ServerStatus, Stats, Until};
use brisk_net::clock;
use brisk_server::request::Request;
use brisk_upstream::backend::Backend as _;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whose groups are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Http,
    Stream,
}

/// The upstream of a name, in the configuration that is live now: a request may still have an older one.
/// The API changes what is live. A connection that has outlived a reload must not change what nobody uses.
pub(super) fn find(r: &Request, of: Of, name: &str) -> Option<Arc<Upstream>> {
    all(r, of).into_iter().find(|upstream| upstream.name() == name)
}

fn all(r: &Request, of: Of) -> Vec<Arc<Upstream>> {
    let live = r.thread.live();
    let blocks = match of {
        Of::Http => live.snap.data::<Registry>().map(Registry::blocks),
        Of::Stream => live.snap.data::<OfStream>().map(|all| all.0.blocks()),
    };
    blocks.unwrap_or_default()
}

pub(super) fn unknown() -> Answer {
    Answer::Failed(404, "UpstreamNotFound", "upstream not found".into())
}

pub(super) fn unknown_server(id: &str) -> Answer {
    match id.parse::<u32>() {
        Ok(id) => {
            Answer::Failed(404, "UpstreamServerNotFound", format!("server with ID \"{id}\" does not exist"))
        }
        Err(_) => Answer::Failed(400, "UpstreamBadServerId", format!("invalid server ID \"{id}\"")),
    }
}

pub(super) fn look(r: &Request, of: Of, parts: &[&str]) -> Answer {
    match parts {
        [] => {
            let each = |upstream: &Arc<Upstream>| (upstream.name().to_string(), one(upstream, of));
            Answer::Found(all(r, of).iter().map(each).collect())
        }
        [name] => find(r, of, name).map_or_else(unknown, |upstream| Answer::Found(one(&upstream, of))),
        [name, "servers"] => {
            find(r, of, name).map_or_else(unknown, |upstream| Answer::Found(servers(&upstream)))
        }
        [name, "servers", id] => {
            let Some(upstream) = find(r, of, name) else { return unknown() };
            let found = upstream.group().servers().into_iter().find(|server| Ok(server.id) == id.parse());
            found.map_or_else(|| unknown_server(id), |found| Answer::Found(server(&found)))
        }
        _ => Answer::not_found(),
    }
}

fn one(upstream: &Upstream, of: Of) -> Value {
    let group = upstream.group();
    // Read under the group's lock, once: states and numbers of one answer belong together.
    let peers = group.peers(clock::mono_ms());
    let peers: Vec<Value> = peers.iter().map(|one| peer(one, of, upstream.method())).collect();
    // Servers that were taken away while requests use them are freed with the last: nothing is counted.
    let mut json = json!({ "peers": peers, "zombies": 0 });
    if of == Of::Http {
        json["keepalive"] = upstream.idle().load(Ordering::Relaxed).into();
    }
    if let Some(zone) = upstream.zone_name() {
        json["zone"] = zone.into();
    }
    if let Some(max) = upstream.queue_max() {
        json["queue"] = json!({ "size": upstream.waiting(), "max_size": max });
    }
    json
}

/// The names are nginx Plus's, so its tools and boards can read them.
fn peer(peer: &PeerStatus, of: Of, method: Method) -> Value {
    let (info, stats) = (&peer.info, &peer.info.stats);
    // Each for itself: the numbers of one answer may be some requests apart.
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut json = json!({
        "id": info.id,
        "server": *info.name,
        "name": *info.server,
        "backup": info.backup,
        "weight": peer.weight,
        "state": peer.state.as_str(),
        "active": peer.active,
        "sent": count(&stats.sent_bytes),
        "received": count(&stats.received_bytes),
        "fails": count(&stats.fails),
        "unavail": count(&stats.unavail),
        "health_checks": {
            "checks": count(&stats.checks),
            "fails": count(&stats.check_fails),
            "unhealthy": count(&stats.unhealthy),
        },
        "downtime": peer.downtime_ms,
    });
    let first = match (of, method.times().map(|times| times.until)) {
        (Of::Http, _) => {
            json["requests"] = count(&stats.requests).into();
            json["responses"] = responses(stats);
            "header_time"
        }
        (Of::Stream, until) => {
            json["connections"] = count(&stats.requests).into();
            if until == Some(Until::Connected) { "connect_time" } else { "first_byte_time" }
        }
    };
    let max_conns = (peer.max_conns > 0).then_some(u64::from(peer.max_conns));
    // Left out where there is nothing: 0 would be a limit, or a time that was measured.
    let numbers = [("max_conns", max_conns), (first, peer.header_ms), ("response_time", peer.response_ms)];
    for (name, number) in numbers {
        if let Some(number) = number {
            json[name] = number.into();
        }
    }
    if let Some(passed) = peer.last_check_passed {
        json["health_checks"]["last_passed"] = passed.into();
    }
    for (name, time) in [("downstart", peer.down_since_ms), ("selected", peer.selected_ms)] {
        if let Some(time) = time {
            json[name] = iso(time).into();
        }
    }
    json
}

/// Answers by class.
fn responses(stats: &Stats) -> Value {
    let counts = stats.responses.each_ref().map(|class| class.load(Ordering::Relaxed));
    let classes = counts.iter().enumerate().map(|(at, count)| (format!("{}xx", at + 1), *count));
    classes.chain([("total".to_string(), counts.iter().sum())]).collect()
}

pub(super) fn servers(upstream: &Upstream) -> Value {
    upstream.group().servers().iter().map(server).collect()
}

pub(super) fn server(server: &ServerStatus) -> Value {
    // As nginx Plus writes times: in whole seconds with a unit, or in milliseconds.
    let spec = &server.spec;
    let slow_start = match spec.slow_start_ms {
        ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    };
    let mut json = json!({
        "id": server.id,
        "server": *spec.server,
        "weight": spec.weight,
        "max_conns": spec.max_conns,
        "max_fails": spec.max_fails,
        "fail_timeout": format!("{}s", spec.fail_timeout_secs),
        "slow_start": slow_start,
        "route": spec.route.as_deref().unwrap_or_default(),
        "backup": spec.backup,
        "down": spec.down,
    });
    // Only where it is so: its absence means no.
    if spec.drain {
        json["drain"] = true.into();
    }
    for (name, text) in [("host", &spec.host), ("service", &spec.service)] {
        if let Some(text) = text {
            json[name] = Value::from(&**text);
        }
    }
    if let Some(parent) = server.parent {
        json["parent"] = parent.into();
    }
    json
}
