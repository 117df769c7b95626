//! Parcels between master and worker, with descriptors, over a private socket pair. What they mean is said in
//! [`crate::orders`] and [`crate::keeper`].

use crate::limits::{PACKET_FDS_MAX, PARCEL_INLINE_BYTES_MAX};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// The kind and five numbers.
const HEAD_BYTES: usize = 41;

/// One end of the pair.
pub struct Channel(OwnedFd);

/// What travels: a kind, the number of the order that it is or answers, and what belongs to it.
#[derive(Debug, Default)]
pub struct Parcel {
    pub kind: u8,
    pub id: u64,
    /// A number of this kind's own.
    pub number: u64,
    /// Nanoseconds of the monotonic clock; 0: none.
    pub until: u64,
    pub payload: Vec<u8>,
    pub fds: Vec<OwnedFd>,
}

/// One message of the socket: a parcel's head with its payload, or more of its descriptors.
struct Packet {
    bytes: Vec<u8>,
    fds: Vec<OwnedFd>,
}

/// A packet as it was received.
struct Came {
    /// How long it was.
    count: usize,
    fds: Vec<OwnedFd>,
    /// There was no room for all of its descriptors in this process: the kernel has closed the others (MSG_CTRUNC).
    is_cut: bool,
}

/// A parcel as it travels, its head first.
fn packets(parcel: Parcel) -> io::Result<Vec<Packet>> {
    let Parcel { kind, id, number, until, payload, fds } = parcel;
    let mut head = Packet { bytes: vec![kind], fds: Vec::new() };
    for number in [id, number, until, payload.len() as u64, fds.len() as u64] {
        head.bytes.extend_from_slice(&number.to_le_bytes());
    }
    if payload.len() <= PARCEL_INLINE_BYTES_MAX {
        head.bytes.extend_from_slice(&payload);
    } else {
        // The payload may be larger than any packet: it travels as a file in memory.
        head.fds.push(memory_file(&payload)?);
    }
    let mut packets = vec![head];
    let mut fds = fds.into_iter();
    loop {
        let chunk: Vec<OwnedFd> = fds.by_ref().take(PACKET_FDS_MAX).collect();
        if chunk.is_empty() {
            return Ok(packets);
        }
        packets.push(Packet { bytes: b"+".to_vec(), fds: chunk });
    }
}

/// What the other side is to get, and what there was no room for: it does not read while it is busy.
#[derive(Default)]
pub struct Outbox(VecDeque<Packet>);

impl Outbox {
    /// Whether everything has left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sends a parcel behind what is here, without waiting. What finds no room stays for [`Outbox::proceed`].
    pub fn post(&mut self, channel: &Channel, parcel: Parcel) -> io::Result<()> {
        self.0.extend(packets(parcel)?);
        self.proceed(channel)
    }

