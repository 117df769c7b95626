//! What the Linux kernel is told so that it seals a session's records itself (`linux/tls.h`, kTLS).

use rustls::ConnectionTrafficSecrets;

const TLS_1_2_VERSION: u16 = 0x0303;
const TLS_1_3_VERSION: u16 = 0x0304;
const TLS_CIPHER_AES_GCM_128: u16 = 51;
const TLS_CIPHER_AES_GCM_256: u16 = 52;
const TLS_CIPHER_CHACHA20_POLY1305: u16 = 54;
/// The part of AES-GCM's nonces that the kernel wants apart.
const SALT_BYTES: usize = 4;

/// A `struct tls12_crypto_info_…`: the value of the socket option TLS_TX. `number` is that of the next record. Nothing
/// for ciphers that the kernel has not.
pub(crate) fn crypto_info(is_13: bool, number: u64, secrets: &ConnectionTrafficSecrets) -> Option<Vec<u8>> {
    let (cipher, key, iv) = match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (TLS_CIPHER_AES_GCM_128, key, iv),
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (TLS_CIPHER_AES_GCM_256, key, iv),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (TLS_CIPHER_CHACHA20_POLY1305, key, iv),
        _ => return None,
    };
    let is_gcm = cipher != TLS_CIPHER_CHACHA20_POLY1305;
    let (salt, iv) = iv.as_ref().split_at(if is_gcm { SALT_BYTES } else { 0 });
    let mut iv = iv.to_vec();
    if is_gcm && !is_13 {
        // RFC 5288 §3: the sender chooses. The kernel counts up from here, while nonces were made by exclusive or of `iv`
        // and the number so far: none of them may come again, so these begin at the other end of the range.
        iv[0] ^= 0x80;
    }
    let version = if is_13 { TLS_1_3_VERSION } else { TLS_1_2_VERSION };
    let head = [version.to_ne_bytes(), cipher.to_ne_bytes()].concat();
    Some([&head[..], &iv, key.as_ref(), salt, &number.to_be_bytes()].concat())
}
