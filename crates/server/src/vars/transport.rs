//! Variables of the connection: addresses, what a PROXY header has told, what the kernel measures.
//!
//! Addresses are the client's as modules have found it out (`realip`); what a PROXY header says is given as it
//! was said, whether it is believed or not.

use super::builtin::{number, put};
use crate::request::Request;
use brisk_host::peer::Peer;
use brisk_http::Version;
use brisk_net::sys::TcpInfo;
use std::net::IpAddr;

type Out = Vec<u8>;

pub(super) fn binary_remote_addr(r: &Request, out: &mut Out) -> bool {
    match r.client_addr().ip() {
        Some(IpAddr::V4(ip)) => put(out, &ip.octets()),
        Some(IpAddr::V6(ip)) => put(out, &ip.octets()),
        // All clients of a unix socket are one: a limit by this key counts them together.
        None => put(out, b"unix:"),
    }
}

pub(super) fn remote_port(r: &Request, out: &mut Out) -> bool {
    match r.client_addr() {
        Peer::Ip(addr) => port(out, addr.port()),
        Peer::Unix => true,
    }
}

pub(super) fn server_addr(r: &Request, out: &mut Out) -> bool {
    match r.local_addr() {
        Some(addr) => put(out, addr.ip().to_string().as_bytes()),
        // A unix socket's own address is where it listens, as nginx shows it.
        None => put(out, r.conn().listener.address.to_string().as_bytes()),
    }
}

pub(super) fn server_port(r: &Request, out: &mut Out) -> bool {
    r.local_port().is_none_or(|number| port(out, number))
}

/// Port 0 is shown as nothing.
fn port(out: &mut Out, port: u16) -> bool {
    port == 0 || number(out, u64::from(port))
}

pub(super) fn proxy_addr(r: &Request, out: &mut Out) -> bool {
    r.proxy_header().is_some_and(|header| put(out, header.source.ip().to_string().as_bytes()))
}

pub(super) fn proxy_port(r: &Request, out: &mut Out) -> bool {
    r.proxy_header().is_some_and(|header| port(out, header.source.port()))
}

pub(super) fn proxy_server_addr(r: &Request, out: &mut Out) -> bool {
    r.proxy_header().is_some_and(|header| put(out, header.destination.ip().to_string().as_bytes()))
}

pub(super) fn proxy_server_port(r: &Request, out: &mut Out) -> bool {
    r.proxy_header().is_some_and(|header| port(out, header.destination.port()))
}

pub(super) fn proxy_tlv(r: &Request, name: &str, out: &mut Out) -> bool {
    let Some(header) = r.proxy_header() else { return false };
    match header.tlv(name) {
        Ok(value) => value.is_some_and(|value| put(out, &value)),
        Err(error) => {
            crate::rlog!(r, Error, "{error}");
            false
        }
    }
}

/// Over TLS it was negotiated; without, the client has begun with it or asked for it.
pub(super) fn http2(r: &Request, out: &mut Out) -> bool {
    // Empty and not missing otherwise, as in nginx: a test of it is false, and no message says that it is not set.
    r.version() != Version::Http2 || put(out, if r.scheme() == "https" { b"h2" } else { b"h2c" })
}

/// By what the handshake has agreed on.
pub(super) fn http3(r: &Request, out: &mut Out) -> bool {
    r.version() != Version::Http3 || put(out, b"h3")
}

/// Answers are kept for each version of the protocol apart, and no other comes over QUIC.
pub(super) fn quic(r: &Request, out: &mut Out) -> bool {
    r.version() != Version::Http3 || put(out, b"quic")
}

pub(super) fn tcp_info(r: &Request, out: &mut Out, pick: fn(&TcpInfo) -> u32) -> bool {
    // One system call per variable: the numbers change from call to call, and few use more than one.
    r.conn().io.tcp_info().is_ok_and(|info| number(out, u64::from(pick(&info))))
}
