//! One check: connect, ask, look at the answer. HTTP/1.0, so that the body is what it is, or HTTP/2 if that is spoken.

use super::check::Check;
use super::http2;
pub(super) use crate::limits::ANSWER_BYTES_MAX;
use brisk_balance::{Endpoint, PeerInfo};
use brisk_http::head::Parsed;
use brisk_http::limits::INTERIM_RESPONSES_MAX;
use brisk_http::response::{ResponseHead, parse_response};
use brisk_net::connect::{Destination, Options, finish, start};
use brisk_net::{Stream, timeout};
use brisk_server::request::Request;
use brisk_server::service;
use brisk_upstream::backend::Passes;
use brisk_upstream::head::BackendHead;
use brisk_upstream::state::State;
use std::io;
use std::sync::Arc;

/// Whom to ask, and how.
pub(super) struct Ask<'a> {
    pub endpoint: Endpoint,
    pub passes: &'a Passes,
    pub check: &'a Check,
    /// Who is asked: variables tell of it.
    pub peer: &'a Arc<PeerInfo>,
}

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
    let io = start(to, &Options::default()).map_err(failed)?;
    timeout(passes.connect_timeout, io.writable()).await.map_err(|_| "connect timed out".to_string())?;
    finish(&io).map_err(failed)?;
    let io = match &passes.tls {
        None => Stream::from(io),
        Some(tls) => {
            let session = Stream::connect_tls(io, &tls.context, &tls.name, tls.send_name);
            let made = timeout(passes.connect_timeout, session).await;
            made.map_err(|_| "the TLS handshake timed out".to_string())?.map_err(|error| error.to_string())?
        }
    };
    let asked = async {
        if let Some(wanted) = &ask.check.grpc {
            return http2::grpc(&io, ask, wanted).await;
        }
        if passes.is_http2 {
            let answer = http2::get(&io, ask).await?;
            return whole(ask, &answer);
        }
        io.write_all(&request(ask)).await.map_err(|error| format!("send() failed ({error})"))?;
        answer(&io, ask).await
    };
    timeout(passes.read_timeout, asked).await.map_err(|_| "the answer timed out".to_string())?
}

/// Judges a whole answer.
fn whole(ask: &Ask<'_>, bytes: &[u8]) -> Result<(), String> {
    let mut head = ResponseHead::default();
    match parse_response(bytes, &mut head) {
        Ok(Parsed::Complete) => judge(ask, bytes, head),
        _ => Err("the answer is broken".into()),
    }
}

/// Judges an answer, or as much of it as is looked at.
fn judge(ask: &Ask<'_>, bytes: &[u8], head: ResponseHead) -> Result<(), String> {
    let wanted = &ask.check.wanted;
    let body = &bytes[head.len..];
    wanted.check(bytes, &head, body).map_err(|what| format!("{what} does not match"))?;
    if !wanted.requires() {
        return Ok(());
    }
    let r = answered(ask, bytes, head).map_err(|error| format!("there are no variables ({error})"))?;
    wanted.check_variables(&r).map_err(|name| format!("{name} is empty or 0"))
}

/// The check as a request that has been answered, for its variables.
fn answered(ask: &Ask<'_>, bytes: &[u8], head: ResponseHead) -> io::Result<Box<Request>> {
    let mut r = service::request(&ask.check.uri, &ask.passes.host)?;
    let scheme = if ask.passes.tls.is_some() { "https://" } else { "http://" };
    let state = State::begin(&mut r, scheme, ask.check.uri.as_bytes().into());
    state.choose(ask.peer);
    state.note(|attempt| {
        attempt.status = head.status;
        attempt.received = bytes.len() as u64;
        attempt.length = (bytes.len() - head.len) as u64;
    });
    r.resp.status = head.status;
    state.set_head(Arc::new(BackendHead::from_response(bytes, head)));
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

async fn answer(io: &Stream, ask: &Ask<'_>) -> Result<(), String> {
    let (mut bytes, mut head) = (Vec::new(), ResponseHead::default());
    let mut is_over = false;
    let mut interim_responses = 0;
    loop {
        let parsed =
            parse_response(&bytes, &mut head).map_err(|error| format!("the answer is broken ({error})"))?;
        let is_head = matches!(parsed, Parsed::Complete);
        if is_head && (100..200).contains(&head.status) {
            interim_responses += 1;
            if interim_responses > INTERIM_RESPONSES_MAX {
                return Err("there are too many interim responses".into());
            }
            bytes.drain(..head.len);
            head = ResponseHead::default();
            continue;
        }
        let has_enough = is_over || !ask.check.wanted.looks_at_body() || bytes.len() >= ANSWER_BYTES_MAX;
        if is_head && has_enough {
            return judge(ask, &bytes, head);
        }
        if is_over {
            return Err("the connection was closed before the answer was complete".into());
        }
        if !is_head && bytes.len() >= ANSWER_BYTES_MAX {
            return Err("the answer's head is too large".into());
        }
        let start = bytes.len();
        bytes.resize((start + 16 * 1024).min(ANSWER_BYTES_MAX), 0);
        let count = io.read(&mut bytes[start..]).await.map_err(|error| format!("recv() failed ({error})"))?;
        bytes.truncate(start + count);
        is_over = count == 0;
    }
}
