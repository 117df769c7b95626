//! One TLS session, free of I/O: records in, plaintext out, and the other way round.
//!
//! The library's unbuffered interface is used: nothing is kept between calls but what the protocol needs. Whoever owns
//! the session keeps what was left over of its input, and sends what it has put out. A server that sends much goes on with
//! records of its own ([`Records`]).

use crate::agreed::{self, Agreed};
use crate::error::Error;
use crate::limits::{
    LEFT_BYTES_MAX, OWN_PIECE_BYTES_MIN, OWN_RECORDS_BYTES_MIN, QUEUED_MAX, RECORD_PLAIN_MAX,
};
use crate::records::{self, Records, SEAL_OVERHEAD};
use crate::server::Sealing;
use crate::skip::{self, Next, Skip};
use rustls::CommonState;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::CertificateDer;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, ReadEarlyData, UnbufferedStatus};

/// Room for what the library may have to say before data.
const CONTROL_BYTES: usize = 256;

enum Side {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
    /// A server's, established.
    Own(Box<Own>),
    /// QUIC has the keys (RFC 9001): here is only what was agreed.
    Quic(Box<Agreed>),
    /// It could not be taken over.
    Over,
}

/// Records without the library, and what it had to say of the handshake.
struct Own {
    records: Records,
    agreed: Agreed,
}

/// See the module's head.
pub struct Session {
    side: Side,
    /// Plaintext of one record, at most.
    record_plain: usize,
    sealing: Sealing,
    /// Bytes of plaintext in large pieces so far.
    sealed: usize,
    /// Input that is not whole yet, as the library has left it.
    left: Vec<u8>,
    progress: Progress,
    /// As long as there may be early data that is not taken.
    skip: Option<Box<Skip>>,
}

#[derive(Default)]
struct Progress {
    established: bool,
    peer_closed: bool,
    /// Data came before the handshake was complete (RFC 8446 §2.3).
    early: bool,
    failed: bool,
}

/// Both sides' connections, as the work on records needs them.
trait Conn {
    type Data;
    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
    fn early(data: ReadEarlyData<'_, '_, Self::Data>, plain: &mut dyn FnMut(&[u8])) -> Result<(), Error>;
}

impl Conn for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(input)
    }

    fn early(mut data: ReadEarlyData<'_, '_, Self::Data>, plain: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        while let Some(record) = data.next_record() {
            plain(record?.payload);
        }
        Ok(())
    }
}

impl Conn for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(input)
    }

    fn early(_: ReadEarlyData<'_, '_, Self::Data>, _: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        Ok(())
    }
}

impl Session {
    pub(crate) fn server(
        conn: UnbufferedServerConnection,
        record_plain: usize,
        sealing: Sealing,
        skip: Option<Box<Skip>>,
    ) -> Session {
        let record_plain = record_plain.clamp(1, RECORD_PLAIN_MAX);
        Session { skip, ..Session::new(Side::Server(Box::new(conn)), record_plain, sealing) }
    }

    pub(crate) fn client(conn: UnbufferedClientConnection) -> Session {
        Session::new(Side::Client(Box::new(conn)), RECORD_PLAIN_MAX, Sealing::Library)
    }

    /// What is known of a handshake over QUIC, for those who ask a session; there are no records to seal or open.
    /// `is_early`: the handshake is not complete, so that what has come may be a replay.
    pub fn of_quic(agreed: Agreed, is_early: bool) -> Session {
        let mut session = Session::new(Side::Quic(Box::new(agreed)), RECORD_PLAIN_MAX, Sealing::Library);
        (session.progress.early, session.progress.established) = (is_early, !is_early);
        session
    }

    /// The handshake over QUIC is complete, with what it has come to: a client's certificate is the last that comes of it.
    pub fn complete_quic(&mut self, now: Option<Agreed>) {
        if let Side::Quic(agreed) = &mut self.side {
            self.progress.established = true;
            if let Some(now) = now {
                **agreed = now;
            }
        }
    }

