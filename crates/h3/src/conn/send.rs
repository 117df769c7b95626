//! What our side says.

use super::{ALL_REQUESTS, Connection, Role};
use crate::frame::{self, kind};
use crate::streams::{Receive, Stream};

/// There is no such stream (any more), or our side of it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

impl<T> Connection<T> {
    /// Whether a client may begin a request: the server has not said that it goes away.
    pub fn can_open(&self) -> bool {
        self.role == Role::Client && self.peer_goaway.is_none()
    }

    fn sending(&mut self, stream: u64) -> Result<&mut Stream<T>, Gone> {
        self.streams.get_mut(&stream).filter(|stream| stream.sends).ok_or(Gone)
    }

    /// Appends a head to what its stream sends: a request's, an interim or final response's, or trailers.
    pub fn send_head(&mut self, stream: u64, section: &[u8], out: &mut Vec<u8>) -> Result<(), Gone> {
        self.sending(stream)?;
        frame::write(kind::HEADERS, section, out);
        Ok(())
    }

    /// Begins a DATA frame: the caller sends `len` bytes behind it on the stream.
    #[inline]
    pub fn begin_data(&mut self, stream: u64, len: u64, out: &mut Vec<u8>) -> Result<(), Gone> {
        self.sending(stream)?;
        frame::write_head(kind::DATA, len, out);
        Ok(())
    }

    /// We have said all on a stream: the caller ends it behind what was sent. Gives what was kept with it, if the peer has said all, too, and
    /// it is no more.
    pub fn end_send(&mut self, stream: u64) -> Result<Option<T>, Gone> {
        let found = self.sending(stream)?;
        found.sends = false;
        let is_over = found.receive == Receive::Closed;
        self.flood.served();
        Ok(if is_over { self.forget(stream) } else { None })
    }

    /// Whether our side of the stream is open.
    pub fn can_send(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_some_and(|stream| stream.sends)
    }

    /// Whether the peer may still send on the stream.
    pub fn can_receive(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_some_and(|stream| stream.receive != Receive::Closed)
    }

    /// Gives a stream up: the caller resets it, and stops the peer's side. Gives what was kept with it.
    pub fn reset(&mut self, stream: u64) -> Option<T> {
        self.forget(stream)
    }

    /// What else the peer sends on a stream is of no interest: the caller stops its side. Gives what was kept with the stream, if we have
    /// said all.
    pub fn stop(&mut self, stream: u64) -> Option<T> {
        let found = self.streams.get_mut(&stream)?;
        if found.sends {
            let was_open = found.receive != Receive::Closed;
            found.receive = Receive::Closed;
            found.section = Vec::new();
            self.blocked.retain(|&(of, _)| of != stream);
            if was_open {
                self.write_decoder(|qpack, out| qpack.cancel(stream, out));
            }
            return None;
        }
        self.forget(stream)
    }

    /// Tells the peer to begin no more requests; those that it has begun and that are on their way are still served until
    /// [`Connection::go_away`] (RFC 9114 §5.2).
    pub fn announce_end(&mut self) {
        if self.goaway.is_none() && self.role == Role::Server {
            self.goaway = Some(ALL_REQUESTS);
            frame::write_integer(kind::GOAWAY, ALL_REQUESTS, &mut self.control_out);
        }
    }

    /// Serves no requests but those that have begun.
    pub fn go_away(&mut self) {
        // A client has no pushes to refuse: the number of the first one.
        let first = if self.role == Role::Server { self.next_request } else { 0 };
        if self.goaway.is_none_or(|named| first < named) {
            self.goaway = Some(first);
            frame::write_integer(kind::GOAWAY, first, &mut self.control_out);
        }
    }

    /// Whether [`Connection::go_away`] was called.
    pub fn is_going_away(&self) -> bool {
        self.goaway.is_some_and(|first| first != ALL_REQUESTS)
    }

    /// Appends a PRIORITY_UPDATE for a request (a client): `value` is what the `Priority` field would say.
    pub fn update_priority(&mut self, stream: u64, value: &[u8]) {
        let id_len = crate::varint::len(stream) as u64;
        frame::write_head(kind::PRIORITY_UPDATE, id_len + value.len() as u64, &mut self.control_out);
        crate::varint::encode(stream, &mut self.control_out);
        self.control_out.extend_from_slice(value);
    }
}
