//! From a parsed head to a request that can enter the phases.
//!
//! It knows no sockets and answers nothing: it finds the server and the location in which a request begins, or the
//! status with which it fails. HTTP/2 uses the same functions for its heads.

use crate::conf::ids::{ListenId, ServerId};
use crate::conf::snapshot::Snapshot;
use crate::connection::Connection;
use crate::live::Live;
use crate::logged::finish;
use crate::purity::Dependencies;
use crate::regex::MatchError;
use crate::request::Request;
use crate::request::client::Carrier;
use crate::request::reply::Persistence;
use crate::shared::Ongoing;
use crate::tls::admit;
use brisk_http::framing::{ConnectionOptions, connection_options, request_framing, validate_host};
use brisk_http::uri::{TargetForm, UriOptions, parse_target};
use brisk_http::{HeadError, HeadOptions, HeaderId, Method, Version, parse_request};
use brisk_net::clock;
use std::rc::Rc;

/// Binds a fresh request to its connection and to the default server of its socket.
pub fn begin(r: &mut Request, conn: &Rc<Connection>, listen: ListenId) {
    let live = r.live.clone();
    // A failure from here on is logged and answered by a location's rules. Until the host is known they are those of
    // the default server's root.
    r.route.server = default_server(&live, listen, conn);
    r.route.loc = live.snap.server(r.route.server).root;
    r.client.carrier = Some(Carrier::Connection(conn.clone()));
    r.progress.started = clock::now();
    // Also of a request that is refused: a client cannot have more requests than allowed by sending bad ones.
    conn.requests.set(conn.requests.get() + 1);
    conn.generation.set(live.generation);
    r.thread.counters().requests.up();
    r.client.ongoing = Some(Ongoing::new(&r.thread.seat, |counters| &counters.writing));
}

/// Fills in what follows from the head. The error is the status to answer with; it has been logged.
pub fn complete(r: &mut Request, listen: ListenId) -> Result<(), u16> {
    r.route.method = r.head.parsed.method;
    // The bound is the connection's: what its other requests hold leaves less room for this one.
    // 494 is nginx's own: too large a head, which is answered as a 400.
    if r.head_bytes() > r.conn().head_room() {
        crate::rlog!(r, Info, "client sent a header that would occupy {} bytes", r.head_bytes());
        return Err(494);
    }
    // RFC 9112 §6.3: a body whose length is in doubt is refused. A proxy in front may have read another length, and
    // what it took for the body would be the next request here.
    r.head.framing = match request_framing(&r.head.buf, &r.head.parsed) {
        Ok(framing) => framing,
        Err(error) => {
            // The line comes before the header: its error would have been reported first.
            // A wrong target is the earlier fault, and decides which server's log and page are used.
            target(r, listen)?;
            crate::rlog!(r, Info, "{error}");
            return Err(error.status());
        }
    };
    // Before the checks below: limits, logs and error pages are those of the chosen server.
    target(r, listen)?;
    if r.head.parsed.version == Version::Http09 && !r.core().allow_http09 {
        crate::rlog!(r, Info, "client sent HTTP/0.9 request while reading client request line");
        // An answer with a status line, though HTTP/0.9 has none: a client that speaks something else should
        // see why.
        answer_with_head(r);
        return Err(400);
    }
    reread_header(r, listen)?;
    // Certificates are judged by the chosen server's rules, so a Host header cannot lead around `ssl_verify_client`.
    admit::admit(r)?;
    // They are dropped and not refused, as in nginx; the log says which, since an application may miss them.
    for ignored in &r.head.parsed.ignored {
        crate::rlog!(
            r,
            Info,
            "client sent invalid header line: \"{}\"",
            String::from_utf8_lossy(ignored.of(&r.head.buf))
        );
    }
    // CONNECT asks for a tunnel to any host (RFC 9110 §9.3.6), which only a proxy gives. TRACE (§9.3.8) would show
    // scripts the cookies of the request. nginx refuses both.
    if r.route.method == Method::Connect || r.route.method == Method::Trace {
        crate::rlog!(
            r,
            Info,
            "client sent {} method",
            String::from_utf8_lossy(r.head.parsed.method_name.of(&r.head.buf))
        );
        return Err(405);
    }
    // Only now: a request that is refused up to here ends its connection.
    r.reply.persistence = if wants_keepalive(r) { Persistence::KeepAlive } else { Persistence::Close };
    Ok(())
}