    fn new(side: Side, record_plain: usize, sealing: Sealing) -> Session {
        Session {
            side,
            record_plain,
            sealing,
            sealed: 0,
            left: Vec::new(),
            progress: Progress::default(),
            skip: None,
        }
    }

    /// Works through what has come. Plaintext is handed to `plain`, records to be sent are appended to `out` — also
    /// with an error, which has an alert for the peer. After an error the session is of no more use. What is not whole yet
    /// is kept.
    ///
    /// A client's first call has an empty input and puts out the ClientHello.
    pub fn receive(
        &mut self,
        input: &mut [u8],
        plain: &mut dyn FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if self.progress.failed {
            return Err(Error::Over);
        }
        let mut joined = self.take_left();
        if let Some(skip) = self.skip.take() {
            joined.extend_from_slice(input);
            return self.receive_and_skip(skip, joined, plain, out);
        }
        if joined.is_empty() {
            let (used, result) = self.work_all(input, plain, out);
            self.left.extend_from_slice(&input[used..]);
            return self.worked(result);
        }
        joined.extend_from_slice(input);
        let (used, result) = self.work_all(&mut joined, plain, out);
        joined.drain(..used);
        self.left = if joined.is_empty() { Vec::new() } else { joined };
        self.worked(result)
    }

    /// As [`Session::receive`], where early data may have to be left out.
    fn receive_and_skip(
        &mut self,
        mut skip: Box<Skip>,
        mut input: Vec<u8>,
        plain: &mut dyn FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let mut at = 0;
        loop {
            let others = skip::others(&input[at..]);
            if others > 0 {
                let before = out.len();
                let (used, result) = self.work(&mut input[at..at + others], plain, out);
                at += used;
                if result.is_err() {
                    self.left = input.split_off(at);
                    return self.worked(result);
                }
                let suite = self.common().and_then(CommonState::negotiated_cipher_suite);
                skip.answered(suite.map(|suite| suite.suite()), &out[before..]);
                if used < others {
                    // A message has begun: what belongs to it is the session's.
                    return self.receive(&mut input.split_off(at), plain, out);
                }
            }
            match skip.next(&input[at..]) {
                Next::Drop(count) => at += count,
                Next::Wait => break,
                Next::Over => return self.receive(&mut input.split_off(at), plain, out),
            }
        }
        self.skip = Some(skip);
        self.left = input.split_off(at);
        self.worked(Ok(()))
    }

