//! Reading and writing streams by their numbers (RFC 9000 §2.1), on either side of a connection.

use quinn_proto::{Connection, Dir, ReadError, ReadableError, Side, StreamId, VarInt, WriteError};

/// What a read has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// So many bytes were appended, at least one; there may be more.
    Some(usize),
    /// Nothing at present; [`Event::Readable`] tells when there is.
    Blocked,
    /// So many bytes were appended, which may be none, and there is no other one. Told once.
    End(usize),
    /// The client has reset the stream with this code. Told once.
    Reset(u64),
    /// No such stream, or its end was told, or it was stopped.
    Gone,
}

/// What a write has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// So many bytes were taken, at least one.
    Some(usize),
    /// None: windows are full; [`Event::Writable`] tells when they are not.
    Blocked,
    /// The client wants no more (STOP_SENDING) and has given this code. The stream has been reset.
    Stopped(u64),
    /// No such stream, or it was finished or reset.
    Gone,
}

/// Appends at most `max` bytes of a stream to `into`.
pub(crate) fn read(inner: &mut Connection, stream: u64, max: usize, into: &mut Vec<u8>) -> Read {
    let Some(id) = receiving(inner, stream).filter(|_| max > 0) else { return Read::Gone };
    let mut stream = inner.recv_stream(id);
    let mut chunks = match stream.read(true) {
        Ok(chunks) => chunks,
        Err(ReadableError::ClosedStream | ReadableError::IllegalOrderedRead) => return Read::Gone,
    };
    let before = into.len();
    let read = loop {
        let count = into.len() - before;
        match chunks.next(max - count) {
            Ok(Some(chunk)) => into.extend_from_slice(&chunk.bytes),
            Ok(None) => break Read::End(count),
            Err(ReadError::Reset(code)) => break Read::Reset(code.into_inner()),
            Err(ReadError::Blocked) if count > 0 => break Read::Some(count),
            Err(ReadError::Blocked) => break Read::Blocked,
        }
        if into.len() - before == max {
            break Read::Some(max);
        }
    };
    let _ = chunks.finalize();
    read
}

/// The code of a RESET_STREAM that has come.
pub(crate) fn take_reset(inner: &mut Connection, stream: u64) -> Option<u64> {
    let id = receiving(inner, stream)?;
    inner.recv_stream(id).received_reset().ok().flatten().map(quinn_proto::VarInt::into_inner)
}

/// Has a stream send these bytes, or some of them.
pub(crate) fn write(inner: &mut Connection, stream: u64, bytes: &[u8]) -> Written {
    let Some(id) = sending(inner, stream) else { return Written::Gone };
    if bytes.is_empty() {
        return Written::Blocked;
    }
    match inner.send_stream(id).write(bytes) {
        Ok(count) => Written::Some(count),
        Err(WriteError::Blocked) => Written::Blocked,
        Err(WriteError::Stopped(code)) => Written::Stopped(code.into_inner()),
        Err(WriteError::ClosedStream) => Written::Gone,
    }
}

/// Nothing more is written; false if the stream is gone or was stopped.
pub(crate) fn finish(inner: &mut Connection, stream: u64) -> bool {
    sending(inner, stream).is_some_and(|id| inner.send_stream(id).finish().is_ok())
}

/// What was written and has not arrived is given up.
pub(crate) fn reset(inner: &mut Connection, stream: u64, code: u64) {
    if let Some(id) = sending(inner, stream) {
        let _ = inner.send_stream(id).reset(number(code));
    }
}

/// Nothing more is read (STOP_SENDING).
pub(crate) fn stop(inner: &mut Connection, stream: u64, code: u64) {
    if let Some(id) = receiving(inner, stream) {
        let _ = inner.recv_stream(id).stop(number(code));
    }
}

/// A stream that something may come on.
fn receiving(inner: &Connection, stream: u64) -> Option<StreamId> {
    let id = id(stream)?;
    let has = id.dir() == Dir::Bi || id.initiator() != inner.side();
    has.then_some(id)
}

/// A stream that something may be sent on.
pub(crate) fn sending(inner: &Connection, stream: u64) -> Option<StreamId> {
    let id = id(stream)?;
    let has = id.dir() == Dir::Bi || id.initiator() == inner.side();
    has.then_some(id)
}

fn id(stream: u64) -> Option<StreamId> {
    let dir = if stream & 2 == 0 { Dir::Bi } else { Dir::Uni };
    let initiator = if stream & 1 == 0 { Side::Client } else { Side::Server };
    (stream < 1 << 62).then(|| StreamId::new(initiator, dir, stream >> 2))
}

/// A code as it can be sent (RFC 9000 §16).
pub(crate) fn number(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}
