//! What a server does in handshakes: one [`ServerContext`] per virtual host, built once.

use crate::certificate::Certificate;
use crate::error::Error;
use crate::hello::Offered;
use crate::key::PrivateKey;
use crate::limits::{EARLY_DATA_BYTES_MAX, RECORD_PLAIN_MAX, TICKET_LIFETIME_SECS_MAX};
use crate::session::Session;
use crate::sessions::{ContextSessions, SessionCache};
use crate::skip::{Skip, Witness};
use crate::suites::{Groups, Suites, Versions};
use crate::ticket::{TicketKeys, Ticketer};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::compress::CompressionCache;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, UnbufferedServerConnection};
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{
    DigitallySignedStruct, DistinguishedName, KeyLog, PeerMisbehaved, ServerConfig, SignatureAlgorithm,
    SignatureScheme,
};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The library's primitives.
pub(crate) fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
}

/// A certificate with its chain and its key, ready to be presented.
#[derive(Clone, Debug)]
pub struct Certified(pub(crate) Arc<CertifiedKey>);

impl Certified {
    /// `chain`: DER, the certificate first. `staple`: an OCSP response to be sent with it.
    pub fn new(chain: Vec<Vec<u8>>, key: &PrivateKey, staple: Option<Vec<u8>>) -> Result<Certified, String> {
        let chain = chain.into_iter().map(CertificateDer::from).collect();
        let mut key = CertifiedKey::new(chain, key.signer()?);
        key.ocsp = staple;
        Ok(Certified(Arc::new(key)))
    }

    /// The same with another OCSP response.
    #[must_use]
    pub fn stapled(&self, staple: Option<Vec<u8>>) -> Certified {
        let mut key = (*self.0).clone();
        key.ocsp = staple;
        Certified(Arc::new(key))
    }

    /// The certificates that are sent, its own first.
    pub fn chain(&self) -> impl Iterator<Item = &[u8]> {
        self.0.cert.iter().map(|cert| &cert[..])
    }

    /// The certificate itself.
    pub fn leaf(&self) -> &[u8] {
        self.0.cert.first().map(|cert| &cert[..]).unwrap_or_default()
    }
}

/// Where a context gets its certificates from, at each handshake.
pub trait Certificates: fmt::Debug + Send + Sync {
    /// The certificates to choose from; the one whose key the client's signature schemes prefer is presented.
    fn get(&self) -> Arc<[Certified]>;
}

/// Certificates that never change.
#[derive(Debug)]
pub struct Fixed(pub Arc<[Certified]>);

impl Certificates for Fixed {
    fn get(&self) -> Arc<[Certified]> {
        self.0.clone()
    }
}

/// Writes a line of a key log.
pub type KeyLogger = Arc<dyn Fn(&str) + Send + Sync>;

/// How sessions are resumed.
#[derive(Clone, Debug, Default)]
pub struct Resumption {
    /// The keys that tickets are sealed with.
    pub tickets: Option<Arc<TicketKeys>>,
    /// Sessions that are kept here.
    pub cache: Option<Arc<SessionCache>>,
    /// Seconds.
    pub timeout: u32,
}

/// What seals the records of a session that sends much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sealing {
    /// The TLS library, as those of any other.
    Library,
    /// The session itself, which copies less.
    #[default]
    Own,
    /// The session itself, or the kernel, which may get the keys ([`Session::crypto_info`]).
    Kernel,
}

/// What a context is made of.
#[derive(Clone)]
pub struct ServerOptions {
    /// Versions that are spoken.
    pub versions: Versions,
    /// Cipher suites.
    pub suites: Suites,
    /// Groups for the exchange of keys.
    pub groups: Groups,
    /// Signature schemes that the server uses; `None`: all that its key has.
    pub schemes: Option<Vec<u16>>,
    /// The server's order of suites counts, not the client's.
    pub prefer_server: bool,
    /// Plaintext of one record, at most.
    pub record_plain: usize,
    /// The server's order counts.
    pub alpn: Vec<Vec<u8>>,
    /// Clients are asked for a certificate, and told that these authorities (certificates as DER) are known here.
    pub client_authorities: Option<Vec<Vec<u8>>>,
    /// How sessions are resumed.
    pub resumption: Resumption,
    /// Sessions are resumed only in contexts with the same value.
    pub context: [u8; 32],
    /// Clients that come with a session may send data behind their ClientHello (RFC 8446 §4.2.10).
    pub early_data: bool,
    /// Certificates are compressed for clients that can read that (RFC 8879).
    pub compress_certificates: bool,
    /// See [`Sealing`].
    pub sealing: Sealing,
    /// Told of every secret, for tools that decrypt.
    pub key_log: Option<KeyLogger>,
    /// See [`Transport`].
    pub transport: Transport,
}

/// What carries the handshake. Sessions of one are not resumed over the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// Records over TCP.
    #[default]
    Tcp,
    /// QUIC (RFC 9001): TLS 1.3 only.
    Quic,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            versions: Versions::default(),
            suites: Suites::default(),
            groups: Groups::default(),
            schemes: None,
            prefer_server: false,
            record_plain: RECORD_PLAIN_MAX,
            alpn: Vec::new(),
            client_authorities: None,
            resumption: Resumption::default(),
            context: [0; 32],
            early_data: false,
            compress_certificates: false,
            sealing: Sealing::default(),
            key_log: None,
            transport: Transport::default(),
        }
    }
}

