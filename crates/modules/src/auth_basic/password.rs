//! Passwords as `htpasswd` files keep them.
//!
//! All comparisons take the same time whatever differs. Schemes are chosen by what the file says, never by the
//! client.

use super::des;
use crate::gate::{Busy, Gate};
use crate::limits::{BCRYPT_COST_MAX, PASSWORD_BYTES_MAX, PASSWORDS_WAITING_MAX, SHA_CRYPT_ROUNDS_MAX};
use crate::secret::is_same;
use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use md5::{Digest as _, Md5};
use sha_crypt::{Params, sha256_crypt, sha512_crypt};
use sha1::Sha1;

/// Old tools write this form with and without `=`.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        // As lenient as the tools that write these files: some leave the padding out.
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Whether checking takes so long that it does not belong on the event loop.
pub fn is_slow(kept: &[u8]) -> bool {
    // One round of a hash takes microseconds; crypt(3) and its like milliseconds and more.
    // `{SHA}` and its kin are one round, so that handing them over would take longer than checking them.
    !kept.starts_with(b"{")
}

/// Where passwords with slow hashes wait for their turn.
static GATE: Gate = Gate::new();

/// Carries out a check on the pool of threads, as many at a time as there are cores: guesses leave threads for requests that need a file.
pub async fn on_pool<T: Send + 'static>(check: impl FnOnce() -> T + Send + 'static) -> Result<T, Busy> {
    GATE.run(PASSWORDS_WAITING_MAX, check).await
}

/// Whether `password` is the one that was kept as `kept`.
pub fn verify(password: &[u8], kept: &[u8]) -> bool {
    if let Some(plain) = kept.strip_prefix(b"{PLAIN}") {
        return is_same(password, plain);
    }
    if let Some(coded) = kept.strip_prefix(b"{SSHA}") {
        let Ok(bytes) = BASE64.decode(coded) else { return false };
        // 20 bytes are SHA-1's; what follows is the salt.
        let Some((hash, salt)) = bytes.split_at_checked(20) else { return false };
        return is_same(&Sha1::new().chain_update(password).chain_update(salt).finalize(), hash);
    }
    if let Some(coded) = kept.strip_prefix(b"{SHA}") {
        return BASE64.decode(coded).is_ok_and(|hash| is_same(&Sha1::digest(password), &hash));
    }
    // The work grows with the password, which a stranger chooses.
    password.len() <= PASSWORD_BYTES_MAX && verify_crypt(password, kept)
}

/// Apache's `$apr1$`, and crypt(3): traditional DES, `$1$`, `$2a$` and its kin, `$5$`, `$6$`.
fn verify_crypt(password: &[u8], kept: &[u8]) -> bool {
    let Some(rest) = kept.strip_prefix(b"$") else {
        // Anything but 13 characters is no DES hash: no password fits.
        let Some((salt, hash)) = kept.split_first_chunk().filter(|_| kept.len() == 13) else { return false };
        return des::crypt(password, *salt).is_some_and(|own| is_same(&own, hash));
    };
    let Some((scheme, rest)) = split(rest) else { return false };
    let with_salt = |rest, own: &dyn Fn(&[u8]) -> Vec<u8>| {
        split(rest).is_some_and(|(salt, hash)| is_same(&own(salt), hash))
    };
    match scheme {
        b"apr1" => with_salt(rest, &|salt| md5_crypt(password, b"$apr1$", salt)),
        b"1" => with_salt(rest, &|salt| md5_crypt(password, b"$1$", salt)),
        // htpasswd writes 2y, others 2a and 2b, for the same algorithm.
        b"2a" | b"2b" | b"2x" | b"2y" => {
            let cost = split(rest).and_then(|(cost, _)| std::str::from_utf8(cost).ok()?.parse::<u32>().ok());
            cost.is_some_and(|cost| cost <= BCRYPT_COST_MAX)
                && std::str::from_utf8(kept).is_ok_and(|kept| bcrypt::verify(password, kept).unwrap_or(false))
        }
        b"5" | b"6" => {
            let Some((params, rest)) = sha_rounds(rest) else { return false };
            with_salt(rest, &|salt| match scheme {
                b"5" => encode(&sha256_crypt(password, salt, params), &SHA256_ORDER),
                _ => encode(&sha512_crypt(password, salt, params), &SHA512_ORDER),
            })
        }
        _ => false,
    }
}

