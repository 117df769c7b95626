//! Directives of `upstream` blocks.

use super::conf::{Conf, draft};
use super::draft::{Draft, parse_zone};
use super::health;
use super::server::{self, Server};
use super::sticky::Sticky;
use crate::db::{self, Kind};
use crate::stream::part::{BLOCKS, is_in_stream};
use brisk_balance::{Endpoint, LeastTime, Measure, Method, ServerSpec, Until};
use brisk_conf::{Arity, Context, Diag, Directive, Risk, value};
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::core::resolver;
use brisk_server::directive::directive;
use brisk_server::module::Row;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

const UPSTREAM: Context = Context::UPSTREAM;
/// For groups of either kind.
const EITHER: Context = Context::UPSTREAM.or(Context::STREAM_UPSTREAM);

pub(super) static ROWS: &[Row] = &[
    directive("upstream")
        .doc("A group of servers that requests are passed to by its name. Its state (connections, failures, weights) is the process's, exact over all threads.")
        .in_(Context::HTTP.or(Context::STREAM))
        .arity(Arity::ONE.block())
        .takes("NAME")
        .many()
        .definition()
        .example("upstream app { server 127.0.0.1:8001; server 127.0.0.1:8002 backup; }")
        .set(upstream),
    directive("server")
        .doc("An address (host, with a port if it is not 80, or unix:PATH) and parameters: weight=, max_conns=, max_fails= (1), fail_timeout= (10s), slow_start=, backup, down, drain, route=, resolve, service=; for databases in stream role=primary, which of several equal nodes takes the writes first. A name that has no address at the start is asked for again; meanwhile its requests get 502.")
        .in_(EITHER)
        .arity(Arity::SOME)
        .takes("ADDRESS [weight=NUMBER] [max_conns=NUMBER] [max_fails=NUMBER] [fail_timeout=TIME] [slow_start=TIME] [backup] [down] [drain] [route=TEXT] [resolve] [service=NAME] [role=primary]")
        .many()
        .definition()
        .example("server 127.0.0.1:8001 weight=2 max_fails=3;")
        .set(server),
    // The size is nginx's, which keeps the state in shared memory; here it is the process's own.
    directive("zone")
        .doc("Keeps the group's state (failures, connections, looked-up addresses) under this name when the configuration is loaded again.")
        .in_(EITHER)
        .arity(Arity::between(1, 2))
        .takes("NAME [SIZE]")
        .many()
        .definition()
        .example("zone app 64k;")
        .set(|cx, d| {
            let zone = parse_zone(&d.args)?;
            draft(cx).zone = Some(zone);
            Ok(())
        }),
    // For groups that are changed by the API: a restart finds them as they were.
    directive("state")
        .doc("A file that holds the group's servers in place of \"server\" directives; changes that are made through the API are written to it.")
        .in_(EITHER)
        .takes("FILE")
        .definition()
        .example("state /var/lib/brisk/app.state;")
        .set(|cx, d| {
            draft(cx).state = Some(d.arg(0).clone());
            Ok(())
        }),
    // Without `consistent` one server more or less moves nearly all keys, which empties the caches behind.
    directive("hash")
        .doc("Chooses the server by a key. consistent: ketama, so that a server more or less moves few keys.")
        .in_(EITHER)
        .arity(Arity::between(1, 2))
        .takes("KEY [consistent]")
        .many()
        .definition()
        .example("hash $request_uri consistent;")
        .set(hash),
    // Not the last byte of IPv4, as in nginx: clients of one network whose addresses change stay with their server.
    directive("ip_hash")
        .doc("Chooses the server by the client's address: by the first three bytes of IPv4, all of IPv6.")
        .in_(UPSTREAM)
        .arity(Arity::NONE)
        .many()
        .definition()
        .example("ip_hash;")
        .set(|cx, d| method(cx, d, Method::IpHash)),
    directive("least_conn")
        .doc("Chooses the server with the fewest connections for its weight.")
        .in_(EITHER)
        .arity(Arity::NONE)
        .many()
        .definition()
        .example("least_conn;")
        .set(|cx, d| method(cx, d, Method::LeastConn)),
    // nginx Plus's. Its averages are the process's, over all threads.
    directive("least_time")
        .doc("Chooses the server with the shortest average time to the header or to the last_byte and the fewest connections; inflight counts unanswered requests too. In stream: to the connection, the first_byte or the last_byte.")
        .in_(EITHER)
        .arity(Arity::between(1, 2))
        .takes("header | last_byte | connect | first_byte [inflight]")
        .definition()
        .example("least_time header;")
        .set(least_time),
    // With `two`, servers that choose at the same time by old numbers do not all choose the same one.
    directive("random")
        .doc("Draws a server by weight. two: draws two and takes the one with fewer connections (least_conn), or the quicker one (least_time=header, least_time=last_byte; in stream least_time=connect, first_byte, last_byte).")
        .in_(EITHER)
        .arity(Arity::between(0, 2))
        .takes("[two [least_conn | least_time=header | least_time=last_byte | least_time=connect | least_time=first_byte]]")
        .many()
        .definition()
        .example("random two least_conn;")
        .set(random),
    directive("sticky")
        .doc("Keeps a session with its server: cookie NAME [expires=] [domain=] [path=] [httponly] [secure] [samesite=]; route $VARIABLE …; learn create=$VARIABLE lookup=$VARIABLE zone=NAME:SIZE [timeout=] [header].")
        .in_(UPSTREAM)
        .arity(Arity::at_least(2))
        .takes("cookie NAME [expires=TIME] [domain=DOMAIN] [path=PATH] [httponly] [secure] [samesite=strict|lax|none] | route $VARIABLE ... | learn create=$VARIABLE lookup=$VARIABLE zone=NAME:SIZE [timeout=TIME] [header]")
        .definition()
        .example("sticky cookie srv expires=1h path=/;")
        .set(sticky),
    // Bounded in number and time: a request that waits holds memory.
    directive("queue")
        .doc("How many requests may wait for a server when none can take one, and how long (timeout=60s); beyond that they get 502.")
        .in_(UPSTREAM)
        .arity(Arity::between(1, 2))
        .takes("NUMBER [timeout=TIME]")
        .definition()
        .risk(Risk::Resource)
        .example("queue 100 timeout=30s;")
        .set(queue),
    // For the process and not per worker process: a number that was written for many processes would keep many times as many.
    directive("keepalive")
        .doc("Idle connections to the group's servers that the whole process keeps; 0: none. local: a location uses no other location's connections.")
        .in_(UPSTREAM)
        .arity(Arity::between(1, 2))
        .takes("NUMBER [local]")
        .default_told("32 local")
        .definition()
        .risk(Risk::Resource)
        .example("keepalive 32;")
        .set(keepalive),
    // Connections end now and then, so that what servers keep per connection does not grow for ever.
    directive("keepalive_requests")
        .doc("Requests that one connection to a server carries before it is closed.")
        .in_(UPSTREAM)
        .takes_number()
        .unit("requests")
        .default_told("1000")
        .definition()
        .risk(Risk::Safe)
        .example("keepalive_requests 10000;")
        .sets(|cx, count| draft(cx).keepalive_requests = count),
    // An hour, as in nginx: a name's new address, or a changed configuration of the back end, is met by then.
    directive("keepalive_time")
        .doc("How old a connection to a server may become.")
        .in_(UPSTREAM)
        .takes_time()
        .default_told("1h")
        .definition()
        .risk(Risk::Safe)
        .example("keepalive_time 1h;")
        .sets(|cx, time| draft(cx).keepalive_time = time),
    directive("keepalive_timeout")
        .doc("How long a connection to a server may be idle.")
        .in_(UPSTREAM)
        .takes_time()
        .default_told("60s")
        .definition()
        .risk(Risk::Resource)
        .example("keepalive_timeout 60s;")
        .sets(|cx, time| draft(cx).keepalive_timeout = time),
    // Of the group's own: its names may be known to an inner name server only.
    directive("resolver")
        .doc("Name servers for this group's names, in place of those of http.")
        .in_(EITHER)
        .arity(Arity::SOME)
        .takes("ADDRESS[:PORT] ... [valid=TIME] [ipv4=on|off] [ipv6=on|off]")
        .definition()
        .risk(Risk::Security)
        .example("resolver 127.0.0.53 valid=30s;")
        .set(|cx, d| {
            let own = resolver::parse(cx, &d.args)?;
            draft(cx).resolver = Some(own);
            Ok(())
        }),
    directive("resolver_timeout")
        .doc("How long a name of this group may take to be looked up.")
        .in_(EITHER)
        .takes_time()
        .definition()
        .example("resolver_timeout 5s;")
        .sets(|cx, time| draft(cx).resolver_timeout = Some(time)),
    directive("health_check")
        .doc("Checks each server of the group that the location passes to: interval=5s, jitter=, fails=1, passes=1, uri=/, match=NAME, port=, mandatory [persistent]. Servers that fail get no requests until they pass. The question is an HTTP/1.0 GET with the location's time-outs and constant headers.")
        .in_(Context::LOCATION)
        .arity(Arity::ANY)
        .takes("[interval=TIME] [jitter=TIME] [fails=NUMBER] [passes=NUMBER] [uri=URI] [match=NAME] [port=NUMBER] [mandatory [persistent]]")
        .not_inherited()
        .example("health_check interval=10s fails=2 uri=/health;")
        .set(health::set),
    directive("health_check")
        .doc("Checks each server of the group that the server of stream passes to: interval=5s, jitter=, fails=1, passes=1, match=NAME, port=, udp, mandatory [persistent]. Servers that fail get no sessions until they pass. Without match it is enough that a connection is made (with proxy_ssl: TLS, too); with udp, that a datagram is not refused.")
        .in_(Context::STREAM_SERVER)
        .arity(Arity::ANY)
        .takes("[interval=TIME] [jitter=TIME] [fails=NUMBER] [passes=NUMBER] [match=NAME] [port=NUMBER] [udp] [mandatory [persistent]]")
        .not_inherited()
        .example("health_check interval=10s fails=2;")
        .set(health::session::set),
    // Shorter than `proxy_timeout`, since a check has nothing else to wait for.
    directive("health_check_timeout")
        .doc("How long a server may take to answer a health check of stream as its match wants.")
        .in_(BLOCKS)
        .takes_time()
        .default("5s")
        .example("health_check_timeout 2s;")
        .sets(|cx, time| cx.conf::<Conf>().session_check_timeout = time),
    directive("match")
        .doc("What a health check of stream sends, and what the answer must be like: send TEXT; expect TEXT (its first bytes) or expect ~ REGEX (~*: whatever their case). \\xHH in a text is a byte.")
        .in_(Context::STREAM)
        .arity(Arity::ONE.block())
        .takes("NAME")
        .many()
        .definition()
        .example("match redis { send PING\\x0d\\x0a; expect +PONG; }")
        .set(health::talk_block),
    directive("mysql_check")
        .doc("The servers are MySQL or MariaDB: each is asked for its role (read_only, replication, GTID, Galera). One that takes writes and follows nobody is the primary, whatever the configuration says; two of them, and nobody is written to. password_file: the password, mode 0600. lag=10s: a replica that is further behind gets no reads. interval=1s, timeout=2s, fails=2, passes=1. ssl: only over TLS, whose certificate is not checked; ssl=FILE: and must be signed by one of these authorities. Sessions go to the server that target_session_attrs says.")
        .in_(Context::STREAM_UPSTREAM)
        .arity(Arity::at_least(2))
        .takes("user=NAME password_file=FILE [lag=TIME] [interval=TIME] [timeout=TIME] [fails=NUMBER] [passes=NUMBER] [ssl[=FILE]]")
        .definition()
        .risk(Risk::Security)
        .example("mysql_check user=probe password_file=/etc/brisk/probe.pw lag=2s;")
        .set(|cx, d| database(cx, d, Kind::MySql)),
    directive("pgsql_check")
        .doc("The servers are PostgreSQL: each is asked whether it is in recovery, and how far it has come. The parameters are those of mysql_check, and database=postgres. Passwords are proved by SCRAM-SHA-256 or MD5.")
        .in_(Context::STREAM_UPSTREAM)
        .arity(Arity::at_least(2))
        .takes("user=NAME password_file=FILE [database=NAME] [lag=TIME] [interval=TIME] [timeout=TIME] [fails=NUMBER] [passes=NUMBER] [ssl[=FILE]]")
        .definition()
        .risk(Risk::Security)
        .example("pgsql_check user=probe password_file=/etc/brisk/probe.pw lag=2s;")
        .set(|cx, d| database(cx, d, Kind::PgSql)),
    directive("match")
        .doc("What the answer to a health check must be like: status [!] CODE …, header [!] NAME, header NAME =|!=|~|!~ VALUE, body ~|!~ REGEX, require $VARIABLE … (of the answer, as $upstream_http_NAME, or a map of such: neither empty nor 0). Without it 2xx and 3xx pass.")
        .in_(Context::HTTP)
        .arity(Arity::ONE.block())
        .takes("NAME")
        .many()
        .definition()
        .example("match ready { status 200; body ~ \"ok\"; }")
        .set(health::match_block),
    // An error and no notice: it binds a client to a connection, and without that one user's login would serve another's requests.
    directive("ntlm")
        .doc("Not supported: connections are never bound to a client.")
        .in_(UPSTREAM)
        .arity(Arity::NONE)
        .definition()
        .risk(Risk::Safe)
        .example("ntlm;")
        .set(|_, d| {
            Err(Diag::emerg(d.span, "the \"ntlm\" directive is not supported").help(
                "NTLM authenticates connections, not requests; use a scheme that authenticates requests",
            ))
        }),
];

