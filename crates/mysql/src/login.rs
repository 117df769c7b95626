//! What a client answers a greeting with: a request for TLS, and its name with the first answer to the plugin.

use crate::capability::Capabilities;
use crate::command;
use crate::error::ProtocolError;
use crate::greeting::Greeting;
use crate::password::NATIVE;
use crate::wire::{Reader, put_number, put_text, put_until_nul};

/// Bytes of an SSLRequest without its frame's header: the fixed part of a [`Login`].
pub const TLS_REQUEST_BYTES: usize = 32;

/// The fixed part: it alone is the request for TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// What the client wants of what it was offered.
    pub capabilities: Capabilities,
    /// The largest message that it takes.
    pub message_bytes_max: u32,
    /// The number of its collation.
    pub charset: u8,
}

/// The handshake response of protocol 4.1.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The fixed part.
    pub fixed: Fixed,
    /// The account's name.
    pub user: Vec<u8>,
    /// The answer to the plugin.
    pub answer: Vec<u8>,
    /// The first database; empty: none.
    pub database: Vec<u8>,
    /// The plugin that the answer is of; empty: the one of the greeting.
    pub plugin: Vec<u8>,
    /// The attributes of the connection as they are written, without their length.
    pub attributes: Vec<u8>,
}

// An answer of a plugin may be the password itself.
impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login")
            .field("fixed", &self.fixed)
            .field("user", &self.user.escape_ascii().to_string())
            .field("plugin", &self.plugin.escape_ascii().to_string())
            .finish_non_exhaustive()
    }
}

/// A client's first message.
#[derive(Debug, PartialEq, Eq)]
pub enum First {
    /// TLS begins with the next byte; the login follows within.
    TlsRequest(Fixed),
    /// The login.
    Login(Box<Login>),
}

impl First {
    /// Reads it.
    pub fn parse(message: &[u8]) -> Result<First, ProtocolError> {
        let mut from = Reader::new(message);
        let fixed = fixed(&mut from).ok_or(ProtocolError::Malformed("login"))?;
        if from.is_empty() && fixed.capabilities.has(Capabilities::TLS) {
            return Ok(First::TlsRequest(fixed));
        }
        let login = Login::fields(fixed, from).ok_or(ProtocolError::Malformed("login"))?;
        Ok(First::Login(Box::new(login)))
    }
}

fn fixed(from: &mut Reader<'_>) -> Option<Fixed> {
    let low = Capabilities(u64::from(from.u32()?));
    if !low.has(Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION) {
        return None;
    }
    let message_bytes_max = from.u32()?;
    let charset = from.u8()?;
    from.take(19)?;
    let own = from.u32()?;
    let is_mysql = low.has(Capabilities::MYSQL);
    let capabilities = if is_mysql { low } else { low | Capabilities(u64::from(own) << 32) };
    Some(Fixed { capabilities, message_bytes_max, charset })
}

impl Fixed {
    /// Writes the request for TLS.
    pub fn write(&self) -> Vec<u8> {
        let bits = self.capabilities.0.to_le_bytes();
        let mut out = bits[..4].to_vec();
        out.extend_from_slice(&self.message_bytes_max.to_le_bytes());
        out.push(self.charset);
        out.extend_from_slice(&[0; 19]);
        let is_mysql = self.capabilities.has(Capabilities::MYSQL);
        out.extend_from_slice(if is_mysql { &[0; 4] } else { &bits[4..] });
        out
    }
}

impl Login {
    fn fields(fixed: Fixed, mut from: Reader<'_>) -> Option<Login> {
        let has = |wanted| fixed.capabilities.has(wanted);
        let user = from.until_nul()?.to_vec();
        let answer = if has(Capabilities::PLUGIN_AUTH_LENENC) {
            from.text()?
        } else {
            let count = from.u8()?;
            from.take(usize::from(count))?
        };
        let answer = answer.to_vec();
        // Clients leave the end out although their bits announce it.
        let mut text = |wanted: bool| if wanted { from.until_nul_or_end().to_vec() } else { Vec::new() };
        let database = text(has(Capabilities::CONNECT_WITH_DB));
        let plugin = text(has(Capabilities::PLUGIN_AUTH));
        let attributes =
            if has(Capabilities::CONNECT_ATTRS) && !from.is_empty() { from.text()? } else { &[] };
        let attributes = attributes.to_vec();
        Some(Login { fixed, user, answer, database, plugin, attributes })
    }

