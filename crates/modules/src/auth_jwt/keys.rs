//! Key sets (RFC 7517, RFC 7518 §6, RFC 8037) and the check of a signature.

use super::json::Json;
use crate::limits::KEYS_MAX;
use aws_lc_rs::{hmac, signature};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::fmt;

/// Bytes of an RSA modulus.
/// 2048 to 8192 bits: less is no longer safe, more is work that a key's owner could make us do (RFC 7518
/// §3.3).
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

/// How a token is signed (RFC 7518 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC with SHA-2.
    Hs(Bits),
    /// RSA with PKCS #1 v1.5 padding.
    Rs(Bits),
    /// RSA with PSS padding.
    Ps(Bits),
    /// ECDSA.
    Es(Bits),
    /// Ed25519 (RFC 8037).
    EdDsa,
}

/// Of the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits {
    /// SHA-256.
    B256,
    /// SHA-384.
    B384,
    /// SHA-512.
    B512,
}

impl Algorithm {
    /// `None` for `none` and whatever else is not to be trusted or not known.
    // `none` has no family, so it cannot be met by accident (RFC 8725 §3.2).
    pub fn parse(name: &str) -> Option<Algorithm> {
        if name == "EdDSA" || name == "Ed25519" {
            return Some(Algorithm::EdDsa);
        }
        let (family, bits) = (name.get(..2)?, name.get(2..)?);
        let bits = match bits {
            "256" => Bits::B256,
            "384" => Bits::B384,
            "512" => Bits::B512,
            _ => return None,
        };
        match family {
            "HS" => Some(Algorithm::Hs(bits)),
            "RS" => Some(Algorithm::Rs(bits)),
            "PS" => Some(Algorithm::Ps(bits)),
            "ES" => Some(Algorithm::Es(bits)),
            _ => None,
        }
    }
}

/// The curve that goes with an algorithm, and the bytes of a coordinate.
fn curve(name: &str) -> Option<(Bits, usize)> {
    match name {
        "P-256" => Some((Bits::B256, 32)),
        "P-384" => Some((Bits::B384, 48)),
        "P-521" => Some((Bits::B512, 66)),
        _ => None,
    }
}

/// What a key is made of.
enum Material {
    Secret(Vec<u8>),
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// A point, uncompressed.
    Ec {
        bits: Bits,
        point: Vec<u8>,
    },
    Ed25519(Vec<u8>),
}

/// One key.
pub struct Key {
    id: Option<String>,
    /// The only algorithm it may be used with.
    algorithm: Option<String>,
    material: Material,
}

/// A key set.
pub struct KeySet(pub Vec<Key>);

/// Why a key set cannot be used.
#[derive(Debug)]
pub struct KeyError(String);

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl KeySet {
    /// Reads a key set; keys of unknown kinds and those that are not for signatures are passed over (RFC 7517 §5).
    pub fn parse(text: &[u8]) -> Result<KeySet, KeyError> {
        let value = Json::parse(text).map_err(|error| KeyError(format!("invalid JSON ({error})")))?;
        let Some(Json::List(list)) = value.get("keys") else {
            return Err(KeyError("no \"keys\" array".into()));
        };
        // A set is read while a request waits.
        if list.len() > KEYS_MAX {
            return Err(KeyError(format!("more than {KEYS_MAX} keys")));
        }
        let mut keys = Vec::new();
        for (at, value) in list.iter().enumerate() {
            let key = Key::parse(value).map_err(|why| KeyError(format!("key {}: {why}", at + 1)))?;
            keys.extend(key);
        }
        Ok(KeySet(keys))
    }
}

fn bytes(value: &Json, name: &str) -> Result<Vec<u8>, String> {
    let text = value.get(name).and_then(Json::text).ok_or_else(|| format!("no \"{name}\""))?;
    // Some producers pad (against RFC 7515 §2).
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|_| format!("\"{name}\" is not base64url"))
}

impl Key {
    fn parse(value: &Json) -> Result<Option<Key>, String> {
        let text = |name: &str| value.get(name).and_then(Json::text);
        let kind = text("kty").ok_or("no \"kty\"")?;
        let verifies = match value.get("key_ops") {
            Some(Json::List(list)) => list.iter().any(|op| op.text() == Some("verify")),
            _ => true,
        };
        // RFC 7517 §4.2, §4.3: a key for encryption must not be used for signatures.
        if text("use").is_some_and(|used| used != "sig") || !verifies {
            return Ok(None);
        }
        let material = match (kind, text("crv").unwrap_or_default()) {
            ("oct", _) => Material::Secret(bytes(value, "k")?),
            ("RSA", _) => rsa(bytes(value, "n")?, bytes(value, "e")?)?,
            ("EC", name) => match curve(name) {
                Some((bits, len)) => ec(bits, len, &bytes(value, "x")?, &bytes(value, "y")?)?,
                None => return Ok(None),
            },
            ("OKP", "Ed25519") => {
                let x = bytes(value, "x")?;
                if x.len() != 32 {
                    return Err("\"x\" does not have the length of the curve".into());
                }
                Material::Ed25519(x)
            }
            _ => return Ok(None),
        };
        if matches!(&material, Material::Secret(secret) if secret.is_empty()) {
            return Err("the secret is empty".into());
        }
        let owned = |name| text(name).map(str::to_owned);
        Ok(Some(Key { id: owned("kid"), algorithm: owned("alg"), material }))
    }

