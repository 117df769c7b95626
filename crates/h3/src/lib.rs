//! HTTP/3 as data: frames and streams (RFC 9114), field compression (RFC 9204), priorities (RFC 9218), extended CONNECT
//! (RFC 9220), for both sides of a connection.
//!
//! A [`Connection`] is given the bytes of each stream and gives events; what is to be sent is appended to buffers of the
//! caller's. It knows no QUIC: streams are numbers, which QUIC gives them (RFC 9000 §2.1), and flow control, loss and time are the
//! transport's. Nothing knows what a request means to a server: fields go to the caller's [`HeadSink`], bodies stay slices of the
//! input.
//!
//! What a peer can make us keep is bounded before it is kept: fields are counted before they are stored, a field section that
//! has come in parts and what comes on control streams have a size, streams that wait for QPACK's table have a number, and what costs us
//! work without being of use to anyone is counted by [`brisk_mux::flood`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod conn;
mod error;
pub mod frame;
pub mod fuzz;
mod limits;
pub mod qpack;
mod settings;
mod streams;
pub mod varint;

pub use brisk_mux::{Field, FieldLimits, FieldSink, HeadKind, HeadSink, LimitError, Priority};
pub use conn::{Begun, Config, Connection, Event, Gone, Own, Role};
pub use error::{ConnectionError, ErrorCode};
pub use settings::Settings;
