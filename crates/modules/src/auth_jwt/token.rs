//! A signed token (RFC 7515 compact serialisation, RFC 7519): what it says, once its signature has been checked.
//!
//! Nothing that a token claims is looked at before its signature; of its header only what is needed for that is.

use super::json::Json;
use super::keys::{Algorithm, KeySet};
use crate::limits::{HEADER_BYTES_MAX, KEYS_TRIED_MAX, TOKEN_BYTES_MAX};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::fmt;
use std::sync::Arc;

/// Why a token is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is too long to be looked at.
    TooLong,
    /// It has not three parts.
    Parts,
    /// It is encrypted (RFC 7516).
    Encrypted,
    /// A part is not base64url.
    Base64,
    /// The header is not an object of JSON, or lacks its algorithm.
    Header,
    /// The algorithm is not supported.
    Algorithm,
    /// The header has extensions that must be understood (RFC 7515 §4.1.11).
    Critical,
    /// No key fits.
    NoKey,
    /// The signature is wrong.
    Signature,
    /// The claims are not an object of JSON.
    Claims,
    /// A claim that is a time has no number.
    Time(&'static str),
    /// Its time is over (`exp`).
    Expired,
    /// Its time has not begun (`nbf`).
    NotYet,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::TooLong => f.write_str("the token is too long"),
            Refusal::Parts => f.write_str("the token does not have three parts"),
            Refusal::Encrypted => f.write_str("the token is encrypted, which is not supported"),
            Refusal::Base64 => f.write_str("the token is not valid base64url"),
            Refusal::Header => f.write_str("the token's header is not valid JSON"),
            Refusal::Algorithm => f.write_str("the token's algorithm is not supported"),
            Refusal::Critical => f.write_str("the token has critical extensions"),
            Refusal::NoKey => f.write_str("there is no key for the token"),
            Refusal::Signature => f.write_str("the token's signature is wrong"),
            Refusal::Claims => f.write_str("the token's claims are not a valid JSON object"),
            Refusal::Time(name) => write!(f, "the token's claim \"{name}\" is not a number"),
            Refusal::Expired => f.write_str("the token has expired"),
            Refusal::NotYet => f.write_str("the token is not valid yet"),
        }
    }
}

/// An accepted token.
#[derive(Debug)]
pub struct Token {
    /// The header.
    pub header: Json,
    /// The claims.
    pub claims: Json,
    /// The claims as they were signed.
    pub payload: Vec<u8>,
}

/// What a token must look like to be worth a look at its signature.
/// Of its two lengths the header's is bounded apart: it is decoded and parsed before the signature is
/// checked.
struct Parts<'a> {
    signed: &'a [u8],
    header: Json,
    payload: &'a [u8],
    sign: Vec<u8>,
}

fn split(token: &[u8]) -> Result<Parts<'_>, Refusal> {
    // Before anything is decoded: what a stranger sends costs no more than this.
    if token.len() > TOKEN_BYTES_MAX {
        return Err(Refusal::TooLong);
    }
    let mut parts = token.split(|&b| b == b'.');
    let (Some(header), Some(payload), Some(sign), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        // RFC 7516 §9: an encrypted token has five.
        let is_encrypted = token.iter().filter(|&&b| b == b'.').count() == 4;
        return Err(if is_encrypted { Refusal::Encrypted } else { Refusal::Parts });
    };
    if header.len() > HEADER_BYTES_MAX {
        return Err(Refusal::TooLong);
    }
    // RFC 7515 §5.2: the signature is over the text as it came, not over what is decoded from it.
    let signed = &token[..header.len() + 1 + payload.len()];
    let header = URL_SAFE_NO_PAD.decode(header).map_err(|_| Refusal::Base64)?;
    let sign = URL_SAFE_NO_PAD.decode(sign).map_err(|_| Refusal::Base64)?;
    let header = Json::parse(&header).map_err(|_| Refusal::Header)?;
    Ok(Parts { signed, header, payload, sign })
}

