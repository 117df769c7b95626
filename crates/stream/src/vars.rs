//! The variables of sessions.

use crate::session::{Attempt, Session};
use brisk_host::log::LogLevel;
use brisk_host::peer::Peer;
use brisk_host::vars::{Context as _, Reads, Variable, VariableGet, values};
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
    fixed(
        "proxy_protocol_addr",
        |s, out| s.header.get().is_some_and(|header| address(out, header.source)),
        "The client's address as the PROXY header tells it.",
    ),
    fixed(
        "proxy_protocol_port",
        |s, out| s.header.get().is_some_and(|header| number(out, header.source.port().into())),
        "The client's port as the PROXY header tells it.",
    ),
    fixed(
        "proxy_protocol_server_addr",
        |s, out| s.header.get().is_some_and(|header| address(out, header.destination)),
        "The address that the client connected to, as the PROXY header tells it.",
    ),
    fixed(
        "proxy_protocol_server_port",
        |s, out| s.header.get().is_some_and(|header| number(out, header.destination.port().into())),
        "The port that the client connected to, as the PROXY header tells it.",
    ),
    Variable {
        name: "proxy_protocol_tlv_*",
        get: VariableGet::Family(proxy_tlv),
        set: None,
        reads: Reads::Anything,
        doc: "A field of the PROXY header: alpn, authority, unique_id, netns, ssl, ssl_verify, ssl_version, ssl_cn, ssl_cipher, ssl_sig_alg, ssl_key_alg, or a type as 0xNN or ssl_0xNN.",
    },
    fixed(
        "realip_remote_addr",
        |s, out| put(out, s.origin.peer.to_string().as_bytes()),
        "The address that the connection comes from, whatever set_real_ip_from makes of it.",
    ),
    fixed(
        "realip_remote_port",
        |s, out| port(s.origin.peer, out),
        "The port that the connection comes from.",
    ),
    fixed("remote_addr", |s, out| put(out, s.client.get().to_string().as_bytes()), "The client's address."),
    fixed("remote_port", |s, out| port(s.client.get(), out), "The client's port."),
    fixed("server_addr", server_addr, "The address that the client has reached."),
    fixed("server_name", |s, out| put(out, &s.server().name), "The first name of the server."),
    fixed("server_port", server_port, "The port that the client has reached."),
    fixed(
        "session_time",
        |s, out| values::seconds(out, s.age_ms()),
        "Age of the session in seconds with milliseconds.",
    ),
    fixed(
        "ssl_preread_alpn_protocols",
        preread_alpn,
        "The protocols that the client offers by ALPN, with commas between them, where ssl_preread is on.",
    ),
    fixed(
        "ssl_preread_protocol",
        preread_protocol,
        "The highest version of TLS that the client offers, where ssl_preread is on.",
    ),
    fixed(
        "ssl_preread_server_name",
        |s, out| {
            s.hello
                .get()
                .and_then(|hello| hello.server_name.as_deref())
                .is_some_and(|name| put(out, name.as_bytes()))
        },
        "The name that the client wants to reach (SNI), where ssl_preread is on.",
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
    match s.client.get().ip() {
        Some(IpAddr::V4(ip)) => put(out, &ip.octets()),
        Some(IpAddr::V6(ip)) => put(out, &ip.octets()),
        None => put(out, b"unix:"),
    }
}

fn address(out: &mut Out, address: SocketAddr) -> bool {
    put(out, address.ip().to_string().as_bytes())
}

fn proxy_tlv(s: &Session, name: &str, out: &mut Out) -> bool {
    let Some(header) = s.header.get() else { return false };
    match header.tlv(name) {
        Ok(value) => value.is_some_and(|value| put(out, &value)),
        Err(error) => {
            s.log(LogLevel::Error, format_args!("{error}"));
            false
        }
    }
}

fn preread_alpn(s: &Session, out: &mut Out) -> bool {
    let Some(hello) = s.hello.get() else { return false };
    out.extend_from_slice(&hello.alpn.join(&b","[..]));
    true
}

/// The version that the client would speak: that of the extension, else that of the message.
fn preread_protocol(s: &Session, out: &mut Out) -> bool {
    let Some(hello) = s.hello.get() else { return false };
    // Of clients that try what servers make of unknown versions (RFC 8701) these are not meant.
    // Drafts of TLS 1.3 had numbers of their own (0x7f and the draft's).
    let known = |version: &&u16| matches!(**version, 0x0300..=0x0304 | 0x7f00..=0x7fff);
    let name: &[u8] = match hello.versions.iter().filter(known).max().unwrap_or(&hello.version) {
        0x0002 => b"SSLv2",
        0x0300 => b"SSLv3",
        0x0301 => b"TLSv1",
        0x0302 => b"TLSv1.1",
        0x0303 => b"TLSv1.2",
        0x0304 | 0x7f00..=0x7fff => b"TLSv1.3",
        _ => return false,
    };
    put(out, name)
}

fn port(of: Peer, out: &mut Out) -> bool {
    match of {
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
