//! What a TLS session is carried by, and what is offered in it.

use brisk_tls::{ServerOptions, Transport};

/// What a session is carried by, and spoken on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carries {
    /// TCP.
    Tcp {
        /// HTTP/2 is offered.
        http2: bool,
    },
    /// QUIC.
    Quic,
}

impl Carries {
    /// TCP, before it is known what is spoken.
    pub(super) const TCP: Carries = Carries::Tcp { http2: false };

    /// For [`Context::get`](brisk_host::tls::Context::get).
    pub(super) fn index(self) -> usize {
        match self {
            Carries::Tcp { http2 } => usize::from(http2),
            Carries::Quic => 2,
        }
    }

    /// Adds what is peculiar to it.
    pub(super) fn complete(self, options: &mut ServerOptions) {
        options.alpn = self.alpn().iter().map(|name| name.to_vec()).collect();
        if self == Carries::Quic {
            options.transport = Transport::Quic;
        }
    }

    /// nginx's lists; a client that offers none of these is refused.
    pub(super) fn alpn(self) -> &'static [&'static [u8]] {
        const NAMES: &[&[u8]] = &[b"h2", b"http/1.1", b"http/1.0", b"http/0.9"];
        match self {
            Carries::Tcp { http2 } => &NAMES[usize::from(!http2)..],
            Carries::Quic => {
                if cfg!(debug_assertions) {
                    &[b"h3", b"hq-interop"]
                } else {
                    &[b"h3"]
                }
            }
        }
    }
}
