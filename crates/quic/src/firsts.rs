//! Datagrams that may begin a connection. They wait until the packets of open connections have been handled.

use crate::endpoint::Datagram;
use crate::limits::{FIRST_BYTES_MAX, FIRST_MAX};
use brisk_tls::quic::Origin;
use quinn_proto::EcnCodepoint;
use std::collections::VecDeque;

/// One of them.
pub(crate) struct First {
    pub origin: Origin,
    pub ecn: Option<EcnCodepoint>,
    pub bytes: Vec<u8>,
}

impl First {
    /// As it came.
    pub fn datagram(&self) -> Datagram<'_> {
        let Origin { socket, remote, local } = self.origin;
        Datagram { socket, remote, local, ecn: self.ecn, bytes: &self.bytes }
    }
}

/// In the order in which they came, as many as there may be.
#[derive(Default)]
pub(crate) struct Firsts {
    waiting: VecDeque<First>,
    /// What they hold.
    bytes: usize,
}

impl Firsts {
    /// Whether another one of this length may wait.
    pub fn has_room(&self, len: usize) -> bool {
        self.waiting.len() < FIRST_MAX && self.bytes + len <= FIRST_BYTES_MAX
    }

    /// Keeps a copy of a datagram in `buffer`, which is empty.
    pub fn push(&mut self, datagram: Datagram<'_>, mut buffer: Vec<u8>) {
        let Datagram { socket, remote, local, ecn, bytes } = datagram;
        buffer.extend_from_slice(bytes);
        self.bytes += bytes.len();
        self.waiting.push_back(First { origin: Origin { socket, remote, local }, ecn, bytes: buffer });
    }

    /// The one that has waited longest.
    pub fn pop(&mut self) -> Option<First> {
        let first = self.waiting.pop_front()?;
        self.bytes -= first.bytes.len();
        Some(first)
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
