//! The records of a session whose handshake is done, without the library: for sessions that send much.
//!
//! The library copies what it seals twice. Here plaintext is sealed from where it lies into where it is sent from. Keys
//! still come from the library, which also makes the next ones (RFC 8446 §7.2); the records and the few messages that may
//! come in them after a handshake are dealt with here. Only a server's side: a client would have to keep tickets.

use crate::error::Error;
use crate::kernel;
use crate::limits::{GCM_RECORDS_MAX, IDLE_RECORDS_MAX, RECORD_BYTES_MAX, RECORD_PLAIN_MAX};
use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use aws_lc_rs::hkdf;
use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::{AlertDescription, CipherSuite, ConnectionTrafficSecrets, ProtocolVersion};

pub(crate) const HEAD_BYTES: usize = 5;
const TAG_BYTES: usize = 16;
/// The part of a nonce that is sent with each record (RFC 5288 §3).
const EXPLICIT_BYTES: usize = 8;
/// Room that sealing one record takes besides its plaintext, at most.
pub(crate) const SEAL_OVERHEAD: usize = HEAD_BYTES + EXPLICIT_BYTES + TAG_BYTES;

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;
const KEY_UPDATE: u8 = 24;
/// KeyUpdate with what it says: that the peer need not answer.
const UPDATED: [u8; 5] = [KEY_UPDATE, 0, 0, 1, 0];

/// Why a session ends: what the peer is told and what is logged.
struct Fault {
    alert: AlertDescription,
    error: Error,
}

fn fault(alert: AlertDescription, reason: &'static str) -> Fault {
    Fault { alert, error: Error::Refused(reason) }
}

fn unexpected() -> Fault {
    fault(AlertDescription::UnexpectedMessage, "unexpected message")
}

/// How a suite protects records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// RFC 8446 §5.2: the content's type is sealed with it.
    Tls13,
    /// RFC 5288 §3: a part of the nonce is sent along.
    Explicit,
    /// RFC 7905 §2: nothing of it is.
    Implicit,
}

/// The key of one direction.
pub(crate) struct Key {
    aead: LessSafeKey,
    iv: [u8; NONCE_LEN],
    /// The number of the next record.
    number: u64,
    /// Records that may be sealed with it.
    number_max: u64,
}

impl Key {
    fn new(number: u64, secrets: &ConnectionTrafficSecrets) -> Result<Key, Error> {
        let (algorithm, key, iv): (&Algorithm, _, _) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(Error::Refused("unknown cipher")),
        };
        let is_gcm = !matches!(secrets, ConnectionTrafficSecrets::Chacha20Poly1305 { .. });
        let unusable = |_| Error::Refused("unusable key");
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(unusable)?;
        let iv = iv.as_ref().try_into().map_err(|_| Error::Refused("unusable key"))?;
        let number_max = if is_gcm { GCM_RECORDS_MAX } else { u64::MAX - 1 };
        Ok(Key { aead: LessSafeKey::new(key), iv, number, number_max })
    }

    /// The key that follows from a traffic secret of TLS 1.3 (RFC 8446 §7.3), for its first record.
    pub fn of_secret(suite: CipherSuite, secret: &[u8]) -> Option<Key> {
        let (algorithm, hash): (&Algorithm, _) = match suite {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => (&AES_128_GCM, hkdf::HKDF_SHA256),
            CipherSuite::TLS13_AES_256_GCM_SHA384 => (&AES_256_GCM, hkdf::HKDF_SHA384),
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => (&CHACHA20_POLY1305, hkdf::HKDF_SHA256),
            _ => return None,
        };
        if secret.len() != hash.hmac_algorithm().digest_algorithm().output_len() {
            return None;
        }
        let secret = hkdf::Prk::new_less_safe(hash, secret);
        let key = expand(&secret, b"tls13 key", algorithm.key_len())?;
        let iv = expand(&secret, b"tls13 iv", NONCE_LEN)?.try_into().ok()?;
        let aead = LessSafeKey::new(UnboundKey::new(algorithm, &key).ok()?);
        Some(Key { aead, iv, number: 0, number_max: GCM_RECORDS_MAX })
    }

    /// The nonce of the next record (RFC 8446 §5.3; the library makes those of TLS 1.2 alike).
    fn nonce(&self) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        for (byte, number) in nonce[NONCE_LEN - 8..].iter_mut().zip(self.number.to_be_bytes()) {
            *byte ^= number;
        }
        nonce
    }

    /// What is authenticated with a record of TLS 1.2 (RFC 5246 §6.2.3.3).
    fn additional(&self, kind: u8, plain_len: usize) -> [u8; 13] {
        let mut bytes = [0; 13];
        bytes[..8].copy_from_slice(&self.number.to_be_bytes());
        bytes[8..11].copy_from_slice(&[kind, 3, 3]);
        bytes[11..].copy_from_slice(&(plain_len as u16).to_be_bytes());
        bytes
    }
}