/// The header was read by the rules of the socket's default server. What a field's name may be is for the chosen
/// server to say, as in nginx (framing and host do not hang on it: their names are always valid).
fn reread_header(r: &mut Request, listen: ListenId) -> Result<(), u16> {
    let options = &r.live.head_options[listen.0 as usize];
    let core = &r.live.snap.location(r.route.loc).core;
    let (ignore_invalid_headers, underscores_in_headers) =
        // The default server's rules parsed it. If the chosen one has the same, nothing is done twice.
        (core.ignore_invalid_headers, core.underscores_in_headers);
    if (ignore_invalid_headers, underscores_in_headers)
        == (options.ignore_invalid_headers, options.underscores_in_headers)
    {
        return Ok(());
    }
    let options = HeadOptions { ignore_invalid_headers, underscores_in_headers, ..*options };
    parse_request(&r.head.buf, &options, &mut r.head.parsed).map(|_| ()).map_err(|error| {
        crate::rlog!(r, Info, "{error}");
        error.status()
    })
}

/// Target and host; chooses the server.
pub fn target(r: &mut Request, listen: ListenId) -> Result<(), u16> {
    // The host decides which server's rules hold; a host in the target comes before the header (RFC 9112 §3.2.2).
    let raw = r.head.parsed.target.of(&r.head.buf);
    let form = match (r.head.parsed.method, r.head.parsed.version) {
        (Method::Connect, _) => TargetForm::Authority,
        // RFC 9113 §8.3.1: `:path`.
        (_, Version::Http2 | Version::Http3) => TargetForm::Origin,
        _ => TargetForm::Any,
    };
    // RFC 9112 §3.2.4: the asterisk-form is for OPTIONS only.
    let asterisk = r.head.parsed.method == Method::Options;
    // The default server's rule: the target may name the host, so it is parsed before the server is known. It is
    // parsed again below if the chosen server's rule is another one.
    let options = UriOptions { merge_slashes: r.core().merge_slashes, form, asterisk };
    if let Err(error) = parse_target(raw, options, &mut r.head.target) {
        crate::rlog!(r, Info, "{error} while reading client request line");
        answer_with_head(r);
        return Err(400);
    }
    let host_value = match (r.head.target.host, r.head.parsed.find(HeaderId::Host)) {
        (Some(span), _) => Some(span.of(raw)),
        (None, Some(header)) => Some(header.value.of(&r.head.buf)),
        (None, None) => None,
    };
    // A Host header must be valid even where the target's host counts.
    if let (Some(_), Some(header)) = (r.head.target.host, r.head.parsed.find(HeaderId::Host))
        && validate_host(header.value.of(&r.head.buf)).is_err()
    {
        crate::rlog!(r, Info, "client sent invalid host header");
        return Err(400);
    }
    // Host names are compared in lower case and without a dot at the end (`validate_host`).
    if let Some(value) = host_value {
        match validate_host(value) {
            Ok(host) => {
                r.head.host.extend_from_slice(&host.name);
                r.head.port = host.port;
            }
            Err(_) => {
                let place = if r.head.target.host.is_some() { "in request line" } else { "header" };
                crate::rlog!(r, Info, "client sent invalid host {place}");
                return Err(400);
            }
        }
    }
    let live = r.live.clone();
    if !live.snap.listen(listen).by_local.is_empty() {
        // Who answers depends on the address that was connected to.
        r.depends_on(Dependencies::CONNECTION);
    }
    r.route.server = select(&live.snap, r, listen).map_err(|_| 500u16)?;
    r.route.loc = live.snap.server(r.route.server).root;
    // A request for a host that the certificate of this connection does not cover is 421 (RFC 9110 §15.5.20).
    admit::misdirected(r)?;
    if r.core().merge_slashes != options.merge_slashes {
        let options = UriOptions { merge_slashes: r.core().merge_slashes, form, asterisk };
        if parse_target(r.head.parsed.target.of(&r.head.buf), options, &mut r.head.target).is_err() {
            return Err(400);
        }
    }
    r.route.uri.extend_from_slice(&r.head.target.path);
    // A decoded `?` or `#` must not become a delimiter when the path is made part of a URI again.
    r.route.has_decoded_delimiter = has_delimiter(&r.route.uri);
    r.route.args.extend_from_slice(r.head.target.args.of(r.head.parsed.target.of(&r.head.buf)));
    Ok(())
}

/// Whether a decoded path has what would end a path that is not.
pub fn has_delimiter(path: &[u8]) -> bool {
    memchr::memchr2(b'?', b'#', path).is_some()
}

