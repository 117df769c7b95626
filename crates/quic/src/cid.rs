//! Connection IDs: eight bytes that say which thread of which worker process a packet is for.
//!
//! Byte 0 modulo the number of threads is the thread, so that a program of a few instructions in the kernel can route
//! packets; clients choose the first ID at random, which spreads them. The upper two bits of byte 1 are the worker's generation.
//! Bytes 6 and 7 are a keyed check of the others: garbage is known for what it is by a hash, and no stateless reset answers it.
//! The thread's number can be seen on the wire (RFC 9000 §5.1 allows it).

use crate::limits::THREADS_MAX;
use aws_lc_rs::rand;
use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};
use siphasher::sip::SipHasher13;
use std::hash::Hasher as _;
use std::time::Duration;

/// Bytes of our connection IDs.
pub const CID_BYTES: usize = 8;
/// The check's first byte.
const CHECK: usize = 6;

/// Whose connections an endpoint has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The thread, from 0.
    pub thread: usize,
    /// Threads of the process, at most [`THREADS_MAX`] of which have connections.
    pub threads: usize,
    /// The worker process by its number since the start of the master; two bits of it are used.
    pub generation: u8,
}

/// Where a datagram belongs, by the connection ID of its first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Byte 0 of the connection ID; modulo the number of threads it is the thread.
    pub first: u8,
    /// It has a long header: the connection's handshake is under way, or about to begin.
    pub is_long: bool,
    /// The ID, if it is as long as ours are.
    cid: Option<[u8; CID_BYTES]>,
}

impl Route {
    /// The thread of a process with so many threads.
    pub fn thread(&self, threads: usize) -> usize {
        usize::from(self.first) % threads.clamp(1, THREADS_MAX)
    }

    /// The ID, if it is as long as ours are.
    pub(crate) fn cid(&self) -> Option<ConnectionId> {
        self.cid.map(|cid| ConnectionId::new(&cid))
    }

    /// The worker's generation that the ID names, whether or not it is one of ours.
    pub fn claimed(&self) -> Option<u8> {
        self.cid.map(|cid| cid[1] >> 6)
    }

    /// The worker's generation, if the ID is one of ours: a hash. `key` as in [`Keys`](crate::Keys).
    pub fn generation(&self, key: &[u8; 16]) -> Option<u8> {
        self.claimed().filter(|_| self.cid.is_some_and(|cid| is_valid(&cid, key)))
    }
}

/// Reads the destination of a datagram's first packet; `None` for what is too short to be one.
pub fn route(datagram: &[u8]) -> Option<Route> {
    let is_long = datagram.first()? & 0x80 != 0;
    let cid = if is_long {
        // RFC 8999 §5.1: flags, version, length of the ID.
        let len = usize::from(*datagram.get(5)?);
        datagram.get(6..6 + len)?
    } else {
        datagram.get(1..=CID_BYTES)?
    };
    Some(Route { first: *cid.first()?, is_long, cid: cid.try_into().ok() })
}

fn check(cid: &[u8; CID_BYTES], key: &[u8; 16]) -> [u8; 2] {
    let mut hasher = SipHasher13::new_with_key(key);
    hasher.write(&cid[..CHECK]);
    let [a, b, ..] = hasher.finish().to_le_bytes();
    [a, b]
}

fn is_valid(cid: &[u8; CID_BYTES], key: &[u8; 16]) -> bool {
    check(cid, key) == cid[CHECK..]
}

/// Makes connection IDs of one place.
pub(crate) struct Generator {
    place: Place,
    key: [u8; 16],
}

impl Generator {
    pub fn new(place: Place, key: [u8; 16]) -> Generator {
        Generator { place, key }
    }

    /// A byte that leads to the thread.
    fn first(&self, random: u8) -> u8 {
        let threads = self.place.threads.clamp(1, THREADS_MAX);
        let thread = self.place.thread % threads;
        // How many bytes lead there; at least one, since the thread is below 256.
        let choices = (THREADS_MAX - thread).div_ceil(threads);
        (thread + usize::from(random) % choices * threads) as u8
    }
}

impl ConnectionIdGenerator for Generator {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut cid = [0; CID_BYTES];
        rand::fill(&mut cid).expect("the system has randomness");
        cid[0] = self.first(cid[0]);
        cid[1] = cid[1] & 0x3f | self.place.generation << 6;
        let check = check(&cid, &self.key);
        cid[CHECK..].copy_from_slice(&check);
        ConnectionId::new(&cid)
    }

    fn validate(&self, cid: &ConnectionId) -> Result<(), InvalidCid> {
        let cid = <&[u8; CID_BYTES]>::try_from(&cid[..]).map_err(|_| InvalidCid)?;
        if is_valid(cid, &self.key) { Ok(()) } else { Err(InvalidCid) }
    }

    fn cid_len(&self) -> usize {
        CID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 16] = [7; 16];

    fn short(cid: &[u8]) -> Vec<u8> {
        [&[0x40][..], cid, &[0; 20]].concat()
    }

    #[test]
    fn an_id_leads_to_its_thread_and_process() {
        for threads in [1, 2, 3, 7, 64, 255, 256, 300] {
            for thread in [0, 1, threads / 2, threads - 1] {
                let place = Place { thread, threads, generation: 6 };
                let mut generator = Generator::new(place, KEY);
                let cid = generator.generate_cid();
                let route = route(&short(&cid)).unwrap();
                assert_eq!(route.thread(threads), thread % threads.min(256), "{thread} of {threads}");
                assert_eq!((route.claimed(), route.generation(&KEY)), (Some(2), Some(2)));
                assert!(generator.validate(&cid).is_ok());
            }
        }
    }

    #[test]
    fn ids_of_strangers_are_known() {
        let mut generator = Generator::new(Place { thread: 0, threads: 2, generation: 1 }, KEY);
        let cid = generator.generate_cid();
        let mut ours = 0;
        for bit in 0..64 {
            let mut other = *<&[u8; CID_BYTES]>::try_from(&cid[..]).unwrap();
            other[bit / 8] ^= 1 << (bit % 8);
            ours += usize::from(route(&short(&other)).unwrap().generation(&KEY).is_some());
            assert!(generator.validate(&ConnectionId::new(&other)).is_err());
        }
        assert_eq!(ours, 0);
        assert_eq!(route(&short(&cid)).unwrap().generation(&[8; 16]), None, "another server's key");
    }

    #[test]
    fn what_is_too_short_has_no_destination() {
        let long = [&[0xc0, 0, 0, 0, 1, 8][..], &[9; 8], &[0; 4]].concat();
        let found = route(&long).unwrap();
        assert_eq!((found.first, found.is_long, found.generation(&KEY)), (9, true, None));
        for end in 0..14 {
            assert_eq!(route(&long[..end]), None, "{end} bytes");
        }
        for end in 0..9 {
            assert_eq!(route(&short(&[1; 8])[..end]), None, "{end} bytes");
        }
        assert_eq!(route(&[0xc0, 0, 0, 0, 1, 0]), None, "an ID without bytes");
    }
}