/// HKDF-Expand-Label without a context (RFC 8446 §7.1).
fn expand(secret: &hkdf::Prk, label: &[u8], len: usize) -> Option<Vec<u8>> {
    struct Len(usize);
    impl hkdf::KeyType for Len {
        fn len(&self) -> usize {
            self.0
        }
    }
    let mut out = vec![0; len];
    let info = [&(len as u16).to_be_bytes()[..], &[label.len() as u8], label, &[0]];
    secret.expand(&info, Len(len)).ok()?.fill(&mut out).ok()?;
    Some(out)
}

/// Opens a copy of a record of TLS 1.3, head and all: the kind of its content, and the content.
pub(crate) fn open_copy(key: &mut Key, record: &[u8]) -> Option<(u8, Vec<u8>)> {
    let (head, body) = record.split_first_chunk::<HEAD_BYTES>()?;
    let mut body = body.to_vec();
    let (kind, text) = open(Form::Tls13, key, *head, &mut body).ok()?;
    Some((kind, text.to_vec()))
}

/// What seals records.
enum Sealer {
    /// This code, whatever comes.
    Own,
    /// This code; the kernel may get the key.
    Willing(ConnectionTrafficSecrets),
    /// The kernel. Its key is never changed: where it would have to be, the session is retired.
    Kernel { is_retired: bool },
}

/// See the module's head.
pub(crate) struct Records {
    keys: KernelConnection<ServerConnectionData>,
    form: Form,
    sealer: Sealer,
    sealing: Key,
    opening: Key,
    /// The start of a handshake message that goes on in the next record.
    message: Vec<u8>,
    /// Records since the last one with data.
    idle: u32,
    is_peer_closed: bool,
}

impl Records {
    /// Takes a session over. It must be established, with nothing left to be sent, and nothing half read. With `kernel`
    /// keys may go on to the kernel.
    pub fn take_over(conn: UnbufferedServerConnection, kernel: bool) -> Result<Records, Error> {
        let (secrets, keys) = conn.dangerous_into_kernel_connection()?;
        let is_gcm = !matches!(secrets.tx.1, ConnectionTrafficSecrets::Chacha20Poly1305 { .. });
        let form = match keys.protocol_version() {
            ProtocolVersion::TLSv1_3 => Form::Tls13,
            _ if is_gcm => Form::Explicit,
            _ => Form::Implicit,
        };
        let sealing = Key::new(secrets.tx.0, &secrets.tx.1)?;
        let opening = Key::new(secrets.rx.0, &secrets.rx.1)?;
        let sealer = if kernel { Sealer::Willing(secrets.tx.1) } else { Sealer::Own };
        let message = Vec::new();
        Ok(Records { keys, form, sealer, sealing, opening, message, idle: 0, is_peer_closed: false })
    }

    /// What the kernel needs to seal from the next record on: the value of TLS_TX. Nothing if it may not, or if the key
    /// might not last for `bytes` of plaintext and as much again.
    pub fn crypto_info(&self, bytes: u64) -> Option<Vec<u8>> {
        let Sealer::Willing(secrets) = &self.sealer else { return None };
        let key = &self.sealing;
        let lasts = key.number.saturating_add(records(bytes)) <= key.number_max / 2;
        kernel::crypto_info(self.form == Form::Tls13, key.number, secrets).filter(|_| lasts)
    }

    /// The kernel has taken what [`Records::crypto_info`] gave, or has refused it and is not asked again.
    pub fn handed_over(&mut self, taken: bool) {
        self.sealer = if taken { Sealer::Kernel { is_retired: false } } else { Sealer::Own };
    }

    /// Whether the kernel seals.
    pub fn is_handed_over(&self) -> bool {
        matches!(self.sealer, Sealer::Kernel { .. })
    }