    /// The start of a record, or of a message in several, that [`Session::receive`] keeps. Whoever takes it must offer it
    /// again, unchanged, before what comes behind it — and before anything else is done: that saves a copy.
    pub fn take_left(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.left)
    }

    /// How much [`Session::take_left`] would give.
    pub fn left(&self) -> usize {
        self.left.len()
    }

    fn worked(&mut self, result: Result<(), Error>) -> Result<(), Error> {
        if result.is_ok() && self.left.len() > LEFT_BYTES_MAX {
            self.progress.failed = true;
            return Err(Error::Library("packet length too long".to_string()));
        }
        if result.is_ok() && !self.progress.established {
            self.progress.established = self.common().is_some_and(|common| !common.is_handshaking());
        }
        result
    }

    /// As [`Session::work`]. For a record of no type, or one too long, RFC 8446 §5 wants another alert than the library's, so
    /// from there on records are ours.
    fn work_all(
        &mut self,
        input: &mut [u8],
        plain: &mut dyn FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> (usize, Result<(), Error>) {
        let wrong = records::wrong_head(input).filter(|_| self.may_take_over());
        let Some(at) = wrong else { return self.work(input, plain, out) };
        let (used, result) = self.work(&mut input[..at], plain, out);
        if result.is_err() || used < at || self.take_over().is_err() {
            return (used, result);
        }
        let (more, result) = self.work(&mut input[at..], plain, out);
        (at + more, result)
    }

    /// Turns of the protocol until it waits for the peer. Gives how much of the input is done with.
    fn work(
        &mut self,
        input: &mut [u8],
        plain: &mut dyn FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> (usize, Result<(), Error>) {
        if let Side::Own(own) = &mut self.side {
            let (used, result) = own.records.receive(input, plain, out);
            self.progress.failed |= result.is_err();
            self.progress.peer_closed = own.records.is_peer_closed();
            return (used, result);
        }
        let mut used = 0;
        loop {
            let (discard, turn) = self.turn(&mut input[used..], plain, out);
            used += discard;
            match turn {
                Ok(true) => {}
                Ok(false) => return (used, Ok(())),
                Err(error) => {
                    self.progress.failed = true;
                    // What is queued now ends with the alert that says why.
                    // Asked for more than that the library would fail once more, over the same input.
                    let mut turns = 0;
                    while turns < QUEUED_MAX && self.common().is_some_and(CommonState::wants_write) {
                        turns += 1;
                        let _ = self.turn(&mut input[used..], plain, out);
                    }
                    return (used, Err(error));
                }
            }
        }
    }

    fn turn(
        &mut self,
        input: &mut [u8],
        plain: &mut dyn FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> (usize, Result<bool, Error>) {
        match &mut self.side {
            Side::Server(conn) => turn(&mut **conn, input, plain, out, &mut self.progress),
            Side::Client(conn) => turn(&mut **conn, input, plain, out, &mut self.progress),
            Side::Own(_) | Side::Quic(_) | Side::Over => (0, Err(Error::Over)),
        }
    }

    /// Seals `plain` in records as large as they may be, appended to `out`. Records of the handshake that wait come
    /// before them. [`Error::NotReady`]: the handshake is not far enough.
    pub fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let start = out.len();
        out.resize(start + self.sealed_len_max(plain.len()), 0);
        let filled = self.seal_into(plain, &mut out[start..]);
        out.truncate(start + filled.as_ref().map_or(0, |filled| *filled));
        filled.map(drop)
    }

    /// Room that [`Session::seal_into`] may take for so many bytes.
    pub fn sealed_len_max(&self, plain_len: usize) -> usize {
        plain_len + (plain_len.div_ceil(self.record_plain) + 1) * SEAL_OVERHEAD + CONTROL_BYTES
    }

    /// As [`Session::seal`], to the start of `room`; gives how much of it is filled.
    pub fn seal_into(&mut self, plain: &[u8], room: &mut [u8]) -> Result<usize, Error> {
        if !self.is_worth_own_records(plain.len()) || !self.may_take_over() {
            return self.write(Put::Data(plain), room);
        }
        // The library keeps its answer to a KeyUpdate until it is given data, so the first record is its own.
        let (first, rest) = plain.split_at(self.record_plain.min(plain.len()));
        let filled = self.write(Put::Data(first), room)?;
        self.take_over()?;
        Ok(filled + self.write(Put::Data(rest), &mut room[filled..])?)
    }

    /// Seals a close_notify (RFC 8446 §6.1): the peer knows then that nothing was cut off.
    pub fn close(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let mut room = [0; SEAL_OVERHEAD + CONTROL_BYTES];
        let filled = self.write(Put::Close, &mut room)?;
        out.extend_from_slice(&room[..filled]);
        Ok(())
    }

    /// Changes the own keys and asks the peer to change its (RFC 8446 §4.6.3), as long as records are the library's.
    pub fn update_keys(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let mut room = [0; SEAL_OVERHEAD + CONTROL_BYTES];
        let filled = self.write(Put::Keys, &mut room)?;
        out.extend_from_slice(&room[..filled]);
        Ok(())
    }

    fn write(&mut self, what: Put<'_>, room: &mut [u8]) -> Result<usize, Error> {
        if self.progress.failed {
            return Err(Error::Over);
        }
        // The library finds its way in what it has seen before: it must be shown it each time.
        match &mut self.side {
            Side::Server(conn) => write(&mut **conn, &mut self.left, what, room),
            Side::Client(conn) => write(&mut **conn, &mut self.left, what, room),
            Side::Own(own) => match what {
                Put::Data(plain) => own.records.seal(plain, self.record_plain, room),
                Put::Close => own.records.close(room),
                Put::Keys | Put::Nothing => Ok(0),
            },
            Side::Quic(_) | Side::Over => Err(Error::Over),
        }
    }

    /// Whether a session that seals `bytes` more has sealed enough. The kernel takes over from our own records, and its files
    /// are large: it is not made to wait.
    fn is_worth_own_records(&mut self, bytes: usize) -> bool {
        if bytes < OWN_PIECE_BYTES_MIN {
            return false;
        }
        self.sealed = self.sealed.saturating_add(bytes);
        self.sealed >= OWN_RECORDS_BYTES_MIN || self.sealing == Sealing::Kernel
    }

    /// Whether nothing stands against records of our own.
    fn may_take_over(&self) -> bool {
        let is_fit = self.progress.established && !self.progress.peer_closed && self.left.is_empty();
        is_fit && self.sealing != Sealing::Library && matches!(self.side, Side::Server(_))
    }

    /// From now on records are ours.
    fn take_over(&mut self) -> Result<(), Error> {
        if let Side::Server(conn) = std::mem::replace(&mut self.side, Side::Over) {
            let agreed = Agreed::of(&conn);
            let records = Records::take_over(*conn, self.sealing == Sealing::Kernel)?;
            self.side = Side::Own(Box::new(Own { records, agreed }));
        }
        Ok(())
    }

    /// What the kernel needs to seal `bytes` of plaintext and what follows: the value of the socket option TLS_TX
    /// (`linux/tls.h`). All that was sealed before must have left. Nothing if the kernel may not have it
    /// ([`Sealing::Kernel`]), or as long as not much was sealed. Whoever asks tells by
    /// [`Session::handed_over`] what has come of it.
    pub fn crypto_info(&self, bytes: u64) -> Option<Vec<u8>> {
        self.own().filter(|_| !self.progress.failed)?.records.crypto_info(bytes)
    }

    /// The kernel seals from now on if it has `taken` the key: it gets plaintext, and what this session puts out are alerts
    /// for it to seal. If not, it is not offered again.
    pub fn handed_over(&mut self, taken: bool) {
        if let Side::Own(own) = &mut self.side {
            own.records.handed_over(taken);
        }
    }

    /// The kernel seals.
    pub fn is_handed_over(&self) -> bool {
        self.own().is_some_and(|own| own.records.is_handed_over())
    }

    /// The kernel seals, and its key has served its time: nothing more is to be read, so that nothing more is to be said.
    pub fn is_retired(&self) -> bool {
        self.own().is_some_and(|own| own.records.is_retired())
    }

    /// To be told of each write of plaintext that the kernel has sealed. An error: nothing more may be written.
    pub fn sent_by_kernel(&mut self, bytes: u64) -> Result<(), Error> {
        match &mut self.side {
            Side::Own(own) => own.records.sent(bytes),
            _ => Err(Error::Over),
        }
    }

    /// What the library knows of the session, as long as it is the library's.
    fn common(&self) -> Option<&CommonState> {
        match &self.side {
            Side::Server(conn) => Some(conn),
            Side::Client(conn) => Some(conn),
            Side::Own(_) | Side::Quic(_) | Side::Over => None,
        }
    }

    fn own(&self) -> Option<&Own> {
        match &self.side {
            Side::Own(own) => Some(own),
            _ => None,
        }
    }

    fn agreed(&self) -> Option<&Agreed> {
        match &self.side {
            Side::Own(own) => Some(&own.agreed),
            Side::Quic(agreed) => Some(agreed),
            _ => None,
        }
    }

    /// The handshake is complete.
    pub fn is_established(&self) -> bool {
        self.progress.established
    }

    /// The peer has said that it sends nothing more.
    pub fn is_peer_closed(&self) -> bool {
        self.progress.peer_closed
    }

    /// Data has come in the client's first flight, and the handshake is not complete: it may be a replay.
    pub fn is_early(&self) -> bool {
        self.progress.early && !self.progress.established
    }

    /// There was an error.
    pub fn is_failed(&self) -> bool {
        self.progress.failed
    }

    /// Whether this side is the server. Of interest until the session is handed over to own code, which only servers do.
    pub fn is_server(&self) -> bool {
        !matches!(self.side, Side::Client(_))
    }

    /// Whether the handshake went on with an earlier session.
    pub fn is_resumed(&self) -> bool {
        match self.agreed() {
            Some(agreed) => agreed.is_resumed,
            None => self.common().is_some_and(agreed::is_resumed),
        }
    }

    /// `TLSv1.2`, `TLSv1.3`; nothing before it is agreed.
    pub fn version(&self) -> &'static str {
        match self.agreed() {
            Some(agreed) => agreed.version,
            None => self.common().map(agreed::version).unwrap_or_default(),
        }
    }

    /// OpenSSL's name of the cipher suite.
    pub fn cipher(&self) -> &'static str {
        match self.agreed() {
            Some(agreed) => agreed.cipher,
            None => self.common().map(agreed::cipher).unwrap_or_default(),
        }
    }

    /// OpenSSL's name of the group that keys were exchanged in.
    pub fn group(&self) -> &'static str {
        match self.agreed() {
            Some(agreed) => agreed.group,
            None => self.common().map(agreed::group).unwrap_or_default(),
        }
    }

    /// The protocol agreed on by ALPN.
    pub fn alpn(&self) -> Option<&[u8]> {
        match self.agreed() {
            Some(agreed) => agreed.alpn.as_deref(),
            None => self.common()?.alpn_protocol(),
        }
    }

    /// The peer's certificate and those it sent with it; empty without.
    pub fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        match self.agreed() {
            Some(agreed) => &agreed.peer_certificates,
            None => self.common().and_then(|common| common.peer_certificates()).unwrap_or_default(),
        }
    }
}

