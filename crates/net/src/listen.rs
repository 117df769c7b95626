//! Listening sockets.

use crate::limits::RECEIVE_ROOM_BYTES;
use crate::sys;
use rustix::net::{self, AddressFamily, SocketAddrAny, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

/// In the system's setting of TCP Fast Open: servers may have a queue (2), and get one without asking for it (0x400).
const FAST_OPEN_BY_DEFAULT: u32 = 0x402;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// TCP.
    Ip(SocketAddr),
    /// A unix socket, by its path.
    Unix(PathBuf),
    /// Datagrams.
    Udp(SocketAddr),
    /// QUIC: one socket of the group that shares an address, by its place in it. Each thread has one.
    Quic(SocketAddr, u8),
}

impl Address {
    /// The same for all sockets of a group: its first one.
    #[must_use]
    pub fn group(&self) -> Address {
        match self {
            Address::Quic(ip, _) => Address::Quic(*ip, 0),
            other => other.clone(),
        }
    }

    /// Whether it is the wildcard of another address's port, family and protocol.
    pub fn covers(&self, narrow: &Address) -> bool {
        match (self, narrow) {
            (Address::Ip(wide), Address::Ip(narrow))
            | (Address::Udp(wide), Address::Udp(narrow))
            | (Address::Quic(wide, _), Address::Quic(narrow, _)) => {
                // A wildcard of IPv6 does not cover IPv4: it is IPV6_V6ONLY unless told otherwise.
                wide.ip().is_unspecified()
                    && wide.port() == narrow.port()
                    && wide.is_ipv4() == narrow.is_ipv4()
            }
            _ => false,
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Ip(addr) => write!(f, "{addr}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Udp(addr) => write!(f, "{addr} udp"),
            Address::Quic(addr, _) => write!(f, "{addr} quic"),
        }
    }
}

/// TCP keep-alive of accepted connections (`so_keepalive=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// None.
    Off,
    /// After `idle` without data a probe each `interval`, `count` of them in vain end the connection; `None`: the
    /// kernel's values.
    On {
        /// The time without data after which it is asked whether the peer is there.
        idle: Option<Duration>,
        /// The time between two such questions.
        interval: Option<Duration>,
        /// The questions without an answer that end the connection.
        count: Option<u32>,
    },
}

/// The parameters of `listen` that concern the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// `backlog=`: connections that wait to be accepted.
    pub backlog: i32,
    /// `rcvbuf=`, in bytes; `None`: the kernel's choice.
    pub rcvbuf: Option<usize>,
    /// `sndbuf=`, in bytes; `None`: the kernel's choice.
    pub sndbuf: Option<usize>,
    /// `ipv6only=`: an IPv6 wildcard takes no IPv4.
    pub ipv6only: bool,
    /// `reuseport`: a socket per thread, among which the kernel spreads connections.
    pub reuseport: bool,
    /// `deferred`: a connection is accepted when its first data is there.
    pub deferred: bool,
    /// `fastopen=`: connections that may wait in TCP Fast Open's queue; `None`: it is off.
    pub fastopen: Option<u32>,
    /// `so_keepalive=`; `None`: as the system has it.
    pub keepalive: Option<KeepAlive>,
    /// Multipath TCP (RFC 8684) for clients that ask for it; others get plain TCP from the same socket.
    pub multipath: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            backlog: 511,
            rcvbuf: None,
            sndbuf: None,
            ipv6only: true,
            reuseport: false,
            deferred: false,
            fastopen: None,
            keepalive: None,
            multipath: false,
        }
    }
}

/// Creates, binds and listens. The socket is non-blocking and close-on-exec.
pub fn bind(address: &Address, options: &Options) -> io::Result<OwnedFd> {
    let fd = claim(address, options)?;
    if matches!(address, Address::Ip(_) | Address::Unix(_)) {
        net::listen(&fd, options.backlog)?;
    }
    Ok(fd)
}

/// Creates and binds, without listening: to find out whether an address can be had. Clients are refused meanwhile, as they are where
/// there is no server; a connection to a socket that listens and is closed again would be reset.
pub fn claim(address: &Address, options: &Options) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    match address {
        Address::Ip(addr) => {
            let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let protocol = options.multipath.then_some(net::ipproto::MPTCP);
            let fd = net::socket_with(family, SocketType::STREAM, flags, protocol)?;
            sockopt::set_socket_reuseaddr(&fd, true)?;
            if options.reuseport {
                sockopt::set_socket_reuseport(&fd, true)?;
            }
            if addr.is_ipv6() {
                sockopt::set_ipv6_v6only(&fd, options.ipv6only)?;
            }
            apply(&fd, options)?;
            // Accepted connections inherit it: a call less for each.
            sockopt::set_tcp_nodelay(&fd, true)?;
            net::bind(&fd, addr)?;
            Ok(fd)
        }
        Address::Unix(path) => {
            let fd = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            apply(&fd, options)?;
            net::bind(&fd, &net::SocketAddrUnix::new(path)?)?;
            // nginx makes its sockets usable by everyone; the folder guards them.
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
            Ok(fd)
        }
        Address::Udp(addr) => bind_datagrams(addr, options),
        Address::Quic(addr, _) => bind_quic(addr, options),
    }
}