    /// One that a server refuses: of nobody, by the plugin that all servers have.
    pub fn nobody(greeting: &Greeting) -> Login {
        let needed = Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION | Capabilities::PLUGIN_AUTH;
        let capabilities = greeting.capabilities & needed | Capabilities::MYSQL;
        let fixed = Fixed { capabilities, message_bytes_max: 1 << 24, charset: greeting.charset };
        let (user, answer, database, attributes) = Default::default();
        Login { fixed, user, answer, database, plugin: NATIVE.to_vec(), attributes }
    }

    /// Writes it by its capabilities. An answer that is too long for them is `None`.
    pub fn write(&self) -> Option<Vec<u8>> {
        let has = |wanted| self.fixed.capabilities.has(wanted);
        let mut out = self.fixed.write();
        put_until_nul(&mut out, &self.user);
        if has(Capabilities::PLUGIN_AUTH_LENENC) {
            put_text(&mut out, &self.answer);
        } else {
            out.push(u8::try_from(self.answer.len()).ok()?);
            out.extend_from_slice(&self.answer);
        }
        if has(Capabilities::CONNECT_WITH_DB) {
            put_until_nul(&mut out, &self.database);
        }
        if has(Capabilities::PLUGIN_AUTH) {
            put_until_nul(&mut out, &self.plugin);
        }
        if has(Capabilities::CONNECT_ATTRS) {
            put_number(&mut out, self.attributes.len() as u64);
            out.extend_from_slice(&self.attributes);
        }
        Some(out)
    }
}

/// COM_CHANGE_USER: another account on a connection that is open.
#[derive(Clone, PartialEq, Eq)]
pub struct ChangeUser {
    /// The account's name.
    pub user: Vec<u8>,
    /// The answer to a plugin, by the nonce of the greeting.
    pub answer: Vec<u8>,
    /// The first database; empty: none.
    pub database: Vec<u8>,
    /// The number of the collation, if it is told.
    pub charset: Option<u16>,
    /// The plugin that the answer is of; empty: it is not told.
    pub plugin: Vec<u8>,
    /// The attributes of the connection as they are written, without their length.
    pub attributes: Vec<u8>,
}

impl std::fmt::Debug for ChangeUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChangeUser")
            .field("user", &self.user.escape_ascii().to_string())
            .finish_non_exhaustive()
    }
}

impl ChangeUser {
    /// Reads the command, as these capabilities have it.
    pub fn parse(message: &[u8], capabilities: Capabilities) -> Result<ChangeUser, ProtocolError> {
        ChangeUser::fields(message, capabilities).ok_or(ProtocolError::Malformed("change of the user"))
    }

    fn fields(message: &[u8], capabilities: Capabilities) -> Option<ChangeUser> {
        let mut from = Reader::new(message.get(1..)?);
        let user = from.until_nul()?.to_vec();
        let length = usize::from(from.u8()?);
        let answer = from.take(length)?.to_vec();
        let database = from.until_nul()?.to_vec();
        // All that follows may be left out.
        let charset = if from.is_empty() { None } else { Some(from.u16()?) };
        let has_plugin = capabilities.has(Capabilities::PLUGIN_AUTH);
        let plugin = if has_plugin { from.until_nul_or_end().to_vec() } else { Vec::new() };
        let has_attributes = capabilities.has(Capabilities::CONNECT_ATTRS) && !from.is_empty();
        let attributes = if has_attributes { from.text()?.to_vec() } else { Vec::new() };
        Some(ChangeUser { user, answer, database, charset, plugin, attributes })
    }

    /// Writes the command for these capabilities. An answer that is too long is `None`.
    pub fn write(&self, capabilities: Capabilities) -> Option<Vec<u8>> {
        let mut out = vec![command::CHANGE_USER];
        put_until_nul(&mut out, &self.user);
        out.push(u8::try_from(self.answer.len()).ok()?);
        out.extend_from_slice(&self.answer);
        put_until_nul(&mut out, &self.database);
        let Some(charset) = self.charset else { return Some(out) };
        out.extend_from_slice(&charset.to_le_bytes());
        if capabilities.has(Capabilities::PLUGIN_AUTH) {
            put_until_nul(&mut out, &self.plugin);
            if capabilities.has(Capabilities::CONNECT_ATTRS) {
                put_number(&mut out, self.attributes.len() as u64);
                out.extend_from_slice(&self.attributes);
            }
        }
        Some(out)
    }
}

