//! Passwords as `htpasswd` files keep them.

use crate::secret::is_same;
use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use md5::{Digest as _, Md5};
use sha1::Sha1;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Whether checking takes so long that it does not belong on the event loop.
pub fn is_slow(kept: &[u8]) -> bool {
    !kept.starts_with(b"{")
}

/// Whether `password` is the one that was kept as `kept`.
pub fn verify(password: &[u8], kept: &[u8]) -> bool {
    if let Some(plain) = kept.strip_prefix(b"{PLAIN}") {
        return is_same(password, plain);
    }
    if let Some(coded) = kept.strip_prefix(b"{SSHA}") {
        let Ok(bytes) = BASE64.decode(coded) else { return false };
        let Some((hash, salt)) = bytes.split_at_checked(20) else { return false };
        return is_same(&Sha1::new().chain_update(password).chain_update(salt).finalize(), hash);
    }
    if let Some(coded) = kept.strip_prefix(b"{SHA}") {
        return BASE64.decode(coded).is_ok_and(|hash| is_same(&Sha1::digest(password), &hash));
    }
    if let Some(rest) = kept.strip_prefix(b"$apr1$") {
        let end = rest.iter().position(|&b| b == b'$').unwrap_or(rest.len());
        let (salt, hash) = rest.split_at(end);
        return hash.strip_prefix(b"$").is_some_and(|hash| is_same(&apr1(password, salt), hash));
    }
    // crypt(3): traditional DES, $1$, $2a$ and its kin, $5$, $6$.
    match std::str::from_utf8(kept) {
        Ok(kept) if is_crypt(kept) => pwhash::unix::verify(password, kept),
        _ => false,
    }
}

/// Whether it looks like something that crypt(3) makes.
fn is_crypt(kept: &str) -> bool {
    const SCHEMES: [&str; 7] = ["$1$", "$2a$", "$2b$", "$2x$", "$2y$", "$5$", "$6$"];
    let is_word = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'/'));
    SCHEMES.iter().any(|scheme| kept.starts_with(scheme)) || kept.len() == 13 && is_word(kept)
}

/// Apache's variant of the MD5-based crypt, without its head.
fn apr1(password: &[u8], salt: &[u8]) -> [u8; 22] {
    let salt = &salt[..salt.len().min(8)];
    let inner: [u8; 16] =
        Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize().into();
    let mut outer = Md5::new().chain_update(password).chain_update(b"$apr1$").chain_update(salt);
    for at in (0..password.len()).step_by(16) {
        outer.update(&inner[..(password.len() - at).min(16)]);
    }
    let mut bits = password.len();
    while bits != 0 {
        outer.update(if bits & 1 == 1 { &[0] } else { password.get(..1).unwrap_or_default() });
        bits >>= 1;
    }
    let mut hash: [u8; 16] = outer.finalize().into();
    for round in 0..1000 {
        let mut md5 = Md5::new();
        md5.update(if round & 1 == 1 { password } else { &hash });
        if round % 3 != 0 {
            md5.update(salt);
        }
        if round % 7 != 0 {
            md5.update(password);
        }
        md5.update(if round & 1 == 1 { &hash } else { password });
        hash = md5.finalize().into();
    }
    encode(&hash)
}

/// The order of bytes and the alphabet that crypt has for MD5.
fn encode(hash: &[u8; 16]) -> [u8; 22] {
    const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const TRIPLES: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];
    let mut out = [0; 22];
    for (chunk, triple) in out.chunks_mut(4).zip(TRIPLES) {
        let bits = triple.iter().fold(0u32, |bits, &at| bits << 8 | u32::from(hash[at]));
        for (at, digit) in chunk.iter_mut().enumerate() {
            *digit = DIGITS[(bits >> (6 * at) & 63) as usize];
        }
    }
    out[20] = DIGITS[usize::from(hash[11] & 63)];
    out[21] = DIGITS[usize::from(hash[11] >> 6)];
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_knows_its_password_and_no_other() {
        for kept in [
            "{PLAIN}password",
            "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=",
            "{SSHA}yI6cZwQadOA1e+/f+T+H3eCQQhRzYWx0",
            "$apr1$salt$Xxd1irWT9ycqoYxGFn4cb.",
            "sa3tHJ3/KuYvI",
            "$1$salt$qJH7.N4xYta3aEG/dfqo/0",
            "$2y$05$abcdefghijklmnopqrstuuWG29KuyeAicPCJODk1zjyGvyQUU2awu",
            "$5$saltstring$OH4IDuTlsuTYPdED1gsuiRMyTAwNlRWyA6Xr3I4/dQ5",
            "$6$saltstring$adDbXsJjcDlq2662QPgd.tkSOVmnG9Tt3oXl4HR60SusC3AGjirnDenVZp3DGwLwqy6iYKCzannhaX9DR72nN1",
        ] {
            assert!(verify(b"password", kept.as_bytes()), "{kept}");
            for wrong in ["", "Password", "password1", "passwor"] {
                // Traditional crypt looks at eight characters.
                let is_des = kept.len() == 13;
                assert_eq!(
                    verify(wrong.as_bytes(), kept.as_bytes()),
                    is_des && wrong == "password1",
                    "{kept}"
                );
            }
        }
    }

    #[test]
    fn what_is_broken_lets_nobody_in() {
        for kept in [
            "",
            "{PLAIN}",
            "{SHA}",
            "{SHA}Zm9vCg==",
            "{SHA}_____Mm5Pz8GgiULbPgzG37mj9g=",
            "{SSHA}",
            "{SSHA}Zm9vCg==",
            "{SSHA}_____wQadOA1e+/f+T+H3eCQQhRzYWx0",
            "{MD5}x",
            "$apr1$",
            "$apr1$salt",
            "$apr1$salt$",
            "$1$",
            "$1$salt$",
            "$2y$",
            "$2y$99$x",
            "$2y$05$",
            "$5$",
            "$5$rounds=0$",
            "$6$salt$",
            "$7$x",
            "password",
            "x",
            "::",
            "\u{e9}",
        ] {
            assert!(!verify(b"password", kept.as_bytes()), "{kept}");
        }
        assert!(!verify(b"pass\0word", b"$1$salt$qJH7.N4xYta3aEG/dfqo/0"));
    }
}
