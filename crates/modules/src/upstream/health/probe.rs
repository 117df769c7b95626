//! One check: connect, ask, look at the answer. HTTP/1.0, so that servers close the connection, or HTTP/2 if that is spoken.

use super::ask::{Answer, Ask, Until, exchange};
use super::http2;
use brisk_balance::Endpoint;
use brisk_http::response::RequestKind;
use brisk_net::connect::{Destination, Options, finish, start};
use brisk_net::{Stream, timeout};
use brisk_server::request::Request;
use brisk_server::service;
use brisk_upstream::http1::{Http1, Shape};
use brisk_upstream::state::State;
use std::io;
use std::sync::Arc;

/// Asks; the error says why the server is not well.
pub(super) async fn probe(ask: &Ask<'_>) -> Result<(), String> {
    let passes = ask.passes;
    let to = match &ask.endpoint {
        Endpoint::Ip(address) => Destination::Ip(*address),
        Endpoint::Unix(path) => Destination::Unix(path),
    };
    let failed = |error: brisk_net::connect::ConnectError| {
        format!("{}() failed ({})", error.call, brisk_conf::os_text(&error.error))
    };
    // Without `*_bind` and other options of requests: they may depend on variables, and here is no request.
    let io = start(to, &Options::default()).map_err(failed)?;
    timeout(passes.connect_timeout, io.writable()).await.map_err(|_| "connect timed out".to_string())?;
    finish(&io).map_err(failed)?;
    let io = match &passes.tls {
        None => Stream::from(io),
        Some(tls) => {
            let session = Stream::connect_tls(io, &tls.context, &tls.identity.name, tls.identity.send_name);
            let made = timeout(passes.connect_timeout, session).await;
            made.map_err(|_| "the TLS handshake timed out".to_string())?.map_err(|error| error.to_string())?
        }
    };
    // A body that is not looked at is not read: a check of a large page costs its head.
    let until = if ask.check.wanted.looks_at_body() { Until::End } else { Until::Head };
    let asked = async {
        if let Some(wanted) = &ask.check.grpc {
            return http2::grpc(&io, ask, wanted).await;
        }
        let answer = if passes.is_http2 {
            http2::get(&io, ask, until).await?
        } else {
            let shape = Shape { kind: RequestKind::Other, chunked: false, upgrade: false };
            exchange(&io, &mut Http1::new(request(ask), shape), &[], until).await?
        };
        judge(ask, answer)
    };
    // One limit for the whole exchange: a server that sends byte by byte is not well.
    timeout(passes.read_timeout, asked).await.map_err(|_| "the answer timed out".to_string())?
}

/// Judges an answer, or as much of it as is looked at.
fn judge(ask: &Ask<'_>, answer: Answer) -> Result<(), String> {
    let wanted = &ask.check.wanted;
    wanted.check(&answer.head, &answer.body).map_err(|what| format!("{what} does not match"))?;
    if !wanted.requires() {
        return Ok(());
    }
    let r = answered(ask, answer).map_err(|error| format!("there are no variables ({error})"))?;
    wanted.check_variables(&r).map_err(|name| format!("{name} is empty or 0"))
}

/// The check as a request that has been answered, for its variables.
fn answered(ask: &Ask<'_>, answer: Answer) -> io::Result<Box<Request>> {
    let mut r = service::request(&ask.check.uri, &ask.passes.host)?;
    let scheme = if ask.passes.tls.is_some() { "https://" } else { "http://" };
    let state = State::begin(&mut r, scheme, ask.check.uri.as_bytes().into());
    state.choose(ask.peer);
    let Answer { head, body, .. } = answer;
    state.note(|attempt| {
        attempt.status = head.status;
        attempt.received = (head.len() + body.len()) as u64;
        attempt.length = body.len() as u64;
    });
    r.resp.status = head.status;
    state.set_head(Arc::new(head));
    Ok(r)
}

fn request(ask: &Ask<'_>) -> Vec<u8> {
    let mut out = format!("GET {} HTTP/1.0\r\n", ask.check.uri).into_bytes();
    let mut field = |name: &[u8], value: &[u8]| {
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    };
    let headers = &ask.passes.headers;
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(b"host")) {
        field(b"Host", &ask.passes.host);
    }
    for (name, value) in headers.iter().filter(|(name, value)| {
        !value.is_empty()
            && !name.eq_ignore_ascii_case(b"connection")
            && !name.eq_ignore_ascii_case(b"upgrade")
    }) {
        field(name, value);
    }
    field(b"Connection", b"close");
    out.extend_from_slice(b"\r\n");
    out
}
