//! Checks over HTTP/2: of what `proxy_http_version 2` asks, and of gRPC services by the gRPC Health Checking Protocol.

use super::check::Grpc;
use super::probe::{ANSWER_BYTES_MAX, Ask};
use brisk_http::limits::INTERIM_RESPONSES_MAX;
use brisk_net::Stream;
use brisk_upstream::codec::{Codec as _, Event};
use brisk_upstream::head::BackendHead;
use brisk_upstream::http2::{Http2, Question, RequestHead};

/// A whole answer.
#[derive(Default)]
struct Answer {
    head: BackendHead,
    body: Vec<u8>,
    trailers: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Asks for the check's URI. The answer is given as HTTP/1.1 has it, for `match`.
pub(super) async fn get(io: &Stream, ask: &Ask<'_>) -> Result<Vec<u8>, String> {
    let answer = exchange(io, head(ask, b"GET", ask.check.uri.as_bytes()), &[]).await?;
    let mut out = format!("HTTP/1.1 {:03} \r\n", answer.head.status).into_bytes();
    for field in answer.head.fields() {
        brisk_http::field::write_field(field.name, field.value, &mut out);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&answer.body);
    Ok(out)
}

/// Asks a gRPC server how it, or one service of it, is.
pub(super) async fn grpc(io: &Stream, ask: &Ask<'_>, wanted: &Grpc) -> Result<(), String> {
    let mut head = head(ask, b"POST", b"/grpc.health.v1.Health/Check");
    head.field(b"content-type", b"application/grpc");
    head.field(b"te", b"trailers");
    let answer = exchange(io, head, &question(&wanted.service)).await?;
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

async fn exchange(io: &Stream, head: RequestHead, body: &[u8]) -> Result<Answer, String> {
    let question =
        Question { head, is_bodiless: body.is_empty(), is_head: false, head_bytes_max: ANSWER_BYTES_MAX };
    let (mut codec, mut out) = (Http2::new(question), Vec::new());
    codec.begin(&mut out);
    codec.body(body, &mut out);
    codec.end(&mut out);
    let (mut answer, mut rest) = (Answer::default(), Vec::new());
    let mut interim_responses = 0;
    let mut piece = vec![0; 16 * 1024];
    loop {
        io.write_all(&out).await.map_err(|error| format!("send() failed ({error})"))?;
        out.clear();
        let count = io.read(&mut piece).await.map_err(|error| format!("recv() failed ({error})"))?;
        if count == 0 {
            return Err("the connection was closed before the answer was complete".into());
        }
        rest.extend_from_slice(&piece[..count]);
        let mut at = 0;
        loop {
            let input = &rest[at..];
            let step = codec.read(input, &mut out).map_err(|failure| failure.text().to_string())?;
            match step.event {
                Event::NeedMore => {
                    at += step.used;
                    break;
                }
                Event::Head(head) => answer.head = head,
                Event::Data(range) => answer.body.extend_from_slice(&input[range]),
                Event::Trailers(fields) => answer.trailers = fields,
                Event::End => return Ok(answer),
                Event::Interim(_) => {
                    interim_responses += 1;
                    if interim_responses > INTERIM_RESPONSES_MAX {
                        return Err("there are too many interim responses".into());
                    }
                }
                Event::Log(..) => {}
            }
            at += step.used;
            if answer.body.len() > ANSWER_BYTES_MAX {
                return Ok(answer);
            }
        }
        rest.drain(..at);
    }
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
