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
    Quic {
        /// The limits that clients are told, and remember with a session; a hash.
        announced: [u8; 32],
    },
}

impl Carries {
    /// TCP, before it is known what is spoken.
    pub(super) const TCP: Carries = Carries::Tcp { http2: false };

    /// For [`Context::get`](brisk_host::tls::Context::get).
    pub(super) fn index(self) -> usize {
        match self {
            Carries::Tcp { http2 } => usize::from(http2),
            Carries::Quic { .. } => 2,
        }
    }

    /// Adds what is peculiar to it.
    pub(super) fn complete(self, options: &mut ServerOptions) {
        options.alpn = self.alpn().iter().map(|name| name.to_vec()).collect();
        if let Carries::Quic { announced } = self {
            options.transport = Transport::Quic;
            // RFC 9000 §7.4.1, RFC 9114 §7.2.4.2: early data is sent within the limits of the session before, which must not have become
            // smaller. So sessions are resumed only where they are the same.
            options.context = brisk_tls::context_id(&[&options.context[..], &announced].concat());
        }
    }

    /// nginx's lists; a client that offers none of these is refused.
    pub(super) fn alpn(self) -> &'static [&'static [u8]] {
        const NAMES: &[&[u8]] = &[b"h2", b"http/1.1", b"http/1.0", b"http/0.9"];
        match self {
            Carries::Tcp { http2 } => &NAMES[usize::from(!http2)..],
            Carries::Quic { .. } => {
                if cfg!(debug_assertions) {
                    &[b"h3", b"hq-interop"]
                } else {
                    &[b"h3"]
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_for_the_limits_that_were_announced() {
        let context = |announced| {
            let mut options = ServerOptions::default();
            Carries::Quic { announced }.complete(&mut options);
            options.context
        };
        assert_eq!(context([1; 32]), context([1; 32]));
        assert_ne!(context([1; 32]), context([2; 32]));
        assert_ne!(context([1; 32]), ServerOptions::default().context);
    }
}