/// What handshakes of a virtual host need. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ServerContext {
    config: Arc<ServerConfig>,
    /// The same for clients that come with a session: as from OpenSSL they get one ticket, for the one that they use up.
    returning: Arc<ServerConfig>,
    schemes: Option<Arc<[SignatureScheme]>>,
    record_plain: usize,
    sealing: Sealing,
}

impl ServerContext {
    /// The error says which option cannot be had.
    pub fn new(
        options: &ServerOptions,
        certificates: Arc<dyn Certificates>,
    ) -> Result<ServerContext, String> {
        let base = CryptoProvider {
            cipher_suites: options.suites.of(options.versions),
            kx_groups: options.groups.0.clone(),
            ..(**provider()).clone()
        };
        let builder = ServerConfig::builder_with_provider(Arc::new(base))
            .with_protocol_versions(&options.versions.list())
            .map_err(|error| error.to_string())?;
        let builder = match &options.client_authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) => builder.with_client_cert_verifier(Arc::new(AnyClient::new(authorities))),
        };
        let schemes: Option<Arc<[SignatureScheme]>> = options
            .schemes
            .as_ref()
            .map(|schemes| schemes.iter().map(|&number| SignatureScheme::from(number)).collect());
        let resolver = Resolver { certificates, schemes: schemes.clone() };
        let mut config = builder.with_cert_resolver(Arc::new(resolver));
        config.ignore_client_order = options.prefer_server;
        config.max_fragment_size = Some(options.record_plain.clamp(27, RECORD_PLAIN_MAX) + 5);
        config.alpn_protocols.clone_from(&options.alpn);
        config.enable_secret_extraction = true;
        resume(&mut config, options);
        if options.compress_certificates {
            config.cert_compressors = crate::compress::COMPRESSORS.to_vec();
            config.cert_compression_cache = Arc::new(CompressionCache::default());
        } else {
            config.cert_compressors = Vec::new();
        }
        if let Some(logger) = &options.key_log {
            config.key_log = Arc::new(Logger(logger.clone()));
        }
        let (config, returning) = both(config);
        let ServerOptions { record_plain, sealing, .. } = *options;
        Ok(ServerContext { config, returning, schemes, record_plain, sealing })
    }

    /// The same with other certificates.
    #[must_use]
    pub fn with_certificates(&self, certificates: Arc<dyn Certificates>) -> ServerContext {
        let mut config = (*self.config).clone();
        config.cert_resolver = Arc::new(Resolver { certificates, schemes: self.schemes.clone() });
        let (config, returning) = both(config);
        ServerContext { config, returning, ..self.clone() }
    }

    /// A session of a client that has just connected, and has `offered` something in its ClientHello
    /// ([`crate::Hello::offered`]). Its first input is the whole ClientHello.
    pub fn session(&self, offered: Offered) -> Result<Session, Error> {
        let config = if offered.session { &self.returning } else { &self.config };
        let (mut config, mut skip) = (config.clone(), None);
        if offered.early_data {
            let witness = Arc::new(Witness::new(config.key_log.clone()));
            Arc::make_mut(&mut config).key_log = witness.clone();
            skip = Some(Box::new(Skip::new(witness)));
        }
        let conn = UnbufferedServerConnection::new(config)?;
        Ok(Session::server(conn, self.record_plain, self.sealing, skip))
    }

    /// The same over QUIC, for a context of [`Transport::Quic`]. `parameters`: the transport parameters as they are sent
    /// (RFC 9001 §8.2).
    pub(crate) fn quic_session(
        &self,
        offered: Offered,
        parameters: Vec<u8>,
    ) -> Result<rustls::quic::ServerConnection, rustls::Error> {
        let config = if offered.session { &self.returning } else { &self.config };
        rustls::quic::ServerConnection::new(config.clone(), rustls::quic::Version::V1, parameters)
    }
}

/// For clients that are new, and for those that come with a session.
fn both(config: ServerConfig) -> (Arc<ServerConfig>, Arc<ServerConfig>) {
    let mut returning = config.clone();
    returning.send_tls13_tickets = 1;
    (Arc::new(config), Arc::new(returning))
}

/// Tickets, a cache, or neither. Early data (RFC 8446 §8) needs sessions that are taken once, by one thread: those are in a
/// cache, never in tickets.
fn resume(config: &mut ServerConfig, options: &ServerOptions) {
    let Resumption { tickets, cache, timeout } = &options.resumption;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if let Some(cache) = cache {
        let timeout = u64::from(*timeout);
        let context = session_context(options);
        config.session_storage = Arc::new(ContextSessions { cache: cache.clone(), context, timeout });
    }
    if options.early_data && cache.is_some() {
        config.max_early_data_size = match options.transport {
            Transport::Tcp => EARLY_DATA_BYTES_MAX,
            // RFC 9001 §4.6.1: flow control bounds it.
            Transport::Quic => u32::MAX,
        };
        config.send_half_rtt_data = true;
    } else if let Some(keys) = tickets {
        config.ticketer = Arc::new(Ticketer {
            keys: keys.clone(),
            context: session_context(options),
            lifetime: (*timeout).min(TICKET_LIFETIME_SECS_MAX),
        });
    }
    config.send_tls13_tickets = 2;
}

