//! One check: connect, ask, look at the answer. HTTP/1.0, so that the body is what it is, or HTTP/2 if that is spoken.

use super::{Check, http2};
use brisk_balance::Endpoint;
use brisk_http::head::Parsed;
use brisk_http::response::{ResponseHead, parse_response};
use brisk_net::connect::{Destination, Options, finish, start};
use brisk_net::{Stream, timeout};
use brisk_upstream::backend::Passes;

/// An answer's head and as much of its body as `match` looks at.
pub(super) const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// Whom to ask, and how.
pub(super) struct Ask<'a> {
    pub endpoint: Endpoint,
    pub passes: &'a Passes,
    pub check: &'a Check,
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
            return judge(ask.check, &answer);
        }
        io.write_all(&request(ask)).await.map_err(|error| format!("send() failed ({error})"))?;
        answer(&io, ask.check).await
    };
    timeout(passes.read_timeout, asked).await.map_err(|_| "the answer timed out".to_string())?
}

/// Judges a whole answer.
fn judge(check: &Check, bytes: &[u8]) -> Result<(), String> {
    let mut head = ResponseHead::default();
    match parse_response(bytes, &mut head) {
        Ok(Parsed::Complete) => {}
        _ => return Err("the answer is broken".into()),
    }
    let body = &bytes[head.len..];
    check.wanted.check(bytes, &head, body).map_err(|what| format!("{what} does not match"))
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

async fn answer(io: &Stream, check: &Check) -> Result<(), String> {
    let (mut bytes, mut head) = (Vec::new(), ResponseHead::default());
    let mut is_over = false;
    loop {
        let parsed =
            parse_response(&bytes, &mut head).map_err(|error| format!("the answer is broken ({error})"))?;
        let is_head = matches!(parsed, Parsed::Complete);
        if is_head && (100..200).contains(&head.status) {
            bytes.drain(..head.len);
            head = ResponseHead::default();
            continue;
        }
        let has_enough = is_over || !check.wanted.looks_at_body() || bytes.len() >= ANSWER_BYTES_MAX;
        if is_head && has_enough {
            let body = &bytes[head.len..];
            return check.wanted.check(&bytes, &head, body).map_err(|what| format!("{what} does not match"));
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