fn bind_datagrams(addr: &SocketAddr, options: &Options) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = net::socket_with(family, SocketType::DGRAM, flags, None)?;
    if options.reuseport {
        sockopt::set_socket_reuseport(&fd, true)?;
    }
    if addr.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, options.ipv6only)?;
    }
    apply(&fd, options)?;
    net::bind(&fd, addr)?;
    answer_from_where_it_came_to(fd.as_fd())?;
    Ok(fd)
}

/// Answers of a wildcard's socket must leave from the address that a client has sent to: it takes no others, and the kernel would choose
/// by the route.
fn answer_from_where_it_came_to(fd: BorrowedFd<'_>) -> io::Result<()> {
    match local_ip(fd) {
        Some(at) if at.port() != 0 && at.ip().is_unspecified() && is_datagram(fd) => {
            sys::udp::tell_addresses(fd, at.is_ipv6())
        }
        _ => Ok(()),
    }
}

/// One socket of a group. Its packets are routed by [`route_by_connection_id`](sys::udp::route_by_connection_id).
fn bind_quic(addr: &SocketAddr, options: &Options) -> io::Result<OwnedFd> {
    let fd = bind_datagrams(addr, &Options { reuseport: true, ..options.clone() })?;
    sys::udp::prepare_datagrams(fd.as_fd(), addr.is_ipv6())?;
    if options.rcvbuf.is_none() {
        sys::udp::set_receive_room(fd.as_fd(), RECEIVE_ROOM_BYTES);
    }
    Ok(fd)
}

/// Whether a socket for datagrams is one of QUIC's.
pub fn is_quic(fd: impl AsFd) -> bool {
    sys::udp::is_prepared(fd.as_fd())
}

/// Whether a socket is for datagrams.
pub fn is_datagram(fd: impl AsFd) -> bool {
    sockopt::socket_type(fd).is_ok_and(|kind| kind == SocketType::DGRAM)
}

/// Whether a socket speaks multipath TCP; that is decided when it is made.
pub fn is_multipath(fd: impl AsFd) -> bool {
    sockopt::socket_protocol(fd).is_ok_and(|protocol| protocol == Some(net::ipproto::MPTCP))
}

/// Applies what may change on a socket that is listening already (a reload, an inherited socket).
pub fn apply(fd: impl AsFd, options: &Options) -> io::Result<()> {
    let fd = fd.as_fd();
    // One that a program before has bound may lack it.
    answer_from_where_it_came_to(fd)?;
    if let Some(bytes) = options.rcvbuf {
        sockopt::set_socket_recv_buffer_size(fd, bytes)?;
    }
    if let Some(bytes) = options.sndbuf {
        sockopt::set_socket_send_buffer_size(fd, bytes)?;
    }
    match options.keepalive {
        None => {}
        Some(KeepAlive::Off) => sockopt::set_socket_keepalive(fd, false)?,
        Some(KeepAlive::On { idle, interval, count }) => {
            sockopt::set_socket_keepalive(fd, true)?;
            idle.map_or(Ok(()), |t| sockopt::set_tcp_keepidle(fd, t))?;
            interval.map_or(Ok(()), |t| sockopt::set_tcp_keepintvl(fd, t))?;
            count.map_or(Ok(()), |n| sockopt::set_tcp_keepcnt(fd, n))?;
        }
    }
    if options.deferred {
        sys::set_tcp_option(fd, libc::TCP_DEFER_ACCEPT, 1)?;
    } else if is_tcp(fd) {
        // An earlier configuration may have asked for it.
        sys::set_tcp_option(fd, libc::TCP_DEFER_ACCEPT, 0)?;
    }
    let has_fast_open =
        || sys::option(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN).is_ok_and(|queue| queue > 0);
    match options.fastopen {
        Some(queue) => sys::set_tcp_option(fd, libc::TCP_FASTOPEN, queue as i32),
        // An earlier configuration may have asked for it.
        None if is_tcp(fd) && has_fast_open() => {
            sys::set_tcp_option(fd, libc::TCP_FASTOPEN, usual_fast_open(options.backlog))
        }
        None => Ok(()),
    }
}

