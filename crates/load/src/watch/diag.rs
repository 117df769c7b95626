//! What the kernel knows of single sockets (`NETLINK_SOCK_DIAG`): who is at the other end, when data last came and left, how long a queue
//! may be. Messages are data; [`Diag`] is the one place that asks.

use std::cmp::Ordering;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// A dump is answered at once: what takes longer is no kernel that knows the question.
const ANSWER_TIME: Duration = Duration::from_secs(1);

// include/uapi/linux/{netlink,sock_diag,inet_diag,unix_diag}.h
const BY_FAMILY: u16 = 20;
const DONE: u16 = 3;
const ERROR: u16 = 2;
const REQUEST_DUMP: u16 = 0x301;
const TCP: u8 = 6;
const WITH_INFO: u8 = 1 << 1;
const INFO: u16 = 2;
const SHOW_NAME_AND_PEER: u32 = 1 | 4;
const NAME: u16 = 0;
const PEER: u16 = 2;

/// A state of TCP that listens.
pub(super) const LISTEN: u8 = 10;
/// States in which a request can be under way: established, and closed by the client's side only.
const OPEN: [u8; 2] = [1, 8];

/// A socket of TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TcpSocket {
    pub state: u8,
    pub port: u16,
    /// The other end.
    pub peer: String,
    pub peer_port: u16,
    /// Of one that listens: connections that wait; else bytes.
    pub received: u32,
    /// Of one that listens: how many may wait; else bytes.
    pub sent: u32,
    /// 0: nobody has accepted it.
    pub inode: u32,
    pub info: Option<TcpInfo>,
}

/// Of `struct tcp_info`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TcpInfo {
    /// Segments on their way.
    pub unacked: u32,
    /// How long ago data was sent, in milliseconds.
    pub sent_ms: u32,
    /// How long ago data came.
    pub received_ms: u32,
    /// Bytes that wait to be sent.
    pub unsent: u32,
    /// Segments with data that came.
    pub segments_in: u32,
    /// Segments with data that left.
    pub segments_out: u32,
}

/// What is under way on a connection, as its server's end sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Under {
    /// A request that nobody has begun to answer.
    Request,
    /// An answer that the other end has not got yet.
    Answer,
    Nothing,
}

/// Whether a connection that was made from here waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    /// It has asked, and nothing has come since.
    Surely,
    /// It asked in the moment in which the last answer came, or was answered in the moment in which it asked.
    Perhaps,
    Nothing,
}

impl TcpSocket {
    pub fn is_open(&self) -> bool {
        OPEN.contains(&self.state)
    }

    /// Of an accepted connection.
    pub fn under_way(&self) -> Under {
        let Some(info) = self.info else { return Under::Nothing };
        if self.received == 0 && (info.unsent > 0 || info.unacked > 0) {
            return Under::Answer;
        }
        // These clocks are coarse: what came in the same moment as the last answer left is told by not being read yet, and a connection's
        // first request, which comes as the connection does, by no data having left.
        let is_first = info.segments_in > 0 && info.segments_out == 0;
        let is_request = self.received > 0 || is_first || info.received_ms < info.sent_ms;
        if is_request { Under::Request } else { Under::Nothing }
    }

    /// Of a connection that was made from here.
    pub fn asks(&self) -> Asks {
        let Some(info) = self.info else { return Asks::Nothing };
        // The request comes as the connection does, in the same moment of these coarse clocks.
        let is_first = info.segments_out > 0 && info.segments_in == 0;
        match info.sent_ms.cmp(&info.received_ms) {
            _ if is_first => Asks::Surely,
            Ordering::Less => Asks::Surely,
            Ordering::Equal if info.segments_out > 0 => Asks::Perhaps,
            _ => Asks::Nothing,
        }
    }
}

/// A unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnixSocket {
    pub inode: u32,
    /// What it was bound to: an accepted one has its listener's.
    pub name: String,
    /// The inode at the other end.
    pub peer: u32,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Attributes behind a message, as kinds and values.
