//! What a client does in handshakes: one [`ClientContext`] per place that connects, built once; it keeps the sessions.

use crate::error::Error;
use crate::limits::SESSIONS_MAX;
use crate::server::{Certified, handshake_signature, provider};
use crate::session::Session;
use crate::suites::{Groups, Suites, Versions};
use crate::trust::Trust;
use brisk_x509::{Purpose, Refusal, is_for_host};
use quinn_proto::crypto::rustls::QuicClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use std::fmt;
use std::sync::Arc;

/// Which servers are taken for what they say.
#[derive(Clone)]
pub enum Verification {
    /// Any.
    Off,
    /// Those whose certificates lead to a trusted one and are for the name that is asked for.
    On {
        /// Whom to trust.
        trust: Arc<Trust>,
        /// Intermediate certificates, at most.
        depth: u32,
    },
}

/// What a context is made of. There is no default, because none can say which authorities are trusted.
#[derive(Clone)]
pub struct ClientOptions {
    /// Versions that are offered.
    pub versions: Versions,
    /// Cipher suites that are offered.
    pub suites: Suites,
    /// Groups that are offered.
    pub groups: Groups,
    /// What is expected of the server's certificate.
    pub verification: Verification,
    /// Presented when the server asks for one.
    pub certificate: Option<Certified>,
    /// Protocols that are offered, the best first; empty: no ALPN.
    pub alpn: Vec<Vec<u8>>,
    /// No session is resumed.
    pub no_resumption: bool,
    /// Told of every secret, for tools that decrypt.
    pub key_log: Option<crate::server::KeyLogger>,
}

impl ClientOptions {
    /// What is usual besides: no certificate, no ALPN, sessions are resumed.
    pub fn new(verification: Verification) -> ClientOptions {
        ClientOptions {
            versions: Versions::default(),
            suites: Suites::default(),
            groups: Groups::default(),
            verification,
            certificate: None,
            alpn: Vec::new(),
            no_resumption: false,
            key_log: None,
        }
    }

    /// Takes any server: for load, and for servers whose certificates are not looked at by configuration.
    pub fn unverified() -> ClientOptions {
        ClientOptions::new(Verification::Off)
    }
}

/// See the module's head.
#[derive(Clone)]
pub struct ClientContext {
    pub(crate) named: Arc<ClientConfig>,
    /// The same without server_name.
    nameless: Arc<ClientConfig>,
    verification: Verification,
}

impl fmt::Debug for ClientContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientContext")
    }
}

/// Why a server's certificate is not taken. In nginx's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// The library refuses it.
    Refused(Refusal),
    /// It is for other names than this one.
    OtherName(String),
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distrust::Refused(refusal) => write!(f, "upstream SSL certificate verify error: {refusal}"),
            Distrust::OtherName(name) => write!(f, "upstream SSL certificate does not match \"{name}\""),
        }
    }
}

impl ClientContext {
    /// The error says which option cannot be had.
    pub fn new(options: &ClientOptions) -> Result<ClientContext, String> {
        let base = CryptoProvider {
            cipher_suites: options.suites.of(options.versions),
            kx_groups: options.groups.0.clone(),
            ..(**provider()).clone()
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(base))
            .with_protocol_versions(&options.versions.list())
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer));
        let mut config = match &options.certificate {
            None => builder.with_no_client_auth(),
            Some(certified) => {
                let resolver = SingleCertAndKey::from(certified.0.clone());
                builder.with_client_cert_resolver(Arc::new(resolver))
            }
        };
        config.alpn_protocols.clone_from(&options.alpn);
        config.resumption = if options.no_resumption {
            Resumption::disabled()
        } else {
            Resumption::in_memory_sessions(SESSIONS_MAX)
        };
        if let Some(logger) = &options.key_log {
            config.key_log = Arc::new(crate::server::Logger(logger.clone()));
        }
        let mut nameless = config.clone();
        nameless.enable_sni = false;
        Ok(ClientContext {
            named: Arc::new(config),
            nameless: Arc::new(nameless),
            verification: options.verification.clone(),
        })
    }

    /// The same with other protocols to offer by ALPN, the best first; none: no ALPN.
    #[must_use]
    pub fn offering(&self, alpn: &[Vec<u8>]) -> ClientContext {
        let other = |config: &ClientConfig| {
            let mut config = config.clone();
            config.alpn_protocols = alpn.to_vec();
            Arc::new(config)
        };
        ClientContext {
            named: other(&self.named),
            nameless: other(&self.nameless),
            verification: self.verification.clone(),
        }
    }

    /// The same with another certificate to present. Sessions are not resumed: they would be another's.
    #[must_use]
    pub fn presenting(&self, certified: &Certified) -> ClientContext {
        let other = |config: &ClientConfig| {
            let mut config = config.clone();
            config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified.0.clone()));
            config.resumption = Resumption::disabled();
            Arc::new(config)
        };
        ClientContext {
            named: other(&self.named),
            nameless: other(&self.nameless),
            verification: self.verification.clone(),
        }
    }

    /// A session with the server called `name`, which is sent to it if `send_name`. Its first input is empty.
    pub fn session(&self, name: &str, send_name: bool) -> Result<Session, Error> {
        let parsed = ServerName::try_from(name.to_string());
        // What cannot be sent as a name still has a place to keep its sessions at.
        let (config, name) = match parsed {
            Ok(name) if send_name => (&self.named, name),
            Ok(name) => (&self.nameless, name),
            Err(_) => (&self.nameless, ServerName::try_from("unnamed.invalid").expect("a host name")),
        };
        Ok(Session::client(UnbufferedClientConnection::new(config.clone(), name)?))
    }

    /// What QUIC's handshakes need of it. Clients of one context have their sessions in common. `early`: what is asked may go with a resumed
    /// session's first packets, where anybody may replay it. The error: it has no TLS 1.3.
    pub fn quic(&self, early: bool) -> Result<Arc<dyn quinn_proto::crypto::ClientConfig>, String> {
        let mut config = (*self.named).clone();
        config.enable_early_data = early;
        let config = QuicClientConfig::try_from(config).map_err(|error| error.to_string())?;
        Ok(Arc::new(config))
    }

    /// Whether the server is who it should be: to be asked when the handshake is complete, before anything is sent. Also
    /// resumed sessions are checked.
    pub fn check(&self, session: &Session, name: &str, now: i64) -> Result<(), Distrust> {
        self.check_chain(session.peer_certificates(), name, now)
    }

    /// As [`ClientContext::check`], of certificates (DER), the server's own first.
    pub fn check_chain(&self, chain: &[impl AsRef<[u8]>], name: &str, now: i64) -> Result<(), Distrust> {
        let Verification::On { trust, depth } = &self.verification else { return Ok(()) };
        let Some((leaf, extra)) = chain.split_first() else {
            return Err(Distrust::Refused(Refusal::MALFORMED));
        };
        trust.verify(leaf.as_ref(), extra, Purpose::Server, *depth, now).map_err(Distrust::Refused)?;
        if !is_for_host(leaf.as_ref(), name) {
            return Err(Distrust::OtherName(name.to_string()));
        }
        Ok(())
    }
}

/// Takes any certificate of which the server has the key; [`ClientContext::check`] looks at it.
#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
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
