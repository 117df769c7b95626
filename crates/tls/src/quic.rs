//! Handshakes over QUIC (RFC 9001): a session that is made when the ClientHello is known, as over TCP.
//!
//! The library's interface to TLS makes the session before the first byte has been looked at. [`Handshake`] therefore gives it
//! one that collects the ClientHello first, which is two packets with keys of today, has the connection's owner [choose](Choose)
//! what answers it, and then hands everything to the TLS library. No I/O, no clock.

use crate::agreed::Agreed;
use crate::hello::{Hello, NoHello, Parsed};
use crate::limits::HELLO_BYTES_MAX;
use crate::server::{ServerContext, provider};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::pki_types::CertificateDer;
use rustls::quic::{KeyChange, Secrets, ServerConnection, Suite};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::any::Any;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What the chooser wants kept with the connection; it comes back by [`Handshake::take_kept`].
pub type Kept = Box<dyn Any + Send>;

/// Where a connection came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The socket, by the number that its owner has given it.
    pub socket: u32,
    /// The client's address, which need not be validated yet.
    pub remote: SocketAddr,
    /// The address that the client has sent to, if the system tells it.
    pub local: Option<SocketAddr>,
}

/// What is to become of a handshake.
pub enum Choice {
    /// It goes on with this context, which was made for [`Transport::Quic`](crate::Transport::Quic).
    Begin(ServerContext, Kept),
    /// Something must be read first. What is kept tells what; [`Handshake::decide`] goes on.
    Wait(Kept),
    /// It is refused with this alert.
    Refuse(NoHello),
}

/// Decides about handshakes when their ClientHello has come. It must not wait for anything.
pub trait Choose: Send + Sync {
    /// The ClientHello of one connection.
    fn choose(&self, origin: &Origin, hello: Hello) -> Choice;
}

/// One connection's handshake, as its owner sees it.
pub struct Handshake {
    choose: Arc<dyn Choose>,
    origin: Origin,
    desk: Mutex<Desk>,
}

/// What session and owner leave for each other.
#[derive(Default)]
struct Desk {
    kept: Option<Kept>,
    /// The session waits for a decision.
    waits: bool,
    decided: Option<Choice>,
}

impl Handshake {
    /// Nothing has come yet.
    pub fn new(choose: Arc<dyn Choose>, origin: Origin) -> Arc<Handshake> {
        Arc::new(Handshake { choose, origin, desk: Mutex::default() })
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the chooser wanted kept, once.
    pub fn take_kept(&self) -> Option<Kept> {
        self.desk().kept.take()
    }

    /// Whether [`Choice::Wait`] was the last choice.
    pub fn waits(&self) -> bool {
        self.desk().waits
    }

    /// Ends a wait. The connection's handshake is to be driven afterwards.
    pub fn decide(&self, choice: Choice) {
        let mut desk = self.desk();
        if desk.waits && !matches!(choice, Choice::Wait(_)) {
            (desk.waits, desk.decided) = (false, Some(choice));
        }
    }
}

impl crypto::ServerConfig for Handshake {
    fn initial_keys(&self, version: u32, dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        crypto::ServerConfig::initial_keys(initial(), version, dst_cid)
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        initial().retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(
        self: Arc<Self>,
        version: u32,
        parameters: &TransportParameters,
    ) -> Box<dyn crypto::Session> {
        let mut bytes = Vec::new();
        parameters.write(&mut bytes);
        Box::new(Session {
            handshake: self,
            version,
            parameters: bytes,
            state: State::Hello(Vec::new()),
            next: None,
        })
    }
}

/// What protects packets before there are secrets is the same for all (RFC 9001 §5.2, §5.8).
fn initial() -> &'static QuicServerConfig {
    static CONFIG: OnceLock<QuicServerConfig> = OnceLock::new();
    CONFIG.get_or_init(|| {
        let config = rustls::ServerConfig::builder_with_provider(provider().clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the library has TLS 1.3")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(NoCertificate));
        QuicServerConfig::with_initial(Arc::new(config), initial_suite())
            .expect("it is the suite of Initial packets")
    })
}

/// AEAD_AES_128_GCM, whatever the handshake agrees on.
fn initial_suite() -> Suite {
    let suites = provider().cipher_suites.iter();
    let wanted = rustls::CipherSuite::TLS13_AES_128_GCM_SHA256;
    let suite = suites.filter(|suite| suite.suite() == wanted).find_map(|suite| suite.tls13()?.quic_suite());
    suite.expect("the library has the suite that QUIC requires")
}

#[derive(Debug)]
struct NoCertificate;

impl ResolvesServerCert for NoCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}

enum State {
    /// A ClientHello that is not all there.
    Hello(Vec<u8>),
    /// A whole one, about which is not decided.
    Undecided(Vec<u8>),
    Started(Box<ServerConnection>),
    Refused,
}

struct Session {
    handshake: Arc<Handshake>,
    version: u32,
    parameters: Vec<u8>,
    state: State,
    next: Option<Secrets>,
}

impl Session {
    fn started(&self) -> Option<&ServerConnection> {
        match &self.state {
            State::Started(conn) => Some(conn),
            _ => None,
        }
    }

