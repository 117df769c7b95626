//! Ports that no other test uses.
//!
//! They lie outside the range that the kernel gives to clients, so that no connection of another test can sit on one.
//! A port is claimed, among all processes, by a socket name in the abstract namespace that vanishes with its owner.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketFlags, SocketType, bind, socket_with, sockopt};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::UnixDatagram;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below, programs of the machine listen.
const FIRST: u32 = 12_000;
const COUNT_MAX: u32 = 18_000;
const CLIENTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A port; ours until dropped. Nobody listens there unless its owner has somebody do so.
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
    static RANGE: OnceLock<Range<u32>> = OnceLock::new();
    let range = RANGE.get_or_init(|| outside(&std::fs::read_to_string(CLIENTS).unwrap_or_default()));
    let count = range.end - range.start;
    let start = std::process::id().wrapping_mul(61);
    for _ in 0..count {
        let number = range.start + start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % count;
        if let Some(port) = try_claim(number as u16) {
            return port;
        }
    }
    panic!("no free port of {range:?}");
}

/// A port on which nobody listens for as long as this process runs.
pub fn unused() -> u16 {
    let port = claim();
    let number = port.number;
    std::mem::forget(port);
    number
}

/// The longer one of the ranges below and above that of clients.
fn outside(clients: &str) -> Range<u32> {
    let mut bounds = clients.split_whitespace().map_while(|bound| bound.parse().ok());
    let (low, high): (u32, u32) = (bounds.next().unwrap_or(u32::MAX), bounds.next().unwrap_or(u32::MAX));
    let below = FIRST..low.clamp(FIRST, FIRST + COUNT_MAX);
    let above = high.saturating_add(1).max(FIRST)..1 << 16;
    match (below.len(), above.len()) {
        // Clients have them all: tests must share with them.
        (0, 0) => FIRST..FIRST + COUNT_MAX,
        (below_len, above_len) if below_len >= above_len => below,
        _ => above,
    }
}

fn try_claim(number: u16) -> Option<Port> {
    let name =
        std::os::unix::net::SocketAddr::from_abstract_name(format!("brisk-test-port-{number}")).ok()?;
    let claim = UnixDatagram::bind_addr(&name).ok()?;
    (!is_listened_on(number)).then_some(Port { number, _claim: claim })
}

/// Whether somebody listens, be it no test at all. `[::]` covers IPv4 too where there is IPv6.
fn is_listened_on(number: u16) -> bool {
    let probe = |family, address: SocketAddr| probe(family, &address.into());
    match probe(AddressFamily::INET6, (Ipv6Addr::UNSPECIFIED, number).into()) {
        Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) => {
            probe(AddressFamily::INET, (Ipv4Addr::UNSPECIFIED, number).into()).is_err()
        }
        result => result.is_err(),
    }
}

/// Binds a socket that does not listen. A child that another test starts meanwhile has a copy of it until it executes its program:
/// only a socket that listens would be in the way of the port's owner then (`SO_REUSEADDR`, which all servers set).
fn probe(family: AddressFamily, address: &SocketAddrAny) -> Result<(), Errno> {
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if family == AddressFamily::INET6 {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    bind(&socket, address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::children;
    use std::net::TcpListener;
    use std::process::Command;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn they_lie_outside_the_range_of_clients() {
        for (clients, wanted) in [
            ("32768\t60999\n", 12_000..30_000),
            ("20000 60999", 12_000..20_000),
            ("15000 30000", 30_001..65_536),
            ("1024 50000", 50_001..65_536),
            ("1024 65535", 12_000..30_000),
            ("", 12_000..30_000),
        ] {
            assert_eq!(outside(clients), wanted, "{clients:?}");
        }
    }

    /// Children that other tests start hold copies of all descriptors for a moment.
    #[test]
    fn a_claimed_port_is_free_while_children_are_started() {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        children::output(&mut Command::new("true")).expect("a program that does nothing");
                    }
                });
            }
            let ports: Vec<Port> = (0..500).map(|_| claim()).collect();
            let results: Vec<_> = (0..500)
                .map(|_| {
                    let port = claim();
                    TcpListener::bind(("127.0.0.1", port.number)).map(drop)
                })
                .collect();
            is_over.store(true, Ordering::Relaxed);
            drop(ports);
            for result in results {
                result.expect("a claimed port is free");
            }
        });
    }

    #[test]
    fn what_is_listened_on_is_not_claimed() {
        for address in ["127.0.0.1", "0.0.0.0", "::1", "::"] {
            let port = claim();
            assert!(!is_listened_on(port.number), "{address}");
            let Ok(listener) = TcpListener::bind((address, port.number)) else {
                assert!(address.contains(':'), "a machine without IPv6");
                continue;
            };
            assert!(is_listened_on(port.number), "{address}");
            drop(listener);
        }
    }
}
