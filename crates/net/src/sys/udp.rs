//! Many datagrams per system call, with what their IP packets say: addresses, congestion marks, segments.

use super::{option, set_bytes, set_option};
use crate::limits::MESSAGES_MAX;
use rustix::io::Errno;
use std::io;
use std::mem::{offset_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Room for all control messages of a packet: address, mark, segment size, drops; 24 to 40 bytes each.
const CONTROL_BYTES: usize = 192;

/// What one message has brought: a datagram, or several of one sender that the kernel has put together (UDP_GRO).
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    /// Bytes; none may be a datagram, too.
    pub len: usize,
    /// The sender; `None`: what has come is not whole, or from nowhere that could be answered, and is to be left alone.
    pub from: Option<SocketAddr>,
    /// The address of ours that it was sent to, if the socket asks for it.
    pub to: Option<IpAddr>,
    /// The two bits of congestion notification (RFC 3168).
    pub ecn: u8,
    /// Bytes of each datagram but the last, which may be smaller; `None`: it is one.
    pub segment: Option<usize>,
    /// Datagrams that the socket has dropped so far because its buffer was full, if the kernel says.
    pub dropped: Option<u32>,
}

/// One message to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Where to; `None`: where the socket is connected to, which spares the kernel a look-up. It then bears no mark.
    pub to: Option<SocketAddr>,
    /// The address to send from; `None`: the kernel's choice.
    pub from: Option<IpAddr>,
    /// The two bits of congestion notification.
    pub ecn: u8,
    /// The bytes are datagrams of this size (UDP_SEGMENT); `None`: one.
    pub segment: Option<u16>,
    /// The payload.
    pub bytes: &'a [u8],
}

/// Aligned as control messages must be.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Has the kernel put datagrams of one sender together that come at once (UDP_GRO), if it can. Who reads the socket has to take them
/// apart again.
pub fn gather(fd: BorrowedFd<'_>) {
    let _ = set_option(fd, libc::SOL_UDP, libc::UDP_GRO, 1);
}

/// Has a socket tell to which address each datagram was sent.
pub fn tell_addresses(fd: BorrowedFd<'_>, is_v6: bool) -> io::Result<()> {
    // An IPv6 socket that takes IPv4 as well is asked for both.
    let v4 = set_option(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1);
    if is_v6 { set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1) } else { v4 }
}

/// Has a socket tell addresses, congestion marks and drops of what it receives, put datagrams together, and send none in
/// fragments. What a kernel does not know is left out, but for the addresses and marks.
pub fn prepare_datagrams(fd: BorrowedFd<'_>, is_v6: bool) -> io::Result<()> {
    tell_addresses(fd, is_v6)?;
    if is_v6 {
        set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        let _ = set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE);
    }
    // An IPv6 socket that takes IPv4 as well has these of its own.
    let v4 = [(libc::IP_RECVTOS, 1), (libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)];
    for (option, value) in v4 {
        let done = set_option(fd, libc::IPPROTO_IP, option, value);
        if !is_v6 && option == libc::IP_RECVTOS {
            done?;
        }
    }
    gather(fd);
    let _ = set_option(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
    Ok(())
}

/// Whether [`prepare_datagrams`] was called for a socket: it asks for marks, which no other one does.
pub fn is_prepared(fd: BorrowedFd<'_>) -> bool {
    let asks = |level, name| option(fd, level, name).is_ok_and(|value| value != 0);
    asks(libc::IPPROTO_IP, libc::IP_RECVTOS) || asks(libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS)
}

/// Makes room for so many bytes that wait to be read, beyond the system's limit if this process may.
pub fn set_receive_room(fd: BorrowedFd<'_>, bytes: i32) {
    if set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes).is_err() {
        let _ = set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes);
    }
}

