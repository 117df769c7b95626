//! Datagrams by the dozen: received into one arena, sent in one call per wake-up.
//!
//! The kernel puts datagrams of one sender together (GRO) and splits what is to be sent (GSO), so that a call costs once for
//! many. What a datagram means is not known here.

use crate::clock;
use crate::limits::{
    BATCH_BYTES_MAX, MESSAGE_BYTES_MAX, MESSAGES_MAX, OUTBOX_BYTES_MAX, OUTBOX_MESSAGES_MAX,
    RECEIVE_ROOM_BYTES, SEGMENT_BYTES_MAX, SEGMENTED_BYTES_MAX, SEGMENTS_MAX, SPLITTING_MS,
};
pub use crate::sys::udp::gather;
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

/// Readies a client's socket for QUIC as servers' are: nothing is fragmented on the way, congestion marks are told, and what comes at
/// once is put together. `has_room`: megabytes may wait in it. What the system refuses it refuses.
pub fn prepare_client(fd: BorrowedFd<'_>, is_v6: bool, has_room: bool) {
    let _ = udp::prepare_datagrams(fd, is_v6);
    if has_room {
        udp::set_receive_room(fd, RECEIVE_ROOM_BYTES);
    }
}

impl Receiver {
    /// Takes what waits in a socket, as far as one call gives it, and hands over each datagram. What is said there of datagrams that
    /// were sent is no error: what waits is none the worse.
    pub fn receive(&mut self, fd: BorrowedFd<'_>, each: impl FnMut(Received<'_>)) -> io::Result<Looked> {
        match self.look(fd, MESSAGES_MAX, each) {
            Err(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH) => {
                Ok(Looked { has_more: true, dropped: None })
            }
            done => Ok(done?),
        }
    }

    /// The same, for at most so many messages, of which each may be several datagrams where the socket [gathers](gather) them. An ICMP
    /// message about something that was sent is an error.
    pub fn receive_some(
        &mut self,
        fd: BorrowedFd<'_>,
        messages: usize,
        each: impl FnMut(Received<'_>),
    ) -> io::Result<Looked> {
        Ok(self.look(fd, messages.clamp(1, MESSAGES_MAX), each)?)
    }

    fn look(
        &mut self,
        fd: BorrowedFd<'_>,
        messages: usize,
        mut each: impl FnMut(Received<'_>),
    ) -> rustix::io::Result<Looked> {
        if self.arena.is_empty() {
            // Not by `resize`, which would write to all of it.
            self.arena = vec![0; MESSAGES_MAX * MESSAGE_BYTES_MAX];
        }
        self.messages.clear();
        let room = &mut self.arena[..messages * MESSAGE_BYTES_MAX];
        let count = match udp::receive_datagrams(fd, room, MESSAGE_BYTES_MAX, &mut self.messages) {
            Ok(count) => count,
            Err(Errno::AGAIN) => return Ok(Looked { has_more: false, dropped: None }),
            Err(Errno::INTR) => return Ok(Looked { has_more: true, dropped: None }),
            Err(error) => return Err(error),
        };
        for (message, room) in self.messages.iter().zip(self.arena.chunks_exact(MESSAGE_BYTES_MAX)) {
            let Some(from) = message.from else { continue };
            let mut hand = |bytes: &[u8]| each(Received { from, to: message.to, ecn: message.ecn, bytes });
            match &room[..message.len] {
                // A datagram without payload is one.
                [] => hand(&[]),
                bytes => bytes.chunks(message.segment.unwrap_or(MESSAGE_BYTES_MAX)).for_each(hand),
            }
        }
        let dropped = self.messages.iter().rev().find_map(|message| message.dropped);
        Ok(Looked { has_more: count == messages, dropped })
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
    /// Of their payloads.
    bytes: usize,
    splitting: Splitting,
    dropped: u64,
}

/// Who splits messages into datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Splitting {
    #[default]
    Kernel,
    /// The kernel, the interface or the path of one of the messages could not. Until then (monotonic, ms): with others it may.
    Ours { until_ms: u64 },
}

impl Splitting {
    fn ours() -> Splitting {
        Splitting::Ours { until_ms: clock::mono_ms() + SPLITTING_MS }
    }

    fn is_ours(self) -> bool {
        match self {
            Splitting::Kernel => false,
            Splitting::Ours { until_ms } => clock::mono_ms() < until_ms,
        }
    }
}

impl Outbox {
    /// Takes a message. It leaves with [`Outbox::flush`].
    pub fn push(&mut self, message: Message) {
        if self.waiting.len() >= OUTBOX_MESSAGES_MAX {
            self.dropped += 1;
            return;
        }
        self.bytes += message.bytes.len();
        match message.segment.filter(|_| self.splitting.is_ours()) {
            Some(size) => self.waiting.extend(split(&message, size)),
            None => self.waiting.push_back(message),
        }
    }

    /// Whether what waits is to leave before more is pushed: it has as many bytes as it may have, or another message would be dropped.
    pub fn is_full(&self) -> bool {
        self.bytes >= OUTBOX_BYTES_MAX || self.waiting.len() >= OUTBOX_MESSAGES_MAX
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
            match udp::send_datagrams(fd, self.waiting.iter().map(outgoing)) {
                Ok(count) => {
                    for message in self.waiting.drain(..count) {
                        self.bytes -= message.bytes.len();
                        done(message.bytes);
                    }
                }
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
                self.splitting = Splitting::ours();
                split(&first, size).into_iter().rev().for_each(|part| self.waiting.push_front(part));
            }
            // One that is too large for the path, or an address that cannot be reached: for the protocol it is lost.
            _ => self.bytes -= first.bytes.len(),
        }
        done(first.bytes);
    }
}

