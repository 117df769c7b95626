//! Private keys of PEM files, encrypted ones too, and whether they belong to a certificate.

use crate::certificate::Certificate;
use crate::der::{self, Reader};
use crate::limits::PBKDF2_ROUNDS_MAX;
use crate::pem::{self, Block};
use crate::server::provider;
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, Algorithm, DecryptingKey, DecryptionContext, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::pbkdf2;
use md5::{Digest as _, Md5};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::SigningKey;
use std::num::NonZeroU32;
use std::sync::Arc;

const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 13];
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 12];
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];

const NO_KEY: &str = "PEM_read_bio_PrivateKey() failed (SSL: error:0480006C:PEM routines::no start line:Expecting: ANY PRIVATE KEY)";
const BAD_PASSWORD: &str =
    "PEM_read_bio_PrivateKey() failed (SSL: error:1C800064:Provider routines::bad decrypt)";
const NO_PASSWORD: &str = "PEM_read_bio_PrivateKey() failed (SSL: error:07880109:common libcrypto routines::interrupted or cancelled)";
const BAD_KEY: &str = "PEM_read_bio_PrivateKey() failed (SSL: error:1E08010C:DECODER routines::unsupported)";

/// A key in one of the encodings that the library takes.
#[derive(Debug)]
pub struct PrivateKey(pub(crate) PrivateKeyDer<'static>);

impl Clone for PrivateKey {
    fn clone(&self) -> PrivateKey {
        PrivateKey(self.0.clone_key())
    }
}

impl PrivateKey {
    /// The first key of a PEM file. The error is what stands behind nginx's `cannot load certificate key "…": `.
    pub fn from_pem(text: &[u8], passwords: &[Vec<u8>]) -> Result<PrivateKey, String> {
        let blocks = pem::blocks(text)
            .map_err(|why| format!("PEM_read_bio_PrivateKey() failed (SSL: error:PEM routines::{why})"))?;
        let block = blocks.into_iter().find(|block| block.label.ends_with("PRIVATE KEY")).ok_or(NO_KEY)?;
        let key = decode(block, passwords)?;
        let key = match key.label.as_str() {
            "PRIVATE KEY" => PrivateKeyDer::Pkcs8(key.der.into()),
            "RSA PRIVATE KEY" => PrivateKeyDer::Pkcs1(key.der.into()),
            "EC PRIVATE KEY" => PrivateKeyDer::Sec1(key.der.into()),
            _ => return Err(BAD_KEY.to_string()),
        };
        Ok(PrivateKey(key))
    }

    /// What signs with it; makes the tables that signing needs.
    pub(crate) fn signer(&self) -> Result<Arc<dyn SigningKey>, String> {
        provider().key_provider.load_private_key(self.0.clone_key()).map_err(|error| error.to_string())
    }

    /// Whether it is the key of this certificate. Only encodings are compared, without any arithmetic; `None`: the key does
    /// not contain its public half.
    pub fn belongs_to(&self, certificate: &[u8]) -> Option<bool> {
        let certificate = Certificate::parse(certificate).ok()?;
        let public = self.public()?;
        Some(match public {
            Public::Bits(bits) => certificate.key == bits,
            // RFC 8017 A.1.1: the modulus is the first number of both.
            Public::Modulus(modulus) => {
                Reader(certificate.key).sequence()?.take(der::INTEGER)?.body == modulus
            }
        })
    }

    fn public(&self) -> Option<Public<'_>> {
        match &self.0 {
            PrivateKeyDer::Pkcs1(key) => pkcs1(key.secret_pkcs1_der()),
            PrivateKeyDer::Sec1(key) => sec1(key.secret_sec1_der()),
            PrivateKeyDer::Pkcs8(key) => {
                let mut r = Reader(key.secret_pkcs8_der()).sequence()?;
                r.number()?;
                let algorithm = r.sequence()?.take(der::OID)?.body;
                let inner = r.take(der::OCTET_STRING)?.body;
                match algorithm {
                    RSA => pkcs1(inner),
                    EC => sec1(inner),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

enum Public<'a> {
    Modulus(&'a [u8]),
    Bits(&'a [u8]),
}

fn pkcs1(der: &[u8]) -> Option<Public<'_>> {
    let mut r = Reader(der).sequence()?;
    r.number()?;
    Some(Public::Modulus(r.take(der::INTEGER)?.body))
}

/// RFC 5915 §3.
fn sec1(der: &[u8]) -> Option<Public<'_>> {
    let mut r = Reader(der).sequence()?;
    r.number()?;
    r.take(der::OCTET_STRING)?;
    r.optional(der::context(0))?;
    Some(Public::Bits(r.take(der::context(1))?.inner().bits()?))
}

/// Takes the encryption off, if there is any.
fn decode(block: Block, passwords: &[Vec<u8>]) -> Result<Block, String> {
    let is_old = block.headers.iter().any(|(name, value)| name == "Proc-Type" && value.contains("ENCRYPTED"));
    if !is_old && block.label != "ENCRYPTED PRIVATE KEY" {
        return Ok(block);
    }
    if passwords.is_empty() {
        return Err(NO_PASSWORD.to_string());
    }
    let mut problem = BAD_PASSWORD;
    for password in passwords {
        let der = if is_old { old_style(&block, password) } else { pkcs8(&block.der, password) };
        match der {
            Ok(der) => {
                let label = if is_old { block.label } else { "PRIVATE KEY".to_string() };
                return Ok(Block { label, headers: Vec::new(), der });
            }
            Err(why) => problem = why,
        }
    }
    Err(problem.to_string())
}

/// RFC 8018 §6.2 in PKCS #8 (RFC 5208 §6).
fn pkcs8(bytes: &[u8], password: &[u8]) -> Result<Vec<u8>, &'static str> {
    let scheme = scheme(bytes).ok_or(BAD_KEY)??;
    let mut key = vec![0; key_bytes(scheme.cipher)];
    pbkdf2::derive(scheme.hash, scheme.rounds, scheme.salt, password, &mut key);
    let plain = decrypt(scheme.cipher, &key, scheme.iv, scheme.data).ok_or(BAD_PASSWORD)?;
    // A wrong password leaves a sound padding behind once in 256 times.
    Reader(&plain).sequence().ok_or(BAD_PASSWORD)?;
    Ok(plain)
}

struct Scheme<'a> {
    hash: pbkdf2::Algorithm,
    rounds: NonZeroU32,
    salt: &'a [u8],
    cipher: &'static Algorithm,
    iv: &'a [u8],
    data: &'a [u8],
}

fn scheme(bytes: &[u8]) -> Option<Result<Scheme<'_>, &'static str>> {
    const UNKNOWN: &str = "PEM_read_bio_PrivateKey() failed (the key's encryption is not supported; use AES with PBES2: openssl pkcs8 -topk8 -v2 aes256)";
    let mut r = Reader(bytes).sequence()?;
    let mut algorithm = r.sequence()?;
    let data = r.take(der::OCTET_STRING)?.body;
    if algorithm.take(der::OID)?.body != PBES2 {
        return Some(Err(UNKNOWN));
    }
    let mut parts = algorithm.sequence()?;
    let mut derivation = parts.sequence()?;
    if derivation.take(der::OID)?.body != PBKDF2 {
        return Some(Err(UNKNOWN));
    }
    let mut derivation = derivation.sequence()?;
    let salt = derivation.take(der::OCTET_STRING)?.body;
    let rounds = derivation.number().filter(|&n| n <= PBKDF2_ROUNDS_MAX)?;
    let rounds = NonZeroU32::new(u32::try_from(rounds).ok()?)?;
    derivation.optional(der::INTEGER)?;
    let hash = match derivation.optional(der::SEQUENCE)? {
        None => pbkdf2::PBKDF2_HMAC_SHA1,
        Some(hash) => match hash.inner().take(der::OID)?.body {
            [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 7] => pbkdf2::PBKDF2_HMAC_SHA1,
            [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 9] => pbkdf2::PBKDF2_HMAC_SHA256,
            [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 10] => pbkdf2::PBKDF2_HMAC_SHA384,
            [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 11] => pbkdf2::PBKDF2_HMAC_SHA512,
            _ => return Some(Err(UNKNOWN)),
        },
    };
    let mut cipher = parts.sequence()?;
    let algorithm = match cipher.take(der::OID)?.body {
        [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 2] => &AES_128,
        [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 22] => &AES_192,
        [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 42] => &AES_256,
        _ => return Some(Err(UNKNOWN)),
    };
    let iv = cipher.take(der::OCTET_STRING)?.body;
    Some(Ok(Scheme { hash, rounds, salt, cipher: algorithm, iv, data }))
}

/// RFC 1421 headers as OpenSSL uses them: the key is MD5 over password and salt, which is the start of the vector.
fn old_style(block: &Block, password: &[u8]) -> Result<Vec<u8>, &'static str> {
    const UNKNOWN: &str = "PEM_read_bio_PrivateKey() failed (the key's cipher is not supported; use AES: openssl pkcs8 -topk8 -v2 aes256)";
    let info = block.headers.iter().find(|(name, _)| name == "DEK-Info").map(|(_, value)| value.as_str());
    let (cipher, iv) = info.and_then(|info| info.split_once(',')).ok_or(BAD_KEY)?;
    let cipher = match cipher.trim() {
        "AES-128-CBC" => &AES_128,
        "AES-192-CBC" => &AES_192,
        "AES-256-CBC" => &AES_256,
        _ => return Err(UNKNOWN),
    };
    let iv = unhex(iv.trim()).filter(|iv| iv.len() == 16).ok_or(BAD_KEY)?;
    let mut key: Vec<u8> = Vec::new();
    while key.len() < key_bytes(cipher) {
        let mut hash = Md5::new();
        hash.update(&key[key.len().saturating_sub(16)..]);
        hash.update(password);
        hash.update(&iv[..8]);
        key.extend_from_slice(&hash.finalize());
    }
    key.truncate(key_bytes(cipher));
    let plain = decrypt(cipher, &key, &iv, &block.der).ok_or(BAD_PASSWORD)?;
    Reader(&plain).sequence().ok_or(BAD_PASSWORD)?;
    Ok(plain)
}

fn key_bytes(cipher: &'static Algorithm) -> usize {
    match cipher {
        cipher if *cipher == AES_128 => 16,
        cipher if *cipher == AES_192 => 24,
        _ => 32,
    }
}

/// AES in CBC mode; takes the padding off (RFC 5652 §6.3).
fn decrypt(cipher: &'static Algorithm, key: &[u8], iv: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    let key = DecryptingKey::cbc(UnboundCipherKey::new(cipher, key).ok()?).ok()?;
    let iv = FixedLength::<16>::from(<[u8; 16]>::try_from(iv).ok()?);
    let mut plain = data.to_vec();
    key.decrypt(&mut plain, DecryptionContext::Iv128(iv)).ok()?;
    let padding = usize::from(*plain.last()?);
    let length = plain.len().checked_sub(padding).filter(|_| (1..=16).contains(&padding))?;
    if plain[length..].iter().any(|&byte| usize::from(byte) != padding) {
        return None;
    }
    plain.truncate(length);
    Some(plain)
}

/// Bytes of hexadecimal text.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |b: u8| char::from(b).to_digit(16).map(|digit| digit as u8);
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// The lines of an `ssl_password_file`.
pub fn passwords(text: &[u8]) -> Vec<Vec<u8>> {
    let lines = text.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}
