//! Servers of upstreams added, changed and removed.
//!
//! A document is read as a whole before anything is changed: an error in its last member leaves the server as
//! it was.

use super::upstreams::{Of, find, server, servers, unknown, unknown_server};
use super::{Answer, upstreams};
use crate::limits::{SERVERS_MAX, SERVERS_ROUTE_BYTES_MAX, SERVERS_TIME_SECS_MAX};
use crate::upstream::{Upstream, is_word, place};
use brisk_balance::{Change, PeerId, ServerSpec};
use brisk_conf::value;
use brisk_http::Method;
use brisk_net::clock;
use brisk_server::request::Request;
use serde_json::{Value, json};
use std::sync::Arc;

/// What was changed, or why nothing was.
pub(super) type Done = Result<(Answer, Arc<Upstream>), Answer>;

pub(super) fn change(r: &Request, of: Of, parts: &[&str], body: &[u8]) -> Done {
    let Some(upstream) = parts.first().and_then(|name| find(r, of, name)) else { return Err(unknown()) };
    match (&r.route.method, parts) {
        (Method::Post, [_, "servers"]) => add(upstream, of, body),
        (Method::Patch, [_, "servers", id]) => patch(upstream, id, body),
        (Method::Delete, [_, "servers", id]) => remove(upstream, id),
        (Method::Delete, [_]) => Ok((Answer::Found(json!({})), reset(upstream))),
        (_, [_] | [_, "servers"] | [_, "servers", _]) => Err(Answer::wrong_method()),
        _ => Err(Answer::not_found()),
    }
}

fn reset(upstream: Arc<Upstream>) -> Arc<Upstream> {
    upstream.group().reset_stats();
    upstream
}

fn bad(text: impl Into<String>) -> Answer {
    Answer::Failed(400, "UpstreamConfFormatError", text.into())
}

/// The parameters of a document.
struct Parameters {
    /// `None`: the document says nothing of it, so it stays as it is.
    server: Option<String>,
    service: Option<Arc<str>>,
    backup: Option<bool>,
    change: Change,
}

fn parameters(body: &[u8]) -> Result<Parameters, Answer> {
    let json = serde_json::from_slice::<Value>(body).ok();
    // A list or a number is no document.
    let Some(members) = json.as_ref().and_then(Value::as_object) else {
        return Err(Answer::Failed(415, "JsonError", "json error".into()));
    };
    let mut found = Parameters { server: None, service: None, backup: None, change: Change::default() };
    for (name, value) in members {
        parameter(&mut found, name, value)?;
    }
    Ok(found)
}

fn parameter(found: &mut Parameters, name: &str, value: &Value) -> Result<(), Answer> {
    let wrong = || bad(format!("invalid \"{name}\" parameter value"));
    let number = || value.as_u64().and_then(|count| u32::try_from(count).ok()).ok_or_else(wrong);
    let flag = || value.as_bool().ok_or_else(wrong);
    let text = || value.as_str().ok_or_else(wrong);
    // What is taken here is written into the state file as words of a configuration, and must be the same when it is read.
    let word = || text().and_then(|text| if is_word(text) { Ok(text) } else { Err(wrong()) });
    let time = |whole: bool| {
        let unit = if whole { 1 } else { 1000 };
        // nginx Plus takes seconds as a number and times with units as text.
        let time = match value {
            Value::Number(secs) => secs.as_u64().and_then(|secs| secs.checked_mul(unit)),
            Value::String(text) => value::parse_time(text.as_bytes(), whole),
            _ => None,
        };
        time.filter(|time| *time <= SERVERS_TIME_SECS_MAX * unit).ok_or_else(wrong)
    };
    let change = &mut found.change;
    match name {
        "server" => found.server = Some(text()?.to_string()),
        "service" => found.service = Some(word()?.into()),
        "backup" => found.backup = Some(flag()?),
        // 0 would be a server that is never chosen; `down` is the way to say that.
        "weight" => change.weight = Some(number()?).filter(|weight| (1..=65_535).contains(weight)),
        "max_conns" => change.max_conns = Some(number()?),
        "max_fails" => change.max_fails = Some(number()?),
        "fail_timeout" => change.fail_timeout_secs = Some(time(true)?),
        "slow_start" => change.slow_start_ms = Some(time(false)?),
        "route" if text()?.len() > SERVERS_ROUTE_BYTES_MAX => {
            return Err(bad(format!("route is longer than {SERVERS_ROUTE_BYTES_MAX}")));
        }
        // An empty one takes it away.
        "route" if text()?.is_empty() => change.route = Some(None),
        "route" => change.route = Some(Some(word()?.into())),
        "down" => change.down = Some(flag()?),
        "drain" => change.drain = Some(flag()?),
        "id" | "host" | "parent" => return Err(bad(format!("parameter \"{name}\" cannot be set"))),
        _ => return Err(bad(format!("unknown parameter \"{name}\""))),
    }
    if name == "weight" && change.weight.is_none() {
        return Err(wrong());
    }
    Ok(())
}

