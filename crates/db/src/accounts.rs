//! Accounts of a MySQL or MariaDB server, with the hashes by which logins of clients are checked and carried over.

use crate::limits::ACCOUNTS_MAX;
use std::collections::HashMap;

/// One account, as `mysql.user` has it.
#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    /// The hosts that it may log in from: a pattern with `%` and `_`.
    pub host: Box<str>,
    /// `SHA1(SHA1(password))` of `mysql_native_password`; `None`: another plugin, or it may not log in.
    pub native: Option<[u8; 20]>,
    /// It needs no password.
    pub is_open: bool,
    /// It may not log in, nor does a less definite account of the name in its place.
    pub is_locked: bool,
}

/// All accounts, by name.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Accounts {
    by_name: HashMap<Box<str>, Vec<Account>>,
}

impl std::fmt::Debug for Account {
    /// Without the hash, which together with a recorded login is as good as the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").field("host", &self.host).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Accounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} accounts", self.by_name.len())
    }
}

impl Accounts {
    /// Adds a row of `mysql.user`: name, host, plugin and `authentication_string`. False if there are too many.
    pub fn add(&mut self, name: &str, host: &str, plugin: &str, secret: &str) -> bool {
        if self.by_name.len() >= ACCOUNTS_MAX {
            return false;
        }
        // An empty plugin is MariaDB's and old MySQL's way to write the usual one.
        let is_native = matches!(plugin, "" | "mysql_native_password");
        let native = if is_native { hash(secret) } else { None };
        let is_open = is_native && secret.is_empty();
        let account = Account { host: host.into(), native, is_open, is_locked: false };
        self.by_name.entry(name.into()).or_default().push(account);
        true
    }

    /// The account of this name and pattern of hosts, if there is one, may not log in.
    pub fn lock(&mut self, name: &str, host: &str) {
        let accounts = self.by_name.get_mut(name).map(Vec::as_mut_slice).unwrap_or_default();
        accounts
            .iter_mut()
            .filter(|account| &*account.host == host)
            .for_each(|account| account.is_locked = true);
    }

    /// The accounts of this name, one for each pattern of hosts.
    pub fn named(&self, name: &str) -> &[Account] {
        self.by_name.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}

/// `*` and 40 hexadecimal digits.
fn hash(text: &str) -> Option<[u8; 20]> {
    let digits = text.strip_prefix('*')?.as_bytes();
    let mut hash = [0; 20];
    if digits.len() != 2 * hash.len() {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hashes_of_the_one_plugin_are_known() {
        let mut accounts = Accounts::default();
        let secret = "*6BB4837EB74329105EE4568DDA7DC67ED2CA2AD9";
        for (host, plugin, secret) in [
            ("%", "mysql_native_password", secret),
            ("a", "", secret),
            ("b", "ed25519", secret),
            ("c", "mysql_native_password", ""),
            ("d", "mysql_native_password", "*6BB4837EB74329105EE4568DDA7DC67ED2CA2ADg"),
            ("e", "mysql_native_password", "invalid"),
            ("f", "unix_socket", ""),
        ] {
            assert!(accounts.add("app", host, plugin, secret));
        }
        let known = |account: &Account| (account.native.map(|hash| hash[0]), account.is_open);
        let all: Vec<_> = accounts.named("app").iter().map(known).collect();
        let none = (None, false);
        assert_eq!(all, [(Some(0x6b), false), (Some(0x6b), false), none, (None, true), none, none, none]);
        assert!(accounts.named("App").is_empty());
        accounts.lock("app", "a");
        accounts.lock("App", "%");
        let locked: Vec<_> = accounts.named("app").iter().filter(|account| account.is_locked).collect();
        assert!(locked.len() == 1 && &*locked[0].host == "a");
        assert!(!format!("{accounts:?} {:?}", accounts.named("app")).contains("107"));
    }
}
