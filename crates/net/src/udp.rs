//! Datagrams by the dozen: received into one arena, sent in one call per wake-up.
//!
//! The kernel puts datagrams of one sender together (GRO) and splits what is to be sent (GSO), so that a call costs once for
//! many. What a datagram means is not known here.

use crate::limits::{MESSAGE_BYTES_MAX, MESSAGES_MAX, OUTBOX_MESSAGES_MAX};
use crate::sys::udp::{self, Incoming, Outgoing};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

/// One datagram that has come.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The sender.
    pub from: SocketAddr,
    /// The address that it was sent to, where the socket asks for it.
    pub to: Option<IpAddr>,
    /// The two bits of congestion notification (RFC 3168).
    pub ecn: u8,
    /// The payload.
    pub bytes: &'a [u8],
}

/// Room for datagrams, of a thread. Its memory is touched as far as datagrams fill it.
#[derive(Default)]
pub struct Receiver {
    arena: Vec<u8>,
    messages: Vec<Incoming>,
}

/// What a look at a socket has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    /// There may be more.
    pub has_more: bool,
    /// Datagrams that the socket has dropped since it was made because its buffer was full, if the kernel has said so.
    pub dropped: Option<u32>,
}

impl Receiver {
    /// Takes what waits in a socket, as far as one call gives it, and hands over each datagram.
    pub fn receive(&mut self, fd: BorrowedFd<'_>, mut each: impl FnMut(Received<'_>)) -> io::Result<Looked> {
        self.arena.resize(MESSAGES_MAX * MESSAGE_BYTES_MAX, 0);
        self.messages.clear();
        let count = match udp::receive_datagrams(fd, &mut self.arena, MESSAGE_BYTES_MAX, &mut self.messages) {
            Ok(count) => count,
            Err(Errno::AGAIN) => return Ok(Looked { has_more: false, dropped: None }),
            // An ICMP message about something that was sent: what waits is none the worse.
            Err(Errno::INTR | Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH) => {
                return Ok(Looked { has_more: true, dropped: None });
            }
            Err(error) => return Err(error.into()),
        };
        for (message, room) in self.messages.iter().zip(self.arena.chunks_exact(MESSAGE_BYTES_MAX)) {
            let bytes = &room[..message.len];
            for bytes in bytes.chunks(message.segment.unwrap_or(MESSAGE_BYTES_MAX)) {
                each(Received { from: message.from, to: message.to, ecn: message.ecn, bytes });
            }
        }
        let dropped = self.messages.iter().rev().find_map(|message| message.dropped);
        Ok(Looked { has_more: count == MESSAGES_MAX, dropped })
    }
}

/// Datagrams to one address.
#[derive(Debug)]
pub struct Message {
    /// Where to.
    pub to: SocketAddr,
    /// The address to send from; `None`: the kernel's choice.
    pub from: Option<IpAddr>,
    /// The two bits of congestion notification.
    pub ecn: u8,
    /// The bytes are datagrams of this size, of which the last may be smaller; `None`: one.
    pub segment: Option<usize>,
    /// The payload.
    pub bytes: Vec<u8>,
}

/// What one socket is to send.
#[derive(Default)]
pub struct Outbox {
    waiting: VecDeque<Message>,
    splitting: Splitting,
    dropped: u64,
}

/// Who splits messages into datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Splitting {
    #[default]
    Kernel,
    /// The kernel, or the interface, could not.
    Ours,
}

impl Outbox {
    /// Takes a message. It leaves with [`Outbox::flush`].
    pub fn push(&mut self, message: Message) {
        if self.waiting.len() >= OUTBOX_MESSAGES_MAX {
            self.dropped += 1;
            return;
        }
        match (self.splitting, message.segment) {
            (Splitting::Ours, Some(size)) => self.waiting.extend(split(&message, size)),
            _ => self.waiting.push_back(message),
        }
    }

    /// Whether messages wait, because the socket has taken none more.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Messages that were dropped because too many waited.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Sends what waits, as much as the socket takes. What has left, or cannot be sent at all, is given to `done`.
    pub fn flush(&mut self, fd: BorrowedFd<'_>, mut done: impl FnMut(Vec<u8>)) {
        while !self.waiting.is_empty() {
            let sent = {
                let batch: Vec<Outgoing<'_>> = self.waiting.iter().take(MESSAGES_MAX).map(outgoing).collect();
                udp::send_datagrams(fd, &batch)
            };
            match sent {
                Ok(count) => self.waiting.drain(..count).for_each(|message| done(message.bytes)),
                Err(Errno::AGAIN | Errno::NOBUFS) => return,
                Err(Errno::INTR) => {}
                Err(error) => self.refused(error, &mut done),
            }
        }
    }

    /// The first message was not taken.
    fn refused(&mut self, error: Errno, done: &mut impl FnMut(Vec<u8>)) {
        let Some(first) = self.waiting.pop_front() else { return };
        match first.segment {
            Some(size) if udp::is_about_segments(error) => {
                self.splitting = Splitting::Ours;
                split(&first, size).into_iter().rev().for_each(|part| self.waiting.push_front(part));
            }
            // One that is too large for the path, or an address that cannot be reached: for the protocol it is lost.
            _ => {}
        }
        done(first.bytes);
    }
}