/// One turn of the protocol: how much input is done with, and whether to go on.
fn turn<C: Conn>(
    conn: &mut C,
    input: &mut [u8],
    plain: &mut dyn FnMut(&[u8]),
    out: &mut Vec<u8>,
    progress: &mut Progress,
) -> (usize, Result<bool, Error>) {
    let UnbufferedStatus { discard, state } = conn.process(input);
    let again = match state {
        Err(error) => Err(error.into()),
        Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
            match traffic.next_record() {
                Some(Ok(record)) => plain(record.payload),
                Some(Err(error)) => break Err(error.into()),
                None => break Ok(true),
            }
        },
        Ok(ConnectionState::ReadEarlyData(data)) => {
            progress.early = true;
            C::early(data, plain).map(|()| true)
        }
        Ok(ConnectionState::EncodeTlsData(mut data)) => encode(out, |room| data.encode(room)).map(|()| true),
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(true)
        }
        Ok(ConnectionState::PeerClosed) => {
            progress.peer_closed = true;
            Ok(true)
        }
        Ok(_) => Ok(false),
    };
    (discard, again)
}

/// What is to be sealed.
#[derive(Clone, Copy)]
enum Put<'a> {
    Data(&'a [u8]),
    Close,
    /// New keys, and a request for the peer's.
    Keys,
    /// Only what the library has to say before.
    Nothing,
}

