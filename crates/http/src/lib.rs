//! HTTP as data: parsers, serialisers and rules, free of I/O and clocks.
//!
//! Everything here takes bytes (and, where a rule needs it, a time that the caller read) and returns values. The
//! server, the proxy, the load generator and the fuzzers share it. The crate must never know sockets, files,
//! configuration or logging; errors are values whose `Display` is the text nginx logs.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod chunked;
pub mod conditional;
pub mod date;
pub mod field;
pub mod framing;
pub mod fuzz;
pub mod h1;
pub mod head;
pub mod limits;
pub mod negotiate;
pub mod range;
pub mod response;
pub mod status;
#[cfg(test)]
mod testing;
pub mod uri;
pub mod websocket;

pub use head::{
    HeadError, HeadOptions, Header, HeaderId, Method, Parsed, RequestHead, Span, Version, parse_request,
};