/// Checks a token. `now` and `leeway` are in seconds.
pub fn verify(token: &[u8], keys: &[Arc<KeySet>], now: i64, leeway: u64) -> Result<Token, Refusal> {
    let Parts { signed, header, payload, sign } = split(token)?;
    let name = header.get("alg").and_then(Json::text).ok_or(Refusal::Header)?;
    // `none` is no algorithm here (RFC 8725 §3.2).
    let algorithm = Algorithm::parse(name).ok_or(Refusal::Algorithm)?;
    // RFC 7515 §4.1.11: what is critical must be understood.
    if header.get("crit").is_some() {
        return Err(Refusal::Critical);
    }
    // A `kid` that is no text cannot name a key (RFC 7515 §4.1.4).
    let id = match header.get("kid") {
        None => None,
        Some(Json::Text(id)) => Some(id.as_str()),
        Some(_) => return Err(Refusal::Header),
    };
    let all = keys.iter().flat_map(|set| &set.0);
    // Keys say for what they are: an RSA key is never used as a secret (RFC 8725 §3.1). Their number bounds the work.
    let mut able = all.filter(|key| key.is_for(algorithm, name, id)).take(KEYS_TRIED_MAX).peekable();
    able.peek().ok_or(Refusal::NoKey)?;
    if !able.any(|key| key.verifies(algorithm, signed, &sign)) {
        return Err(Refusal::Signature);
    }
    // Only now: claims of a token that was not signed are not even decoded.
    let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| Refusal::Base64)?;
    let claims = Json::parse(&payload).map_err(|_| Refusal::Claims)?;
    check_times(&claims, now as f64, leeway as f64)?;
    Ok(Token { header, claims, payload })
}

/// RFC 7519 §4.1.4 and §4.1.5.
fn check_times(claims: &Json, now: f64, leeway: f64) -> Result<(), Refusal> {
    if !matches!(claims, Json::Object(_)) {
        return Err(Refusal::Claims);
    }
    // A time that is no number refuses the token: left out, a fault of who signs would make it valid for
    // ever.
    let time = |name: &'static str| {
        claims.get(name).map(|value| value.number().ok_or(Refusal::Time(name))).transpose()
    };
    // RFC 7519 §4.1.4: "on or after" this time it is over.
    if time("exp")?.is_some_and(|exp| now >= exp + leeway) {
        return Err(Refusal::Expired);
    }
    if time("nbf")?.is_some_and(|nbf| now + leeway < nbf) {
        return Err(Refusal::NotYet);
    }
    Ok(())
}