    /// Sends what there is room for by now. After an error nothing is kept: the other side is gone.
    pub fn proceed(&mut self, channel: &Channel) -> io::Result<()> {
        while let Some(packet) = self.0.front() {
            match channel.send_packet(packet, SendFlags::DONTWAIT) {
                Ok(()) => drop(self.0.pop_front()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => {
                    self.0.clear();
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// What [`Channel::try_receive`] has found.
#[derive(Debug)]
pub enum Received {
    Parcel(Parcel),
    /// A parcel with this number, of which nothing is left: this process has no room for its descriptors ([`no_room`]).
    Cut {
        id: u64,
    },
    /// Nothing is there yet.
    Nothing,
    /// The other side is gone.
    Gone,
}

impl Channel {
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let (a, b) = net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Channel(a), Channel(b)))
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Sends a parcel; waits while there is no room for it.
    pub fn send(&self, parcel: Parcel) -> io::Result<()> {
        packets(parcel)?.iter().try_for_each(|packet| self.send_packet(packet, SendFlags::empty()))
    }

    /// The same without waiting. After an error of [`io::ErrorKind::WouldBlock`] a part of the parcel may have left: nothing
    /// that is sent later is understood. What is to be sent later goes through an [`Outbox`].
    pub fn try_send(&self, parcel: Parcel) -> io::Result<()> {
        packets(parcel)?.iter().try_for_each(|packet| self.send_packet(packet, SendFlags::DONTWAIT))
    }

    fn send_packet(&self, packet: &Packet, flags: SendFlags) -> io::Result<()> {
        let fds: Vec<BorrowedFd<'_>> = packet.fds.iter().map(AsFd::as_fd).collect();
        self.packet(&packet.bytes, &fds, SendFlags::NOSIGNAL | flags)
    }

    fn packet(&self, bytes: &[u8], fds: &[BorrowedFd<'_>], flags: SendFlags) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PACKET_FDS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(fds));
        }
        loop {
            match net::sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, flags) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn receive_packet(&self, bytes: &mut [u8], flags: RecvFlags) -> io::Result<Came> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PACKET_FDS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut slices = [IoSliceMut::new(bytes)];
            match net::recvmsg(&self.0, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC | flags) {
                Ok(received) => break received,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        Ok(Came { count: received.bytes, fds, is_cut: received.flags.contains(ReturnFlags::CTRUNC) })
    }

    /// Waits for a parcel; `None` when the other side is gone.
    pub fn receive(&self) -> io::Result<Option<Parcel>> {
        match self.receive_with(RecvFlags::empty())? {
            Received::Parcel(parcel) => Ok(Some(parcel)),
            Received::Cut { .. } => Err(no_room()),
            Received::Nothing | Received::Gone => Ok(None),
        }
    }

    /// A parcel, if one is there.
    pub fn try_receive(&self) -> io::Result<Received> {
        match self.receive_with(RecvFlags::DONTWAIT) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Received::Nothing),
            other => other,
        }
    }

    fn receive_with(&self, flags: RecvFlags) -> io::Result<Received> {
        let mut head = [0u8; HEAD_BYTES + PARCEL_INLINE_BYTES_MAX];
        let Came { count, fds: memory, mut is_cut } = match self.receive_packet(&mut head, flags) {
            // It has ended without having read all that was sent to it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(Received::Gone),
            other => other?,
        };
        if count == 0 {
            return Ok(Received::Gone);
        }
        let malformed = || io::Error::other("malformed message between master and worker");
        if count < HEAD_BYTES {
            return Err(malformed());
        }
        let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        let (id, length, fd_count) = (number(1), number(25) as usize, number(33) as usize);
        let payload = match memory.first() {
            Some(memory) => read_memory(memory, length)?,
            // It was to come as a file.
            None if is_cut => Vec::new(),
            None if count == HEAD_BYTES + length => head[HEAD_BYTES..count].to_vec(),
            None => return Err(malformed()),
        };
        let (mut fds, mut left) = (Vec::new(), fd_count);
        while left > 0 {
            // The rest of a parcel is on its way already.
            let came = match self.receive_packet(&mut [0u8; 1], RecvFlags::empty()) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(Received::Gone),
                other => other?,
            };
            if came.count == 0 {
                // It was killed in the middle.
                return Ok(Received::Gone);
            }
            if !came.is_cut && came.fds.is_empty() {
                return Err(malformed());
            }
            // Each packet but the last one is full. The rest is taken all the same: what follows is another parcel.
            let count = if came.is_cut { PACKET_FDS_MAX } else { came.fds.len() };
            left = left.saturating_sub(count);
            is_cut |= came.is_cut;
            fds.extend(came.fds);
        }
        if is_cut {
            return Ok(Received::Cut { id });
        }
        Ok(Received::Parcel(Parcel { kind: head[0], id, number: number(9), until: number(17), payload, fds }))
    }
}

/// Why a parcel is cut: the process has as many descriptors as it may have.
pub fn no_room() -> io::Error {
    io::Error::from_raw_os_error(libc::EMFILE)
}

/// Sends bytes with a descriptor over a connection.
pub fn send_with_fd(stream: impl AsFd, bytes: &[u8], fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let sent = net::sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Reads what has come over a connection: bytes, of which 0 are its end, and the last descriptor among them.
pub fn receive_with_fd(stream: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(bytes)];
    let received = net::recvmsg(stream, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let mut fd = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fd = rights.last().or(fd);
        }
    }
    Ok((received, fd))
}

impl From<OwnedFd> for Channel {
    fn from(fd: OwnedFd) -> Channel {
        Channel(fd)
    }
}

/// A file in memory with these bytes.
pub fn memory_file(payload: &[u8]) -> io::Result<OwnedFd> {
    let fd = memfd_create("brisk", MemfdFlags::CLOEXEC)?;
    let mut at = 0;
    while at < payload.len() {
        at += rustix::io::pwrite(&fd, &payload[at..], at as u64)?;
    }
    Ok(fd)
}

fn read_memory(fd: &OwnedFd, length: usize) -> io::Result<Vec<u8>> {
    // What the sender claims is no reason to reserve memory.
    if rustix::fs::fstat(fd)?.st_size != length as i64 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut out = vec![0; length];
    let mut at = 0;
    while at < length {
        match rustix::io::pread(fd, &mut out[at..], at as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => at += count,
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_descriptors_and_bytes_arrive() {
        let (a, b) = Channel::pair().unwrap();
        assert!(matches!(b.try_receive().unwrap(), Received::Nothing));
        let fds: Vec<OwnedFd> = (0..450).map(|_| memory_file(b"x").unwrap()).collect();
        let payload = vec![7u8; 3 << 20];
        let parcel = Parcel { kind: b'c', id: 8, number: 9, until: 10, payload: payload.clone(), fds };
        a.send(parcel).unwrap();
        let Received::Parcel(got) = b.try_receive().unwrap() else { panic!() };
        assert_eq!((got.kind, got.id, got.number, got.until), (b'c', 8, 9, 10));
        assert!(got.payload == payload && got.fds.len() == 450);
        drop(a);
        assert!(b.receive().unwrap().is_none() && matches!(b.try_receive().unwrap(), Received::Gone));
    }

    /// A sender that was killed in the middle of a parcel, or before it has read what was sent to it, is gone: nothing is wrong.
    #[test]
    fn a_sender_that_is_killed_is_gone() {
        let (a, b) = Channel::pair().unwrap();
        let mut head = vec![0; HEAD_BYTES];
        head[33] = 1;
        a.packet(&head, &[], SendFlags::NOSIGNAL).unwrap();
        drop(a);
        assert!(matches!(b.try_receive().unwrap(), Received::Gone));
        let (a, b) = Channel::pair().unwrap();
        b.send(Parcel::default()).unwrap();
        drop(a);
        assert!(matches!(b.try_receive().unwrap(), Received::Gone));
    }

    /// What lies at the border between the two ways of a payload arrives whole.
    #[test]
    fn payloads_of_all_sizes_arrive() {
        let (a, b) = Channel::pair().unwrap();
        for length in
            [0, 1, PARCEL_INLINE_BYTES_MAX - 1, PARCEL_INLINE_BYTES_MAX, PARCEL_INLINE_BYTES_MAX + 1]
        {
            let payload = vec![b'p'; length];
            a.send(Parcel { payload: payload.clone(), ..Parcel::default() }).unwrap();
            assert_eq!(b.receive().unwrap().unwrap().payload, payload);
        }
        a.packet(&[0; HEAD_BYTES + 1], &[], SendFlags::NOSIGNAL).unwrap();
        assert!(b.receive().is_err());
    }

    /// A reader that has stopped does not hold up the sender.
    #[test]
    fn sending_without_waiting_ends_when_there_is_no_room() {
        let (a, _b) = Channel::pair().unwrap();
        let full = (0..100_000).find_map(|_| a.try_send(Parcel::default()).err()).unwrap();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    }

    /// Orders to a worker that does not read for a while all come to it, whole and in their order, though some have descriptors.
    #[test]
    fn what_finds_no_room_is_sent_later() {
        let (a, b) = Channel::pair().unwrap();
        let mut outbox = Outbox::default();
        let mut posted = 0;
        while outbox.0.len() < 5 {
            let fds = (0..posted % 3).map(|_| memory_file(b"x").unwrap()).collect();
            outbox.post(&a, Parcel { id: posted, fds, ..Parcel::default() }).unwrap();
            posted += 1;
        }
        for id in 0..posted {
            // There is room for what a parcel lacks as soon as its beginning was taken.
            let parcel = loop {
                outbox.proceed(&a).unwrap();
                let waiting = std::thread::scope(|scope| {
                    let waiting = scope.spawn(|| b.try_receive().unwrap());
                    while !waiting.is_finished() {
                        outbox.proceed(&a).unwrap();
                    }
                    waiting.join().unwrap()
                });
                if let Received::Parcel(parcel) = waiting {
                    break parcel;
                }
            };
            assert_eq!((parcel.id, parcel.fds.len() as u64), (id, id % 3));
        }
        assert!(outbox.is_empty() && matches!(b.try_receive().unwrap(), Received::Nothing));
        drop(b);
        assert!(outbox.post(&a, Parcel::default()).is_err() && outbox.is_empty());
    }
}