fn outgoing(message: &Message) -> Outgoing<'_> {
    let segment = message.segment.filter(|size| *size < message.bytes.len());
    Outgoing {
        to: Some(message.to),
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

/// Datagrams of one session to one address, in their order: copied one behind another, and sent in as few calls as there can be. Those
/// of one size that follow each other are one message, which the kernel splits, as far as it can: that it cannot is concluded until the batch
/// is cleared for another session, of another path. It never waits: what the socket has no room for is
/// lost, as on any way.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    pieces: VecDeque<Piece>,
    /// The kernel could not split messages.
    is_split: bool,
}

/// A message of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    /// Where its bytes begin and how many they are.
    at: usize,
    len: usize,
    /// Bytes of each of its datagrams but the last, which may be smaller.
    size: usize,
}

impl Piece {
    /// Whether another datagram may follow in the same message.
    fn takes(&self, len: usize) -> bool {
        let is_whole = self.size > 0 && self.len.is_multiple_of(self.size);
        is_whole
            && (1..=self.size).contains(&len)
            && self.size <= SEGMENT_BYTES_MAX
            && self.len / self.size < SEGMENTS_MAX
            && self.len + len <= SEGMENTED_BYTES_MAX
    }
}

impl Batch {
    /// Takes a copy of a datagram; false if it has to be sent first.
    #[must_use]
    pub fn push(&mut self, datagram: &[u8]) -> bool {
        let (at, len) = (self.bytes.len(), datagram.len());
        if at > 0 && at + len > BATCH_BYTES_MAX {
            return false;
        }
        let is_full = self.pieces.len() >= MESSAGES_MAX;
        match self.pieces.back_mut() {
            Some(last) if !self.is_split && last.takes(len) => last.len += len,
            _ if is_full => return false,
            _ => self.pieces.push_back(Piece { at, len, size: len }),
        }
        self.bytes.extend_from_slice(datagram);
        true
    }

    /// Whether there is nothing to be sent.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Gives up what was pushed, and is another session's.
    pub fn clear(&mut self) {
        self.empty();
        self.is_split = false;
    }

    fn empty(&mut self) {
        self.pieces.clear();
        self.bytes.clear();
    }

