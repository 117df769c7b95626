//! Opening non-blocking connections.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, ipproto, socket_with, sockopt,
};

use crate::plan::{Endpoint, Plan};

/// Connections per source address: well below the kernel's default of 28,232 ephemeral ports.
const CONNECTIONS_PER_SOURCE: usize = 20_000;

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
        Endpoint::Tcp(address) => {
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
            sockopt::set_tcp_nodelay(&socket, true)?;
            set_buffers(&socket, plan)?;
            if address.ip().is_loopback() {
                // There is no congestion to control: take the cheapest way to do it, if allowed.
                let _ = sockopt::set_tcp_congestion(&socket, "reno");
            }
            if let Some(source) = source_address(address, index) {
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

/// On loopback every 127.x.y.z is ours, so many connections are spread over several of them.
fn source_address(peer: &SocketAddr, index: usize) -> Option<SocketAddr> {
    let number = u16::try_from(index / CONNECTIONS_PER_SOURCE).ok().filter(|&number| number > 0)?;
    let [high, low] = number.to_be_bytes();
    (peer.is_ipv4() && peer.ip().is_loopback())
        .then(|| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 1, high, low)), 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_many_loopback_connections_are_spread() {
        let loopback: SocketAddr = "127.0.0.1:80".parse().unwrap();
        let elsewhere: SocketAddr = "192.0.2.1:80".parse().unwrap();
        assert_eq!(source_address(&loopback, 19_999), None);
        assert_eq!(source_address(&loopback, 20_000), Some("127.1.0.1:0".parse().unwrap()));
        assert_eq!(source_address(&loopback, 300 * 20_000), Some("127.1.1.44:0".parse().unwrap()));
        assert_eq!(source_address(&elsewhere, 300_000), None);
    }
}