/// Logs why a head was refused and gives the status.
/// The server is chosen by what was good, so that the line and the error page are those of the site that was
/// meant.
pub fn refused(r: &mut Request, listen: ListenId, error: &HeadError) -> u16 {
    let is_header = matches!(
        error,
        HeadError::HeaderTooLarge(_) | HeadError::TooManyHeaders | HeadError::InvalidHeader(_)
    );
    // What stands above the line at fault was good, or that would be the error.
    if is_header && let Err(status) = recognise(r, listen) {
        return status;
    }
    crate::rlog!(r, Info, "{error}");
    answer_with_head(r);
    // The rest of a head that was too large is still on its way.
    r.conn().sends.set(matches!(
        error,
        HeadError::UriTooLong | HeadError::HeaderTooLarge(_) | HeadError::TooManyHeaders
    ));
    error.status()
}

/// A request whose line was not understood, or is of a version that is not spoken here, is answered with a status line: what
/// else the client would make of the bytes cannot be known.
fn answer_with_head(r: &mut Request) {
    if r.head.parsed.version == Version::Http09 {
        r.head.parsed.version = Version::Http10;
    }
}

/// `client_header_timeout`: `r` has what came of a head. It is logged as 408 and gets no answer, as in nginx.
pub fn timed_out(r: Box<Request>, conn: &Rc<Connection>) -> Option<Box<Request>> {
    let r = cut_short(r, conn, 408)?;
    crate::rlog!(
        r,
        Info,
        "client timed out ({}: Connection timed out) while reading client request headers",
        110
    );
    finish(&r);
    Some(r)
}

/// The client has gone in the middle of a head, of which `r` has what came.
pub fn gone(r: Box<Request>, conn: &Rc<Connection>) {
    let Some(r) = cut_short(r, conn, 400) else { return };
    crate::rlog!(r, Info, "client prematurely closed connection while reading client request headers");
    finish(&r);
}

/// A head has broken its connection: that is all of an answer that the client gets. `r` has what came of it. Why is logged for the connection.
pub fn broken(r: Box<Request>, conn: &Rc<Connection>) {
    if let Some(r) = cut_short(r, conn, 400) {
        finish(&r);
    }
}

/// A request whose head will not come as a whole, for the log: nginx has a line for a request that never was one. `None`: a reload has taken the socket
/// away, so no server's log is meant.
fn cut_short(mut r: Box<Request>, conn: &Rc<Connection>, status: u16) -> Option<Box<Request>> {
    let listen = conn.listener.id.get()?;
    begin(&mut r, conn, listen);
    // For its log line only: a target at fault changes nothing any more.
    let _ = recognise(&mut r, listen);
    r.resp.status = status;
    Some(r)
}

/// Takes target and host from a head that is not complete: whose logs and error pages are meant is known as soon as
/// the `Host` line is there.
pub fn recognise(r: &mut Request, listen: ListenId) -> Result<(), u16> {
    r.route.method = r.head.parsed.method;
    if r.head.parsed.has_request_line() { target(r, listen) } else { Ok(()) }
}

fn wants_keepalive(r: &Request) -> bool {
    let mut options = ConnectionOptions::default();
    for header in r.head.parsed.all(HeaderId::Connection) {
        options = options.merge(connection_options(header.value.of(&r.head.buf)));
    }
    // Below HTTP/1.0 only the end of the connection ends a response, whatever a field says.
    // HTTP/0.9 has no way to tell the length of a response.
    options.is_persistent(r.head.parsed.version) && r.head.parsed.version >= Version::Http10
}

/// Until a host is known it is the one of the TLS handshake, if there was one.
fn default_server(live: &Live, listen: ListenId, conn: &Connection) -> ServerId {
    // A reload in between may have given the number to another server: then the address alone decides.
    if let Some(facts) = conn.secure.get()
        && facts.generation == live.generation
    {
        return facts.server;
    }
    let listen = live.snap.listen(listen);
    listen.local(|| conn.local()).map_or(listen.default_server, |local| local.default_server)
}

fn select(snap: &Snapshot, r: &Request, listen: ListenId) -> Result<ServerId, MatchError> {
    let listen = snap.listen(listen);
    let (names, default) = match listen.local(|| r.conn().local()) {
        Some(local) => (&local.names, local.default_server),
        None => (&listen.names, listen.default_server),
    };
    // One server on the socket: names are not compared, and an unknown host is answered, too, as in nginx.
    if names.is_empty() {
        return Ok(default);
    }
    // An expression that failed has chosen nobody, so the caller answers 500. The default server might have
    // other rules.
    Ok(names.find(r, &r.head.host)?.unwrap_or(default))
}
