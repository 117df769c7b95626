//! HTTP/2 as data: frames (RFC 9113), header compression (RFC 7541), priorities (RFC 9218, RFC 7540 §5.3), streams
//! and flow control, for both sides of a connection.
//!
//! A [`Connection`] is fed with bytes and gives events; what is to be sent is appended to a buffer of the caller's.
//! Nothing here does I/O or reads a clock (the caller says how late it is), and nothing knows what a request means to
//! a server: header fields go to the caller's [`FieldSink`], bodies stay slices of the input.
//!
//! What a peer can make us keep is bounded before it is kept: header fields are counted before they are stored, blocks
//! in parts have a size, priority nodes have a number, and what costs us work without being of use to anyone is
//! counted by [`flood`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod conn;
mod error;
pub use brisk_mux::flood;
mod flow;
pub mod frame;
pub mod fuzz;
pub mod hpack;
mod limits;
pub use brisk_mux::message;
pub mod priority;
mod settings;
mod streams;

pub use conn::{Config, Connection, Event, Received, Role};
pub use error::{ConnectionError, ErrorCode};
pub use hpack::{Field, FieldSink};
pub use limits::STREAMS_MAX;
pub use settings::{Setting, Settings};

/// What a client's side begins with (RFC 9113 §3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