/// `upstream NAME { … }`: carried out in its place among the simple directives.
fn upstream(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let name = d.arg(0).str().to_string();
    let same = |draft: &Draft| draft.name.eq_ignore_ascii_case(&name);
    if cx.conf::<Conf>().drafts.iter().any(same) {
        return Err(Diag::emerg(d.arg(0).span, format!("duplicate upstream \"{name}\""))
            .help("give each upstream a name of its own; case does not count"));
    }
    // A draft: what directives of the block say is put together when it ends.
    cx.conf::<Conf>().drafts.push(Draft::new(name, d.arg(0).span));
    // The block is carried out here and not when all others are: `proxy_pass` further down must find its group.
    let inner = if cx.block == Context::STREAM { Context::STREAM_UPSTREAM } else { Context::UPSTREAM };
    let outer = std::mem::replace(&mut cx.block, inner);
    cx.block_here(d);
    cx.block = outer;
    let draft = draft(cx);
    if draft.servers.is_empty() && draft.state.is_none() {
        return Err(Diag::emerg(d.span, "no servers are inside upstream").help("write: server ADDRESS;"));
    }
    Ok(())
}

/// `server ADDRESS [PARAMETER …];`
fn server(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    // nginx's order: the method stands above the servers, whose parameters depend on it.
    let method = draft(cx).method.unwrap_or_default();
    let (server, result) = match server::read(cx, d, method) {
        Ok(server) => (server, Ok(())),
        // One error is enough: that the block has no servers would follow from it.
        Err(error) => {
            // It is never asked: the configuration is refused.
            let endpoints = vec![Endpoint::Ip(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), 1))];
            let spec = ServerSpec::new(d.arg(0).str(), endpoints);
            (Server { spec, unknown: None, port: 1, is_primary: false }, Err(error))
        }
    };
    draft(cx).servers.push(server);
    result
}

