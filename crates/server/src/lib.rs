//! The server: configuration, connections, requests and their phases. It names no module; modules name it.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod adopt;
pub mod body;
pub mod conf;
pub mod connection;
pub mod core;
pub mod counters;
pub mod directive;
// Private are the parts of which no other crate may depend: how connections are read and answered.
pub(crate) mod driver;
pub mod environment;
pub mod extended;
pub mod failure;
pub mod files;
mod filters;
pub mod flights;
pub mod flow;
pub mod gather;
pub mod h1;
pub mod h2;
pub mod h3;
mod hand_over;
pub mod in_memory;
pub mod interim;
pub mod late;
// Not in release builds: what lies is no part of a server that answers strangers.
#[cfg(debug_assertions)]
mod lies;
pub mod limits;
pub mod live;
pub mod locate;
pub mod location;
pub mod log;
mod logged;
pub mod memory;
pub mod metrics;
pub mod module;
pub mod pace;
pub mod path;
pub mod phases;
pub mod plan;
mod prepared;
mod proxy_protocol;
pub mod purity;
pub mod quic;
mod reader;
mod reads;
pub mod request;
pub mod response;
pub mod service;
pub mod serving;
pub mod shared;
pub mod special;
pub(crate) mod stream;
pub mod subrequest;
pub(crate) mod table;
#[cfg(test)]
mod testing;
pub mod thread;
pub mod tls;
pub mod trace;
pub mod tunnel;
mod unfinished;
mod unusual;
pub mod vars;
pub mod worker;

pub use brisk_host::{base64, names, news, regex, server_name, temp_file, text, threads, zone};