fn attributes(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    while let (Some(length), Some(kind)) = (u16_at(bytes, 0), u16_at(bytes, 2)) {
        let length = usize::from(length);
        let Some(value) = bytes.get(4..length) else { break };
        found.push((kind, value));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

fn tcp(message: &[u8]) -> Option<TcpSocket> {
    let port = |at: usize| Some(u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?));
    let address: [u8; 16] = message.get(24..40)?.try_into().ok()?;
    let [a, b, c, d, ..] = address;
    let v6 = Ipv6Addr::from(address);
    let peer = match (*message.first()?, v6.to_ipv4_mapped()) {
        (2, _) => Ipv4Addr::new(a, b, c, d).to_string(),
        (_, Some(v4)) => v4.to_string(),
        _ => v6.to_string(),
    };
    let info = attributes(message.get(72..)?).into_iter().find(|(kind, _)| *kind == INFO);
    let info = info.and_then(|(_, info)| {
        Some(TcpInfo {
            unacked: u32_at(info, 24)?,
            sent_ms: u32_at(info, 44)?,
            received_ms: u32_at(info, 52)?,
            unsent: u32_at(info, 144).unwrap_or(0),
            segments_in: u32_at(info, 152).unwrap_or(0),
            segments_out: u32_at(info, 156).unwrap_or(0),
        })
    });
    Some(TcpSocket {
        state: *message.get(1)?,
        port: port(4)?,
        peer,
        peer_port: port(6)?,
        received: u32_at(message, 56)?,
        sent: u32_at(message, 60)?,
        inode: u32_at(message, 68)?,
        info,
    })
}

fn unix(message: &[u8]) -> Option<UnixSocket> {
    let mut found = UnixSocket { inode: u32_at(message, 4)?, name: String::new(), peer: 0 };
    for (kind, value) in attributes(message.get(16..)?) {
        match kind {
            NAME => String::from_utf8_lossy(value).trim_end_matches('\0').clone_into(&mut found.name),
            PEER => found.peer = u32_at(value, 0)?,
            _ => {}
        }
    }
    Some(found)
}

/// What came in one datagram: payloads of messages, and whether it was the last.
fn messages(mut bytes: &[u8]) -> io::Result<(Vec<&[u8]>, bool)> {
    let mut found = Vec::new();
    while let (Some(length), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        let length = length as usize;
        let Some(payload) = bytes.get(16..length) else { break };
        match kind {
            DONE => return Ok((found, true)),
            ERROR => return Err(io::Error::other("the kernel does not tell of sockets")),
            _ => found.push(payload),
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok((found, false))
}

fn request(payload: &[u8]) -> Vec<u8> {
    let mut bytes = (16 + payload.len() as u32).to_ne_bytes().to_vec();
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST_DUMP.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(payload);
    bytes
}

fn tcp_request(family: u8) -> Vec<u8> {
    let mut payload = vec![family, TCP, WITH_INFO, 0];
    // Of all states; any address.
    payload.extend(u32::MAX.to_ne_bytes());
    payload.extend([0; 48]);
    request(&payload)
}

fn unix_request() -> Vec<u8> {
    let mut payload = vec![1, 0, 0, 0];
    payload.extend(u32::MAX.to_ne_bytes());
    payload.extend(0u32.to_ne_bytes());
    payload.extend(SHOW_NAME_AND_PEER.to_ne_bytes());
    payload.extend([0; 8]);
    request(&payload)
}

/// A line to the kernel.
pub(super) struct Diag {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Diag {
    pub fn open() -> io::Result<Self> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::SOCK_DIAG),
        )?;
        set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_TIME))?;
        Ok(Self { socket, buffer: vec![0; 64 << 10] })
    }

    fn dump<T>(&mut self, request: &[u8], read: fn(&[u8]) -> Option<T>) -> io::Result<Vec<T>> {
        send(&self.socket, request, SendFlags::empty())?;
        let mut found = Vec::new();
        loop {
            let (length, _) = recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())?;
            let (all, is_last) = messages(&self.buffer[..length])?;
            found.extend(all.into_iter().filter_map(read));
            if is_last {
                return Ok(found);
            }
        }
    }

    /// All of TCP's, of both families.
    pub fn tcp(&mut self) -> io::Result<Vec<TcpSocket>> {
        let mut all = self.dump(&tcp_request(2), tcp)?;
        all.extend(self.dump(&tcp_request(10), tcp).unwrap_or_default());
        Ok(all)
    }

    /// All unix sockets.
    pub fn unix(&mut self) -> io::Result<Vec<UnixSocket>> {
        self.dump(&unix_request(), unix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::time::Instant;

    fn inode_of(file: &impl std::os::fd::AsRawFd) -> u32 {
        std::fs::metadata(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap().ino() as u32
    }

    /// A request that waits for its answer, and the answer.
    #[test]
    fn what_is_under_way_on_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut diag = Diag::open().unwrap();
        let mut wait_until = |wanted: &dyn Fn(&TcpSocket) -> bool, inode: u32| {
            let begun = Instant::now();
            while !diag.tcp().unwrap().iter().any(|socket| socket.inode == inode && wanted(socket)) {
                assert!(begun.elapsed() < Duration::from_secs(20));
                std::thread::yield_now();
            }
        };
        let (ours, theirs) = (inode_of(&server), inode_of(&client));
        // The kernel's clock of these figures is coarse.
        std::thread::park_timeout(Duration::from_millis(20));
        client.write_all(b"GET").unwrap();
        wait_until(&|socket| socket.is_open() && socket.under_way() == Under::Request, ours);
        wait_until(&|socket| socket.asks() == Asks::Surely && socket.peer_port == port, theirs);
        server.read_exact(&mut [0; 3]).unwrap();
        std::thread::park_timeout(Duration::from_millis(20));
        server.write_all(b"200").unwrap();
        wait_until(&|socket| socket.under_way() != Under::Request, ours);
        assert!(server.as_raw_fd() > 0);
        let all = diag.tcp().unwrap();
        let listens = all.iter().find(|socket| socket.state == LISTEN && socket.port == port).unwrap();
        assert!(listens.received == 0 && listens.sent > 0, "{listens:?}");
    }

    /// It comes in the moment in which the connection does: with connections that are not kept, all requests do.
    #[test]
    fn a_connection_s_first_request_is_under_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut diag = Diag::open().unwrap();
        for _ in 0..20 {
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            client.write_all(b"GET").unwrap();
            let (mut server, _) = listener.accept().unwrap();
            server.read_exact(&mut [0; 3]).unwrap();
            let all = diag.tcp().unwrap();
            let of = |inode: u32| all.iter().find(|socket| socket.inode == inode).unwrap();
            let (own, other) = (of(inode_of(&server)), of(inode_of(&client)));
            assert_eq!((own.under_way(), other.asks()), (Under::Request, Asks::Surely), "{own:?} {other:?}");
        }
    }

    #[test]
    fn the_other_end_of_a_unix_socket_has_a_name() {
        let path = std::env::temp_dir().join(format!("brisk-load-diag-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let client = UnixStream::connect(&path).unwrap();
        let (_server, _) = listener.accept().unwrap();
        let all = Diag::open().unwrap().unix().unwrap();
        let find = |inode: u32| all.iter().find(|socket| socket.inode == inode).unwrap();
        let own = find(inode_of(&client));
        assert_eq!((own.name.as_str(), Some(find(own.peer).name.as_str())), ("", path.to_str()));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_is_cut_off_is_nothing() {
        assert_eq!((tcp(&[2; 40]), unix(&[1; 9])), (None, None));
        assert!(attributes(&[9, 0, 1, 0]).is_empty() && attributes(&[0; 8]).is_empty());
        assert!(messages(&[40, 0, 0, 0, 20, 0]).unwrap().0.is_empty());
        let error = [20u32.to_ne_bytes().as_slice(), &ERROR.to_ne_bytes(), &[0; 14]].concat();
        assert!(messages(&error).is_err());
    }
}