/// `mysql_check` and `pgsql_check`.
fn database(cx: &mut Cx<'_, '_>, d: &Directive, kind: Kind) -> Result<(), Diag> {
    if draft(cx).database.is_some() {
        return Err(Diag::emerg(d.span, "the servers of an upstream are of one kind")
            .help("keep one of mysql_check and pgsql_check"));
    }
    let check = db::Check::read(cx, d, kind)?;
    draft(cx).database = Some(Arc::new(check));
    Ok(())
}

fn sticky(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    if draft(cx).sticky.is_some() {
        return Err(Diag::reason(d.name.span, "is duplicate"));
    }
    draft(cx).sticky = Some(Sticky::read(cx, d)?);
    Ok(())
}

/// Sets the balancing method; another one before it is worth a warning.
fn method(cx: &mut Cx<'_, '_>, d: &Directive, method: Method) -> Result<(), Diag> {
    // The last one counts, as in nginx.
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
    let until = value::choice(d.arg(0), until(cx))?;
    method(cx, d, Method::LeastTime(LeastTime { until, inflight }))
}

/// The times that there are: a session of `stream` has no header.
fn until(cx: &Cx<'_, '_>) -> &'static [(&'static str, Until)] {
    if is_in_stream(cx.block) {
        &[("connect", Until::Connected), ("first_byte", Until::FirstByte), ("last_byte", Until::LastByte)]
    } else {
        &[("header", Until::FirstByte), ("last_byte", Until::LastByte)]
    }
}

fn random(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let two = match d.args.as_slice() {
        [] => None,
        [two, rest @ ..] if two.bytes() == b"two" => Some(match rest {
            [] => Measure::Connections,
            [token, ..] if token.str() == "least_conn" => Measure::Connections,
            [token, ..] => {
                let named = token.str().strip_prefix("least_time=");
                let found = named.and_then(|name| until(cx).iter().find(|(known, _)| *known == name));
                let Some((_, until)) = found else { return Err(invalid_parameter(token)) };
                Measure::Time(LeastTime { until: *until, inflight: false })
            }
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