    /// Whether a token that names this algorithm and key may be checked with it. A secret is never taken for a public
    /// key or the other way round (RFC 8725 §3.1).
    pub fn is_for(&self, algorithm: Algorithm, name: &str, id: Option<&str>) -> bool {
        let fits = match (&self.material, algorithm) {
            (Material::Secret(_), Algorithm::Hs(_)) => true,
            (Material::Rsa { .. }, Algorithm::Rs(_) | Algorithm::Ps(_)) => true,
            (Material::Ec { bits, .. }, Algorithm::Es(wanted)) => *bits == wanted,
            (Material::Ed25519(_), Algorithm::EdDsa) => true,
            _ => false,
        };
        // A token without `kid` may be checked with any key of its kind.
        let same_id = match (id, &self.id) {
            (Some(wanted), Some(have)) => wanted == have,
            _ => true,
        };
        fits && same_id && self.algorithm.as_deref().is_none_or(|own| own == name)
    }

    /// Checks a signature; the key must be [for](Key::is_for) the algorithm.
    pub fn verifies(&self, algorithm: Algorithm, message: &[u8], sign: &[u8]) -> bool {
        match (&self.material, algorithm) {
            (Material::Secret(secret), Algorithm::Hs(bits)) => {
                let hash = match bits {
                    Bits::B256 => hmac::HMAC_SHA256,
                    Bits::B384 => hmac::HMAC_SHA384,
                    Bits::B512 => hmac::HMAC_SHA512,
                };
                // In constant time, by the library.
                hmac::verify(&hmac::Key::new(hash, secret), message, sign).is_ok()
            }
            (Material::Rsa { n, e }, Algorithm::Rs(bits)) => {
                let how = match bits {
                    Bits::B256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                    Bits::B384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    Bits::B512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                };
                signature::RsaPublicKeyComponents { n, e }.verify(how, message, sign).is_ok()
            }
            (Material::Rsa { n, e }, Algorithm::Ps(bits)) => {
                let how = match bits {
                    Bits::B256 => &signature::RSA_PSS_2048_8192_SHA256,
                    Bits::B384 => &signature::RSA_PSS_2048_8192_SHA384,
                    Bits::B512 => &signature::RSA_PSS_2048_8192_SHA512,
                };
                signature::RsaPublicKeyComponents { n, e }.verify(how, message, sign).is_ok()
            }
            (Material::Ec { bits, point }, Algorithm::Es(wanted)) if *bits == wanted => {
                let how = match bits {
                    Bits::B256 => &signature::ECDSA_P256_SHA256_FIXED,
                    Bits::B384 => &signature::ECDSA_P384_SHA384_FIXED,
                    Bits::B512 => &signature::ECDSA_P521_SHA512_FIXED,
                };
                signature::UnparsedPublicKey::new(how, point).verify(message, sign).is_ok()
            }
            (Material::Ed25519(key), Algorithm::EdDsa) => {
                signature::UnparsedPublicKey::new(&signature::ED25519, key).verify(message, sign).is_ok()
            }
            _ => false,
        }
    }
}

fn rsa(n: Vec<u8>, e: Vec<u8>) -> Result<Material, String> {
    // Some producers put a zero in front, as ASN.1 has it for positive numbers.
    let strip = |bytes: Vec<u8>| bytes.into_iter().skip_while(|&byte| byte == 0).collect::<Vec<_>>();
    let (n, e) = (strip(n), strip(e));
    if !RSA_BYTES.contains(&n.len()) || n[0] < 0x80 && n.len() == *RSA_BYTES.start() {
        return Err("an RSA key must have 2048 to 8192 bits".into());
    }
    if e.is_empty() || e.len() > 8 || e[e.len() - 1] & 1 == 0 {
        return Err("invalid RSA exponent".into());
    }
    Ok(Material::Rsa { n, e })
}

