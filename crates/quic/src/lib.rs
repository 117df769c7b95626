//! QUIC (RFC 9000) without I/O and without a clock: what one thread of the server has of it.
//!
//! An [`Endpoint`] gets datagrams and times, and gives out datagrams, the time when it wants to be called again, and
//! [`Event`]s. Its [`Connection`]s are asked by [`Key`]. Packets, loss recovery, congestion control and streams are a library's
//! (`quinn-proto`); here are the rules around it: which address counts ([`Connection::remote`]), what a connection may hold
//! ([`Settings`]), whose connection IDs these are ([`Place`]), which handshakes are put off by a Retry.
//!
//! One turn of a thread: [`Endpoint::receive`] for every datagram and [`Endpoint::handle_timeouts`]; then
//! [`Endpoint::poll_event`] until there is none, working on [`Endpoint::connection`]; then [`Endpoint::poll_transmit`] until
//! there is none; then [`Endpoint::begin`] for a bounded time and what that has to send; then sleep until [`Endpoint::next_timeout`].
//!
//! Tools have the other side: a [`Client`] is one connection to a server.
//!
//! Streams are named as on the wire (RFC 9000 §2.1): bit 0 says who opened one (0: the client), bit 1 whether it has one
//! direction only.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod burst;
mod cid;
mod client;
mod connection;
mod counters;
mod endpoint;
mod event;
mod firsts;
mod keys;
pub mod limits;
mod resets;
mod settings;
mod streams;
mod timers;

pub use brisk_tls::quic::{Choice, Choose, Kept, Origin};
pub use cid::{CID_BYTES, Place, Route, route};
pub use client::{Client, ClientSettings, Fresh, Traffic};
pub use connection::Connection;
pub use counters::Counters;
pub use endpoint::{Datagram, Endpoint, Transmit};
pub use event::{Closed, Dir, Event, Key};
pub use keys::{Keys, MARK_BYTES, Seal, derive};
pub use settings::{Retry, Settings};
pub use streams::{Read, Written};

/// Congestion marks of an IP packet (RFC 3168).
pub use quinn_proto::EcnCodepoint as Ecn;
