//! A server whose records the Linux kernel seals (kTLS): what that is told, and what is left to the session. The kernel is
//! played by a few lines that do as `net/tls/tls_sw.c` does.
#![forbid(unsafe_code)]

mod ends;

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use brisk_tls::Versions;
use ends::{End, pair, suites};

/// The kernel's side of a socket.
struct Kernel {
    is_13: bool,
    is_chacha: bool,
    key: LessSafeKey,
    salt: Vec<u8>,
    iv: Vec<u8>,
    number: u64,
}

impl Kernel {
    /// Reads a `struct tls12_crypto_info_…` (`linux/tls.h`): version, cipher, iv, key, salt, number.
    fn new(info: &[u8]) -> Kernel {
        let (head, rest) = info.split_at(4);
        let (version, cipher) = head.split_at(2);
        let is_13 = version == 0x0304u16.to_ne_bytes();
        assert!(is_13 || version == 0x0303u16.to_ne_bytes());
        let (algorithm, iv, key, salt) = match u16::from_ne_bytes(cipher.try_into().unwrap()) {
            51 => (&AES_128_GCM, 8, 16, 4),
            52 => (&AES_256_GCM, 8, 32, 4),
            54 => (&CHACHA20_POLY1305, 12, 32, 0),
            other => panic!("cipher {other}"),
        };
        let (iv, rest) = rest.split_at(iv);
        let (key, rest) = rest.split_at(key);
        let (salt, number) = rest.split_at(salt);
        Kernel {
            is_13,
            is_chacha: salt.is_empty(),
            key: LessSafeKey::new(UnboundKey::new(algorithm, key).unwrap()),
            salt: salt.to_vec(),
            iv: iv.to_vec(),
            number: u64::from_be_bytes(number.try_into().unwrap()),
        }
    }

    fn record(&mut self, kind: u8, plain: &[u8]) -> Vec<u8> {
        let number = self.number.to_be_bytes();
        let mut nonce = [&self.salt[..], &self.iv].concat();
        let is_explicit = !self.is_13 && !self.is_chacha;
        if !is_explicit {
            nonce[4..].iter_mut().zip(number).for_each(|(byte, number)| *byte ^= number);
        }
        let explicit = if is_explicit { self.iv.clone() } else { Vec::new() };
        let mut sealed = plain.to_vec();
        if self.is_13 {
            sealed.push(kind);
        }
        let outer = if self.is_13 { 23 } else { kind };
        let len = (explicit.len() + sealed.len() + 16) as u16;
        let head = [&[outer, 3, 3][..], &len.to_be_bytes()].concat();
        let aad = if self.is_13 {
            head.clone()
        } else {
            [&number[..], &[kind, 3, 3], &(plain.len() as u16).to_be_bytes()].concat()
        };
        let nonce = Nonce::try_assume_unique_for_key(&nonce).unwrap();
        self.key.seal_in_place_append_tag(nonce, Aad::from(aad), &mut sealed).unwrap();
        self.number += 1;
        if is_explicit {
            let next = u64::from_be_bytes(self.iv[..].try_into().unwrap()).wrapping_add(1);
            self.iv = next.to_be_bytes().to_vec();
        }
        [head, explicit, sealed].concat()
    }
}

/// Has the session seal enough to have keys to give.
fn warm(client: &mut End, server: &mut End) {
    server.give(&[1; 8192], client).unwrap();
    client.plain.clear();
}

/// A session that the kernel has been given, of each version and suite; after it has sealed some records itself.
fn each(check: impl Fn(End, End, Kernel)) {
    for (versions, suite) in suites() {
        for len in [0, 100, 40_000] {
            let (mut client, mut server) = pair(versions, suite, true);
            assert!(server.session.crypto_info(1 << 20).is_none());
            warm(&mut client, &mut server);
            server.give(&vec![1; len], &mut client).unwrap();
            let info = server.session.crypto_info(1 << 20).expect("it may go to the kernel");
            assert!(!server.session.is_handed_over());
            server.session.handed_over(true);
            assert!(server.session.is_handed_over() && !server.session.is_retired());
            assert_eq!(info.len(), if suite.contains("128") { 40 } else { 56 });
            client.plain.clear();
            check(client, server, Kernel::new(&info));
        }
    }
}

const CLOSE: [u8; 2] = [1, 0];

