//! `AuthType Digest` (RFC 7616 with MD5, which is all that mod_auth_digest has): what a client has sent, and what it must have sent.

use md5::{Digest as _, Md5};

/// What a client has sent in `Authorization`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The user's name.
    pub user: Vec<u8>,
    /// The realm that it was asked about.
    pub realm: Vec<u8>,
    /// The nonce of the challenge.
    pub nonce: Vec<u8>,
    /// The target that the response is made for.
    pub uri: Vec<u8>,
    response: Vec<u8>,
    /// `qop`, the client's count and nonce; nothing of it for a client of RFC 2069.
    protection: Option<(Vec<u8>, Vec<u8>, Vec<u8>)>,
}

impl Credentials {
    /// Reads the field's value; `None`: it is no such login, or one by another algorithm.
    pub fn parse(field: &[u8]) -> Option<Credentials> {
        let (scheme, mut rest) = field.split_at_checked(7)?;
        if !scheme.eq_ignore_ascii_case(b"Digest ") {
            return None;
        }
        let mut found = Credentials::default();
        let (mut qop, mut count, mut client) = (None, None, None);
        loop {
            rest = rest.trim_ascii_start();
            if rest.is_empty() {
                break;
            }
            let equals = memchr::memchr(b'=', rest)?;
            let name = rest[..equals].trim_ascii().to_ascii_lowercase();
            let (value, behind) = value(rest[equals + 1..].trim_ascii_start())?;
            let behind = behind.trim_ascii_start();
            rest = behind.strip_prefix(b",").unwrap_or(behind);
            match name.as_slice() {
                b"username" => found.user = value,
                b"realm" => found.realm = value,
                b"nonce" => found.nonce = value,
                b"uri" => found.uri = value,
                b"response" => found.response = value.to_ascii_lowercase(),
                b"qop" => qop = Some(value),
                b"nc" => count = Some(value),
                b"cnonce" => client = Some(value),
                b"algorithm" if !value.eq_ignore_ascii_case(b"MD5") => return None,
                _ => {}
            }
        }
        found.protection = match (qop, count, client) {
            (Some(qop), Some(count), Some(client)) if qop == b"auth" => Some((qop, count, client)),
            (None, None, None) => None,
            _ => return None,
        };
        let is_whole =
            [&found.user, &found.nonce, &found.uri, &found.response].iter().all(|part| !part.is_empty());
        is_whole.then_some(found)
    }

    /// Whether the response is that of a password. `secret` is what the file has for the user: 32 hexadecimal digits.
    pub fn is_right(&self, secret: &[u8], method: &[u8]) -> bool {
        let target = hash(&[method, b":", &self.uri]);
        let secret = secret.to_ascii_lowercase();
        let wanted = match &self.protection {
            Some((qop, count, client)) => {
                hash(&[&secret, b":", &self.nonce, b":", count, b":", client, b":", qop, b":", &target])
            }
            None => hash(&[&secret, b":", &self.nonce, b":", &target]),
        };
        is_same(&wanted, &self.response)
    }
}

/// A value, in quotation marks or not, and what is behind it.
fn value(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(inside) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|&byte| byte == b',').unwrap_or(text.len());
        return Some((text[..end].trim_ascii().to_vec(), &text[end..]));
    };
    let mut out = Vec::new();
    let mut at = 0;
    loop {
        match *inside.get(at)? {
            b'"' => return Some((out, &inside[at + 1..])),
            b'\\' => {
                at += 1;
                out.push(*inside.get(at)?);
            }
            byte => out.push(byte),
        }
        at += 1;
    }
}

fn hash(parts: &[&[u8]]) -> Vec<u8> {
    let mut hash = Md5::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
}

/// In a time that does not tell where they differ.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// What a nonce is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nonce {
    /// One of ours that still holds.
    Fresh,
    /// One of ours, too old: the client may answer a new one without asking its user.
    Stale,
    /// This server has not made it.
    Foreign,
}

