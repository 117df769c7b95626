//! What a server says first: version, thread, capabilities, the nonce of the login.

use crate::capability::Capabilities;
use crate::error::ProtocolError;
use crate::wire::{Reader, put_until_nul};

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 20;

/// The initial handshake packet, version 10.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// As the server writes it: `11.8.3-MariaDB-0+deb13u1`, perhaps with `5.5.5-` before it.
    pub version: Vec<u8>,
    /// The connection's number at the server.
    pub thread: u32,
    /// What passwords are mixed with.
    pub nonce: [u8; NONCE_BYTES],
    /// What it offers.
    pub capabilities: Capabilities,
    /// Its character set.
    pub charset: u8,
    /// See [`status`](crate::reply::status).
    pub status: u16,
    /// The plugin that the nonce is for.
    pub plugin: Vec<u8>,
}

impl Greeting {
    /// Reads it.
    pub fn parse(message: &[u8]) -> Result<Greeting, ProtocolError> {
        Greeting::fields(Reader::new(message)).ok_or(ProtocolError::Malformed("greeting"))
    }

    fn fields(mut from: Reader<'_>) -> Option<Greeting> {
        if from.u8()? != 10 {
            return None;
        }
        let version = from.until_nul()?.to_vec();
        let thread = from.u32()?;
        let mut nonce = [0; NONCE_BYTES];
        nonce[..8].copy_from_slice(from.take(8)?);
        from.u8()?;
        let low = from.u16()?;
        let charset = from.u8()?;
        let status = from.u16()?;
        let high = from.u16()?;
        let capabilities = u64::from(low) | u64::from(high) << 16;
        let nonce_bytes = from.u8()?;
        from.take(6)?;
        let own = from.u32()?;
        let is_mysql = capabilities & Capabilities::MYSQL.0 != 0;
        let capabilities =
            Capabilities(if is_mysql { capabilities } else { capabilities | u64::from(own) << 32 });
        if !capabilities.has(Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION) {
            return None;
        }
        // The second part is of 12 bytes and a NUL; a longer one is of a plugin that is not known here.
        let second = from.take(usize::from(nonce_bytes).saturating_sub(8).max(13))?;
        nonce[8..].copy_from_slice(second.get(..12)?);
        let plugin = if capabilities.has(Capabilities::PLUGIN_AUTH) { from.until_nul_or_end() } else { &[] };
        let plugin = plugin.to_vec();
        Some(Greeting { version, thread, nonce, capabilities, charset, status, plugin })
    }

    /// Writes it.
    pub fn write(&self) -> Vec<u8> {
        let mut out = vec![10];
        put_until_nul(&mut out, &self.version);
        out.extend_from_slice(&self.thread.to_le_bytes());
        out.extend_from_slice(&self.nonce[..8]);
        out.push(0);
        let bits = self.capabilities.0.to_le_bytes();
        out.extend_from_slice(&bits[..2]);
        out.push(self.charset);
        out.extend_from_slice(&self.status.to_le_bytes());
        out.extend_from_slice(&bits[2..4]);
        let has_plugin = self.capabilities.has(Capabilities::PLUGIN_AUTH);
        out.push(if has_plugin { NONCE_BYTES as u8 + 1 } else { 0 });
        out.extend_from_slice(&[0; 6]);
        let is_mysql = self.capabilities.has(Capabilities::MYSQL);
        out.extend_from_slice(if is_mysql { &[0; 4] } else { &bits[4..] });
        out.extend_from_slice(&self.nonce[8..]);
        out.push(0);
        if has_plugin {
            put_until_nul(&mut out, &self.plugin);
        }
        out
    }

    /// Whether the server is MariaDB.
    pub fn is_mariadb(&self) -> bool {
        self.version.windows(7).any(|window| window == b"MariaDB")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(capabilities: u64) -> Greeting {
        Greeting {
            version: b"11.8.3-MariaDB".to_vec(),
            thread: 77,
            nonce: *b"01234567890123456789",
            capabilities: Capabilities(capabilities),
            charset: 45,
            status: 2,
            plugin: b"mysql_native_password".to_vec(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for bits in [0x1d_83ff_ffff_fffe_u64, 0xff8b_ffff] {
            let greeting = sample(bits & !0x3000_0000_0000_0000);
            let bytes = greeting.write();
            assert_eq!(Greeting::parse(&bytes), Ok(greeting));
            for length in 0..bytes.len() - 22 {
                assert!(Greeting::parse(&bytes[..length]).is_err(), "{length}");
            }
        }
        assert!(sample(0).is_mariadb());
    }

    #[test]
    fn older_protocols_are_refused() {
        assert!(Greeting::parse(b"\x095.0\0").is_err());
        let mut old = sample(0xff8b_ffff);
        old.capabilities = old.capabilities.without(Capabilities::PROTOCOL_41);
        assert!(Greeting::parse(&old.write()).is_err());
    }
}
