//! Upstreams, their peers and servers, as JSON.

use super::json::Json;
use super::{Answer, iso};
use crate::json_object;
use crate::upstream::{Registry, Upstream};
use brisk_balance::{Admin, PeerStatus, ServerStatus};
use brisk_net::clock;
use brisk_server::request::Request;
use brisk_upstream::backend::Backend as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The upstream of a name, in the configuration that is live now: a request may still have an older one.
pub(super) fn find(r: &Request, name: &str) -> Option<Arc<Upstream>> {
    all(r).into_iter().find(|upstream| upstream.name() == name)
}

fn all(r: &Request) -> Vec<Arc<Upstream>> {
    r.thread.live().snap.data::<Registry>().map(Registry::blocks).unwrap_or_default()
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

pub(super) fn look(r: &Request, parts: &[&str]) -> Answer {
    match parts {
        [] => {
            let each = |upstream: &Arc<Upstream>| (upstream.name().to_string(), one(upstream));
            Answer::Found(Json::Object(all(r).iter().map(each).collect()))
        }
        [name] => find(r, name).map_or_else(unknown, |upstream| Answer::Found(one(&upstream))),
        [name, "servers"] => find(r, name).map_or_else(unknown, |upstream| Answer::Found(servers(&upstream))),
        [name, "servers", id] => {
            let Some(upstream) = find(r, name) else { return unknown() };
            let found = upstream.group().servers().into_iter().find(|server| Ok(server.id) == id.parse());
            found.map_or_else(|| unknown_server(id), |found| Answer::Found(server(&found)))
        }
        _ => Answer::not_found(),
    }
}

fn one(upstream: &Upstream) -> Json {
    let group = upstream.group();
    let peers = group.peers(clock::mono_ms()).iter().map(peer).collect();
    let mut members = vec![
        ("peers".to_string(), Json::List(peers)),
        ("keepalive".into(), Json::from(upstream.idle().load(Ordering::Relaxed) as u64)),
        ("zombies".into(), Json::from(0u32)),
    ];
    if let Some(zone) = upstream.zone_name() {
        members.push(("zone".into(), Json::from(zone)));
    }
    if let Some(max) = upstream.queue_max() {
        let queue = json_object! { "size": group.waiting() as u64, "max_size": max as u64 };
        members.push(("queue".into(), queue));
    }
    Json::Object(members)
}

fn peer(peer: &PeerStatus) -> Json {
    let (info, stats) = (&peer.info, &peer.info.stats);
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut members = vec![
        ("id".to_string(), Json::from(info.id)),
        ("server".into(), Json::from(&*info.name)),
        ("name".into(), Json::from(&*info.server)),
        ("backup".into(), Json::from(info.backup)),
        ("weight".into(), Json::from(peer.weight)),
        ("state".into(), Json::from(peer.state.as_str())),
        ("active".into(), Json::from(peer.active)),
    ];
    let mut add = |name: &str, value: Json| members.push((name.to_string(), value));
    if peer.max_conns > 0 {
        add("max_conns", Json::from(peer.max_conns));
    }
    add("requests", Json::from(count(&stats.requests)));
    for (name, time) in [("header_time", peer.header_ms), ("response_time", peer.response_ms)] {
        if let Some(time) = time {
            add(name, Json::from(time));
        }
    }
    let classes = stats.responses.iter().enumerate();
    let mut responses: Vec<_> =
        classes.map(|(at, class)| (format!("{}xx", at + 1), Json::from(count(class)))).collect();
    responses.push(("total".into(), Json::from(stats.responses.iter().map(count).sum::<u64>())));
    add("responses", Json::Object(responses));
    add("sent", Json::from(count(&stats.sent_bytes)));
    add("received", Json::from(count(&stats.received_bytes)));
    add("fails", Json::from(count(&stats.fails)));
    add("unavail", Json::from(count(&stats.unavail)));
    let mut checks = json_object! {
        "checks": count(&stats.checks),
        "fails": count(&stats.check_fails),
        "unhealthy": count(&stats.unhealthy),
    };
    if let (Json::Object(checks), Some(passed)) = (&mut checks, peer.last_check_passed) {
        checks.push(("last_passed".into(), Json::from(passed)));
    }
    add("health_checks", checks);
    add("downtime", Json::from(peer.downtime_ms));
    if let Some(since) = peer.down_since_ms {
        add("downstart", Json::from(iso(since)));
    }
    if let Some(at) = peer.selected_ms {
        add("selected", Json::from(iso(at)));
    }
    Json::Object(members)
}

pub(super) fn servers(upstream: &Upstream) -> Json {
    Json::List(upstream.group().servers().iter().map(server).collect())
}

pub(super) fn server(server: &ServerStatus) -> Json {
    let spec = &server.spec;
    let slow_start = match spec.slow_start_ms {
        ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    };
    let mut json = json_object! {
        "id": server.id,
        "server": &*spec.server,
        "weight": spec.weight,
        "max_conns": spec.max_conns,
        "max_fails": spec.max_fails,
        "fail_timeout": format!("{}s", spec.fail_timeout_secs),
        "slow_start": slow_start,
        "route": spec.route.as_deref().unwrap_or_default(),
        "backup": spec.backup,
        "down": spec.admin == Admin::Down,
    };
    let Json::Object(members) = &mut json else { return json };
    if spec.admin == Admin::Drain {
        members.push(("drain".into(), Json::from(true)));
    }
    for (name, text) in [("host", &spec.host), ("service", &spec.service)] {
        if let Some(text) = text {
            members.push((name.into(), Json::from(&**text)));
        }
    }
    if let Some(parent) = server.parent {
        members.push(("parent".into(), Json::from(parent)));
    }
    json
}