#[test]
fn the_kernel_goes_on_where_the_session_stood() {
    each(|mut client, mut server, mut kernel| {
        for text in [&b"first"[..], &[5; 16_384], b""] {
            client.take(&kernel.record(23, text)).unwrap();
            server.session.sent_by_kernel(text.len() as u64).unwrap();
        }
        assert_eq!(client.plain.len(), 5 + 16_384);
        // Reading is ours.
        client.give(&vec![6; 20_000], &mut server).unwrap();
        assert!(server.plain == vec![6; 20_000]);
        // Nothing but alerts is, of what is sent.
        assert!(server.session.seal(b"data", &mut Vec::new()).is_err());
        let mut alert = Vec::new();
        server.session.close(&mut alert).unwrap();
        assert_eq!(alert, CLOSE);
        client.take(&kernel.record(21, &alert)).unwrap();
        assert!(client.session.is_peer_closed());
    });
}

#[test]
fn a_broken_record_is_an_alert_for_the_kernel_to_seal() {
    each(|mut client, mut server, mut kernel| {
        let mut broken = Vec::new();
        client.session.seal(b"text", &mut broken).unwrap();
        *broken.last_mut().unwrap() ^= 1;
        let mut alert = Vec::new();
        assert!(server.session.receive(&mut broken, &mut |_| (), &mut alert).is_err());
        // bad_record_mac
        assert_eq!(alert, [2, 20]);
        assert!(client.take(&kernel.record(21, &alert)).is_err());
    });
}

/// RFC 8446 §4.6.3: what asks for new keys is answered before more data is sent. The kernel keeps its key, so there is none.
#[test]
fn a_session_is_retired_when_new_keys_are_asked_for() {
    let versions = Versions { tls12: false, tls13: true };
    let (mut client, mut server) = pair(versions, "TLS_AES_128_GCM_SHA256", true);
    warm(&mut client, &mut server);
    server.session.handed_over(true);
    let mut out = Vec::new();
    client.session.update_keys(&mut out).unwrap();
    client.session.seal(b"with the new key", &mut out).unwrap();
    assert_eq!(server.take(&out).unwrap(), b"");
    assert!(server.session.is_retired() && !server.session.is_peer_closed() && !server.session.is_failed());
    assert_eq!(server.plain, b"");
    let mut alert = Vec::new();
    server.session.close(&mut alert).unwrap();
    assert_eq!(alert, CLOSE);
}

/// RFC 8446 §5.5: 2^24.5 records.
#[test]
fn a_key_of_the_kernels_is_not_worn_out() {
    const RECORDS_MAX: u64 = 1 << 24;
    for (suite, is_gcm) in [("TLS_AES_128_GCM_SHA256", true), ("TLS_CHACHA20_POLY1305_SHA256", false)] {
        let (mut client, mut server) = pair(Versions { tls12: false, tls13: true }, suite, true);
        // One record.
        warm(&mut client, &mut server);
        let too_much = (RECORDS_MAX / 2) << 14;
        let is_none = server.session.crypto_info(too_much).is_none();
        assert_eq!(is_none, is_gcm, "a file that the key may not last for");
        assert!(server.session.crypto_info(too_much - (1 << 14)).is_some());
        server.session.handed_over(true);
        let mut sent = |bytes| server.session.sent_by_kernel(bytes).map(|()| server.session.is_retired());
        assert!(!sent(too_much - (17 << 14)).unwrap());
        // A byte takes a record, too.
        let retired: Vec<_> = (0..17).map(|_| sent(1).unwrap()).collect();
        assert!(!retired[15] && retired[16] == is_gcm);
        assert_eq!(sent(too_much).is_err(), is_gcm);
    }
}

/// RFC 5288 §3: what is sent of a nonce must never be the same twice with one key. The kernel counts; the session has not.
#[test]
fn nonces_of_the_kernel_are_others() {
    let (_, mut server) = pair(Versions { tls12: true, tls13: false }, "AES128", true);
    let mut out = Vec::new();
    server.session.seal(&[9; 8192], &mut out).unwrap();
    let before = out[5];
    let info = server.session.crypto_info(1 << 20).unwrap();
    let record = Kernel::new(&info).record(23, b"text");
    assert_eq!(before ^ record[5], 0x80);
}

#[test]
fn keys_stay_where_that_is_not_wanted_or_was_refused() {
    for versions in [Versions { tls12: true, tls13: false }, Versions { tls12: false, tls13: true }] {
        let suite = if versions.tls13 { "TLS_AES_128_GCM_SHA256" } else { "AES128" };
        for kernel in [false, true] {
            let (mut client, mut server) = pair(versions, suite, kernel);
            warm(&mut client, &mut server);
            assert_eq!(server.session.crypto_info(1 << 20).is_some(), kernel);
            server.session.handed_over(false);
            assert!(server.session.crypto_info(1 << 20).is_none());
            server.give(b"sealed here", &mut client).unwrap();
            server.give(&vec![3; 50_000], &mut client).unwrap();
            assert!(client.plain.starts_with(b"sealed here") && client.plain.len() == 50_011);
        }
    }
}
