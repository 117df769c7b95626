//! What HTTP/2 and HTTP/3 have in common, as data: the Huffman code and the integers of HPACK and QPACK, dynamic tables,
//! the rules for heads, priorities (RFC 9218), and the counters of useless work.
//!
//! Nothing here does I/O or reads a clock, and nothing knows frames: those are the crates' `h2` and `h3`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod check;
pub mod encode;
pub mod field;
pub mod flood;
pub mod huffman;
pub mod integer;
mod limits;
pub mod message;
pub mod priority;
pub mod table;

pub use check::Checks;
pub use field::{Budget, Discard, Field, FieldLimits, FieldSink, HeadKind, HeadSink, LimitError};
pub use priority::Priority;

/// Which side we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It answers requests, on streams that the peer begins.
    Server,
    /// It asks, on streams that it begins itself.
    Client,
}
