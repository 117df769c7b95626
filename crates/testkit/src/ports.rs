//! Ports that no other test uses.
//!
//! They lie below the range that the kernel gives to clients, so that no connection of another test can sit on one.
//! A port is claimed, among all processes, by a socket name in the abstract namespace that vanishes with its owner.

use std::net::{Ipv6Addr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 12_000;
const COUNT: u32 = 18_000;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A port; ours until dropped.
#[derive(Debug)]
pub struct Port {
    /// Its number.
    pub number: u16,
    _claim: UnixDatagram,
}

/// Claims a free port.
///
/// # Panics
/// If none of them is free.
pub fn claim() -> Port {
    let start = std::process::id().wrapping_mul(61);
    for _ in 0..COUNT {
        let number = FIRST + start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        if let Some(port) = try_claim(number as u16) {
            return port;
        }
    }
    panic!("no free port from {FIRST} on");
}

fn try_claim(number: u16) -> Option<Port> {
    let name = SocketAddr::from_abstract_name(format!("brisk-test-port-{number}")).ok()?;
    let claim = UnixDatagram::bind_addr(&name).ok()?;
    // Whatever else runs on this machine must not listen there either; [::] covers IPv4 too where there is IPv6.
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, number))
        .or_else(|_| TcpListener::bind(("0.0.0.0", number)))
        .ok()?;
    Some(Port { number, _claim: claim })
}
