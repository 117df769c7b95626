//! Connections that we make.

use crate::{Io, sys};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Whom to connect to.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'a> {
    /// TCP.
    Ip(SocketAddr),
    /// A unix socket, by its path.
    Unix(&'a Path),
}

/// What is set before connecting.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The local address; port 0 leaves the port to the kernel. Not for Unix sockets.
    pub bind: Option<SocketAddr>,
    /// The local address may be another machine's (`IP_TRANSPARENT`; needs `CAP_NET_RAW`).
    pub transparent: bool,
    /// TCP's keepalive.
    pub keepalive: bool,
    /// 0: the kernel's choice.
    pub rcvbuf: usize,
    /// As `rcvbuf`, for sending.
    pub sndbuf: usize,
}

impl Options {
    fn set(&self, fd: &OwnedFd) -> rustix::io::Result<()> {
        if self.rcvbuf > 0 {
            sockopt::set_socket_recv_buffer_size(fd, self.rcvbuf)?;
        }
        if self.sndbuf > 0 {
            sockopt::set_socket_send_buffer_size(fd, self.sndbuf)?;
        }
        Ok(())
    }
}

/// What failed, as nginx names it.
#[derive(Debug)]
pub struct ConnectError {
    /// `socket`, `bind`, `connect` …
    pub call: &'static str,
    /// What the kernel said.
    pub error: io::Error,
}

fn failed(call: &'static str) -> impl FnOnce(Errno) -> ConnectError {
    move |error| ConnectError { call, error: error.into() }
}

/// A connection, or the beginning of one.
pub enum Started {
    /// As unix sockets are at once. It is complete.
    Made(Io),
    /// It is made, or has failed, when [`Io::poll_writable`] is ready: [`finish`] tells.
    Begun(Io),
}

/// A connection to a unix socket for one who waits for answers, with a time-out of its own, but not without end for a place in the queue of a process
/// that accepts nothing any more: a full queue is an error ([`io::ErrorKind::WouldBlock`]).
pub fn unix_at_once(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    net::connect(&fd, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(fd);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Begins to connect. The connection is made, or has failed, when [`Io::poll_writable`] is ready: [`finish`] tells.
pub fn start(to: Destination<'_>, options: &Options) -> Result<Io, ConnectError> {
    match begin(to, options)? {
        Started::Made(io) | Started::Begun(io) => Ok(io),
    }
}

/// As [`start`], and tells whether there is anything to wait for.
pub fn begin(to: Destination<'_>, options: &Options) -> Result<Started, ConnectError> {
    let family = match to {
        Destination::Ip(SocketAddr::V4(_)) => AddressFamily::INET,
        Destination::Ip(SocketAddr::V6(_)) => AddressFamily::INET6,
        Destination::Unix(_) => AddressFamily::UNIX,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = net::socket_with(family, SocketType::STREAM, flags, None).map_err(failed("socket"))?;
    options.set(&fd).map_err(failed("setsockopt"))?;
    if options.keepalive {
        sockopt::set_socket_keepalive(&fd, true).map_err(failed("setsockopt"))?;
    }
    let connected = match to {
        Destination::Unix(path) => {
            let address = SocketAddrUnix::new(path).map_err(failed("connect"))?;
            net::connect(&fd, &address)
        }
        Destination::Ip(address) => {
            if let Some(local) = options.bind {
                let own = |error| ConnectError { call: "setsockopt", error };
                if options.transparent {
                    sys::set_transparent(fd.as_fd(), address.is_ipv6()).map_err(own)?;
                }
                if local.port() == 0 {
                    // The port is chosen with the destination: many connections may share it. Old kernels do without.
                    let _ = sys::set_bind_no_port(fd.as_fd());
                }
                net::bind(&fd, &local).map_err(failed("bind"))?;
            }
            // What we write is complete when it is written.
            sockopt::set_tcp_nodelay(&fd, true).map_err(failed("setsockopt"))?;
            net::connect(&fd, &address)
        }
    };
    let is_connected = match connected {
        Ok(()) => true,
        Err(Errno::INPROGRESS) => false,
        Err(error) => return Err(failed("connect")(error)),
    };
    if is_connected && matches!(to, Destination::Unix(_)) {
        return Ok(Started::Made(Io::local(fd)));
    }
    // Registered only now: a socket that does not connect yet reports a hang-up.
    let io = Io::new(fd).map_err(|error| ConnectError { call: "epoll_ctl", error })?;
    if !is_connected {
        return Ok(Started::Begun(io));
    }
    // The event would say nothing new.
    io.mark_writable();
    Ok(Started::Made(io))
}

/// A socket for datagrams to and from one address.
pub fn datagrams(to: SocketAddr, options: &Options) -> Result<Io, ConnectError> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = net::socket_with(family, SocketType::DGRAM, flags, None).map_err(failed("socket"))?;
    options.set(&fd).map_err(failed("setsockopt"))?;
    if let Some(local) = options.bind {
        if options.transparent {
            let own = |error| ConnectError { call: "setsockopt", error };
            sys::set_transparent(fd.as_fd(), to.is_ipv6()).map_err(own)?;
        }
        net::bind(&fd, &local).map_err(failed("bind"))?;
    }
    net::connect(&fd, &to).map_err(failed("connect"))?;
    Io::new(fd).map_err(|error| ConnectError { call: "epoll_ctl", error })
}

/// Whether a connection that has become writable was made.
pub fn finish(io: &Io) -> Result<(), ConnectError> {
    match sockopt::socket_error(io.fd()) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) | Err(error) => Err(failed("connect")(error)),
    }
}