/// A nonce of this second: the time, and a keyed hash of it, by which this server knows its own nonces.
pub fn nonce(key: &[u8], realm: &[u8], unix_secs: i64) -> Vec<u8> {
    let time = format!("{unix_secs:016x}").into_bytes();
    let proof = hash(&[key, b":", &time, b":", realm, b":", key]);
    [time, proof].concat()
}

/// What a nonce is now, if nonces hold for `lifetime_secs`.
pub fn judge(nonce_sent: &[u8], key: &[u8], realm: &[u8], unix_secs: i64, lifetime_secs: i64) -> Nonce {
    let time = nonce_sent.get(..16).and_then(|text| std::str::from_utf8(text).ok());
    let Some(time) = time.and_then(|text| i64::from_str_radix(text, 16).ok()) else { return Nonce::Foreign };
    if !is_same(&nonce(key, realm, time), nonce_sent) {
        return Nonce::Foreign;
    }
    let age = unix_secs.saturating_sub(time);
    if (0..=lifetime_secs).contains(&age) { Nonce::Fresh } else { Nonce::Stale }
}

/// What a file of `htdigest` has for a user of a realm: lines `user:realm:secret`.
pub fn secret<'t>(text: &'t [u8], user: &[u8], realm: &[u8]) -> Option<&'t [u8]> {
    text.split(|&byte| byte == b'\n').find_map(|line| {
        let line = line.trim_ascii_end();
        let rest = line.strip_prefix(user)?.strip_prefix(b":")?.strip_prefix(realm)?.strip_prefix(b":")?;
        let secret = rest.split(|&byte| byte == b':').next()?;
        (!line.starts_with(b"#") && secret.len() == 32).then_some(secret)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc_is_right() {
        // RFC 2617 §3.5.
        let field = br#"Digest username="Mufasa", realm="testrealm@host.com", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093", uri="/dir/index.html", qop=auth, nc=00000001, cnonce="0a4f113b", response="6629fae49393a05397450978507c4ef1", opaque="5ccc069c403ebaf9f0171e9517f40e41""#;
        let found = Credentials::parse(field).unwrap();
        assert_eq!((found.user.as_slice(), found.uri.as_slice()), (&b"Mufasa"[..], &b"/dir/index.html"[..]));
        let file = b"# a file\nother:testrealm@host.com:00000000000000000000000000000000\nMufasa:testrealm@host.com:939e7578ed9e3c518a452acee763bce9\n";
        let secret = secret(file, b"Mufasa", b"testrealm@host.com").unwrap();
        assert!(found.is_right(secret, b"GET") && !found.is_right(secret, b"POST"));
        assert!(
            super::secret(file, b"Mufasa", b"other").is_none() && super::secret(file, b"Muf", b"").is_none()
        );
    }

    #[test]
    fn what_is_no_login_is_none() {
        for field in [
            "Basic YTpi",
            "Digest ",
            "Digest username=\"a",
            "Digest username=a, nonce=b, uri=/, response=c, algorithm=SHA-256",
            "Digest username=a, nonce=b, uri=/, response=c, qop=auth",
            "Digest username=a, nonce=b, uri=/, response=c, qop=auth-int, nc=1, cnonce=x",
        ] {
            assert_eq!(Credentials::parse(field.as_bytes()), None, "{field}");
        }
        assert!(Credentials::parse(b"digest username=a,nonce=b , uri=\"/\\\"\",response=C").is_some());
    }

    #[test]
    fn nonces_hold_for_a_time() {
        let made = nonce(b"key", b"realm", 1000);
        let of = |sent: &[u8], realm: &[u8], now| judge(sent, b"key", realm, now, 300);
        assert_eq!(of(&made, b"realm", 1300), Nonce::Fresh);
        assert_eq!(of(&made, b"realm", 1301), Nonce::Stale);
        assert_eq!(of(&made, b"other", 1000), Nonce::Foreign);
        assert_eq!(of(b"short", b"realm", 1000), Nonce::Foreign);
        assert_eq!(judge(&made, b"another key", b"realm", 1000, 300), Nonce::Foreign);
    }
}
