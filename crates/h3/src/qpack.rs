//! Field compression (RFC 9204): a decoder with a dynamic table, and an encoder that uses the static table and the Huffman code
//! only, so that what it writes is right on each connection and can be kept.

mod decoder;
mod encoder;
pub mod table;
#[cfg(test)]
mod tests;

pub use decoder::{Decoder, Prefix, QpackError};
pub use encoder::{
    Qpack, begin, check_decoder_stream, write_clean, write_foreign, write_literal, write_status,
};
