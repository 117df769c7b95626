//! `Connection` (RFC 9110 §7.6.1).

use crate::head::{HeaderId, RequestHead, Version};

/// What `Connection` fields ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ConnectionOptions {
    /// `close`
    pub close: bool,
    /// `keep-alive`
    pub keep_alive: bool,
    /// `upgrade`
    pub upgrade: bool,
}

impl ConnectionOptions {
    /// The options of several fields together.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        ConnectionOptions {
            close: self.close || other.close,
            keep_alive: self.keep_alive || other.keep_alive,
            upgrade: self.upgrade || other.upgrade,
        }
    }

    /// Whether the connection stays open after this message (RFC 9112 §9.3).
    ///
    /// `close` always wins. In nginx the last of several fields wins, and `close` is also found inside other words.
    pub fn is_persistent(self, version: Version) -> bool {
        match version {
            Version::Http09 => false,
            Version::Http10 => self.keep_alive && !self.close,
            _ => !self.close,
        }
    }
}

impl RequestHead {
    /// What all `Connection` fields say together.
    pub fn connection(&self, buf: &[u8]) -> ConnectionOptions {
        self.all(HeaderId::Connection)
            .map(|field| connection_options(field.value.of(buf)))
            .fold(ConnectionOptions::default(), ConnectionOptions::merge)
    }
}

/// The options of one field's value.
pub fn connection_options(value: &[u8]) -> ConnectionOptions {
    let mut options = ConnectionOptions::default();
    for token in connection_tokens(value) {
        options.close |= token.eq_ignore_ascii_case(b"close");
        options.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
        options.upgrade |= token.eq_ignore_ascii_case(b"upgrade");
    }
    options
}

/// The names in a `Connection` value: options and the fields that a proxy must not forward.
pub fn connection_tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}
