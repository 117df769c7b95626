//! Passwords without sending them: `mysql_native_password` and the short way of `caching_sha2_password`.
//!
//! A server with the first keeps `SHA1(SHA1(password))`. With this hash and a client's answer one computes `SHA1(password)`, which is enough to
//! log in to every server that has the same account: so one login is carried over to several servers without the password.

use crate::greeting::NONCE_BYTES;
use sha1::{Digest as _, Sha1};
use sha2::Sha256;
use std::fmt;

/// The plugin of 4.1 and later.
pub const NATIVE: &[u8] = b"mysql_native_password";
/// MySQL's default since 8.0.
pub const CACHING_SHA2: &[u8] = b"caching_sha2_password";

/// MariaDB's, which is not supported here, but recognised.
const ED25519: &[u8] = b"client_ed25519";
/// Bytes of its answers.
const ED25519_BYTES: usize = 64;

type Hash = [u8; 20];

/// Whether a server takes this for an answer of this plugin, right or wrong. What it does not is a broken handshake to it.
pub fn is_answer(plugin: &[u8], answer: &[u8]) -> bool {
    match plugin {
        NATIVE => answer.is_empty() || answer.len() == size_of::<Hash>(),
        ED25519 => answer.len() == ED25519_BYTES,
        _ => true,
    }
}

/// An answer of a plugin that is wrong for every password, unless there is none.
pub fn wrong_answer(plugin: &[u8]) -> Vec<u8> {
    if plugin == ED25519 { vec![0; ED25519_BYTES] } else { Vec::new() }
}

/// What is needed to log in.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The password itself; empty: the account has none.
    Password(Box<[u8]>),
    /// `SHA1(password)`: enough for `mysql_native_password` only.
    Hashed(Hash),
}

// It must not come into a log.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// What a server keeps of a password: `SHA1(SHA1(password))`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stored(Hash);

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stored")
    }
}

// As it is kept elsewhere.
impl From<[u8; 20]> for Stored {
    fn from(hash: [u8; 20]) -> Stored {
        Stored(hash)
    }
}

fn sha1(parts: &[&[u8]]) -> Hash {
    let mut hash = Sha1::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

fn xor<const N: usize>(a: &[u8; N], b: &[u8; N]) -> [u8; N] {
    std::array::from_fn(|at| a[at] ^ b[at])
}

impl Stored {
    /// Reads what stands in `mysql.user` and its kin: `*` and 40 hexadecimal digits.
    pub fn parse(text: &[u8]) -> Option<Stored> {
        let digits = text.strip_prefix(b"*").filter(|digits| digits.len() == 40)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let mut hash = [0; 20];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Some(Stored(hash))
    }

    /// Of a password.
    pub fn of(password: &[u8]) -> Stored {
        Stored(sha1(&[&sha1(&[password])]))
    }

    /// What is needed to log in to other servers, computed from a client's answer; `None`: the password is wrong.
    pub fn open(&self, answer: &[u8], nonce: &[u8; NONCE_BYTES]) -> Option<Secret> {
        let answer: &Hash = answer.try_into().ok()?;
        let once = xor(answer, &sha1(&[nonce, &self.0]));
        (sha1(&[&once]) == self.0).then_some(Secret::Hashed(once))
    }
}

impl Secret {
    /// Whether this answer of a client shows that it knows the password.
    pub fn is_answered_by(&self, answer: &[u8], nonce: &[u8; NONCE_BYTES]) -> bool {
        match self {
            Secret::Password(password) if password.is_empty() => answer.is_empty(),
            Secret::Password(password) => Stored::of(password).open(answer, nonce).is_some(),
            Secret::Hashed(once) => Stored(sha1(&[once])).open(answer, nonce).is_some(),
        }
    }

    /// The answer to a nonce by `mysql_native_password`.
    pub fn native(&self, nonce: &[u8]) -> Vec<u8> {
        let once = match self {
            Secret::Password(password) if password.is_empty() => return Vec::new(),
            Secret::Password(password) => sha1(&[password]),
            Secret::Hashed(once) => *once,
        };
        xor(&once, &sha1(&[nonce, &sha1(&[&once])])).to_vec()
    }

    /// The answer to a nonce by the short way of `caching_sha2_password`; `None`: the password itself is not known.
    pub fn caching_sha2(&self, nonce: &[u8]) -> Option<Vec<u8>> {
        let Secret::Password(password) = self else { return None };
        if password.is_empty() {
            return Some(Vec::new());
        }
        let once = sha256(&[password]);
        Some(xor(&once, &sha256(&[&sha256(&[&once]), nonce])).to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: [u8; NONCE_BYTES] = *b"aBcDeFgHiJkLmNoPqRsT";

    #[test]
    fn stored_passwords_are_those_of_servers() {
        // SELECT PASSWORD('secret') of MariaDB.
        let stored = Stored::parse(b"*14E65567ABDB5135D0CFD9A70B3032C179A49EE7").unwrap();
        assert!(stored == Stored::of(b"secret"));
        assert!(
            stored
                == Stored::from(
                    *b"\x14\xe6\x55\x67\xab\xdb\x51\x35\xd0\xcf\xd9\xa7\x0b\x30\x32\xc1\x79\xa4\x9e\xe7"
                )
        );
        for wrong in [
            &b""[..],
            b"*",
            b"14E65567ABDB5135D0CFD9A70B3032C179A49EE7",
            b"*14E65567ABDB5135D0CFD9A70B3032C179A49EEG",
        ] {
            assert!(Stored::parse(wrong).is_none());
        }
    }

    #[test]
    fn an_answer_opens_other_servers() {
        let answer = Secret::Password(b"secret"[..].into()).native(&NONCE);
        let opened = Stored::of(b"secret").open(&answer, &NONCE).unwrap();
        let other = *b"another nonce of 20b";
        assert_eq!(opened.native(&other), Secret::Password(b"secret"[..].into()).native(&other));
        assert!(opened.is_answered_by(&answer, &NONCE) && !opened.is_answered_by(&answer, &other));
        assert!(Stored::of(b"Secret").open(&answer, &NONCE).is_none());
        assert!(Stored::of(b"secret").open(&answer, &other).is_none());
        assert!(Stored::of(b"secret").open(b"", &NONCE).is_none());
        assert!(opened.caching_sha2(&other).is_none());
    }

    #[test]
    fn answers_have_lengths() {
        for (plugin, length, want) in [
            (NATIVE, 0, true),
            (NATIVE, 20, true),
            (NATIVE, 19, false),
            (NATIVE, 21, false),
            (ED25519, 64, true),
            (ED25519, 0, false),
            (&b"dialog"[..], 3, true),
        ] {
            assert_eq!(is_answer(plugin, &vec![0; length]), want, "{} {length}", plugin.escape_ascii());
        }
        for plugin in [NATIVE, CACHING_SHA2, ED25519, b"dialog"] {
            assert!(is_answer(plugin, &wrong_answer(plugin)));
        }
    }

    #[test]
    fn an_empty_password_has_an_empty_answer() {
        let none = Secret::Password(Box::default());
        assert!(none.native(&NONCE).is_empty() && none.is_answered_by(b"", &NONCE));
        assert!(!none.is_answered_by(&Secret::Password(b"x"[..].into()).native(&NONCE), &NONCE));
        assert!(!Secret::Password(b"x"[..].into()).is_answered_by(b"", &NONCE));
    }
}
