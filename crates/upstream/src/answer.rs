//! A response whose head has come, as it is handed on: with what has come of its body, and a stream for the rest.

use crate::body::{Begin, Incoming, Rate};
use crate::conf::Settings;
use crate::exchange::{Exchange, Got};
use crate::head::BackendHead;
use crate::origin::{Fetched, ignored};
use crate::protocol::Protocol;
use crate::request::UpstreamRequest;
use crate::spool::SpoolLimits;
use crate::tunnel::Tunnel;
use brisk_http::HeaderId;
use brisk_server::log::Witness;
use brisk_server::request::Request;
use brisk_server::response::Body;
use std::sync::Arc;

/// See the module's head.
pub(crate) fn of<P: Protocol>(
    request: &UpstreamRequest<P>,
    r: &mut Request,
    mut exchange: Box<Exchange>,
    head: Arc<BackendHead>,
) -> Fetched {
    let settings = request.settings();
    // First: behind a 101 there is no body, and the codec's idea of one would swallow the tunnel's first bytes.
    if exchange.codec.is_tunnel() {
        let times = (settings.read_timeout, settings.send_timeout);
        let tunnel = Tunnel::new(exchange, r.lend_connection(), times, Witness::of(r));
        let body = Body::Stream(Box::new(tunnel));
        return Fetched { head, length: None, body, unbuffered: true, tunnel: true };
    }
    // The back end's word, kept although the body may not be here yet: the client is told a length in place of chunks.
    let length = exchange.codec.length();
    let unbuffered = is_unbuffered(settings, &head);
    let mut first = Vec::new();
    // Taken without waiting. A short answer is whole by now: it needs no stream, no spool and no task that
    // pulls it.
    while let Some(got) = exchange.ready_event() {
        match got {
            // Most answers come in one read: its buffer becomes the body without a copy.
            Got::Data(bytes) if first.is_empty() => first = bytes,
            Got::Data(bytes) => first.extend_from_slice(&bytes),
            Got::Log(level, text) => {
                if r.logs(level) {
                    r.log(level, format_args!("{} while reading upstream", String::from_utf8_lossy(&text)));
                }
            }
            Got::Trailers(fields) => drop(request.state.trailers.replace(fields)),
            // A codec gives neither behind a final head.
            Got::Interim(_) | Got::Head(_) => {}
            Got::End => {
                // Before the client has its answer: the next request of this turn may use the connection already.
                exchange.complete();
                let body = if first.is_empty() { Body::Empty } else { Body::bytes(first) };
                return Fetched { head, length, body, unbuffered, tunnel: false };
            }
        }
    }
    // More is to come. From here on the body owns the exchange, so it may outlive the request: a cache or
    // `*_store` reads it to its end.
    let body = Incoming::new(Begin {
        exchange,
        first,
        limits: SpoolLimits {
            memory_bytes_max: settings.memory_bytes_max(),
            file_bytes_max: settings.file_bytes_max(),
            write_bytes: settings.file_write_bytes(),
            // A place, no file: one is made when memory does not suffice.
            place: settings.temp_path(&r.snap().state_folder),
        },
        ahead: !unbuffered,
        rate: Rate::new(settings.rate(r)),
        // The client's connection is not read while its response waits for the back end, so the body itself looks for its end.
        client: request.watches_client().then(|| r.client.watch()),
        witness: Witness::of(r),
        // Of the client's connection: bytes that wait for a client are memory that this client occupies.
        charge: r.account().map(|account| account.hold(0)),
    });
    Fetched { head, length, body: Body::Stream(Box::new(body)), unbuffered, tunnel: false }
}

/// `*_buffering`, which the back end may overrule.
fn is_unbuffered(settings: &Settings, head: &BackendHead) -> bool {
    // The back end's word counts unless it is told not to: only the application knows that it streams.
    let ignores = settings.ignores(ignored::X_ACCEL_BUFFERING);
    match head.get(HeaderId::XAccelBuffering).filter(|_| !ignores) {
        Some(value) if value.eq_ignore_ascii_case(b"no") => true,
        Some(value) if value.eq_ignore_ascii_case(b"yes") => false,
        // Any other word is none, as in nginx (ngx_http_upstream_process_buffering).
        _ => !settings.buffering,
    }
}
