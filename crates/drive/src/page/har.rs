//! HAR 1.2, as browsers write it and other tools open it.

use super::load::{Entry, Page};
use crate::client::{Exchange, Fields};
use crate::dates::rfc3339;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn date(at: SystemTime) -> String {
    rfc3339(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as i64)
}

/// The whole file.
pub fn har(page: &Page) -> Value {
    let title = page.document().map_or_else(String::new, |entry| entry.request.url.to_string());
    json!({ "log": {
        "version": "1.2",
        "creator": { "name": "brisk", "version": env!("CARGO_PKG_VERSION") },
        "pages": [{
            "startedDateTime": date(page.date), "id": "page_1", "title": title,
            "pageTimings": { "onContentLoad": ms(page.can_paint()), "onLoad": ms(page.loaded()) },
        }],
        "entries": page.entries.iter().map(|entry| self::entry(page, entry)).collect::<Vec<_>>(),
    } })
}

fn list(fields: &Fields) -> Value {
    fields.0.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

fn entry(page: &Page, entry: &Entry) -> Value {
    let url = &entry.request.url;
    let query: Vec<Value> = url
        .path
        .split_once('?')
        .map_or("", |(_, query)| query)
        .split('&')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            json!({ "name": name, "value": value })
        })
        .collect();
    let version = entry.result.as_ref().map_or("", |exchange| exchange.version);
    let mut all = json!({
        "pageref": "page_1",
        "startedDateTime": date(page.date + entry.begun),
        "time": ms(entry.took()),
        "_resourceType": entry.kind.name(),
        "request": {
            "method": entry.request.method, "url": url.to_string(), "httpVersion": version, "cookies": [],
            "headers": list(&entry.request.fields), "queryString": query, "headersSize": -1, "bodySize": entry.request.body.len(),
        },
        "response": response(entry),
        "cache": {},
        "timings": timings(entry),
    });
    if let Some(address) = entry.result.as_ref().ok().and_then(address) {
        all["serverIPAddress"] = json!(address);
    }
    all
}

/// The address without its port, if it has one: unix sockets have none.
fn address(exchange: &Exchange) -> Option<String> {
    Some(exchange.peer.parse::<std::net::SocketAddr>().ok()?.ip().to_string())
}

fn response(entry: &Entry) -> Value {
    match &entry.result {
        Ok(exchange) => json!({
            "status": exchange.status, "statusText": exchange.reason, "httpVersion": exchange.version, "cookies": [],
            "headers": list(&exchange.fields),
            "content": {
                "size": entry.plain_bytes,
                "compression": entry.plain_bytes as i64 - exchange.body_bytes as i64,
                "mimeType": exchange.fields.get("content-type").unwrap_or("application/octet-stream"),
            },
            "redirectURL": exchange.fields.get("location").unwrap_or(""),
            "headersSize": exchange.head_bytes, "bodySize": exchange.body_bytes,
        }),
        Err(failure) => json!({
            "status": 0, "statusText": "", "httpVersion": "", "cookies": [], "headers": [],
            "content": { "size": 0, "mimeType": "x-unknown" }, "redirectURL": "", "headersSize": -1, "bodySize": -1,
            "_error": failure.to_string(),
        }),
    }
}

/// What took how long; -1: it did not happen.
fn timings(entry: &Entry) -> Value {
    let Ok(exchange) = &entry.result else {
        return json!({ "blocked": ms(entry.begun.saturating_sub(entry.known)), "dns": -1, "connect": -1, "ssl": -1, "send": 0,
            "wait": ms(entry.took()), "receive": 0 });
    };
    let phases = &exchange.phases;
    let since = |from: Option<Duration>, to: Option<Duration>| {
        to.map_or(-1.0, |to| ms(to.saturating_sub(from.unwrap_or_default())))
    };
    let ready = phases.tls.or(phases.connect);
    json!({
        "blocked": ms(entry.begun.saturating_sub(entry.known)),
        "dns": since(None, phases.dns),
        "connect": since(phases.dns, ready),
        "ssl": since(phases.connect, phases.tls),
        "send": since(ready, phases.sent).max(0.0),
        "wait": since(phases.sent, phases.first_byte).max(0.0),
        "receive": since(phases.first_byte, phases.done).max(0.0),
    })
}