    /// The kernel seals, and must not go on with its key for more than what is under way.
    pub fn is_retired(&self) -> bool {
        matches!(self.sealer, Sealer::Kernel { is_retired: true })
    }

    /// The kernel has sealed so many bytes in one go. An error: that was all that its key may seal.
    pub fn sent(&mut self, bytes: u64) -> Result<(), Error> {
        let key = &mut self.sealing;
        key.number = key.number.saturating_add(records(bytes));
        if let Sealer::Kernel { is_retired } = &mut self.sealer {
            *is_retired |= key.number > key.number_max / 2;
        }
        if key.number < key.number_max { Ok(()) } else { Err(Error::Refused("too many records for one key")) }
    }

    /// Whether the peer has said that nothing more comes (`close_notify`).
    pub fn is_peer_closed(&self) -> bool {
        self.is_peer_closed
    }

    /// Seals `plain` in records of up to `record_plain` bytes; gives how much of `room` they take. It must have
    /// [`SEAL_OVERHEAD`] bytes for each, and for one more.
    pub fn seal(&mut self, plain: &[u8], record_plain: usize, room: &mut [u8]) -> Result<usize, Error> {
        let mut filled = 0;
        for part in plain.chunks(record_plain) {
            if self.sealing.number >= self.sealing.number_max {
                filled += self.next_sealing_key(&mut room[filled..])?;
            }
            filled += self.seal_record(DATA, part, &mut room[filled..])?;
        }
        Ok(filled)
    }

    /// Records sealed with the present key.
    #[cfg(test)]
    pub fn sealed(&self) -> u64 {
        self.sealing.number
    }

    /// Has the present key seal no more than so many.
    #[cfg(test)]
    pub fn limit(&mut self, number_max: u64) {
        self.sealing.number_max = number_max;
    }

    /// Seals a close_notify.
    pub fn close(&mut self, room: &mut [u8]) -> Result<usize, Error> {
        self.seal_record(ALERT, &[1, u8::from(AlertDescription::CloseNotify)], room)
    }

    /// Says that keys change, and changes the own one (RFC 8446 §4.6.3).
    fn next_sealing_key(&mut self, room: &mut [u8]) -> Result<usize, Error> {
        if self.form != Form::Tls13 {
            return Err(Error::Refused("too many records for one key"));
        }
        let filled = self.seal_record(HANDSHAKE, &UPDATED, room)?;
        let (number, secrets) = self.keys.update_tx_secret()?;
        self.sealing = Key::new(number, &secrets)?;
        if let Sealer::Willing(have) = &mut self.sealer {
            *have = secrets;
        }
        Ok(filled)
    }

    /// Once the kernel seals only alerts come through here, and stay as they are.
    fn seal_record(&mut self, kind: u8, plain: &[u8], room: &mut [u8]) -> Result<usize, Error> {
        if self.is_handed_over() {
            let room = room.get_mut(..plain.len()).filter(|_| kind == ALERT);
            room.ok_or(Error::Refused("the kernel seals"))?.copy_from_slice(plain);
            return Ok(plain.len());
        }
        let key = &mut self.sealing;
        let nonce = key.nonce();
        let explicit = if self.form == Form::Explicit { EXPLICIT_BYTES } else { 0 };
        let (outer, inner): (u8, &[u8]) =
            if self.form == Form::Tls13 { (DATA, std::slice::from_ref(&kind)) } else { (kind, &[]) };
        let len = explicit + plain.len() + inner.len() + TAG_BYTES;
        let [high, low] = (len as u16).to_be_bytes();
        let head = [outer, 3, 3, high, low];
        let refused = || Error::Refused("record cannot be sealed");
        let room = room.get_mut(..HEAD_BYTES + len).ok_or_else(refused)?;
        let (start, rest) = room.split_at_mut(HEAD_BYTES + explicit);
        start[..HEAD_BYTES].copy_from_slice(&head);
        start[HEAD_BYTES..].copy_from_slice(&nonce[NONCE_LEN - explicit..]);
        let (sealed, tail) = rest.split_at_mut(plain.len());
        let nonce = Nonce::assume_unique_for_key(nonce);
        let done = if self.form == Form::Tls13 {
            key.aead.seal_out_of_place_scatter(nonce, Aad::from(head), plain, sealed, inner, tail)
        } else {
            let aad = Aad::from(key.additional(kind, plain.len()));
            key.aead.seal_out_of_place_scatter(nonce, aad, plain, sealed, inner, tail)
        };
        done.map_err(|_| refused())?;
        key.number += 1;
        Ok(HEAD_BYTES + len)
    }

