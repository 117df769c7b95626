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
    if exchange.codec.is_tunnel() {
        let times = (settings.read_timeout, settings.send_timeout);
        let tunnel = Tunnel::new(exchange, r.lend_connection(), times, Witness::of(r));
        let body = Body::Stream(Box::new(tunnel));
        return Fetched { head, length: None, body, unbuffered: true, tunnel: true };
    }
    let length = exchange.codec.length();
    let unbuffered = is_unbuffered(settings, &head);
    let mut first = Vec::new();
    while let Some(got) = exchange.ready_event() {
        match got {
            Got::Data(bytes) if first.is_empty() => first = bytes,
            Got::Data(bytes) => first.extend_from_slice(&bytes),
            Got::Log(level, text) => {
                if r.logs(level) {
                    r.log(level, format_args!("{} while reading upstream", String::from_utf8_lossy(&text)));
                }
            }
            Got::Trailers(fields) => drop(request.state.trailers.replace(fields)),
            Got::Interim(_) | Got::Head(_) => {}
            Got::End => {
                exchange.complete();
                let body = if first.is_empty() { Body::Empty } else { Body::bytes(first) };
                return Fetched { head, length, body, unbuffered, tunnel: false };
            }
        }
    }
    let body = Incoming::new(Begin {
        exchange,
        first,
        limits: SpoolLimits {
            memory_bytes_max: settings.memory_bytes_max(),
            file_bytes_max: settings.file_bytes_max(),
            write_bytes: settings.file_write_bytes(),
            place: settings.temp_path(&r.snap().state_folder),
        },
        ahead: !unbuffered,
        rate: Rate::new(settings.rate(r)),
        client: request.watches_client().then(|| r.client.watch()),
        witness: Witness::of(r),
        charge: r.account().map(|account| account.hold(0)),
    });
    Fetched { head, length, body: Body::Stream(Box::new(body)), unbuffered, tunnel: false }
}

/// `*_buffering`, which the back end may overrule.
fn is_unbuffered(settings: &Settings, head: &BackendHead) -> bool {
    let ignores = settings.ignores(ignored::X_ACCEL_BUFFERING);
    match head.get(HeaderId::XAccelBuffering).filter(|_| !ignores) {
        Some(value) if value.eq_ignore_ascii_case(b"no") => true,
        Some(value) if value.eq_ignore_ascii_case(b"yes") => false,
        _ => !settings.buffering,
    }
}
