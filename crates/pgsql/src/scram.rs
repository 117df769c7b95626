//! SCRAM-SHA-256 (RFC 5802, RFC 7677) without channel binding, from the client's side.

use crate::limits::SCRAM_ROUNDS_MAX;
use aws_lc_rs::{constant_time, digest, hmac, pbkdf2};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::num::NonZeroU32;

/// The name of the mechanism.
pub const MECHANISM: &str = "SCRAM-SHA-256";

/// "n,,": the client does not support channel binding (RFC 5802 §7).
const HEADER: &str = "n,,";

/// The server's first message is awaited.
pub struct First {
    /// The client's first message without its header. PostgreSQL takes the name from the start-up message.
    bare: String,
    nonce: String,
}

/// The server's final message is awaited, which proves that it knows the password.
pub struct Final {
    signature: hmac::Tag,
}

impl First {
    /// `random` must be new for each login.
    pub fn new(random: [u8; 18]) -> First {
        let nonce = BASE64.encode(random);
        First { bare: format!("n=,r={nonce}"), nonce }
    }

    /// The client's first message.
    pub fn message(&self) -> String {
        format!("{HEADER}{}", self.bare)
    }

    /// Answers the server's first message; `None`: it is malformed, or asks for too many rounds.
    pub fn answer(self, server: &[u8], password: &str) -> Option<(String, Final)> {
        let server = std::str::from_utf8(server).ok()?;
        let mut attributes = server.split(',');
        let mut attribute = |name: &str| attributes.next()?.strip_prefix(name);
        let (nonce, salt, rounds) = (attribute("r=")?, attribute("s=")?, attribute("i=")?);
        // It must go on from ours, with something of its own (RFC 5802 §5.1).
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return None;
        }
        let salt = BASE64.decode(salt).ok()?;
        let rounds: NonZeroU32 =
            rounds.parse().ok().filter(|rounds: &NonZeroU32| rounds.get() <= SCRAM_ROUNDS_MAX)?;
        let mut salted = [0; digest::SHA256_OUTPUT_LEN];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, password.as_bytes(), &mut salted);
        let key = |name: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &salted), name);
        let sign =
            |key: &[u8], text: &str| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes());
        let without_proof = format!("c={},r={nonce}", BASE64.encode(HEADER));
        let all = format!("{},{server},{without_proof}", self.bare);
        let client_key = key(b"Client Key");
        let stored = digest::digest(&digest::SHA256, client_key.as_ref());
        let signature = sign(stored.as_ref(), &all);
        let proof: Vec<u8> = client_key
            .as_ref()
            .iter()
            .zip(signature.as_ref())
            .map(|(key, signature)| key ^ signature)
            .collect();
        let signature = sign(key(b"Server Key").as_ref(), &all);
        Some((format!("{without_proof},p={}", BASE64.encode(proof)), Final { signature }))
    }
}

impl Final {
    /// Whether the server knows the password.
    pub fn is_proved(&self, server: &[u8]) -> bool {
        let proof =
            std::str::from_utf8(server).ok().and_then(|text| text.split(',').next()?.strip_prefix("v="));
        let proof = proof.and_then(|proof| BASE64.decode(proof).ok()).unwrap_or_default();
        constant_time::verify_slices_are_equal(&proof, self.signature.as_ref()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677 §3, whose name is in the message.
    fn example() -> First {
        let nonce = "rOprNGfwEbeRWgbNEkqO".to_string();
        First { bare: format!("n=user,r={nonce}"), nonce }
    }

    const SERVER: &str =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    #[test]
    fn the_example_of_rfc_7677() {
        let (answer, end) = example().answer(SERVER.as_bytes(), "pencil").unwrap();
        assert_eq!(
            answer,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert!(end.is_proved(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        for wrong in
            [&b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5="[..], b"v=", b"", b"e=other-error", b"\xff"]
        {
            assert!(!end.is_proved(wrong));
        }
    }

    #[test]
    fn servers_that_do_not_play_by_the_rules() {
        for server in [
            "",
            "r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "r=rOprNGfwEbeRWgbNEkqOx,s=?,i=4096",
            "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=0",
            "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=100001",
            "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==",
        ] {
            assert!(example().answer(server.as_bytes(), "pencil").is_none(), "{server}");
        }
    }

    #[test]
    fn the_first_message() {
        assert_eq!(First::new([0; 18]).message(), "n,,n=,r=AAAAAAAAAAAAAAAAAAAAAAAA");
    }
}