/// For fuzzing: no token that was not signed with the key is accepted, and none does harm.
pub fn fuzz(input: &[u8]) {
    let secret = KeySet::parse(br#"{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}"#);
    let keys = [Arc::new(secret.expect("a key set"))];
    let _ = verify(input, &keys, 1_700_000_000, 0);
    // Key sets come from files and from the network: they are read as if they were a stranger's.
    if let Ok(set) = KeySet::parse(input) {
        let keys = [Arc::new(set)];
        for name in ["HS256", "RS256", "PS384", "ES256", "ES512", "EdDSA"] {
            let header = URL_SAFE_NO_PAD.encode(format!("{{\"alg\":\"{name}\"}}"));
            let token = format!("{header}.e30.{}", URL_SAFE_NO_PAD.encode([0; 64]));
            assert!(verify(token.as_bytes(), &keys, 0, 0).is_err(), "a signature of zeros is wrong");
        }
    }
    // The claims of a token are whatever its owner wanted: they are read after its signature, and do no harm either.
    if let Ok(claims) = Json::parse(input) {
        let _ = check_times(&claims, 1e9, 0.0);
        let mut out = Vec::new();
        claims.append(&mut out);
        let text = claims.to_string();
        assert_eq!(Json::parse(text.as_bytes()).ok().map(|again| again.to_string()), Some(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::hmac;

    const SECRET: &[u8] = b"secret";

    fn keys() -> Vec<Arc<KeySet>> {
        vec![Arc::new(KeySet::parse(br#"{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"a"}]}"#).unwrap())]
    }

    fn signed(header: &str, claims: &str) -> String {
        let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), text.as_bytes());
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(tag))
    }

    #[track_caller]
    fn check(token: &str, want: Option<Refusal>) {
        assert_eq!(verify(token.as_bytes(), &keys(), 1000, 0).err(), want, "{token}");
    }

    const HS256: &str = r#"{"alg":"HS256"}"#;

    #[test]
    fn times() {
        check(&signed(HS256, "{}"), None);
        check(&signed(HS256, r#"{"exp":1001,"nbf":1000}"#), None);
        check(&signed(HS256, r#"{"exp":1000}"#), Some(Refusal::Expired));
        check(&signed(HS256, r#"{"exp":-1}"#), Some(Refusal::Expired));
        check(&signed(HS256, r#"{"exp":999.5}"#), Some(Refusal::Expired));
        check(&signed(HS256, r#"{"exp":1e300}"#), None);
        check(&signed(HS256, r#"{"nbf":1001}"#), Some(Refusal::NotYet));
        check(&signed(HS256, r#"{"exp":"2000"}"#), Some(Refusal::Time("exp")));
        check(&signed(HS256, r#"{"nbf":null}"#), Some(Refusal::Time("nbf")));
        let late = signed(HS256, r#"{"exp":991,"nbf":1010}"#);
        assert!(verify(late.as_bytes(), &keys(), 1000, 10).is_ok());
        assert!(verify(late.as_bytes(), &keys(), 1001, 10).is_err());
    }

    #[test]
    fn hostile_tokens() {
        check("", Some(Refusal::Parts));
        check("..", Some(Refusal::Header));
        check("a.b.c.d", Some(Refusal::Parts));
        check("a.b.c.d.e", Some(Refusal::Encrypted));
        check("a.b.c.d.e.f", Some(Refusal::Parts));
        check("!.e30.", Some(Refusal::Base64));
        check("e30=.e30.", Some(Refusal::Base64));
        check(&"a".repeat(TOKEN_BYTES_MAX + 1), Some(Refusal::TooLong));
        check(&("a".repeat(HEADER_BYTES_MAX + 1) + ".."), Some(Refusal::TooLong));
        check(&signed(r#"{"alg":"none"}"#, "{}"), Some(Refusal::Algorithm));
        let bare = format!("{}.e30.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#));
        check(&bare, Some(Refusal::Algorithm));
        check(&signed(r#"{"alg":"RS256"}"#, "{}"), Some(Refusal::NoKey));
        check(&signed(r#"{"alg":"HS512"}"#, "{}"), Some(Refusal::Signature));
        check(&signed(r#"{"alg":"HS256","alg":"HS256"}"#, "{}"), Some(Refusal::Header));
        check(&signed(r#"{"alg":"HS256","kid":"b"}"#, "{}"), Some(Refusal::NoKey));
        check(&signed(r#"{"alg":"HS256","kid":1}"#, "{}"), Some(Refusal::Header));
        check(&signed(r#"{"alg":"HS256","crit":["b64"],"b64":false}"#, "{}"), Some(Refusal::Critical));
        check(&signed(r#"{"alg":["HS256"]}"#, "{}"), Some(Refusal::Header));
        check(&signed(HS256, "[]"), Some(Refusal::Claims));
        check(&signed(HS256, r#"{"sub":"a","sub":"b"}"#), Some(Refusal::Claims));
        check(&signed(HS256, &("{\"a\":".repeat(100) + "1" + &"}".repeat(100))), Some(Refusal::Claims));
        let good = signed(HS256, "{}");
        check(&good[..good.len() - 1], Some(Refusal::Base64));
        check(&format!("{good}A"), Some(Refusal::Signature));
        let other = good.replacen("e30", "e31", 1);
        check(&other, Some(Refusal::Signature));
        let (start, _) = good.rsplit_once('.').unwrap();
        check(&format!("{start}."), Some(Refusal::Signature));
    }
}
