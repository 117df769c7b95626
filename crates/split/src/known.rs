//! Who a client is: what is known of its account, and whether its answer shows that it knows the password.

use crate::accounts::Accounts;
use crate::limits::{NAME_CHARS_MAX, NAME_CHARS_MIN};
use brisk_db::Account;
use brisk_mysql::classify::{is_of_clients, is_plain_charset};
use brisk_mysql::greeting::NONCE_BYTES;
use brisk_mysql::password::{CACHING_SHA2, NATIVE, Secret, Stored};
use std::net::{IpAddr, Ipv4Addr};

/// What a client's answer can be judged by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// The password.
    Password(Secret),
    /// What servers keep of it.
    Stored(Stored),
}

/// What becomes of a client that claims to have an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// Its answer is judged here.
    Known(Known),
    /// The primary judges it: no such account was seen, or it has another plugin.
    Elsewhere,
    /// Servers let nobody of this name in from there, or may read another name than we do. The primary must not judge it, since it would judge
    /// our address.
    Barred,
}

impl Claimed {
    /// By what is known of an account: of `mysql_accounts`, whose accounts may come from anywhere, or else of the servers' own table. `client`:
    /// where it comes from; `None`: by a unix socket. Which account of a name is meant depends on that, as it does for servers. `collation`: what
    /// servers read the name in.
    pub fn of(
        own: &Accounts,
        servers: &brisk_db::Accounts,
        name: &[u8],
        collation: u16,
        client: Option<IpAddr>,
    ) -> Claimed {
        if let Some(secret) = own.secret(name) {
            return Claimed::Known(Known::Password(secret.clone()));
        }
        if servers.is_empty() {
            return Claimed::Elsewhere;
        }
        let Some(name) = read_alike(name, collation) else { return Claimed::Barred };
        match Claimed::of_servers(servers, name, client) {
            // A server that does not take the client's word for its character set reads another name there: only who has proved a password
            // of this one goes on.
            Claimed::Elsewhere | Claimed::Known(Known::Password(_)) if !name.is_ascii() => Claimed::Barred,
            claimed => claimed,
        }
    }

    fn of_servers(servers: &brisk_db::Accounts, name: &str, client: Option<IpAddr>) -> Claimed {
        let named = servers.named(name);
        if named.is_empty() && is_cut(servers, name) {
            return Claimed::Barred;
        }
        // Who has no account of his name may have one without a name.
        let accounts = if named.is_empty() { servers.named("") } else { named };
        if accounts.is_empty() {
            return Claimed::Elsewhere;
        }
        let fitting = accounts.iter().filter(|account| matches(&account.host, client));
        // Servers look at the more definite patterns first, and at one only.
        let account: Option<&Account> = fitting.max_by_key(|account| definite(&account.host));
        match account {
            None | Some(Account { is_locked: true, .. }) => Claimed::Barred,
            Some(_) if named.is_empty() => Claimed::Elsewhere,
            Some(Account { native: Some(hash), .. }) => Claimed::Known(Known::Stored(Stored::from(*hash))),
            Some(Account { is_open: true, .. }) => {
                Claimed::Known(Known::Password(Secret::Password(Box::default())))
            }
            Some(_) => Claimed::Elsewhere,
        }
    }
}

/// The name, if servers read the same: they take quotes off that enclose it, and convert it from the client's character set, which leaves
/// letters of UTF-8 beyond the first 65,536 out.
fn read_alike(name: &[u8], collation: u16) -> Option<&str> {
    let is_quoted = name.first() == Some(&b'\'') || name.last() == Some(&b'\'');
    let is_same = |&byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let is_plain = is_plain_charset(collation) || name.iter().all(is_same);
    let name = std::str::from_utf8(name).ok()?;
    let is_kept = name.chars().all(|letter| letter as u32 <= 0xffff);
    (!is_quoted && is_plain && is_kept && is_of_clients(collation)).then_some(name)
}

/// Whether servers may take a name that no account has for that of an account: they cut names off where their own tables end.
fn is_cut(servers: &brisk_db::Accounts, name: &str) -> bool {
    let ends = name.char_indices().map(|(at, _)| at).skip(NAME_CHARS_MIN);
    ends.take(NAME_CHARS_MAX - NAME_CHARS_MIN + 1).any(|end| !servers.named(&name[..end]).is_empty())
}

impl Known {
    /// What opens servers, if this answer of a plugin to a nonce is right.
    pub fn prove(&self, plugin: &[u8], answer: &[u8], nonce: &[u8; NONCE_BYTES]) -> Option<Secret> {
        match self {
            Known::Password(secret) if plugin == NATIVE => {
                secret.is_answered_by(answer, nonce).then(|| secret.clone())
            }
            Known::Password(secret) if plugin == CACHING_SHA2 => {
                let wanted = secret.caching_sha2(nonce)?;
                is_same(&wanted, answer).then(|| secret.clone())
            }
            Known::Stored(stored) if plugin == NATIVE => stored.open(answer, nonce),
            Known::Password(_) | Known::Stored(_) => None,
        }
    }
}

