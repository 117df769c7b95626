//! `mysql_accounts`: names and passwords, a line each, with a colon between them.

use crate::limits::ACCOUNTS_MAX;
use brisk_mysql::password::Secret;
use std::collections::HashMap;

/// What opens servers for a session, by the account's name.
#[derive(Clone, Default)]
pub struct Accounts(HashMap<Box<[u8]>, Secret>);

impl Accounts {
    /// Reads a file. Lines that begin with `#` and empty ones are passed over; the error is the number of the line that is none.
    pub fn parse(text: &[u8]) -> Result<Accounts, usize> {
        let mut accounts = HashMap::new();
        for (at, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            // A password may have colons in it, a name not.
            let colon = line.iter().position(|&byte| byte == b':').ok_or(at + 1)?;
            let (name, password) = (&line[..colon], &line[colon + 1..]);
            if name.is_empty() || accounts.len() == ACCOUNTS_MAX {
                return Err(at + 1);
            }
            accounts.insert(name.into(), Secret::Password(password.into()));
        }
        Ok(Accounts(accounts))
    }

    /// What opens servers for this account.
    pub fn secret(&self, name: &[u8]) -> Option<&Secret> {
        self.0.get(name)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

// No password may come into a message.
impl std::fmt::Debug for Accounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} accounts", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_names_and_passwords() {
        let accounts = Accounts::parse(b"# ours\r\n\napp:se:cret\r\nopen:\n").unwrap();
        assert_eq!(accounts.secret(b"app"), Some(&Secret::Password(b"se:cret"[..].into())));
        assert_eq!(accounts.secret(b"open"), Some(&Secret::Password(Box::default())));
        assert_eq!(accounts.secret(b"other"), None);
        assert_eq!(format!("{accounts:?}"), "2 accounts");
        assert_eq!(Accounts::parse(b"app:x\nnothing\n").unwrap_err(), 2);
        assert_eq!(Accounts::parse(b":x").unwrap_err(), 1);
    }
}
