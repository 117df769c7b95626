//! Header compression (RFC 7541).

mod decoder;
mod encoder;
pub mod table;
#[cfg(test)]
mod tests;

pub use brisk_mux::huffman;
pub use brisk_mux::integer::{self, INTEGER_MAX};
pub use brisk_mux::{Checks, Discard, Field, FieldLimits as Limits, FieldSink};
pub use decoder::{Decoder, HpackError};
pub use encoder::{
    Encoder, Hpack, Indexing, write_clean, write_foreign, write_literal, write_named, write_status,
    write_string,
};