/// Sessions of QUIC hold transport parameters, those of TCP do not: neither finds the other's.
fn session_context(options: &ServerOptions) -> [u8; 32] {
    match options.transport {
        Transport::Tcp => options.context,
        Transport::Quic => context_id(&[&options.context[..], b"quic"].concat()),
    }
}

pub(crate) struct Logger(pub KeyLogger);

impl fmt::Debug for Logger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Logger")
    }
}

impl KeyLog for Logger {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let hex = crate::certificate::hex;
        self.0(&format!("{label} {} {}\n", hex(client_random), hex(secret)));
    }
}

#[derive(Debug)]
struct Resolver {
    certificates: Arc<dyn Certificates>,
    schemes: Option<Arc<[SignatureScheme]>>,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let all = self.certificates.get();
        let is_ours =
            |scheme: &&SignatureScheme| self.schemes.as_ref().is_none_or(|ours| ours.contains(scheme));
        for scheme in hello.signature_schemes().iter().filter(is_ours) {
            let fits = |one: &&Certified| one.0.key.choose_scheme(&[*scheme]).is_some();
            // Of several with keys of one kind the last one counts, as in nginx.
            if let Some(found) = all.iter().rev().find(fits) {
                return Some(self.limited(&found.0));
            }
        }
        // None fits; the library says why.
        all.first().map(|first| self.limited(&first.0))
    }
}

impl Resolver {
    fn limited(&self, key: &Arc<CertifiedKey>) -> Arc<CertifiedKey> {
        match &self.schemes {
            None => key.clone(),
            Some(schemes) => {
                let limited = Limited { key: key.key.clone(), schemes: schemes.clone() };
                Arc::new(CertifiedKey { key: Arc::new(limited), ..(**key).clone() })
            }
        }
    }
}

/// A key that signs by some schemes only.
#[derive(Debug)]
struct Limited {
    key: Arc<dyn SigningKey>,
    schemes: Arc<[SignatureScheme]>,
}

impl SigningKey for Limited {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let both: Vec<_> = self.schemes.iter().filter(|scheme| offered.contains(scheme)).copied().collect();
        self.key.choose_scheme(&both)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.key.algorithm()
    }
}

/// Takes any certificate of which the client has the key. Whether it is trusted is asked later, because an untrusted one is
/// answered with a page, not with an alert.
#[derive(Debug)]
struct AnyClient {
    authorities: Vec<DistinguishedName>,
}

impl AnyClient {
    fn new(authorities: &[Vec<u8>]) -> AnyClient {
        let mut names: Vec<Vec<u8>> = Vec::new();
        for der in authorities {
            if let Ok(cert) = Certificate::parse(der)
                && !names.iter().any(|have| have == cert.subject)
            {
                names.push(cert.subject.to_vec());
            }
        }
        AnyClient { authorities: names.into_iter().map(DistinguishedName::from).collect() }
    }
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.authorities
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        handshake_signature(message, cert, signed, false)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        handshake_signature(message, cert, signed, true)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Whether the key of `cert` has signed the handshake. In TLS 1.3 a scheme means one curve (RFC 8446 §4.2.3).
pub(crate) fn handshake_signature(
    message: &[u8],
    cert: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    is_13: bool,
) -> Result<HandshakeSignatureValid, rustls::Error> {
    let bad = |why: rustls::CertificateError| rustls::Error::InvalidCertificate(why);
    let is_pkcs1 = matches!(
        signed.scheme,
        SignatureScheme::RSA_PKCS1_SHA256
            | SignatureScheme::RSA_PKCS1_SHA384
            | SignatureScheme::RSA_PKCS1_SHA512
    );
    let mapping = provider().signature_verification_algorithms.mapping;
    let algorithms = mapping.iter().find(|(scheme, _)| *scheme == signed.scheme && !(is_13 && is_pkcs1));
    let Some((_, algorithms)) = algorithms else {
        return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
    };
    let cert = Certificate::parse(cert).map_err(|_| bad(rustls::CertificateError::BadEncoding))?;
    let algorithms = if is_13 { &algorithms[..1] } else { algorithms };
    let algorithm = algorithms.iter().find(|a| a.public_key_alg_id().as_ref() == cert.key_algorithm);
    let algorithm = algorithm.ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
    algorithm
        .verify_signature(cert.key, message, signed.signature())
        .map_err(|_| bad(rustls::CertificateError::BadSignature))?;
    Ok(HandshakeSignatureValid::assertion())
}

/// The value of [`ServerOptions::context`] for a description of what sessions are for.
pub fn context_id(text: &[u8]) -> [u8; 32] {
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text);
    hash.as_ref().try_into().expect("32 bytes")
}
