//! The way of packets between worker processes of one server.
//!
//! While one worker replaces another (an upgrade, another number of threads, a crash) both have the same sockets, and each packet
//! comes to one of them. The connection ID tells the worker whose connection it is; a packet for another one is sent to that
//! one's own socket, an abstract unix socket whose name is made of the master's secret. A worker that has begun to serve tells the
//! others that it is their successor: from then on they leave new connections to it.
//!
//! Everybody on the machine can see the names (/proc/net/unix) and send there, and can bind the name of a worker that has ended.
//! So each message bears a mark that only the master's secret makes, of the worker that it is for and of the time: without one,
//! a local user could send packets with any sender's address, or draw new connections to a socket of their own.

use super::parcel::Parcel;
use crate::limits::{PARCEL_AGE_MS_MAX, PARCEL_BYTES_MAX};
use brisk_net::clock;
use brisk_quic::{MARK_BYTES, Route, Seal, derive};
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicU8, Ordering};

/// Two bits of the connection ID name the worker.
/// Two bits, since the other bits name the thread and carry what cannot be guessed.
pub(crate) const GENERATIONS: u8 = 4;
/// No successor is known.
const NOBODY: u8 = u8::MAX;
/// What a message is, by its first byte.
const PACKETS: u8 = b'p';
const SUCCESSOR: u8 = b's';
const RETIRED: u8 = b'r';

/// A message's mark, the worker that it is for, and the time.
/// The time is in the mark, so a message that was recorded cannot be sent again later.
const HEAD_BYTES: usize = MARK_BYTES + 1 + 8;
/// What a message has at most. One that were cut off would not fit its mark, and all its packets were lost.
const MESSAGE_BYTES: usize = HEAD_BYTES + 1 + PARCEL_BYTES_MAX;

/// What has come from another worker.
#[derive(Debug)]
pub(crate) enum Message {
    /// Packets for this worker's connections, or for a new one.
    Packets(Parcel),
    /// Another worker serves what comes new, from now on.
    Successor,
    /// Said and done here.
    Nothing,
}

/// This worker's place among those of one server.
pub(crate) struct Passage {
    socket: UnixDatagram,
    seal: Seal,
    generation: u8,
    names: Vec<SocketAddr>,
    successor: AtomicU8,
}