/// Compares in a time that does not tell where the difference is.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |sum, (x, y)| sum | (x ^ y)) == 0
}

/// How much a pattern says of its hosts: one without wildcards the most, then the one whose first wildcard comes later.
fn definite(pattern: &str) -> usize {
    pattern.find(['%', '_', '/']).unwrap_or(usize::MAX)
}

/// Whether an account's host is this client's. Names are not looked up: a client is known by its address only, and is not on the servers'
/// own machine, whatever machine it is on (`localhost`).
fn matches(pattern: &str, client: Option<IpAddr>) -> bool {
    let Some(client) = client.map(|ip| ip.to_canonical()) else { return pattern == "%" };
    if let Some((network, mask)) = pattern.split_once('/') {
        let (Ok(network), Ok(mask), IpAddr::V4(client)) =
            (network.parse::<Ipv4Addr>(), mask.parse::<Ipv4Addr>(), client)
        else {
            return false;
        };
        return client.to_bits() & mask.to_bits() == network.to_bits();
    }
    is_like(pattern.as_bytes(), client.to_string().as_bytes())
}

/// `LIKE`: `%` is any text, `_` any character, a backslash takes the next one as it is.
fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Where to go on if what follows the last `%` does not fit: it takes one character more.
    let mut retry = None;
    while from < text.len() {
        let escaped = pattern.get(at) == Some(&b'\\') && at + 1 < pattern.len();
        let wanted = pattern.get(if escaped { at + 1 } else { at });
        match wanted {
            Some(b'%') if !escaped => {
                at += 1;
                retry = Some((at, from));
            }
            Some(wanted) if *wanted == b'_' && !escaped || wanted.eq_ignore_ascii_case(&text[from]) => {
                at += if escaped { 2 } else { 1 };
                from += 1;
            }
            _ => match retry {
                Some((after, start)) => {
                    (at, from) = (after, start + 1);
                    retry = Some((after, start + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'%')
}

#[cfg(test)]
mod tests {
    use super::*;

    const UTF8: u16 = 45;
    const NONCE: [u8; NONCE_BYTES] = *b"aBcDeFgHiJkLmNoPqRsT";

    #[test]
    fn hosts_are_matched_as_servers_do() {
        let check = |pattern: &str, client: &str, want: bool| {
            let client = (client != "unix").then(|| client.parse().unwrap());
            assert_eq!(matches(pattern, client), want, "{pattern} {client:?}");
        };
        for (pattern, client, want) in [
            ("%", "10.0.0.7", true),
            ("%", "unix", true),
            ("localhost", "127.0.0.1", false),
            ("localhost", "unix", false),
            ("", "10.0.0.7", false),
            ("10.0.0.7", "10.0.0.7", true),
            ("10.0.0.7", "::ffff:10.0.0.7", true),
            ("10.0.0.7", "10.0.0.71", false),
            ("10.0.0.%", "10.0.0.71", true),
            ("10.0.0.%", "10.0.1.71", false),
            ("10.0.0._", "10.0.0.7", true),
            ("10.0.0._", "10.0.0.71", false),
            ("10.%.7", "10.0.7.7", true),
            ("10.%.7", "10.0.7.8", false),
            ("%.7%", "10.0.0.7", true),
            ("192.168.0.0/255.255.0.0", "192.168.3.4", true),
            ("192.168.0.0/255.255.0.0", "192.169.3.4", false),
            ("192.168.0.0/16", "192.168.3.4", false),
            ("fd00::%", "fd00::1", true),
            ("web%.example.com", "10.0.0.7", false),
        ] {
            check(pattern, client, want);
        }
    }

    #[test]
    fn the_most_definite_account_counts() {
        let mut servers = brisk_db::Accounts::default();
        let stored = |password: &str| match password {
            "any" => "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19",
            _ => "",
        };
        servers.add("app", "%", "mysql_native_password", stored("any"));
        servers.add("app", "10.0.0.%", "ed25519", "x");
        servers.add("open", "10.0.0.7", "", "");
        let own = Accounts::parse(b"file:secret\n").unwrap();
        servers.add("root", "localhost", "mysql_native_password", stored("any"));
        let claimed =
            |name: &[u8], client: &str| Claimed::of(&own, &servers, name, UTF8, client.parse().ok());
        assert!(matches!(claimed(b"app", "10.0.1.1"), Claimed::Known(Known::Stored(_))));
        assert_eq!(claimed(b"app", "10.0.0.1"), Claimed::Elsewhere);
        assert_eq!(claimed(b"other", "10.0.0.1"), Claimed::Elsewhere);
        assert_eq!(claimed(b"\xff", "10.0.0.1"), Claimed::Barred);
        assert_eq!(claimed(b"open", "10.0.0.8"), Claimed::Barred);
        let Claimed::Known(open) = claimed(b"open", "10.0.0.7") else { panic!("it is known") };
        assert!(open.prove(NATIVE, b"", &NONCE).is_some() && open.prove(NATIVE, b"x", &NONCE).is_none());
        assert!(matches!(claimed(b"file", "10.0.0.1"), Claimed::Known(Known::Password(_))));
        // The primary would take our address for the client's, which may be on its own machine.
        for client in ["10.0.0.1", "127.0.0.1", "::1", "unix"] {
            assert_eq!(claimed(b"root", client), Claimed::Barred, "{client}");
        }
        // One that is locked is no less definite for that.
        servers.add("app", "10.0.1.%", "mysql_native_password", stored("any"));
        servers.lock("app", "10.0.1.%");
        let claimed = |client: &str| Claimed::of(&own, &servers, b"app", UTF8, client.parse().ok());
        assert_eq!((claimed("10.0.1.1"), claimed("10.0.0.1")), (Claimed::Barred, Claimed::Elsewhere));
        assert!(matches!(claimed("10.0.2.1"), Claimed::Known(_)));
        let mut servers = brisk_db::Accounts::default();
        servers.add("", "localhost", "", "");
        let claimed = |name: &[u8]| Claimed::of(&own, &servers, name, UTF8, "127.0.0.1".parse().ok());
        assert_eq!((claimed(b"anybody"), claimed(b"")), (Claimed::Barred, Claimed::Barred));
        servers.add("", "%", "", "");
        let claimed = |name: &[u8]| Claimed::of(&own, &servers, name, UTF8, "127.0.0.1".parse().ok());
        assert_eq!(claimed(b"anybody"), Claimed::Elsewhere);
    }

    /// Servers would find another account than we do, and judge our address.
    #[test]
    fn names_that_servers_read_otherwise_are_barred() {
        const SWEDISH: u16 = 10;
        const UCS2: u16 = 35;
        let mut servers = brisk_db::Accounts::default();
        let hash = "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19";
        for name in ["root", "sixteen_letters_", "gr\u{fc}n"] {
            servers.add(name, "10.0.0.7", "mysql_native_password", hash);
        }
        servers.add("bl\u{e5}", "%", "", "");
        let own = Accounts::parse("file'\u{fc}:secret\n".as_bytes()).unwrap();
        let of = |servers: &brisk_db::Accounts, name: &[u8], collation| {
            Claimed::of(&own, servers, name, collation, "10.0.0.7".parse().ok())
        };
        for name in [
            "'root'",
            "'root",
            "root'",
            "'",
            "''",
            "sixteen_letters_x",
            "sixteen_letters_\u{fc}",
            "gr\u{fc}",
            "gr\u{fc}n?",
            "root\u{1f980}",
            // An account without a password.
            "bl\u{e5}",
        ] {
            assert_eq!(of(&servers, name.as_bytes(), UTF8), Claimed::Barred, "{name}");
        }
        let long = format!("sixteen_letters_{}", "x".repeat(60_000));
        for (name, collation) in [
            (&b"gr\xfcn"[..], UTF8),
            (b"root@", SWEDISH),
            (b"root", UCS2),
            (b"\xff", UTF8),
            (long.as_bytes(), UTF8),
        ] {
            assert_eq!(of(&servers, name, collation), Claimed::Barred, "{}", name.escape_ascii());
        }
        for name in ["root", "sixteen_letters_", "gr\u{fc}n"] {
            assert!(
                matches!(of(&servers, name.as_bytes(), UTF8), Claimed::Known(Known::Stored(_))),
                "{name}"
            );
        }
        for (name, collation) in [("other", SWEDISH), ("other@shop", UTF8), ("fifteen_letters", UTF8)] {
            assert_eq!(of(&servers, name.as_bytes(), collation), Claimed::Elsewhere, "{name}");
        }
        let of_file = of(&servers, "file'\u{fc}".as_bytes(), UTF8);
        assert!(matches!(of_file, Claimed::Known(Known::Password(_))));
        // Nothing is known of servers' accounts: the primary judges everybody.
        assert_eq!(of(&brisk_db::Accounts::default(), b"'root'", UTF8), Claimed::Elsewhere);
    }

    #[test]
    fn answers_of_both_plugins_are_judged() {
        let secret = Secret::Password(b"secret"[..].into());
        let (native, sha2) = (secret.native(&NONCE), secret.caching_sha2(&NONCE).unwrap());
        let password = Known::Password(secret);
        let stored = Known::Stored(Stored::of(b"secret"));
        assert!(password.prove(NATIVE, &native, &NONCE).is_some());
        assert!(password.prove(CACHING_SHA2, &sha2, &NONCE).is_some());
        assert!(stored.prove(NATIVE, &native, &NONCE).is_some());
        for (known, plugin, answer) in [
            (&password, CACHING_SHA2, &native),
            (&password, NATIVE, &sha2),
            (&password, &b"mysql_clear_password"[..], &b"secret".to_vec()),
            (&stored, CACHING_SHA2, &sha2),
            (&stored, NATIVE, &Vec::new()),
        ] {
            assert!(known.prove(plugin, answer, &NONCE).is_none());
        }
    }
}
