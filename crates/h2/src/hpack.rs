//! Header compression (RFC 7541).

mod check;
mod decoder;
mod encoder;
pub mod huffman;
mod integer;
pub mod table;
#[cfg(test)]
mod tests;

pub use check::Checks;
pub use decoder::{Decoder, HpackError, Limits};
pub use encoder::{
    Encoder, Indexing, write_clean, write_foreign, write_literal, write_named, write_status, write_string,
};
pub use integer::INTEGER_MAX;

/// One decoded field. Its bytes are the decoder's: what is to be kept must be copied.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// In the spelling that was sent.
    pub name: &'a [u8],
    /// Any bytes; see `checks`.
    pub value: &'a [u8],
    /// What [`FieldSink::tag`] gave for the name.
    pub tag: u8,
    /// What is odd or wrong about name and value.
    pub checks: Checks,
    /// A literal that must never be indexed (RFC 7541 §7.1.3): it must be passed on as one.
    pub sensitive: bool,
}

/// Takes the fields of a header block.
pub trait FieldSink {
    /// A number for a field's name. It is asked for once per literal name; entries of the tables keep it.
    fn tag(&mut self, name: &[u8]) -> u8;

    /// The same for an entry of the static table (from 1).
    #[inline]
    fn static_tag(&mut self, index: usize) -> u8 {
        self.tag(table::STATIC[index - 1].0)
    }

    /// The next field; it is within the limits.
    fn field(&mut self, field: Field<'_>);
}

/// Takes no field: for blocks that are decoded only because the tables must stay in step. What comes into the tables is tagged as
/// the sink would have it, because blocks of other streams refer to it.
#[derive(Debug)]
pub struct Discard<'a, S>(pub &'a mut S);

impl<S: FieldSink> FieldSink for Discard<'_, S> {
    fn tag(&mut self, name: &[u8]) -> u8 {
        self.0.tag(name)
    }

    fn static_tag(&mut self, index: usize) -> u8 {
        self.0.static_tag(index)
    }

    fn field(&mut self, _: Field<'_>) {}
}
