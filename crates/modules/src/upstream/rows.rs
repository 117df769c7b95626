//! Directives of `upstream` blocks.

use super::draft::parse_zone;
use super::{draft, health, server, sticky, upstream};
use brisk_balance::{LeastTime, Measure, Method};
use brisk_conf::{Arity, Context, Default as D, Diag, Directive, Token, value};
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::core::resolver;
use brisk_server::module::{Row, Set};
use brisk_server::row;
use std::sync::Arc;
use std::time::Duration;

const UPSTREAM: Context = Context::UPSTREAM;

pub(super) static ROWS: &[Row] = &[
    row!(
        "upstream",
        Context::HTTP,
        Arity::ONE.block(),
        D::Nothing,
        Definition,
        true,
        "A group of servers that requests are passed to by its name. Its state (connections, failures, weights) is the process's, exact over all threads.",
        Set::Simple(upstream)
    ),
    row!(
        "server",
        UPSTREAM,
        Arity::SOME,
        D::Nothing,
        Definition,
        true,
        "An address (host, with a port if it is not 80, or unix:PATH) and parameters: weight=, max_conns=, max_fails= (1), fail_timeout= (10s), slow_start=, backup, down, drain, route=, resolve, service=. A name that has no address at the start is asked for again; meanwhile its requests get 502.",
        Set::Simple(server::server)
    ),
    row!(
        "zone",
        UPSTREAM,
        Arity::between(1, 2),
        D::Nothing,
        Definition,
        true,
        "Keeps the group's state (failures, connections, looked-up addresses) under this name when the configuration is loaded again.",
        Set::Simple(|cx, d| {
            let zone = parse_zone(&d.args)?;
            draft(cx).zone = Some(zone);
            Ok(())
        })
    ),
    row!(
        "state",
        UPSTREAM,
        Arity::ONE,
        D::Nothing,
        Definition,
        false,
        "A file that holds the group's servers in place of \"server\" directives; changes that are made through the API are written to it.",
        Set::Simple(|cx, d| {
            draft(cx).state = Some(d.arg(0).clone());
            Ok(())
        })
    ),
    row!(
        "hash",
        UPSTREAM,
        Arity::between(1, 2),
        D::Nothing,
        Definition,
        true,
        "Chooses the server by a key. consistent: ketama, so that a server more or less moves few keys.",
        Set::Simple(hash)
    ),
    row!(
        "ip_hash",
        UPSTREAM,
        Arity::NONE,
        D::Nothing,
        Definition,
        true,
        "Chooses the server by the client's address: by the first three bytes of IPv4, all of IPv6.",
        Set::Simple(|cx, d| method(cx, d, Method::IpHash))
    ),
    row!(
        "least_conn",
        UPSTREAM,
        Arity::NONE,
        D::Nothing,
        Definition,
        true,
        "Chooses the server with the fewest connections for its weight.",
        Set::Simple(|cx, d| method(cx, d, Method::LeastConn))
    ),
    row!(
        "least_time",
        UPSTREAM,
        Arity::between(1, 2),
        D::Nothing,
        Definition,
        false,
        "Chooses the server with the shortest average time to the header or to the last_byte and the fewest connections; inflight counts unanswered requests too.",
        Set::Simple(least_time)
    ),
    row!(
        "random",
        UPSTREAM,
        Arity::between(0, 2),
        D::Nothing,
        Definition,
        true,
        "Draws a server by weight. two: draws two and takes the one with fewer connections (least_conn), or the quicker one (least_time=header, least_time=last_byte).",
        Set::Simple(random)
    ),
    row!(
        "sticky",
        UPSTREAM,
        Arity::at_least(2),
        D::Nothing,
        Definition,
        false,
        "Keeps a session with its server: cookie NAME [expires=] [domain=] [path=] [httponly] [secure] [samesite=]; route $VARIABLE …; learn create=$VARIABLE lookup=$VARIABLE zone=NAME:SIZE [timeout=] [header].",
        Set::Simple(sticky::set)
    ),
    row!(
        "queue",
        UPSTREAM,
        Arity::between(1, 2),
        D::Nothing,
        Definition,
        false,
        "How many requests may wait for a server when none can take one, and how long (timeout=60s); beyond that they get 502.",
        Set::Simple(queue)
    ),
    row!(
        "keepalive",
        UPSTREAM,
        Arity::between(1, 2),
        D::Told("32 local"),
        Definition,
        false,
        "Idle connections to the group's servers that the whole process keeps; 0: none. local: a location uses no other location's connections.",
        Set::Simple(keepalive)
    ),
    row!(
        "keepalive_requests",
        UPSTREAM,
        Arity::ONE,
        D::Told("1000"),
        Definition,
        false,
        "Requests that one connection to a server carries before it is closed.",
        Set::Simple(|cx, d| {
            draft(cx).keepalive_requests = value::number(d.arg(0))?;
            Ok(())
        })
    ),
    row!(
        "keepalive_time",
        UPSTREAM,
        Arity::ONE,
        D::Told("1h"),
        Definition,
        false,
        "How old a connection to a server may become.",
        Set::Simple(|cx, d| {
            draft(cx).keepalive_time = value::msec(d.arg(0))?;
            Ok(())
        })
    ),
    row!(
        "keepalive_timeout",
        UPSTREAM,
        Arity::ONE,
        D::Told("60s"),
        Definition,
        false,
        "How long a connection to a server may be idle.",
        Set::Simple(|cx, d| {
            draft(cx).keepalive_timeout = value::msec(d.arg(0))?;
            Ok(())
        })
    ),
    row!(
        "resolver",
        UPSTREAM,
        Arity::SOME,
        D::Nothing,
        Definition,
        false,
        "Name servers for this group's names, in place of those of http.",
        Set::Simple(|cx, d| {
            let own = resolver::parse(cx, &d.args)?;
            draft(cx).resolver = Some(own);
            Ok(())
        })
    ),
    row!(
        "resolver_timeout",
        UPSTREAM,
        Arity::ONE,
        D::Nothing,
        Definition,
        false,
        "How long a name of this group may take to be looked up.",
        Set::Simple(|cx, d| {
            draft(cx).resolver_timeout = Some(value::msec(d.arg(0))?);
            Ok(())
        })
    ),
    row!(
        "health_check",
        Context::LOCATION,
        Arity::ANY,
        D::Nothing,
        No,
        false,
        "Asks each server of the group that the location passes to how it is: interval=5s, jitter=, fails=1, passes=1, uri=/, match=NAME, port=, mandatory [persistent]. Servers that fail get no requests until they pass. The question is an HTTP/1.0 GET with the location's time-outs and constant headers.",
        Set::Simple(health::set)
    ),
    row!(
        "match",
        Context::HTTP,
        Arity::ONE.block(),
        D::Nothing,
        Definition,
        true,
        "What the answer to a health check must be like: status [!] CODE …, header [!] NAME, header NAME =|!=|~|!~ VALUE, body ~|!~ REGEX, require $VARIABLE … (of the answer, as $upstream_http_NAME, or a map of such: neither empty nor 0). Without it 2xx and 3xx pass.",
        Set::Simple(health::match_block)
    ),
    row!(
        "ntlm",
        UPSTREAM,
        Arity::NONE,
        D::Nothing,
        Definition,
        false,
        "Not supported: connections are never bound to a client.",
        Set::Simple(|_, d| {
            Err(Diag::emerg(d.span, "the \"ntlm\" directive is not supported").help(
                "NTLM authenticates connections, not requests; use a scheme that authenticates requests",
            ))
        })
    ),
];