    /// Opens the records that are whole: how much of the input that is, and whether they are sound. Plaintext goes to
    /// `plain`, what is to be sent to `out` — an alert, with an error.
    pub fn receive(
        &mut self,
        input: &mut [u8],
        plain: &mut dyn FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> (usize, Result<(), Error>) {
        let mut used = 0;
        while !self.is_peer_closed && !self.is_retired() {
            match self.record(&mut input[used..], plain, out) {
                Ok(0) => return (used, Ok(())),
                Ok(count) => used += count,
                Err(fault) => {
                    let mut room = [0; SEAL_OVERHEAD + 2];
                    if let Ok(filled) = self.seal_record(ALERT, &[2, u8::from(fault.alert)], &mut room) {
                        out.extend_from_slice(&room[..filled]);
                    }
                    return (used, Err(fault.error));
                }
            }
        }
        // RFC 8446 §6.1: what comes behind a closure alert is ignored. So is what could not be answered any more.
        (input.len(), Ok(()))
    }

    /// The record that the input begins with; gives its size, 0 if it is not whole.
    fn record(
        &mut self,
        input: &mut [u8],
        plain: &mut dyn FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> Result<usize, Fault> {
        let Some((&mut head, rest)) = input.split_first_chunk_mut::<HEAD_BYTES>() else { return Ok(0) };
        let len = usize::from(u16::from_be_bytes([head[3], head[4]]));
        // RFC 8446 §5.2, RFC 5246 §6.2.3
        let expansion = if self.form == Form::Tls13 { 256 } else { 2048 };
        if len > RECORD_PLAIN_MAX + expansion {
            return Err(fault(AlertDescription::RecordOverflow, "packet length too long"));
        }
        // RFC 8446 §5
        if !is_known(head[0]) {
            return Err(fault(AlertDescription::UnexpectedMessage, "bad record type"));
        }
        if head[1] != 3 {
            return Err(fault(AlertDescription::ProtocolVersion, "wrong version number"));
        }
        let Some(body) = rest.get_mut(..len) else { return Ok(0) };
        let (kind, text) = open(self.form, &mut self.opening, head, body)?;
        if kind == DATA && !text.is_empty() {
            self.idle = 0;
        } else {
            self.idle += 1;
        }
        if self.idle > IDLE_RECORDS_MAX {
            return Err(fault(AlertDescription::UnexpectedMessage, "too many records without data"));
        }
        // RFC 8446 §5.1: nothing may come between the parts of a message.
        if kind != HANDSHAKE && !self.message.is_empty() {
            return Err(unexpected());
        }
        match kind {
            DATA => plain(text),
            ALERT => self.is_peer_closed = alert(self.form, text)?,
            HANDSHAKE => {
                let asks = handshake(self.form, &mut self.message, text)?;
                self.key_updates(asks, out)?;
            }
            _ => return Err(unexpected()),
        }
        Ok(HEAD_BYTES + len)
    }

    /// The peer has changed its key, and may ask for ours to be changed.
    fn key_updates(&mut self, update: Option<bool>, out: &mut Vec<u8>) -> Result<(), Fault> {
        let Some(asks) = update else { return Ok(()) };
        let broken = |error| Fault { alert: AlertDescription::InternalError, error };
        let (number, secrets) = self.keys.update_rx_secret().map_err(|error| broken(error.into()))?;
        self.opening = Key::new(number, &secrets).map_err(broken)?;
        if let Sealer::Kernel { is_retired } = &mut self.sealer {
            // RFC 8446 §4.6.3: no data may be sent before the answer, and the kernel cannot be relied on to change keys.
            *is_retired |= asks;
        } else if asks {
            let mut room = [0; SEAL_OVERHEAD + UPDATED.len()];
            let filled = self.next_sealing_key(&mut room).map_err(broken)?;
            out.extend_from_slice(&room[..filled]);
        }
        Ok(())
    }
}

/// Whether there are records of this type.
fn is_known(kind: u8) -> bool {
    (20..=23).contains(&kind)
}

/// Where the first record begins whose head alone is wrong.
pub(crate) fn wrong_head(input: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let &[kind, major, _, a, b] = input.get(at..)?.first_chunk::<HEAD_BYTES>()?;
        let len = usize::from(u16::from_be_bytes([a, b]));
        if !is_known(kind) || major != 3 || HEAD_BYTES + len > RECORD_BYTES_MAX {
            return Some(at);
        }
        at += HEAD_BYTES + len;
    }
}

/// Records that the kernel makes of so many bytes that it is given in one go.
fn records(bytes: u64) -> u64 {
    bytes.div_ceil(RECORD_PLAIN_MAX as u64)
}

/// Opens a record in place: the kind of its content, and the content.
fn open<'a>(
    form: Form,
    key: &mut Key,
    head: [u8; HEAD_BYTES],
    body: &'a mut [u8],
) -> Result<(u8, &'a [u8]), Fault> {
    let bad_mac = || Fault {
        alert: AlertDescription::BadRecordMac,
        error: Error::Protocol(rustls::Error::DecryptError),
    };
    let mut nonce = key.nonce();
    let body = if form == Form::Explicit {
        let (explicit, rest) = body.split_at_mut_checked(EXPLICIT_BYTES).ok_or_else(bad_mac)?;
        nonce[NONCE_LEN - EXPLICIT_BYTES..].copy_from_slice(explicit);
        rest
    } else {
        body
    };
    let plain_len = body.len().checked_sub(TAG_BYTES).ok_or_else(bad_mac)?;
    let nonce = Nonce::assume_unique_for_key(nonce);
    let opened = if form == Form::Tls13 {
        // RFC 8446 §5: nothing comes in the clear any more.
        if head[0] != DATA {
            return Err(unexpected());
        }
        key.aead.open_in_place(nonce, Aad::from(head), body)
    } else {
        key.aead.open_in_place(nonce, Aad::from(key.additional(head[0], plain_len)), body)
    };
    let text: &[u8] = opened.map_err(|_| bad_mac())?;
    key.number += 1;
    let (kind, text) = match form {
        // RFC 8446 §5.4: the type is the last byte that is not zero.
        Form::Tls13 => {
            let at = text.iter().rposition(|&byte| byte != 0).ok_or_else(unexpected)?;
            (text[at], &text[..at])
        }
        _ => (head[0], text),
    };
    if text.len() > RECORD_PLAIN_MAX {
        return Err(fault(AlertDescription::RecordOverflow, "data length too long"));
    }
    Ok((kind, text))
}

