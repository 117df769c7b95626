//! A coding that a location offers, whatever the coding is.

use super::encoder::Params;
use crate::limits::{CODING_INLINE_BODY_BYTES_MAX, INLINE_SLOW_BYTES_MAX, INLINE_USUAL_BYTES_MAX};
use crate::media_types::MediaTypes;
use brisk_conf::{Diag, Token, value};
use brisk_http::negotiate::Coding;
use std::sync::Arc;

/// A coding that is switched on.
#[derive(Clone)]
pub struct Offer {
    // What an encoder is made by; kept encoders are found by it.
    pub params: Params,
    pub min_length: u64,
    // Shared by all blocks that inherit it.
    pub types: Arc<MediaTypes>,
}

impl Offer {
    /// The bytes of a body in memory up to which it is compressed by the request's own thread.
    pub fn inline_max(&self) -> u64 {
        // The last levels that are fast, and those that are not yet slow.
        let (fast, usual) = match self.params.coding {
            Coding::Gzip => (7, 7),
            Coding::Br => (4, 6),
            Coding::Zstd => (8, 8),
        };
        match self.params.level {
            // Beyond these bytes the thread would be kept from its other clients for too long, so the body is compressed in pieces while it is sent.
            level if level <= fast => CODING_INLINE_BODY_BYTES_MAX,
            level if level <= usual => INLINE_USUAL_BYTES_MAX,
            _ => INLINE_SLOW_BYTES_MAX,
        }
    }
}

/// The base-two logarithm of a window's size, for a row with a range of powers of two.
pub fn window(token: &Token, allowed: &str) -> Result<u8, Diag> {
    let size = value::size(token)?;
    if size.is_power_of_two() {
        // 32 KiB are 15 bits.
        return Ok(size.ilog2() as u8);
    }
    Err(Diag::emerg(token.span, format!("invalid value \"{}\"", token.text()))
        .help(format!("it must be {allowed}")))
}
