//! What our side says.

use super::{Connection, Role};
use crate::error::{ConnectionError, ErrorCode};
use crate::frame::{self, WINDOW_MAX, flag, kind};
use crate::limits::UPGRADED_BYTES_MAX;
use crate::priority::Priority;
use crate::streams::Half;
use brisk_mux::flood::Nuisance;

/// There is no such stream (any more), or our side of it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

impl<T: Default> Connection<T> {
    /// Whether [`Connection::open`] would give a stream.
    pub fn can_open(&self) -> bool {
        let max = self.peer.max_concurrent_streams.unwrap_or(u32::MAX);
        self.role == Role::Client && (self.streams.len() as u32) < max && self.next_id <= WINDOW_MAX
    }

    /// Begins a stream (a client). `None`: the peer allows no more for now, or there are no more numbers.
    pub fn open(&mut self, value: T) -> Option<u32> {
        if !self.can_open() {
            return None;
        }
        let id = self.next_id;
        self.next_id += 2;
        self.insert(id, Half::Head, Half::Head, value);
        Some(id)
    }
}

impl<T> Connection<T> {
    /// Sends a head: a request's, an interim or final response's, or trailers. `end`: nothing follows.
    pub fn send_head(&mut self, stream: u32, block: &[u8], end: bool, out: &mut Vec<u8>) -> Result<(), Gone> {
        let payload_max = self.peer.max_frame_size;
        let found = self.streams.get_mut(stream).filter(|s| s.send != Half::Closed).ok_or(Gone)?;
        found.send = Half::Open;
        frame::write_headers(stream, block, end, payload_max, out);
        if end {
            self.end_send(stream);
        }
        Ok(())
    }

    /// How much payload may be sent on the stream, all windows considered.
    #[inline]
    pub fn room(&self, stream: u32) -> usize {
        let room = self.streams.get(stream).map_or(0, |stream| stream.send_window.room());
        let room = room.min(self.send_window.room());
        if self.has_begun() { room } else { room.min(UPGRADED_BYTES_MAX) }
    }

    /// The most that one DATA frame of the stream is to hold.
    #[inline]
    pub fn chunk(&self, stream: u32) -> usize {
        let wanted = self.streams.get(stream).map_or(self.config.chunk_bytes, |stream| stream.chunk);
        wanted.min(self.peer.max_frame_size).max(1) as usize
    }

    /// A stream's DATA frames are to hold no more than this.
    pub fn set_chunk(&mut self, stream: u32, bytes: u32) {
        if bytes != self.config.chunk_bytes
            && let Some(stream) = self.streams.get_mut(stream)
        {
            stream.chunk = bytes;
        }
    }