/// An alert: whether it closes the session (RFC 8446 §6).
fn alert(form: Form, text: &[u8]) -> Result<bool, Fault> {
    let &[level, description] = text else {
        return Err(fault(AlertDescription::DecodeError, "bad alert"));
    };
    let description = AlertDescription::from(description);
    match description {
        AlertDescription::CloseNotify => Ok(true),
        AlertDescription::UserCanceled => Ok(false),
        _ if level == 1 && form != Form::Tls13 => Ok(false),
        // It is not answered; the alert that is sent closes this side.
        _ => Err(Fault {
            alert: AlertDescription::CloseNotify,
            error: Error::Protocol(rustls::Error::AlertReceived(description)),
        }),
    }
}

/// Handshake messages, `before` being the start of one: if keys are updated, whether an answer is asked for.
fn handshake(form: Form, before: &mut Vec<u8>, text: &[u8]) -> Result<Option<bool>, Fault> {
    if form != Form::Tls13 {
        // RFC 5746 §4.5: a server may refuse to shake hands again.
        return Err(fault(AlertDescription::NoRenegotiation, "no renegotiation"));
    }
    if text.is_empty() {
        return Err(unexpected());
    }
    before.extend_from_slice(text);
    if before.len() >= 4 && before[0] == KEY_UPDATE && before[1..4] != UPDATED[1..4] {
        return Err(fault(AlertDescription::DecodeError, "bad key update"));
    }
    if !UPDATED[..4].starts_with(&before[..before.len().min(4)]) || before.len() > UPDATED.len() {
        // Of several messages the keys would change in between (RFC 8446 §5.1).
        return Err(unexpected());
    }
    if before.len() < UPDATED.len() {
        return Ok(None);
    }
    let asks = before[UPDATED.len() - 1];
    *before = Vec::new();
    match asks {
        0 | 1 => Ok(Some(asks == 1)),
        _ => Err(fault(AlertDescription::IllegalParameter, "bad key update")),
    }
}