impl Passage {
    /// Takes the first generation that no living worker has. The error says that there is none, or what the system has against it.
    pub fn open(secret: &[u8; 32]) -> io::Result<Passage> {
        // From the master's secret: workers of another server on the machine have other names.
        let name = |generation: u8| {
            let label = [b"worker".as_slice(), &[generation]].concat();
            let secret = derive(secret, &label);
            let number = secret.first_chunk().map_or(0, |half| u128::from_le_bytes(*half));
            SocketAddr::from_abstract_name(format!("brisk-quic-{number:032x}"))
        };
        let names = (0..GENERATIONS).map(name).collect::<io::Result<Vec<_>>>()?;
        // A name that is taken belongs to a worker that still lives. With its last descriptor the kernel
        // frees it.
        for (generation, name) in (0..).zip(&names) {
            match UnixDatagram::bind_addr(name) {
                Ok(socket) => {
                    socket.set_nonblocking(true)?;
                    let (seal, successor) = (Seal::new(secret, b"passage"), AtomicU8::new(NOBODY));
                    return Ok(Passage { socket, seal, generation, names, successor });
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("too many worker processes are ending"))
    }

    /// This worker's generation, which its connection IDs bear.
    pub fn generation(&self) -> u8 {
        self.generation
    }

    /// A descriptor of the socket, to be watched.
    pub fn fd(&self) -> io::Result<std::os::fd::OwnedFd> {
        Ok(self.socket.try_clone()?.into())
    }

    /// Tells the other workers that this one serves what comes new.
    pub fn announce(&self) {
        self.tell(SUCCESSOR);
    }

    /// Tells the other workers that this one takes nothing new any more.
    pub fn retire(&self) {
        self.tell(RETIRED);
    }

    fn tell(&self, what: u8) {
        for generation in (0..GENERATIONS).filter(|other| *other != self.generation) {
            // Most of them do not exist.
            // It is only a notice: a worker that is not told goes on as before.
            let _ = self.send(generation, &[&[what, self.generation]]);
        }
    }

    fn send(&self, generation: u8, parts: &[&[u8]]) -> io::Result<usize> {
        let Some(name) = self.names.get(usize::from(generation)) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        self.socket.send_to_addr(&self.sealed(generation, clock::precise_us() / 1000, parts), name)
    }

    /// A message as it travels.
    fn sealed(&self, generation: u8, now_ms: u64, parts: &[&[u8]]) -> Vec<u8> {
        let mut message = vec![0; MARK_BYTES];
        message.push(generation);
        message.extend_from_slice(&now_ms.to_le_bytes());
        parts.iter().for_each(|part| message.extend_from_slice(part));
        // Over everything behind it, the worker that it is for included: a message for another one cannot be
        // replayed here.
        let mark = self.seal.mark(&message[MARK_BYTES..]);
        message[..MARK_BYTES].copy_from_slice(&mark);
        message
    }

    /// What a message says, if it is of a worker of this server, for this one, and of this time.
    fn unsealed(&self, mut message: Vec<u8>, now_ms: u64) -> Option<Vec<u8>> {
        let (mark, rest) = message.split_at_checked(MARK_BYTES)?;
        // The mark last, since it costs the most.
        let (time, is_for_this) = (rest.get(1..9)?, *rest.first()? == self.generation);
        let age_ms = now_ms.abs_diff(u64::from_le_bytes(time.try_into().ok()?));
        if !is_for_this || age_ms > PARCEL_AGE_MS_MAX || !self.seal.fits(rest, mark) {
            return None;
        }
        message.drain(..HEAD_BYTES);
        Some(message)
    }

    /// The worker that serves what comes new, if it is another one that is known.
    pub fn successor(&self) -> Option<u8> {
        Some(self.successor.load(Ordering::Relaxed)).filter(|one| *one != NOBODY)
    }

    /// The worker that a packet is for, if it is another one that may be there. `key`: that of connection IDs.
    pub fn destination(&self, route: &Route, key: &[u8; 16]) -> Option<u8> {
        // Long headers begin connections (RFC 9000 §17.2). Short ones belong to a connection that somebody
        // has.
        let successor = self.successor().filter(|_| route.is_long);
        // The common case, without decrypting the ID.
        if route.claimed() == Some(self.generation) && successor.is_none() {
            return None;
        }
        match route.generation(key) {
            Some(generation) => Some(generation).filter(|one| *one != self.generation),
            None => successor,
        }
    }

    /// Sends packets to another worker; false if there is none of this generation: then they are this one's to answer.
    pub fn pass(&self, generation: u8, parcel: &Parcel) -> bool {
        match self.send(generation, &[&[PACKETS], parcel.bytes()]) {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) =>
            // Its socket is gone, so it has ended.
            {
                self.forget(generation);
                false
            }
            // No room in its socket: lost, as by a network.
            Ok(_) | Err(_) => true,
        }
    }

    /// New connections are left to this worker no more.
    fn forget(&self, generation: u8) {
        let _ = self.successor.compare_exchange(generation, NOBODY, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// What another worker has sent; `None` if nothing waits.
    pub fn receive(&self) -> Option<Message> {
        let mut bytes = vec![0; MESSAGE_BYTES];
        let count = self.socket.recv(&mut bytes).ok()?;
        bytes.truncate(count);
        let Some(mut bytes) = self.unsealed(bytes, clock::precise_us() / 1000) else {
            return Some(Message::Nothing);
        };
        Some(match bytes.first() {
            Some(&PACKETS) => {
                bytes.remove(0);
                Message::Packets(Parcel::of(bytes))
            }
            Some(&what @ (SUCCESSOR | RETIRED)) => {
                // A generation that cannot be is none.
                let known = bytes.get(1).filter(|one| **one < GENERATIONS && **one != self.generation);
                match known {
                    Some(&generation) if what == SUCCESSOR => {
                        self.successor.store(generation, Ordering::Relaxed);
                        return Some(Message::Successor);
                    }
                    Some(&generation) => self.forget(generation),
                    None => {}
                }
                Message::Nothing
            }
            _ => Message::Nothing,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::parcel::Packet;

    const KEY: [u8; 16] = [3; 16];

    /// Names are the machine's, so each run of a test has its own.
    fn secret(test: u8) -> [u8; 32] {
        let mut secret = [test; 32];
        secret[..4].copy_from_slice(&std::process::id().to_le_bytes());
        secret
    }

    fn initial(first: u8) -> Vec<u8> {
        [&[0xc0, 0, 0, 0, 1, 20][..], &[first; 20], &[0; 30]].concat()
    }

    #[test]
    fn workers_find_each_other() {
        let secret = secret(9);
        let old = Passage::open(&secret).unwrap();
        let new = Passage::open(&secret).unwrap();
        assert_eq!((old.generation(), new.generation()), (0, 1));
        let opening = brisk_quic::route(&initial(5)).unwrap();
        assert_eq!(old.destination(&opening, &KEY), None);
        new.announce();
        assert!(matches!(old.receive(), Some(Message::Successor)));
        assert_eq!(old.destination(&opening, &KEY), Some(1), "new connections are the successor's");
        assert_eq!(new.destination(&opening, &KEY), None);
        // A packet of a connection whose ID is nobody's stays: it may be answered by a reset.
        let stranger = brisk_quic::route(&[0x40, 1, 0xff, 3, 4, 5, 6, 7, 8, 9]).unwrap();
        assert_eq!(old.destination(&stranger, &KEY), None);
        let mut parcel = Parcel::default();
        let at = "127.0.0.1:443".parse().unwrap();
        let bytes = initial(5);
        assert!(parcel.push(&Packet { listening: at, remote: at, local: None, ecn: None, bytes: &bytes }));
        assert!(old.pass(1, &parcel));
        let Some(Message::Packets(came)) = new.receive() else { panic!() };
        assert_eq!(came.packets().next().unwrap().bytes, bytes);
        new.retire();
        assert!(matches!(old.receive(), Some(Message::Nothing)));
        assert_eq!(old.destination(&opening, &KEY), None);
        new.announce();
        old.receive();
        // It did not last: what comes new is the old one's again.
        drop(new);
        assert!(!old.pass(1, &parcel));
        assert_eq!(old.destination(&opening, &KEY), None);
    }

    #[test]
    fn the_largest_parcel_arrives_whole() {
        let secret = secret(13);
        let old = Passage::open(&secret).unwrap();
        let new = Passage::open(&secret).unwrap();
        let at = "[2001:db8::1]:443".parse().unwrap();
        // From small packets to one that fills a parcel nearly alone, as somebody may send to a worker that is replaced.
        for len in [1, 1200, 9000, 40_000, 49_000] {
            let mut bytes = vec![7; len];
            let mut parcel = Parcel::default();
            let mut push = |bytes: &[u8]| {
                parcel.push(&Packet { listening: at, remote: at, local: Some(at), ecn: None, bytes })
            };
            let mut count = 0;
            while !bytes.is_empty() {
                // The rest is filled up with smaller ones.
                if push(&bytes) {
                    count += 1;
                } else {
                    bytes.truncate(bytes.len() / 2);
                }
            }
            assert!(parcel.bytes().len() + 62 > PARCEL_BYTES_MAX, "{len}");
            assert!(old.pass(1, &parcel));
            let Some(Message::Packets(came)) = new.receive() else { panic!("{len}") };
            assert_eq!(came.packets().count(), count, "{len}");
            assert_eq!(came.bytes(), parcel.bytes(), "{len}");
        }
    }

    #[test]
    fn strangers_are_not_heard() {
        let secret = secret(12);
        let old = Passage::open(&secret).unwrap();
        let new = Passage::open(&secret).unwrap();
        let says = [SUCCESSOR, 1];
        let now_ms = clock::precise_us() / 1000;
        let stranger = UnixDatagram::unbound().unwrap();
        let good = new.sealed(0, now_ms, &[&says]);
        let mut other_worker = good.clone();
        other_worker[HEAD_BYTES + 1] = 2;
        let too_old = new.sealed(0, now_ms - PARCEL_AGE_MS_MAX - 1, &[&says]);
        let for_another = new.sealed(3, now_ms, &[&says]);
        let unmarked = says.to_vec();
        let opening = brisk_quic::route(&initial(5)).unwrap();
        for message in [other_worker, too_old, for_another, unmarked, Vec::new(), good[..20].to_vec()] {
            stranger.send_to_addr(&message, &old.names[0]).unwrap();
            assert!(matches!(old.receive(), Some(Message::Nothing)));
            assert_eq!(old.destination(&opening, &KEY), None);
        }
        stranger.send_to_addr(&good, &old.names[0]).unwrap();
        old.receive();
        assert_eq!(old.destination(&opening, &KEY), Some(1));
    }

    #[test]
    fn four_workers_at_a_time() {
        let (secret, others) = (secret(10), secret(11));
        let all: Vec<Passage> = (0..4).map(|_| Passage::open(&secret).unwrap()).collect();
        assert!(Passage::open(&secret).is_err());
        let other = Passage::open(&others).unwrap();
        assert_eq!(other.generation(), 0, "another server's workers are not in the way");
        drop(all);
        assert_eq!(Passage::open(&secret).unwrap().generation(), 0);
    }
}