/// What a server answers where it wants another plugin: `0xfe`, its name, its nonce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The plugin's name.
    pub plugin: Vec<u8>,
    /// What follows: for most plugins a nonce and a NUL.
    pub data: Vec<u8>,
}

impl Switch {
    /// Reads it.
    pub fn parse(message: &[u8]) -> Result<Switch, ProtocolError> {
        let fields = || {
            let mut from = Reader::new(message);
            (from.u8()? == 0xfe).then_some(())?;
            let plugin = from.until_nul()?.to_vec();
            Some(Switch { plugin, data: from.rest().to_vec() })
        };
        fields().ok_or(ProtocolError::Malformed("switch of authentication"))
    }

    /// Writes it.
    pub fn write(&self) -> Vec<u8> {
        let mut out = vec![0xfe];
        put_until_nul(&mut out, &self.plugin);
        out.extend_from_slice(&self.data);
        out
    }

    /// The nonce, without the NUL behind it.
    pub fn nonce(&self) -> &[u8] {
        self.data.strip_suffix(&[0]).unwrap_or(&self.data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(capabilities: Capabilities) -> Login {
        Login {
            fixed: Fixed { capabilities, message_bytes_max: 1 << 24, charset: 45 },
            user: b"app".to_vec(),
            answer: vec![0, 1, 2, 255],
            database: b"shop".to_vec(),
            plugin: b"mysql_native_password".to_vec(),
            attributes: b"\x04_pid\x0242".to_vec(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let all = Capabilities::FOLLOWED;
        for capabilities in [
            all,
            all | Capabilities::MYSQL,
            all | Capabilities(5 << 32),
            all.without(Capabilities::PLUGIN_AUTH_LENENC),
        ] {
            let login = sample(capabilities);
            let bytes = login.write().unwrap();
            assert_eq!(First::parse(&bytes), Ok(First::Login(Box::new(login))));
            for length in 0..bytes.len() {
                let _ = First::parse(&bytes[..length]);
            }
        }
    }

    #[test]
    fn a_request_for_tls_is_a_login_without_a_name() {
        let login = sample(Capabilities::FOLLOWED | Capabilities::TLS);
        let bytes = login.fixed.write();
        assert_eq!(bytes.len(), TLS_REQUEST_BYTES);
        assert_eq!(First::parse(&bytes), Ok(First::TlsRequest(login.fixed)));
        assert!(First::parse(&sample(Capabilities::FOLLOWED).fixed.write()).is_err());
        assert!(First::parse(&sample(Capabilities::TLS).fixed.write()).is_err());
    }

    #[test]
    fn a_change_of_the_user_is_read_as_it_is_written() {
        let all = Capabilities::FOLLOWED;
        let change = ChangeUser {
            user: b"app".to_vec(),
            answer: vec![0, 1, 255],
            database: b"shop".to_vec(),
            charset: Some(45),
            plugin: b"mysql_native_password".to_vec(),
            attributes: b"\x04_pid\x0242".to_vec(),
        };
        let bytes = change.write(all).unwrap();
        assert_eq!(ChangeUser::parse(&bytes, all), Ok(change.clone()));
        for length in 0..bytes.len() {
            let _ = ChangeUser::parse(&bytes[..length], all);
        }
        assert!(ChangeUser::parse(b"\x11app\0\x14short\0", all).is_err());
        let old = ChangeUser { charset: None, plugin: Vec::new(), attributes: Vec::new(), ..change.clone() };
        assert_eq!(ChangeUser::parse(&old.write(all).unwrap(), all), Ok(old));
        let long = ChangeUser { answer: vec![0; 256], ..change };
        assert_eq!(long.write(all), None);
    }

    #[test]
    fn a_switch_is_read() {
        let switch = Switch { plugin: b"ed25519".to_vec(), data: b"nonce\0".to_vec() };
        assert_eq!(Switch::parse(&switch.write()), Ok(switch.clone()));
        assert_eq!(switch.nonce(), b"nonce");
        assert!(Switch::parse(b"\xfe").is_err());
    }
}
