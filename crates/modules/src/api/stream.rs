//! Servers of `stream`, as JSON.

use super::Answer;
use brisk_server::request::Request;
use brisk_stream::conf::Stream;
use brisk_stream::stats::{CLASSES, Stats};
use serde_json::{Value, json};

pub(super) fn look(r: &Request, parts: &[&str]) -> Answer {
    let all = all(r);
    match parts {
        [] => Answer::Found(Value::Object(all)),
        [name] => all.get(*name).cloned().map_or_else(
            || Answer::Failed(404, "ServerZoneNotFound", "server zone not found".into()),
            Answer::Found,
        ),
        _ => Answer::not_found(),
    }
}

/// By where they listen, with their names.
fn all(r: &Request) -> serde_json::Map<String, Value> {
    let stream = r.thread.live().snap.shared_data::<Stream>();
    let servers = stream.iter().flat_map(|stream| &stream.servers);
    servers.map(|server| (name(&server.stats), zone(&server.stats))).collect()
}

fn name(stats: &Stats) -> String {
    if stats.name.is_empty() { stats.listen.to_string() } else { format!("{} {}", stats.listen, stats.name) }
}

/// The names are nginx Plus's.
fn zone(stats: &Stats) -> Value {
    let numbers = stats.numbers();
    let classes =
        CLASSES.iter().zip(numbers.ended).map(|(class, count)| ((*class).to_string(), count.into()));
    let mut sessions: serde_json::Map<String, Value> = classes.collect();
    sessions.insert("total".into(), numbers.ended.iter().sum::<u64>().into());
    json!({
        "processing": numbers.running,
        "connections": numbers.begun,
        "sessions": sessions,
        "received": numbers.received_bytes,
        "sent": numbers.sent_bytes,
    })
}
