//! Checks over HTTP/2: of what `proxy_http_version 2` asks, and of gRPC services by the gRPC Health Checking Protocol.

use super::ask::{Answer, Ask, Until, exchange};
use super::check::Grpc;
use crate::limits::ANSWER_BYTES_MAX;
use brisk_net::Stream;
use brisk_upstream::http2::{Http2, Question, RequestHead};

/// Asks for the check's URI.
pub(super) async fn get(io: &Stream, ask: &Ask<'_>, until: Until) -> Result<Answer, String> {
    let head = head(ask, b"GET", ask.check.uri.as_bytes());
    exchange(io, &mut codec(head, true), &[], until).await
}

/// Asks a gRPC server how it, or one service of it, is.
pub(super) async fn grpc(io: &Stream, ask: &Ask<'_>, wanted: &Grpc) -> Result<(), String> {
    let mut head = head(ask, b"POST", b"/grpc.health.v1.Health/Check");
    head.field(b"content-type", b"application/grpc");
    head.field(b"te", b"trailers");
    let answer = exchange(io, &mut codec(head, false), &question(&wanted.service), Until::End).await?;
    let status = answer.trailers.iter().find(|(name, _)| name == b"grpc-status").map(|(_, value)| &**value);
    let status = status.or_else(|| answer.head.named(b"grpc-status").next());
    let status: u32 = status
        .and_then(|text| std::str::from_utf8(text).ok()?.parse().ok())
        .ok_or_else(|| format!("no gRPC status, HTTP status {}", answer.head.status))?;
    if status != wanted.status {
        return Err(format!("gRPC status {status}"));
    }
    if status == 0 && !is_serving(&answer.body) {
        return Err("the service is not serving".into());
    }
    Ok(())
}

fn head(ask: &Ask<'_>, method: &[u8], path: &[u8]) -> RequestHead {
    let is_host = |name: &[u8]| name.eq_ignore_ascii_case(b"host");
    let headers = &ask.passes.headers;
    let own = headers.iter().find(|(name, value)| is_host(name) && !value.is_empty());
    let host = own.map_or(&ask.passes.host, |(_, value)| value);
    let mut head = RequestHead::new(method, ask.passes.tls.is_some(), path, host);
    for (name, value) in headers.iter().filter(|(name, value)| !is_host(name) && !value.is_empty()) {
        head.field(name, value);
    }
    head
}

/// A `HealthCheckRequest` as a gRPC message: not compressed, its length, field 1 with the service's name.
fn question(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(0x0a);
        let mut length = service.len();
        while length > 0x7f {
            message.push(length as u8 | 0x80);
            length >>= 7;
        }
        message.push(length as u8);
        message.extend_from_slice(service.as_bytes());
    }
    [&[0], &(message.len() as u32).to_be_bytes()[..], &message].concat()
}

/// Whether a `HealthCheckResponse` has SERVING in its field 1.
fn is_serving(body: &[u8]) -> bool {
    matches!(body.get(5..), Some([0x08, 0x01, ..]))
}

fn codec(head: RequestHead, is_bodiless: bool) -> Http2 {
    Http2::new(Question { head, is_bodiless, is_head: false, head_bytes_max: ANSWER_BYTES_MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wire format of grpc.health.v1.
    #[test]
    fn messages() {
        assert_eq!(question(""), [0, 0, 0, 0, 0]);
        assert_eq!(question("a.B"), b"\0\0\0\0\x05\x0a\x03a.B");
        assert_eq!(question(&"x".repeat(200))[..8], *b"\0\0\0\0\xcb\x0a\xc8\x01");
        assert!(
            is_serving(b"\0\0\0\0\x02\x08\x01") && !is_serving(b"\0\0\0\0\x02\x08\x02") && !is_serving(b"")
        );
    }
}
