//! TLS of a connection: records in, responses out.

use crate::plan::Tls;
use brisk_tls::Session;

/// A connection's session.
pub struct Secure {
    session: Session,
}

impl std::fmt::Debug for Secure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secure")
    }
}

/// The handshake or a record has failed, and why.
#[derive(Debug)]
pub struct Failed(pub String);

impl<E: std::fmt::Display> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl Secure {
    /// A session, and the bytes that it begins with.
    pub fn begin(tls: &Tls) -> Result<(Box<Self>, Vec<u8>), Failed> {
        let session = tls.context.session(&tls.name, true)?;
        let mut secure = Box::new(Self { session });
        let mut out = Vec::new();
        secure.receive(&mut [], &mut Vec::new(), &mut out)?;
        Ok((secure, out))
    }

    /// Whether requests may be sent.
    pub fn is_established(&self) -> bool {
        self.session.is_established()
    }

    /// Whether a session was resumed.
    pub fn is_resumed(&self) -> bool {
        self.session.is_resumed()
    }

    /// Whether the server has agreed to speak HTTP/2 (RFC 7301).
    pub fn speaks_h2(&self) -> bool {
        self.session.alpn() == Some(b"h2")
    }

    /// Opens records; what the protocol answers is put into `out`.
    pub fn receive(
        &mut self,
        input: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), Failed> {
        Ok(self.session.receive(input, &mut |text| plain.extend_from_slice(text), out)?)
    }

    /// Seals a request.
    pub fn seal(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Failed> {
        Ok(self.session.seal(bytes, out)?)
    }
}
