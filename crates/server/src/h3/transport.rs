//! The QUIC connection beneath a session.
//!
//! It is a trait so that the session's tests need no network and no clock.

use std::rc::Rc;

/// What a read has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Bytes were appended; there may be more.
    Some,
    /// Nothing at present; [`hot::readable`](super::hot::readable) is called when there is.
    Blocked,
    /// Bytes were appended, or none, and there is no other one. Told once.
    End,
    /// The client has reset the stream with this code. Told once.
    Reset(u64),
    /// No such stream, or its end was told.
    Gone,
}

/// What a write has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// So many bytes were taken, at least one.
    Some(usize),
    /// None; [`hot::writable`](super::hot::writable) is called when some are.
    Blocked,
    /// No such stream, or it was ended, or is not wanted.
    Gone,
}

/// A QUIC connection as a session uses it. Nothing that is done here calls the session back: it is told of events afterwards. Of a
/// connection that is over, all streams are gone.
pub trait Quic {
    /// Appends at most `max` bytes of a stream to `into`. What was read gives the client room for as much.
    fn read(&self, stream: u64, max: usize, into: &mut Vec<u8>) -> Read;

    /// The code with which the client has reset a stream that is not read at present. Told once.
    fn take_reset(&self, stream: u64) -> Option<u64>;

    /// Has a stream send these bytes, or some of them.
    fn write(&self, stream: u64, bytes: &[u8]) -> Written;

    /// Nothing more is written to a stream; what was leaves.
    fn finish(&self, stream: u64);

    /// What was written to a stream and has not arrived is given up (RESET_STREAM).
    fn reset(&self, stream: u64, code: u64);

    /// Nothing more is read from a stream (STOP_SENDING).
    fn stop(&self, stream: u64, code: u64);

    /// Streams of higher numbers leave first; those of one number in turns.
    fn set_priority(&self, stream: u64, priority: i32);

    /// Begins a unidirectional stream; `None` if the client allows none at present.
    fn open_uni(&self) -> Option<u64>;

    /// Asks the client for a sign of life: without one, and with nothing else to be sent, QUIC takes the connection for lost.
    fn ping(&self);

    /// Ends the connection; the client is told the code and why.
    fn close(&self, code: u64, why: &str);

    /// Streams that may have something that is not acknowledged, those included that are open and silent. Closing gives it up.
    fn sending_streams(&self) -> usize;

    /// Bytes of memory.
    fn memory(&self) -> usize;
}

/// Whose a session is.
pub type Transport = Rc<dyn Quic>;

/// Gives a stream up in both directions.
pub fn give_up(quic: &dyn Quic, stream: u64, code: u64) {
    quic.reset(stream, code);
    quic.stop(stream, code);
}
