//! Early data that the server does not take (RFC 8446 §4.2.10): its records are skipped until the client's next message.
//!
//! The library skips them too, but an unbuffered session looks at what it has skipped again with each call, and counts it
//! again each time. So they are taken out before it sees them. Which they are is known after a HelloRetryRequest by their
//! type, else by trying to open them with the key of the client's handshake, which the library tells a key log.

use crate::limits::{EARLY_DATA_BYTES_MAX, RECORD_PLAIN_MAX};
use crate::records::{HEAD_BYTES, Key, open_copy};
use rustls::{CipherSuite, KeyLog};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;
const SERVER_HELLO: u8 = 2;
const ENCRYPTED_EXTENSIONS: u8 = 8;
const EARLY_DATA: u16 = 42;
/// What a sealed record has besides its content, at least: its type and the tag.
const SEALED_OVERHEAD: usize = 17;
/// RFC 8446 §4.1.3: the random of a ServerHello that is a HelloRetryRequest.
const RETRY_RANDOM: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
    0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// The secrets of one handshake.
#[derive(Default)]
struct Secrets {
    client: Vec<u8>,
    server: Vec<u8>,
}

/// A key log that keeps the handshake's secrets of one session, and passes all of them on.
pub(crate) struct Witness {
    next: Arc<dyn KeyLog>,
    secrets: Mutex<Secrets>,
}

impl Witness {
    /// Passes what it hears on to `next`.
    pub fn new(next: Arc<dyn KeyLog>) -> Witness {
        Witness { next, secrets: Mutex::default() }
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness")
    }
}

impl KeyLog for Witness {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        match label {
            "CLIENT_HANDSHAKE_TRAFFIC_SECRET" => secrets.client = secret.to_vec(),
            "SERVER_HANDSHAKE_TRAFFIC_SECRET" => secrets.server = secret.to_vec(),
            _ => {}
        }
        drop(secrets);
        if self.next.will_log(label) {
            self.next.log(label, client_random, secret);
        }
    }
}

/// What has become of the early data.
enum Stage {
    /// The ClientHello is not answered yet.
    Asked,
    /// Answered with a HelloRetryRequest: nothing that is sealed can be meant for this server yet.
    Retried,
    /// Refused. The first record that this opens is the client's next message.
    Refused(Key),
    /// Taken, or at its end.
    Over,
}

/// What to do with the records at the start of what has come.
pub(crate) enum Next {
    /// So many bytes are not for the session.
    Drop(usize),
    /// They are not whole.
    Wait,
    /// From here on all records are the session's.
    Over,
}

/// Follows a handshake whose client has offered early data.
pub(crate) struct Skip {
    witness: Arc<Witness>,
    stage: Stage,
    /// Content that may still be skipped.
    left: usize,
}

impl Skip {
    /// Before the ClientHello is answered. `witness` is the key log of the same session.
    pub fn new(witness: Arc<Witness>) -> Skip {
        Skip { witness, stage: Stage::Asked, left: EARLY_DATA_BYTES_MAX as usize }
    }

    /// The session has answered what it was given.
    pub fn answered(&mut self, suite: Option<CipherSuite>, records: &[u8]) {
        let is_again = matches!(self.stage, Stage::Retried);
        if records.is_empty() {
            return;
        }
        self.stage = match self.stage {
            Stage::Asked | Stage::Retried => self.judge(suite, records),
            _ => return,
        };
        // The second ClientHello has no early data behind it.
        if is_again {
            self.stage = Stage::Over;
        }
    }

    fn judge(&self, suite: Option<CipherSuite>, records: &[u8]) -> Stage {
        if is_retry(records) {
            return Stage::Retried;
        }
        let secrets = self.witness.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = |secret: &[u8]| Key::of_secret(suite?, secret);
        let refused = key(&secrets.server).and_then(|mut key| accepts(&mut key, records)) == Some(false);
        match key(&secrets.client) {
            Some(key) if refused => Stage::Refused(key),
            _ => Stage::Over,
        }
    }

    /// What to do with the record at the start of `input`. One that is no application data is the session's.
    pub fn next(&mut self, input: &[u8]) -> Next {
        let Some(record) = whole(input) else {
            let waits = !matches!(self.stage, Stage::Over) && is_sound(input);
            return if waits { Next::Wait } else { Next::Over };
        };
        let is_skipped = match &mut self.stage {
            Stage::Retried => record[0] == DATA,
            Stage::Refused(key) => record[0] == DATA && open_copy(key, record).is_none(),
            Stage::Asked | Stage::Over => false,
        };
        let content = (record.len() - HEAD_BYTES).saturating_sub(SEALED_OVERHEAD).max(1);
        match self.left.checked_sub(content) {
            Some(left) if is_skipped => {
                self.left = left;
                Next::Drop(record.len())
            }
            _ => Next::Over,
        }
    }
}

