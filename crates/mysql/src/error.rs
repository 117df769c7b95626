//! What may be wrong with a peer's bytes.

use std::fmt;

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// A message announces more bytes than are taken.
    TooLarge {
        /// What is taken.
        limit_bytes: usize,
    },
    /// A frame is out of order.
    Sequence {
        /// The number that it should have had.
        expected: u8,
        /// The one that it has.
        got: u8,
    },
    /// A packet of the compressed protocol is out of order.
    PackedSequence {
        /// The number that it should have had.
        expected: u8,
        /// The one that it has.
        got: u8,
    },
    /// What a packet of the compressed protocol carries is not what its header announces.
    Inflated {
        /// The bytes that were announced.
        announced_bytes: usize,
    },
    /// A packet of the compressed protocol has no stream of zlib, or one that is damaged or ends too early.
    Deflated,
    /// The message of this name is shorter than its fields, or says what it must not.
    Malformed(&'static str),
    /// A message came where another was to come.
    Unexpected(&'static str),
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProtocolError::TooLarge { limit_bytes } => {
                write!(f, "a message of more than {limit_bytes} bytes")
            }
            ProtocolError::Sequence { expected, got } => {
                write!(f, "a packet with the sequence number {got} in place of {expected}")
            }
            ProtocolError::PackedSequence { expected, got } => {
                write!(f, "a compressed packet with the sequence number {got} in place of {expected}")
            }
            ProtocolError::Inflated { announced_bytes } => {
                write!(
                    f,
                    "a compressed packet that has other than the {announced_bytes} bytes that it announces"
                )
            }
            ProtocolError::Deflated => f.write_str("a compressed packet that zlib cannot read"),
            ProtocolError::Malformed(what) => write!(f, "a malformed {what}"),
            ProtocolError::Unexpected(what) => write!(f, "{what} where something else should be"),
        }
    }
}

impl std::error::Error for ProtocolError {}