    /// Sends all of it, to where the socket is connected to if no address is given, from an address that the kernel chooses if none is
    /// given; `sent` is told the bytes of each message that has left. An error is that of a message which is given up: call it again for
    /// those behind it.
    pub fn send(
        &mut self,
        fd: BorrowedFd<'_>,
        to: Option<SocketAddr>,
        from: Option<IpAddr>,
        mut sent: impl FnMut(usize),
    ) -> io::Result<()> {
        while let Some(first) = self.pieces.front().copied() {
            let message = |piece: &Piece| Outgoing {
                to,
                from,
                ecn: 0,
                segment: (piece.len > piece.size).then_some(piece.size as u16),
                bytes: &self.bytes[piece.at..piece.at + piece.len],
            };
            match udp::send_datagrams(fd, self.pieces.iter().map(message)) {
                Ok(count) => self.pieces.drain(..count).for_each(|piece| sent(piece.len)),
                Err(Errno::AGAIN | Errno::NOBUFS) => break,
                Err(Errno::INTR) => {}
                Err(error) if first.len > first.size && udp::is_about_segments(error) => {
                    self.is_split = true;
                    self.split();
                }
                Err(error) => {
                    self.pieces.pop_front();
                    return Err(error.into());
                }
            }
        }
        self.empty();
        Ok(())
    }

    /// Makes a message of each datagram.
    fn split(&mut self) {
        let parts = |piece: Piece| {
            let starts = (0..piece.len.max(1)).step_by(piece.size.max(1));
            let part = move |start: usize| {
                let len = piece.size.min(piece.len - start);
                Piece { at: piece.at + start, len, size: len }
            };
            starts.map(part)
        };
        self.pieces = std::mem::take(&mut self.pieces).into_iter().flat_map(parts).collect();
    }
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
    fn gather_all(fd: &OwnedFd, bytes: usize) -> Vec<(SocketAddr, Option<IpAddr>, u8, Vec<u8>)> {
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
            let came = gather_all(&to, 10_505);
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
        let mut outbox = Outbox { splitting: Splitting::ours(), ..Outbox::default() };
        outbox.push(Message {
            to: to_address,
            from: None,
            ecn: 0,
            segment: Some(3),
            bytes: b"abcdefgh".to_vec(),
        });
        assert_eq!(outbox.waiting.len(), 3);
        outbox.flush(from.as_fd(), |_| {});
        let came: Vec<Vec<u8>> = gather_all(&to, 8).into_iter().map(|(_, _, _, bytes)| bytes).collect();
        assert_eq!(came, [b"abc".to_vec(), b"def".to_vec(), b"gh".to_vec()]);
    }

    /// Bytes are counted through all that can become of a message.
    #[test]
    fn an_outbox_is_full_by_bytes_and_empty_when_they_have_left() {
        let ((from, _), (to, to_address)) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
        for splitting in [Splitting::Kernel, Splitting::ours()] {
            let mut outbox = Outbox { splitting, ..Outbox::default() };
            let message =
                |to, len: usize| Message { to, from: None, ecn: 0, segment: Some(1000), bytes: vec![0; len] };
            for count in 1.. {
                outbox.push(message(to_address, 40_000));
                let is_full =
                    count * 40_000 >= OUTBOX_BYTES_MAX || outbox.waiting.len() >= OUTBOX_MESSAGES_MAX;
                assert_eq!(outbox.is_full(), is_full, "{splitting:?} {count}");
                if is_full {
                    break;
                }
            }
            let begun = Instant::now();
            while !outbox.is_empty() && begun.elapsed() < Duration::from_secs(10) {
                outbox.flush(from.as_fd(), |_| {});
                gather_all(&to, 1);
            }
            assert_eq!((outbox.bytes, outbox.dropped()), (0, 0), "{splitting:?}");
        }
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
        assert_eq!(gather_all(&to, 4).pop().unwrap().3, b"last");
    }

    /// What a batch makes of datagrams of these sizes, as sizes of messages.
    fn messages(batch: &mut Batch, sizes: &[usize]) -> Vec<(usize, usize)> {
        batch.clear();
        for (at, size) in (0..).zip(sizes) {
            assert!(batch.push(&vec![at; *size]));
        }
        batch.pieces.iter().map(|piece| (piece.len, piece.size)).collect()
    }