fn ec(bits: Bits, len: usize, x: &[u8], y: &[u8]) -> Result<Material, String> {
    if x.len() != len || y.len() != len {
        return Err("\"x\" and \"y\" do not have the length of the curve".into());
    }
    // 4 stands for a point with both coordinates (SEC 1, §2.3.3). Whether it lies on the curve is checked
    // when it is used.
    Ok(Material::Ec { bits, point: [&[4][..], x, y].concat() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_used_is_told() {
        let check = |text: &str, want: &str| {
            let got = KeySet::parse(text.as_bytes()).err().map(|error| error.to_string());
            let got = got.unwrap_or_default();
            assert!(got.starts_with(want) && got.is_empty() == want.is_empty(), "{text}: {got}");
        };
        check("{", "invalid JSON");
        check("[]", "no \"keys\" array");
        check(r#"{"keys":{}}"#, "no \"keys\" array");
        check(r#"{"keys":[1]}"#, "key 1: no \"kty\"");
        check(r#"{"keys":[{"kty":"oct"}]}"#, "key 1: no \"k\"");
        check(r#"{"keys":[{"kty":"oct","k":""}]}"#, "key 1: the secret is empty");
        check(r#"{"keys":[{"kty":"oct","k":"a!"}]}"#, "key 1: \"k\" is not base64url");
        check(r#"{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}"#, "key 1: an RSA key must have");
        check(r#"{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}"#, "key 1: \"x\" and \"y\" do not");
        check(r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"}]}"#, "key 1: \"x\" does not");
        check(r#"{"keys":[{"kty":"oct","k":"YQ","k":"Yg"}]}"#, "invalid JSON");
        check(r#"{"keys":[{"kty":"oct","k":"YQ=="},{"kty":"new"},{"kty":"EC","crv":"x"}]}"#, "");
    }

    #[test]
    fn a_key_is_used_only_for_what_it_is_for() {
        let set = KeySet::parse(
            br#"{"keys":[{"kty":"oct","k":"YQ","kid":"1","alg":"HS256"},{"kty":"oct","k":"YQ"},
            {"kty":"oct","k":"YQ","use":"enc"},{"kty":"oct","k":"YQ","key_ops":["encrypt"]}]}"#,
        )
        .unwrap();
        assert_eq!(set.0.len(), 2);
        let hs = Algorithm::Hs(Bits::B256);
        assert!(set.0[0].is_for(hs, "HS256", Some("1")) && set.0[0].is_for(hs, "HS256", None));
        assert!(!set.0[0].is_for(hs, "HS256", Some("2")));
        assert!(!set.0[0].is_for(Algorithm::Hs(Bits::B512), "HS512", None));
        assert!(set.0[1].is_for(Algorithm::Hs(Bits::B512), "HS512", Some("2")));
        assert!(!set.0[1].is_for(Algorithm::Rs(Bits::B256), "RS256", None));
        for name in ["none", "None", "NONE", "", "HS", "HS1", "RS256 ", "\u{e9}\u{e9}"] {
            assert_eq!(Algorithm::parse(name), None, "{name}");
        }
    }

    /// A key set and signatures made with the secret halves of its keys.
    #[test]
    fn every_family_of_algorithms() {
        use aws_lc_rs::rand::SystemRandom;
        use aws_lc_rs::signature::{
            ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING,
            ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA512,
            RSA_PSS_SHA256, RsaKeyPair,
        };
        let b64 = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let random = SystemRandom::new();
        let message = b"message";
        let mut cases: Vec<(&str, String, Vec<u8>)> = Vec::new();
        for (name, curve, how) in [
            ("ES256", "P-256", &ECDSA_P256_SHA256_FIXED_SIGNING),
            ("ES384", "P-384", &ECDSA_P384_SHA384_FIXED_SIGNING),
            ("ES512", "P-521", &ECDSA_P521_SHA512_FIXED_SIGNING),
        ] {
            let pair = EcdsaKeyPair::generate(how).unwrap();
            let point = &pair.public_key().as_ref()[1..];
            let (x, y) = point.split_at(point.len() / 2);
            let key = format!(r#"{{"kty":"EC","crv":"{curve}","x":"{}","y":"{}"}}"#, b64(x), b64(y));
            cases.push((name, key, pair.sign(&random, message).unwrap().as_ref().to_vec()));
        }
        let pair = Ed25519KeyPair::generate().unwrap();
        let key = format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{}"}}"#, b64(pair.public_key().as_ref()));
        cases.push(("EdDSA", key, pair.sign(message).as_ref().to_vec()));
        let pair = RsaKeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
        // RFC 8017 §A.1.1: the modulus is behind two heads and a zero, the exponent 65537 at the end.
        let der = pair.public_key().as_ref();
        let key =
            format!(r#"{{"kty":"RSA","n":"{}","e":"{}"}}"#, b64(&der[9..265]), b64(&der[der.len() - 3..]));
        let mut sign = vec![0; pair.public_modulus_len()];
        pair.sign(&RSA_PKCS1_SHA512, &random, message, &mut sign).unwrap();
        cases.push(("RS512", key.clone(), sign.clone()));
        pair.sign(&RSA_PSS_SHA256, &random, message, &mut sign).unwrap();
        cases.push(("PS256", key, sign));

        for (name, key, sign) in cases {
            let set = KeySet::parse(format!("{{\"keys\":[{key}]}}").as_bytes()).unwrap();
            let algorithm = Algorithm::parse(name).unwrap();
            let key = &set.0[0];
            assert!(key.is_for(algorithm, name, None) && key.verifies(algorithm, message, &sign), "{name}");
            assert!(!key.verifies(algorithm, b"massage", &sign), "{name}");
            assert!(!key.verifies(algorithm, message, &sign[..sign.len() - 1]), "{name}");
            // The trick with the public key as a secret (RFC 8725 §2.1).
            assert!(!key.is_for(Algorithm::Hs(Bits::B256), "HS256", None), "{name}");
        }
    }
}
