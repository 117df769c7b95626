//! Messages between master and worker, with descriptors, over a private socket pair.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// Descriptors in one packet: the kernel allows 253.
const FDS_MAX: usize = 200;

/// One end of the pair.
pub struct Channel(OwnedFd);

/// A message.
#[derive(Debug)]
pub enum Message {
    /// To the worker: serve this configuration. `payload` is the bundle; then come as many descriptors as the
    /// configuration has new sockets and logs, in its order.
    Configure { generation: u64, payload: Vec<u8>, fds: Vec<OwnedFd> },
    /// To the worker: these files have changed (a bundle), with certificates and keys in them.
    Certificates { payload: Vec<u8> },
    /// To the worker: write to these from now on; `which` are their places in the worker's list of logs.
    Reopen { which: Vec<u32>, fds: Vec<OwnedFd> },
    /// To the worker: an operator's order to its caches.
    Purge { order: String },
    /// To the worker: accept nothing more (it answers when that is so), finish what runs, then end.
    Quit,
    /// To the worker: end now.
    Stop,
    /// From the worker: the last order is carried out.
    Done { generation: u64 },
    /// From the worker: so many entries went of which nothing was on disk.
    Purged { count: u64 },
    /// From the worker: the last order could not be carried out.
    Failed { reason: String },
    /// To the worker: what is in the file that it has asked for.
    File { text: Vec<u8> },
    /// To the worker: why it does not get that file.
    Refused { errno: i32 },
}

impl Channel {
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let (a, b) = net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Channel(a), Channel(b)))
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub fn send(&self, message: &Message) -> io::Result<()> {
        let places: Vec<u8>;
        let (kind, number, payload, fds): (u8, u64, &[u8], &[OwnedFd]) = match message {
            Message::Configure { generation, payload, fds } => (b'c', *generation, payload, fds),
            Message::Reopen { which, fds } => {
                places = which.iter().flat_map(|place| place.to_le_bytes()).collect();
                (b'r', 0, &places, fds)
            }
            Message::Certificates { payload } => (b't', 0, payload, &[]),
            Message::Purge { order } => (b'p', 0, order.as_bytes(), &[]),
            Message::Purged { count } => (b'g', *count, b"", &[]),
            Message::Quit => (b'q', 0, b"", &[]),
            Message::Stop => (b's', 0, b"", &[]),
            Message::Done { generation } => (b'd', *generation, b"", &[]),
            Message::Failed { reason } => (b'f', 0, reason.as_bytes(), &[]),
            Message::File { text } => (b'i', 0, text, &[]),
            Message::Refused { errno } => (b'n', u64::from(errno.unsigned_abs()), b"", &[]),
        };
        let mut head = vec![kind];
        head.extend_from_slice(&number.to_le_bytes());
        head.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        head.extend_from_slice(&(fds.len() as u64).to_le_bytes());
        // The payload may be larger than any packet: it travels as a file in memory.
        let memory = memory_file(payload)?;
        self.packet(&head, &[memory.as_fd()])?;
        for chunk in fds.chunks(FDS_MAX) {
            let borrowed: Vec<_> = chunk.iter().map(AsFd::as_fd).collect();
            self.packet(b"+", &borrowed)?;
        }
        Ok(())
    }

    fn packet(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(fds));
        }
        loop {
            match net::sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn receive_packet(&self, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut slices = [IoSliceMut::new(bytes)];
            match net::recvmsg(&self.0, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Ok(received) => break received.bytes,
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
        Ok((received, fds))
    }

    /// Waits for a message; `None` when the other side is gone.
    pub fn receive(&self) -> io::Result<Option<Message>> {
        let mut head = [0u8; 25];
        let (count, memory) = self.receive_packet(&mut head)?;
        if count == 0 {
            return Ok(None);
        }
        let malformed = || io::Error::other("malformed message between master and worker");
        if count != head.len() {
            return Err(malformed());
        }
        let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        let (value, length, fd_count) = (number(1), number(9) as usize, number(17) as usize);
        let payload = read_memory(memory.first().ok_or_else(malformed)?, length)?;
        let mut fds = Vec::new();
        while fds.len() < fd_count {
            let (count, more) = self.receive_packet(&mut [0u8; 1])?;
            if count == 0 || more.is_empty() {
                return Err(malformed());
            }
            fds.extend(more);
        }
        Ok(Some(match head[0] {
            b'c' => Message::Configure { generation: value, payload, fds },
            b'r' => {
                let (places, _) = payload.as_chunks::<4>();
                Message::Reopen {
                    which: places.iter().map(|place| u32::from_le_bytes(*place)).collect(),
                    fds,
                }
            }
            b't' => Message::Certificates { payload },
            b'p' => Message::Purge { order: String::from_utf8_lossy(&payload).into_owned() },
            b'g' => Message::Purged { count: value },
            b'q' => Message::Quit,
            b's' => Message::Stop,
            b'd' => Message::Done { generation: value },
            b'i' => Message::File { text: payload },
            b'n' => Message::Refused { errno: i32::try_from(value).map_err(|_| malformed())? },
            b'f' => Message::Failed { reason: String::from_utf8_lossy(&payload).into_owned() },
            _ => return Err(malformed()),
        }))
    }
}

fn memory_file(payload: &[u8]) -> io::Result<OwnedFd> {
    let fd = memfd_create("brisk", MemfdFlags::CLOEXEC)?;
    let mut at = 0;
    while at < payload.len() {
        at += rustix::io::pwrite(&fd, &payload[at..], at as u64)?;
    }
    Ok(fd)
}

fn read_memory(fd: &OwnedFd, length: usize) -> io::Result<Vec<u8>> {
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
        let fds: Vec<OwnedFd> = (0..450).map(|_| memory_file(b"x").unwrap()).collect();
        let payload = vec![7u8; 3 << 20];
        a.send(&Message::Configure { generation: 9, payload: payload.clone(), fds }).unwrap();
        let Some(Message::Configure { generation: 9, payload: got, fds }) = b.receive().unwrap() else {
            panic!()
        };
        assert!(got == payload && fds.len() == 450);
        drop(a);
        assert!(b.receive().unwrap().is_none());
    }
}