/// Routes the packets of QUIC that come to a group of sockets (SO_REUSEPORT): the first byte of the destination's connection ID modulo
/// `count` is the place in the group. A classic BPF program needs no privilege.
pub fn route_by_connection_id(fd: BorrowedFd<'_>, count: u32) -> io::Result<()> {
    const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        step(LOAD_BYTE, 0, 0, 0),
        // RFC 8999 §5: the first bit tells a long header, whose ID follows flags, version and a length.
        step((libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16, 0, 2, 0x80),
        step(LOAD_BYTE, 0, 0, 6),
        step((libc::BPF_JMP | libc::BPF_JA) as u16, 0, 0, 1),
        step(LOAD_BYTE, 0, 0, 1),
        step((libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K) as u16, 0, 0, count.max(1)),
        step((libc::BPF_RET | libc::BPF_A) as u16, 0, 0, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the structure is plain data without padding that matters: the kernel reads its two fields.
    let bytes = unsafe { std::slice::from_raw_parts((&raw const filter).cast::<u8>(), size_of_val(&filter)) };
    set_bytes(fd, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, bytes)
}

/// Receives what waits: message `i` is at `i * room` of `arena`. Gives the number of messages; there may be more only if it is
/// as many as there was room for. What is larger than `room` is cut off, so that it is no packet any more.
pub fn receive_datagrams(
    fd: BorrowedFd<'_>,
    arena: &mut [u8],
    room: usize,
    out: &mut Vec<Incoming>,
) -> rustix::io::Result<usize> {
    let count = (arena.len() / room).min(MESSAGES_MAX);
    let mut controls = [Control([0; CONTROL_BYTES]); MESSAGES_MAX];
    // SAFETY: the zero pattern is valid for addresses, vectors and headers. All pointers are to the arrays here and to
    // `arena`, which live through the call; each room and control is its message's own.
    unsafe {
        let mut names: [libc::sockaddr_storage; MESSAGES_MAX] = zeroed();
        let mut pieces: [libc::iovec; MESSAGES_MAX] = zeroed();
        let mut messages: [libc::mmsghdr; MESSAGES_MAX] = zeroed();
        for (at, bytes) in arena.chunks_exact_mut(room).take(count).enumerate() {
            pieces[at] = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: room };
            let message = &mut messages[at].msg_hdr;
            message.msg_name = (&raw mut names[at]).cast();
            message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            message.msg_iov = &raw mut pieces[at];
            message.msg_iovlen = 1;
            message.msg_control = controls[at].0.as_mut_ptr().cast();
            message.msg_controllen = CONTROL_BYTES as _;
        }
        let flags = libc::MSG_DONTWAIT;
        let received = libc::recvmmsg(
            fd.as_raw_fd(),
            messages.as_mut_ptr(),
            count as u32,
            flags as _,
            std::ptr::null_mut(),
        );
        let received = usize::try_from(received).map_err(|_| last_error())?;
        for (message, name) in messages[..received].iter().zip(&names) {
            let len = message.msg_len as usize;
            let is_whole = message.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            let mut incoming = Incoming {
                len: len.min(room),
                from: address(name).filter(|_| is_whole),
                to: None,
                ecn: 0,
                segment: None,
                dropped: None,
            };
            each_control(&message.msg_hdr, |level, kind, data| incoming.note(level, kind, data));
            out.push(incoming);
        }
        Ok(received)
    }
}

impl Incoming {
    fn note(&mut self, level: i32, kind: i32, data: &[u8]) {
        let number = || data.first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes));
        match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                // One byte for IPv4, a number for IPv6.
                let value = number().or_else(|| data.first().map(|byte| i32::from(*byte)));
                self.ecn = value.unwrap_or(0) as u8 & 3;
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                // Not the packet's own destination, which may be everybody's (broadcast): the address to answer from.
                let at = offset_of!(libc::in_pktinfo, ipi_spec_dst);
                let ip =
                    data.get(at..).and_then(|rest| rest.first_chunk::<4>()).map(|ip| Ipv4Addr::from(*ip));
                self.to = ip.filter(|ip| !ip.is_unspecified()).map(IpAddr::V4);
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let to = data.first_chunk::<16>().map(|bytes| Ipv6Addr::from(*bytes));
                // Nothing is sent from a group's address.
                self.to = to.filter(|ip| !ip.is_multicast()).map(IpAddr::V6);
            }
            (libc::SOL_UDP, libc::UDP_GRO) => self.segment = number().map(|size| size.max(1) as usize),
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => self.dropped = number().map(|count| count as u32),
            _ => {}
        }
    }
}

