//! The streams of a connection, found by their ids.

use crate::flow::{ReceiveWindow, SendWindow};
use crate::priority::Priority;

/// One direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    /// No head yet (a client's stream before the response).
    Head,
    Open,
    /// What is received is a tunnel's: nothing but DATA (RFC 9113 §8.5).
    Tunnel,
    Closed,
}

/// A stream that is not closed. What `T` is, the caller knows.
#[derive(Debug)]
pub(crate) struct Stream<T> {
    pub id: u32,
    pub receive: Half,
    pub send: Half,
    pub send_window: SendWindow,
    pub receive_window: ReceiveWindow,
    /// What `Content-Length` says is still to come.
    pub expected: Option<u64>,
    pub priority: Priority,
    /// The most that one DATA frame holds.
    pub chunk: u32,
    /// The caller has something to send.
    pub ready: bool,
    /// It stands in the scheduler's line.
    pub queued: bool,
    pub data: T,
}

/// Where a stream is in the slab.
pub(crate) type Slot = u32;

const FREE: u32 = u32::MAX;

/// Streams by id: a slab and an open-addressed index over it. Both keep their memory until [`Streams::trim`].
#[derive(Debug)]
pub(crate) struct Streams<T> {
    slab: Vec<Option<Stream<T>>>,
    free: Vec<Slot>,
    /// Slots by id; a power of two of them, at most half in use.
    index: Vec<Slot>,
    len: usize,
}

impl<T> Default for Streams<T> {
    fn default() -> Streams<T> {
        Streams { slab: Vec::new(), free: Vec::new(), index: Vec::new(), len: 0 }
    }
}

impl<T> Streams<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Ids of one side are every second number: the next ones go to neighbouring places.
    fn home(&self, id: u32) -> usize {
        (id >> 1) as usize & (self.index.len() - 1)
    }

    #[inline]
    fn place(&self, id: u32) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        let mask = self.index.len() - 1;
        let mut at = self.home(id);
        loop {
            let slot = self.index[at];
            if slot == FREE {
                return None;
            }
            if self.slab[slot as usize].as_ref().is_some_and(|stream| stream.id == id) {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    #[inline]
    pub(crate) fn slot(&self, id: u32) -> Option<Slot> {
        self.place(id).map(|at| self.index[at])
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&Stream<T>> {
        self.slab[self.slot(id)? as usize].as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Stream<T>> {
        let slot = self.slot(id)?;
        self.slab[slot as usize].as_mut()
    }

    pub(crate) fn insert(&mut self, stream: Stream<T>) {
        if (self.len + 1) * 2 > self.index.len() {
            self.grow();
        }
        let id = stream.id;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slab.push(None);
            self.slab.len() as Slot - 1
        });
        self.slab[slot as usize] = Some(stream);
        self.len += 1;
        self.link(id, slot);
    }

    fn link(&mut self, id: u32, slot: Slot) {
        let mask = self.index.len() - 1;
        let mut at = self.home(id);
        while self.index[at] != FREE {
            at = (at + 1) & mask;
        }
        self.index[at] = slot;
    }

    fn grow(&mut self) {
        self.index = vec![FREE; (self.index.len() * 2).max(8)];
        let ids: Vec<(u32, Slot)> = self
            .slab
            .iter()
            .enumerate()
            .filter_map(|(slot, stream)| stream.as_ref().map(|stream| (stream.id, slot as Slot)))
            .collect();
        ids.into_iter().for_each(|(id, slot)| self.link(id, slot));
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<Stream<T>> {
        let mut hole = self.place(id)?;
        let slot = self.index[hole];
        // Whoever was pushed aside by this one moves up, so that searches find no gap.
        let mask = self.index.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let other = self.index[at];
            if other == FREE {
                break;
            }
            let Some(stream) = &self.slab[other as usize] else { break };
            let home = self.home(stream.id);
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.index[hole] = other;
                hole = at;
            }
        }
        self.index[hole] = FREE;
        self.len -= 1;
        self.free.push(slot);
        self.slab[slot as usize].take()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream<T>> {
        self.slab.iter_mut().flatten()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stream<T>> {
        self.slab.iter().flatten()
    }

    /// Gives memory back if there are no streams.
    pub(crate) fn trim(&mut self) {
        if self.len == 0 {
            *self = Streams::default();
        }
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.slab.capacity() * size_of::<Option<Stream<T>>>()
            + (self.free.capacity() + self.index.capacity()) * size_of::<Slot>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(id: u32) -> Stream<u32> {
        Stream {
            id,
            receive: Half::Open,
            send: Half::Open,
            send_window: SendWindow::new(0),
            receive_window: ReceiveWindow::new(0, 0),
            expected: None,
            priority: Priority::default(),
            chunk: 0,
            ready: false,
            queued: false,
            data: id,
        }
    }

    #[test]
    fn streams_are_found_whatever_was_removed() {
        let mut streams = Streams::default();
        let mut want = std::collections::BTreeSet::new();
        let mut seed = 7u32;
        for turn in 0..4000u32 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let id = (seed >> 20) % 300 * 2 + 1 + turn % 2 * 1024;
            if want.remove(&id) {
                assert_eq!(streams.remove(id).map(|s| s.data), Some(id));
            } else {
                want.insert(id);
                streams.insert(stream(id));
            }
            assert_eq!(streams.len(), want.len());
            for &id in &want {
                assert_eq!(streams.get(id).map(|s| s.data), Some(id), "after {turn}");
            }
            assert!(streams.get(id ^ 4096).is_none());
        }
    }
}
