//! The back-end engine: one request to a back end, whatever protocol it speaks.
//!
//! A request's bytes are made by a [`Codec`](codec::Codec), a server is chosen by a group of servers
//! ([`Backend`](backend::Backend)), a connection is taken from the thread's [`pool`] or made ([`connect`]), and the answer is
//! pulled through the codec by the task that sends it on ([`body`]). The engine names no module: a `*_pass` module implements
//! [`Protocol`](protocol::Protocol) and hands its requests over.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod abandoned;
mod answer;
mod attempt;
pub mod backend;
pub mod body;
pub mod codec;
pub mod conf;
pub mod connect;
pub mod engine;
mod exchange;
mod fetch;
pub mod fuzz;
mod handler;
pub mod head;
pub mod http1;
pub mod http2;
mod lend;
mod limits;
mod link;
mod occupancy;
pub mod origin;
mod payload;
mod peer;
mod pool;
pub mod protocol;
mod request;
mod resolve;
mod respond;
mod retry;
pub mod rows;
mod scratch;
mod source;
mod spool;
pub mod state;
mod store;
pub mod tls;
mod tunnel;
pub mod vars;
