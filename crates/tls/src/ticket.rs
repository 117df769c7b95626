//! Session tickets (RFC 5077, RFC 8446 §4.6.1): sealed by keys from files, or by keys that change by themselves.
//!
//! A ticket is the key's name of 16 bytes, as in nginx, a nonce, and the sealed session. What it was issued for is sealed
//! with it: a ticket of a virtual host with other rules is none.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::rand;
use rustls::server::ProducesTickets;
use std::sync::{Arc, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

const NAME_BYTES: usize = 16;
/// What is sealed is filled up to a multiple of this: the length tells nothing about names and certificates.
const PADDED_BYTES: usize = 128;

/// One key.
struct Key {
    name: [u8; NAME_BYTES],
    sealing: RandomizedNonceKey,
    /// When it was made; seconds since 1970.
    since: u64,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({})", crate::certificate::hex(&self.name))
    }
}

impl Key {
    /// A random one.
    fn random(now: u64) -> Option<Arc<Key>> {
        let mut bytes = [0; NAME_BYTES + 32];
        rand::fill(&mut bytes).ok()?;
        Key::new(&bytes, now)
    }

    fn new(bytes: &[u8], since: u64) -> Option<Arc<Key>> {
        let (name, secret) = bytes.split_first_chunk::<NAME_BYTES>()?;
        // Files of 48 and of 80 bytes have keys for other ciphers than ours in them.
        let salt = Salt::new(HKDF_SHA256, b"brisk session tickets");
        let mut key = [0; 32];
        salt.extract(secret).expand(&[b"key"], &AES_256_GCM).ok()?.fill(&mut key).ok();
        let sealing = RandomizedNonceKey::new(&AES_256_GCM, &key).ok()?;
        Some(Arc::new(Key { name: *name, sealing, since }))
    }
}

/// The keys of some servers, the one that seals first.
#[derive(Debug)]
pub struct TicketKeys {
    keys: RwLock<Vec<Arc<Key>>>,
    /// Seconds after which a new key is made; 0: never.
    turn: u64,
}

impl TicketKeys {
    /// Keys from files of 48 or 80 bytes. The first one seals, all open.
    pub fn from_files(files: &[impl AsRef<[u8]>]) -> Option<TicketKeys> {
        let keys = files.iter().map(|file| {
            let bytes = file.as_ref();
            if matches!(bytes.len(), 48 | 80) { Key::new(bytes, 0) } else { None }
        });
        Some(TicketKeys { keys: RwLock::new(keys.collect::<Option<_>>()?), turn: 0 })
    }

    /// Random keys, a new one every `turn` seconds; tickets of the one before are still accepted.
    pub fn turning(turn: u64) -> TicketKeys {
        TicketKeys { keys: RwLock::default(), turn: turn.max(1) }
    }

    fn current(&self) -> Option<Arc<Key>> {
        let keys = self.keys.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let first = keys.first().cloned();
        drop(keys);
        if self.turn == 0 {
            return first;
        }
        let now = now();
        if let Some(first) = first
            && now < first.since + self.turn
        {
            return Some(first);
        }
        let mut keys = self.keys.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Another thread may have been faster.
        if keys.first().is_none_or(|first| now >= first.since + self.turn) {
            let fresh = Key::random(now)?;
            keys.retain(|key| now < key.since + 2 * self.turn);
            keys.insert(0, fresh);
        }
        keys.first().cloned()
    }

    fn find(&self, name: &[u8]) -> Option<Arc<Key>> {
        let keys = self.keys.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        keys.iter().find(|key| key.name == name).cloned()
    }
}

/// The tickets of one configuration.
#[derive(Debug)]
pub(crate) struct Ticketer {
    pub keys: Arc<TicketKeys>,
    /// What sessions are for; see the module's head.
    pub context: [u8; 32],
    /// Seconds.
    pub lifetime: u32,
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.lifetime
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let key = self.keys.current()?;
        let length = u16::try_from(plain.len()).ok()?;
        let mut sealed = Vec::with_capacity(10 + plain.len() + PADDED_BYTES + 16);
        sealed.extend_from_slice(&now().to_be_bytes());
        sealed.extend_from_slice(&length.to_be_bytes());
        sealed.extend_from_slice(plain);
        sealed.resize(sealed.len().next_multiple_of(PADDED_BYTES), 0);
        let nonce = key.sealing.seal_in_place_append_tag(Aad::from(self.context), &mut sealed).ok()?;
        Some([&key.name[..], nonce.as_ref(), &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(NAME_BYTES)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        let key = self.keys.find(name)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let plain = key.sealing.open_in_place(nonce, Aad::from(self.context), &mut sealed).ok()?;
        let (time, rest) = plain.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let session = rest.get(..usize::from(u16::from_be_bytes(*length)))?;
        let age = now().checked_sub(u64::from_be_bytes(*time))?;
        (age <= u64::from(self.lifetime)).then(|| session.to_vec())
    }
}

/// Seconds since 1970. Tickets are for other processes and for other days: this is the one place here with a clock.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticketer(keys: &Arc<TicketKeys>, context: u8) -> Ticketer {
        Ticketer { keys: keys.clone(), context: [context; 32], lifetime: 300 }
    }

    #[test]
    fn a_ticket_is_for_its_context_and_key() {
        let keys = Arc::new(TicketKeys::from_files(&[[1u8; 48], [2; 48]]).unwrap());
        let ticket = ticketer(&keys, 7).encrypt(b"a session").unwrap();
        assert_eq!(&ticket[..16], &[1; 16]);
        assert_eq!(ticketer(&keys, 7).decrypt(&ticket).as_deref(), Some(&b"a session"[..]));
        assert_eq!(ticketer(&keys, 8).decrypt(&ticket), None);
        // The order has changed: the old key still opens.
        let turned = Arc::new(TicketKeys::from_files(&[[2u8; 48], [1; 48]]).unwrap());
        assert!(ticketer(&turned, 7).decrypt(&ticket).is_some());
        let others = Arc::new(TicketKeys::from_files(&[[3u8; 80]]).unwrap());
        assert_eq!(ticketer(&others, 7).decrypt(&ticket), None);
        for end in 0..ticket.len() {
            assert_eq!(ticketer(&keys, 7).decrypt(&ticket[..end]), None);
        }
        assert!(TicketKeys::from_files(&[[0u8; 47]]).is_none());
    }

    #[test]
    fn random_keys_are_kept_for_their_time() {
        let keys = Arc::new(TicketKeys::turning(1000));
        let ticket = ticketer(&keys, 1).encrypt(b"x").unwrap();
        assert!(ticketer(&keys, 1).decrypt(&ticket).is_some());
        assert_eq!(ticket[..16], ticketer(&keys, 1).encrypt(b"y").unwrap()[..16]);
        let other = Arc::new(TicketKeys::turning(1000));
        assert_eq!(ticketer(&other, 1).decrypt(&ticket), None);
    }
}