/// Sends messages in order, as many as one call takes; gives how many left. An error is that of the first one.
pub fn send_datagrams<'a>(
    fd: BorrowedFd<'_>,
    batch: impl Iterator<Item = Outgoing<'a>>,
) -> rustix::io::Result<usize> {
    let mut count = 0;
    let mut controls = [Control([0; CONTROL_BYTES]); MESSAGES_MAX];
    // SAFETY: as in `receive_datagrams`; the kernel only reads. A control message is written within its buffer, which has room
    // for the three kinds that there are.
    unsafe {
        let mut names: [libc::sockaddr_storage; MESSAGES_MAX] = zeroed();
        let mut pieces: [libc::iovec; MESSAGES_MAX] = zeroed();
        let mut messages: [libc::mmsghdr; MESSAGES_MAX] = zeroed();
        for (at, one) in batch.take(MESSAGES_MAX).enumerate() {
            count += 1;
            pieces[at] =
                libc::iovec { iov_base: one.bytes.as_ptr().cast_mut().cast(), iov_len: one.bytes.len() };
            let message = &mut messages[at].msg_hdr;
            if let Some(to) = one.to {
                message.msg_namelen = put_address(&mut names[at], to);
                message.msg_name = (&raw mut names[at]).cast();
            }
            message.msg_iov = &raw mut pieces[at];
            message.msg_iovlen = 1;
            let used = put_controls(&mut controls[at].0, &one);
            message.msg_control = controls[at].0.as_mut_ptr().cast();
            message.msg_controllen = used as _;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let sent = libc::sendmmsg(fd.as_raw_fd(), messages.as_mut_ptr(), count, flags as _);
        usize::try_from(sent).map_err(|_| last_error())
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Writes what a message needs beside its bytes; gives the length.
fn put_controls(buffer: &mut [u8; CONTROL_BYTES], one: &Outgoing<'_>) -> usize {
    let mut used = 0;
    let mut put = |level: i32, kind: i32, data: &[u8]| {
        // A header is a length of the machine's word, level and kind; each begins at a multiple of the word (cmsg(3)).
        let word = size_of::<usize>();
        let len = size_of::<libc::cmsghdr>() + data.len();
        let mut at = used;
        for part in [&len.to_ne_bytes()[..], &level.to_ne_bytes(), &kind.to_ne_bytes(), data] {
            buffer[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        used += len.next_multiple_of(word);
    };
    if let Some(to) = one.to.filter(|_| one.ecn != 0) {
        let is_v4 = match to {
            SocketAddr::V4(_) => true,
            SocketAddr::V6(to) => to.ip().to_ipv4_mapped().is_some(),
        };
        let mark = i32::from(one.ecn).to_ne_bytes();
        if is_v4 {
            put(libc::IPPROTO_IP, libc::IP_TOS, &mark);
        } else {
            put(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &mark);
        }
    }
    match one.from {
        // in_pktinfo: interface, source address, destination address; in6_pktinfo: address, interface.
        Some(IpAddr::V4(ip)) => {
            let mut info = [0; 12];
            info[4..8].copy_from_slice(&ip.octets());
            put(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
        }
        Some(IpAddr::V6(ip)) => {
            let mut info = [0; 20];
            info[..16].copy_from_slice(&ip.octets());
            put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
        }
        None => {}
    }
    if let Some(size) = one.segment {
        put(libc::SOL_UDP, libc::UDP_SEGMENT, &size.to_ne_bytes());
    }
    used
}

fn put_address(storage: &mut libc::sockaddr_storage, to: SocketAddr) -> libc::socklen_t {
    match to {
        SocketAddr::V4(to) => {
            let name = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: to.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(to.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: a storage is as large and aligned as any address.
            unsafe { (&raw mut *storage).cast::<libc::sockaddr_in>().write(name) };
            size_of::<libc::sockaddr_in>() as libc::socklen_t
        }
        SocketAddr::V6(to) => {
            let name = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: to.port().to_be(),
                sin6_flowinfo: to.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: to.ip().octets() },
                sin6_scope_id: to.scope_id(),
            };
            // SAFETY: as above.
            unsafe { (&raw mut *storage).cast::<libc::sockaddr_in6>().write(name) };
            size_of::<libc::sockaddr_in6>() as libc::socklen_t
        }
    }
}

fn address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says what the storage, which is large enough for any, holds.
            let name = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(name.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let name = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(name.sin6_port), 0, name.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Calls `each` with level, kind and data of every control message that the kernel has written.
fn each_control(message: &libc::msghdr, mut each: impl FnMut(i32, i32, &[u8])) {
    // SAFETY: the kernel has written whole control messages into the buffer that `message` names, and says how many bytes; the
    // C library's functions stay within them.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(one) = header.as_ref() {
            let len = one.cmsg_len.saturating_sub(size_of::<libc::cmsghdr>());
            each(one.cmsg_level, one.cmsg_type, std::slice::from_raw_parts(libc::CMSG_DATA(header), len));
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}

/// Whether an error of a send means that this machine's interface cannot split datagrams (UDP_SEGMENT).
pub fn is_about_segments(error: Errno) -> bool {
    matches!(error, Errno::IO | Errno::INVAL | Errno::MSGSIZE | Errno::OPNOTSUPP)
}