/// Sets the balancing method; another one before it is worth a warning.
fn method(cx: &mut Cx<'_, '_>, d: &Directive, method: Method) -> Result<(), Diag> {
    if draft(cx).method.replace(method).is_some() {
        cx.warn(Diag::warn(d.span, "load balancing method redefined"));
    }
    Ok(())
}

fn hash(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let key = Arc::new(cx.template(d.arg(0))?);
    let consistent = match d.args.get(1) {
        None => false,
        Some(token) if token.bytes() == b"consistent" => true,
        Some(token) => return Err(invalid_parameter(token)),
    };
    method(cx, d, Method::Hash { consistent })?;
    draft(cx).key = Some(key);
    Ok(())
}

fn least_time(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let inflight = match d.args.get(1) {
        None => false,
        Some(token) if token.bytes() == b"inflight" => true,
        Some(token) => return Err(invalid_parameter(token)),
    };
    let last_byte = last_byte(d.arg(0))?;
    method(cx, d, Method::LeastTime(LeastTime { last_byte, inflight }))
}

fn last_byte(token: &Token) -> Result<bool, Diag> {
    value::choice(token, &[("header", false), ("last_byte", true)])
}

fn random(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let two = match d.args.as_slice() {
        [] => None,
        [two, rest @ ..] if two.bytes() == b"two" => Some(match rest {
            [] => Measure::Connections,
            [token, ..] => match token.str() {
                "least_conn" => Measure::Connections,
                "least_time=header" => Measure::Time(LeastTime { last_byte: false, inflight: false }),
                "least_time=last_byte" => Measure::Time(LeastTime { last_byte: true, inflight: false }),
                _ => return Err(invalid_parameter(token)),
            },
        }),
        [token, ..] => return Err(invalid_parameter(token)),
    };
    method(cx, d, Method::Random { two })
}

fn queue(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let max = value::number(d.arg(0))?;
    let mut limit = Duration::from_mins(1);
    if let Some(token) = d.args.get(1) {
        let time = token.str().strip_prefix("timeout=").ok_or_else(|| invalid_parameter(token))?;
        let ms = value::parse_time(time.as_bytes(), false).ok_or_else(|| invalid_parameter(token))?;
        limit = Duration::from_millis(ms);
    }
    draft(cx).queue = Some((usize::try_from(max).unwrap_or(usize::MAX), limit));
    Ok(())
}

fn keepalive(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let token = d.arg(0);
    let max = value::number(token).map_err(|_| {
        Diag::emerg(token.span, format!("invalid value \"{}\" in \"keepalive\" directive", token.text()))
    })?;
    let local = match d.args.get(1) {
        None => false,
        Some(token) if token.bytes() == b"local" => true,
        Some(token) => return Err(invalid_parameter(token)),
    };
    draft(cx).keepalive = Some((usize::try_from(max).unwrap_or(usize::MAX), local));
    Ok(())
}
