//! Opening non-blocking connections.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::LazyLock;

use brisk_net::udp::prepare_client;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, ipproto, socket_with, sockopt,
};

use crate::plan::{Endpoint, Plan, Site, Version};
use crate::stats::ErrorKind;

/// What a connection that cannot be made is counted as.
pub fn kind_of(error: Errno) -> ErrorKind {
    match error {
        Errno::CONNREFUSED => ErrorKind::Refused,
        Errno::TIMEDOUT => ErrorKind::ConnectTimeout,
        _ => ErrorKind::Connect,
    }
}

/// The part of a source address's ports that connections take: others have some of them, and the kernel searches long for the last.
const PORTS_SHARE: f64 = 0.7;
/// Where it is not known how many ports there are: the range that Linux has by default.
const PORTS_USUAL: usize = 28_232;

/// How many connections one source address is good for, by the kernel's range of local ports.
static PER_SOURCE: LazyLock<usize> = LazyLock::new(|| per_source(&port_range()));

/// A socket on its way.
pub enum Dialled {
    /// Ready to be written to.
    Connected(OwnedFd),
    /// Writable once connected, or in error.
    Connecting(OwnedFd),
}

/// Opens a connection to `endpoint`, with the plan's buffers; `index` counts connections over all threads.
pub fn dial(plan: &Plan, endpoint: &Endpoint, index: usize) -> Result<Dialled, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    match endpoint {
        Endpoint::Tcp(address) if plan.version == Version::H3 => {
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let socket = socket_with(family, SocketType::DGRAM, flags, None)?;
            prepare_client(socket.as_fd(), address.is_ipv6(), plan.recv_buffer.is_none());
            set_buffers(&socket, plan)?;
            if let Some(source) = source_address(address, index, *PER_SOURCE) {
                bind(&socket, &source)?;
            }
            // So that an ICMP message about a closed port is heard.
            connect(&socket, address)?;
            Ok(Dialled::Connected(socket))
        }
        Endpoint::Tcp(address) => {
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
            sockopt::set_tcp_nodelay(&socket, true)?;
            set_buffers(&socket, plan)?;
            if address.ip().is_loopback() {
                // There is no congestion to control: take the cheapest way to do it, if allowed.
                let _ = sockopt::set_tcp_congestion(&socket, "reno");
            }
            if let Some(source) = source_address(address, index, *PER_SOURCE) {
                bind(&socket, &source)?;
            }
            let result = connect(&socket, address);
            finish(socket, result)
        }
        Endpoint::Unix(path) => {
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            set_buffers(&socket, plan)?;
            let result = connect(&socket, &SocketAddrUnix::new(path)?);
            finish(socket, result)
        }
    }
}

fn set_buffers(socket: &OwnedFd, plan: &Plan) -> Result<(), Errno> {
    if let Some(bytes) = plan.send_buffer {
        sockopt::set_socket_send_buffer_size(socket, bytes)?;
    }
    if let Some(bytes) = plan.recv_buffer {
        sockopt::set_socket_recv_buffer_size(socket, bytes)?;
    }
    Ok(())
}

fn finish(socket: OwnedFd, result: Result<(), Errno>) -> Result<Dialled, Errno> {
    match result {
        Ok(()) => Ok(Dialled::Connected(socket)),
        Err(Errno::INPROGRESS | Errno::INTR) => Ok(Dialled::Connecting(socket)),
        Err(error) => Err(error),
    }
}

/// Whether an address is this machine's: a socket can be bound to it.
pub fn is_local(endpoint: &Endpoint) -> bool {
    match endpoint {
        Endpoint::Tcp(address) => UdpSocket::bind((address.ip(), 0)).is_ok(),
        Endpoint::Unix(_) => true,
    }
}

/// An error if the kernel has fewer local ports than a server of the plan gets connections. IPv4's loopback has many
/// addresses, each with ports of its own; unix sockets have none.
pub fn enough_ports(plan: &Plan) -> io::Result<()> {
    let each = plan.connections.div_ceil(plan.sites.len());
    let is_short = |site: &Site| match &site.endpoint {
        Endpoint::Tcp(address) => !(address.is_ipv4() && address.ip().is_loopback()),
        Endpoint::Unix(_) => false,
    };
    // Those that come one after another and close are not all there at a time.
    let come_and_go = plan.dial_rate.is_some() && plan.per_connection.is_some();
    let Some(site) = plan.sites.iter().find(|site| is_short(site)).filter(|_| !come_and_go) else {
        return Ok(());
    };
    let range = port_range();
    let Some(ports) = ports_of(&range).filter(|&ports| ports < each) else { return Ok(()) };
    Err(io::Error::other(format!(
        "{each} connections to {:?} need as many local ports, and there are {ports}: widen net.ipv4.ip_local_port_range \
         (now {}), or ask for fewer",
        site.endpoint,
        range.trim().replace('\t', " ")
    )))
}

/// The ports that the kernel gives out, as it says them; empty where it does not.
fn port_range() -> String {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default()
}

fn per_source(range: &str) -> usize {
    let ports = ports_of(range).unwrap_or(PORTS_USUAL);
    ((ports as f64 * PORTS_SHARE) as usize).max(1)
}

/// How many ports a range of `net.ipv4.ip_local_port_range` has.
fn ports_of(range: &str) -> Option<usize> {
    let mut ends = range.split_whitespace().map(|end| end.parse::<usize>().ok());
    let (low, high) = (ends.next()??, ends.next()??);
    (high + 1).checked_sub(low)
}

/// On loopback every 127.x.y.z is ours, so many connections are spread over several of them.
fn source_address(peer: &SocketAddr, index: usize, per_source: usize) -> Option<SocketAddr> {
    let number = u16::try_from(index / per_source).ok().filter(|&number| number > 0)?;
    let [high, low] = number.to_be_bytes();
    (peer.is_ipv4() && peer.ip().is_loopback())
        .then(|| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 1, high, low)), 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_counted() {
        assert_eq!(ports_of("32768\t60999\n"), Some(28_232));
        assert_eq!((ports_of("1"), ports_of("9 1"), ports_of("a b")), (None, None, None));
    }

    #[test]
    fn only_many_loopback_connections_are_spread() {
        let loopback: SocketAddr = "127.0.0.1:80".parse().unwrap();
        let elsewhere: SocketAddr = "192.0.2.1:80".parse().unwrap();
        assert_eq!(source_address(&loopback, 19_999, 20_000), None);
        assert_eq!(source_address(&loopback, 20_000, 20_000), Some("127.1.0.1:0".parse().unwrap()));
        assert_eq!(source_address(&loopback, 300 * 20_000, 20_000), Some("127.1.1.44:0".parse().unwrap()));
        assert_eq!(source_address(&elsewhere, 300_000, 20_000), None);
    }

    #[test]
    fn a_narrow_range_of_ports_takes_more_addresses() {
        let check = |range: &str, want: usize| assert_eq!(per_source(range), want, "{range:?}");
        check("32768\t60999\n", 19_762);
        check("61000 65535", 3175);
        check("5000 5000", 1);
        check("", 19_762);
    }
}