fn write<C: Conn>(conn: &mut C, left: &mut [u8], mut what: Put<'_>, room: &mut [u8]) -> Result<usize, Error> {
    let refused = |error: &dyn std::fmt::Display| Error::Library(error.to_string());
    let mut filled = 0;
    loop {
        match conn.process(left).state? {
            ConnectionState::WriteTraffic(mut traffic) => {
                let written = match what {
                    Put::Keys => {
                        traffic.refresh_traffic_keys()?;
                        what = Put::Nothing;
                        continue;
                    }
                    Put::Data(plain) => traffic.encrypt(plain, &mut room[filled..]),
                    Put::Close => traffic.queue_close_notify(&mut room[filled..]),
                    Put::Nothing => Ok(0),
                };
                return Ok(filled + written.map_err(|error| refused(&error))?);
            }
            ConnectionState::EncodeTlsData(mut data) => {
                filled += data.encode(&mut room[filled..]).map_err(|error| refused(&error))?;
            }
            ConnectionState::TransmitTlsData(data) => data.done(),
            ConnectionState::PeerClosed => {}
            _ => return Err(Error::NotReady),
        }
    }
}

/// Appends what the library encodes. It says how much room it needs.
fn encode(
    out: &mut Vec<u8>,
    mut call: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<(), Error> {
    let start = out.len();
    let mut room = 0;
    loop {
        out.resize(start + room, 0);
        match call(&mut out[start..]) {
            Ok(count) => {
                out.truncate(start + count);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(need)) if need.required_size > room => {
                room = need.required_size;
            }
            Err(error) => {
                out.truncate(start);
                return Err(Error::Library(error.to_string()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issue::{Issued, Wish};
    use crate::{
        Certified, ClientContext, ClientOptions, Fixed, Offered, PrivateKey, ServerContext, ServerOptions,
        Versions,
    };
    use std::sync::Arc;

    fn take(session: &mut Session, bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let (mut plain, mut out) = (Vec::new(), Vec::new());
        let mut add = |text: &[u8]| plain.extend_from_slice(text);
        session.receive(&mut bytes.to_vec(), &mut add, &mut out).unwrap();
        (plain, out)
    }

    /// A server that seals its own records, but few with one key.
    fn limited(versions: Versions) -> (Session, Session) {
        let issued = Issued::new(&Wish::default(), None).unwrap();
        let key = PrivateKey::from_pem(issued.key_pem().as_bytes(), &[]).unwrap();
        let certified = Certified::new(vec![issued.certificate.clone()], &key, None).unwrap();
        let options = ServerOptions { versions, ..ServerOptions::default() };
        let server = ServerContext::new(&options, Arc::new(Fixed([certified].into()))).unwrap();
        let client = ClientContext::new(&ClientOptions::unverified()).unwrap();
        let (mut client, mut server) =
            (client.session("a.test", true).unwrap(), server.session(Offered::default()).unwrap());
        let mut to_server = take(&mut client, b"").1;
        while !to_server.is_empty() {
            let to_client = take(&mut server, &to_server).1;
            to_server = take(&mut client, &to_client).1;
        }
        let mut out = Vec::new();
        server.seal(&vec![7; OWN_RECORDS_BYTES_MIN], &mut out).unwrap();
        assert_eq!(take(&mut client, &out).0, vec![7; OWN_RECORDS_BYTES_MIN]);
        let Side::Own(own) = &mut server.side else { panic!("the library's") };
        own.records.limit(own.records.sealed() + 3);
        (client, server)
    }

    #[test]
    fn keys_are_changed_before_they_are_worn_out() {
        let (mut client, mut server) = limited(Versions { tls12: false, tls13: true });
        let text: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
        let mut out = Vec::new();
        server.seal(&text, &mut out).unwrap();
        assert!(take(&mut client, &out).0 == text);
        let mut out = Vec::new();
        client.seal(b"thanks", &mut out).unwrap();
        assert_eq!(take(&mut server, &out).0, b"thanks");
        // TLS 1.2 has no way to change them.
        let (_, mut server) = limited(Versions { tls12: true, tls13: false });
        assert!(server.seal(&text, &mut Vec::new()).is_err());
    }
}
