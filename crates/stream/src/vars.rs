//! The variables of sessions.

use crate::session::{Attempt, Session};
use brisk_host::peer::Peer;
use brisk_host::vars::{Reads, Variable, VariableGet, values};
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

type Out = Vec<u8>;

const fn fixed(
    name: &'static str,
    get: fn(&Session, &mut Out) -> bool,
    doc: &'static str,
) -> Variable<Session> {
    Variable { name, get: VariableGet::Fixed(get), set: None, reads: Reads::Anything, doc }
}

/// Rows of the variables.
pub static VARIABLES: &[Variable<Session>] = &[
    fixed("binary_remote_addr", binary_remote_addr, "The client's address in binary form: 4 or 16 bytes."),
    fixed("bytes_received", |s, out| number(out, s.received_bytes.get()), "Bytes received from the client."),
    fixed("bytes_sent", |s, out| number(out, s.sent_bytes.get()), "Bytes sent to the client."),
    fixed("connection", |s, out| number(out, s.origin.id), "The connection's serial number."),
    fixed("hostname", |s, out| put(out, s.live.snap.hostname.as_bytes()), "This machine's name."),
    fixed("msec", |_, out| values::msec(out), "The present time in seconds with milliseconds."),
    fixed(
        "nginx_version",
        |_, out| put(out, env!("CARGO_PKG_VERSION").as_bytes()),
        "The version of this server.",
    ),
    fixed("pid", |_, out| values::pid(out), "The worker's process id."),
    fixed("protocol", |s, out| put(out, if s.origin.is_udp { b"UDP" } else { b"TCP" }), "TCP or UDP."),
    fixed("proxy_protocol_addr", |_, _| false, "Nothing: PROXY headers are not read in stream yet."),
    fixed("proxy_protocol_port", |_, _| false, "Nothing: PROXY headers are not read in stream yet."),
    fixed("remote_addr", |s, out| put(out, s.origin.client.to_string().as_bytes()), "The client's address."),
    fixed("remote_port", remote_port, "The client's port."),
    fixed("server_addr", server_addr, "The address that the client has reached."),
    fixed("server_port", server_port, "The port that the client has reached."),
    fixed(
        "session_time",
        |s, out| values::seconds(out, s.age_ms()),
        "Age of the session in seconds with milliseconds.",
    ),
    fixed("status", status, "200, 400, 403, 500, 502 or 503: how the session ended."),
    fixed("time_iso8601", |_, out| values::time_iso8601(out), "Local time as 2026-11-20T22:46:01+00:00."),
    fixed("time_local", |_, out| values::time_local(out), "Local time as 20/Nov/2026:22:46:01 +0000."),
    fixed(
        "upstream_addr",
        |s, out| listed(s, out, |attempt, out| put(out, attempt.peer.as_bytes())),
        "The address of each server that was tried.",
    ),
    fixed(
        "upstream_bytes_received",
        |s, out| listed(s, out, |attempt, out| number(out, attempt.received_bytes)),
        "Bytes received from each server.",
    ),
    fixed(
        "upstream_bytes_sent",
        |s, out| listed(s, out, |attempt, out| number(out, attempt.sent_bytes)),
        "Bytes sent to each server.",
    ),
    fixed(
        "upstream_connect_time",
        |s, out| listed(s, out, |attempt, out| time(out, attempt.connect_ms)),
        "Seconds that connecting to each server took.",
    ),
    fixed(
        "upstream_first_byte_time",
        |s, out| listed(s, out, |attempt, out| time(out, attempt.first_byte_ms)),
        "Seconds until each server sent its first byte.",
    ),
    fixed(
        "upstream_session_time",
        |s, out| listed(s, out, |attempt, out| time(out, attempt.session_ms)),
        "Seconds that the session with each server lasted.",
    ),
];

fn put(out: &mut Out, value: &[u8]) -> bool {
    out.extend_from_slice(value);
    true
}

fn number(out: &mut Out, value: u64) -> bool {
    // Writing to memory does not fail.
    let _ = write!(out, "{value}");
    true
}

/// A time of an attempt; `-` for what it did not come to.
fn time(out: &mut Out, ms: Option<u64>) -> bool {
    match ms {
        Some(ms) => values::seconds(out, ms),
        None => put(out, b"-"),
    }
}

/// A value per attempt, as nginx separates them. Without an attempt there is none.
fn listed(s: &Session, out: &mut Out, one: fn(&Attempt, &mut Out) -> bool) -> bool {
    let attempts = s.attempts.borrow();
    for (at, attempt) in attempts.iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(b", ");
        }
        one(attempt, out);
    }
    !attempts.is_empty()
}

fn binary_remote_addr(s: &Session, out: &mut Out) -> bool {
    match s.origin.client.ip() {
        Some(IpAddr::V4(ip)) => put(out, &ip.octets()),
        Some(IpAddr::V6(ip)) => put(out, &ip.octets()),
        None => put(out, b"unix:"),
    }
}

fn remote_port(s: &Session, out: &mut Out) -> bool {
    match s.origin.client {
        Peer::Ip(addr) => number(out, u64::from(addr.port())),
        Peer::Unix => true,
    }
}

fn server_addr(s: &Session, out: &mut Out) -> bool {
    match s.origin.local {
        Some(addr) => put(out, addr.ip().to_string().as_bytes()),
        None => put(out, s.origin.listener.address.to_string().as_bytes()),
    }
}

fn server_port(s: &Session, out: &mut Out) -> bool {
    s.origin.local.is_none_or(|addr: SocketAddr| number(out, u64::from(addr.port())))
}

fn status(s: &Session, out: &mut Out) -> bool {
    let _ = write!(out, "{:03}", s.status.get());
    true
}
