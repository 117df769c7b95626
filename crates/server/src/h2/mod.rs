//! HTTP/2 connections (RFC 9113).
//!
//! A connection stays with the loop's driver all its life: whatever is readable is read and worked through at once, by
//! [`hot`], and answers that are complete in memory leave together in one write. A request that must wait becomes a task
//! of its own (`stream/serve.rs`) that knows its stream only: it takes the body from there and puts pieces
//! of the response there. [`session`] chooses whose piece leaves next, late, when there is room for it.
//!
//! Nothing that a peer sends is kept beyond a bound: bodies by flow control, heads by the limits of the decoder, and
//! what is to be sent by not reading on while the peer does not take it.

pub(crate) mod hot;
pub(crate) mod life;
pub(crate) mod session;
pub(crate) mod upgrade;

pub(crate) use hot::{begin, is_preface};