fn outgoing(message: &Message) -> Outgoing<'_> {
    let segment = message.segment.filter(|size| *size < message.bytes.len());
    Outgoing {
        to: message.to,
        from: message.from,
        ecn: message.ecn,
        segment: segment.map(|size| size as u16),
        bytes: &message.bytes,
    }
}

fn split(message: &Message, size: usize) -> Vec<Message> {
    let part = |bytes: &[u8]| Message { segment: None, bytes: bytes.to_vec(), ..*message };
    message.bytes.chunks(size.max(1)).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::{self, Address, Options};
    use std::os::fd::{AsFd as _, OwnedFd};
    use std::time::{Duration, Instant};

    fn socket(address: &str) -> (OwnedFd, SocketAddr) {
        let fd = listen::bind(&Address::Quic(address.parse().unwrap(), 0), &Options::default()).unwrap();
        let address = listen::local_ip(&fd).unwrap();
        (fd, address)
    }

    /// Waits until so many bytes have come.
    fn gather(fd: &OwnedFd, bytes: usize) -> Vec<(SocketAddr, Option<IpAddr>, u8, Vec<u8>)> {
        let (mut receiver, mut out, begun) = (Receiver::default(), Vec::new(), Instant::now());
        let mut have = 0;
        while have < bytes && begun.elapsed() < Duration::from_secs(10) {
            let each = |one: Received<'_>| {
                have += one.bytes.len();
                out.push((one.from, one.to, one.ecn, one.bytes.to_vec()));
            };
            receiver.receive(fd.as_fd(), each).unwrap();
        }
        out
    }

    #[test]
    fn many_datagrams_are_one_message_and_many_again() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let ((from, from_address), (to, to_address)) = (socket(address), socket(address));
            let mut outbox = Outbox::default();
            let bytes: Vec<u8> = (0..10_500u32).map(|at| (at / 1000) as u8).collect();
            let message = Message { to: to_address, from: None, ecn: 2, segment: Some(1000), bytes };
            outbox.push(message);
            let source = Some(from_address.ip());
            outbox.push(Message {
                to: to_address,
                from: source,
                ecn: 0,
                segment: None,
                bytes: b"alone".to_vec(),
            });
            let mut returned = 0;
            outbox.flush(from.as_fd(), |_| returned += 1);
            assert!(outbox.is_empty() && returned >= 2);
            let came = gather(&to, 10_505);
            assert_eq!(came.len(), 12, "{address}");
            for (at, (sender, local, ecn, bytes)) in came[..11].iter().enumerate() {
                assert_eq!((*sender, *local, *ecn), (from_address, Some(to_address.ip()), 2));
                assert!(bytes.iter().all(|byte| usize::from(*byte) == at));
            }
            assert_eq!((came[11].2, &came[11].3[..]), (0, &b"alone"[..]));
        }
    }

    #[test]
    fn messages_are_split_here_where_the_kernel_cannot() {
        let ((from, _), (to, to_address)) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
        let mut outbox = Outbox { splitting: Splitting::Ours, ..Outbox::default() };
        outbox.push(Message {
            to: to_address,
            from: None,
            ecn: 0,
            segment: Some(3),
            bytes: b"abcdefgh".to_vec(),
        });
        outbox.flush(from.as_fd(), |_| {});
        let came: Vec<Vec<u8>> = gather(&to, 8).into_iter().map(|(_, _, _, bytes)| bytes).collect();
        assert_eq!(came, [b"abc".to_vec(), b"def".to_vec(), b"gh".to_vec()]);
    }

    #[test]
    fn what_cannot_be_sent_does_not_stand_in_the_way() {
        let ((from, _), (to, to_address)) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
        let mut outbox = Outbox::default();
        let message =
            |to, bytes: &[u8]| Message { to, from: None, ecn: 0, segment: None, bytes: bytes.to_vec() };
        outbox.push(message(to_address, &vec![0; 70_000]));
        outbox.push(message("255.255.255.255:9".parse().unwrap(), b"x"));
        outbox.push(message(to_address, b"last"));
        outbox.flush(from.as_fd(), |_| {});
        assert_eq!(gather(&to, 4).pop().unwrap().3, b"last");
    }

    #[test]
    fn packets_go_to_the_socket_that_their_id_names() {
        let (first, address) = socket("127.0.0.1:0");
        let others = [1, 2].map(|at| listen::bind(&Address::Quic(address, at), &Options::default()).unwrap());
        crate::sys::udp::route_by_connection_id(first.as_fd(), 3).unwrap();
        let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let sockets = [&first, &others[0], &others[1]];
        for id in 0..=255u8 {
            let long = [&[0xc0, 0, 0, 0, 1, 8, id][..], &[0; 20]].concat();
            let short = [&[0x40, id][..], &[0; 20]].concat();
            for packet in [long, short] {
                client.send_to(&packet, address).unwrap();
                assert_eq!(gather(sockets[usize::from(id % 3)], packet.len()).len(), 1);
            }
        }
    }
}
