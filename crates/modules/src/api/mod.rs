//! `api`: the state of the server as JSON, and its upstreams changed while it runs — in the shape of nginx Plus's API.
//!
//! Answers are made of what is live now, not of the request's configuration: a change must be seen by the next
//! question, whichever connection it comes on.

mod servers;
mod stream;
mod upstreams;

use crate::changing::{self, Changing};
use crate::limits::API_BODY_BYTES_MAX;
use crate::own_page::{has_foreign_name, is_own_origin, refuses_name};
use crate::upstream::Upstream;
use brisk_http::Method;
use brisk_net::clock;
use brisk_server::conf::Cx;
use brisk_server::flow::Flow;
use brisk_server::module::{Module, Row};
use brisk_server::request::Request;
use brisk_server::text::Text;
use serde_json::{Value, json};
use std::sync::Arc;
use upstreams::Of;

/// `api`.
pub static MODULE: Module = Module {
    name: "api",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(|cx, plan| {
        if let Some(write) = cx.conf_of::<Conf>().write {
            let prefix: Arc<[u8]> = location_prefix(cx);
            plan.content = Some(Arc::new(move |r: &mut Request| handle(r, write, &prefix)));
        }
    }),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[changing::row(
    "api",
    "The location answers with the server's state as JSON (versions 1 to 9 of nginx Plus's API: nginx, processes, connections, slabs, http/requests, http/upstreams, stream/server_zones, stream/upstreams; Brisk's own: http/php, its PHP pools; databases, the roles of databases behind stream). write=on allows servers of upstreams to be added, changed and removed: guard it with allow and deny, or listen on a Unix socket. Where clients need not log in, it answers only under an address, localhost or a name that is in server_name, and over Unix sockets.",
    "api write=on;",
    changing::set::<Api>,
)];

/// Tells its configuration from others of the kind.
#[derive(Clone, Default)]
struct Api;

type Conf = Changing<Api>;

/// What precedes the API's own paths in a URI.
fn location_prefix(cx: &Cx<'_, '_>) -> Arc<[u8]> {
    let core = cx.conf_of::<brisk_server::core::CoreConf>();
    // What a regular expression matches has no fixed beginning: the whole path counts.
    if core.location_is_regex { Arc::from(&b""[..]) } else { core.location_text.clone() }
}

/// What a call comes to.
pub(crate) enum Answer {
    Found(Value),
    /// 201, with what was made.
    Created(Value),
    Failed(u16, &'static str, String),
}

impl Answer {
    fn not_found() -> Answer {
        Answer::Failed(404, "PathNotFound", "path not found".into())
    }

    fn wrong_method() -> Answer {
        Answer::Failed(405, "MethodDisabled", "method disabled".into())
    }
}

fn handle(r: &mut Request, write: bool, prefix: &[u8]) -> Flow {
    // Reading has no effect, so it is not a matter of `write`.
    let is_change = !matches!(r.route.method, Method::Get | Method::Head | Method::Options);
    if !is_change {
        if let Some(refusal) = refuses_name(r, "a look at the API") {
            return refusal;
        }
        let answer = look(r, prefix);
        return respond(r, answer);
    }
    if !write || !matches!(r.route.method, Method::Post | Method::Patch | Method::Delete) {
        return respond(r, Answer::wrong_method());
    }
    if let Some(refusal) = foreign(r) {
        return respond(r, refusal);
    }
    let prefix = prefix.to_vec();
    Flow::Wait(Box::new(move |r| {
        Box::pin(async move {
            let body = match whole_body(r).await {
                Ok(body) => body,
                Err(flow) => return flow,
            };
            let done = change(r, &prefix, &body);
            conclude(r, done).await
        })
    }))
}

/// The refusal of a change that a page of another site may have asked for.
fn foreign(r: &Request) -> Option<Answer> {
    let refusal = |text: &str| Some(Answer::Failed(403, "CrossOrigin", text.into()));
    // A page of any site can have a browser that may reach this address send requests to it; browsers say whose
    // page it was.
    if is_own_origin(r) == Some(false) {
        return refusal("requests of other sites' pages are refused");
    }
    // Also without a word of a page: old browsers do not say it.
    if has_foreign_name(r) {
        return refusal(
            "changes are made under an address, localhost or a name that is in server_name, or where clients say who they are",
        );
    }
    None
}

/// The document of a change, up to [`API_BODY_BYTES_MAX`]; else how the request ends.
pub(crate) async fn whole_body(r: &mut Request) -> Result<Vec<u8>, Flow> {
    let mut body = Vec::new();
    // Bounded while it comes: a client may announce nothing.
    loop {
        match r.body_piece(&mut body).await {
            Ok(true) if body.len() > API_BODY_BYTES_MAX => return Err(Flow::Status(413)),
            Ok(true) => {}
            Ok(false) => return Ok(body),
            Err(failure) => return Err(brisk_server::failure::end(&failure, r)),
        }
    }
}

fn respond(r: &mut Request, answer: Answer) -> Flow {
    let (status, json) = match answer {
        Answer::Found(json) => (200, json),
        Answer::Created(json) => (201, json),
        Answer::Failed(status, code, text) => {
            let error = json!({ "status": status, "text": text, "code": code });
            (status, json!({ "error": error }))
        }
    };
    r.resp.text(status, Text::Static(b"application/json"), json.to_string());
    // The state of now must not be stored anywhere.
    r.resp.set("Cache-Control", "no-cache");
    Flow::Done
}

/// The path's parts behind `/api/VERSION/`; `None` if the version is not one.
fn path(r: &Request, prefix: &[u8]) -> (Option<u32>, Vec<String>) {
    let rest = r.route.uri.strip_prefix(prefix).unwrap_or(&r.route.uri);
    let text = String::from_utf8_lossy(rest);
    let mut parts = text.split('/').filter(|part| !part.is_empty()).map(str::to_string);
    // 0 is no version, so nonsense is answered as an unknown one.
    // A version is a part of the path; what it is for is looked at behind it.
    let version = parts.next().map(|version| version.parse().unwrap_or(0));
    (version, parts.collect())
}

const VERSIONS: std::ops::RangeInclusive<u32> = 1..=9;

fn look(r: &Request, prefix: &[u8]) -> Answer {
    let (version, parts) = path(r, prefix);
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let list = |names: &[&str]| Answer::Found(json!(names));
    match (version, parts.as_slice()) {
        (None, _) => Answer::Found(VERSIONS.collect()),
        (Some(version), _) if !VERSIONS.contains(&version) => {
            // nginx Plus has more versions than are known here; saying so is better than an answer of another
            // shape.
            Answer::Failed(404, "UnknownVersion", "unknown version".into())
        }
        (_, []) => list(&["nginx", "processes", "connections", "slabs", "http", "stream", "databases"]),
        (_, ["nginx"]) => Answer::Found(program(r)),
        // One worker is replaced by another one, and each counts from the beginning.
        (_, ["processes"]) => Answer::Found(json!({ "respawned": 0 })),
        (_, ["connections"]) => Answer::Found(connections(r)),
        (_, ["slabs"]) => Answer::Found(zones(r)),
        (_, ["slabs", name]) => zones(r)
            .get(name)
            .cloned()
            .map_or_else(|| Answer::Failed(404, "SlabNotFound", "slab not found".into()), Answer::Found),
        (_, ["http"]) => list(&["requests", "upstreams", "php"]),
        (_, ["databases"]) => Answer::Found(crate::db::status::all(&r.thread.live().snap)),
        (_, ["http", "php"]) => Answer::Found(crate::php::watch::status(&r.thread.live().snap)),
        (_, ["http", "requests"]) => Answer::Found(requests(r)),
        (_, ["http", "upstreams", rest @ ..]) => upstreams::look(r, Of::Http, rest),
        (_, ["stream"]) => list(&["server_zones", "upstreams"]),
        (_, ["stream", "server_zones", rest @ ..]) => stream::look(r, rest),
        (_, ["stream", "upstreams", rest @ ..]) => upstreams::look(r, Of::Stream, rest),
        _ => Answer::not_found(),
    }
}

/// What was changed is kept, where the configuration has a file for it; the answer if that failed.
async fn save(r: &Request, upstream: Arc<Upstream>) -> Option<Answer> {
    if !upstream.has_state() {
        return None;
    }
    let saved = match brisk_net::blocking::run(move || upstream.save()) {
        Ok(job) => job.await,
        Err(_) => Err(std::io::Error::other("too many jobs wait for the disk")),
    };
    let error = saved.err()?;
    brisk_server::rlog!(r, Error, "the state of an upstream could not be written ({error})");
    Some(Answer::Failed(500, "UpstreamStateNotSaved", format!("the state could not be written: {error}")))
}

fn change(r: &Request, prefix: &[u8], body: &[u8]) -> Result<(Answer, Arc<Upstream>), Answer> {
    let (version, parts) = path(r, prefix);
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match (version, parts.as_slice()) {
        (Some(version), ["http", "upstreams", rest @ ..]) if VERSIONS.contains(&version) => {
            servers::change(r, Of::Http, rest, body)
        }
        (Some(version), ["stream", "upstreams", rest @ ..]) if VERSIONS.contains(&version) => {
            servers::change(r, Of::Stream, rest, body)
        }
        (Some(_), ["http" | "stream" | "nginx" | "processes" | "connections" | "slabs", ..]) => {
            Err(Answer::wrong_method())
        }
        _ => Err(Answer::not_found()),
    }
}

/// Upstreams and PHP pools as the API shows them.
pub(crate) fn everything(r: &Request) -> Value {
    let (upstreams, servers) = groups(r, Of::Http);
    let (of_stream, servers_of_stream) = groups(r, Of::Stream);
    json!({
        "upstreams": upstreams,
        "servers": servers,
        "stream": { "upstreams": of_stream, "servers": servers_of_stream },
        "php": crate::php::watch::status(&r.thread.live().snap),
    })
}

/// All groups, and their servers by the groups' names.
fn groups(r: &Request, of: Of) -> (Value, Value) {
    let upstreams = match upstreams::look(r, of, &[]) {
        Answer::Found(json) => json,
        _ => Value::Null,
    };
    let mut servers = serde_json::Map::new();
    for name in upstreams.as_object().into_iter().flat_map(|all| all.keys()) {
        if let Answer::Found(json) = upstreams::look(r, of, &[name, "servers"]) {
            servers.insert(name.clone(), json);
        }
    }
    (upstreams, Value::Object(servers))
}

/// Changes a server of an upstream, of `stream` or else of HTTP, and answers as the API does.
pub(crate) async fn patch_server(
    r: &mut Request,
    is_of_stream: bool,
    upstream: &str,
    server: &str,
    body: &[u8],
) -> Flow {
    let of = if is_of_stream { Of::Stream } else { Of::Http };
    let done = servers::change(r, of, &[upstream, "servers", server], body);
    conclude(r, done).await
}

/// Keeps a change and answers. It is in force before it is saved: a disk that is full does not undo it, but the client is told.
async fn conclude(r: &mut Request, done: servers::Done) -> Flow {
    let answer = match done {
        // The change counts first: what is asked next must see it.
        Ok((answer, upstream)) => save(r, upstream).await.unwrap_or(answer),
        Err(answer) => answer,
    };
    respond(r, answer)
}

fn program(r: &Request) -> Value {
    let address = r.local_addr().map(|local| local.ip().to_string()).unwrap_or_default();
    json!({
        // The version of nginx whose directives are understood; tools compare it.
        "version": "1.31.5",
        "build": format!("brisk {}", env!("CARGO_PKG_VERSION")),
        "address": address,
        "generation": r.live.generation,
        "timestamp": iso(clock::now().mono_ms),
        "pid": std::process::id(),
        "ppid": std::os::unix::process::parent_id(),
    })
}

fn connections(r: &Request) -> Value {
    let totals = r.thread.shared.totals();
    json!({
        "accepted": totals.accepted,
        "dropped": totals.accepted.saturating_sub(totals.handled),
        "active": totals.reading + totals.writing,
        // Those that were taken and not handled were closed for want of memory or descriptors.
        "idle": totals.waiting(),
    })
}

fn requests(r: &Request) -> Value {
    let totals = r.thread.shared.totals();
    json!({ "total": totals.requests, "current": totals.writing })
}

/// Zones and how large they may become. They are no memory of fixed size, so there are no pages to be counted.
fn zones(r: &Request) -> Value {
    let zone = |zone: &Arc<brisk_server::zone::Zone>| {
        (zone.name.to_string(), json!({ "bytes": zone.bytes, "used_by": zone.module }))
    };
    r.snap().zones.iter().map(zone).collect()
}

/// A monotonic time as the date that it was.
fn iso(mono_ms: u64) -> String {
    let now = clock::now();
    let ms = now.unix_secs * 1000 + i64::from(now.unix_millis) - now.mono_ms.saturating_sub(mono_ms) as i64;
    let civil = brisk_http::date::Civil::from_unix(ms.div_euclid(1000));
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        civil.year,
        civil.month,
        civil.day,
        civil.hour,
        civil.minute,
        civil.second,
        ms.rem_euclid(1000)
    )
}

#[cfg(test)]
mod tests {
    use crate::check::{accepted, refused};

    #[test]
    fn its_parameter_is_checked() {
        accepted(&[
            "server { location /api { api; } location /w { api write=on; allow 127.0.0.1; deny all; } }",
        ]);
        refused(&[
            ("server { location /api { api read; } }", "invalid parameter \"read\""),
            ("server { location /api { api write=1; } }", "invalid value \"write=1\""),
        ]);
    }
}