/// Whether a record that is not all there may be sound once it is: the session says what is wrong with others.
fn is_sound(input: &[u8]) -> bool {
    let Some(&[kind, major, _, a, b]) = input.first_chunk::<HEAD_BYTES>() else { return true };
    let len = usize::from(u16::from_be_bytes([a, b]));
    (20..=DATA).contains(&kind) && major == 3 && len <= RECORD_PLAIN_MAX + 256
}

/// The first record, with its head, if it is all there.
fn whole(input: &[u8]) -> Option<&[u8]> {
    let head = input.first_chunk::<HEAD_BYTES>()?;
    input.get(..HEAD_BYTES + usize::from(u16::from_be_bytes([head[3], head[4]])))
}

/// How many bytes at the start are whole records of another type than application data.
pub(crate) fn others(input: &[u8]) -> usize {
    let mut count = 0;
    while let Some(record) = whole(&input[count..]).filter(|record| record[0] != DATA) {
        count += record.len();
    }
    count
}

fn is_retry(records: &[u8]) -> bool {
    let Some(hello) = whole(records).filter(|record| record[0] == HANDSHAKE) else { return false };
    // The message's type and length, legacy_version, random.
    let body = &hello[HEAD_BYTES..];
    body.first() == Some(&SERVER_HELLO) && body.get(6..38) == Some(&RETRY_RANDOM[..])
}

/// Whether the server's EncryptedExtensions, in the records that it answers with, take the early data.
fn accepts(key: &mut Key, mut records: &[u8]) -> Option<bool> {
    let mut message = Vec::new();
    loop {
        let record = whole(records)?;
        records = &records[record.len()..];
        if record[0] != DATA {
            continue;
        }
        let (kind, text) = open_copy(key, record)?;
        if kind != HANDSHAKE {
            return None;
        }
        message.extend_from_slice(&text);
        let Some((&[kind, a, b, c], rest)) = message.split_first_chunk::<4>() else { continue };
        if kind != ENCRYPTED_EXTENSIONS {
            return None;
        }
        if let Some(body) = rest.get(..u32::from_be_bytes([0, a, b, c]) as usize) {
            return has_early_data(body);
        }
    }
}