    #[test]
    fn datagrams_of_one_size_are_one_message() {
        let mut batch = Batch::default();
        let mut check = |sizes: &[usize], want: &[(usize, usize)]| {
            assert_eq!(messages(&mut batch, sizes), want, "{sizes:?}");
        };
        check(&[5, 5, 5], &[(15, 5)]);
        // A smaller one is the last of its message.
        check(&[5, 5, 3, 5, 5], &[(13, 5), (10, 5)]);
        check(&[5, 6], &[(5, 5), (6, 6)]);
        check(&[5, 0, 0, 5], &[(5, 5), (0, 0), (0, 0), (5, 5)]);
        // What may be cut into fragments on its way leaves alone.
        check(&[SEGMENT_BYTES_MAX; 2], &[(2 * SEGMENT_BYTES_MAX, SEGMENT_BYTES_MAX)]);
        check(&[SEGMENT_BYTES_MAX + 1; 2], &[(SEGMENT_BYTES_MAX + 1, SEGMENT_BYTES_MAX + 1); 2]);
        check(&[1; SEGMENTS_MAX + 1], &[(SEGMENTS_MAX, 1), (1, 1)]);
    }

    #[test]
    fn a_batch_has_bounds() {
        let mut batch = Batch::default();
        let count = (0..10_000).take_while(|&at: &usize| batch.push(&vec![0; 1 + at % 2])).count();
        // Sizes that rise begin another message each.
        assert_eq!(count, 2 * MESSAGES_MAX - 1);
        batch.clear();
        let count = (0..10_000).take_while(|_| batch.push(&vec![0; 60_000])).count();
        assert_eq!(count, BATCH_BYTES_MAX / 60_000);
        assert!(batch.bytes.len() <= BATCH_BYTES_MAX);
    }

    #[test]
    fn datagrams_of_a_batch_arrive_as_they_were() {
        let sizes = [700, 700, 700, 20, 700, 0, 1, 9000, 9000, 700, 700];
        for is_split in [false, true] {
            let ((from, _), (to, to_address)) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
            let mut batch = Batch { is_split, ..Batch::default() };
            (0u8..).zip(sizes).for_each(|(at, size)| assert!(batch.push(&vec![at; size])));
            let mut sent = 0;
            batch.send(from.as_fd(), Some(to_address), None, |bytes| sent += bytes).unwrap();
            assert!(batch.is_empty() && sent == sizes.iter().sum::<usize>());
            let came = gather_all(&to, sent);
            let want: Vec<Vec<u8>> = (0u8..).zip(sizes).map(|(at, size)| vec![at; size]).collect();
            assert_eq!(came.into_iter().map(|one| one.3).collect::<Vec<_>>(), want, "{is_split}");
        }
    }

    #[test]
    fn a_batch_is_split_where_the_kernel_cannot() {
        let mut batch = Batch::default();
        let sizes = [4, 4, 2, 0, 7];
        assert_eq!(messages(&mut batch, &sizes), [(10, 4), (0, 0), (7, 7)]);
        batch.split();
        let pieces: Vec<(usize, usize)> = batch.pieces.iter().map(|piece| (piece.at, piece.len)).collect();
        assert_eq!(pieces, [(0, 4), (4, 4), (8, 2), (10, 0), (10, 7)]);
    }

    /// One path may have room for less than others.
    #[test]
    fn that_the_kernel_cannot_split_is_not_concluded_for_ever() {
        let mut batch = Batch { is_split: true, ..Batch::default() };
        assert!(batch.push(b"ab") && batch.push(b"cd"));
        assert_eq!(batch.pieces.len(), 2);
        // As of another session.
        assert_eq!(messages(&mut batch, &[2, 2]), [(4, 2)]);
        let now_ms = clock::mono_ms();
        let is_ours = |until_ms| Splitting::Ours { until_ms }.is_ours();
        assert!(is_ours(now_ms + 10_000) && !is_ours(now_ms) && !Splitting::Kernel.is_ours());
        assert!(Splitting::ours().is_ours());
    }

    #[test]
    fn what_a_batch_cannot_send_is_told_and_the_rest_leaves() {
        let ((from, _), (to, to_address)) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
        let mut batch = Batch::default();
        assert!(batch.push(&vec![0; 65_535]) && batch.push(b"last"));
        let mut sent = 0;
        assert!(batch.send(from.as_fd(), Some(to_address), None, |bytes| sent += bytes).is_err());
        batch.send(from.as_fd(), Some(to_address), None, |bytes| sent += bytes).unwrap();
        assert_eq!((sent, gather_all(&to, 4).pop().unwrap().3), (4, b"last".to_vec()));
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
                assert_eq!(gather_all(sockets[usize::from(id % 3)], packet.len()).len(), 1);
            }
        }
    }
}
