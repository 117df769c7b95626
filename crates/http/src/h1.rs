//! HTTP/1.1 as a state machine (RFC 9112): bytes in, events out, and decisions about the connection. No I/O, no clock.
//!
//! [`Server`] receives requests, [`Client`] receives responses; both take a message's [`Body`] apart in the same way.
//! The server, its client of back ends, the load generator and the fuzzers run the same code. Nothing is copied: data is
//! told of as a range of the bytes that were given.

mod body;
mod client;
mod server;
#[cfg(test)]
mod tests;

pub use body::{Body, BodyEvent};
pub use client::{Client, ClientError, Event, Known, Received, Rules};
pub use server::{Delimiting, Incoming, IncomingError, Response};
