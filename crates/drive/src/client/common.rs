//! How clients behave, and what all clients of a thread share.

use super::line::Network;
use brisk_load::h3::ClientSettings;
use brisk_load::plan::Resolve;
use brisk_load::proxy::Proxy;
use brisk_tls::{ClientContext, ClientOptions, Trust, Verification};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Which versions of HTTP are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// HTTP/2 if TLS agrees on it, else HTTP/1.1.
    #[default]
    Any,
    /// HTTP/1.1 alone.
    H1,
    /// HTTP/2 alone: by ALPN with TLS, by prior knowledge without (RFC 9113 §3.3).
    H2,
    /// HTTP/3 alone, over QUIC; it is not tried over TCP first, and nothing is tried behind it.
    H3,
}

/// How a client behaves.
#[derive(Clone)]
pub struct Options {
    /// What is spoken.
    pub version: Version,
    /// Any certificate is taken.
    pub insecure: bool,
    /// The longest time for one exchange, connecting included.
    pub timeout: Duration,
    /// Bytes of a body that are kept; what exceeds them is counted and dropped.
    pub body_max: usize,
    /// Idle HTTP/1.1 connections are kept for the next exchange.
    pub keep_alive: bool,
    /// TLS sessions are resumed.
    pub resume: bool,
    /// Over HTTP/3, requests that may be replayed go with a resumed session's first packets (0-RTT).
    pub early: bool,
    /// Where names are, in place of look-ups.
    pub resolve: Vec<Resolve>,
    /// What requests go through.
    pub proxy: Option<Proxy>,
    /// Each client's access to the network; None for what the machine has.
    pub network: Option<Network>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            version: Version::Any,
            insecure: false,
            timeout: Duration::from_secs(30),
            body_max: 64 << 20,
            keep_alive: true,
            resume: true,
            early: false,
            resolve: Vec::new(),
            proxy: None,
            network: None,
        }
    }
}

/// What all clients of a thread share: TLS settings and looked-up names.
pub struct Common {
    pub(crate) options: Options,
    pub(crate) tls: ClientContext,
    quic: OnceCell<ClientSettings>,
    pub(crate) names: RefCell<HashMap<(String, u16), Vec<SocketAddr>>>,
}

/// Where Debian, Fedora and SUSE keep the authorities that everyone trusts.
const AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];

impl Common {
    /// Reads the system's authorities, unless any certificate is taken.
    pub fn new(options: Options) -> Result<Rc<Self>, String> {
        let alpn: &[&[u8]] = match options.version {
            Version::Any => &[b"h2", b"http/1.1"],
            Version::H1 => &[b"http/1.1"],
            Version::H2 => &[b"h2"],
            Version::H3 => &[b"h3"],
        };
        let verification = if options.insecure {
            Verification::Off
        } else {
            Verification::On { trust: Arc::new(system_trust()), depth: 8 }
        };
        let tls = ClientContext::new(&ClientOptions {
            alpn: alpn.iter().map(|name| name.to_vec()).collect(),
            no_resumption: !options.resume,
            ..ClientOptions::new(verification)
        })?;
        let known = |known: &Resolve| {
            let at = SocketAddr::new(known.address, known.port);
            ((known.host.to_ascii_lowercase(), known.port), vec![at])
        };
        let names = RefCell::new(options.resolve.iter().map(known).collect());
        Ok(Rc::new(Self { options, tls, quic: OnceCell::new(), names }))
    }

    /// What connections of HTTP/3 have in common. The error says what the TLS library has against it.
    pub(crate) fn quic(&self) -> Result<&ClientSettings, String> {
        if self.quic.get().is_none() {
            let _ = self.quic.set(ClientSettings::new(&self.tls, self.options.early)?);
        }
        self.quic.get().ok_or_else(|| "QUIC has no settings".to_owned())
    }
}

/// The authorities of this machine, or of `SSL_CERT_FILE`; none if there are none: then every certificate is refused.
fn system_trust() -> Trust {
    let mut trust = Trust::default();
    let own = std::env::var_os("SSL_CERT_FILE");
    let paths = own.iter().map(Path::new).chain(AUTHORITIES.iter().map(Path::new));
    for path in paths {
        if let Ok(text) = std::fs::read(path)
            && trust.add(&text).is_ok()
        {
            break;
        }
    }
    trust
}
