//! One check: connect, ask, look at the answer. HTTP/1.0, so that servers close the connection, or HTTP/2 if that is spoken.

use super::ask::{Answer, Ask, Until, exchange};
use super::check::Check;
use super::dial::dial;
use super::http2;
use super::pace::Asks;
use brisk_balance::{Endpoint, PeerInfo};
use brisk_http::response::RequestKind;
use brisk_net::timeout;
use brisk_server::request::Request;
use brisk_server::service;
use brisk_upstream::backend::Passes;
use brisk_upstream::http1::{Http1, Shape};
use brisk_upstream::state::State;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

/// A location's question, which is the same for all servers.
pub(super) struct Probes {
    pub check: Arc<Check>,
    pub passes: Arc<Passes>,
}

impl Asks for Probes {
    fn ask<'a>(
        &'a self,
        endpoint: Endpoint,
        peer: &'a Arc<PeerInfo>,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + 'a>> {
        let Probes { check, passes } = self;
        Box::pin(async move { probe(&Ask { endpoint, passes, check, peer }).await })
    }
}

/// Asks; the error says why the server is not well.
async fn probe(ask: &Ask<'_>) -> Result<(), String> {
    let passes = ask.passes;
    let io = dial(&ask.endpoint, passes.tls.as_ref(), passes.connect_timeout).await?;
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