    /// Sends a body, as a whole: it must fit into [`Connection::room`].
    pub fn send_body(
        &mut self,
        stream: u32,
        mut body: &[u8],
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Gone> {
        let chunk = self.chunk(stream);
        loop {
            let (part, rest) = body.split_at(body.len().min(chunk));
            body = rest;
            self.begin_data(stream, part.len(), end && rest.is_empty(), out)?;
            out.extend_from_slice(part);
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    /// Begins a DATA frame: the caller appends `len` bytes, which must fit into [`Connection::room`] and
    /// [`Connection::chunk`].
    #[inline]
    pub fn begin_data(&mut self, stream: u32, len: usize, end: bool, out: &mut Vec<u8>) -> Result<(), Gone> {
        let found = self.streams.get_mut(stream).filter(|s| s.send == Half::Open).ok_or(Gone)?;
        debug_assert!(len <= found.send_window.room().min(self.send_window.room()));
        found.send_window.take(len);
        self.send_window.take(len);
        self.flood.sent(len);
        if found.ready {
            self.scheduler.sent(found, len);
        }
        frame::write_head(len, kind::DATA, if end { flag::END_STREAM } else { 0 }, stream, out);
        if end {
            self.end_send(stream);
        }
        Ok(())
    }

    /// We have said all on a stream.
    fn end_send(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.send = Half::Closed;
        stream.ready = false;
        self.scheduler.update(stream);
        if stream.receive == Half::Closed {
            self.remove(id);
        }
        self.flood.served();
    }

    /// Whether our side of the stream is open.
    pub fn can_send(&self, stream: u32) -> bool {
        self.streams.get(stream).is_some_and(|stream| stream.send != Half::Closed)
    }

    /// Whether the peer may still send on the stream.
    pub fn can_receive(&self, stream: u32) -> bool {
        self.streams.get(stream).is_some_and(|stream| stream.receive != Half::Closed)
    }

    /// Whether a stream has payload to send: it stands in line for [`Connection::next_sender`].
    pub fn set_ready(&mut self, stream: u32, ready: bool) {
        if let Some(stream) = self.streams.get_mut(stream)
            && stream.ready != ready
        {
            stream.ready = ready;
            self.scheduler.update(stream);
        }
    }

    /// The stream that is to send the next DATA frame.
    pub fn next_sender(&mut self) -> Option<u32> {
        if self.send_window.room() == 0 || !self.has_begun() {
            return None;
        }
        self.scheduler.next(&mut self.streams)
    }

    /// RFC 9218 §4: what the request's `Priority` field says, or the response's.
    pub fn set_priority(&mut self, stream: u32, priority: Priority) {
        self.scheduler.use_urgency(&mut self.streams);
        if let Some(stream) = self.streams.get_mut(stream) {
            self.scheduler.reprioritise(stream, priority);
        }
    }

    /// Gives a request back unseen (RFC 9113 §8.7): the peer may send it again. Too many of them are a flood.
    pub fn refuse(&mut self, stream: u32, out: &mut Vec<u8>) -> Result<(), ConnectionError> {
        self.reset(stream, ErrorCode::REFUSED_STREAM, out);
        Ok(self.flood.count(Nuisance::Stray, &self.config.flood)?)
    }

    /// Ends a stream in both directions; gives what was kept with it.
    pub fn reset(&mut self, stream: u32, code: ErrorCode, out: &mut Vec<u8>) -> Option<T> {
        let removed = self.remove(stream)?;
        frame::write_rst_stream(stream, code, out);
        self.reset_by_us.push(stream);
        Some(removed.data)
    }

    /// Bytes of a stream's body were used: the peer may send as much again, unless the stream wants less.
    pub fn consume(&mut self, stream: u32, count: u32, out: &mut Vec<u8>) {
        if let Some(found) = self.streams.get_mut(stream) {
            found.receive_window.consume(count);
            if found.receive != Half::Closed
                && let Some(increment) = found.receive_window.update()
            {
                frame::write_window_update(stream, increment, out);
            }
            self.receive_window.consume(count);
        }
        self.update_connection_window(out);
    }

    /// Bytes were dropped: others may use the connection's window for as much, this stream may not.
    pub fn forget(&mut self, stream: u32, count: u32, out: &mut Vec<u8>) {
        if let Some(found) = self.streams.get_mut(stream) {
            found.receive_window.consume(count);
            let target = found.receive_window.target().saturating_sub(count);
            found.receive_window.set_target(target);
            self.receive_window.consume(count);
        }
        self.update_connection_window(out);
    }

    pub(super) fn update_connection_window(&mut self, out: &mut Vec<u8>) {
        if let Some(increment) = self.receive_window.update() {
            frame::write_window_update(0, increment, out);
        }
    }

    /// The stream is a tunnel now: nothing but DATA may come (RFC 9113 §8.5).
    pub fn open_tunnel(&mut self, stream: u32) {
        if let Some(found) = self.streams.get_mut(stream).filter(|s| s.receive == Half::Open) {
            found.receive = Half::Tunnel;
        }
    }

    /// How much of a stream's body may come in without having been consumed, from now on.
    pub fn set_window(&mut self, stream: u32, size: u32, out: &mut Vec<u8>) {
        if let Some(found) = self.streams.get_mut(stream).filter(|s| s.receive != Half::Closed) {
            found.receive_window.set_target(size);
            if let Some(increment) = found.receive_window.update_now() {
                frame::write_window_update(stream, increment, out);
            }
        }
    }

    /// How large that is now.
    pub fn window(&self, stream: u32) -> u32 {
        self.streams.get(stream).map_or(0, |stream| stream.receive_window.target())
    }

    /// Tells the peer to begin no more streams; those that it has begun and that are on their way are still served
    /// until [`Connection::go_away`] (RFC 9113 §6.8).
    pub fn announce_end(&mut self, out: &mut Vec<u8>) {
        if self.goaway.is_none() {
            frame::write_goaway(WINDOW_MAX, ErrorCode::NO_ERROR, b"", out);
        }
    }

    /// Serves no streams but those that have begun.
    pub fn go_away(&mut self, code: ErrorCode, out: &mut Vec<u8>) {
        if self.goaway.is_none() {
            self.goaway = Some(self.peer_last);
            frame::write_goaway(self.peer_last, code, b"", out);
        }
    }

    /// Whether [`Connection::go_away`] was called.
    pub fn is_going_away(&self) -> bool {
        self.goaway.is_some()
    }

    /// The last words after an error.
    pub fn fail(&mut self, error: &ConnectionError, out: &mut Vec<u8>) {
        // RFC 9113 §6.8: the number must not grow. Streams behind that of an earlier GOAWAY were not looked at.
        let last = *self.goaway.get_or_insert(self.peer_last);
        frame::write_goaway(last, error.code, b"", out);
    }

    /// Asks whether the peer is there.
    pub fn ping(&mut self, payload: [u8; 8], out: &mut Vec<u8>) {
        frame::write_ping(payload, false, out);
    }
}
