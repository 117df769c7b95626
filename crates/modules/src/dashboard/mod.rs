//! `dashboard`: one page that shows what the server does, drawn in the browser from numbers that it asks for each second.
//!
//! The page, its style, its script and its numbers have one path and are told apart by the query, so that a location of any
//! kind can hold them. The page comes from the binary alone and its policy (Content-Security-Policy) allows nothing else.
//!
//! It must not be open by accident: a location without access rules answers only to clients of this machine that name it so;
//! see [`open`]. One with rules about addresses answers to names that are its own; see [`crate::own_page`]. Changes need a location that asks who somebody is, and a page of the same origin.

mod data;
mod open;

use crate::api;
use crate::changing::{self, Changing};
use crate::own_page::{Guard, guard, has_own_name};
use brisk_http::Method;
use brisk_http::uri::{Unescape, unescape};
use brisk_net::blocking;
use brisk_server::flights;
use brisk_server::flow::Flow;
use brisk_server::limits::TOPS_WATCHED_SECS;
use brisk_server::metrics::{Scrape, sampler};
use brisk_server::module::{Module, Row};
use brisk_server::request::Request;
use brisk_server::text::Text;
use std::sync::Arc;

/// `dashboard`.
pub static MODULE: Module = Module {
    name: "dashboard",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(|cx, plan| {
        if let Some(write) = cx.conf_of::<Conf>().write {
            plan.content = Some(Arc::new(move |r: &mut Request| handle(r, write)));
        }
    }),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[changing::row(
    "dashboard",
    "The location answers with a page that shows what the server does: requests, errors, times, connections, the costliest URLs and clients, back ends, PHP pools, caches, limits, for the last ten minutes and the last day. Without a rule of allow and deny that is for the client, or another access rule, it answers only to clients of this machine: a list of clients that are shut out, as of the whole server, is not enough. A proxy on this machine that sends none of Forwarded, X-Forwarded-For, X-Real-IP and Via looks like such a client, so behind one the location must be given rules. With rules about addresses alone it answers only under an address, localhost or a name that is in server_name. write=on lets the page set back ends down, drain them and change their weights; only in a location where clients must log in (auth_basic, auth_jwt, auth_request, without satisfy any).",
    "dashboard;",
    |cx, d| {
        // The page's tables are made of these records, which cost something.
        cx.records_requests();
        sampler::keep(cx);
        changing::set::<Dashboard>(cx, d)
    },
)];

/// Tells its configuration from others of the kind.
#[derive(Clone, Default)]
struct Dashboard;

type Conf = Changing<Dashboard>;

/// Everything from here, nothing from elsewhere, and no other page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page's parts, by the query that asks for them.
const PARTS: [(&[u8], &str, &str); 4] = [
    (b"", "text/html; charset=utf-8", include_str!("page/index.html")),
    (b"style", "text/css; charset=utf-8", include_str!("page/style.css")),
    (b"script", "text/javascript; charset=utf-8", include_str!("page/script.js")),
    (b"icon", "image/svg+xml", include_str!("page/icon.svg")),
];

fn handle(r: &mut Request, write: bool) -> Flow {
    let guard = guard(r);
    if guard == Guard::None
        && let Err(why) = open::is_of_this_machine(r)
    {
        brisk_server::rlog!(
            r,
            Error,
            "the dashboard was refused: {why}; give its location allow and deny with a rule for the client, auth_basic or another access rule"
        );
        return Flow::Status(403);
    }
    if guard == Guard::Rules && !has_own_name(r) {
        brisk_server::rlog!(
            r,
            Error,
            "the dashboard was refused: its location is guarded by addresses, and the request is for a name that no server_name has; add the name there"
        );
        return Flow::Status(403);
    }
    let flow = match r.route.method {
        Method::Get | Method::Head => look(r, write && guard == Guard::Identity),
        Method::Patch => change(r, write, guard),
        _ => Flow::Status(405),
    };
    // Also for refusals: no answer of this location is to be framed or kept.
    for (name, value) in [
        ("Content-Security-Policy", POLICY),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
    ] {
        r.resp.set(name, value);
    }
    flow
}

fn look(r: &mut Request, write: bool) -> Flow {
    let (part, rest) = match r.route.args.iter().position(|&byte| byte == b'&') {
        Some(at) => (&r.route.args[..at], &r.route.args[at + 1..]),
        None => (&r.route.args[..], &b""[..]),
    };
    if let Some((_, content_type, text)) = PARTS.iter().find(|(name, ..)| *name == part) {
        r.resp.text(200, Text::Static(content_type.as_bytes()), *text);
        return Flow::Done;
    }
    if part != b"data" {
        return Flow::Status(404);
    }
    let since = std::str::from_utf8(rest).ok().and_then(|rest| rest.strip_prefix("since="));
    let since = since.and_then(|text| text.parse().ok()).unwrap_or(i64::MIN);
    let now = r.now();
    // Tables of URLs and clients cost something: they are kept while somebody looks.
    r.thread.shared.watched.until(now.unix_secs + TOPS_WATCHED_SECS);
    let look = data::Look {
        shared: r.thread.shared.clone(),
        now_ms: now.unix_secs * 1000 + i64::from(now.unix_millis),
        since,
        generation: r.live.generation,
        write,
        upstreams: api::everything(r),
    };
    // With thousands of locations there is much to write: not in the event loop.
    // Here, since it reads what is the thread's own.
    let scrape = Scrape::new(&r.live, &r.thread);
    Flow::Wait(Box::new(move |r| {
        Box::pin(async move {
            r.flight.is_look();
            let flights = flights::survey(look.shared.clone()).await;
            let job = blocking::run(move || look.json(&flights, &scrape.filled()));
            let Ok(job) = job else { return Flow::Status(503) };
            let json = job.await;
            r.resp.text(200, Text::Static(b"application/json"), json);
            Flow::Done
        })
    }))
}

/// `PATCH ?upstream=NAME&server=ID` with what is to change, as the API takes it; for groups of `stream` `?stream=NAME&server=ID`.
fn change(r: &mut Request, write: bool, guard: Guard) -> Flow {
    if !write || guard != Guard::Identity {
        return Flow::Status(405);
    }
    if !open::is_own_page(r) {
        brisk_server::rlog!(
            r,
            Error,
            "a change by the dashboard was refused: it came from a page of another origin"
        );
        return Flow::Status(403);
    }
    let Some((is_of_stream, upstream, server)) = target(&r.route.args) else { return Flow::Status(404) };
    Flow::Wait(Box::new(move |r| {
        Box::pin(async move {
            let body = match api::whole_body(r).await {
                Ok(body) => body,
                Err(flow) => return flow,
            };
            api::patch_server(r, is_of_stream, &upstream, &server, &body).await
        })
    }))
}

/// Whether a group of `stream` is meant, the upstream and the server that a query names. Names of upstreams have no bytes that browsers escape but a few.
fn target(args: &[u8]) -> Option<(bool, String, String)> {
    let text = std::str::from_utf8(args).ok()?;
    let (kind, rest) = text.split_once('=')?;
    let is_of_stream = match kind {
        "upstream" => false,
        "stream" => true,
        _ => return None,
    };
    let (upstream, server) = rest.split_once("&server=")?;
    let mut name = Vec::new();
    unescape(Unescape::All, upstream.as_bytes(), &mut name);
    Some((is_of_stream, String::from_utf8(name).ok()?, server.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{accepted, http, refused};

    #[test]
    fn its_parameter_is_checked() {
        accepted(&[
            "server { location /d { dashboard; } location /w { dashboard write=on; auth_basic x; auth_basic_user_file f; } }",
        ]);
        refused(&[
            ("server { location /d { dashboard read; } }", "invalid parameter \"read\""),
            ("server { location /d { dashboard write=1; } }", "invalid value \"write=1\""),
        ]);
    }

    #[test]
    fn requests_are_recorded_and_one_history_is_kept() {
        let snap = http("server { location /d { dashboard; location /d/x { } } location /e { dashboard; } }")
            .unwrap();
        assert!(snap.records_requests);
        assert_eq!(snap.services.len(), 1);
        let owned = snap.locations.iter().filter(|l| l.plan.content.is_some()).count();
        assert_eq!(owned, 2, "not inherited");
    }

    #[test]
    fn the_page_is_small() {
        let bytes: usize = PARTS.iter().map(|(.., text)| text.len()).sum();
        assert!(bytes <= 60_000, "{bytes}");
    }

    #[test]
    fn queries_name_a_server() {
        let check = |args: &str, want: Option<(bool, &str, &str)>| {
            let got = target(args.as_bytes());
            assert_eq!(got.as_ref().map(|(kind, a, b)| (*kind, &**a, &**b)), want, "{args}");
        };
        check("upstream=u&server=3", Some((false, "u", "3")));
        check("upstream=a%2fb&server=3", Some((false, "a/b", "3")));
        check("stream=u&server=3", Some((true, "u", "3")));
        check("upstream=u", None);
        check("server=3", None);
        check("upstream=%ff&server=3", None);
    }
}