/// The queue of TCP Fast Open that the system gives to a socket that does not ask for one (`tcp_fastopen` in Linux's ip-sysctl.rst): none, or one as long as
/// that of connections.
fn usual_fast_open(backlog: i32) -> i32 {
    let setting = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_fastopen").unwrap_or_default();
    let bits: u32 = setting.trim().parse().unwrap_or_default();
    // A backlog below 0 is as long as the system allows.
    let queue = if backlog < 0 { i32::MAX } else { backlog };
    if bits & FAST_OPEN_BY_DEFAULT == FAST_OPEN_BY_DEFAULT { queue } else { 0 }
}

fn is_tcp(fd: BorrowedFd<'_>) -> bool {
    let tcp = [Some(net::ipproto::TCP), Some(net::ipproto::MPTCP)];
    sockopt::socket_protocol(fd).is_ok_and(|protocol| tcp.contains(&protocol))
}

/// Has a socket that listens already keep so many connections that nobody has accepted. Those of datagrams have none.
pub fn set_backlog(fd: impl AsFd, backlog: i32) -> io::Result<()> {
    if is_datagram(&fd) { Ok(()) } else { Ok(net::listen(fd, backlog)?) }
}

/// Takes one connection; `None` when there is none.
pub fn accept(fd: impl AsFd) -> io::Result<Option<(OwnedFd, Option<SocketAddrAny>)>> {
    loop {
        match net::acceptfrom_with(&fd, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(accepted) => return Ok(Some(accepted)),
            Err(rustix::io::Errno::AGAIN) => return Ok(None),
            // The peer was gone before we came: take the next.
            Err(rustix::io::Errno::CONNABORTED | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The address a socket is bound to, if it is an IP address.
pub fn local_ip(fd: impl AsFd) -> Option<SocketAddr> {
    net::getsockname(fd).ok().and_then(|addr| SocketAddr::try_from(addr).ok())
}

/// A socket's address, if it is an IP address.
pub fn ip_of(addr: &SocketAddrAny) -> Option<SocketAddr> {
    SocketAddr::try_from(addr.clone()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_refused_while_an_address_is_only_claimed() {
        let address = Address::Ip(([127, 0, 0, 1], 0).into());
        let claimed = claim(&address, &Options::default()).unwrap();
        let connect = || std::net::TcpStream::connect(local_ip(&claimed).unwrap());
        assert_eq!(connect().unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        net::listen(&claimed, 1).unwrap();
        assert!(connect().is_ok());
        let taken = Address::Ip(local_ip(&claimed).unwrap());
        assert_eq!(claim(&taken, &Options::default()).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    /// A parameter that is taken away, or changed, holds no longer on a socket that stays open.
    #[test]
    fn fast_open_is_as_the_last_options_say() {
        let address = Address::Ip(([127, 0, 0, 1], 0).into());
        let queue = |fd: &OwnedFd| sys::option(fd.as_fd(), libc::IPPROTO_TCP, libc::TCP_FASTOPEN).unwrap();
        let usual = queue(&bind(&address, &Options::default()).unwrap());
        let with = |fastopen| Options { fastopen, ..Options::default() };
        let fd = bind(&address, &with(Some(7))).unwrap();
        assert_eq!(queue(&fd), 7);
        for (fastopen, wanted) in [(Some(9), 9), (None, usual), (Some(5), 5), (None, usual)] {
            apply(&fd, &with(fastopen)).unwrap();
            assert_eq!(queue(&fd), wanted);
        }
    }

    /// Kernels may be built, and network namespaces set up, without multipath TCP.
    #[test]
    fn a_multipath_socket_is_one_or_an_error() {
        let address = Address::Ip(([127, 0, 0, 1], 0).into());
        let plain = bind(&address, &Options::default()).unwrap();
        assert!(!is_multipath(&plain));
        match bind(&address, &Options { multipath: true, ..Options::default() }) {
            Ok(fd) => {
                assert!(is_multipath(&fd));
                let client = std::net::TcpStream::connect(local_ip(&fd).unwrap()).unwrap();
                let accepted = || accept(&fd).unwrap();
                while accepted().is_none() {
                    std::thread::yield_now();
                }
                drop(client);
            }
            Err(error) => {
                let known = [libc::EPROTONOSUPPORT, libc::ENOPROTOOPT, libc::EINVAL];
                assert!(error.raw_os_error().is_some_and(|code| known.contains(&code)), "{error}");
            }
        }
    }
}
