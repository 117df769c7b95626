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

/// In two lines, which have turns: of those that are for an ID of ours, as what follows a Retry, and of all others. A flood of forged packets
/// fills one and leaves the other to clients that have shown where they are.
#[derive(Default)]
pub(crate) struct Firsts {
    lines: [Line; 2],
    /// Whose turn is next.
    next: usize,
}

/// In the order in which they came, as many as there may be.
#[derive(Default)]
struct Line {
    waiting: VecDeque<First>,
    /// What they hold.
    bytes: usize,
}

impl Line {
    /// Whether another one of this length may wait.
    fn has_room(&self, len: usize) -> bool {
        self.waiting.len() < FIRST_MAX && self.bytes + len <= FIRST_BYTES_MAX
    }

    fn push(&mut self, datagram: Datagram<'_>, mut buffer: Vec<u8>) {
        let Datagram { socket, remote, local, ecn, bytes } = datagram;
        buffer.extend_from_slice(bytes);
        self.bytes += bytes.len();
        self.waiting.push_back(First { origin: Origin { socket, remote, local }, ecn, bytes: buffer });
    }

    fn pop(&mut self) -> Option<First> {
        let first = self.waiting.pop_front()?;
        self.bytes -= first.bytes.len();
        Some(first)
    }
}

impl Firsts {
    /// Whether another one of this length may wait. `is_ours`: it is for an ID of ours.
    pub fn has_room(&self, is_ours: bool, len: usize) -> bool {
        self.lines[usize::from(is_ours)].has_room(len)
    }

    /// Keeps a copy of a datagram in `buffer`, which is empty.
    pub fn push(&mut self, is_ours: bool, datagram: Datagram<'_>, buffer: Vec<u8>) {
        self.lines[usize::from(is_ours)].push(datagram, buffer);
    }

    /// The next one.
    pub fn pop(&mut self) -> Option<First> {
        let turn = self.next;
        self.next = 1 - turn;
        self.lines[turn].pop().or_else(|| self.lines[1 - turn].pop())
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| line.waiting.is_empty())
    }
}