    /// More of the ClientHello. True when the library has it.
    fn hello(&mut self, mut bytes: Vec<u8>, more: &[u8]) -> Result<bool, TransportError> {
        bytes.extend_from_slice(more);
        if bytes.len() > HELLO_BYTES_MAX + 4 {
            return Err(TransportErrorCode::CRYPTO_BUFFER_EXCEEDED.into());
        }
        let hello = match Hello::parse_message(&bytes) {
            Ok(Parsed::Complete(hello)) => *hello,
            Ok(Parsed::Partial) => {
                self.state = State::Hello(bytes);
                return Ok(false);
            }
            Err(wrong) => return Err(refusal(&wrong)),
        };
        let choice = self.handshake.choose.choose(&self.handshake.origin, hello);
        self.follow(bytes, choice)
    }

    /// Does what was chosen. True when the library has the ClientHello.
    fn follow(&mut self, bytes: Vec<u8>, choice: Choice) -> Result<bool, TransportError> {
        self.state = State::Refused;
        let (context, kept) = match choice {
            Choice::Begin(context, kept) => (context, kept),
            Choice::Wait(kept) => {
                let mut desk = self.handshake.desk();
                (desk.waits, desk.kept) = (true, Some(kept));
                drop(desk);
                self.state = State::Undecided(bytes);
                return Ok(false);
            }
            Choice::Refuse(wrong) => return Err(refusal(&wrong)),
        };
        self.handshake.desk().kept = Some(kept);
        let offered = match Hello::parse_message(&bytes) {
            Ok(Parsed::Complete(hello)) => hello.offered,
            _ => return Err(TransportErrorCode::INTERNAL_ERROR.into()),
        };
        let conn = context.quic_session(offered, std::mem::take(&mut self.parameters));
        // Contexts without TLS 1.3 cannot answer over QUIC.
        let mut conn = conn.map_err(|error| crypto_error(PROTOCOL_VERSION, error.to_string()))?;
        read(&mut conn, &bytes)?;
        self.state = State::Started(Box::new(conn));
        Ok(true)
    }
}

/// The certificates that the library has of a server, its own first; none if it has none.
pub fn chain_of(identity: Option<Box<dyn Any>>) -> Vec<Vec<u8>> {
    let chain = identity.and_then(|identity| identity.downcast::<Vec<CertificateDer<'static>>>().ok());
    chain.map_or_else(Vec::new, |chain| chain.iter().map(|cert| cert.to_vec()).collect())
}

/// RFC 8446 §6.2.
const PROTOCOL_VERSION: u8 = 70;

fn crypto_error(alert: u8, reason: String) -> TransportError {
    TransportError { code: TransportErrorCode::crypto(alert), frame: None, reason }
}

fn refusal(wrong: &NoHello) -> TransportError {
    crypto_error(wrong.alert, wrong.reason.to_string())
}

fn read(conn: &mut ServerConnection, bytes: &[u8]) -> Result<(), TransportError> {
    conn.read_hs(bytes).map_err(|error| match conn.alert() {
        Some(alert) => crypto_error(alert.into(), error.to_string()),
        None => TransportError {
            code: TransportErrorCode::PROTOCOL_VIOLATION,
            frame: None,
            reason: error.to_string(),
        },
    })
}

fn pair<H: HeaderKey + 'static, P: PacketKey + 'static>(local: (H, P), remote: (H, P)) -> Keys {
    Keys {
        header: KeyPair { local: Box::new(local.0), remote: Box::new(remote.0) },
        packet: KeyPair { local: Box::new(local.1), remote: Box::new(remote.1) },
    }
}

impl crypto::Session for Session {
    fn initial_keys(&self, dst_cid: &ConnectionId, _: Side) -> Keys {
        crypto::ServerConfig::initial_keys(initial(), self.version, dst_cid)
            .unwrap_or_else(|_| unreachable!("a version without keys starts no session"))
    }

    /// [`Agreed`], as soon as the ClientHello is answered.
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let conn = self.started()?;
        Some(Box::new(Agreed::of(conn)))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.started()?.zero_rtt_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.started().is_none_or(|conn| conn.is_handshaking())
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        match std::mem::replace(&mut self.state, State::Refused) {
            State::Hello(before) => self.hello(before, bytes),
            State::Undecided(hello) => {
                // RFC 9001 §4.1.3: nothing follows a ClientHello in Initial packets.
                if !bytes.is_empty() {
                    return Err(TransportErrorCode::PROTOCOL_VIOLATION.into());
                }
                let decided = self.handshake.desk().decided.take();
                if let Some(choice) = decided {
                    return self.follow(hello, choice);
                }
                self.state = State::Undecided(hello);
                Ok(false)
            }
            State::Started(mut conn) => {
                let done = read(&mut conn, bytes);
                self.state = State::Started(conn);
                done.map(|()| false)
            }
            State::Refused => Err(TransportErrorCode::PROTOCOL_VIOLATION.into()),
        }
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(mut bytes) = self.started().and_then(|conn| conn.quic_transport_parameters()) else {
            return Ok(None);
        };
        Ok(Some(TransportParameters::read(Side::Server, &mut bytes)?))
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let State::Started(conn) = &mut self.state else { return None };
        let keys = match conn.write_hs(out)? {
            KeyChange::Handshake { keys } => keys,
            KeyChange::OneRtt { keys, next } => {
                self.next = Some(next);
                keys
            }
        };
        let (local, remote) = (keys.local, keys.remote);
        Some(pair((local.header, local.packet), (remote.header, remote.packet)))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    /// Servers get no Retry.
    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        false
    }

    /// Nothing here asks for more keys.
    fn export_keying_material(
        &self,
        _: &mut [u8],
        _: &[u8],
        _: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}
