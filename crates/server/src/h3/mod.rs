//! HTTP/3 connections (RFC 9114).
//!
//! QUIC tells what has happened to a connection and its streams, and [`hot`] works through it at once, as over HTTP/2: the engine of the
//! crate `h3` makes events of a stream's bytes, requests take the way of all protocols with streams (`stream/answer.rs`), and
//! answers that are complete in memory are given to their streams at once. What must wait is a task (`stream/serve.rs`); [`send`] takes
//! pieces from it as long as QUIC takes them.
//!
//! Nothing that a client sends is kept beyond a bound: a stream is read only as far as its body is taken, heads have the limits of
//! the decoder, and QUIC's windows bound the rest.

// `transport` is all that the rest knows of QUIC, so tests put something else in its place.
pub(crate) mod carried;
pub mod hot;
pub mod life;
mod send;
pub mod session;
#[cfg(test)]
mod tests;
pub mod transport;
