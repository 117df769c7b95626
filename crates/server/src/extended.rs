//! Extended CONNECT (RFC 8441, RFC 9220): a request of HTTP/2 or 3 that asks for its stream to become a tunnel.
//!
//! Handlers see the HTTP/1.1 upgrade that it stands for, a GET. A client takes any 2xx for an open tunnel, so a 2xx leaves
//! only behind a back end's 101; [`settle`](crate::tunnel::settle) makes an error of every other answer that would look like one.

use brisk_http::framing::connection_tokens;
use brisk_http::{field, websocket};
use std::io;

/// What such a request asks for.
/// It stays with the request: the back end's 101 is judged by it.
pub struct ExtendedConnect {
    /// The upgrade token.
    protocol: Box<[u8]>,
    /// `Sec-WebSocket-Key` for a back end that speaks HTTP/1.1. Its client has none (RFC 8441 §5).
    key: Option<Box<str>>,
}

impl ExtendedConnect {
    /// The error is that of the system's random numbers.
    pub fn new(protocol: &[u8]) -> io::Result<ExtendedConnect> {
        let mut key = None;
        if protocol.eq_ignore_ascii_case(b"websocket") {
            // Random for each request, as a browser's would be. A proxy in between must not be able to guess
            // the answer (RFC 6455 §4.1).
            let mut nonce = [0; 16];
            rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())?;
            key = Some(websocket::key(nonce).into());
        }
        Ok(ExtendedConnect { protocol: protocol.into(), key })
    }

    /// The key that is sent to a back end in its place (`Sec-WebSocket-Key`).
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Whether a 101 with these values of `Upgrade` and `Sec-WebSocket-Accept` is the switch that was asked for (RFC 6455
    /// §4.1). The error names the field at fault.
    pub fn check<'a>(
        &self,
        mut upgrade: impl Iterator<Item = &'a [u8]>,
        mut accept: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), &'static str> {
        let is_asked = |value: &[u8]| value.trim_ascii().eq_ignore_ascii_case(&self.protocol);
        // Two fields are refused as well: the client and this server might read different ones.
        if !upgrade.next().is_some_and(is_asked) || upgrade.next().is_some() {
            return Err("Upgrade");
        }
        let Some(key) = &self.key else { return Ok(()) };
        let is_answer = |value: &[u8]| value.trim_ascii() == websocket::accept(key.as_bytes()).as_bytes();
        if !accept.next().is_some_and(is_answer) || accept.next().is_some() {
            return Err("Sec-WebSocket-Accept");
        }
        Ok(())
    }
}

/// Whether the bytes are an upgrade token: a name, and perhaps a version (RFC 9110 §7.8). HTTP/2 is not asked for in this
/// way: within a tunnel it would pass by all rules of this server.
pub fn is_protocol(bytes: &[u8]) -> bool {
    // RFC 9110 §7.8: name, or name and version with a slash between them.
    let mut parts = bytes.splitn(2, |&b| b == b'/');
    parts.all(|part| !part.is_empty() && part.iter().all(|&b| field::is_token_byte(b))) && !names_h2c(bytes)
}

/// Whether a value of `Upgrade` names HTTP/2 over cleartext (RFC 7540 §3.2).
pub fn names_h2c(value: &[u8]) -> bool {
    connection_tokens(value).any(|token| token.eq_ignore_ascii_case(b"h2c"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upgrade_tokens() {
        for good in ["websocket", "connect-udp", "a/1.1", "h2"] {
            assert!(is_protocol(good.as_bytes()), "{good}");
        }
        for bad in ["", "/", "a/", "/1", "a/b/c", "a b", "a,b", "h2c", "H2C", "a\u{e9}"] {
            assert!(!is_protocol(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn a_switch_is_what_was_asked_for() {
        let asked = ExtendedConnect::new(b"WebSocket").unwrap();
        let right = websocket::accept(asked.key().unwrap().as_bytes());
        let check = |upgrade: &[&str], accept: &[&str]| {
            asked.check(upgrade.iter().map(|v| v.as_bytes()), accept.iter().map(|v| v.as_bytes()))
        };
        assert_eq!(check(&["websocket"], &[&right]), Ok(()));
        assert_eq!(check(&[" websocket "], &[&format!(" {right}")]), Ok(()));
        for upgrade in [&[][..], &["websocket, h2c"], &["websocket", "h2c"], &["h2c"], &[""]] {
            assert_eq!(check(upgrade, &[&right]), Err("Upgrade"), "{upgrade:?}");
        }
        for accept in [&[][..], &[""], &["x"], &[&right, &right]] {
            assert_eq!(check(&["websocket"], accept), Err("Sec-WebSocket-Accept"), "{accept:?}");
        }
        let other = ExtendedConnect::new(b"connect-udp").unwrap();
        assert_eq!(
            (other.key(), other.check([&b"connect-udp"[..]].into_iter(), [].into_iter())),
            (None, Ok(()))
        );
    }
}
