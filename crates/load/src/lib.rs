//! Load generation: the engine behind `brisk bench` and the benchmark harness.
//!
//! | module | owns |
//! |---|---|
//! | [`plan`] | what to send where, how much of it and how: pure data |
//! | [`arrivals`] | when requests of an open loop are due |
//! | [`response`] | HTTP/1.1 response framing: bytes in, responses out, no I/O and no clock |
//! | [`engine`] | threads, epoll loops and connections that carry out a plan |
//! | [`h3`] | a client's connection of HTTP/3, no sockets and no clock |
//! | [`jar`] | cookies that answers have set |
//! | [`proxy`] | what stands between it and servers |
//! | [`stats`], [`histogram`] | what was seen |
//! | [`cli`] | `brisk bench` |
//! | [`days`] | rates as requests per day |
//! | [`report`] | the same for people and programs |
//!
//! The generator is cheap on purpose: one read and one write per request, one read buffer per
//! thread, request bytes made beforehand, and a response head that equals the last one on its
//! target is compared, not parsed. It must never be what a benchmark measures.
#![forbid(unsafe_code)]
// `output` is the way out: these end with a panic where it cannot be written.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod arrivals;
pub mod beside;
pub mod chart;
pub mod cli;
pub mod compare;
mod counts;
pub mod days;
pub mod engine;
pub mod fuzz;
pub mod h3;
pub mod histogram;
pub mod jar;
mod limits;
pub mod live;
pub mod plan;
pub mod proxy;
pub mod report;
pub mod request;
pub mod response;
pub mod stats;
pub mod sweep;
pub mod system;
pub mod url;
pub mod watch;

// The way to the standard output is every command's.
pub use brisk_cli::output;
// The tuner judges by them, too.
pub use brisk_statistics::{rng, sample};