/// What comes before and after the next `$`.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b'$', text)?;
    Some((&text[..at], &text[at + 1..]))
}

/// Reads `rounds=N$`, if it is there. As crypt does, what is too little or too much is made as much as may be.
fn sha_rounds(text: &[u8]) -> Option<(Params, &[u8])> {
    let Some(rest) = text.strip_prefix(b"rounds=") else { return Some((Params::default(), text)) };
    let (number, rest) = split(rest)?;
    let rounds: u32 = std::str::from_utf8(number).ok()?.parse().ok()?;
    if rounds > SHA_CRYPT_ROUNDS_MAX {
        return None;
    }
    Some((Params::new(rounds.clamp(Params::ROUNDS_MIN, Params::ROUNDS_MAX)).ok()?, rest))
}

/// The MD5-based crypt, without its head.
fn md5_crypt(password: &[u8], magic: &[u8], salt: &[u8]) -> Vec<u8> {
    // As crypt(3): what is longer does not count.
    let salt = &salt[..salt.len().min(8)];
    let inner: [u8; 16] =
        Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize().into();
    let mut outer = Md5::new().chain_update(password).chain_update(magic).chain_update(salt);
    for at in (0..password.len()).step_by(16) {
        outer.update(&inner[..(password.len() - at).min(16)]);
    }
    let mut bits = password.len();
    while bits != 0 {
        // A quirk of the original implementation that all others have kept.
        outer.update(if bits & 1 == 1 { &[0] } else { password.get(..1).unwrap_or_default() });
        bits >>= 1;
    }
    let mut hash: [u8; 16] = outer.finalize().into();
    // A thousand rounds were slow in 1995. The scheme is here for files that exist.
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
    encode(&hash, &MD5_ORDER)
}

/// Which bytes make up each four characters, highest first.
const MD5_ORDER: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];
const SHA256_ORDER: [[usize; 3]; 10] = [
    [0, 10, 20],
    [21, 1, 11],
    [12, 22, 2],
    [3, 13, 23],
    [24, 4, 14],
    [15, 25, 5],
    [6, 16, 26],
    [27, 7, 17],
    [18, 28, 8],
    [9, 19, 29],
];
const SHA512_ORDER: [[usize; 3]; 21] = [
    [0, 21, 42],
    [22, 43, 1],
    [44, 2, 23],
    [3, 24, 45],
    [25, 46, 4],
    [47, 5, 26],
    [6, 27, 48],
    [28, 49, 7],
    [50, 8, 29],
    [9, 30, 51],
    [31, 52, 10],
    [53, 11, 32],
    [12, 33, 54],
    [34, 55, 13],
    [56, 14, 35],
    [15, 36, 57],
    [37, 58, 16],
    [59, 17, 38],
    [18, 39, 60],
    [40, 61, 19],
    [62, 20, 41],
];

/// In crypt's alphabet, and in its order of bytes; those that are left over come last.
fn encode(hash: &[u8], order: &[[usize; 3]]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut out = Vec::with_capacity(hash.len() * 4 / 3 + 2);
    let mut put = |bits: u32, digits: usize| {
        out.extend((0..digits).map(|at| DIGITS[(bits >> (6 * at) & 63) as usize]));
    };
    for triple in order {
        put(triple.iter().fold(0, |bits, &at| bits << 8 | u32::from(hash[at])), 4);
    }
    match hash.len() {
        16 => put(u32::from(hash[11]), 2),
        32 => put(u32::from(hash[31]) << 8 | u32::from(hash[30]), 3),
        _ => put(u32::from(hash[63]), 2),
    }
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
            "$5$rounds=1500$saltstring$4tp2bnMNOd7W6pp8Enu3hooDcx0aYbWBYW93Np4E/k5",
            "$6$rounds=1500$saltstring$nXwm0RLUhOhqefv/A5QKRBuClPyZD5TILD.W/VDd..PGVAINRy10jEUzdAyRq07oiEEEAOigj4KZmiaTGj6Ht/",
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
            // Hours of work, which a folder's own file may ask for.
            "$2y$31$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZabcde",
            "$6$rounds=999999999$salt$x",
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