fn has_early_data(body: &[u8]) -> Option<bool> {
    let (_, mut rest) = body.split_first_chunk::<2>()?;
    while let Some((&[a, b, c, d], tail)) = rest.split_first_chunk::<4>() {
        if u16::from_be_bytes([a, b]) == EARLY_DATA {
            return Some(true);
        }
        rest = tail.get(usize::from(u16::from_be_bytes([c, d]))..)?;
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issue::{Issued, Wish};
    use crate::{
        Certified, ClientContext, ClientOptions, Fixed, Hello, Parsed, PrivateKey, Resumption, ServerContext,
        ServerOptions, Session, SessionCache,
    };
    use rustls::{ClientConfig, ClientConnection};
    use std::io::{Read as _, Write as _};

    /// A client that has a session with early data, and servers.
    struct Scene {
        client: Arc<ClientConfig>,
        certified: Certified,
        /// The one that knows the session.
        issuer: ServerContext,
    }

    fn server(certified: &Certified, cache: bool, client_authorities: Option<Vec<Vec<u8>>>) -> ServerContext {
        let cache = cache.then(|| Arc::new(SessionCache::new(1 << 20, usize::MAX)));
        let early_data = cache.is_some();
        let resumption = Resumption { cache, timeout: 300, ..Resumption::default() };
        let options =
            ServerOptions { client_authorities, resumption, early_data, ..ServerOptions::default() };
        ServerContext::new(&options, Arc::new(Fixed([certified.clone()].into()))).unwrap()
    }

    fn scene() -> Scene {
        let issued = Issued::new(&Wish::default(), None).unwrap();
        let key = PrivateKey::from_pem(issued.key_pem().as_bytes(), &[]).unwrap();
        let certified = Certified::new(vec![issued.certificate.clone()], &key, None).unwrap();
        let options = ClientOptions { certificate: Some(certified.clone()), ..ClientOptions::unverified() };
        let mut client = (*ClientContext::new(&options).unwrap().named).clone();
        client.enable_early_data = true;
        // Its messages come in several records.
        client.max_fragment_size = Some(64);
        let issuer = server(&certified, true, None);
        let scene = Scene { client: Arc::new(client), certified, issuer };
        assert_eq!(scene.run(&scene.issuer, &[], usize::MAX), Ok(("hello".into(), false)));
        scene
    }

    impl Scene {
        fn client(&self) -> ClientConnection {
            ClientConnection::new(self.client.clone(), "a.test".try_into().unwrap()).unwrap()
        }

        /// Sends early data in these writes, and `hello` behind it; what comes reaches the server in pieces of so many
        /// bytes. Gives what the server has read, and whether the early data was taken.
        fn run(
            &self,
            server: &ServerContext,
            early: &[usize],
            piece: usize,
        ) -> Result<(String, bool), String> {
            let mut client = self.client();
            for len in early {
                let sent = client.early_data().expect("a session").write(&vec![b'e'; *len]).unwrap();
                assert_eq!(sent, *len);
            }
            client.writer().write_all(b"hello").unwrap();
            let (mut session, mut got): (Option<Session>, _) = (None, Vec::new());
            loop {
                let mut sent = Vec::new();
                while client.wants_write() {
                    client.write_tls(&mut sent).unwrap();
                }
                if sent.is_empty() {
                    let text = String::from_utf8(got).unwrap();
                    return Ok((text, client.is_early_data_accepted()));
                }
                let mut out = Vec::new();
                let mut at = 0;
                if session.is_none() {
                    // As the server does it: the session begins when the ClientHello is there.
                    let hello = (1..=sent.len()).find_map(|end| match Hello::parse(&sent[..end]).unwrap() {
                        Parsed::Complete(hello) => Some((*hello, end)),
                        Parsed::Partial => None,
                    });
                    let (hello, end) = hello.unwrap();
                    assert!(hello.offered.early_data || early.is_empty());
                    session = Some(server.session(hello.offered).unwrap());
                    at = if piece == usize::MAX { 0 } else { end };
                    let mut first = sent[..if at == 0 { sent.len() } else { at }].to_vec();
                    let mut take = |text: &[u8]| got.extend_from_slice(text);
                    let done = session.as_mut().unwrap().receive(&mut first, &mut take, &mut out);
                    done.map_err(|error| error.to_string())?;
                    if at == 0 {
                        at = sent.len();
                    }
                }
                let session = session.as_mut().unwrap();
                for part in sent[at..].chunks(piece) {
                    let mut take = |text: &[u8]| got.extend_from_slice(text);
                    let done = session.receive(&mut part.to_vec(), &mut take, &mut out);
                    done.map_err(|error| error.to_string())?;
                }
                let mut out = &out[..];
                while !out.is_empty() {
                    client.read_tls(&mut out).unwrap();
                    client.process_new_packets().map_err(|error| error.to_string())?;
                }
                let _ = client.reader().read(&mut [0; 10]);
            }
        }
    }

    /// All of the limit, whatever pieces it comes in and whatever the client says next.
    #[test]
    fn early_data_that_is_refused_is_skipped_in_any_pieces() {
        let scene = scene();
        let stranger = server(&scene.certified, false, None);
        let asking = server(&scene.certified, true, Some(vec![]));
        let whole = [16_384];
        let small = [1; 500];
        let many = [1000; 16];
        for (early, pieces) in [
            (&whole[..], &[usize::MAX, 20_000, 5000, 100, 7, 1][..]),
            (&small, &[usize::MAX, 5000, 22, 21, 1]),
            (&many, &[usize::MAX, 1022, 1000, 33]),
        ] {
            for server in [&stranger, &asking] {
                for &piece in pieces {
                    // The sessions are used up: each is for one handshake.
                    scene.run(&scene.issuer, &[], usize::MAX).unwrap();
                    let got = scene.run(server, early, piece);
                    assert_eq!(got, Ok(("hello".into(), false)), "{} in {piece}", early.len());
                }
            }
        }
    }

    /// What is skipped has an end, also where it says nothing.
    #[test]
    fn no_more_is_skipped_than_was_allowed() {
        for (len, skipped_max) in [(17, 40_000), (1000, 34), (16_401, 2)] {
            let scene = scene();
            let mut client = scene.client();
            let mut sent = Vec::new();
            client.write_tls(&mut sent).unwrap();
            let Parsed::Complete(hello) = Hello::parse(&sent).unwrap() else { panic!("a ClientHello") };
            assert!(hello.offered.early_data);
            let mut session = server(&scene.certified, false, None).session(hello.offered).unwrap();
            let mut receive =
                |mut bytes: Vec<u8>| session.receive(&mut bytes, &mut |_| panic!("data"), &mut Vec::new());
            receive(sent).unwrap();
            let record = [&[DATA, 3, 3][..], &(len as u16).to_be_bytes(), &vec![7; len]].concat();
            let skipped = (0..100_000).take_while(|_| receive(record.clone()).is_ok()).count();
            assert!((1..=skipped_max).contains(&skipped), "{skipped} of {len}");
        }
    }

    #[test]
    fn early_data_that_is_taken_is_all_read() {
        let scene = scene();
        for piece in [usize::MAX, 5000, 100, 1] {
            scene.run(&scene.issuer, &[], usize::MAX).unwrap();
            let got = scene.run(&scene.issuer, &[6000, 3000], piece);
            assert_eq!(got, Ok(("e".repeat(9000) + "hello", true)), "{piece}");
        }
    }
}
