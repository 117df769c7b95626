//! A connection to a collector: gRPC's unary calls (gRPC over HTTP/2), one after the other.

use super::block::{Draft, Place};
use crate::limits::{OTEL_ANSWER_BYTES_MAX, OTEL_CALL_TIME_MAX};
use brisk_net::connect::{ConnectError, Destination, Options, finish, start};
use brisk_net::{Io, Stream, timeout};
use brisk_otlp::span::PATH;
use brisk_otlp::wire::framed;
use brisk_upstream::codec::{Codec, Event};
use brisk_upstream::http2::{Http2, Question, RequestHead, Session};

/// See the module's head.
pub(super) struct Channel {
    io: Stream,
    session: Option<Box<Session>>,
}

/// Why a call has failed.
pub(super) struct Refused {
    pub why: String,
    /// A later attempt may succeed (OTLP: "Failures").
    pub is_passing: bool,
}

impl Refused {
    fn passing(why: String) -> Refused {
        Refused { why, is_passing: true }
    }
}

/// gRPC's codes after which OTLP has clients try again: CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, ABORTED, OUT_OF_RANGE,
/// UNAVAILABLE, DATA_LOSS.
const PASSING: [u32; 7] = [1, 4, 8, 10, 11, 14, 15];

async fn connect(to: Destination<'_>) -> Result<Io, String> {
    let failed =
        |error: ConnectError| format!("{}() failed ({})", error.call, brisk_conf::os_text(&error.error));
    let io = start(to, &Options::default()).map_err(failed)?;
    io.writable().await;
    finish(&io).map_err(failed)?;
    Ok(io)
}

/// The first address that takes a connection.
async fn reach(place: &Place) -> Result<Io, String> {
    match place {
        Place::Unix(path) => connect(Destination::Unix(path)).await,
        Place::Ip(all) => {
            let mut last = Err("its name has no address".to_string());
            for address in all {
                last = connect(Destination::Ip(*address)).await;
                if last.is_ok() {
                    break;
                }
            }
            last
        }
    }
}

impl Channel {
    /// A new connection.
    pub(super) async fn open(draft: &Draft) -> Result<Channel, Refused> {
        let opened = async {
            let io = reach(&draft.place).await?;
            let io = match &draft.tls {
                None => Stream::from(io),
                Some(context) => {
                    let name = draft.host.rsplit_once(':').map_or(&*draft.host, |(name, _)| name);
                    let name = name.trim_start_matches('[').trim_end_matches(']');
                    Stream::connect_tls(io, context, name, true).await.map_err(|error| error.to_string())?
                }
            };
            Ok::<Channel, String>(Channel { io, session: None })
        };
        match timeout(OTEL_CALL_TIME_MAX, opened).await {
            Ok(opened) => opened.map_err(Refused::passing),
            Err(_) => Err(Refused::passing("connect timed out".into())),
        }
    }

    /// Whether it has served a call and could serve another one.
    pub(super) fn is_used(&self) -> bool {
        self.session.is_some()
    }

    /// Sends a message; without an error the collector has it. After an error the channel must not be used again.
    pub(super) async fn export(&mut self, draft: &Draft, message: &[u8]) -> Result<(), Refused> {
        match timeout(OTEL_CALL_TIME_MAX, self.call(draft, &framed(message))).await {
            Ok(told) => told,
            Err(_) => Err(Refused::passing("the call timed out".into())),
        }
    }

    async fn call(&mut self, draft: &Draft, body: &[u8]) -> Result<(), Refused> {
        let mut head = RequestHead::new(b"POST", draft.tls.is_some(), PATH.as_bytes(), draft.host.as_bytes());
        head.field(b"content-type", b"application/grpc");
        head.field(b"te", b"trailers");
        head.field(b"user-agent", concat!("brisk/", env!("CARGO_PKG_VERSION")).as_bytes());
        draft.headers.iter().for_each(|(name, value)| head.field(name, value));
        let question =
            Question { head, is_bodiless: false, is_head: false, head_bytes_max: OTEL_ANSWER_BYTES_MAX };
        let mut codec = Http2::new(question);
        codec.adopt(self.session.take());
        let status = exchange(&self.io, &mut codec, body).await.map_err(Refused::passing)?;
        if codec.persists() {
            self.session = codec.release();
        }
        match status {
            Status::Grpc(0, _) => Ok(()),
            Status::Grpc(code, why) => {
                Err(Refused { why: format!("gRPC status {code} {why}"), is_passing: PASSING.contains(&code) })
            }
            Status::Http(code) => {
                let is_passing = matches!(code, 429 | 502..=504);
                Err(Refused { why: format!("no gRPC status, HTTP status {code}"), is_passing })
            }
        }
    }
}

enum Status {
    Grpc(u32, String),
    Http(u16),
}

fn grpc<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Option<Status> {
    let (mut code, mut why) = (None, String::new());
    for (name, value) in fields {
        match name {
            b"grpc-status" => code = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()),
            b"grpc-message" => why = String::from_utf8_lossy(value).into_owned(),
            _ => {}
        }
    }
    code.map(|code| Status::Grpc(code, why))
}

async fn exchange(io: &Stream, codec: &mut Http2, mut body: &[u8]) -> Result<Status, String> {
    let (mut out, mut rest, mut piece) = (Vec::new(), Vec::new(), vec![0; 16 * 1024]);
    codec.begin(&mut out);
    let (mut is_said, mut status, mut received) = (false, None, 0);
    loop {
        // As much as the collector takes for now.
        while !body.is_empty() && codec.room() > 0 {
            let (now, later) = body.split_at(codec.room().min(body.len()));
            codec.body(now, &mut out);
            body = later;
        }
        if body.is_empty() && !std::mem::replace(&mut is_said, true) {
            codec.end(&mut out);
        }
        io.write_all(&out).await.map_err(|error| format!("send() failed ({error})"))?;
        out.clear();
        let count = io.read(&mut piece).await.map_err(|error| format!("recv() failed ({error})"))?;
        if count == 0 {
            return Err("the collector has closed the connection".into());
        }
        received += count;
        if received > OTEL_ANSWER_BYTES_MAX {
            return Err("the collector's answer is too large".into());
        }
        rest.extend_from_slice(&piece[..count]);
        loop {
            let step = codec.read(&rest, &mut out).map_err(|failure| failure.text().to_string())?;
            match step.event {
                Event::NeedMore => {
                    rest.drain(..step.used);
                    break;
                }
                Event::End => {
                    // Frames about windows and settings that are still to be sent.
                    io.write_all(&out).await.map_err(|error| format!("send() failed ({error})"))?;
                    return status.ok_or_else(|| "the answer has no head".into());
                }
                Event::Head(head) => {
                    let told = grpc(head.fields().map(|field| (field.name, field.value)));
                    status = Some(told.unwrap_or(Status::Http(head.status)));
                }
                Event::Trailers(fields) => {
                    status = grpc(fields.iter().map(|(name, value)| (&**name, &**value))).or(status);
                }
                Event::Interim(_) | Event::Data(_) | Event::Log(..) => {}
            }
            rest.drain(..step.used);
        }
    }
}