fn add(upstream: Arc<Upstream>, of: Of, body: &[u8]) -> Done {
    let parameters = parameters(body)?;
    let Some(address) = parameters.server else { return Err(bad("missing \"server\" argument")) };
    // A word of the state file, too; with the address in the message.
    if !is_word(&address) {
        return Err(bad(format!("invalid server address \"{address}\"")));
    }
    let mut spec = ServerSpec::new(&address, Vec::new());
    spec.service = parameters.service;
    spec.backup = parameters.backup.unwrap_or(false);
    // A method that looks at all servers alike cannot keep some for later.
    if spec.backup && !upstream.method().knows_backup() {
        return Err(bad("balancing method does not support parameter \"backup\""));
    }
    // There is no port that would be usual.
    let has_port = address.starts_with("unix:") || spec.service.is_some() || spec.has_port();
    if of == Of::Stream && !has_port {
        return Err(Answer::Failed(400, "UpstreamBadAddress", format!("no port in server \"{address}\"")));
    }
    if !place(&mut spec, true) {
        return Err(Answer::Failed(
            400,
            "UpstreamBadAddress",
            format!("invalid server address \"{address}\""),
        ));
    }
    // A name is looked up at run time only: there is no configuration that is being read.
    if spec.host.is_some() && !upstream.has_resolver() {
        let text = format!("no resolver defined to resolve \"{address}\"");
        return Err(Answer::Failed(400, "UpstreamConfNoResolver", text));
    }
    if spec.service.is_some() && spec.host.is_none() {
        return Err(bad(format!("service upstream \"{address}\" requires domain name")));
    }
    parameters.change.apply(&mut spec);
    let group = upstream.group();
    let have = group.servers();
    // Whoever may write here could otherwise fill the memory.
    if have.len() >= SERVERS_MAX {
        return Err(Answer::Failed(409, "UpstreamOutOfMemory", "upstream has too many servers".into()));
    }
    if have.iter().any(|have| have.spec.server == spec.server && have.spec.backup == spec.backup) {
        return Err(Answer::Failed(409, "UpstreamServerExists", format!("server \"{address}\" exists")));
    }
    let id = upstream.add_server(spec);
    let made = group.servers().into_iter().find(|server| server.id == id);
    let json = made.map_or(Value::Null, |made| server(&made));
    Ok((Answer::Created(json), upstream))
}

/// The number of a server that is configured or was added: not one that was looked up for it.
fn own(upstream: &Upstream, id: &str) -> Result<PeerId, Answer> {
    // By number and not by address: several servers may have one address.
    let found = upstream.group().servers().into_iter().find(|server| Ok(server.id) == id.parse());
    match found {
        // What was looked up comes and goes with DNS: a change would be gone with the next answer.
        Some(found) if found.parent.is_none() => Ok(found.id),
        Some(_) => Err(bad(format!("server with ID \"{id}\" was looked up and cannot be changed by itself"))),
        None => Err(unknown_server(id)),
    }
}

fn patch(upstream: Arc<Upstream>, id: &str, body: &[u8]) -> Done {
    let own = own(&upstream, id)?;
    let parameters = parameters(body)?;
    for (name, given) in [
        ("server", parameters.server.is_some()),
        ("service", parameters.service.is_some()),
        ("backup", parameters.backup.is_some()),
    ] {
        if given {
            return Err(bad(format!("parameter \"{name}\" cannot be changed")));
        }
    }
    upstream.group().change(own, &parameters.change, clock::mono_ms()).map_err(|_| unknown_server(id))?;
    let changed = upstream.group().servers().into_iter().find(|server| server.id == own);
    let json = changed.map_or(Value::Null, |changed| upstreams::server(&changed));
    Ok((Answer::Found(json), upstream))
}

fn remove(upstream: Arc<Upstream>, id: &str) -> Done {
    let own = own(&upstream, id)?;
    upstream.group().remove(own).map_err(|_| unknown_server(id))?;
    Ok((Answer::Found(servers(&upstream)), upstream))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change_of(body: &str) -> Option<Change> {
        parameters(body.as_bytes()).ok().map(|found| found.change)
    }

    #[test]
    fn what_would_be_read_as_something_else_is_refused() {
        for body in [
            r#"{"route":"a;server 10.0.0.1:80"}"#,
            r#"{"route":"a b"}"#,
            r##"{"route":"#"}"##,
            r#"{"route":"a\\"}"#,
            r#"{"service":"_http._tcp down"}"#,
            r#"{"service":""}"#,
            // More than a time can be: it would be written, and not be understood when it is read.
            r#"{"fail_timeout":1000000000000000000}"#,
            r#"{"slow_start":1000000000000000}"#,
            r#"{"fail_timeout":"500y"}"#,
        ] {
            assert!(change_of(body).is_none(), "{body}");
        }
        let change = change_of(r#"{"route":"a.b-c","fail_timeout":"136y","slow_start":4294967295}"#).unwrap();
        assert_eq!(change.route, Some(Some("a.b-c".into())));
        assert_eq!(change_of(r#"{"route":""}"#).unwrap().route, Some(None));
    }

    #[test]
    fn a_flag_that_is_not_in_the_document_stays() {
        for (body, down, drain) in [
            (r#"{"down":true}"#, Some(true), None),
            (r#"{"drain":false,"down":true}"#, Some(true), Some(false)),
            (r#"{"down":false}"#, Some(false), None),
            (r#"{"drain":true}"#, None, Some(true)),
        ] {
            assert_eq!(change_of(body), Some(Change { down, drain, ..Change::default() }), "{body}");
        }
    }
}
