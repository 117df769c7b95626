//! Compression between a client and us, where the client asks for it: the bytes of its connection beside what they carry.
//!
//! What compresses is the thread's, since it is large and each packet is a stream of its own.

use brisk_mysql::ProtocolError;
use brisk_mysql::compressed::{HEADER_BYTES, Packets, Zlib};
use std::cell::RefCell;

/// What is looked at at once of what inflates to more.
const PIECE_BYTES: usize = 16 << 10;

thread_local! {
    static ZLIB: RefCell<Zlib> = RefCell::default();
}

/// A compressed connection that is passed on as it is: a copy of its bytes is unpacked, to be looked at.
#[derive(Default)]
pub struct Unpacked {
    packets: Packets,
    plain: Vec<u8>,
}

impl Unpacked {
    /// Unpacks bytes of the connection, a piece at a time. Gives how many there were, unless a piece is refused.
    pub fn look(
        &mut self,
        mut bytes: &[u8],
        mut piece: impl FnMut(&[u8]) -> bool,
    ) -> Result<usize, ProtocolError> {
        let mut count = 0;
        loop {
            self.plain.clear();
            // The server sees to their numbers.
            self.packets.begin_any_packet();
            let unpack =
                |zlib: &mut Zlib| self.packets.unpack(zlib, &mut bytes, &mut self.plain, PIECE_BYTES);
            if !ZLIB.with_borrow_mut(unpack)? {
                return Ok(count);
            }
            count += self.plain.len();
            if !piece(&self.plain) {
                return Err(ProtocolError::Unexpected("a command that is not passed on"));
            }
        }
    }
}

/// The compressed side of a [`Wire`](crate::wire::Wire).
pub struct Packed {
    packets: Packets,
    /// What has come and was not unpacked.
    received: Vec<u8>,
    start: usize,
}

impl Packed {
    /// After a login, with what has come behind it.
    pub fn new(received: Vec<u8>) -> Packed {
        Packed { packets: Packets::default(), received, start: 0 }
    }

    /// The next command begins. Gives whether something of the client is here already; else there is no buffer.
    pub fn begin_command(&mut self) -> bool {
        self.packets.begin_command();
        let is_here = self.start < self.received.len() || !self.packets.is_between();
        if !is_here {
            (self.received, self.start) = (Vec::new(), 0);
        }
        is_here
    }

    /// Unpacks at most so many bytes behind what is in `out`. False: more must come.
    pub fn unpack(&mut self, out: &mut Vec<u8>, room: usize) -> Result<bool, ProtocolError> {
        let mut rest = &self.received[self.start..];
        let unpacked = ZLIB.with_borrow_mut(|zlib| self.packets.unpack(zlib, &mut rest, out, room));
        self.start = self.received.len() - rest.len();
        unpacked
    }

    /// Bytes of memory that it has.
    pub fn held(&self) -> usize {
        self.received.capacity() + self.packets.held()
    }

    /// What the connection's next bytes are put behind.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        self.received.drain(..self.start);
        self.start = 0;
        &mut self.received
    }

    /// Packets with these bytes of frames, or with as many of them as make frames.
    pub fn pack(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() + HEADER_BYTES);
        ZLIB.with_borrow_mut(|zlib| self.packets.pack(zlib, bytes, &mut out));
        out
    }
}
