//! The opening handshake of WebSockets over HTTP/1.1 (RFC 6455 §4): the key and what proves that it was understood.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

/// RFC 6455 §1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// `Sec-WebSocket-Key`: the nonce of 16 random bytes as it is sent.
pub fn key(nonce: [u8; 16]) -> String {
    STANDARD.encode(nonce)
}

/// `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key` (RFC 6455 §4.2.2).
pub fn accept(key: &[u8]) -> String {
    STANDARD.encode(Sha1::new().chain_update(key.trim_ascii()).chain_update(GUID).finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455 §1.3.
    #[test]
    fn the_answer_to_a_key() {
        assert_eq!(key(*b"the sample nonce"), "dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
